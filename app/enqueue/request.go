package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Request describes one job. Its keys are those of a line of a batch.
type Request struct {
	Name            string   `json:"name"`
	Tag             []string `json:"tag"`
	After           []string `json:"after"`
	Need            []string `json:"need"`
	Produce         []string `json:"produce"`
	Lock            []string `json:"lock"`
	Pool            []string `json:"pool"`
	MissingProducer string   `json:"missing_producer"`
	Pinned          string   `json:"pinned"`
	Require         []string `json:"require"`
	Approval        bool     `json:"approval"`
	ApprovalTimeout string   `json:"approval_timeout"`
	Timeout         string   `json:"timeout"`
	Estimate        string   `json:"estimate"`
	Retries         int      `json:"retries"`
	RetryOn         []string `json:"retry_on"`
	MaxResumes      *int     `json:"max_resumes"`
	MaxReclaims     *int     `json:"max_reclaims"`
	Idempotent      bool     `json:"idempotent"`
	InDoubt         string   `json:"in_doubt"`
	Resumable       bool     `json:"resumable"`
	IdempotencyKey  *string  `json:"idempotency_key"`
	Transient       string   `json:"transient"`
	Cwd             string   `json:"cwd"`
	Env             []string `json:"env"`
	Secret          []string `json:"secret"`
	Executor        string   `json:"executor"`
	Option          []string `json:"options"`
	Sandbox         string   `json:"sandbox"`
	Write           []string `json:"write"`
	Network         string   `json:"network"`
	Container       string   `json:"container"`
	Command         []string `json:"command"`
}

// Default budgets of single jobs: how often a job that allows it is reclaimed
// from a lost runner, and resumed after a time-out.
const (
	defaultReclaims = 2
	defaultResumes  = 3
)

// Maximum lengths in bytes: of an idempotency key, and of what else jobs are looked up by.
const (
	maxKey  = 512
	maxWord = 1024
)

// checkLengths returns an error if a word is too long by which jobs are looked up: an index holds it, and would be slow
// for all jobs.
func checkLengths(q Request) error {
	for _, f := range []struct {
		flag  string
		words []string
	}{{"name", []string{q.Name}}, {"need", q.Need}, {"produce", q.Produce}, {"lock", q.Lock}, {"pool", q.Pool}, {"require", q.Require}} {
		for _, word := range f.words {
			if len(word) > maxWord {
				return fmt.Errorf("--%s %.40q…: it has %d bytes, and %d are the most: %w", f.flag, word, len(word), maxWord, kernel.ErrInvalid)
			}
		}
	}
	return nil
}

// newJob makes the job of a request, with the predecessors of before. Its error
// has those of wrong, too.
func (t *Builder) newJob(ctx context.Context, q Request, before kernel.Spec, wrong ...error) (kernel.NewJob, error) {
	errs := wrong
	fail := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	spec := kernel.Spec{Name: q.Name, After: before.After, AfterAny: before.AfterAny, Resumable: q.Resumable, Idempotent: q.Idempotent}
	spec.Origin = t.Origin
	if len(q.Command) == 0 {
		fail(fmt.Errorf("expected a command: vizier submit [flags] -- COMMAND [ARG...]: %w", kernel.ErrInvalid))
	}
	fail(checkCommand(q.Command))
	fail(checkLengths(q))
	err := kernel.CheckName(q.Name)
	if err != nil {
		err = fmt.Errorf("--name %w", err)
	}
	fail(err)
	spec.Tags, err = Tags(q.Tag)
	fail(err)
	spec.Needs, err = artifacts("need", q.Need)
	fail(err)
	spec.Produces, err = artifacts("produce", q.Produce)
	fail(err)
	spec.Locks, err = locks(q)
	fail(err)
	spec.Preconditions, err = preconditions(q.Require)
	fail(err)
	spec.Pinned, err = t.pinned(ctx, q.Pinned)
	fail(err)
	if q.MissingProducer != "" {
		spec.MissingProducer, err = kernel.ParseMissingProducer(q.MissingProducer)
		fail(err)
		if spec.MissingProducer == kernel.Wait && len(q.Need) == 0 {
			fail(fmt.Errorf("--missing-producer wait has no effect on a job that needs no artifact: add --need ARTIFACT: %w", kernel.ErrInvalid))
		}
	}
	if q.Transient != "" {
		spec.Transient, err = kernel.ParseTransient(q.Transient)
		fail(err)
	}
	if key := q.IdempotencyKey; key != nil {
		if spec.IdempotencyKey = *key; *key == "" || len(*key) > maxKey || strings.ContainsRune(*key, 0) {
			fail(fmt.Errorf("--idempotency-key: expected 1 to %d bytes, none of them NUL: %w", maxKey, kernel.ErrInvalid))
		}
	}
	fail(budgets(q, &spec))
	spec.ApprovalTimeout, err = ApprovalTimeout(q.ApprovalTimeout, q.Approval || spec.InDoubtPolicy() == kernel.AskInDoubt, "--approval, or --in-doubt ask")
	fail(err)
	if q.Estimate != "" {
		d, err := time.ParseDuration(q.Estimate)
		if err != nil || d <= 0 {
			fail(fmt.Errorf("--estimate %q: expected a duration such as 90s or 2h: %w", q.Estimate, kernel.ErrInvalid))
		}
		spec.Estimate = d.Truncate(time.Microsecond)
	}
	spec.Task, err = t.task(q)
	fail(err)
	if spec.Task.Tree != "" && slices.Contains(spec.Preconditions, kernel.Precondition{Kind: kernel.CleanWorktree}) {
		fail(fmt.Errorf("--require clean_worktree is about the main working tree, and the job runs in %s: let its command look: %w", spec.Task.Tree, kernel.ErrInvalid))
	}
	n := kernel.NewJob{ID: t.Scheduler.NewID(), Spec: spec}
	if q.Approval {
		n.Approval = kernel.Require(t.Scheduler.Now(), t.By())
	}
	return n, errors.Join(errs...)
}

// mostWord is how many bytes a word of a command may have, or a variable with its name: Linux starts no program with a longer one.
const mostWord = 128<<10 - 1

// checkCommand returns an error for a command that cannot be started.
func checkCommand(command []string) error {
	if len(command) > 0 && command[0] == "" {
		return fmt.Errorf("the command's first word is empty: name a program: %w", kernel.ErrInvalid)
	}
	for i, word := range command {
		if strings.ContainsRune(word, 0) {
			return fmt.Errorf("word %d of the command has a NUL byte, which no program can be given: hand it over in a file: %w", i+1, kernel.ErrInvalid)
		}
		if len(word) > mostWord {
			return fmt.Errorf("word %d of the command has %d bytes, and a program can be given %d: hand it over in a file: %w", i+1, len(word), mostWord, kernel.ErrInvalid)
		}
	}
	return nil
}

// afterPolicy splits an --after value into the reference to a job and the ends
// of that job that are accepted.
func afterPolicy(ref string) (string, kernel.AfterPolicy) {
	if job, soft := strings.CutSuffix(ref, ":"+kernel.AfterAnyEnd.String()); soft {
		return job, kernel.AfterAnyEnd
	}
	return ref, kernel.AfterSuccess
}

// Tags parses labels of the form KEY=VALUE.
func Tags(texts []string) ([]kernel.Tag, error) {
	var out []kernel.Tag
	for _, text := range texts {
		t, err := kernel.ParseTag(text)
		if err != nil {
			return nil, fmt.Errorf("--tag: %w", err)
		}
		out = append(out, t)
	}
	return out, nil
}

// ApprovalTimeout parses how long an approval may take. It is an error if the
// job asks for no approval; flags are those that ask for one.
func ApprovalTimeout(text string, asks bool, flags string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || d <= 0:
		return 0, fmt.Errorf("--approval-timeout %q: expected a duration such as 30m or 4h: %w", text, kernel.ErrInvalid)
	case !asks:
		return 0, fmt.Errorf("--approval-timeout has no effect on a job that asks for no approval: add %s: %w", flags, kernel.ErrInvalid)
	}
	return d.Truncate(time.Microsecond), nil
}

func artifacts(flag string, labels []string) ([]kernel.Artifact, error) {
	var out []kernel.Artifact
	for _, l := range labels {
		a, err := kernel.ParseArtifact(l)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// locks parses --lock and --pool. A key may contain colons, so only a mode at
// the end is read as one, and what looks like a mode is refused.
func locks(q Request) ([]kernel.Lock, error) {
	var out []kernel.Lock
	for _, text := range q.Lock {
		l := kernel.Lock{Key: text}
		if key, ok := strings.CutSuffix(text, ":shared"); ok {
			l = kernel.Lock{Key: key, Mode: kernel.Shared}
		} else if key, ok := strings.CutSuffix(text, ":exclusive"); ok {
			l.Key = key
		} else if at := strings.LastIndexByte(text, ':'); at >= 0 {
			mode := workflow.Suggest(strings.ToLower(text[at+1:]), []string{kernel.Exclusive.String(), kernel.Shared.String()})
			if mode != "" {
				return nil, fmt.Errorf("--lock %q: did you mean %s:%s? If the key ends so, write %s:exclusive: %w", text, text[:at], mode, text, kernel.ErrInvalid)
			}
		}
		if err := l.Validate(); err != nil {
			return nil, fmt.Errorf("--lock %q: expected KEY or KEY:shared: %w", text, kernel.ErrInvalid)
		}
		out = append(out, l)
	}
	for _, text := range q.Pool {
		name, units, ok := strings.Cut(text, "=")
		l := kernel.Lock{Key: name, Units: 1}
		if ok {
			n, err := strconv.Atoi(units)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("--pool %q: expected NAME or NAME=UNITS, UNITS a positive number: %w", text, kernel.ErrInvalid)
			}
			l.Units = n
		}
		if err := l.Validate(); err != nil {
			return nil, fmt.Errorf("--pool %q: expected NAME or NAME=UNITS: %w", text, kernel.ErrInvalid)
		}
		out = append(out, l)
	}
	return out, nil
}

func preconditions(conditions []string) ([]kernel.Precondition, error) {
	var out []kernel.Precondition
	for _, text := range conditions {
		kind, branch, given := strings.Cut(text, "=")
		switch {
		case kind == kernel.CleanWorktree.String() && !given:
			out = append(out, kernel.Precondition{Kind: kernel.CleanWorktree})
		case kind == kernel.BranchExists.String() && (!given || branch != ""):
			out = append(out, kernel.Precondition{Kind: kernel.BranchExists, Branch: branch})
		default:
			return nil, fmt.Errorf("--require %q: expected clean_worktree, branch_exists or branch_exists=BRANCH: %w", text, kernel.ErrInvalid)
		}
	}
	return out, nil
}

// pinned parses BRANCH[@COMMIT]. Without a commit, the branch is pinned to its
// current one.
func (t *Builder) pinned(ctx context.Context, text string) (kernel.PinnedHead, error) {
	if text == "" {
		return kernel.PinnedHead{}, nil
	}
	at := strings.LastIndexByte(text, '@')
	if at >= 0 {
		p := kernel.PinnedHead{Branch: text[:at], Commit: kernel.CommitID(text[at+1:])}
		if p.Branch == "" || len(p.Commit) < 40 || strings.Trim(string(p.Commit), "0123456789abcdef") != "" {
			return p, fmt.Errorf("--pinned %q: expected BRANCH@COMMIT, COMMIT a whole id in lowercase hex: %w", text, kernel.ErrInvalid)
		}
		return p, nil
	}
	if err := kernel.CheckBranch(text); err != nil {
		return kernel.PinnedHead{}, fmt.Errorf("--pinned %w", err)
	}
	head, err := t.Head(ctx, text)
	switch {
	case err != nil:
		err = fmt.Errorf("--pinned %s: %w", text, err)
	case head == "":
		err = fmt.Errorf("--pinned %s: no such branch: %w", text, kernel.ErrInvalid)
	}
	return kernel.PinnedHead{Branch: text, Commit: head}, err
}

func budgets(q Request, spec *kernel.Spec) error {
	if q.Retries < 0 {
		return fmt.Errorf("--retries %d: expected 0 or more: %w", q.Retries, kernel.ErrInvalid)
	}
	spec.Budget.Retries = q.Retries
	if len(q.RetryOn) > 0 && q.Retries == 0 {
		return fmt.Errorf("--retry-on has no effect without retries: add --retries N: %w", kernel.ErrInvalid)
	}
	for _, word := range q.RetryOn {
		var err error
		if spec.Retry, err = spec.Retry.Named(word); err != nil {
			return fmt.Errorf("--retry-on: %w", err)
		}
	}
	if q.Retries > 0 && len(q.RetryOn) == 0 {
		for _, class := range []kernel.FailureClass{kernel.ExitFailure, kernel.Timeout, kernel.Signal, kernel.OutOfMemory, kernel.LaunchFailure} {
			spec.Retry = spec.Retry.On(class)
		}
	}
	if q.InDoubt != "" {
		var err error
		if spec.InDoubt, err = kernel.ParseInDoubt(q.InDoubt); err != nil {
			return fmt.Errorf("--in-doubt: %w", err)
		}
		if q.Idempotent {
			return fmt.Errorf("--in-doubt %s has no effect on an idempotent job: remove it, or --idempotent: %w", q.InDoubt, kernel.ErrInvalid)
		}
	}
	var err error
	spec.Budget.Reclaims, err = limit("--max-reclaims", q.MaxReclaims, defaultReclaims, spec.InDoubtPolicy() == kernel.RerunInDoubt, "--idempotent, or --in-doubt rerun")
	if err == nil {
		spec.Budget.Resumes, err = limit("--max-resumes", q.MaxResumes, defaultResumes, q.Resumable, "--resumable")
	}
	for _, word := range q.RetryOn {
		if c, no := kernel.ParseFailureClass(word); no == nil && err == nil {
			err = retried(c, spec)
		}
	}
	return err
}

// retried returns an error if no attempt of a job as in spec that ends as c is retried,
// whatever its policy names.
func retried(c kernel.FailureClass, spec *kernel.Spec) error {
	switch {
	case spec.Resumable && c.Resumes():
		return fmt.Errorf("--retry-on %s has no effect with --resumable, which resumes such an attempt up to --max-resumes times: remove one of them: %w", c, kernel.ErrInvalid)
	case !c.Reclaims(spec.Budget.Reclaims):
		return nil
	case spec.InDoubtPolicy() == kernel.RerunInDoubt:
		return fmt.Errorf("--retry-on %s has no effect with --idempotent, which runs such an attempt again up to --max-reclaims times: remove it: %w", c, kernel.ErrInvalid)
	default:
		return fmt.Errorf("--retry-on %s has no effect: nobody knows whether such an attempt did its work; if it may run again all the same, add --idempotent instead: %w", c, kernel.ErrInvalid)
	}
}

// limit returns a budget: the one given or else def. If may is false the job
// never runs again this way, and giving a budget without the flag named by with
// is an error.
func limit(flag string, given *int, def int, may bool, with string) (int, error) {
	switch {
	case given == nil && may:
		return def, nil
	case given == nil:
		return 0, nil
	case *given < 0:
		return 0, fmt.Errorf("%s %d: expected 0 or more: %w", flag, *given, kernel.ErrInvalid)
	case !may:
		return 0, fmt.Errorf("%s has no effect: add %s: %w", flag, with, kernel.ErrInvalid)
	}
	return *given, nil
}

// accepts returns an error if the task's executor would not accept it. The error
// says so if the executor is the configuration's choice.
func (t *Builder) accepts(task kernel.Task, byDefault bool) error {
	err := t.Scheduler.Accepts(task)
	if err != nil && byDefault && t.Defaults.Executor != "" && task.Executor == t.Defaults.Executor {
		return fmt.Errorf("[jobs] executor = %q: %w", task.Executor, err)
	}
	return err
}

// notInNames reports that a character may not be in the name of a variable.
func notInNames(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func (t *Builder) task(q Request) (kernel.Task, error) {
	task := kernel.Task{Args: q.Command, Timeout: t.Defaults.Timeout, Executor: cmp.Or(q.Executor, t.Defaults.Executor), Options: q.Option}
	secrets, err := secretsOf(q)
	task.Secrets = secrets
	errs := []error{err, t.accepts(task, q.Executor == "")}
	if q.Timeout != "" {
		d, err := time.ParseDuration(q.Timeout)
		if err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("--timeout %q: expected a duration such as 90s or 2h: %w", q.Timeout, kernel.ErrInvalid))
		}
		task.Timeout = d
	}
	for _, text := range q.Env {
		name, _, given := strings.Cut(text, "=")
		switch {
		case len(text) > mostWord:
			errs = append(errs, fmt.Errorf("--env %.40q…: it has %d bytes, and a program can be given %d: hand it over in a file: %w", text, len(text), mostWord, kernel.ErrInvalid))
		case name == "" || strings.ContainsFunc(name, notInNames) || strings.ContainsRune(text, 0):
			errs = append(errs, fmt.Errorf("--env %q: expected NAME or NAME=VALUE: %w", text, kernel.ErrInvalid))
		case given:
			task.Env = append(task.Env, text)
		default:
			task.PassEnv = append(task.PassEnv, name)
		}
	}
	b, err := sandboxOf(q)
	if err != nil {
		return task, err
	}
	task.Sandbox = b.Least(t.Defaults.Sandbox)
	task.Container = cmp.Or(q.Container, t.Defaults.Containers[task.On()])
	errs = append(errs, task.CheckContainer())
	task.Tree, task.Dir, err = t.workplace(q.Cwd)
	return task, errors.Join(append(errs, err)...)
}

// secretsOf parses --secret.
func secretsOf(q Request) (out []kernel.Secret, err error) {
	for _, text := range q.Secret {
		s, err := kernel.ParseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("--secret: %w", err)
		}
		if slices.ContainsFunc(out, func(o kernel.Secret) bool { return o.Name == s.Name }) {
			return nil, fmt.Errorf("--secret %s: given twice: %w", s.Name, kernel.ErrInvalid)
		}
		out = append(out, s)
	}
	return out, nil
}

// sandboxOf parses --sandbox, --write and --network.
func sandboxOf(q Request) (b kernel.Sandbox, err error) {
	if q.Sandbox != "" {
		if b.Mode, err = kernel.ParseSandboxMode(q.Sandbox); err != nil {
			return b, fmt.Errorf("--sandbox: %w", err)
		}
	}
	if q.Network != "" {
		if b.Network, err = kernel.ParseNetwork(q.Network); err != nil {
			return b, fmt.Errorf("--network: %w", err)
		}
	}
	if b.Write = q.Write; !b.On() && (len(q.Write) > 0 || b.Network != kernel.AnyNetwork) {
		return b, fmt.Errorf("--write and --network have no effect without a sandbox: add --sandbox best-effort or required: %w", kernel.ErrInvalid)
	}
	for _, path := range q.Write {
		if path == "" || strings.ContainsRune(path, 0) {
			return b, fmt.Errorf("--write %q: expected a path: %w", path, kernel.ErrInvalid)
		}
	}
	return b, nil
}

// workplace returns the working tree that contains cwd, a path as the requester
// sees it, and the directory in that tree. tree is "" for the main tree, dir
// for a tree's root. A linked tree may be below the requester's.
func (t *Builder) workplace(cwd string) (tree, dir string, err error) {
	at := cwd
	if !filepath.IsAbs(at) {
		at = filepath.Join(t.Tree, at)
	}
	tree, dir = t.Tree, relative(t.Tree, at)
	if dir != "." {
		root, linked, err := t.Trees.TreeOf(at)
		of := err == nil && root == t.Root
		if of && (linked != tree || !filepath.IsLocal(dir)) {
			if at, err = filepath.EvalSymlinks(at); err == nil {
				tree, dir = linked, relative(linked, at)
			}
		}
		if !filepath.IsLocal(dir) {
			return "", "", fmt.Errorf("--cwd %q: outside the repository and its worktrees: %w", cwd, kernel.ErrInvalid)
		}
	}
	if tree == t.Root {
		tree = ""
	}
	if dir == "." {
		dir = ""
	}
	return tree, filepath.ToSlash(dir), nil
}

// relative returns path relative to dir.
func relative(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil {
		return rel
	}
	return path
}

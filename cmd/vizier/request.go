package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/kernel"
)

// request is one job as people ask for it: the flags of `jobs submit`, and the
// keys of a line of `jobs submit --batch`.
type request struct {
	Name            string   `placeholder:"NAME" help:"What people call the job." json:"name"`
	Tag             []string `sep:"none" placeholder:"KEY=VALUE" help:"A label to select jobs by, as in jobs list --tag; repeatable." json:"tag"`
	After           []string `sep:"none" placeholder:"JOB[:any]" help:"Start after this job has succeeded; with :any, once it has ended, whatever became of it; repeatable." json:"after"`
	Need            []string `sep:"none" placeholder:"ARTIFACT" help:"Start once this artifact exists, such as custom:TYPE:KEY; repeatable." json:"need"`
	Produce         []string `sep:"none" placeholder:"ARTIFACT" help:"An artifact that the job's success makes exist; repeatable." json:"produce"`
	Lock            []string `sep:"none" placeholder:"KEY[:shared]" help:"Hold this lock while running; repeatable." json:"lock"`
	Pool            []string `sep:"none" placeholder:"NAME[=UNITS]" help:"Hold units of this counted pool while running; repeatable." json:"pool"`
	MissingProducer string   `enum:"block,wait" default:"block" placeholder:"block|wait" help:"Whether a needed artifact that no job produces blocks the job (block) or may still appear (wait)." json:"missing_producer"`
	Pinned          string   `placeholder:"BRANCH[@COMMIT]" help:"Start only while the branch is at this commit; without one, where it is now." json:"pinned"`
	Require         []string `sep:"none" placeholder:"CONDITION" help:"Start only while this holds: clean_worktree, branch_exists or branch_exists=BRANCH; repeatable." json:"require"`
	Approval        bool     `help:"Start only after a person has approved it." json:"approval"`
	ApprovalTimeout string   `placeholder:"DURATION" help:"With --approval, or --in-doubt ask: how long the job waits for it, such as 4h, before it is blocked." json:"approval_timeout"`
	Timeout         string   `placeholder:"DURATION" help:"End an attempt that takes longer, such as 90s or 2h." json:"timeout"`
	Retries         int      `placeholder:"N" help:"Try a failed job again up to N times." json:"retries"`
	RetryOn         []string `sep:"none" placeholder:"CLASS|CODE" help:"With --retries: only after this failure, a class such as timeout or rate_limited, or an exit code; repeatable." json:"retry_on"`
	MaxResumes      *int     `placeholder:"N" help:"With --resumable: go on after a time-out up to N times; 3 by default." json:"max_resumes"`
	MaxReclaims     *int     `placeholder:"N" help:"With --idempotent, or --in-doubt rerun: run it again when its runner is lost up to N times; 2 by default." json:"max_reclaims"`
	Idempotent      bool     `help:"Running it twice does no harm: run it again when its runner is lost." json:"idempotent"`
	InDoubt         string   `enum:",fail,ask,rerun" default:"" placeholder:"fail|ask|rerun" help:"What becomes of the job when its runner is lost, and with it whether the command did its work: it fails (the default), it waits for a person's approval to run again, or it runs again." json:"in_doubt"`
	Resumable       bool     `help:"It goes on where it stopped: run it again after a time-out." json:"resumable"`
	IdempotencyKey  string   `placeholder:"KEY" help:"The same job as every other one with this key: it is not enqueued a second time." json:"idempotency_key"`
	Transient       string   `enum:"none,transient,remove" default:"none" placeholder:"none|transient|remove" help:"Run only if a job that is not transient needs it; remove: its files go once nobody does any more." json:"transient"`
	Cwd             string   `placeholder:"DIR" help:"Directory to run in: of the working tree where this command runs, or of any other of the repository." json:"cwd"`
	Env             []string `sep:"none" placeholder:"NAME[=VALUE]" help:"A variable to set, or the name of one that has to be set where the job is started; repeatable." json:"env"`
	Executor        string   `placeholder:"NAME" help:"Who runs the job: local, or an executor of the configuration." json:"executor"`
	Option          []string `sep:"none" name:"option" placeholder:"KEY=VALUE" help:"What to ask of the executor, such as memory=4G or --constraint=gpu of a cluster; repeatable." json:"options"`
	Command         []string `arg:"" optional:"" name:"command" help:"The command and its arguments, after --." json:"command"`
}

// The budgets of jobs submitted one by one: how often a job that may is
// reclaimed from a lost runner, and resumed after a time-out.
const (
	defaultReclaims = 2
	defaultResumes  = 3
)

// maxKey bounds an idempotency key, in bytes.
const maxKey = 512

// intake makes jobs of requests.
type intake struct {
	ctx    context.Context
	repo   *repo
	origin kernel.Origin // of the jobs
	actor  func() string // who asks for their approvals
	late   bool          // whole ids that they refer to are looked up when they are enqueued
}

func (c *call) intake(r *repo) *intake {
	return &intake{c.ctx, r, kernel.Origin{Command: append([]string{"vizier"}, c.args...)}, sync.OnceValue(c.actor), false}
}

// newJob reads the request. after finds the job that a reference means.
func (t *intake) newJob(q request, after func(string) (kernel.JobID, error)) (kernel.NewJob, error) {
	var errs []error
	fail := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	spec := kernel.Spec{Name: q.Name, Resumable: q.Resumable, Idempotent: q.Idempotent}
	spec.Origin = t.origin
	if len(q.Command) == 0 {
		fail(fmt.Errorf("expected a command: vizier jobs submit [flags] -- COMMAND [ARG...]: %w", kernel.ErrInvalid))
	}
	for _, ref := range q.After {
		ref, policy := afterPolicy(ref)
		id, err := after(ref)
		fail(err)
		spec.RunsAfter(id, policy)
	}
	var err error
	spec.Tags, err = tags(q.Tag)
	fail(err)
	spec.Needs, err = artifacts("need", q.Need)
	fail(err)
	spec.Produces, err = artifacts("produce", q.Produce)
	fail(err)
	spec.Locks, err = locks(q)
	fail(err)
	spec.Preconditions, err = preconditions(q.Require)
	fail(err)
	spec.Pinned, err = t.pinned(q.Pinned)
	fail(err)
	if q.MissingProducer != "" {
		spec.MissingProducer, err = kernel.ParseMissingProducer(q.MissingProducer)
		fail(err)
	}
	if q.Transient != "" {
		spec.Transient, err = kernel.ParseTransient(q.Transient)
		fail(err)
	}
	spec.IdempotencyKey = q.IdempotencyKey
	if len(q.IdempotencyKey) > maxKey || strings.ContainsRune(q.IdempotencyKey, 0) {
		fail(fmt.Errorf("--idempotency-key: expected at most %d bytes, none of them NUL: %w", maxKey, kernel.ErrInvalid))
	}
	fail(budgets(q, &spec))
	spec.ApprovalTimeout, err = approvalTimeout(q.ApprovalTimeout, q.Approval || spec.Doubt() == kernel.AskInDoubt)
	fail(err)
	spec.Task, err = task(t.repo, q)
	fail(err)
	if spec.Task.Tree != "" && slices.Contains(spec.Preconditions, kernel.Precondition{Kind: kernel.CleanWorktree}) {
		fail(fmt.Errorf("--require clean_worktree is about the main working tree, and the job runs in %s: let its command look: %w", spec.Task.Tree, kernel.ErrInvalid))
	}
	n := kernel.NewJob{ID: t.repo.Scheduler.NewID(), Spec: spec}
	if q.Approval {
		n.Approval = kernel.Require(t.repo.Scheduler.Now(), t.actor())
	}
	return n, errors.Join(errs...)
}

// afterPolicy is the job that an --after names, and which of its ends will do.
func afterPolicy(ref string) (string, kernel.AfterPolicy) {
	if job, soft := strings.CutSuffix(ref, ":"+kernel.AfterAnyEnd.String()); soft {
		return job, kernel.AfterAnyEnd
	}
	return ref, kernel.AfterSuccess
}

func tags(texts []string) ([]kernel.Tag, error) {
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

// approvalTimeout reads how long an approval may take, of a job that asks for one.
func approvalTimeout(text string, asks bool) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || d <= 0:
		return 0, fmt.Errorf("--approval-timeout %q: expected a duration such as 30m or 4h: %w", text, kernel.ErrInvalid)
	case !asks:
		return 0, fmt.Errorf("--approval-timeout has no effect on a job that asks for no approval: add --approval, or --in-doubt ask: %w", kernel.ErrInvalid)
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

// locks reads --lock and --pool. A key may hold colons itself, so that only a
// mode at its end is read as one.
func locks(q request) ([]kernel.Lock, error) {
	var out []kernel.Lock
	for _, text := range q.Lock {
		l := kernel.Lock{Key: text}
		if key, ok := strings.CutSuffix(text, ":shared"); ok {
			l = kernel.Lock{Key: key, Mode: kernel.Shared}
		} else if key, ok := strings.CutSuffix(text, ":exclusive"); ok {
			l.Key = key
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

// pinned reads BRANCH[@COMMIT]. Without a commit the branch is pinned where it
// is now.
func (t *intake) pinned(text string) (kernel.PinnedHead, error) {
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
	head, err := t.repo.head(t.ctx, text)
	return kernel.PinnedHead{Branch: text, Commit: head}, err
}

// head is the commit that a branch is at.
func (r *repo) head(ctx context.Context, branch string) (kernel.CommitID, error) {
	facts := kernel.NewFacts()
	for _, o := range r.Scheduler.Observers {
		o.Observe(ctx, kernel.Probes{Branches: []string{branch}}, &facts)
	}
	switch f := facts.Heads[branch]; {
	case f.Err != "":
		return "", fmt.Errorf("--pinned %s: %s", branch, f.Err)
	case f.Value == "":
		return "", fmt.Errorf("--pinned %s: no such branch: %w", branch, kernel.ErrInvalid)
	default:
		return f.Value, nil
	}
}

func budgets(q request, spec *kernel.Spec) error {
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
	spec.Budget.Reclaims, err = limit("--max-reclaims", q.MaxReclaims, defaultReclaims, spec.Doubt() == kernel.RerunInDoubt, "--idempotent, or --in-doubt rerun")
	if err == nil {
		spec.Budget.Resumes, err = limit("--max-resumes", q.MaxResumes, defaultResumes, q.Resumable, "--resumable")
	}
	return err
}

// limit is how often a job may run again in a way that may says it does; without
// that, a flag is in vain.
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

func task(r *repo, q request) (kernel.Task, error) {
	t := kernel.Task{Args: q.Command, Timeout: r.Config.Jobs.Timeout, Executor: cmp.Or(q.Executor, r.Config.Jobs.Executor), Options: q.Option}
	if err := r.Scheduler.Accepts(t); err != nil {
		return t, err
	}
	if q.Timeout != "" {
		d, err := time.ParseDuration(q.Timeout)
		if err != nil || d <= 0 {
			return t, fmt.Errorf("--timeout %q: expected a duration such as 90s or 2h: %w", q.Timeout, kernel.ErrInvalid)
		}
		t.Timeout = d
	}
	for _, text := range q.Env {
		name, _, given := strings.Cut(text, "=")
		switch {
		case name == "" || strings.ContainsRune(text, 0):
			return t, fmt.Errorf("--env %q: expected NAME or NAME=VALUE: %w", text, kernel.ErrInvalid)
		case given:
			t.Env = append(t.Env, text)
		default:
			t.PassEnv = append(t.PassEnv, name)
		}
	}
	var err error
	t.Tree, t.Dir, err = r.workplace(q.Cwd)
	return t, err
}

// workplace is the working tree and the directory in it that cwd means to whoever
// stands in r's tree; "" is the main tree, and a tree's root.
func (r *repo) workplace(cwd string) (tree, dir string, err error) {
	at := cwd
	if !filepath.IsAbs(at) {
		at = filepath.Join(r.Tree, at)
	}
	tree, dir = r.Tree, relative(r.Tree, at)
	if !filepath.IsLocal(dir) {
		outside := fmt.Errorf("--cwd %q: outside the repository and its worktrees: %w", cwd, kernel.ErrInvalid)
		there, err := git.FindRoot(at)
		if err != nil || there.Dir != r.Root {
			return "", "", outside
		}
		if at, err = filepath.EvalSymlinks(at); err != nil {
			return "", "", outside
		}
		if tree, dir = there.Tree, relative(there.Tree, at); !filepath.IsLocal(dir) {
			return "", "", outside
		}
	}
	if tree == r.Root {
		tree = ""
	}
	if dir == "." {
		dir = ""
	}
	return tree, filepath.ToSlash(dir), nil
}

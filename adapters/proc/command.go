package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/trace"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// The environment variables that describe its job to a command.
const (
	envJob        = "VIZIER_JOB_ID"
	envRun        = "VIZIER_RUN_ID"
	envNode       = "VIZIER_NODE"
	envAttempt    = "VIZIER_ATTEMPT"    // the number of the attempt
	envAttemptID  = "VIZIER_ATTEMPT_ID" // JOB/N
	envResultFile = "VIZIER_RESULT_FILE"
	envRoot       = "VIZIER_ROOT"
	envSubmit     = "VIZIER_SUBMISSIONS"
	envReport     = "VIZIER_REPORT"
	envDeadline   = "VIZIER_DEADLINE"       // only of a job with a time limit
	envEffectKey  = "VIZIER_EFFECT_KEY"     // the same for all attempts of a generation
	envCheckpoint = "VIZIER_CHECKPOINT_DIR" // only of a resumable job

	// For hooks.
	envStatus = "VIZIER_STATUS"
	envName   = "VIZIER_JOB_NAME"
	envClass  = "VIZIER_FAILURE_CLASS"
	envReason = "VIZIER_REASON"
	envExit   = "VIZIER_EXIT_CODE"
	envEvent  = "VIZIER_EVENT"
	envNext   = "VIZIER_NEXT"
	envBy     = "VIZIER_BY"
	envRef    = "VIZIER_REF"
	envNumber = "VIZIER_NUMBER"

	// envRunner marks runners, to distinguish them from what their commands
	// leave behind.
	envRunner = "VIZIER_RUNNER"
)

var ownVariables = []string{envJob, envRun, envNode, envAttempt, envAttemptID, envResultFile, envRoot, envSubmit, envReport, envDeadline, envEffectKey, envCheckpoint, envRunner,
	envStatus, envName, envClass, envReason, envExit, envEvent, envNext, envBy, envRef, envNumber}

// repositoryVariables direct git to another repository, index or configuration.
// A hook, or a caller with an unusual setup, has them in its environment. `git
// rev-parse --local-env-vars` lists most of them.
var repositoryVariables = []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_OBJECT_DIRECTORY",
	"GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_INDEX_FILE", "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_PREFIX",
	"GIT_INTERNAL_SUPER_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_QUARANTINE_PATH", "GIT_REFLOG_ACTION"}

// The variables of W3C Trace Context name the span that a process belongs to.
// A job does not get the values that this process was started with.
const (
	envTraceParent = "TRACEPARENT"
	envTraceState  = "TRACESTATE"
)

// command is a command to be executed.
type command struct {
	path string
	args []string
	dir  string
	env  []string
	says says

	sandbox *sandbox.Policy // nil: no sandbox, or the command sets one up itself
	tmp     string          // its own temporary directory; "": none
	handed  []string        // files that must exist so that the command can write to them
	hidden  []hiddenText    // texts to remove from its logs

	container string // the name of the container that it, or what it starts, runs in; "": none
}

// launchError says that a command could not be started. exit is the code that a
// shell would return.
type launchError struct {
	exit   int
	reason string
}

func (e *launchError) Error() string { return e.reason }

func notFound(name string) error      { return &launchError{127, "command not found: " + name} }
func notExecutable(name string) error { return &launchError{126, "cannot execute: " + name} }

// notStarted returns the result of an attempt whose command never ran.
func notStarted(err error) kernel.Result {
	if e, ok := errors.AsType[*EndedError](err); ok {
		return e.result()
	}
	r := kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 126, Class: kernel.LaunchFailure, Reason: kernel.Said(err), Refused: noResources(err)}
	if e, ok := errors.AsType[*launchError](err); ok {
		r.Exit = e.exit
	}
	return r
}

// noResources reports whether err says that the system has no process, memory or file left for now.
func noResources(err error) bool {
	return slices.ContainsFunc([]error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE}, func(e error) bool { return errors.Is(err, e) })
}

func (l *Local) prepare(j *kernel.Job) (command, error) {
	t := j.Spec.Task
	args := t.Args
	if t.Builtin {
		args = append(l.program(), args...)
	}
	if len(args) == 0 || args[0] == "" {
		return command{}, errors.New("the job has no command")
	}
	dir, err := l.dir(j)
	if err != nil {
		return command{}, err
	}
	if j.Spec.Resumable {
		if err := os.MkdirAll(l.Files.CheckpointDir(j.ID), 0o700); err != nil {
			return command{}, fmt.Errorf("make the directory for its checkpoints: %w", err)
		}
	}
	c := command{args: args, dir: dir, says: l.saysIn(j)}
	for _, name := range t.PassEnv {
		if _, set := os.LookupEnv(name); !set {
			return command{}, fmt.Errorf("%s is not set where the job was started, and --env %s asks for it: "+
				"set it and retry the job from there, or submit it with --env %s=VALUE", name, name, name)
		}
	}
	if err := l.provided.of(j.Attempt()).refused; err != nil {
		return command{}, err
	}
	if len(t.Secrets) > 0 && l.provided.attempt != j.Attempt() {
		return command{}, errors.New("its secrets were not fetched")
	}
	c.hidden = hiddenTexts(l.provided.values)
	c.env = environment(slices.Concat(l.jobEnv(j, c.says), l.provided.env(), submittedEnv(t.Env)), append(os.Environ(), "PWD="+dir)...)
	if t.Builtin || t.Container == "" {
		if c.path, err = find(args[0], dir, lookup(c.env, "PATH")); err != nil {
			return c, err
		}
	}
	err = l.confine(&c, j)
	return c, err
}

// jobEnv returns the variables that describe a job to its command.
func (l *Local) jobEnv(j *kernel.Job, in says) []string {
	a := j.Attempt()
	env := []string{envJob + "=" + string(a.Job), envAttempt + "=" + strconv.Itoa(a.N), envAttemptID + "=" + label(a),
		envResultFile + "=" + in.result, envRoot + "=" + l.Root,
		envSubmit + "=" + in.submissions, envReport + "=" + in.report, envEffectKey + "=" + effect.Key(j)}
	if limit := l.limit(j); limit > 0 {
		env = append(env, envDeadline+"="+time.Now().Add(limit).UTC().Format(time.RFC3339))
	}
	if j.Spec.Resumable {
		env = append(env, envCheckpoint+"="+l.Files.CheckpointDir(j.ID))
	}
	if j.Number != 0 {
		env = append(env, envNumber+"="+j.Number.String(), envRef+"="+j.Ref())
	}
	if run := j.Spec.Origin.Run; run != "" {
		env = append(env, envRun+"="+string(run))
	}
	if node := j.Spec.Origin.Node; node != "" {
		env = append(env, envNode+"="+node)
	}
	if in := trace.Of(j, a.N, l.Spans); in != (trace.Context{}) && lookup(j.Spec.Task.Env, envTraceParent) == "" {
		env = append(env, envTraceParent+"="+in.String())
	}
	return env
}

// runnerEnv returns the environment of a's runner: that of this process,
// without the variables of a job that this process belongs to.
func runnerEnv(a kernel.AttemptID) []string {
	return environment([]string{envRunner + "=" + label(a)}, os.Environ()...)
}

// environment returns own, and the variables of others that own does not set.
// If others has a variable twice, the later value counts. Vizier's variables,
// the parameters of a workflow, the files of secrets and repositoryVariables
// are never taken from others.
func environment(own []string, others ...string) []string {
	seen := map[string]bool{}
	for _, name := range slices.Concat(ownVariables, repositoryVariables, []string{envTraceParent, envTraceState}) {
		seen[name] = true
	}
	for _, v := range own {
		name, _, _ := strings.Cut(v, "=")
		seen[name] = true
	}
	for _, name := range hookCommitVariables(others) {
		seen[name] = true
	}
	env := slices.Clone(own)
	for _, v := range slices.Backward(others) {
		if name, _, _ := strings.Cut(v, "="); !seen[name] && !strings.HasPrefix(name, workflow.ParamPrefix) && !strings.HasPrefix(name, secretPrefix) {
			seen[name] = true
			env = append(env, v)
		}
	}
	return env
}

// hookCommitVariables returns the variables that concern the commit which a git hook
// runs for, and must not affect what a job commits. A commit's hook has an
// index of its own. If vars name no committer, git has one configured, and then
// needs no author from vars either.
func hookCommitVariables(vars []string) []string {
	has := func(name string) bool {
		return slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	switch {
	case !has("GIT_INDEX_FILE"):
		return nil
	case has("GIT_COMMITTER_NAME"):
		return []string{"GIT_AUTHOR_DATE", "GIT_EDITOR", "GIT_REFLOG_ACTION"}
	default:
		return []string{"GIT_AUTHOR_DATE", "GIT_EDITOR", "GIT_REFLOG_ACTION", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"}
	}
}

// submittedEnv returns the variables that a job was submitted with, without
// duplicates, Vizier's own variables and PWD, which is set for the job.
func submittedEnv(vars []string) []string {
	seen, env := map[string]bool{"PWD": true}, []string(nil)
	for _, v := range slices.Backward(vars) {
		if name, _, _ := strings.Cut(v, "="); !seen[name] && !slices.Contains(ownVariables, name) && !strings.HasPrefix(name, secretPrefix) {
			seen[name] = true
			env = append(env, v)
		}
	}
	return env
}

func lookup(env []string, name string) string {
	for _, v := range env {
		if key, value, _ := strings.Cut(v, "="); key == name {
			return value
		}
	}
	return ""
}

// find returns the file of a command as a shell in dir would find it.
func find(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		return executable(name, dir)
	}
	err := notFound(name)
	for _, in := range filepath.SplitList(path) {
		file, e := executable(filepath.Join(in, name), dir)
		if e == nil {
			return file, nil
		}
		if refused, ok := errors.AsType[*launchError](e); ok && refused.exit == 126 {
			err = notExecutable(name)
		}
	}
	return "", err
}

func executable(name, dir string) (string, error) {
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	var st unix.Stat_t // os.Stat would allocate an error for each directory of PATH without the program
	err := unix.Stat(file, &st)
	switch {
	case err == unix.ENOENT || err == unix.ENOTDIR:
		return "", notFound(name)
	case err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Mode&0o111 == 0:
		return "", notExecutable(name)
	}
	return file, nil
}

// execError returns the launchError for a command whose exec failed with err.
func (c command) execError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return &launchError{126, "cannot execute: " + c.args[0] + ": its interpreter was not found"}
	case errors.Is(err, syscall.EINVAL):
		return &launchError{126, "cannot execute: " + c.args[0] + ": a NUL byte in an argument or a variable"}
	default:
		return fmt.Errorf("cannot execute: %s: %w", c.args[0], err)
	}
}

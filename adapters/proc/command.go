package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The variables that tell a command where it runs.
const (
	envJob        = "VIZIER_JOB_ID"
	envRun        = "VIZIER_RUN_ID"
	envNode       = "VIZIER_NODE"
	envAttempt    = "VIZIER_ATTEMPT"    // its number
	envAttemptID  = "VIZIER_ATTEMPT_ID" // JOB/N
	envResultFile = "VIZIER_RESULT_FILE"
	envRoot       = "VIZIER_ROOT"
	envSubmit     = "VIZIER_SUBMISSIONS"
	envCheckpoint = "VIZIER_CHECKPOINT_DIR" // of a resumable job

	// Of hooks.
	envStatus = "VIZIER_STATUS"
	envName   = "VIZIER_JOB_NAME"
	envClass  = "VIZIER_FAILURE_CLASS"
	envReason = "VIZIER_REASON"
	envExit   = "VIZIER_EXIT_CODE"

	// envRunner tells a runner from what its command left behind.
	envRunner = "VIZIER_RUNNER"
)

var ownVariables = []string{envJob, envRun, envNode, envAttempt, envAttemptID, envResultFile, envRoot, envSubmit, envCheckpoint, envRunner,
	envStatus, envName, envClass, envReason, envExit}

// command is what is going to be executed.
type command struct {
	path       string
	args       []string
	dir        string
	env        []string
	resultFile string
}

// launchError is a command that could not be started, with the exit code a
// shell would give.
type launchError struct {
	exit   int
	reason string
}

func (e *launchError) Error() string { return e.reason }

func notFound(name string) error      { return &launchError{127, "command not found: " + name} }
func notExecutable(name string) error { return &launchError{126, "cannot execute: " + name} }

// notStarted is the result of an attempt whose command never ran.
func notStarted(err error) kernel.Result {
	r := kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 126, Class: kernel.LaunchFailure, Reason: err.Error()}
	if e, ok := errors.AsType[*launchError](err); ok {
		r.Exit = e.exit
	}
	return r
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
			return command{}, fmt.Errorf("checkpoints: %w", err)
		}
	}
	c := command{args: args, dir: dir, resultFile: l.Files.ResultFile(j.Attempt())}
	for _, name := range t.PassEnv {
		if _, set := os.LookupEnv(name); !set {
			return command{}, fmt.Errorf("%s is not set where the job was started, and --env %s asks for it: "+
				"set it and retry the job from there, or submit it with --env %s=VALUE", name, name, name)
		}
	}
	c.env = environment(l.told(j), slices.Concat(os.Environ(), t.Env, []string{"PWD=" + dir})...)
	c.path, err = find(args[0], dir, lookup(c.env, "PATH"))
	return c, err
}

// told is what the command is told of itself.
func (l *Local) told(j *kernel.Job) []string {
	a := j.Attempt()
	env := []string{envJob + "=" + string(a.Job), envAttempt + "=" + strconv.Itoa(a.N), envAttemptID + "=" + label(a),
		envResultFile + "=" + l.Files.ResultFile(a), envRoot + "=" + l.Root,
		envSubmit + "=" + l.Files.SubmissionsFile(a)}
	if j.Spec.Resumable {
		env = append(env, envCheckpoint+"="+l.Files.CheckpointDir(j.ID))
	}
	if run := j.Spec.Origin.Run; run != "" {
		env = append(env, envRun+"="+string(run))
	}
	if node := j.Spec.Origin.Node; node != "" {
		env = append(env, envNode+"="+node)
	}
	return env
}

// runnerEnv is the environment of a's runner: this process's, without what it
// was told of a job it runs in itself.
func runnerEnv(a kernel.AttemptID) []string {
	return environment([]string{envRunner + "=" + label(a)}, os.Environ()...)
}

// environment is others, of which a later value of a name replaces an earlier
// one, and told, the only source of our own variables.
func environment(told []string, others ...string) []string {
	seen := map[string]bool{}
	for _, name := range ownVariables {
		seen[name] = true
	}
	env := slices.Clone(told)
	for _, v := range slices.Backward(others) {
		if name, _, _ := strings.Cut(v, "="); !seen[name] {
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

// dir is the command's working directory, which is in the repository whatever
// links lead there.
func (l *Local) dir(j *kernel.Job) (string, error) {
	at := j.Spec.Task.Dir
	path := filepath.Join(l.Root, j.State.Context.Root, at)
	if path == filepath.Clean(l.Root) {
		return path, nil
	}
	outside := fmt.Errorf("working directory %s is outside the repository", path)
	if filepath.IsAbs(at) || filepath.IsAbs(j.State.Context.Root) {
		return "", outside
	}
	root, err := filepath.EvalSymlinks(l.Root)
	if err != nil {
		return "", fmt.Errorf("repository: %w", err)
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(path, filepath.Clean(l.Root)+string(filepath.Separator)) {
		return "", outside
	}
	if errors.Is(err, fs.ErrNotExist) && j.Spec.Task.Builtin && j.Spec.Origin.About.Operation == "worktree.cleanup" {
		return root, nil // an earlier attempt moved it away; this one ends the work
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("working directory %s does not exist", path)
	}
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	if real != root && !strings.HasPrefix(real, root+string(filepath.Separator)) {
		return "", outside
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", fmt.Errorf("working directory %s is not a directory", path)
	}
	return real, nil
}

// find is the file of a command, as a shell in dir would find it.
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
		if e.(*launchError).exit == 126 {
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
	var st unix.Stat_t // of a dozen directories most do not have it
	err := unix.Stat(file, &st)
	switch {
	case err == unix.ENOENT || err == unix.ENOTDIR:
		return "", notFound(name)
	case err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Mode&0o111 == 0:
		return "", notExecutable(name)
	}
	return file, nil
}

// refused is what an exec that failed means.
func (c command) refused(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return &launchError{126, "cannot execute: " + c.args[0] + ": its interpreter was not found"}
	case errors.Is(err, syscall.EINVAL):
		return &launchError{126, "cannot execute: " + c.args[0] + ": a NUL byte in an argument or a variable"}
	default:
		return &launchError{126, "cannot execute: " + c.args[0] + ": " + err.Error()}
	}
}

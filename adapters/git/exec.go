package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// deadline bounds one git process, whatever the caller's context allows. It
// guards against a git that hangs on a dead file system or a stuck filter, and
// does not apply while a user's hooks run.
const deadline = 5 * time.Minute

// killDelay is the time that a git which was told to stop has to remove its
// lock files.
const killDelay = 5 * time.Second

// command is one git process to run.
type command struct {
	dir    string // "" : the main working tree
	args   []string
	env    []string // added to the environment
	stdin  []byte
	writes bool       // it may take locks
	quiet  bool       // disable hooks
	hooks  bool       // may run hooks, which may take any time: no deadline
	held   []*os.File // files that stay open, with their locks, as long as it runs
	whole  bool       // fail with an *UnreadError if git could not read all of the working tree that it asks for
}

// Error is a git process that failed.
type Error struct {
	Op     string // the subcommand
	Code   int    // exit code
	Stderr string
}

func (e *Error) Error() string {
	text := strings.Join(strings.FieldsFunc(e.Stderr, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if text == "" {
		return fmt.Sprintf("git %s printed nothing (exit %d)%s", e.Op, e.Code, silent[e.Op])
	}
	return fmt.Sprintf("git %s: %s (exit %d)", e.Op, text, e.Code)
}

// silent says which hook may have failed, of the subcommands whose exit code is that of a hook.
var silent = map[string]string{
	"commit":   ": a hook, such as pre-commit, may have refused",
	"checkout": ": the hook post-checkout may have failed",
}

// run runs one git process and returns its standard output, even if it fails
// with an *Error, or with an *UnreadError of one.
func (c *cli) run(ctx context.Context, k command) ([]byte, error) {
	if !k.hooks {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	if err := c.rooted(k); err != nil {
		return nil, err
	}
	op := k.args[0]
	args := []string{"--no-pager"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	if c.below(k.dir) != "" {
		for _, s := range settingsOfJobs {
			args = append(args, "-c", s)
		}
		if c.caseSensitive() {
			args = append(args, "-c", "core.ignoreCase=false")
		}
	}
	if k.quiet {
		args = append(args, "-c", "core.hooksPath=/dev/null")
	}
	cmd := exec.CommandContext(ctx, "git", append(args, k.args...)...)
	cmd.Dir = k.dir
	if cmd.Dir == "" {
		cmd.Dir = c.root.Dir
	}
	cmd.Env = append(environ(os.Environ(), k.writes), k.env...)
	cmd.Stdin = bytes.NewReader(k.stdin)
	cmd.ExtraFiles = k.held
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	err := c.exec(cmd)
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // git succeeded; a process it started still holds its output
		if k.whole {
			return stdout.Bytes(), c.unread(k, stderr.String())
		}
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git %s: %w", op, ctx.Err())
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("git is not in PATH: install git, or add its directory to PATH")
	case errors.As(err, &exit):
		if exit.ExitCode() < 0 { // the interrupt of a terminal ends git, too, and may do so first
			stderr.WriteString(exit.Error())
		}
		return stdout.Bytes(), c.failed(k, &Error{Op: op, Code: exit.ExitCode(), Stderr: stderr.String()})
	default:
		return nil, fmt.Errorf("git %s: %w", op, err)
	}
}

// settings are those with which git runs, whatever the user's are.
var settings = [...]string{
	"core.quotePath=false", "core.safecrlf=false", "log.showSignature=false",
	"i18n.logOutputEncoding=UTF-8", "i18n.commitEncoding=UTF-8", // whatever Vizier reads and writes is UTF-8
	"core.fsmonitor=false", // a job may have chosen the monitor's program, which may hang
}

// settingsOfJobs are more of them in the worktrees of jobs. With others, git takes changed files for unchanged, and the
// changes would be lost with their worktree.
var settingsOfJobs = [...]string{"core.ignoreStat=false", "core.checkStat=default", "core.trustctime=true", "sparse.expectFilesOutsideOfPatterns=false"}

// caseSensitive reports whether the file system tells names apart by their case. There, with core.ignoreCase, which a repository
// brings along from another system, git would overlook a new file beside one whose name differs only in case.
func (c *cli) caseSensitive() bool {
	_, err := os.Lstat(filepath.Join(c.root.Dir, strings.ToUpper(filepath.Dir(worktreeHome))))
	return absent(err)
}

// below returns dir relative to the directory of the worktrees of jobs, or "" if it is in none of them.
func (c *cli) below(dir string) string {
	below, err := filepath.Rel(filepath.Join(c.root.Dir, worktreeHome), dir)
	if err != nil || below == "." || !filepath.IsLocal(below) {
		return ""
	}
	return below
}

// rooted returns an error if git would not find a repository in the job's worktree that k is to run
// in. It would look further up, and work on the main working tree.
func (c *cli) rooted(k command) error {
	home, below := filepath.Join(c.root.Dir, worktreeHome), c.below(k.dir)
	if below == "" || slices.ContainsFunc(k.env, func(v string) bool { return strings.HasPrefix(v, "GIT_DIR=") }) {
		return nil // it is no such worktree, or git does not look for it
	}
	for at := k.dir; at != home; at = filepath.Dir(at) {
		if dir, err := gitDirOf(at); dir != "" || err != nil {
			return nil //nolint:nilerr // git says what is wrong with it
		}
	}
	top, _, _ := strings.Cut(below, string(filepath.Separator))
	return fmt.Errorf("worktree %s has no file .git that leads to the repository", filepath.Join(home, top))
}

// foreign are the variables that would direct git to another repository or
// index, or change how it reads paths or writes patches. A hook or an outer git
// may leave them in the environment.
var foreign = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE",
	"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE",
	"GIT_CEILING_DIRECTORIES", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS",
	"GIT_ICASE_PATHSPECS", "GIT_DIFF_OPTS", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT", "LC_ALL", "LANGUAGE",
}

// environ returns the environment for git processes, based on the caller's.
func environ(have []string, writes bool) []string {
	env := slices.DeleteFunc(slices.Clone(have), func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return slices.Contains(foreign, name)
	})
	env = append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0")
	if !writes {
		env = append(env, "GIT_OPTIONAL_LOCKS=0")
	}
	return env
}

// exitCode returns the exit code of a git process that failed by itself, or -1.
func exitCode(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return -1
}

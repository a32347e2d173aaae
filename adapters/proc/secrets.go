package proc

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// secretPrefix is the prefix of the variables that hold the paths of secrets'
// files.
const secretPrefix = "VIZIER_SECRET_"

// The minimum and maximum size of a secret, in bytes. A shorter one would match
// all over an output.
const (
	leastSecret = 6
	mostSecret  = 64 << 10 // errTooLarge names it
)

// secretPatience is how long a command that prints a secret may take, unless the
// attempt's time limit ends before.
const secretPatience = 30 * time.Second

// privatePrefix is the prefix of the names of directories with secrets.
const privatePrefix = "vizier-secrets-"

// secretValue is a secret with its value.
type secretValue struct {
	name  string
	value []byte
}

// provided is what an attempt has outside of the store, from its preparation
// until it has run.
type provided struct {
	attempt   kernel.AttemptID
	values    []secretValue
	dir       string // the directory of its secrets, which is made when the command is started
	tmp       string // its temporary directory, likewise; "": none of its own
	container string // the name of its container; "": none
	refused   error  // why it can never run

	since time.Time // when its preparation began, and with it its time limit
}

// Provide fetches the secrets of j's attempt. Its error names the secret, or the
// program of its own, that is not available now, and what to do; nothing of the attempt was executed. If
// a secret can never be used, or the attempt's time is over, its own result says so
// instead.
func (l *Local) Provide(ctx context.Context, j *kernel.Job) error {
	ForgetTemporary() // it may be gone since the last attempt that this process ran
	l.provided = provided{}
	if j.Spec.Task.Builtin || j.Spec.Task.Sandbox.On() { // it is started through this program
		if err := l.programGone(); err != nil {
			return err
		}
	}
	p := provided{attempt: j.Attempt(), since: time.Now()}
	if limit := j.Spec.Task.Timeout; limit > 0 {
		within, cancel := context.WithTimeoutCause(ctx, limit, errNoTime)
		defer cancel()
		ctx = within
	}
	if j.Spec.Task.Sandbox.On() || j.Spec.Task.Container != "" {
		p.tmp = newTemporary()
	}
	if j.Spec.Task.Container != "" {
		p.container = l.containerName(p.attempt)
	}
	if len(j.Spec.Task.Secrets) > 0 {
		p.dir = filepath.Join(privateBase(), privatePrefix+rand.Text())
	}
	for _, s := range j.Spec.Task.Secrets {
		value, err := l.fetch(ctx, j, s)
		switch {
		case errors.Is(err, errNoTime):
			p.refused = &EndedError{Class: kernel.Timeout, Reason: fmt.Sprintf("timed out after %s, before secret %s was there", j.Spec.Task.Timeout, s.Name)}
			l.provided = p
			return nil
		case errors.Is(err, errTooLarge):
			p.refused = fmt.Errorf("%s%w", s.Unavailable(), err)
		case err != nil:
			return fmt.Errorf("%s%w", s.Unavailable(), err)
		}
		p.values = append(p.values, secretValue{s.Name, value})
	}
	l.provided = p
	return nil
}

// errNoTime says that the time limit of an attempt has passed.
var errNoTime = errors.New("its time is over")

// limit returns how long the command of j's attempt may run: what its preparation has
// left of its time limit; 0: no limit.
func (l *Local) limit(j *kernel.Job) time.Duration {
	limit, began := j.Spec.Task.Timeout, l.provided.of(j.Attempt()).since
	if limit <= 0 || began.IsZero() {
		return limit
	}
	return max(limit-time.Since(began), 1)
}

// errTooLarge says that a value is too large, which trying again does not
// change.
var errTooLarge = errors.New("longer than the 64 KiB that a secret may have: hand over a key, and the rest encrypted with it")

// CheckSecret returns an error for a source whose value can be known, before a
// job is enqueued, to be unusable: a file that is too large, or not a regular
// file. A file that does not exist yet is accepted.
func (*Local) CheckSecret(s kernel.Secret) error {
	path, ok := s.File()
	if !ok {
		return nil
	}
	path, err := ofHome(path)
	if err != nil {
		return nil
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", path)
	case st.Size() > mostSecret:
		return fmt.Errorf("the value from %s is %w", path, errTooLarge)
	}
	return nil
}

// fetch returns the value of s. Its errors never contain any of the value.
func (l *Local) fetch(ctx context.Context, j *kernel.Job, s kernel.Secret) (value []byte, err error) {
	from := "`" + s.Source + "`"
	again := "put that right: it is tried again by itself"
	if path, ok := s.File(); ok {
		from = path
		if value, err = readSecret(path); err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w; %s", path, err, again)
		}
	} else if value, err = l.printed(ctx, s.Source, l.graceOf(j)); err != nil {
		return nil, fmt.Errorf("%s: %w: see in a terminal what it says; it is tried again by itself", from, err)
	}
	switch n := len(bytes.TrimSpace(value)); {
	case len(value) > mostSecret:
		return nil, fmt.Errorf("the value from %s is %w", from, errTooLarge)
	case n == 0:
		return nil, fmt.Errorf("%s has no value; %s", from, again)
	case n < leastSecret:
		return nil, fmt.Errorf("the value from %s is shorter than %d bytes, and could not be told from other output in logs; %s", from, leastSecret, again)
	}
	return value, nil
}

func readSecret(path string) ([]byte, error) {
	path, err := ofHome(path)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, errors.Unwrap(err)
	}
	f, err := sys.OpenRegular(path, os.O_RDONLY)
	if err != nil {
		if p, ok := errors.AsType[*os.PathError](err); ok {
			err = p.Err
		}
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostSecret+1))
}

// ofHome returns path with "~/" at its beginning replaced by the home
// directory.
func ofHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, rest), err
}

// printed returns the output of a shell command at the repository's root, with
// this process's environment. Its standard error is discarded, since it may
// contain the value. If ctx ends first, or the output is larger than a secret may be, its
// process group is ended: TERM, grace period, KILL.
func (l *Local) printed(ctx context.Context, line string, grace time.Duration) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, secretPatience, fmt.Errorf("no end after %s", secretPatience))
	defer cancel()
	ctx, full := context.WithCancelCause(ctx)
	defer full(nil)
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir, cmd.Env, cmd.SysProcAttr, cmd.WaitDelay = l.Root, environment(nil, os.Environ()...), commandAttr(), time.Second
	cmd.Stdout = &limited{&out, mostSecret + 1, func() { full(errTooLarge) }}
	runtime.LockOSThread() // it dies with the thread that forks it
	defer runtime.UnlockOSThread()
	keepDescriptors()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	signal := func(s syscall.Signal) { _ = sys.SignalGroup(cmd.Process.Pid, s) }
	ended, killed := make(chan struct{}), make(chan struct{})
	goesOn := context.AfterFunc(ctx, func() {
		defer close(killed)
		signal(syscall.SIGTERM)
		signal(syscall.SIGCONT) // a stopped process would not notice
		select {
		case <-ended:
		case <-time.After(grace):
		}
		signal(syscall.SIGKILL) // also what the shell leaves behind
	})
	err := cmd.Wait()
	close(ended)
	if !goesOn() {
		<-killed
		if errors.Is(context.Cause(ctx), errTooLarge) { // the caller sees that
			return out.Bytes(), nil
		}
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrWaitDelay) { // it left a process running, such as a key store's agent
		err = nil
	}
	return out.Bytes(), err
}

// limited keeps the first bytes that are written to it, and calls full once it has most.
type limited struct {
	out  *bytes.Buffer
	most int
	full func()
}

func (w *limited) Write(b []byte) (int, error) {
	w.out.Write(b[:min(len(b), max(w.most-w.out.Len(), 0))])
	if w.out.Len() == w.most {
		w.full()
	}
	return len(b), nil
}

// privateBase returns the directory below which an attempt's private
// directories are made: one in memory that only this user can read, if there is
// one.
func privateBase() string {
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"} {
		st, err := os.Stat(dir)
		if err != nil || !st.IsDir() || !filepath.IsAbs(dir) {
			continue
		}
		if owner, ok := st.Sys().(*syscall.Stat_t); dir == "/dev/shm" || ok && int(owner.Uid) == os.Geteuid() && st.Mode().Perm()&0o077 == 0 {
			return dir
		}
	}
	return os.TempDir()
}

// of returns p if it belongs to a, else the zero value.
func (p provided) of(a kernel.AttemptID) provided {
	if p.attempt != a {
		return provided{}
	}
	return p
}

// env returns the variables with the paths of the files.
func (p provided) env() []string {
	var out []string
	for _, v := range p.values {
		out = append(out, secretPrefix+v.name+"="+filepath.Join(p.dir, v.name))
	}
	return out
}

// Hide returns a function that removes j's secrets from a text, for a node of
// j, which got the secrets from its runner. It returns nil if j has none.
func (*Local) Hide(j *kernel.Job) (func([]byte) []byte, error) {
	var values []secretValue
	for _, s := range j.Spec.Task.Secrets {
		value, err := readSecret(os.Getenv(secretPrefix + s.Name))
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", s.Name, err)
		}
		values = append(values, secretValue{s.Name, value})
	}
	if len(values) == 0 {
		return nil, nil
	}
	texts := hiddenTexts(values)
	return func(text []byte) []byte { return []byte(redact(string(text), texts)) }, nil
}

// write writes the files. sweepOutside removes them.
func (p provided) write() error {
	if len(p.values) == 0 {
		return nil
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return fmt.Errorf("hand over secrets: %w", err)
	}
	for _, v := range p.values {
		if err := os.WriteFile(filepath.Join(p.dir, v.name), v.value, 0o600); err != nil {
			_ = sys.RemoveTree(p.dir) // so that it can be tried again
			return fmt.Errorf("hand over secrets: %w", err)
		}
	}
	return nil
}

// withdraw removes what was provided.
func (l *Local) withdraw() {
	sweepOutside(l.provided.dir, l.provided.tmp)
	l.provided = provided{}
}

// sweepOutside removes the directories that an attempt had outside of the
// store, as named by its claim. Any other path in a claim is left alone.
func sweepOutside(dirs ...string) {
	for _, dir := range dirs {
		if name := filepath.Base(dir); filepath.IsAbs(dir) && (strings.HasPrefix(name, privatePrefix) || strings.HasPrefix(name, ownTemporary)) {
			_ = sys.RemoveTree(dir)
		}
	}
}

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Program is a client program, and one call of it.
type Program struct {
	Argv  []string
	Dir   string
	Env   []string // nil: this process's
	Stdin string

	// Enough reports that stderr so far has all that is needed, so that the program is
	// ended; nil: it is never enough.
	Enough func(stderr string) bool
}

// How much of a program's output is kept: it may be a person's script, which prints without end.
const (
	mostAnswer     = 32 << 20 // bytes on stdout; one that prints more has no answer
	mostComplaints = 64 << 10 // bytes on stderr
	mostWords      = 4 << 10  // bytes of a text for people, which goes on record
)

// ProgramError says that a program ran and did not succeed.
type ProgramError struct {
	Program string
	Stderr  string // its beginning, 64 KiB at most
	Err     error
}

func (e *ProgramError) Error() string {
	if said := strings.TrimSpace(e.Stderr); said != "" {
		return e.Program + ": " + Words(said)
	}
	return e.Program + ": " + e.Err.Error()
}

func (e *ProgramError) Unwrap() error { return e.Err }

// Run runs the program and returns what it prints, 32 MiB at most. A program that prints more is
// ended, and the error is a *ProgramError. The program is ended when ctx ends.
func (p Program) Run(ctx context.Context) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.Dir, p.Env, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that a script's children are ended with it
	cmd.Cancel = func() error { return sys.SignalGroup(cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stdin = strings.NewReader(p.Stdin)
	out := printed{most: mostAnswer, over: stop}
	errs := complaints{printed: printed{most: mostComplaints}, enough: func(said string) {
		if p.Enough != nil && p.Enough(said) {
			stop()
		}
	}}
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it has succeeded, and left a process that keeps its output open
		err = nil
	}
	switch {
	case out.cut:
		return "", &ProgramError{p.Argv[0], "", fmt.Errorf("it printed more than %d MiB", mostAnswer>>20)}
	case err == nil:
		return out.text.String(), nil
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not on PATH here", p.Argv[0])
	default:
		return out.text.String(), &ProgramError{p.Argv[0], errs.text.String(), err}
	}
}

// Quote returns a command line for a shell.
func Quote(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = kernel.ShellQuote(arg)
	}
	return strings.Join(quoted, " ")
}

// Words returns a text of a cluster for people, cut after 4 KiB.
func Words(text string) string {
	if len(text) <= mostWords {
		return text
	}
	return strings.ToValidUTF8(text[:mostWords], "") + " …"
}

// printed keeps the beginning of what a program prints, and drops the rest.
type printed struct {
	text bytes.Buffer
	most int
	cut  bool   // there was more
	over func() // called then; may be nil
}

func (p *printed) Write(b []byte) (int, error) {
	keep := min(len(b), p.most-p.text.Len())
	_, _ = p.text.Write(b[:keep])
	if keep < len(b) && !p.cut {
		p.cut = true
		if p.over != nil {
			p.over()
		}
	}
	return len(b), nil
}

// complaints keeps what a program prints to stderr, and calls enough with it after each write.
type complaints struct {
	printed
	enough func(string)
}

func (c *complaints) Write(b []byte) (int, error) {
	had := c.text.Len()
	n, err := c.printed.Write(b)
	if c.text.Len() > had {
		c.enough(c.text.String())
	}
	return n, err
}

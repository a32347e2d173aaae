package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Program is a client program, and one call of it.
type Program struct {
	Argv  []string
	Dir   string
	Env   []string // nil: this process's
	Stdin string

	// Enough reports that what the program has said on stderr so far is all there is to
	// know, so that it need not end by itself; nil: it never is.
	Enough func(stderr string) bool
}

// ProgramError is a program that ran and did not succeed.
type ProgramError struct {
	Program string
	Stderr  string
	Err     error
}

func (e *ProgramError) Error() string {
	if said := strings.TrimSpace(e.Stderr); said != "" {
		return e.Program + ": " + said
	}
	return e.Program + ": " + e.Err.Error()
}

func (e *ProgramError) Unwrap() error { return e.Err }

// Run runs the program and returns what it prints. It ends it with ctx.
func (p Program) Run(ctx context.Context) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.Dir, p.Env, time.Second
	cmd.Stdin = strings.NewReader(p.Stdin)
	var out bytes.Buffer
	errs := complaints{enough: func(said string) {
		if p.Enough != nil && p.Enough(said) {
			stop()
		}
	}}
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	switch {
	case err == nil:
		return out.String(), nil
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not on PATH here", p.Argv[0])
	default:
		return out.String(), &ProgramError{p.Argv[0], errs.text.String(), err}
	}
}

// Quote is a command line for a shell.
func Quote(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// complaints are what a program says on stderr, of which each is looked at at once.
type complaints struct {
	text   bytes.Buffer
	enough func(string)
}

func (c *complaints) Write(b []byte) (int, error) {
	n, err := c.text.Write(b)
	c.enough(c.text.String())
	return n, err
}

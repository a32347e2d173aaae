package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/vizier-scheduler/vizier/adapters/git"
)

// page prints a text, through a pager if it is longer than the terminal.
func (c *call) page(text string) error {
	if !c.ui.outTTY || c.globals.NoPager || strings.Count(text, "\n") < c.ui.lines() {
		c.ui.verbatim(text)
		return nil
	}
	pager := c.pager()
	if pager == "" || pager == "cat" {
		c.ui.verbatim(text)
		return nil
	}
	interrupts := make(chan os.Signal, 1) // Ctrl-C is the pager's: this process and the shell outlive it
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	cmd := exec.CommandContext(context.WithoutCancel(c.ctx), "sh", "-c", "trap : INT\n"+pager)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = strings.NewReader(c.ui.shown(text)), c.stdout, c.stderr, slices.Clone(c.env)
	if !c.env.Has("LESS") {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() == 127) { // the pager does not exist
		c.ui.verbatim(text)
	}
	return nil
}

// pager returns the pager that git would use, unless VIZIER_PAGER names
// another.
func (c *call) pager() string {
	for _, name := range []string{"VIZIER_PAGER", "GIT_PAGER"} {
		if c.env.Has(name) {
			return c.env.Get(name)
		}
	}
	if pager := git.Pager(c.ctx); pager != "" {
		return pager
	}
	if c.env.Has("PAGER") {
		return c.env.Get("PAGER")
	}
	return "less"
}

// lines returns the height of the terminal that output goes to.
func (u *ui) lines() int {
	const usual = 24
	out, ok := u.out.(*checkedWriter)
	if !ok {
		return usual
	}
	f, ok := out.Writer.(*os.File)
	if !ok {
		return usual
	}
	_, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return usual
	}
	return cmp.Or(height, usual)
}

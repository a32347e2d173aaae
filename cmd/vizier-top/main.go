// Command vizier-top is the live screen of `vizier top`. It is a program of its
// own, so that other commands need not link the library that draws it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/app/answer"
)

func main() {
	if code, ok := vizier.Serve(os.Args[1:], os.Stdout, os.Stderr, os.Environ()); ok {
		os.Exit(code)
	}
	if err := run(os.Args[1:], os.Environ()); err != nil {
		os.Stderr.WriteString(answer.Message(err.Error()))
		os.Exit(1)
	}
}

// run shows the repository that contains the working directory. `vizier top`
// has checked the arguments.
func run(args []string, environ []string) error {
	env := vizier.Environment(environ)
	flags := flag.NewFlagSet("vizier-top", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	file := flags.String("config-file", "", "")
	alone := flags.Bool("no-resident", false, "")
	plain := flags.Bool("no-ansi", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println("vizier-top is what `vizier top` becomes: see `vizier top --help`.")
		return nil
	case err != nil:
		return err
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) {
		return errors.New("top needs a terminal: `vizier status` prints the same")
	}
	waitForForeground()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	defer leaveWhenStuck(ctx)()
	r, err := vizier.Open(".", vizier.Options{Environ: env, ConfigFile: *file, NoResident: *alone, Program: vizier.Beside()})
	if err != nil {
		return err
	}
	m := newModel(ctx, newStore(r, func() string { return env.Who(ctx) }), *plain || env.Get("NO_COLOR") != "")
	parent := os.Getppid()
	m.left = func() bool { return os.Getppid() != parent }
	if flags.NArg() > 0 {
		_, targets, err := r.Scheduler.Targets(ctx, flags.Args()[:1])
		if err != nil {
			return err
		}
		m.at = string(targets[0].Jobs[0].ID)
		if run := targets[0].Run(); targets[0].Whole && run != "" {
			m.at = string(run)
		}
	}
	// The library's own signal handler can deadlock if ctx handles signals too.
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithEnvironment(environ), tea.WithoutSignalHandler()).Run()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		return nil // the normal way to end
	}
	return err
}

// stuckAfter is how long the end may take after a signal. After that, probably the terminal
// takes no output, as after Ctrl-S.
const stuckAfter = 2 * time.Second

// leaveWhenStuck ends the program if it is still there stuckAfter the end of ctx, and gives the
// terminal its settings back, until stop is called.
func leaveWhenStuck(ctx context.Context) (stop func() bool) {
	in := int(os.Stdin.Fd())
	before, err := term.GetState(in)
	return context.AfterFunc(ctx, func() {
		time.Sleep(stuckAfter)
		if err == nil {
			_ = term.Restore(in, before)
		}
		os.Exit(1)
	})
}

// waitForForeground stops the program while it is in the background of its terminal, as the
// terminal itself would do when the program uses it. A signal that ends the program meanwhile
// takes effect at once, since the program does not handle signals yet.
func waitForForeground() {
	if group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP); err == nil && group != unix.Getpgrp() {
		_ = unix.Kill(os.Getpid(), unix.SIGTTIN)
	}
}

package vizier

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"runtime/debug"
	"syscall"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// caller calls the resident scheduler, and starts it where there is none. An
// error is nobody's concern: every command ticks as well.
type caller struct {
	path  string
	local *proc.Local
}

func (c caller) Call(w kernel.Wakes) { _ = watch.Call(c.path, w, c.local.StartResident) }

// serveResident is the hidden entry point `__resident`: the resident scheduler
// of the repository that the working directory belongs to. Where there is one
// already, it ends at once.
func serveResident(stderr io.Writer, env Environment) int {
	if err := reside(env); err != nil {
		fmt.Fprintln(stderr, "vizier resident:", err)
		return 1
	}
	return 0
}

func reside(env Environment) error {
	debug.SetGCPercent(50) // it sleeps: memory counts for more than time
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	root, err := git.FindRoot(dir)
	if err != nil {
		return err
	}
	live, err := inherited(root, env)
	if err != nil {
		return err
	}
	cfg := live.Config()
	if !cfg.Scheduler.Resident {
		return nil
	}
	program := programFile()
	outdated := func() bool {
		live.Refresh()
		now := live.Config()
		return live.Changes() > 0 && !reflect.DeepEqual(now.Settings(), cfg.Settings()) || !sameFile(program, programFile())
	}
	linger := cfg.Scheduler.ResidentLinger
	w, err := connect(root, live, env, "", func(c *config.Config) { // it waits as runners do, and calls nobody
		c.Scheduler.LockTimeout, c.Scheduler.Resident = 0, false
	})
	if err != nil {
		return err
	}
	path := w.store.ResidentFile()
	post := watch.Inherited(path, proc.ResidentFD)
	if post == nil {
		if post, err = watch.Take(path); err != nil || post == nil {
			return err
		}
	}
	post.Space = proc.PIDSpace()
	outside := watch.NewWatcher(w.store.Layout, root.CommonDir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := app.Resident{Scheduler: w.scheduler, Post: post, Outside: outside, Runners: w.watchRunners(ctx), Linger: linger, Outdated: outdated}
	if r.Serve(ctx) {
		caller{path, w.local}.Call(kernel.Wakes{Poll: true})
	}
	return nil
}

// BecomeStaying replaces this process by the program for what stays, where there
// is one beside this program and this is another. It returns where there is none.
func BecomeStaying(args, environ []string) {
	own, err := os.Executable()
	if err != nil {
		return
	}
	if _, stays, err := programs(own); err == nil && stays != own {
		_ = syscall.Exec(stays, append(os.Args[:1:1], args...), environ) // it can be done without
	}
}

// programFile is this program's file as it stands on the disk.
func programFile() os.FileInfo {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	info, err := os.Stat(exe)
	if err != nil {
		return nil
	}
	return info
}

func sameFile(a, b os.FileInfo) bool { return a == nil || b == nil || os.SameFile(a, b) }

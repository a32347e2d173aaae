package vizier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// residentWaker wakes the resident scheduler, or starts it if none is running.
// Errors are ignored, because every command ticks as well.
type residentWaker struct {
	path  string
	local *proc.Local
}

func (c residentWaker) Wake(w kernel.Wakes) { _ = watch.Wake(c.path, w, c.local.StartResident) }

// serveResident implements the hidden entry point `__resident`: the resident
// scheduler of the repository that contains the working directory. If there is
// one already, it ends at once.
func serveResident(stderr io.Writer, env Environment) int {
	if err := runResident(env); err != nil {
		fmt.Fprintln(stderr, "vizier resident:", err)
		return 1
	}
	return 0
}

func runResident(env Environment) error {
	debug.SetGCPercent(50) // it mostly sleeps, so memory matters more than time
	proc.RaiseFileSize()
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
	program, own, err := programFile()
	if err != nil {
		return err
	}
	outdated := func() bool {
		live.Refresh()
		now := live.Config()
		return live.Changes() > 0 && !reflect.DeepEqual(now.Settings(), cfg.Settings()) || replaced(program, own)
	}
	current := func() bool { // for other goroutines, which cannot use live
		own, err := inherited(root, env)
		if err != nil {
			return true // as long as the files are invalid nothing changes
		}
		now := own.Config()
		return reflect.DeepEqual(now.Settings(), cfg.Settings())
	}
	linger := cfg.Scheduler.ResidentLinger
	w, err := connect(root, live, env, "", func(c *config.Config) { // it waits for the lock as runners do, and wakes nobody
		c.Scheduler.LockTimeout, c.Scheduler.Resident = 0, false
	})
	if err != nil {
		return err
	}
	if err := w.store.Foreign(context.Background()); err != nil {
		return err
	}
	path := w.store.ResidentFile()
	lock := watch.Inherited(path, proc.ResidentFD)
	if lock == nil {
		if lock, err = watch.Acquire(path); err != nil || lock == nil {
			return err
		}
	}
	lock.Namespace, lock.Host = proc.PIDSpace(), w.hosts.Self.Name
	w.resident = true
	watcher := watch.NewWatcher(w.store.Layout, root.CommonDir, append(live.Files(), program)...)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w.scheduler.Ending = ctx
	r := app.Resident{Scheduler: w.scheduler, Lock: lock, Watcher: watcher, Runners: w.watchRunners(ctx, current), Linger: linger, Outdated: outdated, Starved: proc.Starved}
	another := r.Serve(ctx)
	switch {
	case ctx.Err() == nil && !lock.Held():
		lock.Release()
		wakeWhereMoved(root, env)
	case another:
		residentWaker{path, w.local}.Wake(kernel.Wakes{Poll: true})
		return nil
	}
	w.hosts.Leave()
	return nil
}

// wakeWhereMoved wakes the resident scheduler of the repository that was at root, or starts
// one, where the repository is now, if it was moved: this process, which looked after it at
// its old place, is perhaps the only one that learns of that. The working directory moves along.
func wakeWhereMoved(was git.Root, env Environment) {
	root, live, err := here(env)
	if err != nil || root.Dir == was.Dir { // it was removed, or its store was
		return
	}
	if w, err := connect(root, live, env, "", nil); err == nil && w.config().Scheduler.Resident {
		residentWaker{w.store.ResidentFile(), w.local}.Wake(kernel.Wakes{Poll: true})
	}
}

// BecomeResidentProgram replaces this process by the build for long-running
// processes, if that is installed beside this program. It returns if it is not,
// or if this process already runs that build.
func BecomeResidentProgram(args, environ []string) {
	own, err := os.Executable()
	if err != nil {
		return
	}
	if _, resident, err := programs(own); err == nil && resident != own {
		_ = syscall.Exec(resident, append(os.Args[:1:1], args...), environ) // on failure, continue with this build
	}
}

// Become replaces this process by the program of another front end, such as
// vizier-top, which is installed beside this one. It only returns if that
// fails.
func Become(program string, args, environ []string) error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	file := filepath.Join(filepath.Dir(own), program)
	err = syscall.Exec(file, append([]string{file}, args...), environ)
	return fmt.Errorf("%s cannot be started: %w", file, err)
}

// programFile returns the path of this program's file, and the file.
func programFile() (string, os.FileInfo, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("find this program's file: %w", err)
	}
	own, err := os.Stat(exe)
	return exe, own, err
}

// replaceTime is how long the file of a program may be missing while another one
// takes its place.
const replaceTime = time.Second

// replaced reports whether the program at path is no longer the file own. If
// there is none, nothing can be started from it.
func replaced(path string, own os.FileInfo) bool {
	now, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		time.Sleep(replaceTime)
		now, err = os.Stat(path)
	}
	return errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(own, now)
}

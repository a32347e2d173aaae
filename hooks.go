package vizier

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// hookEvents are the events that the words in a hook's `on` stand for.
var hookEvents = map[string]kernel.EventKind{ //nolint:gochecknoglobals // a table
	"succeeded": kernel.JobSucceeded, "failed": kernel.JobFailedFinal, "cancelled": kernel.JobCancelled, "blocked": kernel.JobBlocked,
}

// hookWaker starts the process that runs hooks, if an event is pending and no
// such process runs.
type hookWaker struct {
	wanted map[kernel.EventKind]bool
	store  *fs.Store
	local  *proc.Local
}

// newHookWaker is nil where no hooks are configured.
func newHookWaker(cfg config.Config, store *fs.Store, local *proc.Local) app.Hooks {
	c := hookWaker{map[kernel.EventKind]bool{}, store, local}
	for _, h := range cfg.Hooks {
		for _, word := range h.On {
			c.wanted[hookEvents[word]] = true
		}
	}
	if len(c.wanted) == 0 {
		return nil
	}
	return c
}

// Wants reports that a hook asks for events of that kind.
func (c hookWaker) Wants(k kernel.EventKind) bool { return c.wanted[k] }

// Wake starts the process. If the lock is taken, nothing is lost: its holder
// reads the queue once more before it ends, and again after it unlocked.
func (c hookWaker) Wake() {
	if !c.store.HooksPending() {
		return
	}
	f, err := lockHooks(c.store)
	if err != nil || f == nil {
		return
	}
	_ = f.Close() // the process takes the lock itself: if two were started, one ends
	_ = c.local.StartHooks()
}

// lockHooks takes the lock of the process that runs hooks. The file is nil when
// another process has it.
func lockHooks(s *fs.Store) (*os.File, error) {
	path := s.HooksFile()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, f.Close()
	}
	return f, nil
}

// serveHooks is the hidden entry point `__hooks`: it runs the hooks of what is
// pending in the repository that the working directory belongs to.
func serveHooks(stderr io.Writer, env Environment) int {
	if err := dispatchHooks(env); err != nil {
		fmt.Fprintln(stderr, "vizier hooks:", err)
		return 1
	}
	return 0
}

func dispatchHooks(env Environment) error {
	root, live, err := here(env)
	if err != nil {
		return err
	}
	w, err := connect(root, live, env, "", nil)
	if err != nil {
		return err
	}
	if err := w.store.Foreign(context.Background()); err != nil {
		return err
	}
	d := app.HookDispatcher{Pending: w.store, Hooks: w.hooks, Events: w.store, Now: w.scheduler.Now}
	for w.store.HooksPending() { // what became so while the lock was let go
		f, err := lockHooks(w.store)
		if err != nil || f == nil {
			return err
		}
		err = d.Serve(context.Background())
		if err2 := f.Close(); err != nil || err2 != nil {
			return err
		}
	}
	return nil
}

// hooks are the configured ones that may run, in order of their names.
func (w *world) hooks() []app.Hook {
	w.live.Refresh()
	cfg := w.config()
	var out []app.Hook
	untrusted := w.untrusted(context.Background())
	for _, name := range slices.Sorted(maps.Keys(cfg.Hooks)) {
		if about(untrusted, "hooks."+name) {
			continue
		}
		h := cfg.Hooks[name]
		hook := app.Hook{Name: name, Run: func(ctx context.Context, e kernel.Event) error {
			_, status, _ := strings.Cut(string(e.Kind), ".")
			status, _, _ = strings.Cut(status, ".")
			log := w.store.HookLog(kernel.AttemptID{Job: e.Job, N: e.Attempt}, e.Generation, name)
			return w.local.RunHook(ctx, proc.HookCall{Command: h.Command, Event: e, Status: status, Log: log, Timeout: h.Timeout, Grace: cfg.Jobs.Grace})
		}}
		for _, word := range h.On {
			hook.On = append(hook.On, hookEvents[word])
		}
		out = append(out, hook)
	}
	return out
}

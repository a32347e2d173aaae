package vizier

import (
	"cmp"
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
	"github.com/vizier-scheduler/vizier/kernel/trace"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// hookEvents maps the words in a hook's `on` to events, where they are not the
// events' own names.
var hookEvents = map[string]kernel.EventKind{ //nolint:gochecknoglobals // a table
	"succeeded": kernel.JobSucceeded, "failed": kernel.JobFailedFinal, "cancelled": kernel.JobCancelled, "blocked": kernel.JobBlocked,
}

func hookEvent(word string) kernel.EventKind { return cmp.Or(hookEvents[word], kernel.EventKind(word)) }

// hookWaker starts the process that runs hooks, if an event is pending and no
// such process runs.
type hookWaker struct {
	wanted map[kernel.EventKind]bool
	store  *fs.Store
	local  *proc.Local
}

// newHookWaker returns nil if no hooks are configured and no spans are
// exported.
func newHookWaker(cfg config.Config, store *fs.Store, local *proc.Local) app.Hooks {
	c := hookWaker{map[kernel.EventKind]bool{}, store, local}
	for _, h := range cfg.Hooks {
		for _, word := range h.On {
			c.wanted[hookEvent(word)] = true
		}
	}
	if cfg.OTel.Endpoint != "" {
		for _, kind := range trace.Kinds {
			c.wanted[kind] = true
		}
	}
	if len(c.wanted) == 0 {
		return nil
	}
	return c
}

// Wants reports whether a hook is configured for events of that kind.
func (c hookWaker) Wants(k kernel.EventKind) bool { return c.wanted[k] }

// Wake starts the process. If the lock is taken, no event is missed: the holder
// reads the queue once more before it ends, and again after it has unlocked.
func (c hookWaker) Wake() {
	if !c.store.HooksPending() {
		return
	}
	f, err := lockHooks(c.store)
	if err != nil || f == nil {
		return
	}
	_ = f.Close() // the process takes the lock itself; if two were started, one ends
	_ = c.local.StartHooks()
}

// lockHooks takes the lock of the process that runs hooks. It returns nil if
// another process holds it.
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

// serveHooks implements the hidden entry point `__hooks`: it runs the hooks of
// pending events in the repository that contains the working directory. export
// may be nil.
func serveHooks(stderr io.Writer, env Environment, export SpanExporter) int {
	if err := dispatchHooks(env, export); err != nil {
		fmt.Fprintln(stderr, "vizier hooks:", err)
		return 1
	}
	return 0
}

func dispatchHooks(env Environment, export SpanExporter) error {
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
	hooks := func() []app.Hook { return append(w.hooks(), w.exports(export)...) }
	d := app.HookDispatcher{Pending: w.store, Hooks: hooks, Events: w.store, Now: w.scheduler.Now}
	for w.store.HooksPending() { // events that became pending while the lock was free
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

// tell appends events that belong to no transaction to the log, and queues them
// for hooks. Errors are ignored: the log is history, and what matters is in the
// inbox's files.
func (w *world) tell(events []kernel.Event) {
	_ = w.store.AppendEvents(events)
	hooks := w.scheduler.Hooks
	if hooks == nil {
		return
	}
	for _, e := range events {
		if hooks.Wants(e.Kind) {
			_ = w.store.Announce(e)
		}
	}
	if !w.scheduler.Sandboxed {
		hooks.Wake()
	}
}

// hooks returns the configured hooks that may run, sorted by name.
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
			call := proc.HookCall{Command: h.Command, Event: e, Timeout: h.Timeout, Grace: cfg.Jobs.Grace}
			at := w.speak(ctx, &call)
			call.Log = w.store.HookLog(at, e.Generation, name)
			return w.local.RunHook(ctx, call)
		}}
		for _, word := range h.On {
			hook.On = append(hook.On, hookEvent(word))
		}
		out = append(out, hook)
	}
	return out
}

// speak sets the fields of a call that are for people: the reference of the
// event's job or run, and the command to type next. It returns the attempt to
// whose log the call's output goes: for a run's event, that of the run's first
// job.
func (w *world) speak(ctx context.Context, h *proc.HookCall) kernel.AttemptID {
	e := &h.Event
	_, status, _ := strings.Cut(string(e.Kind), ".")
	h.Status, _, _ = strings.Cut(cmp.Or(status, string(e.Kind)), ".")
	at := kernel.AttemptID{Job: e.Job, N: e.Attempt}
	if e.Job == "" && e.Run == "" { // the event of a refused prompt
		h.Next = "vizier status"
		return at
	}
	scope := kernel.Scope{}
	for _, id := range view.IDs(string(e.Job) + " " + string(e.Run) + " " + e.Reason) {
		if run := kernel.RunID(id); strings.HasPrefix(id, "run_") {
			scope.Near = append(scope.Near, kernel.Near{Kind: kernel.Members, Run: run})
		} else {
			scope.Jobs = append(scope.Jobs, kernel.JobID(id))
			scope.Near = append(scope.Near, kernel.Near{Kind: kernel.Itself, Job: kernel.JobID(id)})
		}
	}
	snap, err := w.scheduler.Records(ctx, scope)
	if err != nil {
		h.Ref = cmp.Or(e.Ref(), string(e.Job), string(e.Run))
		return at // a call with an id is better than none
	}
	refs := map[string]string{}
	for _, j := range snap.Jobs() {
		refs[string(j.ID)] = j.Ref()
		if run := string(j.Spec.Origin.Run); run != "" && j.Spec.Origin.Parent == "" && j.Number != 0 {
			refs[run] = j.Number.String()
		}
	}
	if e.Job == "" {
		if run := snap.Members(e.Run); len(run) > 0 {
			at, e.Name = run[0].Attempt(), view.RunOf(snap, run).Name
		}
	}
	e.Reason = view.Refer(e.Reason, func(id string) string { return refs[id] })
	h.Ref = cmp.Or(e.Ref(), refs[cmp.Or(string(e.Job), string(e.Run))], string(e.Job), string(e.Run))
	h.Next = "vizier " + hookVerb(snap.Job(e.Job), e.Kind) + " " + h.Ref
	return at
}

// hookVerb returns the command to type after an event.
func hookVerb(j *kernel.Job, kind kernel.EventKind) string {
	switch {
	case j != nil && j.State.Status == kernel.WaitingOnApproval && (kind == kernel.ApprovalPending || kind == kernel.NeedsAttention):
		return "jobs approve"
	case kind == kernel.JobSucceeded, kind == kernel.RunSucceeded, kind == kernel.ApprovalGranted, kind == kernel.JobCancelled:
		return "show"
	}
	return "why"
}

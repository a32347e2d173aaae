package app_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// store is a store on the disk behind the port.
type store struct{ *fs.Store }

func (s store) Begin(ctx context.Context) (app.Tx, error) { return s.Store.Begin(ctx) }

// hands is an executor that only notes its calls.
type hands struct{ did []string }

func (h *hands) note(what string, a kernel.AttemptID) error {
	h.did = append(h.did, fmt.Sprintf("%s %s/%d", what, a.Job[31:], a.N))
	return nil
}

func (h *hands) Start(_ context.Context, a kernel.AttemptID) error { return h.note("start", a) }
func (h *hands) Stop(_ context.Context, a kernel.AttemptID) error  { return h.note("stop", a) }
func (h *hands) Sweep(_ context.Context, a kernel.AttemptID) error { return h.note("sweep", a) }
func (h *hands) Alive(_ context.Context, all []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range all {
		out[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
	}
	return out
}

func (h *hands) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(h.did, want) {
		t.Errorf("%s: did %q, want %q", when, h.did, want)
	}
	h.did = nil
}

// The changes that a sandboxed process asks for are recorded, and the next process outside
// performs them: none is lost, and none is performed twice.
func TestASandboxLeavesTheWorldToOthers(t *testing.T) {
	dir, h, n := t.TempDir(), &hands{}, 0
	scheduler := func(sandboxed bool) *app.Scheduler {
		return &app.Scheduler{Store: store{fs.NewStore(dir, fs.Options{Boot: "b", Now: time.Now})}, Executor: h, Sandboxed: sandboxed, Now: time.Now,
			NewID: func() kernel.JobID { n++; return kernel.JobID(fmt.Sprintf("%032x", n)) }}
	}
	submit := func(s *app.Scheduler) kernel.JobID {
		t.Helper()
		id := s.NewID()
		rep, err := s.Submit(t.Context(), []kernel.NewJob{{ID: id, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}}, "ann")
		if err != nil {
			t.Fatal(err)
		}
		want := kernel.Running
		if s.Sandboxed {
			want = kernel.Queued
		}
		if st := rep.Snapshot.Job(id).State.Status; st != want {
			t.Errorf("job %s is %s", id, st)
		}
		return id
	}
	outside := scheduler(false)
	first, second := submit(outside), submit(outside)
	h.expect(t, "outside", "start 1/1", "start 2/1")
	for _, id := range []kernel.JobID{first, second} {
		rep, err := scheduler(true).Cancel(t.Context(), id, "bob", false)
		if err != nil {
			t.Fatal(err)
		}
		if st := rep.Snapshot.Job(id).State; st.Status != kernel.Running || st.Stop.By != "bob" {
			t.Errorf("%+v", st)
		}
	}
	submit(scheduler(true))
	if _, err := scheduler(true).Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.expect(t, "inside")
	if _, err := scheduler(false).Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.expect(t, "the next outside", "stop 1/1", "stop 2/1", "start 3/1")
	if _, err := scheduler(false).Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.expect(t, "the one after that")
}

package fs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// An event is pending from the commit of its plan until it is acknowledged, also for
// other processes.
func TestEventsArePendingUntilAcknowledged(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	end := kernel.Event{At: t0, Kind: kernel.JobFailedFinal, Job: id(1), Run: "run_1", Node: "n", Name: "x", Attempt: 2, Generation: 1,
		Exit: kernel.Exited(7), Class: kernel.ExitFailure, Reason: "exit code 7",
		Agent: kernel.EventAgent{Agent: "claude", Model: "m", Session: "s", Turns: 3, Usage: kernel.Usage{Input: 1, Cached: 2, Output: 3, CostUSD: 0.5}}}
	other := kernel.Event{At: t0, Kind: kernel.JobBlocked, Job: id(2), Reason: "no"}
	run := kernel.Event{At: t0, Kind: kernel.RunFailed, Run: "run_" + kernel.RunID(id(3))}
	said := kernel.Event{At: t0, Kind: kernel.ApprovalRejected, Job: id(2), Reason: "no", By: "ann"}
	again := said
	again.At = t0.Add(time.Microsecond)
	commit(t, s, kernel.Create(plain(1)), kernel.Create(plain(2)), kernel.Announce{Event: end}, kernel.Announce{Event: other},
		kernel.Announce{Event: run, Beside: id(1)}, kernel.Announce{Event: said}, kernel.Announce{Event: again})
	pending := func(want ...kernel.Event) {
		t.Helper()
		got, err := newStore(t, dir).Pending()
		if err != nil || len(got) != len(want) {
			t.Fatalf("%+v, %v", got, err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("got %+v, want %+v", got[i], want[i])
			}
		}
	}
	pending(end, said, again, other, run)
	bad := filepath.Join(dir, ".vizier", pendingDir, "bad.json")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	pending(end, said, again, other, run)
	if _, err := os.Stat(bad); err == nil {
		t.Error("what makes no sense stays for ever")
	}
	writeAt(t, filepath.Join(filepath.Dir(bad), ".#bad.json"), "an editor's")
	pending(end, said, again, other, run)
	if err := s.Ack(end); err != nil {
		t.Fatal(err)
	}
	if err := s.Ack(end); err != nil {
		t.Errorf("a second time: %v", err)
	}
	for _, e := range []kernel.Event{said, again, run} {
		if err := s.Ack(e); err != nil {
			t.Fatal(err)
		}
	}
	pending(other)
	if !s.HooksPending() {
		t.Error("one is pending")
	}
	s.disk, s.base.disk = &faulty{at: 1, dead: true}, &faulty{at: 1, dead: true}
	if !s.HooksPending() {
		t.Error("what cannot be read is not pending")
	}
	s.disk, s.base.disk = machine{}, machine{}
	if err := s.Ack(other); err != nil || s.HooksPending() {
		t.Errorf("%v; none is pending", err)
	}
}

// An event about neither a job nor a run waits for its hooks as the others do, under
// the name of its subject.
func TestAnEventOfNoJobIsLeftToHooks(t *testing.T) {
	s := newStore(t, t.TempDir())
	a := kernel.Event{At: t0, Kind: kernel.NeedsAttention, Name: "a.error.md", Reason: "prompt: no such flow"}
	b := a
	b.Name = "b.error.md"
	for _, e := range []kernel.Event{a, b} {
		if err := s.Announce(e); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.Pending()
	if err != nil || len(list) != 2 || !slices.Contains(list, a) || !slices.Contains(list, b) {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := s.Ack(a); err != nil {
		t.Fatal(err)
	}
	if list, err = s.Pending(); err != nil || len(list) != 1 || list[0] != b {
		t.Errorf("%+v, %v", list, err)
	}
}

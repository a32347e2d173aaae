package fs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Readers without the lock see each record whole, as some commit left it, and never an
// older one than before, while others commit.
func TestReadersWithoutTheLockSeeWholeRecords(t *testing.T) {
	const commits = 150
	dir := t.TempDir()
	s := newStore(t, dir)
	j := plain(1)
	j.Spec.Produces = []kernel.Artifact{custom("t", "k")}
	j.State.Status, j.State.Attempt = kernel.Running, 1
	commit(t, s, kernel.Create(j))
	outcome := func(rev kernel.Revision) kernel.Result {
		return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure, Reason: fmt.Sprint(rev), Ended: t0}
	}
	if err := errors.Join(s.Conclude(outcome(1)), s.WritePayload(j.ID, j.Spec.Produces[0], []byte("1"))); err != nil {
		t.Fatal(err)
	}
	attempt, id, made := j.Attempt(), j.ID, j.Spec.Produces[0] // j goes on changing
	var over atomic.Bool
	var readers sync.WaitGroup
	reads := make([]int, 3)
	for n := range reads {
		r := newStore(t, dir)
		readers.Go(func() {
			last := kernel.Revision(0)
			for !over.Load() || reads[n] == 0 {
				have, err := r.Job(id)
				if err != nil || have.Rev < last || have.State.Reason != reasonOf(have.Rev) {
					t.Errorf("after revision %d: %v, revision %d says %q", last, err, have.Rev, have.State.Reason)
					return
				}
				f := kernel.NewFacts()
				r.Observe(t.Context(), kernel.Probes{Attempts: []kernel.AttemptID{attempt}}, &f)
				if got := f.Results[attempt]; !got.Known || got.Value == nil {
					t.Errorf("an outcome that is being replaced: %+v", got)
					return
				}
				if b, err := r.Payload(id, made); err != nil || len(b) == 0 {
					t.Errorf("a payload that is being replaced: %q, %v", b, err)
					return
				}
				last = have.Rev
				reads[n]++
			}
		})
	}
	for rev := j.Rev; rev <= commits; rev++ {
		j.Rev = rev
		a := put(j, func(st *kernel.State) { st.Reason = reasonOf(rev + 1) })
		commit(t, s, a)
		j.State = a.State
		if err := errors.Join(s.Conclude(outcome(rev)), s.WritePayload(j.ID, j.Spec.Produces[0], fmt.Append(nil, rev))); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	readers.Wait()
}

// reasonOf returns the reason of a job at a revision. It is long, so that a torn record
// would be seen.
func reasonOf(rev kernel.Revision) string {
	if rev == 1 {
		return ""
	}
	return fmt.Sprintf("%0*d", 20_000, rev)
}

// countedTurn counts how often it was left.
type countedTurn struct{ left *int }

func (countedTurn) Holds() error { return nil }
func (c countedTurn) Leave()     { *c.left++ }

// The turn of a transaction is left with it, once.
func TestATurnIsLeft(t *testing.T) {
	left := 0
	o := options()
	o.Admit = func(context.Context, bool) (Turn, error) { return countedTurn{&left}, nil }
	tx := begin(t, newStoreWith(t, t.TempDir(), o))
	if left != 0 {
		t.Errorf("it was left %d times, and the transaction goes on", left)
	}
	if closeTx(t, tx); left != 1 {
		t.Errorf("it was left %d times", left)
	}
}

// A host that is not admitted, since another one is at work whose locks it does not see,
// changes nothing. It does not cut off an entry that seems torn: the other host may be writing it.
func TestWhoIsNotAdmittedWritesNothing(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	commit(t, s, put(plain(1), func(st *kernel.State) { st.Reason = "later" }))
	plans := file(dir, plansFile)
	whole := contentOf(t, plans)
	writeAt(t, plans, whole+whole[:20])
	before := tree(t, dir)
	refused := errors.New("another host is at it")
	for _, admitted := range []bool{false, true} {
		var asked []bool
		o := options()
		o.Admit = func(_ context.Context, looks bool) (Turn, error) {
			if asked = append(asked, looks); admitted {
				return freeTurn{}, nil
			}
			return nil, refused
		}
		other := newStoreWith(t, dir, o)
		if got := find(t, read(t, other), id(1)).State.Reason; got != "later" {
			t.Errorf("it reads %q", got)
		}
		if len(asked) == 0 || !asked[0] {
			t.Errorf("it was asked for leave: %v", asked)
		}
		if cut := contentOf(t, plans) == whole; cut != admitted {
			t.Errorf("admitted: %v; what was being written was cut off: %v", admitted, cut)
		}
		if tx, err := other.Begin(soon(t)); !admitted && !errors.Is(err, refused) {
			t.Errorf("a transaction: %v", err)
		} else if admitted {
			closeTx(t, tx)
		}
		if diff := cmp.Diff(before, tree(t, dir)); !admitted && diff != "" {
			t.Error(diff)
		}
	}
}

// freeTurn is a turn that nobody disputes.
type freeTurn struct{}

func (freeTurn) Holds() error { return nil }
func (freeTurn) Leave()       {}

// A runner asks for the record of its own job again and again, which is decoded once. That of a job that does not run is not
// kept.
func TestTheRecordOfARunningJobIsDecodedOnce(t *testing.T) {
	running, queued := plain(1), plain(2)
	running.State.Status, running.State.Attempt = kernel.Running, 1
	dir := t.TempDir()
	commit(t, newStore(t, dir), kernel.Create(running), kernel.Create(queued))
	for name, s := range map[string]*Store{"read": newStore(t, dir), "written": newStore(t, t.TempDir())} {
		if name == "written" {
			commit(t, s, kernel.Create(running), kernel.Create(queued))
		}
		allocations := func(n int) float64 {
			return testing.AllocsPerRun(5, func() { // after a first call
				if j, err := s.Job(id(n)); err != nil || j.ID != id(n) {
					t.Fatal(j, err)
				}
			})
		}
		if r, q := allocations(1), allocations(2); 3*r > 2*q { // the race detector empties pools at random
			t.Errorf("%s: the record of a running job takes %v allocations, another %v", name, r, q)
		}
	}
}

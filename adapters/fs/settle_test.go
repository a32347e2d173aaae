package fs

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// counting is a disk that counts its syncs.
type counting struct {
	machine
	syncs int
}

func (c *counting) sync(fd int) error     { c.syncs++; return c.machine.sync(fd) }
func (c *counting) syncData(fd int) error { c.syncs++; return c.machine.syncData(fd) }
func (c *counting) syncAll(fd int) error  { c.syncs++; return c.machine.syncAll(fd) }

// running returns a store with one running job, and a result for it.
func running(t *testing.T) (*Store, kernel.Job, kernel.Result) {
	t.Helper()
	s := newStore(t, t.TempDir())
	j := plain(1)
	j.State.Status, j.State.Attempt = kernel.Running, 1
	commit(t, s, kernel.Create(j))
	return s, j, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 3, Class: kernel.ExitFailure,
		Reason: "exit code 3", Ended: t0}
}

func hasFailed(j kernel.Job) kernel.PutState {
	return put(j, func(st *kernel.State) {
		st.Status, st.Outcome, st.Exit, st.Failure, st.Finished = kernel.Failed, kernel.OutcomeFailed, kernel.ExitCode{Known: true, Code: 3}, kernel.ExitFailure, t0
	})
}

// A settlement and its outcome are one commit, with one sync.
func TestSettlingRecordsTheOutcome(t *testing.T) {
	s, j, r := running(t)
	s.opts.Durable = true
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d := &counting{}
	s.disk = d
	tx, err := s.BeginSettling(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	load(t, tx)
	before := d.syncs
	if err := tx.Commit(kernel.NewPlan(hasFailed(j))); err != nil {
		t.Fatal(err)
	}
	if d.syncs != before+1 {
		t.Errorf("%d syncs, want 1", d.syncs-before)
	}
	closeTx(t, tx)
	other := newStoreWith(t, s.Layout.root, s.opts)
	closeTx(t, begin(t, other))
	if got, err := other.outcome(j.ID, outcomeName); err != nil || got == nil || got.Exit != 3 || got.Reason != r.Reason {
		t.Errorf("the outcome is %+v", got)
	}
}

// An attempt keeps its end even if the next attempt begins in the same commit.
func TestSettlingRecordsWhatTheNextAttemptHides(t *testing.T) {
	for name, change := range map[string]func(*kernel.State){
		"runs":              func(st *kernel.State) { st.Status, st.Attempt = kernel.Running, 2 },
		"waits for a place": func(st *kernel.State) { st.Status = kernel.WaitingOnLocks },
	} {
		s, j, r := running(t)
		tx, err := s.BeginSettling(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		load(t, tx)
		if err := tx.Commit(kernel.NewPlan(put(j, change))); err != nil {
			t.Fatal(err)
		}
		closeTx(t, tx)
		got, err := newStoreWith(t, s.Layout.root, s.opts).Attempts(j.ID)
		if err != nil || len(got) != 1 || got[0].Attempt.N != 1 || got[0].Exit != 3 || got[0].Reason != r.Reason || !got[0].Ended.Equal(t0) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if _, err := os.Stat(s.OutcomeFile(j.ID)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the job has an outcome: %v", name, err)
		}
	}
}

// Settling does not wait for the lock: without it, nothing is recorded.
func TestSettlingWaitsForNobody(t *testing.T) {
	s, j, r := running(t)
	tx := begin(t, newStoreWith(t, s.Layout.root, s.opts))
	var busy *BusyError
	if _, err := s.BeginSettling(context.Background(), r); !errors.As(err, &busy) {
		t.Errorf("got %v, want a BusyError", err)
	}
	if _, err := os.Stat(s.OutcomeFile(j.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is an outcome: %v", err)
	}
	closeTx(t, tx)
}

// A transaction waits for this host's turn to write, and settling does not.
func TestSettlingWaitsForNoOtherHost(t *testing.T) {
	s, _, r := running(t)
	waits := false
	s.opts.Admit = func(ctx context.Context, _ bool) (Turn, error) {
		waits = ctx.Err() == nil
		return freeTurn{}, nil
	}
	closeTx(t, begin(t, s))
	if !waits {
		t.Error("a transaction does not wait for its turn")
	}
	tx, err := s.BeginSettling(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx)
	if waits {
		t.Error("settling waits for its turn")
	}
}

// A result is not recorded if it is another attempt's, or if the new state contradicts
// it.
func TestSettlingRecordsNothingElse(t *testing.T) {
	for name, change := range map[string]func(*kernel.Result){
		"another attempt": func(r *kernel.Result) { r.Attempt.N = 2 },
		"another outcome": func(r *kernel.Result) { r.Outcome = kernel.OutcomeSucceeded },
	} {
		s, j, r := running(t)
		change(&r)
		tx, err := s.BeginSettling(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		load(t, tx)
		if err := tx.Commit(kernel.NewPlan(hasFailed(j))); err != nil {
			t.Fatal(err)
		}
		closeTx(t, tx)
		if _, err := os.Stat(s.OutcomeFile(j.ID)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: there is an outcome: %v", name, err)
		}
	}
}

// outcome.json holds the job's final record, whether the commit that settles the job
// writes it first, or its runner, which does not know that record yet.
func TestTheOutcomeHoldsTheRecord(t *testing.T) {
	for name, first := range map[string]func(*Store, kernel.Job, kernel.Result) error{
		"settled at once": func(s *Store, j kernel.Job, r kernel.Result) error {
			tx, err := s.BeginSettling(context.Background(), r)
			if err != nil {
				return err
			}
			load(t, tx)
			return errors.Join(tx.Commit(kernel.NewPlan(hasFailed(j))), tx.Close())
		},
		"by its runner": func(s *Store, j kernel.Job, r kernel.Result) error {
			if err := s.Conclude(r); err != nil {
				return err
			}
			if text := readOutcome(t, s, j.ID); strings.Contains(text, `"schedule"`) {
				t.Errorf("the runner knew already: %s", text)
			}
			commit(t, s, hasFailed(j))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, j, r := running(t)
			if err := first(s, j, r); err != nil {
				t.Fatal(err)
			}
			text := readOutcome(t, s, j.ID)
			for _, part := range []string{`"status": "failed"`, `"child_args"`, `"schedule": {`, `"metadata": {`, `"stdout_path"`, `"config_snapshot": null`, `"exit_code": 3`} {
				if !strings.Contains(text, part) {
					t.Errorf("%s is not in %s", part, text)
				}
			}
			var doc any
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatal(err)
			}
			if err := schema(t, "outcome").Validate(doc); err != nil {
				t.Error(err)
			}
			if got, err := s.outcome(j.ID, outcomeName); err != nil || got == nil || got.Reason != r.Reason || got.Attempt != r.Attempt {
				t.Errorf("it is read as %+v", got)
			}
		})
	}
}

func readOutcome(t *testing.T, s *Store, id kernel.JobID) string {
	t.Helper()
	b, err := s.base.read(jobPath(id, outcomeName), maxRecord)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

package fs

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
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

// A result that is not how the job's attempt ended is not recorded: the end is recorded as the
// state has it, in place of what the runner or an earlier attempt left. So it is with a
// success whose submissions are refused when it is settled.
func TestSettlingRecordsNothingElse(t *testing.T) {
	for name, left := range map[string]func(s *Store, r kernel.Result) (*Tx, error){
		"a success is settled": func(s *Store, r kernel.Result) (*Tx, error) {
			r.Outcome, r.Exit, r.Class = kernel.OutcomeSucceeded, 0, kernel.NoFailure
			return s.BeginSettling(context.Background(), r)
		},
		"its runner recorded a success": func(s *Store, r kernel.Result) (*Tx, error) {
			r.Outcome, r.Exit, r.Class = kernel.OutcomeSucceeded, 0, kernel.NoFailure
			return concludeAndBegin(s, r)
		},
		"an earlier attempt left one": func(s *Store, r kernel.Result) (*Tx, error) {
			r.Attempt.N = 7
			return concludeAndBegin(s, r)
		},
	} {
		s, j, r := running(t)
		tx, err := left(s, r)
		if err != nil {
			t.Fatal(err)
		}
		load(t, tx)
		failed := hasFailed(j)
		failed.State.Failure, failed.State.Reason, failed.State.Place = kernel.DataError, "its submissions: no", kernel.Place{Host: "here", PID: 7}
		if err := tx.Commit(kernel.NewPlan(failed)); err != nil {
			t.Fatal(err)
		}
		closeTx(t, tx)
		want := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 3, Class: kernel.DataError, Reason: "its submissions: no",
			Place: failed.State.Place, Ended: t0}
		for _, file := range []string{outcomeName, attemptOutcome(1)} {
			if got, err := s.outcome(j.ID, file); err != nil || !reflect.DeepEqual(got, &want) {
				t.Errorf("%s: %s is %+v, %v", name, file, got, err)
			}
		}
	}
}

func concludeAndBegin(s *Store, r kernel.Result) (*Tx, error) {
	if err := s.Conclude(r); err != nil {
		return nil, err
	}
	return s.Begin(context.Background())
}

// What the runner recorded of an attempt stays on record although a runner of an earlier attempt
// wrote its own later.
func TestSettlingKeepsWhatWasRecordedOverALateRunner(t *testing.T) {
	s, j, r := running(t)
	r.Reason = "by its runner"
	late := r
	late.Attempt.N, late.Reason = 9, "late"
	if err := errors.Join(s.Conclude(r), s.Conclude(late)); err != nil {
		t.Fatal(err)
	}
	commit(t, s, hasFailed(j))
	for _, file := range []string{outcomeName, attemptOutcome(1)} {
		if got, err := s.outcome(j.ID, file); err != nil || got == nil || got.Reason != r.Reason || got.Attempt != r.Attempt {
			t.Errorf("%s is %+v, %v", file, got, err)
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

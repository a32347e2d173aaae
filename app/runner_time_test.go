package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// beating is a workload that counts heartbeats, and outcomes that depend on the time since the start.
type beating struct {
	*workload
	begun  time.Time
	beats  atomic.Int64
	record func(after time.Duration) (kernel.Job, error)
}

func (b *beating) Beat(kernel.AttemptID) error {
	b.beats.Add(1)
	return errDisk // which ends nothing
}

func (b *beating) Job(kernel.JobID) (kernel.Job, error) { return b.record(time.Since(b.begun)) }

func (*beating) Conclude(kernel.Result) error { return nil }

// While its command runs, a runner sends heartbeats, and learns that another attempt is current, or that the
// record of its job is gone for good.
func TestWhatARunnerLearnsWhileItsCommandRuns(t *testing.T) {
	const end = time.Hour
	for name, c := range map[string]struct {
		record func(after time.Duration) (kernel.Job, error)
		why    error
		at     time.Duration // the command's end
		beats  int64
	}{
		"nothing": {func(time.Duration) (kernel.Job, error) { return job("a", running(1)), nil }, nil, end, 59},
		"another attempt": {func(after time.Duration) (kernel.Job, error) {
			if after < 90*time.Second {
				return job("a", running(1)), nil
			}
			return job("a", running(2)), nil
		}, kernel.ErrStale, 2 * time.Minute, 2},
		"a record that cannot be read": {func(time.Duration) (kernel.Job, error) { return kernel.Job{}, errDisk }, nil, end, 59},
		"a record that is away now and then": {func(after time.Duration) (kernel.Job, error) {
			if after%(2*presencePause) == 0 {
				return kernel.Job{}, kernel.ErrNotFound
			}
			return job("a", running(1)), nil
		}, nil, end, 59},
		"a record that is gone": {func(after time.Duration) (kernel.Job, error) {
			if after > 3*presencePause {
				return kernel.Job{}, kernel.ErrNotFound
			}
			return job("a", running(1)), nil
		}, ErrRecordGone, 5 * presencePause, 0},
		"no file can be opened now and then": {func(after time.Duration) (kernel.Job, error) {
			if after%noFilesPatience != 0 {
				return kernel.Job{}, syscall.EMFILE
			}
			return job("a", running(1)), nil
		}, nil, end, 59},
		"no file can be opened any more": {func(after time.Duration) (kernel.Job, error) {
			if after > presencePause {
				return kernel.Job{}, fmt.Errorf("open: %w", syscall.EMFILE)
			}
			return job("a", running(1)), nil
		}, ErrNoFiles, presencePause + noFilesPatience, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &beating{begun: time.Now(), record: c.record}
			b.workload = &workload{newMemory(), func(ctx context.Context, j *kernel.Job) kernel.Result {
				select {
				case <-ctx.Done():
				case <-time.After(end - time.Second):
				}
				if why := context.Cause(ctx); (c.why == nil) != (why == nil) || !errors.Is(why, c.why) || time.Since(b.begun) != min(c.at, end-time.Second) {
					t.Errorf("%s: after %v it ends with %v", name, time.Since(b.begun), why)
				}
				return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded}
			}}
			j := job("a", running(1))
			(&Runner{Outcomes: b, Workload: b, Beat: time.Minute}).run(t.Context(), &j)
			time.Sleep(end)
			if n := b.beats.Load(); n != c.beats {
				t.Errorf("%s: %d heartbeats", name, n)
			}
		})
	}
}

// hindered is a store and outcomes that fail for a while.
type hindered struct {
	*memory
	begin, conclude, job, commit error
	until                        time.Time
}

func (h *hindered) now(err error) error {
	if time.Now().Before(h.until) {
		return err
	}
	return nil
}

func (h *hindered) Begin(ctx context.Context) (Tx, error) {
	if err := h.now(h.begin); err != nil {
		return nil, err
	}
	_, err := h.memory.Begin(ctx)
	return h, err
}

func (h *hindered) Commit(p kernel.Plan) error {
	if err := h.now(h.commit); err != nil {
		return err
	}
	return h.memory.Commit(p)
}

func (h *hindered) Conclude(r kernel.Result) error {
	if err := h.now(h.conclude); err != nil {
		return err
	}
	return h.memory.Conclude(r)
}

func (h *hindered) Job(id kernel.JobID) (kernel.Job, error) {
	if err := h.now(h.job); err != nil {
		return kernel.Job{}, err
	}
	return h.memory.Job(id)
}

// A runner does not end before the end of its attempt is on record, or nobody waits for it.
func TestHowLongARunnerKeepsAResult(t *testing.T) {
	for name, c := range map[string]struct {
		begin, conclude, job error
		commit               error
		within               time.Duration // until the runner is cancelled; 0: never
		want                 error
		waits                bool // until nothing hinders it
		result, settled      bool // on record in the end
	}{
		"nothing hinders it":                   {result: true, settled: true},
		"the disk is full":                     {begin: errDisk, conclude: errDisk, waits: true, result: true, settled: true},
		"the lock is taken":                    {begin: ErrBusy, waits: true, result: true, settled: true},
		"the record cannot be read":            {begin: errDisk, conclude: errDisk, job: errDisk, waits: true, result: true, settled: true},
		"it was moved":                         {begin: kernel.ErrMoved, want: kernel.ErrMoved, result: true},
		"it was moved, and cannot be left":     {begin: kernel.ErrMoved, conclude: errDisk, waits: true, result: true, settled: true},
		"the record is gone":                   {begin: errDisk, conclude: errDisk, job: kernel.ErrNotFound, want: kernel.ErrNotFound},
		"no file can be opened any more":       {begin: syscall.EMFILE, conclude: syscall.EMFILE, job: syscall.EMFILE, want: syscall.EMFILE},
		"no file can be opened but the record": {begin: syscall.EMFILE, conclude: syscall.EMFILE, waits: true, result: true, settled: true},
		"it is recorded, not written out":      {commit: fmt.Errorf("apply: %w", kernel.ErrRecorded), waits: true, result: true, settled: true},
		"recorded, and cancelled":              {commit: fmt.Errorf("apply: %w", kernel.ErrRecorded), within: time.Second, want: kernel.ErrRecorded, result: true},
		"it is stale":                          {begin: kernel.ErrStale, conclude: errDisk, want: kernel.ErrStale},
		"it is cancelled":                      {begin: errDisk, conclude: errDisk, within: time.Second, want: errDisk},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			h := &hindered{newMemory(job("a", running(1))), c.begin, c.conclude, c.job, c.commit, begun.Add(time.Minute)}
			s := h.scheduler()
			s.Store = h
			ctx, cancel := t.Context(), func() {}
			if c.within > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.within)
			}
			defer cancel()
			a := kernel.AttemptID{Job: "a", N: 1}
			err := (&Runner{Scheduler: s, Outcomes: h}).settle(ctx, s, kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Ended: at})
			if (err == nil) != (c.want == nil) || !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took >= time.Minute != c.waits {
				t.Errorf("%s: it takes %v", name, took)
			}
			if got := h.results[a] != nil; got != c.result {
				t.Errorf("%s: the result is on record: %v", name, got)
			}
			if st := h.jobs["a"].State.Status; (st == kernel.Succeeded) != c.settled {
				t.Errorf("%s: the job is %v", name, st)
			}
		})
	}
}

// cutting is a store whose next commit is on record and not written out.
type cutting struct {
	*memory
	cut bool
}

func (c *cutting) Begin(context.Context) (Tx, error) { return c, nil }

func (c *cutting) Commit(p kernel.Plan) error {
	err := c.memory.Commit(p)
	if c.cut {
		c.cut, err = false, fmt.Errorf("%w (%w)", kernel.ErrRecorded, syscall.ENOSPC)
	}
	return err
}

// A runner whose settlement, or whose attempt taken back, is on record and was completed by somebody else sees that it is
// looked after: a retry has its time.
func TestARunnerWhoseEndWasCompleted(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(job("a", func(j *kernel.Job) {
				running(1)(j)
				j.Spec.Budget.Retries, j.Spec.Retry = 1, kernel.RetryPolicy{}.On(kernel.ExitFailure)
				j.State.Refused = 1
			}))
			r, to := m.runner(nil), &listener{}
			r.Scheduler.Store, r.Scheduler.Waker = &cutting{m, true}, to
			r.Workload = &workload{m, func(_ context.Context, j *kernel.Job) kernel.Result {
				return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure, Ended: at}
			}}
			if refuses {
				r.Workload = refusing{&workload{memory: m}}
			}
			a := kernel.AttemptID{Job: "a", N: 1}
			err := r.Serve(t.Context(), a, lock{m, a})
			if st := m.jobs["a"].State; st.Status == kernel.Running || to.last.Poll || !to.last.At.Equal(st.RetryAt) {
				t.Errorf("refused %v: %v: a is %+v, watched is %+v", refuses, err, st, to.last)
			}
		})
	}
}

// crowded is a workload that finds no room for a claim for a while.
type crowded struct {
	*workload
	until time.Time
}

func (c *crowded) Claim(a kernel.AttemptID) error {
	if time.Now().Before(c.until) {
		return fmt.Errorf("claim: %w", syscall.ENOSPC)
	}
	return c.workload.Claim(a)
}

// A runner for which there is no room to begin its attempt, or to take it back, waits for room, since nobody else may look
// after the job.
func TestARunnerWaitsForRoom(t *testing.T) {
	const crowd = time.Minute
	for name, c := range map[string]struct {
		store   error // of its commits
		refuses bool  // the attempt cannot be given its secrets
		change  func(*kernel.Job)
		told    time.Duration // when it is told to end; 0: never
		want    kernel.Status
		waits   bool // until there is room
		failed  bool
	}{
		"to claim it":                        {want: kernel.Succeeded, waits: true},
		"to claim it, which is cancelled":    {change: func(j *kernel.Job) { j.State.Stop = kernel.StopRequest{At: at, By: "ann"} }, want: kernel.Cancelled},
		"to claim it, and it is told to end": {told: time.Second, want: kernel.Running, failed: true},
		"to take it back":                    {refuses: true, store: syscall.EDQUOT, want: kernel.Queued, waits: true},
		"to take it back, and told to end":   {refuses: true, store: syscall.EDQUOT, told: time.Second, want: kernel.Running, failed: true},
		"it fails otherwise":                 {refuses: true, store: errDisk, want: kernel.Running, failed: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			m := newMemory(job("a", func(j *kernel.Job) {
				running(1)(j)
				if c.change != nil {
					c.change(j)
				}
			}))
			r := m.runner(nil)
			r.Scheduler.Store = &hindered{memory: m, commit: c.store, until: begun.Add(crowd)}
			r.Workload = &crowded{&workload{memory: m}, begun.Add(crowd)}
			if c.refuses {
				r.Workload = refusing{&workload{memory: m}}
			}
			if c.told > 0 {
				ending, cancel := context.WithTimeout(t.Context(), c.told)
				defer cancel()
				r.Scheduler.Ending = ending
			}
			a := kernel.AttemptID{Job: "a", N: 1}
			if err := r.Serve(t.Context(), a, lock{m, a}); (err != nil) != c.failed {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took >= crowd != c.waits {
				t.Errorf("%s: it takes %v", name, took)
			}
			if st := m.jobs["a"].State; st.Status != c.want {
				t.Errorf("%s: the job is %v", name, st.Status)
			}
		})
	}
}

// Where everything is told to end one after the other, a command may be before its runner, which then starts no other job.
func TestARunnerIsToldToEndAfterItsCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending, end := context.WithCancelCause(t.Context())
		m := newMemory(job("a", running(1)), job("b", nil))
		r := m.runner(func(_ context.Context, j *kernel.Job) kernel.Result {
			time.AfterFunc(100*time.Millisecond, func() { end(errTerm) })
			return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Ended: at, Place: kernel.Place{PID: 7}}
		})
		r.Scheduler.Ending = ending
		a := kernel.AttemptID{Job: "a", N: 1}
		if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
			t.Error(err)
		}
		m.expectCalls(t, "claim a/1", "conclude a/1 failed", "release a/1")
		if got := m.results[a]; got == nil || got.Class != kernel.Preempted {
			t.Errorf("on record is %+v", got)
		}
	})
}

// A runner whose command is quick has no reason to release its cache. When it has nothing left to run it packs what ended
// long ago.
func TestWhatARunnerDoesInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for pack, want := range map[time.Duration]int{0: 1, time.Hour: 2} { // transactions
			m := newMemory(job("a", running(1)))
			r := m.runner(nil)
			released := false
			r.Scheduler.PackAfter, r.ReleaseCache = pack, func() { released = true }
			a := kernel.AttemptID{Job: "a", N: 1}
			if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * releaseCacheAfter)
			synctest.Wait()
			if released || m.begun != want || m.closed != want {
				t.Errorf("released %v, %d transactions, of which %d have ended", released, m.begun, m.closed)
			}
		}
	})
}

// plainExecutor is an executor that enforces nothing.
type plainExecutor struct{ Executor }

// The executor of a runner enforces what its own executor does.
func TestARunnersExecutorEnforces(t *testing.T) {
	m := newMemory()
	a := kernel.AttemptID{Job: "a", N: 1}
	if ended, err := (adopting{m, nil}).Enforce(t.Context(), a); !ended || err != nil {
		t.Errorf("ended %v, %v", ended, err)
	}
	m.refuse["enforce a/1"] = errDisk
	if ended, err := (adopting{m, nil}).Enforce(t.Context(), a); ended || !errors.Is(err, errDisk) {
		t.Errorf("ended %v, %v", ended, err)
	}
	if ended, err := (adopting{plainExecutor{m}, nil}).Enforce(t.Context(), a); ended || err != nil {
		t.Errorf("of an executor that enforces nothing: ended %v, %v", ended, err)
	}
	m.expectCalls(t, "enforce a/1", "enforce a/1")
}

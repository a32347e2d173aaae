package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// Runner runs attempts in this process, one after another. When an attempt
// ends, it records the outcome, settles the job and ticks, and continues with
// an attempt that this tick started. So a hop of a chain starts no process but
// the job's own. Once the process is to end (Scheduler.Ending), it ends the attempt
// under way, records its outcome, and leaves everything else to the next tick of
// another process.
type Runner struct {
	Scheduler *Scheduler
	Outcomes  Outcomes

	// Applied reports whether the record says that the attempt's work is done;
	// nil: not known.
	Applied func(kernel.AttemptID) bool

	Workload Workload
	Beat     time.Duration // interval of heartbeats, at which the record is checked as well; 0: none

	// ReleaseCache, if not nil, is called once a command has been running for a
	// second. It frees what the store keeps in memory and can read again after
	// the command has ended. It is also the moment to wake a process that
	// watches this one: shorter commands are worth neither.
	ReleaseCache func()

	// Submissions returns the jobs that a successful attempt wants to enqueue;
	// nil: none.
	Submissions func(context.Context, *kernel.Job) ([]kernel.NewJob, error)

	next turn

	mu      sync.Mutex
	current kernel.AttemptID
	stop    context.CancelCauseFunc
}

// turn is an attempt with the lock that says which process runs it.
type turn struct {
	attempt kernel.AttemptID
	held    io.Closer
}

// ErrStopped is the cause with which the context of a stopped attempt ends.
var ErrStopped = errors.New("asked to stop")

// Serve runs a, whose lock is held, and then every attempt that its ticks
// assign to this process. It returns when there is none left.
func (r *Runner) Serve(ctx context.Context, a kernel.AttemptID, held io.Closer) error {
	s := *r.Scheduler
	s.Executor = adopting{s.Executor, r}
	for t := (turn{a, held}); t.held != nil; t = r.next {
		r.next = turn{}
		err := r.serve(ctx, &s, t.attempt)
		err = errors.Join(err, t.held.Close())
		if err != nil && r.next.held == nil {
			return err
		}
	}
	if r.ending() == nil {
		_ = s.Pack(ctx) // the error is ignored: the next runner packs what is left
	}
	return nil
}

func (r *Runner) serve(ctx context.Context, s *Scheduler, a kernel.AttemptID) error {
	job, err := r.Outcomes.Job(a.Job)
	if err != nil {
		return fmt.Errorf("run %s: %w", a.Job, err)
	}
	if err := job.Fence(a); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	within, release := s.untilEnding(ctx)
	defer release()
	if p, ok := r.Workload.(provider); ok {
		if err := r.provide(within, p, &job); err != nil && r.ending() == nil { // else its result says that it did not begin
			return r.takeBack(ctx, s, a, err)
		}
	}
	if m, ok := s.Worktrees.(worktreeMender); ok && job.State.Context.Name != "" {
		_ = m.RepairWorktree(ctx, job.State.Context) // if it fails, the workload says what is wrong
	}
	if err := r.claim(within, a); errors.Is(err, ErrStopped) {
		return r.takeBack(ctx, s, a, err)
	} else if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	released := r.releaseCacheLater()
	result := r.run(within, &job)
	released()
	return r.settle(ctx, s, result)
}

// stopPause is the interval at which the record of an attempt that is not claimed yet is
// checked for a request to stop: nobody knows the runner yet, so nobody can notify it.
const stopPause = 200 * time.Millisecond

// provide makes p fetch what the job's attempt is given. A stop of the attempt ends that.
func (r *Runner) provide(ctx context.Context, p provider, job *kernel.Job) error {
	if len(job.Spec.Task.Secrets) == 0 { // nothing takes time
		return p.Provide(ctx, job)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer r.stoppable(job.Attempt(), stop)()
	go every(ctx, stopPause, func() (done bool) {
		r.Check()
		return false
	})
	return p.Provide(ctx, job)
}

// claim claims a. While the disk is full it tries again: its job stays running, which is true, and
// nobody else need look after it. A stop of the attempt ends that.
func (r *Runner) claim(ctx context.Context, a kernel.AttemptID) error {
	err := r.Workload.Claim(a)
	if !noRoom(err) {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer r.stoppable(a, stop)()
	for noRoom(err) {
		pause(ctx, stopPause)
		if r.Check(); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err = r.Workload.Claim(a)
	}
	return err
}

// firstWait and longestWait are the pauses of a runner between two tries.
const (
	firstWait   = 100 * time.Millisecond
	longestWait = 10 * time.Second
)

// noRoom reports whether err says that the disk is full.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// every calls do at the given interval until do returns true or ctx ends. It reports
// whether do returned true.
func every(ctx context.Context, interval time.Duration, do func() (done bool)) (done bool) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for !done {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			done = do()
		}
	}
	return true
}

// stoppable lets Check and Stop end attempt a by calling stop, until done is called.
func (r *Runner) stoppable(a kernel.AttemptID, stop context.CancelCauseFunc) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current, r.stop = a, stop
	return func() {
		r.mu.Lock()
		r.stop = nil
		r.mu.Unlock()
		stop(nil)
	}
}

// releaseCacheAfter is how long a command runs before ReleaseCache is called.
const releaseCacheAfter = time.Second

// releaseCacheLater calls ReleaseCache after a while, unless cancel is called
// before. cancel waits for a call under way.
func (r *Runner) releaseCacheLater() (cancel func()) {
	if r.ReleaseCache == nil {
		return func() {}
	}
	done := make(chan struct{})
	later := time.AfterFunc(releaseCacheAfter, func() {
		defer close(done)
		r.ReleaseCache()
	})
	return func() {
		if !later.Stop() {
			<-done
		}
	}
}

// run runs the job. A panic becomes a result as well.
func (r *Runner) run(ctx context.Context, job *kernel.Job) (result kernel.Result) {
	ctx, stop := context.WithCancelCause(ctx)
	done := r.stoppable(job.Attempt(), stop)
	defer func() {
		done()
		if p := recover(); p != nil {
			result = kernel.Result{Attempt: job.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.LaunchFailure,
				Reason: fmt.Sprintf("panic in the runner: %v\n%s", p, debug.Stack())}
		}
	}()
	r.Check() // a stop may have been recorded before this process could be notified
	if r.Beat > 0 {
		go r.beat(ctx, job.Attempt())
		go r.presence(ctx, job.ID)
	}
	result = r.Workload.Run(ctx, job)
	if ctx.Err() == nil && terminated(result) {
		r.awaitEnding()
	}
	if why := r.ending(); why != nil {
		result = cutOff(result, why)
	}
	preempted := result.Class == kernel.Preempted && job.Spec.Task.Builtin
	if (preempted || result.Killed(job)) && r.Applied != nil {
		result.Applied = r.Applied(result.Attempt)
	}
	if preempted && result.Applied {
		result.Class = kernel.Signal // after which another attempt takes over what is done, whatever the budgets
	}
	if result.Outcome != kernel.OutcomeSucceeded || r.Submissions == nil {
		return result
	}
	news, err := r.Submissions(ctx, job)
	if err != nil {
		return result.Refuted(err)
	}
	result.Submitted = news
	return result
}

// cutOff returns result, with which an attempt ended while its process was to end. What
// never began is queued again. What was ended has lost its place here, as a job that its
// cluster preempts. Mostly its command gets the same signal as its runner, and may end by
// that before its runner ends it.
func cutOff(result kernel.Result, why error) kernel.Result {
	switch {
	case result.Outcome != kernel.OutcomeFailed:
	case result.Place.PID == 0:
		result.Refused, result.Reason = true, why.Error()
	case terminated(result):
		result.Class, result.Reason = kernel.Preempted, why.Error()
	}
	return result
}

// terminated reports whether a command was ended by SIGTERM, or ended as a shell does whose command was.
func terminated(result kernel.Result) bool {
	return result.Outcome == kernel.OutcomeFailed && result.Exit == 128+int(syscall.SIGTERM) && (result.Class == kernel.Signal || result.Class == kernel.ExitFailure)
}

// awaitEnding waits a moment for this process to be told to end: whoever ended its command may be about to end
// everything here, one process after the other.
func (r *Runner) awaitEnding() {
	if r.Scheduler != nil && r.Scheduler.Ending != nil {
		const moment = 200 * time.Millisecond
		pause(r.Scheduler.Ending, moment)
	}
}

// ending returns why this process is to end, or nil.
func (r *Runner) ending() error {
	if r.Scheduler == nil { // its executor is that of another host, and says when to end
		return nil
	}
	return r.Scheduler.ending()
}

// beat sends heartbeats until ctx ends. A runner that was paused or cut off
// learns here that it is no longer the attempt's runner.
func (r *Runner) beat(ctx context.Context, a kernel.AttemptID) {
	every(ctx, r.Beat, func() (done bool) {
		_ = r.Workload.Beat(a) // if it fails, observers rely on the last heartbeat
		r.Check()
		return false
	})
}

// presencePause is the interval of checks whether a job's record still exists.
const presencePause = 500 * time.Millisecond

// ErrRecordGone is the cause with which an attempt ends if its job's record no
// longer exists.
var ErrRecordGone = errors.New("its record is gone: somebody removed the store, as `git clean -fdx` does, while the job ran")

// ErrNoFiles is the cause with which an attempt ends if its runner can open no file any more.
var ErrNoFiles = errors.New("its runner can open no file any more: somebody, perhaps the job, lowered its limit of open files")

// noFilesPatience is how long a runner can open no file before it gives up.
const noFilesPatience = 30 * time.Second

// presence ends the running attempt once the record of its job is gone, because
// nobody would ever learn of its end. The record must be missing twice: once
// may be a file system that is being mounted. The same holds, after a while, if this
// process can open no file any more.
func (r *Runner) presence(ctx context.Context, id kernel.JobID) {
	var why error
	missed, starved := 0, 0
	if every(ctx, presencePause, func() (done bool) {
		switch _, err := r.Outcomes.Job(id); {
		case errors.Is(err, kernel.ErrNotFound):
			missed, starved, why = missed+1, 0, ErrRecordGone
		case errors.Is(err, syscall.EMFILE):
			missed, starved, why = 0, starved+1, ErrNoFiles
		default:
			missed, starved = 0, 0
		}
		return missed == 2 || starved == int(noFilesPatience/presencePause)
	}) {
		r.Stop(why)
	}
}

// settle records the result and settles the job. It tries until it succeeds. While the
// disk is full, the job keeps its runner and stays running, which is true. A
// result that is refused although the record still names its attempt is not
// dropped either: without it the job would be taken for lost, and run again. The
// same holds while the record cannot be read. Only if the record itself is gone,
// perhaps with the whole repository, does settle give up: nobody waits for the
// result. It also gives up, after a while, if this process can open no file any more: its end at
// least lets others settle the job as lost. If the repository was moved, or the journal has reached the limit on the size
// of files of this process, it can only leave the result on record: the next tick there,
// or of a process without that limit, settles the job. A process that is to end does no
// more than that either: its tick would start what nobody tells that it is to end.
func (r *Runner) settle(ctx context.Context, s *Scheduler, result kernel.Result) error {
	recorded, began := false, time.Now()
	if r.ending() == nil {
		err := settleAtOnce(ctx, s, result)
		if err == nil || refused(err) && r.over(result.Attempt) {
			return err
		}
		recorded = errors.Is(err, kernel.ErrRecorded) // whoever has the lock next completes it, and then the attempt is over
	}
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := r.conclude(result)
		if r.ending() != nil && (err == nil || refused(err)) {
			return err
		}
		err2 := finish(ctx, s, result)
		if recorded && errors.Is(err2, kernel.ErrStale) { // it was completed, and with it what it leaves is still to be looked after
			_, err = s.Tick(ctx)
			return err
		}
		if recorded = recorded || errors.Is(err2, kernel.ErrRecorded); recorded && err2 != nil {
			err2 = onRecord(err2)
		}
		if errors.Is(err2, syscall.EFBIG) {
			err2 = fmt.Errorf("%w; the next command from such a shell records the end", err2)
		}
		if err2 == nil || errors.Is(err2, kernel.ErrStale) || ctx.Err() != nil || err == nil && (errors.Is(err2, kernel.ErrMoved) || errors.Is(err2, syscall.EFBIG)) {
			return err2
		}
		_, unread := r.Outcomes.Job(result.Attempt.Job)
		if errors.Is(unread, kernel.ErrNotFound) || errors.Is(unread, syscall.EMFILE) && time.Since(began) >= noFilesPatience {
			return unread
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, err2)
		case <-time.After(wait):
		}
	}
}

// over reports whether the record does not name a as the running attempt any more, or is
// gone. A record that cannot be read does not say that.
func (r *Runner) over(a kernel.AttemptID) bool {
	job, err := r.Outcomes.Job(a.Job)
	return errors.Is(err, kernel.ErrNotFound) || err == nil && job.Fence(a) != nil
}

// refused reports whether err says that there is no such running attempt, as far as could be read.
func refused(err error) bool {
	return errors.Is(err, kernel.ErrStale) || errors.Is(err, kernel.ErrNotFound)
}

// settleAtOnce settles the job with one commit that also records the result. If
// the lock is not free it does nothing: before waiting for the lock, the result
// is recorded by itself.
func settleAtOnce(ctx context.Context, s *Scheduler, result kernel.Result) error {
	store, ok := s.Store.(atOnceSettler)
	if !ok {
		return ErrBusy
	}
	defer func(was Store) { s.Store = was }(s.Store)
	s.Store = settling{s.Store, store, result}
	return finish(ctx, s, result)
}

// finish settles the job. It also returns an error if the settlement is on record
// but its files are not written and its successors not started: see Report.Late.
func finish(ctx context.Context, s *Scheduler, result kernel.Result) error {
	rep, err := s.Finish(ctx, result)
	if err == nil {
		err = rep.Late
	}
	return err
}

// settling is a store whose transactions settle a result.
type settling struct {
	Store
	settler atOnceSettler
	result  kernel.Result
}

func (s settling) Begin(ctx context.Context) (Tx, error) {
	return s.settler.BeginSettling(ctx, s.result)
}

// conclude records the result, unless the attempt is no longer current: a job
// has one outcome on record, which may by now be that of a later attempt.
func (r *Runner) conclude(result kernel.Result) error {
	if job, err := r.Outcomes.Job(result.Attempt.Job); err == nil {
		if err := job.Fence(result.Attempt); err != nil {
			return fmt.Errorf("conclude: %w", err)
		}
	}
	return r.Outcomes.Conclude(result)
}

// Check reads the record and stops the running attempt if it is to stop. It may
// be called from any goroutine.
func (r *Runner) Check() {
	r.mu.Lock()
	a, stop := r.current, r.stop
	r.mu.Unlock()
	if stop == nil {
		return
	}
	job, err := r.Outcomes.Job(a.Job)
	if err != nil {
		return // not known; whoever asked for the stop will use force
	}
	if err := job.Fence(a); err != nil {
		stop(err)
	} else if !job.State.Stop.At.IsZero() {
		stop(fmt.Errorf("%w by %s", ErrStopped, job.State.Stop.By))
	}
}

// Stop ends the running attempt whatever its record says.
func (r *Runner) Stop(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop(why)
	}
}

// adopting is an executor that reserves one launch for the runner it belongs
// to.
type adopting struct {
	Executor
	r *Runner
}

func (e adopting) Start(ctx context.Context, a kernel.AttemptID) error {
	if e.r.next.held == nil {
		if held, err := e.r.Workload.Acquire(a); err == nil {
			e.r.next = turn{a, held}
			return nil
		}
	}
	return e.Executor.Start(ctx, a)
}

// Enforce calls the executor's Enforce, if it has one. Attempts of this process
// are enforced here.
func (e adopting) Enforce(ctx context.Context, a kernel.AttemptID) (bool, error) {
	if f, ok := e.Executor.(enforcer); ok {
		return f.Enforce(ctx, a)
	}
	return false, nil
}

// takeBack queues a job again whose attempt executed nothing, because of why,
// and ticks. While the disk is full it tries again.
func (r *Runner) takeBack(ctx context.Context, s *Scheduler, a kernel.AttemptID, why error) error {
	recorded := false // as in settle
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		rep, err := s.ask(ctx, history.Refuse{Attempt: a, Why: kernel.Said(why)})
		if err == nil {
			err = rep.Late
		}
		if recorded && errors.Is(err, kernel.ErrStale) {
			_, err = s.Tick(ctx)
		}
		recorded = recorded || errors.Is(err, kernel.ErrRecorded)
		if !noRoom(err) || ctx.Err() != nil || r.ending() != nil {
			return err
		}
		pause(ctx, wait)
	}
}

// Finish settles a running attempt and ticks.
func (s *Scheduler) Finish(ctx context.Context, result kernel.Result) (Report, error) {
	return s.ask(ctx, history.Finish{Result: result})
}

package app

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A runner releases the cache while its command runs, and waits for that before it goes
// on.
func TestARunnerReleasesItsCache(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	releases := 0
	r := &Runner{ReleaseCache: func() {
		close(begun)
		<-finish
		releases++
	}}
	over := r.releaseCacheLater()
	<-begun
	go func() {
		time.Sleep(10 * time.Millisecond)
		close(finish)
	}()
	over()
	if releases != 1 {
		t.Errorf("it released the cache %d times", releases)
	}
	r.releaseCacheLater()() // the command was quick
	if releases != 1 {
		t.Errorf("after a quick command it released the cache %d times", releases)
	}
}

// An attempt is over if its record is gone, or says so. A record that cannot be read says nothing.
func TestWhetherAnAttemptIsOver(t *testing.T) {
	a := kernel.AttemptID{Job: "a", N: 1}
	for name, c := range map[string]struct {
		m    *memory
		want bool
	}{
		"it is under way":   {newMemory(job("a", running(1))), false},
		"another is":        {newMemory(job("a", running(2))), true},
		"none is":           {newMemory(job("a", nil)), true},
		"its job is gone":   {newMemory(), true},
		"it cannot be read": {unreadable(job("a", running(1))), false},
	} {
		if got := c.m.runner(nil).over(a); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func unreadable(j kernel.Job) *memory {
	m := newMemory(j)
	m.refuse["job"] = errDisk
	return m
}

// Serve goes on with the attempts that its ticks start, one after another, and releases
// each lock.
func TestARunnerGoesOnWithWhatItsTickStarts(t *testing.T) {
	m := newMemory(job("a", running(1)), job("b", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{"a"} }))
	a := kernel.AttemptID{Job: "a", N: 1}
	if err := m.runner(nil).Serve(t.Context(), a, lock{m, a}); err != nil {
		t.Fatal(err)
	}
	m.expectCalls(t, "claim a/1", "conclude a/1 succeeded", "commit", "acquire b/1", "done", "release a/1",
		"claim b/1", "conclude b/1 succeeded", "commit", "done", "release b/1")
}

// behind is a store whose settling transactions see the jobs as they were before their
// attempts began.
type behind struct{ *memory }

func (b behind) BeginSettling(context.Context, kernel.Result) (Tx, error) { return before(b), nil }

// before is a settling transaction of behind.
type before struct{ *memory }

func (b before) Load(scope kernel.Scope) (kernel.Records, error) {
	rec, err := b.memory.Load(scope)
	for i := range rec.Jobs {
		rec.Jobs[i].State = kernel.State{}
	}
	return rec, err
}

func (before) Commit(kernel.Plan) error { return errDisk }

// A result is on record before its runner ends, even if settling it is refused for a
// reason that the job's record does not show.
func TestARefusedResultIsRecorded(t *testing.T) {
	m := newMemory(job("a", running(1)))
	a := kernel.AttemptID{Job: "a", N: 1}
	r := m.runner(nil)
	r.Scheduler.Store = behind{m}
	if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
		t.Fatal(err)
	}
	m.expectCalls(t, "claim a/1", "conclude a/1 succeeded", "commit", "done", "release a/1")
	if st := m.jobs["a"].State; st.Status != kernel.Succeeded {
		t.Errorf("%+v", st)
	}
}

// veiled is a store that cannot read the record of job a until it has been begun a few times.
type veiled struct {
	*memory
	begun int
}

func (v *veiled) Begin(context.Context) (Tx, error) {
	v.begun++
	return v, nil
}

func (v *veiled) hides() bool { return v.begun > 0 && v.begun < 3 }

func (v *veiled) Load(scope kernel.Scope) (kernel.Records, error) {
	if v.hides() {
		return kernel.Records{Unreadable: map[kernel.JobID]string{"a": "permission denied"}}, nil
	}
	return v.memory.Load(scope)
}

func (v *veiled) Job(id kernel.JobID) (kernel.Job, error) {
	if v.hides() {
		return kernel.Job{}, errDisk
	}
	return v.memory.Job(id)
}

// A runner keeps its result while the record of its job cannot be read, even if it cannot leave it beside
// the record, and settles the job afterwards.
func TestAResultOutlastsARecordThatCannotBeRead(t *testing.T) {
	m := newMemory(job("a", running(1)))
	a := kernel.AttemptID{Job: "a", N: 1}
	m.refuse["conclude a/1 succeeded"] = errDisk
	v := &veiled{memory: m}
	r := m.runner(nil)
	r.Scheduler.Store, r.Outcomes = v, v
	if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
		t.Fatal(err)
	}
	if st := m.jobs["a"].State; st.Status != kernel.Succeeded || v.begun < 3 {
		t.Errorf("after %d transactions: %+v", v.begun, st)
	}
}

// Serve returns the error that keeps a runner from its attempt or from releasing the lock.
func TestServeTellsWhatWentWrong(t *testing.T) {
	a := kernel.AttemptID{Job: "a", N: 1}
	for name, c := range map[string]struct {
		change func(*memory)
		want   error
		calls  []string
	}{
		"the record is gone":  {func(m *memory) { m.gone["a"] = true }, kernel.ErrNotFound, []string{"release a/1"}},
		"another attempt":     {func(m *memory) { m.jobs["a"] = job("a", running(2)) }, kernel.ErrStale, []string{"release a/1"}},
		"claimed by another":  {func(m *memory) { m.refuse["claim a/1"] = kernel.ErrStale }, kernel.ErrStale, []string{"claim a/1", "release a/1"}},
		"a lock that stays":   {func(m *memory) { m.refuse["release a/1"] = errDisk }, errDisk, []string{"claim a/1", "conclude a/1 succeeded", "commit", "done", "release a/1"}},
		"settled by somebody": {func(m *memory) { m.refuse["commit"] = kernel.ErrStale }, kernel.ErrStale, []string{"claim a/1", "conclude a/1 succeeded", "commit", "release a/1"}},
	} {
		m := newMemory(job("a", running(1)))
		c.change(m)
		if err := m.runner(nil).Serve(t.Context(), a, lock{m, a}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if !slices.Equal(m.calls, c.calls) {
			t.Errorf("%s: %q, want %q", name, m.calls, c.calls)
		}
	}
}

// Stop ends the attempt under way, with the given reason. Without an attempt it does
// nothing.
func TestStopEndsTheAttemptUnderWay(t *testing.T) {
	m := newMemory(job("a", running(1)))
	why := errors.New("the machine goes down")
	var r *Runner
	r = m.runner(func(ctx context.Context, j *kernel.Job) kernel.Result {
		if ctx.Err() != nil {
			t.Errorf("stopped before it was: %v", context.Cause(ctx))
		}
		r.Stop(why)
		if !errors.Is(context.Cause(ctx), why) {
			t.Errorf("after a stop: %v", context.Cause(ctx))
		}
		return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Ended: at}
	})
	r.Stop(why)
	a := kernel.AttemptID{Job: "a", N: 1}
	if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
		t.Fatal(err)
	}
	r.Stop(why)
	if st := m.jobs["a"].State; st.Status != kernel.Failed || st.Failure != kernel.Signal {
		t.Errorf("a is %+v", st)
	}
}

// A check ends an attempt if a stop for it is on record, also before its command begins,
// or if the attempt is no longer current.
func TestCheckHearsOfAStop(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*kernel.Job)
		want   error
	}{
		"nothing":         {func(*kernel.Job) {}, nil},
		"a stop":          {func(j *kernel.Job) { j.State.Stop.At = at }, ErrStopped},
		"another attempt": {func(j *kernel.Job) { j.State.Attempt = 2 }, kernel.ErrStale},
	} {
		m := newMemory(job("a", running(1)))
		var r *Runner
		r = m.runner(func(ctx context.Context, j *kernel.Job) kernel.Result {
			changed := *j
			c.change(&changed)
			m.jobs["a"] = changed
			r.Check()
			if err := context.Cause(ctx); (c.want == nil) != (err == nil) || !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Ended: at}
		})
		a := kernel.AttemptID{Job: "a", N: 1}
		err := r.Serve(t.Context(), a, lock{m, a})
		if stale := errors.Is(c.want, kernel.ErrStale); stale != errors.Is(err, kernel.ErrStale) || stale == slices.Contains(m.calls, "conclude a/1 succeeded") {
			t.Errorf("%s: %v, %q", name, err, m.calls)
		}
	}
	m := newMemory(job("a", func(j *kernel.Job) { running(1)(j); j.State.Stop.At = at }))
	a := kernel.AttemptID{Job: "a", N: 1}
	_ = m.runner(func(ctx context.Context, j *kernel.Job) kernel.Result {
		if !errors.Is(context.Cause(ctx), ErrStopped) {
			t.Errorf("its command begins: %v", context.Cause(ctx))
		}
		return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Ended: at}
	}).Serve(t.Context(), a, lock{m, a})
}

// fetching is a workload that fetches secrets until it is stopped.
type fetching struct{ Workload }

func (fetching) Provide(ctx context.Context, _ *kernel.Job) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A stop on record also ends the fetching of an attempt's secrets. The attempt's command
// then never began.
func TestAStopEndsTheFetchingOfSecrets(t *testing.T) {
	m := newMemory(job("a", func(j *kernel.Job) {
		running(1)(j)
		j.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: "sleep 60"}}
		j.State.Stop = kernel.StopRequest{At: at, By: "ann"}
	}))
	r := m.runner(nil)
	r.Workload = fetching{r.Workload}
	a := kernel.AttemptID{Job: "a", N: 1}
	if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
		t.Fatal(err)
	}
	if st := m.jobs["a"].State; st.Status != kernel.Cancelled || st.Reason != "cancelled by ann" {
		t.Errorf("a is %+v", st)
	}
	m.expectCalls(t, "commit", "done", "release a/1")
}

// A panic makes the attempt fail, and so do invalid submissions. A failed attempt is not
// asked for its submissions.
func TestWhatARunnerMakesOfItsCommandsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		run         func(context.Context, *kernel.Job) kernel.Result
		submissions func(context.Context, *kernel.Job) ([]kernel.NewJob, error)
		status      kernel.Status
		class       kernel.FailureClass
		jobs        int
	}{
		"panic": {func(context.Context, *kernel.Job) kernel.Result { panic("oh") }, nil, kernel.Failed, kernel.LaunchFailure, 1},
		"submits": {nil, func(context.Context, *kernel.Job) ([]kernel.NewJob, error) {
			return []kernel.NewJob{{ID: "b", Spec: job("b", nil).Spec}}, nil
		}, kernel.Succeeded, kernel.NoFailure, 2},
		"submits nonsense": {nil, func(context.Context, *kernel.Job) ([]kernel.NewJob, error) { return nil, kernel.ErrInvalid }, kernel.Failed, kernel.DataError, 1},
		"fails": {func(_ context.Context, j *kernel.Job) kernel.Result {
			return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure, Ended: at}
		}, func(context.Context, *kernel.Job) ([]kernel.NewJob, error) { panic("asked") }, kernel.Failed, kernel.ExitFailure, 1},
	} {
		m := newMemory(job("a", running(1)))
		m.refuse["acquire b/1"] = errDisk
		r := m.runner(c.run)
		r.Submissions = c.submissions
		a := kernel.AttemptID{Job: "a", N: 1}
		if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if st := m.jobs["a"].State; st.Status != c.status || st.Failure != c.class || len(m.jobs) != c.jobs {
			t.Errorf("%s: %+v, %d jobs", name, st, len(m.jobs))
		}
	}
}

// mended are worktrees that can be found again.
type mended struct{ *memory }

func (m mended) RepairWorktree(_ context.Context, c kernel.Context) error {
	return m.called("repair %s", c.Name)
}

// A runner has its worktree found again before its attempt begins, if it has one, and the repair of another is no reason to
// stop. What an attempt that was killed has done is asked for, and goes on record.
func TestWhatARunnerDoesAroundItsCommand(t *testing.T) {
	a := kernel.AttemptID{Job: "a", N: 1}
	for name, want := range map[string][]string{
		"w": {"repair w", "claim a/1", "conclude a/1 failed", "commit", "done", "release a/1"},
		"":  {"claim a/1", "conclude a/1 failed", "commit", "done", "release a/1"},
	} {
		m := newMemory(job("a", func(j *kernel.Job) {
			running(1)(j)
			j.Spec.Task.Builtin, j.State.Context.Name = true, name
		}))
		m.refuse["repair w"], m.refuse["acquire a/2"] = errDisk, errDisk
		r := m.runner(func(context.Context, *kernel.Job) kernel.Result {
			return kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 137, Class: kernel.Signal, Ended: at}
		})
		r.Scheduler.Worktrees = mended{m}
		r.Applied = func(of kernel.AttemptID) bool { return of == a }
		if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
			t.Fatal(err)
		}
		calls := slices.DeleteFunc(slices.Clone(m.calls), func(c string) bool { return c == "acquire a/2" || c == "start a/2" })
		if !slices.Equal(calls, want) || m.results[a] == nil || !m.results[a].Applied {
			t.Errorf("%q: %q, %+v", name, m.calls, m.results[a])
		}
	}
}

// refusing is a workload that cannot be given its secrets.
type refusing struct{ *workload }

func (refusing) Provide(context.Context, *kernel.Job) error { return errors.New("no such secret") }

// An attempt that cannot be given its secrets goes back into the queue, and if that cannot be put on record, Serve says so.
func TestAnAttemptWithoutItsSecrets(t *testing.T) {
	a := kernel.AttemptID{Job: "a", N: 1}
	for _, fails := range []string{"", "commit", "done"} {
		m := newMemory(job("a", running(1)))
		r := m.runner(nil)
		r.Workload = refusing{&workload{memory: m}}
		var want error
		if fails != "" {
			m.refuse[fails], want = errDisk, errDisk
		}
		if err := r.Serve(t.Context(), a, lock{m, a}); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%q: %v", fails, err)
		}
		if st := m.jobs["a"].State; fails != "commit" && (st.Status != kernel.Queued || st.Reason != "no such secret") {
			t.Errorf("%q: %+v", fails, st)
		}
	}
}

// endingOn is a workload whose process is told to end when it takes the lock of a job, or
// runs its command.
type endingOn struct {
	*workload
	acquire, run kernel.JobID
	end          context.CancelCauseFunc
}

var errTerm = errors.New("asked to end")

func (w *endingOn) Acquire(a kernel.AttemptID) (io.Closer, error) {
	if a.Job == w.acquire {
		w.end(errTerm)
	}
	return w.workload.Acquire(a)
}

func (w *endingOn) Run(ctx context.Context, j *kernel.Job) kernel.Result {
	if j.ID == w.run {
		w.end(errTerm)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		}
	}
	if ctx.Err() == nil || w.workload.run != nil {
		return w.workload.Run(ctx, j)
	}
	return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Ended: at, Reason: context.Cause(ctx).Error()}
}

// A runner that is told to end leaves the outcome of the attempt that it ends, or that has not begun, on record, and starts
// no other. What it leaves goes on with the next tick: what has not begun begins, and what was ended begins again
// within the budget for lost attempts.
func TestARunnerThatIsToldToEnd(t *testing.T) {
	ended := func(exit int, class kernel.FailureClass) func(context.Context, *kernel.Job) kernel.Result {
		return func(_ context.Context, j *kernel.Job) kernel.Result {
			return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: exit, Class: class, Ended: at, Place: kernel.Place{PID: 7}}
		}
	}
	idempotent := func(j *kernel.Job) { j.Spec.Budget.Reclaims = 1 }
	afterA := func(j *kernel.Job) { j.Spec.After = []kernel.JobID{"a"} }
	for name, c := range map[string]struct {
		acquire, run kernel.JobID // when it is told; "": before it begins
		change       func(*kernel.Job)
		does         func(context.Context, *kernel.Job) kernel.Result
		calls        []string
		class        kernel.FailureClass // of the outcome on record of the last attempt
		refused      bool
		next         map[kernel.JobID]kernel.Status // after the next tick
	}{
		"before": {calls: []string{"claim a/1", "conclude a/1 failed", "release a/1"},
			class: kernel.Signal, refused: true, next: map[kernel.JobID]kernel.Status{"a": kernel.Running, "b": kernel.WaitingOnDeps}},
		"while the command runs": {run: "a", change: idempotent, does: ended(143, kernel.Signal), calls: []string{"claim a/1", "conclude a/1 failed", "release a/1"},
			class: kernel.Preempted, next: map[kernel.JobID]kernel.Status{"a": kernel.Running}},
		"together with the command": {run: "a", change: idempotent, does: ended(143, kernel.ExitFailure), calls: []string{"claim a/1", "conclude a/1 failed", "release a/1"},
			class: kernel.Preempted, next: map[kernel.JobID]kernel.Status{"a": kernel.Running}},
		"without a budget": {run: "a", does: ended(143, kernel.Signal), calls: []string{"claim a/1", "conclude a/1 failed", "release a/1"},
			class: kernel.Preempted, next: map[kernel.JobID]kernel.Status{"a": kernel.Failed, "b": kernel.BlockedByDependency}},
		"as the command fails": {run: "a", change: idempotent, does: ended(1, kernel.ExitFailure), calls: []string{"claim a/1", "conclude a/1 failed", "release a/1"},
			class: kernel.ExitFailure, next: map[kernel.JobID]kernel.Status{"a": kernel.Failed}},
		"as the command succeeds": {run: "a", does: func(_ context.Context, j *kernel.Job) kernel.Result {
			return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Ended: at}
		}, calls: []string{"claim a/1", "conclude a/1 succeeded", "release a/1"},
			next: map[kernel.JobID]kernel.Status{"a": kernel.Succeeded, "b": kernel.Running, "c": kernel.Running}},
		"a node that has done its work": {run: "a", change: func(j *kernel.Job) { j.Spec.Task.Builtin = true }, does: ended(143, kernel.Signal),
			calls: []string{"claim a/1", "conclude a/1 failed", "release a/1"},
			class: kernel.Signal, next: map[kernel.JobID]kernel.Status{"a": kernel.Running}},
		"between two jobs": {acquire: "b", calls: []string{"claim a/1", "conclude a/1 succeeded", "commit", "acquire b/1", "commit", "done", "release a/1",
			"claim b/1", "conclude b/1 failed", "release b/1"},
			class: kernel.Signal, refused: true, next: map[kernel.JobID]kernel.Status{"b": kernel.Running, "c": kernel.Running}},
	} {
		m := newMemory(job("a", func(j *kernel.Job) {
			running(1)(j)
			if c.change != nil {
				c.change(j)
			}
		}), job("b", afterA), job("c", afterA))
		r := m.runner(c.does)
		ending, end := context.WithCancelCause(t.Context())
		r.Scheduler.Ending, r.Workload = ending, &endingOn{&workload{m, c.does}, c.acquire, c.run, end}
		r.Applied = func(kernel.AttemptID) bool { return true }
		if c.acquire+c.run == "" {
			end(errTerm)
		}
		a := kernel.AttemptID{Job: "a", N: 1}
		if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(m.calls, c.calls) {
			t.Errorf("%s: %q, want %q", name, m.calls, c.calls)
		}
		if c.acquire != "" {
			a.Job = c.acquire
		}
		if got := m.results[a]; got == nil || got.Class != c.class || got.Refused != c.refused {
			t.Errorf("%s: on record is %+v", name, got)
		}
		m.alive = kernel.Dead
		for id, j := range m.jobs {
			if m.jobs["a"].State.Status == kernel.Succeeded && id != "a" {
				j.Spec.After = nil // the next tick does not load what it refers to
				m.jobs[id] = j
			}
		}
		if _, err := m.scheduler().Tick(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for id, want := range c.next {
			if st := m.jobs[id].State; st.Status != want {
				t.Errorf("%s: then %s is %v (%s)", name, id, st.Status, st.Reason)
			}
		}
		end(nil)
	}
}

// locked is a store whose lock is never free.
type locked struct {
	*memory
	waits func()
}

func (l locked) Begin(ctx context.Context) (Tx, error) {
	l.waits()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(10 * time.Second):
		return nil, kernel.ErrStale
	}
}

// A runner that is told to end waits no longer with its result, which is on record, nor for an attempt's secrets.
func TestARunnerThatIsToldToEndWhileItWaits(t *testing.T) {
	a := kernel.AttemptID{Job: "a", N: 1}
	m := newMemory(job("a", running(1)))
	r := m.runner(nil)
	ending, end := context.WithCancelCause(t.Context())
	r.Scheduler.Store, r.Scheduler.Ending = locked{m, func() { end(errTerm) }}, ending
	if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
		t.Error(err)
	}
	m.expectCalls(t, "claim a/1", "conclude a/1 succeeded", "conclude a/1 succeeded", "release a/1")

	m = newMemory(job("a", func(j *kernel.Job) {
		running(1)(j)
		j.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: "sleep 60"}}
	}))
	r = m.runner(nil)
	ending, end = context.WithCancelCause(t.Context())
	r.Scheduler.Ending, r.Workload = ending, fetching{&endingOn{&workload{memory: m}, "", "", end}}
	go end(errTerm)
	if err := r.Serve(t.Context(), a, lock{m, a}); err != nil {
		t.Error(err)
	}
	m.expectCalls(t, "claim a/1", "conclude a/1 failed", "release a/1")
	if got := m.results[a]; got == nil || !got.Refused || got.Reason != errTerm.Error() {
		t.Errorf("on record is %+v", got)
	}
}

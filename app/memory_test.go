package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

var at = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// memory is a store, an executor and all other ports of a scheduler, in memory. Of the
// succeeded jobs it loads only those that are asked for.
type memory struct {
	jobs    map[kernel.JobID]kernel.Job
	left    []kernel.WorldAction // committed and not done
	calls   []string             // what was done, in order
	scopes  []kernel.Scope       // that were loaded
	plans   []kernel.Plan
	refuse  map[string]error // the errors that calls return
	n, at   int              // how many calls that can fail there were, and which of them fails, from 1; 0: none
	cleanup kernel.Cleanup

	noBranch   string
	checkedOut map[string]string // the working trees that have branches
	alive      kernel.Liveness   // of every runner
	results    map[kernel.AttemptID]*kernel.Result
	gone       map[kernel.JobID]bool // jobs that Job does not find
	begun      int
	closed     int
	failed     string // the call that did
	unnumbered bool   // the records are of a version without numbers
	narrow     bool   // it reads narrowly
	judged     string // of a narrow read
	dirty      []kernel.JobID
	reads      map[kernel.Near]kernel.ReadFact

	kept map[string]string // the branches that are the only copy of work, and why they stay

	now       func() time.Time
	collected time.Time
	seen      sync.Mutex // see see
}

func newMemory(jobs ...kernel.Job) *memory {
	m := &memory{jobs: map[kernel.JobID]kernel.Job{}, refuse: map[string]error{}, results: map[kernel.AttemptID]*kernel.Result{},
		cleanup: kernel.Cleanup{Status: kernel.CleanupDone}, alive: kernel.Alive, gone: map[kernel.JobID]bool{},
		now: func() time.Time { return at }}
	for _, j := range jobs {
		m.jobs[j.ID] = j
	}
	return m
}

func (m *memory) scheduler() *Scheduler {
	return &Scheduler{Store: m, Observers: []Observer{m}, Executor: m, Worktrees: m, Sentinels: m, Prompts: m, Cleaner: m,
		Now: m.now}
}

// job returns a job that starts at the next tick, unless change prevents that.
func job(id kernel.JobID, change func(*kernel.Job)) kernel.Job {
	j := kernel.Job{ID: id, Created: at, Rev: 1, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}
	if change != nil {
		change(&j)
	}
	return j
}

func running(n int) func(*kernel.Job) {
	return func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Running, Attempt: n, Started: at} }
}

// see makes what was changed before another goroutine's call of it visible: the race detector knows no clock.
func (m *memory) see() {
	m.seen.Lock()
	defer m.seen.Unlock()
}

func (m *memory) called(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	m.calls = append(m.calls, what)
	return m.fails(what)
}

// fails returns the error of a call.
func (m *memory) fails(what string) error {
	if m.n++; m.n == m.at {
		m.failed = what
		return errDisk
	}
	return m.refuse[what]
}

func (m *memory) Begin(context.Context) (Tx, error) {
	err := m.fails("begin")
	if err == nil {
		m.begun++
	}
	return m, err
}

func (m *memory) Read(_ context.Context, scope kernel.Scope) (kernel.Records, error) {
	m.see()
	return m.Load(scope)
}

func (m *memory) Load(scope kernel.Scope) (kernel.Records, error) {
	m.scopes = append(m.scopes, scope)
	rec := kernel.Records{Unnumbered: m.unnumbered}
	if m.narrow && scope.Near != nil {
		rec.Narrow, rec.Judged, rec.Dirty, rec.Reads = true, m.judged, m.dirty, m.reads
		for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
			if j := m.jobs[id]; slices.ContainsFunc(scope.Near, func(n kernel.Near) bool { return n.Selects(&j) }) {
				rec.Jobs = append(rec.Jobs, j)
			}
		}
		return rec, m.fails("load")
	}
	if scope.Reads {
		rec.Reads = m.reads
	}
	named := map[kernel.JobID]bool{} // by routes that are yet to be taken
	for _, j := range m.jobs {
		for _, r := range j.Spec.Routes {
			named[r.To] = named[r.To] || j.State.Deferred
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		j := m.jobs[id]
		key := j.Spec.IdempotencyKey
		if j.State.Status == kernel.Succeeded && !named[id] && !scope.All && !slices.Contains(scope.Jobs, id) && (key == "" || !slices.Contains(scope.Keys, key)) {
			rec.Succeeded++
			continue
		}
		rec.Jobs = append(rec.Jobs, j)
	}
	return rec, m.fails("load")
}

func (m *memory) Commit(p kernel.Plan) error {
	if err := m.called("commit"); err != nil {
		return err
	}
	var all []kernel.Job
	for _, j := range m.jobs {
		all = append(all, j)
	}
	m.jobs = map[kernel.JobID]kernel.Job{}
	for _, j := range kernel.NewSnapshot(kernel.Observation{Jobs: all}).Apply(p).Jobs() {
		m.jobs[j.ID] = *j
	}
	m.left = p.World
	m.plans = append(m.plans, p)
	return nil
}

func (m *memory) Unfinished() []kernel.WorldAction { return m.left }
func (m *memory) Done() error                      { m.left = nil; return m.called("done") }
func (m *memory) Close() error                     { m.closed++; return m.fails("close") }

func (m *memory) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	for _, a := range p.Attempts {
		f.Results[a] = kernel.Seen(m.results[a])
	}
	for _, a := range p.Artifacts {
		f.Present[a] = kernel.Seen(false)
	}
	for _, a := range p.Markers {
		f.Markers[a] = kernel.Seen[[]kernel.JobID](nil)
	}
}

func (m *memory) Start(_ context.Context, a kernel.AttemptID) error {
	return m.called("start %s/%d", a.Job, a.N)
}

func (m *memory) Alive(_ context.Context, all []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range all {
		out[a] = kernel.Seen(kernel.Runner{Liveness: m.alive})
	}
	return out
}

func (m *memory) Stop(_ context.Context, a kernel.AttemptID) error {
	return m.called("stop %s/%d", a.Job, a.N)
}

func (m *memory) Sweep(_ context.Context, a kernel.AttemptID) error {
	return m.called("sweep %s/%d", a.Job, a.N)
}

func (m *memory) Enforce(_ context.Context, a kernel.AttemptID) (bool, error) {
	err := m.called("enforce %s/%d", a.Job, a.N)
	return err == nil, err
}

func (m *memory) RemoveWorktree(_ context.Context, c kernel.Context) kernel.Cleanup {
	if err := m.called("remove %s", c.Worktree); err != nil {
		return kernel.Cleanup{Status: kernel.CleanupFailed, Error: err.Error()}
	}
	return m.cleanup
}

func (m *memory) DropConflict(slug string, _ *kernel.Job) error { return m.called("clear %s", slug) }

func (m *memory) TendPrompt(j *kernel.Job, want kernel.PromptName, _ string, others []uint64) (bool, bool, error) {
	return true, false, m.called("tend %s %v", j.ID, others)
}

func (m *memory) DropBranch(_ context.Context, name string) (bool, string, error) {
	err := m.called("drop %s", name)
	return m.kept[name] == "", m.kept[name], err
}
func (m *memory) BranchAt(_ context.Context, name string) (bool, string, error) {
	return name != m.noBranch, m.checkedOut[name], m.fails("branch")
}
func (m *memory) PlanStates(_ []kernel.JobID, drop bool) (int, error) {
	if !drop {
		return 3, m.fails("states")
	}
	return 3, m.called("drop states")
}
func (m *memory) DropConflicts([]kernel.JobID) error                        { return m.called("drop conflicts") }
func (m *memory) CountArtifacts(kernel.JobID, []kernel.Artifact) (int, int) { return 2, 1 }
func (m *memory) DropTemporary() (int, error)                               { return 0, m.called("drop temporary") }
func (m *memory) Collected() time.Time                                      { return m.collected }
func (m *memory) NoteCollected() error                                      { m.collected = m.now(); return m.called("note collected") }
func (m *memory) TrimHistory(context.Context) error                         { return m.called("trim history") }
func (m *memory) Sizes(_ context.Context, ids []kernel.JobID) map[kernel.JobID]int64 {
	sizes := map[kernel.JobID]int64{}
	m.calls = append(m.calls, "sizes")
	for _, id := range ids {
		sizes[id] = 10
	}
	return sizes
}
func (m *memory) Followed(kernel.RunID) bool { return m.refuse["followed"] != nil }

// Job and the methods below are the ports of a runner.
func (m *memory) Job(id kernel.JobID) (kernel.Job, error) {
	j, ok := m.jobs[id]
	if !ok || m.gone[id] {
		return j, kernel.ErrNotFound
	}
	return j, m.fails("job")
}

func (m *memory) Conclude(r kernel.Result) error {
	if err := m.called("conclude %s/%d %s", r.Attempt.Job, r.Attempt.N, r.Outcome); err != nil {
		return err
	}
	m.results[r.Attempt] = &r
	return nil
}

// workload is what a runner runs.
type workload struct {
	*memory
	run func(context.Context, *kernel.Job) kernel.Result
}

func (w *workload) Claim(a kernel.AttemptID) error { return w.called("claim %s/%d", a.Job, a.N) }
func (w *workload) Beat(kernel.AttemptID) error    { return nil }

func (w *workload) Acquire(a kernel.AttemptID) (io.Closer, error) {
	return lock{w.memory, a}, w.called("acquire %s/%d", a.Job, a.N)
}

func (w *workload) Run(ctx context.Context, j *kernel.Job) kernel.Result {
	if w.run != nil {
		return w.run(ctx, j)
	}
	return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Ended: at}
}

// lock is a job's lock.
type lock struct {
	m *memory
	a kernel.AttemptID
}

func (l lock) Close() error { return l.m.called("release %s/%d", l.a.Job, l.a.N) }

func (m *memory) runner(run func(context.Context, *kernel.Job) kernel.Result) *Runner {
	return &Runner{Scheduler: m.scheduler(), Outcomes: m, Workload: &workload{m, run}}
}

// expectCalls asserts what was done, in order.
func (m *memory) expectCalls(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(m.calls, want) {
		t.Errorf("done was\n%q, want\n%q", m.calls, want)
	}
}

var errDisk = errors.New("disk on fire")

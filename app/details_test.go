package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestWhoMayNotDecide(t *testing.T) {
	for want, e := range map[string]InsideError{
		"cannot retry from inside job j":                              {"retry", Descent{Job: "j"}},
		"cannot retry: this may run inside job j: no access":          {"retry", Descent{Job: "j", Why: "no access"}},
		"cannot approve: this may run inside a job: nothing is known": {"approve", Descent{Why: "nothing is known"}},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

// A job may queue runs, but none without the approval that the template asks for.
func TestAJobMayNotLeaveOutAnApproval(t *testing.T) {
	node := func(id kernel.JobID, after kernel.JobID, routed, asks bool) kernel.NewJob {
		n := kernel.NewJob{ID: id, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Routed: routed}}
		if after != "" {
			n.Spec.After = []kernel.JobID{after}
		}
		if asks {
			n.Approval = kernel.Require(at, "ann")
		}
		return n
	}
	for name, c := range map[string]struct {
		jobs     []kernel.NewJob
		approval *kernel.Approval
		refused  bool
	}{
		"left out":               {[]kernel.NewJob{node("a", "", false, true)}, &kernel.Approval{}, true},
		"as the template says":   {[]kernel.NewJob{node("a", "", false, true)}, nil, false},
		"given":                  {[]kernel.NewJob{node("a", "", false, true)}, approvalOf(kernel.Require(at, "ann")), false},
		"none is asked for":      {[]kernel.NewJob{node("a", "", false, false)}, &kernel.Approval{}, false},
		"of a later stage":       {[]kernel.NewJob{node("a", "", false, false), node("b", "a", false, true)}, &kernel.Approval{}, false},
		"of what a route starts": {[]kernel.NewJob{node("a", "", false, false), node("b", "", true, true)}, &kernel.Approval{}, false},
	} {
		m := newMemory()
		s := m.scheduler()
		s.Inside = func(context.Context) (Descent, bool) { return Descent{Job: "j"}, true }
		_, err := s.EnqueueRun(t.Context(), RunRequest{Run: "r", Jobs: c.jobs, Approval: c.approval})
		in, refused := errors.AsType[*InsideError](err)
		if refused != c.refused || refused && in.Verb != "leave out the approval of a template" || !refused && err != nil || (len(m.jobs) == 0) != refused {
			t.Errorf("%s: %v, %d jobs", name, err, len(m.jobs))
		}
	}
}

func approvalOf(a kernel.Approval) *kernel.Approval { return &a }

func TestAgentsThatAreTheSame(t *testing.T) {
	a := AgentChoice{Label: "l", Command: []string{"c"}, Model: "m", Flags: []string{"f"}, Permissions: "run"}
	if !a.Same(a) {
		t.Error("an agent differs from itself")
	}
	for i, change := range []func(*AgentChoice){
		func(c *AgentChoice) { c.Label = "x" }, func(c *AgentChoice) { c.Command = nil }, func(c *AgentChoice) { c.Model = "x" },
		func(c *AgentChoice) { c.Flags = []string{"f", "g"} }, func(c *AgentChoice) { c.Permissions = "all" },
	} {
		b := a
		if change(&b); a.Same(b) || b.Same(a) {
			t.Errorf("%d: %+v is the same", i, b)
		}
	}
}

func TestVersionsInWords(t *testing.T) {
	if got := fmt.Sprint(NoBump, PatchBump, MinorBump, MajorBump); got != "none patch minor major" {
		t.Error(got)
	}
	if v, found := LatestVersion([]string{"v1.2.3", "v99999999999999999999.0.0"}); !found || v != (Version{Major: 1, Minor: 2, Patch: 3}) {
		t.Errorf("%+v, %v: a number that is too large is no version", v, found)
	}
}

// keeper is an executor that sends requests, is asked for news, knows secrets, and may be unfit for any job.
type keeper struct {
	*memory
	sent, asked int
	unfit       error
}

func (k *keeper) Send()                         { k.sent++ }
func (k *keeper) Refresh(context.Context) error { k.asked++; return errDisk }
func (k *keeper) Accepts([]string) error        { return k.unfit }
func (k *keeper) CheckSecret(s kernel.Secret) error {
	if s.Name == "A" {
		return nil
	}
	return errDisk
}

func TestWhatExecutorsAreAsked(t *testing.T) {
	far := &keeper{memory: newMemory()}
	m := newMemory(job("a", nil))
	s := m.scheduler()
	s.Executors = map[string]Executor{"far": far, "plain": m}
	if _, err := s.Tick(t.Context()); err != nil || far.sent != 1 {
		t.Errorf("it was to send %d times, %v", far.sent, err)
	}
	on := func(name string, st kernel.Status) *kernel.Job {
		return &kernel.Job{Spec: kernel.Spec{Task: kernel.Task{Executor: name}}, State: kernel.State{Status: st}}
	}
	s.Refresh(t.Context(), on("far", kernel.Queued), on("plain", kernel.Running))
	if far.asked != 0 {
		t.Errorf("it was asked %d times, and runs nothing", far.asked)
	}
	s.Refresh(t.Context(), on("far", kernel.Running), on("far", kernel.Running))
	if far.asked != 1 {
		t.Errorf("it was asked %d times", far.asked)
	}
	s.Executor = far
	for want, task := range map[string]kernel.Task{
		"":                                {Secrets: []kernel.Secret{{Name: "A"}}},
		"secret B: disk on fire: invalid": {Secrets: []kernel.Secret{{Name: "A"}, {Name: "B"}}},
		"secret A: secrets are handed to jobs of this host, and the job is for executor far: have its command fetch them there: invalid": {Executor: "far", Secrets: []kernel.Secret{{Name: "A"}}},
	} {
		if err := s.Accepts(task); fmt.Sprint(err) != cmp.Or(want, "<nil>") {
			t.Errorf("%v; want %s", err, want)
		}
	}
	far.unfit = errDisk
	if err := s.Accepts(kernel.Task{Executor: "far"}); !errors.Is(err, errDisk) || err.Error() != "[executors.far]: disk on fire" {
		t.Errorf("%v", err)
	}
}

// A collection tells of a worktree of a merge that it could not remove.
func TestGarbageWhoseWorktreeStays(t *testing.T) {
	m := newMemory(job("a", func(j *kernel.Job) { j.State.Status, j.State.Finished = kernel.Failed, at.Add(-time.Hour) }))
	m.cleanup = kernel.Cleanup{Status: kernel.CleanupDegraded, Error: "busy"}
	s := m.scheduler()
	s.Worktrees = worktrees{m, map[kernel.JobID][]kernel.Context{"a": {{Worktree: "x"}}}}
	if _, err := s.GC(t.Context(), time.Minute); err == nil || err.Error() != "worktree of job a is kept: busy" || len(m.jobs) > 0 || !slices.Contains(m.calls, "drop conflicts") {
		t.Errorf("%v, %q", err, m.calls)
	}
	m.calls = nil
	if _, err := s.GC(t.Context(), time.Minute); err != nil || slices.Contains(m.calls, "drop conflicts") {
		t.Errorf("of nothing: %v, %q", err, m.calls)
	}
	m = newMemory(endedAt("a", at.Add(-time.Hour)), endedAt("b", at.Add(-time.Hour)))
	m.cleanup = kernel.Cleanup{Status: kernel.CleanupFailed, Error: "busy"}
	s = m.scheduler()
	s.Worktrees = worktrees{m, map[kernel.JobID][]kernel.Context{"a": {{Worktree: "x"}}, "b": {{Worktree: "y"}}}}
	if _, err := s.GC(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "worktree of job a is kept: busy") || !strings.Contains(err.Error(), "worktree of job b is kept: busy") {
		t.Errorf("of two: %v", err)
	}
	m = newMemory(endedAt("a", at.Add(-time.Hour)))
	s = m.scheduler()
	s.Worktrees, s.Cleaner = worktrees{m, nil}, nil
	if _, err := s.GC(t.Context(), time.Minute); err != nil || len(m.jobs) > 0 {
		t.Errorf("where nothing cleans up: %v, %d jobs are left", err, len(m.jobs))
	}
}

// A worktree that is removed although files of it are left aside is told of, and does not concern its job any more.
func TestAWorktreeWhoseFilesAreLeftAside(t *testing.T) {
	m := newMemory(job("a", func(j *kernel.Job) {
		j.Spec.OwnsContext = true
		j.State = kernel.State{Status: kernel.Failed, Attempt: 1, Context: kernel.Context{Root: "w", Worktree: "w", Name: "w", Owned: true}}
	}))
	m.cleanup.Error = "files are left in aside"
	rep, err := m.scheduler().Retry(t.Context(), "ann", "a")
	if st := m.jobs["a"].State; err != nil || rep.Refused["a"] != "files are left in aside" || st.Retried.Status != kernel.CleanupDone || st.Retried.Error != "" {
		t.Errorf("%v, told %q, %+v", err, rep.Refused, st)
	}
}

// Jobs of other executors that run, or are tried again later, need a resident scheduler, and so do those that wait for this host.
func TestWhoNeedsAResident(t *testing.T) {
	far := func(st kernel.Status, again time.Time) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Spec.Task.Executor, j.State.Status, j.State.RetryAt = "far", st, again }
	}
	m := newMemory(job("a", far(kernel.Running, time.Time{})), job("b", far(kernel.FailedRetryable, at)), job("c", far(kernel.Queued, time.Time{})),
		job("d", far(kernel.Failed, at)), job("e", running(1)), job("f", func(j *kernel.Job) { j.State.Status, j.State.RetryAt = kernel.FailedRetryable, at }))
	s := m.scheduler()
	s.Executors = map[string]Executor{"far": m}
	jobs, err := s.NeedResident(t.Context())
	var got []kernel.JobID
	for _, j := range jobs {
		got = append(got, j.ID)
	}
	if err != nil || !slices.Equal(got, []kernel.JobID{"a", "b"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// What holds a job up is found along a long line of jobs, but not along any.
func TestALongLineHoldsAJobUp(t *testing.T) {
	for n, want := range map[int]kernel.JobID{64: "064", 65: ""} {
		m := newMemory(job("000", running(1)))
		for i := 1; i <= n; i++ {
			id := kernel.JobID(fmt.Sprintf("%03d", i))
			m.jobs[id] = job(id, func(j *kernel.Job) {
				j.Spec.After, j.State.Status = []kernel.JobID{kernel.JobID(fmt.Sprintf("%03d", i-1))}, kernel.WaitingOnDeps
			})
		}
		if got, err := m.scheduler().HeldUpBy(t.Context(), "000", []kernel.JobID{kernel.JobID(fmt.Sprintf("%03d", n))}, nobody); got != want || err != nil {
			t.Errorf("%d jobs: %q, %v", n, got, err)
		}
	}
	thing := kernel.Artifact{Kind: kernel.Custom, Name: "thing", Ref: "x"}
	m := newMemory(job("a", func(j *kernel.Job) { running(1)(j); j.Spec.Produces = []kernel.Artifact{thing} }),
		job("b", func(j *kernel.Job) { j.Spec.Needs, j.State.Status = []kernel.Artifact{thing}, kernel.WaitingOnDeps }))
	if got, err := m.scheduler().HeldUpBy(t.Context(), "a", []kernel.JobID{"b"}, nobody); got != "" || err != nil {
		t.Errorf("by what another job may make: %q, %v", got, err)
	}
}

// A job whose end cannot be looked up again is lost, as it was read.
func TestLostAsItWasRead(t *testing.T) {
	m := newMemory(job("a", running(1)))
	m.alive = kernel.Dead
	s := m.scheduler()
	snap, err := s.Snapshot(t.Context(), kernel.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	m.refuse["load"] = errDisk
	if _, lost := s.Lost(t.Context(), snap, false); !slices.Equal(lost, []kernel.JobID{"a"}) {
		t.Errorf("lost are %q", lost)
	}
}

// From inside a job nothing is approved, rejected or retried.
func TestAJobDecidesNothing(t *testing.T) {
	for verb, c := range map[string]struct {
		is   func(*kernel.Job)
		do   func(context.Context, *Scheduler) error
		then kernel.Status
	}{
		"approve": {pending, func(ctx context.Context, s *Scheduler) error {
			_, err := s.Approve(ctx, "a", kernel.Consent{By: "ann"})
			return err
		}, kernel.Running},
		"reject": {pending, func(ctx context.Context, s *Scheduler) error {
			_, err := s.Reject(ctx, "a", kernel.Refusal{By: "ann", Reason: "no"})
			return err
		}, kernel.BlockedByApproval},
		"retry": {func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Failed, Attempt: 1} }, func(ctx context.Context, s *Scheduler) error {
			_, err := s.Retry(ctx, "ann", "a")
			return err
		}, kernel.Running},
	} {
		m := newMemory(job("a", c.is))
		s, inside := m.scheduler(), true
		s.Inside = func(context.Context) (Descent, bool) { return Descent{Job: "j"}, inside }
		if in, refused := errors.AsType[*InsideError](c.do(t.Context(), s)); !refused || in.Verb != verb || in.Job != "j" || len(m.calls) > 0 {
			t.Errorf("%s: %v, %q", verb, in, m.calls)
		}
		inside = false
		if err := c.do(t.Context(), s); err != nil || m.jobs["a"].State.Status != c.then {
			t.Errorf("%s: %v, %+v", verb, err, m.jobs["a"].State)
		}
	}
}

package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// Whichever call of a port fails, a use case says so, in its error or its report, and lets go of the scheduler lock. An error of
// a transaction says that nothing has happened.
func TestWhicheverCallOfAPortFails(t *testing.T) {
	tree := kernel.Context{Root: "w", Worktree: "w", Name: "w", Branch: "draft/x", Owned: true}
	failed := func(j *kernel.Job) {
		j.State = kernel.State{Status: kernel.Failed, Attempt: 1, Context: tree, Finished: at.Add(-time.Hour)}
		j.Spec.Origin.Run = "r1"
	}
	waits := func(j *kernel.Job) { j.Spec.After, j.State.Status = []kernel.JobID{"b"}, kernel.WaitingOnDeps }
	asks := func(j *kernel.Job) {
		j.State.Approval, j.State.Status = kernel.Require(at, "ann"), kernel.WaitingOnApproval
	}
	empty := func() *memory { return newMemory() }
	ended := func() *memory { return newMemory(job("a", failed)) }
	queued := func() *memory { return newMemory(job("a", nil), job("b", running(1)), job("c", waits)) }
	planned := func() *memory {
		return newMemory(job("a", func(j *kernel.Job) {
			j.Spec.Origin.Run, j.Spec.Origin.Branch, j.State.Status, j.State.Finished = "r", "draft/one", kernel.Failed, at.Add(-time.Hour)
		}))
	}
	asking := func() *memory { return newMemory(job("a", asks)) }
	news := []kernel.NewJob{{ID: "n", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}}
	checks := []Check{{Look: func(context.Context, *kernel.Snapshot) ([]Finding, error) { return nil, nil }}}
	several := []string{"clean", "garbage", "recovery", "without numbers"} // transactions, or commits of which an error may be said after the first
	type does func(context.Context, *memory) (any, error)
	scheduled := func(do func(context.Context, *Scheduler) (any, error)) does {
		return func(ctx context.Context, m *memory) (any, error) { return do(ctx, m.scheduler()) }
	}
	prompts := func(do func(context.Context, *memory, *Inbox) (any, error), files ...string) does {
		return func(ctx context.Context, m *memory) (any, error) { return do(ctx, m, newFolder(m, files...).inbox()) }
	}
	pass := func(ctx context.Context, _ *memory, x *Inbox) (any, error) { return x.Once(ctx, true) }
	for name, c := range map[string]struct {
		world func() *memory
		do    does
		quiet bool // of what comes after its commit: the next tick does that
	}{
		"a tick":       {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Tick(ctx) }), false},
		"a submission": {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Submit(ctx, news, "ann") }), false},
		"a run": {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			return s.EnqueueRun(ctx, RunRequest{Run: "r", Jobs: news})
		}), false},
		"a check of a run": {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			return nil, s.CheckRun(ctx, RunRequest{Run: "r", Jobs: news})
		}), false},
		"a cancellation": {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Cancel(ctx, "b", "ann", true) }), false},
		"a cancellation of all": {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			done, err := s.CancelAll(ctx, []kernel.JobID{"a", "b"}, Cancellation{By: "ann"})
			return done.Report, err
		}), false},
		"a retry":    {ended, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Retry(ctx, "ann", "a") }), false},
		"retry sets": {ended, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.RetrySets(ctx, []kernel.JobID{"a"}) }), false},
		"ways out":   {ended, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.WaysOut(ctx, []kernel.JobID{"a"}) }), false},
		"an approval": {asking, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			return s.Approve(ctx, "a", kernel.Consent{By: "ann"})
		}), false},
		"what can be retried": {ended, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			_, _, err := s.Retryable(ctx, []kernel.JobID{"a"})
			return nil, err
		}), false},
		"garbage": {ended, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.GC(ctx, time.Minute) }), false},
		"a clean": {ended, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			done, rep, err := s.Clean(ctx, []kernel.JobID{"a"}, CleanOptions{})
			return fmt.Sprintf("%+v %+v", done, rep), err
		}), false},
		"a clean of a plan": {planned, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			s.Worktrees = worktrees{s.Store.(*memory), map[kernel.JobID][]kernel.Context{"a": {{Worktree: "x"}}}}
			done, rep, err := s.Clean(ctx, []kernel.JobID{"a"}, CleanOptions{})
			return fmt.Sprintf("%+v %+v", done, rep), err
		}), false},
		"what a clean of a plan would do": {planned, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			s.Worktrees = worktrees{s.Store.(*memory), map[kernel.JobID][]kernel.Context{"a": {{Worktree: "x"}}}}
			return s.PlanClean(ctx, []kernel.JobID{"a"}, CleanOptions{})
		}), false},
		"garbage of a plan": {planned, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			s.Worktrees = worktrees{s.Store.(*memory), map[kernel.JobID][]kernel.Context{"a": {{Worktree: "x"}}}}
			return s.GC(ctx, time.Minute)
		}), false},
		"what a clean would do": {ended, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			return s.PlanClean(ctx, []kernel.JobID{"a"}, CleanOptions{})
		}), false},
		"why": {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			_, _, err := s.Explain(ctx, "c")
			return nil, err
		}), false},
		"who holds up": {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			return s.HeldUpBy(ctx, "b", []kernel.JobID{"c"}, nobody)
		}), false},
		"an examination":       {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Examine(ctx, checks, true) }), true},
		"a look of the doctor": {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Examine(ctx, checks, false) }), false},
		"a survey":             {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Survey(ctx, checks) }), false},
		"who needs a resident": {queued, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			s.Executors = map[string]Executor{"far": s.Executor}
			return s.NeedResident(ctx)
		}), false},
		"a recovery": {func() *memory {
			m := newMemory(job("b", failed))
			m.left = []kernel.WorldAction{kernel.RemoveWorktree{Job: "b", Context: tree}, kernel.ClearSentinel{Job: "b", Slug: "plan"}}
			return m
		}, func(ctx context.Context, m *memory) (any, error) {
			rep, err := m.scheduler().Tick(ctx)
			return fmt.Sprintf("%+v %+v", rep, m.jobs["b"].State), err
		}, false},
		"a store without numbers": {func() *memory { m := queued(); m.unnumbered = true; return m },
			scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Tick(ctx) }), false},
		"a narrow tick": {func() *memory {
			m := queued()
			m.narrow, m.judged = true, "other limits"
			return m
		}, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Tick(ctx) }), false},
		"a narrow tick beside what is read outside": {func() *memory {
			m := newMemory(job("a", func(j *kernel.Job) { onBranch("x")(j); j.Created = at.Add(-time.Hour) }), job("b", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{"a"} }))
			m.narrow, m.judged = true, m.scheduler().Limits.String()
			m.reads = map[kernel.Near]kernel.ReadFact{{Kind: kernel.Readers, Key: "x"}: {}}
			return m
		}, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Tick(ctx) }), false},
		"a narrow submission": {func() *memory {
			m := queued()
			m.narrow, m.judged = true, m.scheduler().Limits.String()
			return m
		}, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Submit(ctx, news, "ann") }), false},
		"a narrow cancellation that removes a worktree": {func() *memory {
			m := newMemory(job("a", func(j *kernel.Job) { failed(j); j.State.Status = kernel.Queued }), job("b", running(1)), job("c", waits),
				job("d", func(j *kernel.Job) { j.Spec.After, j.State.Status = []kernel.JobID{"a"}, kernel.WaitingOnDeps }),
				job("e", func(j *kernel.Job) { j.Spec.After, j.State.Status = []kernel.JobID{"d"}, kernel.WaitingOnDeps }))
			m.narrow, m.judged = true, m.scheduler().Limits.String()
			return m
		}, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Cancel(ctx, "a", "ann", true) }), false},
		"a narrow end of a prompt": {func() *memory {
			m := newMemory(job("a", func(j *kernel.Job) {
				j.Spec.Prompt = &kernel.Prompt{File: "/in/a.prompt.md", Rel: "a.prompt.md", Inode: 1}
				running(1)(j)
			}))
			m.narrow, m.judged = true, m.scheduler().Limits.String()
			return m
		}, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			return s.Finish(ctx, kernel.Result{Attempt: kernel.AttemptID{Job: "a", N: 1}, Outcome: kernel.OutcomeSucceeded, Ended: at})
		}), false},
		"an end with submissions": {func() *memory {
			m := queued()
			m.alive = kernel.Dead
			a := kernel.AttemptID{Job: "b", N: 1}
			m.results[a] = &kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Ended: at, Submitted: news}
			return m
		}, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Tick(ctx) }), false},
		"a loop beside what has succeeded": {func() *memory {
			m := looping()
			m.jobs["old"] = job("old", func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Succeeded, Attempt: 1} })
			return m
		}, scheduled(func(ctx context.Context, s *Scheduler) (any, error) { return s.Tick(ctx) }), false},
		"how whole runs stand": {func() *memory {
			return newMemory(job("a", func(j *kernel.Job) { running(1)(j); j.Number, j.Part = 1, "a" }))
		}, scheduled(func(ctx context.Context, s *Scheduler) (any, error) {
			return s.Wholes(ctx, []*kernel.Job{{Number: 1, Part: "a"}})
		}), false},
		"a pass":              {empty, prompts(pass, "a.prompt.md"), true},
		"a pass over another": {empty, prompts(pass, "a.running.md"), false},
		"the status of an inbox": {empty, prompts(func(ctx context.Context, m *memory, x *Inbox) (any, error) {
			return x.Status(ctx, []*InboxTarget{{Root: "/repo", Scheduler: m.scheduler()}}, true, time.Hour, func(*InboxTarget, *kernel.Job) time.Time { return at })
		}, "a.prompt.md"), false},
		"refused prompts": {empty, prompts(func(ctx context.Context, _ *memory, x *Inbox) (any, error) { return x.Refused(ctx, nil, at) }, "a.error.md"), false},
		"a prompt that is submitted": {empty, prompts(func(ctx context.Context, _ *memory, x *Inbox) (any, error) {
			x.Layout = inbox.MultiOwner
			return x.Submit(ctx, Submission{At: inbox.Path{Owner: "ann", Repository: "repo", Branch: "a/b"}, Name: "a.prompt.md", Text: "do it"}, stamped)
		}), true},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.world()
			if said, err := c.do(t.Context(), m); err != nil {
				t.Fatalf("%+v, %v", said, err)
			}
			if m.n == 0 {
				t.Fatal("it calls no port")
			}
			all := m.n
			for i := 1; i <= all; i++ {
				m := c.world()
				m.at = i
				said, err := c.do(t.Context(), m)
				if text := fmt.Sprintf("%+v %v", said, err); !strings.Contains(text, errDisk.Error()) && !(c.quiet && len(m.plans) > 0) && (name != "a pass over another" || m.failed != "read") { // that file is judged by its name and number
					t.Errorf("call %d of %d, %s, fails: %s\n%q", i, all, m.failed, text, m.calls)
				}
				if err != nil && len(m.plans) > 0 && !c.quiet && !slices.ContainsFunc(several, func(s string) bool { return strings.Contains(name, s) }) {
					t.Errorf("call %d of %d, %s, fails: %v is said of what has happened\n%q", i, all, m.failed, err, m.calls)
				}
				if m.begun != m.closed {
					t.Errorf("call %d of %d, %s, fails, and of %d transactions %d are ended", i, all, m.failed, m.begun, m.closed)
				}
			}
		})
	}
}

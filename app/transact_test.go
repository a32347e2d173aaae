package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// Recovery starts the attempts that a crash left unstarted, but none that a later attempt
// followed, and none of a job that is gone or has ended. It is done once, whatever else happens.
func TestRecoveryStartsWhatIsCurrent(t *testing.T) {
	m := newMemory(job("a", running(2)), job("b", running(1)), job("c", func(j *kernel.Job) {
		j.State = kernel.State{Status: kernel.Failed, Attempt: 1}
	}))
	for _, id := range []kernel.JobID{"a", "b", "c", "gone"} {
		m.left = append(m.left, kernel.Launch{Attempt: kernel.AttemptID{Job: id, N: 1}})
	}
	for range 2 {
		if _, err := m.scheduler().Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.expectCalls(t, "start b/1", "done")
	if m.jobs["a"].State.Attempt != 2 || m.jobs["a"].Rev != 1 {
		t.Errorf("a is %+v", m.jobs["a"])
	}
}

// Recovery does every other unfinished action again, and records the results before the
// store forgets the actions.
func TestRecoveryDoesEverythingAgain(t *testing.T) {
	tree := kernel.Context{Root: "w", Worktree: "w", Name: "w", Owned: true}
	m := newMemory(job("a", running(1)), job("b", func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Failed, Context: tree} }))
	m.left = []kernel.WorldAction{kernel.Stop{Attempt: kernel.AttemptID{Job: "a", N: 1}}, kernel.Sweep{Attempt: kernel.AttemptID{Job: "a", N: 1}},
		kernel.ClearSentinel{Job: "a", Slug: "plan"}, kernel.RemoveWorktree{Job: "b", Context: tree}}
	if _, err := m.scheduler().Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.expectCalls(t, "stop a/1", "sweep a/1", "clear plan", "remove w", "commit", "done")
	if c := m.jobs["b"].State; c.Context.Owned || c.Retried.Status != kernel.CleanupDone {
		t.Errorf("b is %+v", c)
	}
}

// What fails again in a recovery is told, but for launches, whose jobs say so. A job that succeeded long ago gets its answer, too.
func TestWhatARecoveryTells(t *testing.T) {
	tree := kernel.Context{Root: "w", Worktree: "w", Name: "w", Owned: true}
	m := newMemory(job("a", running(1)), job("b", running(1)), job("c", func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Succeeded, Context: tree} }))
	m.left = []kernel.WorldAction{kernel.Stop{Attempt: kernel.AttemptID{Job: "a", N: 1}}, kernel.Launch{Attempt: kernel.AttemptID{Job: "b", N: 1}}, kernel.RemoveWorktree{Job: "c", Context: tree}}
	m.refuse["stop a/1"], m.refuse["start b/1"] = errDisk, &Refusal{"no such program"}
	s, log := m.scheduler(), &shelf{}
	s.Events = log
	rep, err := s.Tick(t.Context())
	if len(log.events) == 0 {
		t.Error("the log has none of it")
	}
	if err != nil || len(rep.Refused) != 1 || rep.Refused["a"] != errDisk.Error() {
		t.Errorf("%v: %+v", err, rep.Refused)
	}
	if st := m.jobs["b"].State; st.Status != kernel.Failed || m.jobs["c"].State.Context.Owned {
		t.Errorf("b is %+v, c %+v", st, m.jobs["c"].State)
	}
}

// Where the records cannot be read, what is left stays left.
func TestARecoveryThatReadsNothing(t *testing.T) {
	m := newMemory(job("a", running(1)))
	m.left = []kernel.WorldAction{kernel.Stop{Attempt: kernel.AttemptID{Job: "a", N: 1}}}
	m.at = 2 // after the beginning
	if _, err := m.scheduler().Tick(t.Context()); !errors.Is(err, errDisk) || m.failed != "load" || len(m.left) != 1 || len(m.scopes) != 1 {
		t.Errorf("%v: left is %+v, %d reads", err, m.left, len(m.scopes))
	}
}

// A process that is to end takes back what its transaction was to start, wakes nobody, and leaves alone what an earlier
// one may have started.
func TestAProcessThatIsToEndStartsNothing(t *testing.T) {
	ending, end := context.WithCancel(t.Context())
	m := newMemory(job("a", nil))
	s, to := m.scheduler(), &listener{}
	s.Ending, s.Waker = ending, to
	end()
	rep, err := s.Tick(t.Context())
	if st := m.jobs["a"].State; err != nil || st.Status != kernel.Queued || st.Refused != 1 || len(rep.Started()) > 0 || to.wakes > 0 {
		t.Errorf("%v: a is %+v, started %v, woken %d times", err, st, rep.Started(), to.wakes)
	}
	m.expectCalls(t, "commit", "commit", "done")

	m = newMemory(job("a", running(1)))
	m.left = []kernel.WorldAction{kernel.Launch{Attempt: kernel.AttemptID{Job: "a", N: 1}}}
	s = m.scheduler()
	s.Ending = ending
	if _, err := s.Tick(t.Context()); err == nil || len(m.left) != 1 || m.jobs["a"].State.Status != kernel.Running {
		t.Errorf("%v: left is %+v, a %+v", err, m.left, m.jobs["a"].State)
	}
	m.expectCalls(t)
}

// The jobs of a store without numbers get theirs with the first transaction, in order of time.
func TestAStoreGetsNumbers(t *testing.T) {
	m := newMemory(job("a", running(1)), job("b", func(j *kernel.Job) { j.State.Status, j.Created = kernel.Succeeded, at.Add(-time.Hour) }))
	m.unnumbered = true
	s := m.scheduler()
	for range 2 {
		if _, err := s.Tick(t.Context()); err != nil || m.jobs["b"].Number != 1 || m.jobs["a"].Number != 2 {
			t.Errorf("%v: %d and %d", err, m.jobs["b"].Number, m.jobs["a"].Number)
		}
	}
	m.expectCalls(t, "commit")
}

// What is done stays done if the lock cannot be let go of, and otherwise nothing was.
func TestALockThatIsNotLetGoOf(t *testing.T) {
	m := newMemory(job("a", nil))
	m.refuse["close"], m.refuse["done"] = errDisk, kernel.ErrMoved
	if rep, err := m.scheduler().Tick(t.Context()); err != nil || !errors.Is(rep.Late, errDisk) || !errors.Is(rep.Late, kernel.ErrMoved) {
		t.Errorf("%v, late %v", err, rep.Late)
	}
	m = newMemory(job("a", running(1)))
	m.refuse["close"] = errDisk
	if rep, err := m.scheduler().Tick(t.Context()); !errors.Is(err, errDisk) || rep.Late != nil {
		t.Errorf("of nothing: %v, late %v", err, rep.Late)
	}
}

// starting is an executor that notes how much the log has when an attempt starts.
type starting struct {
	*memory
	log *shelf
	had int
}

func (s *starting) Start(ctx context.Context, a kernel.AttemptID) error {
	s.had = len(s.log.events)
	return s.memory.Start(ctx, a)
}

// The events of a start are in the log before the attempt appends its own.
func TestAStartIsToldFirst(t *testing.T) {
	m := newMemory(job("a", nil))
	s, e := m.scheduler(), &starting{memory: m, log: &shelf{}}
	s.Events, s.Executor = e.log, e
	if _, err := s.Tick(t.Context()); err != nil || e.had == 0 || e.had != len(e.log.events) {
		t.Errorf("%v: %d of %q", err, e.had, e.log.events)
	}
}

func TestRecoveryThatFailsIsTold(t *testing.T) {
	for _, what := range []string{"load", "commit"} {
		tree := kernel.Context{Worktree: "w", Owned: true}
		m := newMemory(job("b", func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Failed, Context: tree} }))
		m.left, m.refuse[what] = []kernel.WorldAction{kernel.RemoveWorktree{Job: "b", Context: tree}}, errDisk
		if _, err := m.scheduler().Tick(t.Context()); !errors.Is(err, errDisk) || m.closed != 1 {
			t.Errorf("%s: %v; the lock was let go of %d times", what, err, m.closed)
		}
	}
}

// A submission finds the job of the same key even if that job succeeded long ago, also in
// a process that has read the store before.
func TestSubmitFindsTheKeyOfAJobThatSucceeded(t *testing.T) {
	m := newMemory(job("a", func(j *kernel.Job) {
		j.Spec.IdempotencyKey, j.State.Status = "k", kernel.Succeeded
	}))
	s := m.scheduler()
	for _, id := range []kernel.JobID{"b", "c", "d"} {
		if id == "c" {
			s = m.scheduler()
			if _, err := s.Tick(t.Context()); err != nil { // it does not load a
				t.Fatal(err)
			}
		}
		again := job(id, nil)
		again.Spec.IdempotencyKey = "k"
		rep, err := s.Submit(t.Context(), []kernel.NewJob{{ID: id, Spec: again.Spec}}, "ann")
		if err != nil || rep.Same[id] != "a" || len(m.jobs) != 1 {
			t.Errorf("%v: the same as %v, %d jobs", err, rep.Same, len(m.jobs))
		}
	}
}

// The result of removing a worktree is known before the next verb decides.
func TestAWorktreeIsSeenToBeforeTheNextVerb(t *testing.T) {
	tree := kernel.Context{Root: "w", Worktree: "w", Name: "w", Branch: "draft/x", Owned: true}
	owner := func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Failed, Attempt: 1, Context: tree} }
	m := newMemory(job("a", owner))
	done, _, err := m.scheduler().Clean(t.Context(), []kernel.JobID{"a"}, CleanOptions{})
	if err != nil || done.Worktrees != 1 || len(done.KeptWorktrees) != 0 || len(done.Removed) != 1 || done.Markers != 2 || done.Payloads != 1 {
		t.Errorf("%v: %+v", err, done)
	}
	m.expectCalls(t, "commit", "remove w", "commit", "done", "drop states", "commit", "done")

	m = newMemory(job("a", owner))
	m.cleanup = kernel.Cleanup{Status: kernel.CleanupDegraded, Error: "busy"}
	done, _, err = m.scheduler().Clean(t.Context(), []kernel.JobID{"a"}, CleanOptions{})
	if err != nil || done.Worktrees != 0 || done.KeptWorktrees["a"] != "busy" {
		t.Errorf("%v: %+v", err, done)
	}
}

// A refused launch is taken back by the same transaction, and reported.
func TestARefusedLaunchIsTakenBack(t *testing.T) {
	for _, final := range []bool{false, true} {
		m := newMemory(job("a", nil))
		m.refuse["start a/1"] = errDisk
		if final {
			m.refuse["start a/1"] = &Refusal{"no such program"}
		}
		rep, err := m.scheduler().Tick(t.Context())
		if err != nil || rep.Refused["a"] != m.refuse["start a/1"].Error() || len(rep.Started()) != 0 {
			t.Errorf("%v: %+v", err, rep.Refused)
		}
		m.expectCalls(t, "commit", "start a/1", "commit", "done")
		if st := m.jobs["a"].State; st.Status == kernel.Running || final != (st.Status == kernel.Failed) {
			t.Errorf("final %v: %+v", final, st)
		}
	}
}

// looping has a job with a worktree of its own that failed, which begins it again, once.
func looping() *memory {
	m := newMemory(job("a", func(j *kernel.Job) {
		running(1)(j)
		j.Spec.OwnsContext, j.Spec.Routes = true, []kernel.Route{{On: kernel.OutcomeFailed, To: "a", Budget: 1}}
		j.State.Context = kernel.Context{Root: "w", Worktree: "w", Name: "w", Owned: true}
	}))
	m.alive = kernel.Dead
	m.results[kernel.AttemptID{Job: "a", N: 1}] = &kernel.Result{Attempt: kernel.AttemptID{Job: "a", N: 1}, Outcome: kernel.OutcomeFailed, Ended: at}
	return m
}

// The answer to a world action is decided on top of the answers to the actions before it.
func TestAnswersOfTheWorldAreTakenTogether(t *testing.T) {
	m := looping()
	m.refuse["start a/2"] = &Refusal{"no such program"}
	if _, err := m.scheduler().Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.expectCalls(t, "commit", "remove w", "start a/2", "commit", "done")
	if st := m.jobs["a"].State; st.Status != kernel.Failed || st.Attempt != 2 || st.Retried.Status != kernel.CleanupDone {
		t.Errorf("%+v", st)
	}
}

// The report has the decisions of every commit of the transaction.
func TestTheDecisionsOfEveryCommitAreTold(t *testing.T) {
	m := looping()
	m.refuse["start a/2"] = errDisk // so the second tick has something to decide
	rep, err := m.scheduler().transact(t.Context(), kernel.Scope{All: true}, recorded(history.Tick{}))
	if err != nil {
		t.Fatal(err)
	}
	var want []kernel.Decision
	deciding := 0
	for _, p := range m.plans {
		if want = append(want, p.Decisions...); len(p.Decisions) > 0 {
			deciding++
		}
	}
	if deciding < 2 || !slices.Equal(rep.Decisions, want) {
		t.Errorf("told are %+v, decided %+v by %d commits", rep.Decisions, want, deciding)
	}
}

// What would run again with a job is everything that uses what it makes, but not a job that took that from another one, which
// may have succeeded long ago. So a route does not wait for the end of such a job.
func TestARouteKnowsWhatSucceededLongAgo(t *testing.T) {
	token := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "a"}
	m := newMemory(job("long_ago", func(j *kernel.Job) {
		j.Spec.Produces = []kernel.Artifact{token}
		j.State = kernel.State{Status: kernel.Succeeded, Attempt: 1, Started: at.Add(-2 * time.Hour), Finished: at.Add(-time.Hour)}
	}), job("fails", func(j *kernel.Job) {
		running(1)(j)
		j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "fails"}}
	}), job("makes", func(j *kernel.Job) {
		j.Spec.After, j.Spec.Produces, j.State.Status = []kernel.JobID{"fails"}, []kernel.Artifact{token}, kernel.WaitingOnDeps
	}), job("uses", func(j *kernel.Job) {
		running(1)(j)
		j.Spec.Needs = []kernel.Artifact{token}
	}))
	again := func(what string, j *kernel.Job) {
		if st := &j.State; st.Generation != 1 || st.Deferred || st.Status != kernel.Running {
			t.Errorf("%s: %s in generation %d, its routes wait: %t", what, st.Status, st.Generation, st.Deferred)
		}
	}
	f, err := m.scheduler().Foresee(t.Context(), []foresight.Change{foresight.Fail{Job: "fails", Code: 1}})
	if err != nil {
		t.Fatal(err)
	}
	again("foreseen", f.Then.Job("fails"))
	_, err = m.scheduler().transact(t.Context(), kernel.Scope{Jobs: []kernel.JobID{"fails"}}, verb{decide: func(s *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		p, err := kernel.Finish(s, kernel.Result{Attempt: kernel.AttemptID{Job: "fails", N: 1}, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure})
		return p, nil, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	j := m.jobs["fails"]
	again("it is", &j)
}

// A failed commit is an error. A failure after it is only reported as late, since what is
// on record happens.
func TestATransactionThatFailsIsTold(t *testing.T) {
	for _, what := range []string{"begin", "load", "commit", "done", "close"} {
		m := newMemory(job("a", nil))
		m.refuse[what] = errDisk
		s := m.scheduler()
		rep, err := s.Tick(t.Context())
		if late := what == "done" || what == "close"; !errors.Is(errors.Join(err, rep.Late), errDisk) || late != (err == nil) {
			t.Errorf("%s: %v, late %v", what, err, rep.Late)
		}
	}
}

// A transaction wakes the resident once it succeeds, and the hooks in any case. It appends
// the events that it commits to the log.
func TestWhatATransactionTells(t *testing.T) {
	for _, fail := range []string{"", "load"} {
		m := newMemory(job("a", nil), job("b", func(j *kernel.Job) { j.Spec.Pinned = kernel.PinnedHead{Branch: "main", Commit: "c"} }))
		s, log := m.scheduler(), &shelf{}
		to := &listener{wants: kernel.JobRunning}
		s.Events, s.Hooks, s.Waker = log, hooksOf{to}, to
		if fail != "" {
			m.refuse[fail] = errDisk
		}
		_, err := s.Tick(t.Context())
		if (err != nil) != (fail != "") || to.hooks != 1 || (to.wakes == 1) != (err == nil) || (len(log.events) > 0) != (err == nil) {
			t.Errorf("%v: hooks called %d times, the waker %d, events %q", err, to.hooks, to.wakes, log.events)
		}
		if err != nil {
			continue
		}
		if once := slices.Compact(slices.Sorted(slices.Values(log.events))); len(once) != len(log.events) {
			t.Errorf("it is told more than once: %q", log.events)
		}
		announced := 0
		for _, a := range m.plans[0].Actions() {
			if e, ok := a.(kernel.Announce); ok && e.Event.Kind == kernel.JobRunning && e.Event.Job == "a" {
				announced++
			}
		}
		if announced != 1 {
			t.Errorf("announced %d times: %+v", announced, m.plans[0].Actions())
		}
	}
}

// A report names the jobs that it has started, and those whose status it has changed.
func TestWhatAReportHasStarted(t *testing.T) {
	launch := func(id kernel.JobID) kernel.Launch { return kernel.Launch{Attempt: kernel.AttemptID{Job: id, N: 1}} }
	rep := Report{
		Applied: []kernel.Action{launch("a"), kernel.PutState{Job: "d"}, launch("b"), launch("c")},
		Refused: map[kernel.JobID]string{"b": "no such program"},
		Decisions: []kernel.Decision{{Job: "a", From: kernel.Queued, Next: kernel.Running}, {Job: "d", From: kernel.Queued, Next: kernel.Queued},
			{Job: "e", From: kernel.Running, Next: kernel.Failed}},
	}
	if got := rep.Started(); !slices.Equal(got, []kernel.JobID{"a", "c"}) {
		t.Errorf("started are %q", got)
	}
	if got := rep.Updated(); !slices.Equal(got, []kernel.JobID{"a", "e"}) {
		t.Errorf("updated are %q", got)
	}
}

// A tick observes what open jobs read and no job makes, the branch that is checked out included, and has
// those judged again for whom it differs.
func TestWhatIsOutsideIsLookedAtOnce(t *testing.T) {
	h := &heads{map[string]kernel.CommitID{"x": "c1", "y": "c1", "main": "c1"}, map[string]int{}, 0}
	reader := func(key string) kernel.Near { return kernel.Near{Kind: kernel.Readers, Key: key} }
	tx := &transaction{s: &Scheduler{Observers: []Observer{h, onMain{}}}}
	first := kernel.Records{Reads: map[kernel.Near]kernel.ReadFact{reader("x"): {}, reader("y"): {}, reader(":head"): {}}, Elided: []string{"z"}}
	if news := tx.lookOutside(t.Context(), first); len(news) != 3 {
		t.Errorf("nothing is known of any, and news are %+v", news)
	}
	if !maps.Equal(h.asked, map[string]int{"x": 1, "y": 1, "main": 1}) || !slices.Equal(tx.outside.Elided, first.Elided) {
		t.Errorf("asked for %v, left out are %q", h.asked, tx.outside.Elided)
	}
	judged := tx.outside.JudgedBy(tx.outside.Facts)
	again := kernel.Records{Reads: map[kernel.Near]kernel.ReadFact{}}
	for n := range first.Reads {
		again.Reads[n] = kernel.ReadFact{Judged: judged[n]}
	}
	h.of["y"] = "c2"
	if news := tx.lookOutside(t.Context(), again); !slices.Equal(news, []kernel.Near{reader("y")}) {
		t.Errorf("y differs, and news are %+v", news)
	}
}

// onMain observes that main is checked out.
type onMain struct{}

func (onMain) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	if p.Head {
		f.Head = kernel.Seen("main")
	}
}

// Who tends a prompt knows which other files of the same name are prompts of other jobs.
func TestAPromptIsTendedBesideThoseOfOthers(t *testing.T) {
	prompt := func(file string, inode uint64, status kernel.Status) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.Spec.Prompt = &kernel.Prompt{File: file, Rel: "a.prompt.md", Inode: inode}
			j.State.Status, j.State.Prompt.Named = status, kernel.RunningPrompt
			if status.Terminal() {
				j.State.Finished = at
			}
		}
	}
	m := newMemory(job("a", prompt("/in/a.prompt.md", 1, kernel.Cancelled)), job("b", prompt("/in/a.prompt.md", 2, kernel.Running)),
		job("c", prompt("/in/other.prompt.md", 3, kernel.Running)), job("d", prompt("/in/a.prompt.md", 4, kernel.Running)))
	if _, err := m.scheduler().Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(m.calls, "tend a [2 4]") {
		t.Errorf("done was %q", m.calls)
	}
}

// An event of a run is announced beside the record of its last job that the plan changes.
func TestTheEventOfARunIsAnnounced(t *testing.T) {
	of := func(run kernel.RunID) func(*kernel.Job) { return func(j *kernel.Job) { j.Spec.Origin.Run = run } }
	m := newMemory(job("a", of("r")), job("b", of("r")), job("c", of("other")))
	s := m.scheduler()
	s.Hooks = hooksOf{&listener{wants: kernel.RunFailed}}
	if _, err := s.ask(t.Context(), history.Cancel{Jobs: []kernel.JobID{"a", "b"}, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	var got []kernel.Announce
	for _, p := range m.plans {
		for _, r := range p.Records {
			if a, ok := r.(kernel.Announce); ok {
				got = append(got, a)
			}
		}
	}
	if len(got) != 1 || got[0].Event.Run != "r" || got[0].Event.Kind != kernel.RunFailed || got[0].Beside != "b" {
		t.Errorf("announced is %+v", got)
	}
}

// listener is a waker and hooks that count their calls.
type listener struct {
	wants        kernel.EventKind
	wakes, hooks int
	last         kernel.Wakes
}

func (l *listener) Wake(w kernel.Wakes) { l.wakes, l.last = l.wakes+1, w }

type hooksOf struct{ l *listener }

func (h hooksOf) Wants(k kernel.EventKind) bool { return k == h.l.wants }
func (h hooksOf) Wake()                         { h.l.hooks++ }

// An ephemeral run is removed when it is over, unless somebody follows it.
func TestAnEphemeralRunGoesWhenItIsOver(t *testing.T) {
	for _, followed := range []bool{false, true} {
		m := newMemory(job("a", func(j *kernel.Job) {
			j.Spec.Origin.Run, j.Spec.Origin.Ephemeral, j.State.Status = "r", true, kernel.Failed
		}))
		if followed {
			m.refuse["followed"] = errDisk
		}
		if _, err := m.scheduler().Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := len(m.jobs); (left == 1) != followed {
			t.Errorf("followed %v: %d jobs are left", followed, left)
		}
	}
	for what, told := range map[error]string{errDisk: "disk on fire", kernel.ErrConflict: "", kernel.ErrNotFound: ""} { // others were faster
		m := newMemory(job("a", func(j *kernel.Job) {
			j.Spec.Origin.Run, j.Spec.Origin.Ephemeral, j.State.Status = "r", true, kernel.Failed
		}))
		m.refuse["drop states"] = what
		if rep, err := m.scheduler().Tick(t.Context()); err != nil || rep.Refused["a"] != told || len(m.jobs) != 1 {
			t.Errorf("%v: %v, told %q, %d jobs", what, err, rep.Refused, len(m.jobs))
		}
	}
}

func TestGCDropsWhatKilledProcessesWereWriting(t *testing.T) {
	m := newMemory(job("a", func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Failed, Finished: at.Add(-2 * time.Hour)} }))
	if _, err := m.scheduler().GC(t.Context(), time.Hour); err != nil || len(m.jobs) != 0 {
		t.Errorf("%v: %d jobs are left", err, len(m.jobs))
	}
	m.expectCalls(t, "commit", "done", "trim history", "drop temporary")
	m.refuse["begin"] = errDisk
	if _, err := m.scheduler().GC(t.Context(), time.Hour); !errors.Is(err, errDisk) || len(m.calls) != 4 {
		t.Errorf("%v: %q", err, m.calls)
	}
}

// A plan that is recorded but cannot be written out yet has happened. The error is reported
// as late, the plan's world actions are left to the next transaction, and its events are
// logged.
func TestAPlanThatIsRecordedHasHappened(t *testing.T) {
	for _, sandboxed := range []bool{false, true} {
		m := newMemory()
		s, log := m.scheduler(), &shelf{}
		s.Events, s.Sandboxed = log, sandboxed
		submit := func() (Report, error) {
			return s.Submit(t.Context(), []kernel.NewJob{{ID: "a", Spec: job("a", nil).Spec}}, "ann")
		}
		m.refuse["commit"] = errDisk
		if rep, err := submit(); !errors.Is(err, errDisk) || rep.Late != nil || len(log.events) > 0 {
			t.Errorf("sandboxed %v: %v, late %v, events %q", sandboxed, err, rep.Late, log.events)
		}
		m.refuse["commit"] = fmt.Errorf("apply: %w", kernel.ErrRecorded)
		rep, err := submit()
		if err != nil || !errors.Is(rep.Late, kernel.ErrRecorded) || len(log.events) == 0 || rep.Snapshot.Job("a") == nil {
			t.Errorf("sandboxed %v: %v, late %v, events %q", sandboxed, err, rep.Late, log.events)
		}
		m.expectCalls(t, "commit", "commit")
	}
}

// completing is a store whose transactions begin with completing what another process committed.
type completing struct{ *memory }

func (c completing) Begin(context.Context) (Tx, error) { return c, nil }
func (completing) Completed() bool                     { return true }

// Whoever finds something that was cut off, and does not tick after that, or cannot complete what is on record, wakes a
// resident scheduler: nobody else may know what is to be watched.
func TestWhatWasCutOffIsLookedAfter(t *testing.T) {
	cancel := func(s *Scheduler) error {
		_, err := s.Cancel(t.Context(), "gone", "ann", false)
		return err
	}
	for name, c := range map[string]struct {
		change func(*memory, *Scheduler)
		do     func(*Scheduler) error
		failed error
		want   bool
	}{
		"nothing was": {func(*memory, *Scheduler) {}, cancel, kernel.ErrNotFound, false},
		"actions were": {func(m *memory, _ *Scheduler) {
			m.left = []kernel.WorldAction{kernel.ClearSentinel{Job: "b", Slug: "plan"}}
		}, cancel, kernel.ErrNotFound, true},
		"records were":     {func(m *memory, s *Scheduler) { s.Store = completing{m} }, cancel, kernel.ErrNotFound, true},
		"its own plan was": {func(m *memory, _ *Scheduler) { m.refuse["done"] = errDisk }, func(s *Scheduler) error { _, err := s.Tick(t.Context()); return err }, nil, true},
	} {
		m := newMemory(job("a", nil), job("b", running(1)))
		s, to := m.scheduler(), &listener{}
		s.Waker = to
		c.change(m, s)
		if err := c.do(s); !errors.Is(err, c.failed) {
			t.Errorf("%s: %v", name, err)
		}
		if (to.wakes == 1) != c.want || to.last.Poll != c.want {
			t.Errorf("%s: woken %d times, with %+v", name, to.wakes, to.last)
		}
	}
}

// filling is a store whose commits fail once a worktree has been removed.
type filling struct{ *memory }

func (f filling) RemoveWorktree(ctx context.Context, c kernel.Context) kernel.Cleanup {
	f.refuse["commit"] = errDisk
	return f.memory.RemoveWorktree(ctx, c)
}

// A verb has happened once it is committed, even if the answers of the world cannot be
// recorded.
func TestWhatIsCommittedHasHappened(t *testing.T) {
	m := newMemory(job("a", func(j *kernel.Job) {
		j.Spec.OwnsContext = true
		j.State = kernel.State{Status: kernel.Failed, Outcome: kernel.OutcomeFailed, Attempt: 1,
			Context: kernel.Context{Root: "w", Worktree: "w", Name: "w", Owned: true}}
	}))
	s := m.scheduler()
	s.Worktrees = filling{m}
	rep, err := s.Retry(t.Context(), "ann", "a")
	if err != nil || !errors.Is(rep.Late, kernel.ErrRecorded) || !errors.Is(rep.Late, errDisk) {
		t.Errorf("%v, late %v", err, rep.Late)
	}
	if j := m.jobs["a"]; j.State.Generation != 1 || !reflect.DeepEqual(rep.Snapshot.Job("a").State, j.State) {
		t.Errorf("on record is %+v, told %+v", j.State, rep.Snapshot.Job("a").State)
	}
}

// The processes of a lost attempt are ended before its end is recorded. So are those of an
// attempt whose time limit is long over; if they cannot be ended, the attempt goes on.
func TestWhatIsLostIsEndedBeforeItIsSettled(t *testing.T) {
	m := newMemory(job("a", running(1)))
	m.alive = kernel.Dead
	rep, err := m.scheduler().Tick(t.Context())
	if err != nil || !has[kernel.Sweep](kernel.NewPlan(rep.Applied...)) {
		t.Fatalf("%v, %+v", err, rep.Applied)
	}
	m.expectCalls(t, "sweep a/1", "commit", "done")

	late := func(j *kernel.Job) {
		running(1)(j)
		j.Spec.Task.Timeout, j.State.Started = time.Second, at.Add(-time.Hour)
	}
	for _, c := range []struct {
		refuse error
		want   []string
		status kernel.Status
	}{
		{nil, []string{"enforce a/1", "commit", "done"}, kernel.Failed},
		{errDisk, []string{"enforce a/1"}, kernel.Running},
	} {
		m := newMemory(job("a", late))
		m.alive, m.refuse["enforce a/1"] = kernel.Alive, c.refuse
		rep, err := m.scheduler().Tick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.expectCalls(t, c.want...)
		if st := m.jobs["a"].State; st.Status != c.status || (rep.Refused["a"] != "") != (c.refuse != nil) {
			t.Errorf("%+v, refused %v", st, rep.Refused)
		}
	}
}

// accounting is a store that keeps the accounts of its commits.
type accounting struct {
	*memory
	accounts []history.Account
}

func (m *accounting) Begin(ctx context.Context) (Tx, error) {
	_, err := m.memory.Begin(ctx)
	return m, err
}

func (m *accounting) Explain(a history.Account) { m.accounts = append(m.accounts, a) }

// Facts that were observed for a verb that decided nothing are on record with the decision
// that they lead to later.
func TestWhatIsSeenIsOnRecordWithTheDecision(t *testing.T) {
	m := &accounting{memory: newMemory(job("a", running(1)))}
	m.alive = kernel.Dead
	s := m.scheduler()
	s.Store = m
	nothing := verb{decide: func(*kernel.Snapshot) (kernel.Plan, []history.Verb, error) { return kernel.Plan{}, nil, nil }}
	if _, err := s.transact(t.Context(), kernel.Scope{All: true}, nothing); err != nil {
		t.Fatal(err)
	}
	a := kernel.AttemptID{Job: "a", N: 1}
	if st := m.jobs["a"].State; st.Failure != kernel.WorkerLost || len(m.accounts) != 1 {
		t.Fatalf("%+v, %d accounts", st, len(m.accounts))
	}
	if seen := m.accounts[0].Steps[0].Seen; seen != history.SeenAll {
		t.Errorf("seen are %v", seen)
	}
	f := m.accounts[0].Steps[0].Facts
	if _, seen := f.Results[a]; !seen || f.Runners[a].Value.Liveness != kernel.Dead {
		t.Errorf("on record is %+v", f)
	}
}

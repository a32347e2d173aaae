package proptest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

func wideName(n int) kernel.JobID { return kernel.JobID(fmt.Sprintf("j%02d", n)) }

// wideWorld draws jobs and one, j99, that runs after all of them. It names them in
// some order.
func wideWorld(t *rapid.T) *kernel.Snapshot {
	var jobs []kernel.Job
	var after, any []kernel.JobID
	for n := range rapid.IntRange(33, 36).Draw(t, "jobs") {
		j := kernel.Job{ID: wideName(n), Created: Epoch.Add(time.Duration(n) * time.Second), Rev: 1, State: kernel.State{Status: kernel.Queued},
			Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Budget: kernel.Budget{Retries: rapid.IntRange(0, 1).Draw(t, "retries")}}}
		if n > 0 && oneIn(t, 5, "after another") {
			j.Spec.After = []kernel.JobID{wideName(rapid.IntRange(0, n-1).Draw(t, "which"))}
		}
		if after = append(after, j.ID); oneIn(t, 8, "however it ends") {
			any = append(any, j.ID)
		}
		jobs = append(jobs, j)
	}
	if oneIn(t, 2, "in another order") {
		after = rapid.Permutation(after).Draw(t, "order")
	}
	jobs = append(jobs, kernel.Job{ID: "j99", Created: Epoch.Add(time.Hour / 2), Rev: 1, State: kernel.State{Status: kernel.Queued},
		Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, After: after, AfterAny: any}})
	s := kernel.NewSnapshot(kernel.Observation{Now: Epoch.Add(time.Hour), Limits: kernel.Limits{MaxRunning: oneOf(t, "slots", 0, 1, 4)}, Jobs: jobs})
	return s.Apply(kernel.Decide(s))
}

// A job after many others waits, is blocked and starts as any other job would. Its reason names the
// last open job before the first failed one. A tick on the jobs near to a change, and a tick on a
// tracked snapshot, decide the same.
func TestAJobAfterManyOthers(t *testing.T) {
	looked, ran, blocked := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := wideWorld(t)
		tracked := s.Tracked()
		for range rapid.IntRange(1, 80).Draw(t, "changes") {
			judged := make([]kernel.Job, 0, len(s.Jobs()))
			for _, j := range s.Jobs() {
				judged = append(judged, *j)
			}
			p, err := wideChange(t, s)
			if err != nil {
				continue
			}
			looked += nearIn(t, judged, s, s.Facts(), p)
			s, tracked = s.Apply(p), tracked.Apply(p)
			p, q := kernel.Decide(s), kernel.Decide(tracked)
			if !samePlan(p, q) {
				t.Fatalf("of all:\n%+v\n%+v\ntracked:\n%+v\n%+v", p.Decisions, p.Actions(), q.Decisions, q.Actions())
			}
			s, tracked = s.Apply(p), tracked.Apply(q)
			wideRule(t, s)
			explainedNear(t, s, "j99")
		}
		switch st := s.Job("j99").State.Status; {
		case st == kernel.BlockedByDependency:
			blocked++
		case st.Active() && st != kernel.WaitingOnDeps, st == kernel.Succeeded:
			ran++
		}
	})
	t.Logf("ticks looked at %d jobs; the last job came to run in %d, was blocked in %d", looked, ran, blocked)
	if looked == 0 || blocked == 0 {
		t.Error("it tested nothing")
	}
}

// The same for a job that needs the tokens of many others, which may end without making theirs, or
// make one that another makes too.
func TestAJobThatNeedsManyTokens(t *testing.T) {
	looked, ran, named := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := tokenWorld(t)
		tracked := s.Tracked()
		for range rapid.IntRange(1, 80).Draw(t, "changes") {
			judged := make([]kernel.Job, 0, len(s.Jobs()))
			for _, j := range s.Jobs() {
				judged = append(judged, *j)
			}
			p, err := wideChange(t, s)
			if err != nil {
				continue
			}
			if !slices.ContainsFunc(p.Actions(), func(a kernel.Action) bool { _, is := a.(kernel.Reset); return is }) {
				looked += nearIn(t, judged, s, s.Facts(), p) // a tick after a retry needs every job
			}
			s, tracked = s.Apply(p), tracked.Apply(p)
			p, q := kernel.Decide(s), kernel.Decide(tracked)
			if !samePlan(p, q) {
				t.Fatalf("of all:\n%+v\n%+v\ntracked:\n%+v\n%+v", p.Decisions, p.Actions(), q.Decisions, q.Actions())
			}
			s, tracked = s.Apply(p), tracked.Apply(q)
			named += tokenRule(t, s)
		}
		if st := s.Job("j99").State.Status; st.Active() && st != kernel.WaitingOnDeps || st == kernel.Succeeded {
			ran++
		}
	})
	t.Logf("ticks looked at %d jobs; the last job came to run in %d, %d times it did not name the first", looked, ran, named)
	if looked == 0 || named == 0 {
		t.Error("it tested nothing")
	}
}

// tokenWorld draws jobs that make a token each and one, j99, that needs all of these in some order.
func tokenWorld(t *rapid.T) *kernel.Snapshot {
	var jobs []kernel.Job
	var needs []kernel.Artifact
	facts := kernel.NewFacts()
	run := oneOf[kernel.RunID](t, "run", "", "r1")
	for n := range rapid.IntRange(33, 36).Draw(t, "jobs") {
		made := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: string(wideName(n))}
		facts.Markers[made] = kernel.Seen[[]kernel.JobID](nil)
		j := kernel.Job{ID: wideName(n), Created: Epoch.Add(time.Duration(n) * time.Second), Rev: 1, State: kernel.State{Status: kernel.Queued},
			Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Produces: []kernel.Artifact{made}}}
		j.Spec.Origin.Run = run
		if n > 0 && oneIn(t, 8, "makes another's as well") {
			j.Spec.Produces = append(j.Spec.Produces, oneOf(t, "which", needs...))
		}
		needs, jobs = append(needs, made), append(jobs, j)
	}
	if oneIn(t, 2, "in another order") {
		needs = rapid.Permutation(needs).Draw(t, "order")
	}
	last := kernel.Job{ID: "j99", Created: Epoch.Add(time.Hour / 2), Rev: 1, State: kernel.State{Status: kernel.Queued},
		Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Needs: needs, MissingProducer: oneOf(t, "policy", kernel.Block, kernel.Wait)}}
	last.Spec.Origin.Run = run
	s := kernel.NewSnapshot(kernel.Observation{Now: Epoch.Add(time.Hour), Limits: kernel.Limits{MaxRunning: oneOf(t, "slots", 0, 1, 4)}, Jobs: append(jobs, last), Facts: facts})
	return s.Apply(kernel.Decide(s))
}

// tokenRule checks, by the list of unmet conditions, that the reason of j99 names the last token that is
// being made before the first one that is not. It returns 1 if that is not the first unmet condition.
func tokenRule(t *rapid.T, s *kernel.Snapshot) int {
	j := s.Job("j99")
	if j.State.Status != kernel.WaitingOnDeps {
		return 0
	}
	e, err := kernel.Explain(s, "j99")
	if err != nil {
		t.Fatal(err)
	}
	want := e.Unmet[0].Detail
	for _, u := range e.Unmet {
		if !strings.HasPrefix(u.Detail, "waiting on custom:") {
			break
		}
		want = u.Detail
	}
	if got := j.State.Wait.Detail; got != want {
		t.Fatalf("%q, want %q of %+v", got, want, e.Unmet)
	}
	if want != e.Unmet[0].Detail {
		return 1
	}
	return 0
}

// wideChange draws what happens to one of the jobs.
func wideChange(t *rapid.T, s *kernel.Snapshot) (kernel.Plan, error) {
	of := func(is func(*kernel.Job) bool) []*kernel.Job {
		return slices.DeleteFunc(slices.Clone(s.Jobs()), func(j *kernel.Job) bool { return !is(j) })
	}
	running := of(func(j *kernel.Job) bool { return j.State.Status == kernel.Running })
	if len(running) > 0 && !oneIn(t, 12, "something else") {
		j := running[rapid.IntRange(0, len(running)-1).Draw(t, "running")]
		r := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded}
		if len(j.Spec.Produces) > 0 && !oneIn(t, 25, "without what it was to make") {
			r.Produced = j.Spec.Produces[:rapid.IntRange(1, len(j.Spec.Produces)).Draw(t, "made")]
		}
		if oneIn(t, 40, "fails") {
			r.Outcome, r.Exit, r.Class = kernel.OutcomeFailed, kernel.Exited(1).Code, kernel.ExitFailure
		}
		return kernel.Finish(s, r)
	}
	j := s.Jobs()[rapid.IntRange(0, len(s.Jobs())-1).Draw(t, "job")]
	if j.State.Status.Terminal() {
		return kernel.Retry(s, j.ID, "ann")
	}
	return kernel.Cancel(s, j.ID, "ann", false)
}

// wideRule checks what j99 waits for, or is blocked by, in the simplest way.
func wideRule(t *rapid.T, s *kernel.Snapshot) {
	j := s.Job("j99")
	want := ""
	for _, id := range j.Spec.After {
		st := s.Job(id).State.Status
		if st == kernel.Succeeded || st.Terminal() && slices.Contains(j.Spec.AfterAny, id) {
			continue
		}
		if st.Terminal() {
			if want == "" {
				want = "dependency failed for job " + string(id)
			}
			break
		}
		want = "waiting on job " + string(id)
	}
	switch st := j.State.Status; {
	case st == kernel.Cancelled:
	case want == "":
		if st == kernel.WaitingOnDeps || st == kernel.BlockedByDependency {
			t.Fatalf("all its predecessors succeeded, and it is %s: %s", st, j.State.Wait.Detail)
		}
	case st == kernel.Running, st == kernel.Succeeded, st == kernel.WaitingOnLocks: // its predecessors may have changed since
	case !strings.HasPrefix(j.State.Wait.Detail, want) && st != kernel.BlockedByDependency:
		t.Fatalf("%s: %s, want %s", st, j.State.Wait.Detail, want)
	}
}

// The record of a job after many others is as long as the list of these. So it is written seldom: a
// few times, in whatever order they end, and not for each of them.
func TestAJobAfterManyOthersIsWrittenSeldom(t *testing.T) {
	const n = 400
	for _, order := range []string{"in order", "shuffled"} {
		var jobs []kernel.Job
		var after []kernel.JobID
		for i := range n {
			id := kernel.JobID(fmt.Sprintf("j%03d", i))
			after = append(after, id)
			jobs = append(jobs, kernel.Job{ID: id, Created: Epoch.Add(time.Duration(i) * time.Second), Rev: 1, State: kernel.State{Status: kernel.Queued}, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}})
		}
		if order == "shuffled" {
			rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(a, b int) { after[a], after[b] = after[b], after[a] })
		}
		jobs = append(jobs, kernel.Job{ID: "last", Created: Epoch.Add(time.Hour), Rev: 1, State: kernel.State{Status: kernel.Queued},
			Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, After: after}})
		s := kernel.NewSnapshot(kernel.Observation{Now: Epoch.Add(2 * time.Hour), Limits: kernel.Limits{MaxRunning: 2}, Jobs: jobs})
		s = s.Apply(kernel.Decide(s)).Tracked()
		written := 0
		for i := range n {
			p, err := kernel.Finish(s, kernel.Result{Attempt: kernel.AttemptID{Job: jobs[i].ID, N: 1}, Outcome: kernel.OutcomeSucceeded})
			if err != nil {
				t.Fatal(err)
			}
			s = s.Apply(p)
			p = kernel.Decide(s)
			for _, a := range p.Records {
				if put, ok := a.(kernel.PutState); ok && put.Job == "last" {
					written++
				}
			}
			s = s.Apply(p)
		}
		if st := s.Job("last").State.Status; st != kernel.Running || written == 0 || written > 20 {
			t.Errorf("%s: %s, written %d times", order, st, written)
		}
	}
}

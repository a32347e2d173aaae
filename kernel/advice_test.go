package kernel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What an explanation names is the least that helps, in an order in which each step works: somebody who follows
// it, while everything else ends well, has the job run.
func TestAdviceHelps(t *testing.T) {
	asks := func(j *kernel.Job) { j.State.Approval = kernel.Require(t0, "bob") }
	anyEnd := func(id kernel.JobID) option {
		return func(j *kernel.Job) { j.Spec.After, j.Spec.AfterAny = []kernel.JobID{id}, []kernel.JobID{id} }
	}
	anyEndOf := func(ids ...kernel.JobID) option {
		return func(j *kernel.Job) { j.Spec.After, j.Spec.AfterAny = ids, ids }
	}
	rejected := func(j *kernel.Job) {
		asks(j)
		j.State.Status, j.State.Approval.State, j.State.Outcome = kernel.BlockedByApproval, kernel.Rejected, kernel.OutcomeBlocked
	}
	failed, cancelled := is(kernel.Failed), is(kernel.Cancelled)
	chain := []kernel.Job{job("a", rejected)}
	for n := range 40 {
		chain = append(chain, job(kernel.JobID(fmt.Sprintf("b%02d", n)), after(chain[n].ID)))
	}
	const token = "custom:t:a"
	for name, c := range map[string]struct {
		jobs []kernel.Job // the last is explained
		want string
	}{
		"a retry that includes another":            {[]kernel.Job{job("a", produces(token), failed), job("b", anyEnd("a"), failed), job("c", after("b"), needs(token))}, "retry a"},
		"two that have nothing to do with another": {[]kernel.Job{job("a", failed), job("b", failed), job("c", anyEnd("b"), failed), job("d", after("a", "c"))}, "retry a, retry c"},
		"two of three":                                     {[]kernel.Job{job("a", failed), job("b", anyEnd("a"), failed), job("c", failed), job("d", after("b", "c", "a"))}, "retry c, retry a"},
		"a retry before an approval":                       {[]kernel.Job{job("a", produces(token), failed), job("b", anyEnd("a"), asks), job("c", after("b"), needs(token))}, "retry a, approve b"},
		"an approval that no retry asks for":               {[]kernel.Job{job("a", asks), job("b", failed), job("c", after("a", "b"))}, "retry b, approve a"},
		"an approval that starts what a retry takes along": {[]kernel.Job{job("a", asks), job("b", failed), job("d", anyEnd("b"), func(j *kernel.Job) { j.Spec.After = append(j.Spec.After, "a") }), job("c", after("a", "b"))}, "retry b, approve a"},
		"cancelled behind somebody's approval":             {[]kernel.Job{job("a", asks), job("b", after("a"), cancelled)}, "retry b, approve a"},
		"what it lacks, a retry and an approval":           {[]kernel.Job{job("a", asks), job("b", failed), job("c", after("a", "b"), needs(token))}, "produce custom:t:a, retry b, approve a"},
		"cancelled without what it needs":                  {[]kernel.Job{job("b", needs(token), cancelled)}, "produce custom:t:a, retry b"},
		"failed, and its pinned branch has moved":          {[]kernel.Job{job("a", failed, pinned("main", "c9")), job("b", after("a"))}, "move_branch main, retry a"},
		"what it lacks before a retry":                     {[]kernel.Job{job("a", failed), job("b", anyEnd("a"), needs(token)), job("c", after("a", "b"))}, "produce custom:t:a, retry a"},
		"a retry that takes a running one along":           {[]kernel.Job{job("a", failed), job("b", anyEnd("a"), is(kernel.Running)), job("c", after("a"))}, "await_end b, retry a"},
		"one that runs far behind it":                      {[]kernel.Job{job("a", produces(token), failed), job("b", anyEnd("a"), is(kernel.Succeeded)), job("d", after("b"), is(kernel.Running)), job("c", after("a"))}, "await_end d, retry a"},
		"one that runs with what it made before":           {[]kernel.Job{job("a", produces(token), failed), job("b", needs(token), is(kernel.Running)), job("c", after("a"))}, "await_end b, retry a"},
		"beside one that runs":                             {[]kernel.Job{job("a", failed), job("b", is(kernel.Running)), job("c", after("a"))}, "retry a"},
		"cancelled behind a transient one":                 {[]kernel.Job{job("a", failed), job("b", after("a"), transient(kernel.OnDemand), is(kernel.Unscheduled)), job("c", after("b"), cancelled)}, "retry a"},
		"far behind one that was rejected":                 {chain, "retry a, approve a"},
		"rejected behind one that failed":                  {[]kernel.Job{job("a", failed), job("b", after("a"), rejected)}, "retry a, approve b"},
		"cancelled behind one that is gone":                {[]kernel.Job{job("b", after("a"), asks, cancelled)}, "submit_again b"},
		"an approval behind a blocked one behind that":     {[]kernel.Job{job("b", after("a")), job("c", after("b"), asks)}, "submit_again b"},
		"behind a cancelled one behind that":               {[]kernel.Job{job("b", after("a"), cancelled), job("c", after("b"))}, "submit_again b"},
		"a producer that waits for the consumer":           {[]kernel.Job{job("b", after("c"), produces(token), is(kernel.BlockedByDependency)), job("c", needs(token), is(kernel.BlockedByDependency))}, "produce custom:t:a, retry c"},
		"what runs after such a consumer":                  {[]kernel.Job{job("a", needs(token), is(kernel.BlockedByDependency)), job("b", after("a"), produces(token), is(kernel.BlockedByDependency))}, "produce custom:t:a, retry a"},
		"an approval that a retry takes back":              {[]kernel.Job{job("a", cancelled), job("s", is(kernel.Running)), granted(job("b", anyEndOf("a", "s"))), job("c", after("a", "b"))}, "retry a, approve b"},
		"its own approval, which a retry takes back":       {[]kernel.Job{job("a", cancelled), job("s", is(kernel.Running)), granted(job("c", anyEndOf("s", "a"), func(j *kernel.Job) { j.Spec.AfterAny = j.Spec.AfterAny[:1] }))}, "retry a, approve c"},
		"a transient one that was cancelled":               {[]kernel.Job{job("a", transient(kernel.OnDemand), asks, cancelled), job("b", after("a"))}, "retry a, approve a"},
		"rejected behind a transient one":                  {[]kernel.Job{job("a", produces(token), rejected), job("b", needs(token), transient(kernel.OnDemand), is(kernel.Unscheduled)), job("c", after("b"))}, "retry a, approve a"},
		"an approval of what made nothing":                 {[]kernel.Job{granted(job("a", produces(token), is(kernel.Succeeded))), job("c", needs(token))}, "retry a, approve a"},
		"what only a failure makes":                        {[]kernel.Job{job("a", produces(token), producesOn(kernel.OutcomeFailed, token), is(kernel.Succeeded)), job("c", needs(token))}, "produce custom:t:a, retry c"},
		"behind one that a cancelled one waits for": {[]kernel.Job{job("a", failed), job("s", is(kernel.Running)), job("b", anyEndOf("s", "a"), func(j *kernel.Job) { j.Spec.AfterAny = j.Spec.AfterAny[:1] }),
			job("c", after("b"), cancelled), job("d", after("c"))}, "retry a"},
	} {
		f := facts()
		f.Markers[artifact(token)] = kernel.Seen[[]kernel.JobID](nil)
		s := snapshot(f, c.jobs...)
		s = s.Apply(kernel.Decide(s))
		id := c.jobs[len(c.jobs)-1].ID
		e, err := kernel.Explain(s, id)
		if err != nil {
			t.Fatal(err)
		}
		var does []string
		for _, r := range e.Actions {
			what := string(r.Job)
			switch r.Kind {
			case kernel.ProduceArtifact:
				what = r.Artifact.String()
			case kernel.MoveBranch:
				what = r.Pinned.Branch
			default:
			}
			does = append(does, r.Kind.String()+" "+what)
		}
		if got := strings.Join(does, ", "); got != c.want || e.Outlook != kernel.AwaitsActions {
			t.Errorf("%s: %s: %s, want %s", name, e.Outlook, got, c.want)
			continue
		}
		if e.Actions[0].Kind == kernel.SubmitAgain {
			continue
		}
		var retries []kernel.JobID
		for n, r := range e.Actions {
			if r.Kind == kernel.RetryJob {
				if retries = append(retries, r.Job); n+1 < len(e.Actions) && e.Actions[n+1].Kind == kernel.RetryJob {
					continue // together
				}
			}
			var p kernel.Plan
			switch r.Kind {
			case kernel.MoveBranch:
				f.Heads[r.Pinned.Branch] = kernel.Seen(r.Pinned.Commit)
				s = kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Jobs: values(s.Jobs()), Facts: f})
			case kernel.RetryJob:
				_, p, err = kernel.RetryAll(s, retries, "ann")
			case kernel.AwaitEnd:
				p, err = kernel.Finish(s, kernel.Result{Attempt: s.Job(r.Job).Attempt(), Outcome: kernel.OutcomeSucceeded})
			case kernel.ApproveJob:
				p, err = kernel.Approve(s, r.Job, kernel.Consent{By: "ann"})
			default:
				p, err = kernel.Enqueue(s, []kernel.NewJob{{ID: kernel.JobID(fmt.Sprintf("x%d", n)), Spec: kernel.Spec{Produces: []kernel.Artifact{r.Artifact}, Task: kernel.Task{Args: []string{"true"}}}}})
			}
			if err != nil {
				t.Errorf("%s: %s: %v", name, does[n], err)
			}
			s = allEnds(t, s.Apply(p))
		}
		if st := s.Job(id).State; st.Status != kernel.Succeeded {
			t.Errorf("%s: after %s it is %s: %s", name, c.want, st.Status, st.Wait.Detail)
		}
	}
}

func values(jobs []*kernel.Job) (out []kernel.Job) {
	for _, j := range jobs {
		out = append(out, *j)
	}
	return out
}

// allEnds returns s after every job that could start has succeeded.
func allEnds(t *testing.T, s *kernel.Snapshot) *kernel.Snapshot {
	t.Helper()
	for running := true; running; {
		s, running = s.Apply(kernel.Decide(s)), false
		for _, j := range s.Jobs() {
			if j.State.Status != kernel.Running {
				continue
			}
			p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Produced: j.Spec.Produces})
			if err != nil {
				t.Fatal(err)
			}
			s, running = s.Apply(p), true
		}
	}
	return s
}

// A job that waits for an artifact waits for the producer that may make it by itself, else for one that sleeps, and
// not for one that failed.
func TestWhichProducerIsWaitedFor(t *testing.T) {
	const token = "custom:t:a"
	dead, asleep, open := job("a", produces(token), is(kernel.Failed)), job("b", produces(token), routed, is(kernel.Unscheduled)), job("c", produces(token), running(1))
	for want, jobs := range map[string][]kernel.Job{
		"b sleeps": {dead, asleep, job("d", needs(token))},
		"c starts": {dead, asleep, open, job("d", needs(token))},
	} {
		f := facts()
		f.Markers[artifact(token)] = kernel.Seen[[]kernel.JobID](nil)
		e, err := kernel.Explain(snapshot(f, jobs...), "d")
		if err != nil || len(e.Unmet) != 1 {
			t.Fatal(e, err)
		}
		if got := string(e.Unmet[0].Job) + " " + e.Outlook.String(); got != want || len(e.Actions) > 0 {
			t.Errorf("%s, want %s: %+v", got, want, e.Actions)
		}
	}
}

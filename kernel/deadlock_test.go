package kernel_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A retry that would make jobs wait for each other is refused and names what is lacking, unless the artifact
// is there or somebody else makes it. Before it was observed nothing is known, so nothing is refused.
func TestARetryMakesNoDeadlock(t *testing.T) {
	const c = "custom:t:c"
	ended := []kernel.Job{job("a", needs(c), is(kernel.Succeeded)), job("b", after("a"), produces(c), is(kernel.Succeeded))}
	for name, x := range map[string]struct {
		f       kernel.Facts
		more    []kernel.Job
		refused bool
	}{
		"only b made it":           {f: marked(facts(), c, "b"), refused: true},
		"nobody made it":           {f: marked(facts(), c), refused: true},
		"another one made it":      {f: marked(facts(), c, "b", "p")},
		"another one makes it":     {f: marked(facts(), c, "b"), more: []kernel.Job{job("o", produces(c), running(1))}},
		"another one failed":       {f: marked(facts(), c, "b"), more: []kernel.Job{job("o", produces(c), is(kernel.Failed))}, refused: true},
		"another one waits for it": {f: marked(facts(), c, "b"), more: []kernel.Job{job("o", produces(c), after("b"))}, refused: true},
		"it was not observed":      {f: facts()},
	} {
		p, err := kernel.Retry(snapshot(x.f, append(slices.Clone(ended), x.more...)...), "a", "ann")
		if !x.refused {
			if err != nil || p.Empty() {
				t.Errorf("%s: %v", name, err)
			}
		} else if !errors.Is(err, kernel.ErrConflict) || !strings.Contains(err.Error(), "a -> b -> a (a needs custom:t:c of b)") ||
			!strings.HasSuffix(err.Error(), "enqueue another job that makes custom:t:c first") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A retry of what is beside jobs that wait for each other already is not refused.
func TestARetryBesideADeadlock(t *testing.T) {
	const c = "custom:t:c"
	s := snapshot(marked(facts(), c), job("a", needs(c), after("x"), is(kernel.WaitingOnDeps)), job("b", after("a"), produces(c), is(kernel.WaitingOnDeps)), job("x", is(kernel.Failed)))
	if _, err := kernel.Retry(s, "x", "ann"); err != nil {
		t.Error(err)
	}
}

// A new job may need what an older one is about to make, though one that waits for it makes it, too.
func TestOneProducerIsEnough(t *testing.T) {
	const c = "custom:t:c"
	with := func(first kernel.Job) *kernel.Snapshot {
		return snapshot(marked(facts(), c), first, job("b", needs(c), is(kernel.WaitingOnDeps)))
	}
	if _, err := kernel.Enqueue(with(job("a", produces(c), running(1))), []kernel.NewJob{fresh("n", after("b"), produces(c))}); err != nil {
		t.Error(err)
	}
	if _, err := kernel.Enqueue(with(job("a", produces(c), is(kernel.Failed))), []kernel.NewJob{fresh("n", after("b"), produces(c))}); !errors.Is(err, kernel.ErrInvalid) {
		t.Error(err)
	}
}

// A consumer that waits for a producer again is not opened by a new one that waits for the consumer.
func TestAProducerBehindItsConsumerOpensNothing(t *testing.T) {
	const c = "custom:t:c"
	s := snapshot(marked(facts(), c), job("d", produces(c), is(kernel.Failed)), job("e", needs(c), policy(kernel.Wait)))
	s = s.Apply(kernel.Decide(s))
	for opened, news := range map[bool]kernel.NewJob{false: fresh("n", after("e"), produces(c)), true: fresh("n", produces(c))} {
		p, err := kernel.Enqueue(s, []kernel.NewJob{news})
		if err != nil {
			t.Fatal(err)
		}
		if st := s.Apply(p).Job("e").State.Status; (st != kernel.BlockedByDependency) != opened {
			t.Errorf("e is %s, opened: %t", st, opened)
		}
	}
}

// Jobs that wait for each other since another producer ended say what would free them, each of them, and
// Cycles tells them from a schedule that was edited by hand. A job that only waits for them is in no cycle.
func TestADeadlockIsExplained(t *testing.T) {
	const c = "custom:t:c"
	s := snapshot(marked(facts(), c), job("a", needs(c), is(kernel.WaitingOnDeps)), job("b", after("a"), produces(c), is(kernel.WaitingOnDeps)), job("z", after("b"), is(kernel.WaitingOnDeps)))
	for _, id := range []kernel.JobID{"a", "b", "z"} {
		e, err := kernel.Explain(s, id)
		if err != nil {
			t.Fatal(err)
		}
		if want := []kernel.Remedy{{Kind: kernel.ProduceArtifact, Artifact: artifact(c)}}; !slices.Equal(e.Actions, want) {
			t.Errorf("%s: %+v", id, e.Actions)
		}
		if id == "a" && (len(e.Unmet) != 1 || !strings.HasPrefix(e.Unmet[0].Clears, "another job that produces it: ") || !strings.Contains(e.Unmet[0].Clears, "b, waiting_on_deps, waits for this one")) {
			t.Errorf("%+v", e.Unmet)
		}
	}
	cycles := s.Cycles()
	if len(cycles) != 1 || !slices.Equal(cycles[0].Lacks, artifacts(c)) || !slices.Equal(cycles[0].Jobs, []kernel.JobID{"a", "b", "a"}) {
		t.Errorf("%+v", cycles)
	}
	edited := snapshot(facts(), job("a", after("b")), job("b", after("a")))
	if cycles := edited.Cycles(); len(cycles) != 1 || cycles[0].Lacks != nil {
		t.Errorf("%+v", cycles)
	}
}

// A retry of jobs that wait for each other already, or only for such jobs, is of no use, and refused.
func TestARetryInADeadlock(t *testing.T) {
	const c = "custom:t:c"
	s := snapshot(marked(facts(), c), job("a", needs(c), is(kernel.WaitingOnDeps)), job("b", after("a"), produces(c), is(kernel.WaitingOnDeps)), job("z", after("b"), is(kernel.WaitingOnDeps)))
	for _, id := range []kernel.JobID{"a", "b", "z"} {
		_, err := kernel.Retry(s, id, "ann")
		var d *kernel.DeadlockError
		if !errors.As(err, &d) || d.Of != id || !errors.Is(err, kernel.ErrConflict) || d.Cycle.Frees != (kernel.Remedy{Kind: kernel.ProduceArtifact, Artifact: artifact(c)}) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// What has succeeded took its artifact from a job that is no longer on record, not from one behind it: a retry
// of that one leaves it alone.
func TestARetryOfWhatIsBehindItsConsumer(t *testing.T) {
	const c, d = "custom:t:c", "custom:t:d"
	ran := func(st kernel.Status, at int) option {
		return func(j *kernel.Job) {
			j.State.Status, j.State.Started, j.State.Finished = st, t0.Add(time.Duration(at)*time.Minute), t0.Add(time.Duration(at+1)*time.Minute)
		}
	}
	a := job("a", needs(c), produces(d), ran(kernel.Succeeded, 1))
	for name, b := range map[string]kernel.Job{
		"after it":             job("b", after("a"), produces(c), ran(kernel.Failed, 5)),
		"after it, long ended": job("b", after("a"), produces(c), ran(kernel.Succeeded, 5)),
		"with what it made":    job("b", needs(d), produces(c), ran(kernel.Failed, 5)),
	} {
		s := snapshot(marked(facts(), c), a, b)
		set, err := kernel.RetryOf(s, "b")
		if _, refused := kernel.Retry(s, "b", "ann"); err != nil || refused != nil || words(set.Jobs) != "b" {
			t.Errorf("%s: %s, %v, %v", name, words(set.Jobs), err, refused)
		}
	}
	beside := job("b", produces(c), ran(kernel.Failed, 5))
	if set, err := kernel.RetryOf(snapshot(marked(facts(), c), a, beside), "b"); err != nil || words(set.Jobs) != "b a" {
		t.Errorf("beside it: %s, %v", words(set.Jobs), err)
	}
}

// Of several retries those that can be done are told from those after which jobs would wait for each other.
func TestSomeRetriesMakeADeadlock(t *testing.T) {
	const c = "custom:t:c"
	s := snapshot(marked(facts(), c), job("x", is(kernel.Failed)), job("a", needs(c), after("x"), is(kernel.BlockedByDependency)), job("b", after("a"), produces(c), is(kernel.BlockedByDependency)),
		job("y", is(kernel.Failed)), job("w", is(kernel.Failed)), job("v", after("w"), running(1)))
	can, refused := kernel.Retryable(s, []kernel.JobID{"w", "x", "y"})
	var d *kernel.DeadlockError
	if words(can) != "y" || len(refused) != 2 || !errors.Is(refused["w"], kernel.ErrRunning) || !errors.As(refused["x"], &d) || d.Of != "x" {
		t.Errorf("%v, %v", can, refused)
	}
}

// A job that was cancelled among those that wait for each other, or is blocked behind it, is retried once
// another job has been queued that makes what they lack. The same holds for one that failed before them, and
// where the producers are those of a run, one of these is to be retried.
func TestWhyNamesNoRetryThatIsRefused(t *testing.T) {
	const c = "custom:t:c"
	blocked, r := is(kernel.BlockedByDependency), inRun("r")
	produce, retry := kernel.Remedy{Kind: kernel.ProduceArtifact, Artifact: artifact(c)}, func(id kernel.JobID) kernel.Remedy { return kernel.Remedy{Kind: kernel.RetryJob, Job: id} }
	for name, x := range map[string]struct {
		jobs []kernel.Job
		of   []kernel.JobID
		want []kernel.Remedy
	}{
		"cancelled":       {[]kernel.Job{job("a", needs(c), is(kernel.Cancelled)), job("b", after("a"), produces(c), blocked)}, []kernel.JobID{"a", "b"}, []kernel.Remedy{produce, retry("a")}},
		"blocked":         {[]kernel.Job{job("a", needs(c), blocked), job("b", after("a"), produces(c), blocked)}, []kernel.JobID{"a", "b"}, []kernel.Remedy{produce, retry("a")}},
		"failed":          {[]kernel.Job{job("a", needs(c), is(kernel.Failed)), job("b", after("a"), produces(c), blocked)}, []kernel.JobID{"a", "b"}, []kernel.Remedy{produce, retry("a")}},
		"failed before":   {[]kernel.Job{job("x", is(kernel.Failed)), job("a", needs(c), after("x"), blocked), job("b", after("a"), produces(c), blocked)}, []kernel.JobID{"a", "b"}, []kernel.Remedy{produce, retry("x")}},
		"a run's":         {[]kernel.Job{job("p", produces(c), is(kernel.Failed), r), job("a", needs(c), r), job("b", after("a"), produces(c), r)}, []kernel.JobID{"a", "b"}, []kernel.Remedy{retry("p")}},
		"a run's, purged": {[]kernel.Job{job("p", produces(c), is(kernel.Succeeded), r), job("a", needs(c), is(kernel.Cancelled), r), job("b", after("a"), produces(c), blocked, r)}, []kernel.JobID{"a", "b"}, []kernel.Remedy{retry("p")}},
	} {
		s := snapshot(marked(facts(), c), x.jobs...)
		for _, id := range x.of {
			if e, err := kernel.Explain(s, id); err != nil || !slices.Equal(e.Actions, x.want) {
				t.Errorf("%s: %s: %+v, %v", name, id, e.Actions, err)
			}
		}
		for _, r := range x.want {
			if r.Kind == kernel.ProduceArtifact {
				s = s.Apply(kernel.NewPlan(kernel.Create(job("n", produces(c)))))
			} else if _, err := kernel.Retry(s, r.Job, "ann"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	e, err := kernel.Explain(snapshot(facts(), job("a", needs(c), is(kernel.Failed)), job("b", after("a"), produces(c), is(kernel.BlockedByDependency))), "a")
	if err != nil || !slices.Equal(e.Asks, artifacts(c)) {
		t.Errorf("asks for %v, %v", e.Asks, err)
	}
}

// Of several jobs that are to make an artifact, why goes by one that does not wait for the job itself, on its way to
// what a person can do. If all wait for it, none clears it.
func TestWhyGoesByAMakerThatDoesNotWait(t *testing.T) {
	const c, d = "custom:t:c", "custom:t:d"
	waits := is(kernel.WaitingOnDeps)
	x, y := job("x", needs(c), waits), job("y", after("x"), produces(c), waits)
	for name, row := range map[string]struct {
		maker kernel.Job
		want  []kernel.Remedy
	}{
		"which asks":  {job("z", approval(kernel.Pending, ""), produces(c), is(kernel.WaitingOnApproval)), []kernel.Remedy{{Kind: kernel.ApproveJob, Job: "z"}}},
		"which lacks": {job("z", needs(d), policy(kernel.Wait), produces(c), waits), []kernel.Remedy{{Kind: kernel.ProduceArtifact, Artifact: artifact(d)}}},
	} {
		f := marked(marked(facts(), c), d)
		for _, jobs := range [][]kernel.Job{{x, y, row.maker}, {row.maker, x, y}} {
			s := snapshot(f, jobs...)
			if e, err := kernel.Explain(s, "x"); err != nil || !slices.Equal(e.Actions, row.want) || !strings.Contains(e.Unmet[0].Clears, "z") {
				t.Errorf("%s: %+v, %+v, %v", name, e.Actions, e.Unmet, err)
			}
		}
	}
}

// A retry of what a failed job blocks blocks it as before, and is not refused: none of the jobs would wait for another.
func TestARetryBehindAFailure(t *testing.T) {
	const c = "custom:t:c"
	s := snapshot(marked(facts(), c), job("x", is(kernel.Failed)), job("o", produces(c), is(kernel.Failed)),
		job("a", needs(c), after("x"), is(kernel.BlockedByDependency)), job("b", after("a"), produces(c), is(kernel.BlockedByDependency)))
	for _, id := range []kernel.JobID{"a", "b"} {
		p, err := kernel.Retry(s, id, "ann")
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		next := s.Apply(p)
		next = next.Apply(kernel.Decide(next))
		for _, of := range []kernel.JobID{"a", "b"} {
			if st := next.Job(of).State.Status; st != kernel.BlockedByDependency {
				t.Errorf("%s is %s after a retry of %s", of, st, id)
			}
		}
	}
	if _, err := kernel.Retry(s, "x", "ann"); !errors.Is(err, kernel.ErrConflict) {
		t.Errorf("x, after which a and b would wait for each other: %v", err)
	}
}

// Retries of which one alone is refused are of use together.
func TestRetriesThatWorkTogether(t *testing.T) {
	const c = "custom:t:c"
	s := snapshot(marked(facts(), c), job("f", is(kernel.Failed)), job("m", produces(c), is(kernel.Failed)),
		job("u", needs(c), after("f"), is(kernel.BlockedByDependency)), job("v", after("u"), produces(c), is(kernel.BlockedByDependency)))
	for _, id := range []kernel.JobID{"u", "v"} {
		e, err := kernel.Explain(s, id)
		if err != nil {
			t.Fatal(err)
		}
		if want := []kernel.Remedy{{Kind: kernel.RetryJob, Job: "f"}, {Kind: kernel.RetryJob, Job: "m"}}; !slices.Equal(e.Actions, want) {
			t.Errorf("%s: %+v", id, e.Actions)
		}
		if _, err := kernel.Retry(s, "f", "ann"); !errors.Is(err, kernel.ErrConflict) {
			t.Errorf("f alone: %v", err)
		}
		_, p, err := kernel.RetryAll(s, []kernel.JobID{"f", "m"}, "ann")
		if err != nil {
			t.Fatal(err)
		}
		next := s.Apply(p)
		next = next.Apply(kernel.Decide(next))
		if st := next.Job(id).State.Status; st == kernel.BlockedByDependency {
			t.Errorf("%s is %s", id, st)
		}
	}
}

// A job that was cancelled, or rejected, behind one that needs what it makes is not what frees that one.
func TestAProducerThatWasCancelledBehindItsConsumer(t *testing.T) {
	const c = "custom:t:c"
	for _, st := range []kernel.Status{kernel.Cancelled, kernel.BlockedByApproval, kernel.BlockedByDependency} {
		s := snapshot(marked(facts(), c), job("u", needs(c), is(kernel.BlockedByDependency)), job("v", after("u"), produces(c), is(st)))
		for _, id := range []kernel.JobID{"u", "v"} {
			e, err := kernel.Explain(s, id)
			if want := []kernel.Remedy{{Kind: kernel.ProduceArtifact, Artifact: artifact(c)}, {Kind: kernel.RetryJob, Job: "u"}}; err != nil || !slices.Equal(e.Actions, want) {
				t.Errorf("%s behind it, %s: %+v, %v", st, id, e.Actions, err)
			}
			if st != kernel.BlockedByDependency && (e.Root == nil || e.Root.Job != "v") {
				t.Errorf("%s behind it, %s: began with %+v", st, id, e.Root)
			}
		}
	}
}

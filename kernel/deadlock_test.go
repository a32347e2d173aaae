package kernel_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

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
			!strings.Contains(err.Error(), "enqueue another job that makes custom:t:c first") {
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

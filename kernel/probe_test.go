package kernel_test

import (
	"reflect"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Probes asks nothing about terminal jobs, only whether the runner lives about
// running ones, and what their gates read about the rest.
func TestProbes(t *testing.T) {
	nothing := kernel.NewFacts()
	everything := []option{needs("custom:t:x", "plan_doc:foo", "custom:t:x"), pinned("main", "c1"),
		pre(kernel.Precondition{}, kernel.Precondition{Kind: kernel.BranchExists, Branch: "b"})}
	for _, st := range kernel.Statuses() {
		j := job("q", append(everything, is(st))...)
		want := kernel.Probes{Markers: artifacts("custom:t:x"), Artifacts: artifacts("plan_doc:foo"), Branches: []string{"main", "b"}, Clean: true}
		switch {
		case st.Terminal():
			want = kernel.Probes{}
		case st == kernel.Running:
			want = kernel.Probes{Attempts: []kernel.AttemptID{j.Attempt()}}
		}
		s := snapshot(nothing, j, j)
		got := s.Probes()
		if !reflect.DeepEqual(got, want) || got.Empty() != st.Terminal() {
			t.Errorf("%s: %+v\nwant %+v", st, got, want)
		}
		if st != kernel.Running {
			continue
		}
		// A job whose attempt is settled may run again in the same tick.
		if got := s.WithFacts(dead(kernel.NewFacts(), j.Attempt(), nil)).Probes(); len(got.Markers) != 1 || len(got.Branches) != 2 || !got.Clean || len(got.Attempts) > 0 {
			t.Errorf("of a dead attempt: %+v", got)
		}
	}
}

// For a precondition on the branch that is checked out, two questions are
// needed.
func TestProbesForTheBranchCheckedOut(t *testing.T) {
	s := snapshot(kernel.NewFacts(), job("q", pre(kernel.Precondition{Kind: kernel.BranchExists})))
	if got := s.Probes(); !reflect.DeepEqual(got, kernel.Probes{Head: true}) {
		t.Fatalf("%+v", got)
	}
	f := kernel.NewFacts()
	f.Head = kernel.Seen("main")
	if got := s.WithFacts(f).Probes(); !reflect.DeepEqual(got, kernel.Probes{Branches: []string{"main"}}) {
		t.Fatalf("%+v", got)
	}
	f.Heads["main"] = kernel.Unseen[kernel.CommitID]("no")
	if got := s.WithFacts(f).Probes(); !got.Empty() {
		t.Errorf("%+v", got)
	}
	f.Head = kernel.Seen("")
	if got := s.WithFacts(f).Probes(); !got.Empty() {
		t.Errorf("detached: %+v", got)
	}
}

// A later answer replaces an earlier one; facts that were not asked for again
// stay.
func TestWithFacts(t *testing.T) {
	first := marked(marked(facts(), "custom:t:x", "a"), "custom:t:y", "a")
	first.Heads["main"] = kernel.Seen(kernel.CommitID("c1"))
	s := snapshot(first)
	second := marked(kernel.NewFacts(), "custom:t:x", "b")
	second.Clean, second.Head = kernel.Seen(false), kernel.Unseen[string]("no")
	f := s.WithFacts(second).Facts()
	if words(f.Markers[artifact("custom:t:x")].Value) != "b" || words(f.Markers[artifact("custom:t:y")].Value) != "a" ||
		f.Heads["main"].Value != "c1" || f.Clean.Value || f.Head.Err != "no" || !f.Merging.Known {
		t.Errorf("%+v", f)
	}
	if !reflect.DeepEqual(s.Facts(), first) {
		t.Error("the snapshot changed")
	}
}

// The target of a route is judged in the tick that settles the route's source,
// so Probes asks for what its gates read although it had ended.
func TestProbesForTheTargetsOfRoutes(t *testing.T) {
	const x = "custom:t:x"
	p := job("p", running(1), func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "q"}} })
	s := snapshot(kernel.NewFacts(), p, job("q", is(kernel.Failed)), job("r", is(kernel.Failed), after("q"), needs(x)))
	if got := s.Probes(); len(got.Markers) > 0 {
		t.Errorf("of a runner nobody knows to be dead: %+v", got)
	}
	s = s.WithFacts(dead(kernel.NewFacts(), p.Attempt(), nil))
	if got := s.Probes(); !reflect.DeepEqual(got.Markers, artifacts(x)) {
		t.Errorf("of a dead one: %+v", got)
	}
}

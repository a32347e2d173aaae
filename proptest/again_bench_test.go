package proptest

import (
	"fmt"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// neighbourhoods are worlds of n jobs, all of them open, of which few depend on
// any one.
var neighbourhoods = []struct {
	name string
	make func(n int) kernel.Observation
}{
	{"chains", func(n int) kernel.Observation {
		return tens(n, func(j, before *kernel.Job) { j.Spec.After = []kernel.JobID{before.ID} })
	}},
	{"artifacts", func(n int) kernel.Observation {
		return tens(n, func(j, before *kernel.Job) {
			before.Spec.Produces = []kernel.Artifact{{Kind: kernel.Custom, Name: "tok", Ref: string(before.ID[31:])}}
			j.Spec.Needs = before.Spec.Produces
		})
	}},
	{"locks", func(n int) kernel.Observation { // ten wait for one lock, all others for another
		o := tens(n, func(*kernel.Job, *kernel.Job) {})
		for i := range o.Jobs {
			o.Jobs[i].State.Approval, o.Jobs[i].Spec.Locks = kernel.Approval{}, []kernel.Lock{{Key: "x"}}
			if i < 10 {
				o.Jobs[i].Spec.Locks = []kernel.Lock{{Key: "y"}}
			}
		}
		return o
	}},
	{"slots", func(n int) kernel.Observation {
		o := tens(n, func(*kernel.Job, *kernel.Job) {})
		o.Limits.MaxRunning = 8
		return o
	}},
}

// tens is n jobs in runs of ten, each bound to the one before it. The first run
// has begun, the others wait for somebody to approve their first job.
func tens(n int, bind func(j, before *kernel.Job)) kernel.Observation {
	o := kernel.Observation{Now: Epoch.Add(time.Hour), Facts: kernel.NewFacts()}
	for i := range n {
		j := benchJob(i, i)
		j.Spec.Origin.Run = kernel.RunID(fmt.Sprint("run_", i/10))
		if i >= 10 && i%10 == 0 {
			j.State.Approval.State = kernel.Pending
		}
		o.Jobs = append(o.Jobs, j)
		if i%10 > 0 {
			bind(&o.Jobs[i], &o.Jobs[i-1])
		}
		for _, a := range o.Jobs[i].Spec.Needs {
			o.Facts.Markers[a] = kernel.Seen[[]kernel.JobID](nil)
		}
	}
	return o
}

// ended is a world at rest of which one job has just ended well.
func ended(b testing.TB, o kernel.Observation) (*kernel.Snapshot, kernel.Plan) {
	s := kernel.NewSnapshot(o)
	s = ticked(s)
	j := s.Jobs()[0]
	p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Produced: j.Spec.Produces})
	if err != nil {
		b.Fatal(err)
	}
	return s, p
}

// BenchmarkDecideAfterOneChange is the tick after the end of one job, on whose
// end few others depend: it costs the same however many others there are.
func BenchmarkDecideAfterOneChange(b *testing.B) {
	for _, shape := range neighbourhoods {
		for _, n := range sizes[1:] {
			b.Run(fmt.Sprintf("%s=%d", shape.name, n), func(b *testing.B) {
				s, p := ended(b, shape.make(n))
				s = s.Apply(p)
				perJob(b, n, func() { kernel.Decide(s) })
			})
		}
	}
}

// BenchmarkTickAfterOneChange is all that the kernel does in the transaction of
// a scheduler that has seen the store before: follow, ask, decide, apply, and
// say what to look after. What grows with the jobs is the copying of one
// pointer for each.
func BenchmarkTickAfterOneChange(b *testing.B) {
	for _, shape := range neighbourhoods {
		for _, n := range sizes[1:] {
			b.Run(fmt.Sprintf("%s=%d", shape.name, n), func(b *testing.B) {
				base, p := ended(b, shape.make(n))
				facts := base.Apply(p).Facts()
				change := kernel.Changes{Jobs: []kernel.Job{*base.Apply(p).Jobs()[0]}}
				perJob(b, n, func() {
					s, ok := base.Follow(base.Now(), change)
					if !ok {
						b.Fatal("a change of a known job is not followed")
					}
					s.Probes()
					s = s.WithFacts(facts)
					ticked(s).Wakes()
				})
			})
		}
	}
}

// Where one job concerns all others, all are judged, and nobody can tell.
func TestATickThatConcernsEverybody(t *testing.T) {
	const n = 20_000
	s := kernel.NewSnapshot(fan(n, func(*kernel.Job) {}))
	s = ticked(s)
	for _, outcome := range []kernel.Outcome{kernel.OutcomeSucceeded, kernel.OutcomeFailed} {
		p, err := kernel.Finish(s, kernel.Result{Attempt: s.Jobs()[0].Attempt(), Outcome: outcome})
		if err != nil {
			t.Fatal(err)
		}
		next := s.Apply(p)
		got := kernel.Decide(next)
		if !samePlan(got, kernel.Decide(forgetful(next))) || len(got.Decisions) != n-1 {
			t.Errorf("after %s: %d decisions, others than those of a tick that remembers nothing", outcome, len(got.Decisions))
		}
	}
}

// A tick after the end of one job does as much among many jobs as among few:
// counted, not timed.
func TestATickTouchesOnlyWhatDepends(t *testing.T) {
	for _, shape := range neighbourhoods {
		var few, many float64
		for n, allocs := range map[int]*float64{100: &few, 20_000: &many} {
			s, p := ended(t, shape.make(n))
			s = s.Apply(p)
			if started := launches(kernel.Decide(s)); len(started) != 1 {
				t.Fatalf("%s of %d: %v start", shape.name, n, started)
			}
			*allocs = testing.AllocsPerRun(10, func() { kernel.Decide(s) })
		}
		if many > few+10 {
			t.Errorf("%s: %.0f allocations among 20,000 jobs, %.0f among 100", shape.name, many, few)
		}
	}
}

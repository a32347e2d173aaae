package proptest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app/storetest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// neighbourhoods are worlds of n open jobs in which few jobs depend on any one.
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
	{"layers", func(n int) kernel.Observation { // layers of ten, and few slots: a job that becomes ready is older than some that wait
		o := tens(n, func(*kernel.Job, *kernel.Job) {})
		o.Limits.MaxRunning = 8
		for i := range o.Jobs {
			o.Jobs[i].State.Approval = kernel.Approval{}
			if i >= 10 && i%2 == 0 {
				o.Jobs[i].Spec.After = []kernel.JobID{o.Jobs[i/10*10-10+i%10].ID}
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

// tens returns n jobs in runs of ten, each bound to the one before it. The
// first run has begun, the others wait for somebody to approve their first job.
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

// ended returns a world at rest in which one job has just succeeded: a snapshot of
// all jobs, and one of the jobs near to that job.
func ended(b testing.TB, o kernel.Observation) (whole, near *kernel.Snapshot) {
	s := kernel.NewSnapshot(o)
	s = s.Apply(kernel.Decide(s))
	var jobs []kernel.Job
	for _, j := range s.Jobs() {
		jobs = append(jobs, *j)
	}
	j := s.Jobs()[0]
	p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Produced: j.Spec.Produces})
	if err != nil {
		b.Fatal(err)
	}
	whole = s.Apply(p)
	ask := []kernel.Near{{Kind: kernel.Itself, Job: j.ID}, {Kind: kernel.Attended}, {Kind: kernel.Due, At: s.Now()}}
	running := slices.DeleteFunc(storetest.Pick(jobs, ask), func(k kernel.Job) bool { return k.State.Status != kernel.Running || k.ID == j.ID })
	near = kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Limits: o.Limits, Jobs: storetest.Pick(jobs, ask), Near: ask, Facts: whole.Facts()}).Apply(p)
	for range 100 {
		kernel.Decide(near)
		more, all := near.Lacks()
		if all {
			b.Fatal("every job is looked at")
		}
		if len(more) == 0 {
			near = near.With(kernel.Records{Jobs: running}, nil)
			return whole, near
		}
		near = near.With(kernel.Records{Jobs: storetest.Pick(jobs, more)}, more)
	}
	b.Fatal("what is near never ends")
	return nil, nil
}

// A tick after the end of a job that few others depend on needs as few jobs in a
// large world as in a small one, and decides the same as a tick on all jobs.
func TestATickIsMadeOnWhatDepends(t *testing.T) {
	for _, shape := range neighbourhoods {
		held := map[int]int{}
		for _, n := range []int{100, 20_000} {
			whole, near := ended(t, shape.make(n))
			p := kernel.Decide(near)
			if !samePlan(p, kernel.Decide(whole)) || len(launches(p)) != 1 {
				t.Fatalf("%s of %d: %v start", shape.name, n, launches(p))
			}
			for _, j := range near.Jobs() {
				if j.State.Status != kernel.Running {
					held[n]++
				}
			}
		}
		if held[20_000] != held[100] {
			t.Errorf("%s: on %d jobs of 20,000 and %d of 100", shape.name, held[20_000], held[100])
		}
	}
}

// BenchmarkDecideAfterOneChange is that tick, on the near jobs and on all.
func BenchmarkDecideAfterOneChange(b *testing.B) {
	for _, shape := range neighbourhoods {
		for _, n := range sizes[1:] {
			whole, near := ended(b, shape.make(n))
			b.Run(fmt.Sprintf("%s=%d/near", shape.name, n), func(b *testing.B) { perJob(b, n, func() { kernel.Decide(near) }) })
			b.Run(fmt.Sprintf("%s=%d/whole", shape.name, n), func(b *testing.B) { perJob(b, n, func() { kernel.Decide(whole) }) })
		}
	}
}

// No hop through a layered graph with few slots looks at every job. There are four
// layers of fifty jobs; each job waits for three of the layer before.
func TestHopsOfLayersLookAtFew(t *testing.T) {
	o := kernel.Observation{Now: Epoch, Facts: kernel.NewFacts(), Limits: kernel.Limits{MaxRunning: 2}}
	for i := range 200 {
		j := benchJob(i, i)
		j.State.Approval, j.Spec.After, j.Spec.Locks = kernel.Approval{}, nil, nil
		for k := range 3 {
			if i >= 50 {
				j.Spec.After = append(j.Spec.After, o.Jobs[(i/50-1)*50+(i*7+k*13)%50].ID)
			}
		}
		o.Jobs = append(o.Jobs, j)
	}
	s := kernel.NewSnapshot(o)
	s = s.Apply(kernel.Decide(s))
	for hop := range 200 {
		var jobs []kernel.Job
		var ended kernel.Result
		for _, j := range s.Jobs() {
			if jobs = append(jobs, *j); j.State.Status == kernel.Running && ended.Outcome == kernel.NoOutcome {
				ended = kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded}
			}
		}
		if ended.Outcome == kernel.NoOutcome {
			t.Fatalf("hop %d: nothing runs", hop)
		}
		near := []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due, At: s.Now()}, {Kind: kernel.Itself, Job: ended.Attempt.Job}}
		some := kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Limits: o.Limits, Jobs: storetest.Pick(jobs, near), Near: near})
		p, whole := finished(t, some, ended)
		for more := near; len(more) > 0 && !whole; {
			if more, whole = some.Lacks(); len(more) > 0 {
				some = some.With(kernel.Records{Jobs: storetest.Pick(jobs, more)}, more)
				p, whole = finished(t, some, ended)
			}
		}
		if whole || len(some.Held()) > 80 {
			t.Fatalf("hop %d: every job %v, %d held", hop, whole, len(some.Held()))
		}
		want, _ := finished(t, s, ended)
		if !samePlan(p, want) {
			t.Fatalf("hop %d: %+v, on all jobs %+v", hop, p.Actions(), want.Actions())
		}
		s = s.Apply(want)
	}
}

// finished returns the plan of an attempt's end and the tick after it, and whether
// that needs every job.
func finished(t *testing.T, s *kernel.Snapshot, r kernel.Result) (kernel.Plan, bool) {
	t.Helper()
	p, err := kernel.Finish(s, r)
	if err != nil {
		t.Fatal(err)
	}
	next := s.Apply(p)
	p = p.Then(kernel.Decide(next))
	_, whole := next.Lacks()
	return p, whole
}

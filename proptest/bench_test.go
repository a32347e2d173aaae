package proptest

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// shapes are worlds of n jobs each of which a tick must judge. BenchmarkDecide
// applies the first tick's decisions before it measures, so that it measures only
// judging, which is all that most ticks do.
var shapes = []struct {
	name string
	make func(n int) kernel.Observation
}{
	{"chain", func(n int) kernel.Observation { return chain(n, 1) }},
	{"reversed", func(n int) kernel.Observation { return chain(n, -1) }},
	{"fan-out", func(n int) kernel.Observation { return fan(n, func(*kernel.Job) {}) }},
	{"artifact", func(n int) kernel.Observation {
		return fan(n, func(j *kernel.Job) { j.Spec.After, j.Spec.Needs = nil, artifacts[:1] })
	}},
	{"hot-lock", func(n int) kernel.Observation {
		return fan(n, func(j *kernel.Job) { j.Spec.After, j.Spec.Locks = nil, []kernel.Lock{{Key: "x"}} })
	}},
	{"hot-pool", func(n int) kernel.Observation {
		return fan(n, func(j *kernel.Job) { j.Spec.After, j.Spec.Locks = nil, []kernel.Lock{{Key: "gpu", Units: 1}} })
	}},
}

func benchJob(i int, at int) kernel.Job {
	return kernel.Job{ID: kernel.JobID(fmt.Sprintf("%032x", i)), Created: Epoch.Add(time.Duration(at) * time.Second), Rev: 1,
		Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}
}

// holder runs, holds the lock and makes the artifact that all others wait for.
func holder() kernel.Job {
	j := benchJob(0, 0)
	j.Spec.Produces, j.Spec.Locks = artifacts[:1], []kernel.Lock{{Key: "x"}, {Key: "gpu", Units: 1}}
	j.State.Status, j.State.Attempt, j.State.Started = kernel.Running, 1, Epoch
	return j
}

// chain returns n jobs one after the other, created in the order of the chain
// or against it.
func chain(n, direction int) kernel.Observation {
	o := kernel.Observation{Now: Epoch.Add(time.Hour), Facts: kernel.NewFacts(), Jobs: []kernel.Job{holder()}}
	for i := 1; i < n; i++ {
		j := benchJob(i, n+direction*i)
		j.Spec.After = []kernel.JobID{o.Jobs[i-1].ID}
		o.Jobs = append(o.Jobs, j)
	}
	return o
}

// fan returns n jobs after one.
func fan(n int, change func(*kernel.Job)) kernel.Observation {
	o := kernel.Observation{Now: Epoch.Add(time.Hour), Facts: kernel.NewFacts(), Jobs: []kernel.Job{holder()}}
	o.Facts.Markers[artifacts[0]] = kernel.Seen[[]kernel.JobID](nil)
	for i := 1; i < n; i++ {
		j := benchJob(i, i)
		j.Spec.After = []kernel.JobID{o.Jobs[0].ID}
		change(&j)
		o.Jobs = append(o.Jobs, j)
	}
	return o
}

var sizes = []int{100, 1_000, 10_000, 100_000}

// perJob reports time and allocations per job of the world, and the processor time
// per call: on a busy machine, only processor time is meaningful.
func perJob(b *testing.B, n int, do func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := processorTime(b)
	for b.Loop() {
		do()
	}
	b.ReportMetric(float64((processorTime(b)-cpu).Nanoseconds())/float64(b.N), "cpu-ns/op")
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N)/float64(n), "allocs/job")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/job")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDecide is a tick that judges every job and finds nothing to do.
func BenchmarkDecide(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%s=%d", shape.name, n), func(b *testing.B) {
				s := kernel.NewSnapshot(shape.make(n))
				s = s.Apply(kernel.Decide(s))
				perJob(b, n, func() { kernel.Decide(s) })
			})
		}
	}
}

// BenchmarkDecideFailure is a tick in which the job all others depend on has
// failed: every one of them is blocked.
func BenchmarkDecideFailure(b *testing.B) {
	for _, shape := range shapes[:4] {
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%s=%d", shape.name, n), func(b *testing.B) {
				o := shape.make(n)
				o.Jobs[0].State.Status = kernel.Failed
				s := kernel.NewSnapshot(o)
				perJob(b, n, func() { kernel.Decide(s) })
			})
		}
	}
}

func BenchmarkNewSnapshot(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("reversed=%d", n), func(b *testing.B) {
			o := chain(n, -1)
			perJob(b, n, func() { kernel.NewSnapshot(o) })
		})
	}
}

func BenchmarkEnqueue(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("chain=%d", n), func(b *testing.B) {
			s := kernel.NewSnapshot(chain(n, 1))
			news := []kernel.NewJob{{ID: "new", Spec: kernel.Spec{After: []kernel.JobID{s.Jobs()[n-1].ID}}}}
			perJob(b, n, func() {
				if _, err := kernel.Enqueue(s, news); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// Every shape is judged completely, and the cost of a tick grows with the number
// of jobs, not with its square: with this number, a quadratic tick would time out.
func TestDecideIsNotQuadratic(t *testing.T) {
	const n = 20_000
	for _, shape := range shapes {
		o := shape.make(n)
		s := kernel.NewSnapshot(o)
		if got := len(kernel.Decide(s).Decisions); got != n-1 {
			t.Errorf("%s: %d decisions, want %d", shape.name, got, n-1)
		}
		o.Jobs[0].State.Status = kernel.Failed
		s = kernel.NewSnapshot(o)
		if again := kernel.Decide(s.Apply(kernel.Decide(s))); len(again.Actions()) > 0 {
			t.Errorf("%s: a second tick finds %d things to do", shape.name, len(again.Actions()))
		}
	}
}

// A tick that judges every job and finds nothing to do allocates at most twice
// per job, and a few times for all; that is counted, not timed.
func TestAllocationsPerJob(t *testing.T) {
	const n = 1_000
	for _, shape := range shapes {
		s := kernel.NewSnapshot(shape.make(n))
		s = s.Apply(kernel.Decide(s))
		if all := testing.AllocsPerRun(5, func() { kernel.Decide(s) }); all > 2*n+50 {
			t.Errorf("%s: %.0f allocations for %d jobs", shape.name, all, n)
		}
	}
}

// runsOf returns n runs of one template: in each, one job makes the artifact that
// the other needs, which has the same name in all runs.
func runsOf(n int) kernel.Observation {
	o := kernel.Observation{Now: Epoch.Add(time.Hour), Facts: kernel.NewFacts()}
	o.Facts.Markers[artifacts[0]] = kernel.Seen[[]kernel.JobID](nil)
	for i := range n {
		p, c := benchJob(2*i, 2*i), benchJob(2*i+1, 2*i+1)
		p.Spec.Origin.Run = kernel.RunID(fmt.Sprint("run_", i))
		c.Spec.Origin.Run = p.Spec.Origin.Run
		p.Spec.Produces, c.Spec.Needs = artifacts[:1], artifacts[:1]
		o.Jobs = append(o.Jobs, p, c)
	}
	return o
}

// Many runs of one template are not compared with each other, which would take
// too long. All are blocked in one tick.
func TestRunsOfOneTemplateAreNotCompared(t *testing.T) {
	const n = 10_000
	o := runsOf(n)
	for i := range o.Jobs {
		if i%2 == 0 {
			o.Jobs[i].Spec.After = []kernel.JobID{"gone"}
		}
	}
	for _, d := range kernel.Decide(kernel.NewSnapshot(o)).Decisions {
		if d.Next != kernel.BlockedByDependency {
			t.Fatalf("%+v", d)
		}
	}
}

// The cost of an explanation grows with the number of jobs on the way to what is to be done, not with its square.
func TestExplainIsNotQuadratic(t *testing.T) {
	const n = 20_000
	token := func(i int) kernel.Artifact {
		return kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: fmt.Sprint(i)}
	}
	o := chain(n, 1)
	for i := range o.Jobs {
		s := &o.Jobs[i].Spec
		if s.After, s.Produces = nil, []kernel.Artifact{token(i)}; i > 0 {
			s.Needs = []kernel.Artifact{token(i - 1)}
		}
	}
	for status, want := range map[kernel.Status]kernel.RemedyKind{kernel.Failed: kernel.RetryJob, kernel.WaitingOnApproval: kernel.ApproveJob} {
		o.Jobs[0].State.Status, o.Jobs[0].State.Approval.State = status, kernel.NotRequired
		if status == kernel.WaitingOnApproval {
			o.Jobs[0].State.Approval.State = kernel.Pending
		}
		s := kernel.NewSnapshot(o)
		f := kernel.NewFacts()
		for i := range n {
			f.Markers[token(i)] = kernel.Seen[[]kernel.JobID](nil)
		}
		s = s.WithFacts(f)
		s = s.Apply(kernel.Decide(s))
		e, err := kernel.Explain(s, o.Jobs[n-1].ID)
		if err != nil || len(e.Actions) != 1 || e.Actions[0].Kind != want || e.Actions[0].Job != o.Jobs[0].ID {
			t.Errorf("%v: %+v, %v", status, e.Actions, err)
		}
	}
}

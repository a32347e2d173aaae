package kernel_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A decision about one job among many asks for the facts that its gates read, of which
// nothing was observed.
func TestADecisionAsksForWhatGatesRead(t *testing.T) {
	for name, read := range map[string]func(*kernel.Job){
		"an artifact":  needs("plan_branch:p"),
		"a token":      needs("custom:t:k"),
		"pinned head":  pinned("b", "c"),
		"branch":       pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: "b"}),
		"clean tree":   pre(kernel.Precondition{Kind: kernel.CleanWorktree}),
		"what is on":   pre(kernel.Precondition{Kind: kernel.BranchExists}),
		"the sandbox":  func(j *kernel.Job) { j.Spec.Task.Sandbox.Mode = kernel.RequiredSandbox },
		"nothing else": nil,
	} {
		var options []option
		if read != nil {
			options = append(options, read, func(j *kernel.Job) { j.Spec.MissingProducer = kernel.Wait })
		}
		j := job("j", options...)
		near := []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due}, {Kind: kernel.Itself, Job: j.ID}}
		o := kernel.Observation{Now: t0, Jobs: []kernel.Job{j}, Near: near, Dirty: []kernel.JobID{j.ID}}
		for range 9 {
			s := kernel.NewSnapshot(o)
			kernel.Decide(s)
			lacks, _ := s.Lacks()
			if len(lacks) == 0 {
				if asks := !reflect.DeepEqual(s.Probes(), kernel.Probes{}); asks != (read != nil) {
					t.Errorf("%s: it asks for %+v", name, s.Probes())
				}
				break
			}
			o.Near = append(o.Near, lacks...)
		}
	}
}

// Whether the producers of other runs count depends on those of the consumer's own run, so a decision on some
// of the jobs asks for these.
func TestAConsumerAsksForTheProducersOfItsRun(t *testing.T) {
	j := job("j", inRun("r"), needs("custom:t:k"), policy(kernel.Wait))
	o := kernel.Observation{Now: t0, Jobs: []kernel.Job{j}, Near: []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due}, {Kind: kernel.Itself, Job: j.ID}}, Dirty: []kernel.JobID{j.ID}}
	o.Facts = kernel.NewFacts()
	o.Facts.Markers[j.Spec.Needs[0]] = kernel.Seen([]kernel.JobID(nil))
	want := kernel.Near{Kind: kernel.RunProducers, Run: "r", Artifact: j.Spec.Needs[0]}
	for range 9 {
		s := kernel.NewSnapshot(o)
		kernel.Decide(s)
		lacks, _ := s.Lacks()
		if slices.Contains(lacks, want) {
			return
		}
		o.Near = append(o.Near, lacks...)
	}
	t.Errorf("it asks for %+v", o.Near)
}

// What is known of a job's gates depends on the jobs before it, so an explanation on some of
// the jobs asks for these.
func TestAnExplanationAsksForTheJobsBefore(t *testing.T) {
	j := job("j", after("before"))
	s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: []kernel.Job{j}, Near: []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due}, {Kind: kernel.Itself, Job: j.ID}}})
	s.ProbesOf("j")
	if lacks, _ := s.Lacks(); !slices.Contains(lacks, kernel.Near{Kind: kernel.Itself, Job: "before"}) {
		t.Errorf("it asks for %+v", lacks)
	}
}

// Whether a job is new depends on those that have its key.
func TestANewJobAsksForThoseOfItsKey(t *testing.T) {
	s := kernel.NewSnapshot(kernel.Observation{Now: t0, Near: []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due}}})
	news := []kernel.NewJob{{ID: "j", Spec: kernel.Spec{IdempotencyKey: "k"}}}
	if _, err := kernel.Merge(s, news, "me"); err != nil {
		t.Fatal(err)
	}
	if lacks, _ := s.Lacks(); !slices.Equal(lacks, []kernel.Near{{Kind: kernel.Keyed, Key: "k"}}) {
		t.Errorf("it asks for %+v", lacks)
	}
}

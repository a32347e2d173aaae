package kernel_test

import (
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A tick on a snapshot of three jobs, one of which waits for another, and one
// for an artifact that nobody has looked for.
func ExampleDecide() {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	task := kernel.Task{Args: []string{"make"}}
	report := kernel.Artifact{Kind: kernel.Custom, Name: "report", Ref: "weekly"}
	s := kernel.NewSnapshot(kernel.Observation{
		Now:    noon,
		Limits: kernel.Limits{MaxRunning: 2},
		Jobs: []kernel.Job{
			{ID: "build", Created: noon, Rev: 1, Spec: kernel.Spec{Task: task}},
			{ID: "test", Created: noon, Rev: 1, Spec: kernel.Spec{Task: task, After: []kernel.JobID{"build"}}},
			{ID: "mail", Created: noon, Rev: 1, Spec: kernel.Spec{Task: task, Needs: []kernel.Artifact{report}}},
		},
	})
	fmt.Println("to be observed:", s.Probes().Markers)
	p := kernel.Decide(s)
	for _, d := range p.Decisions {
		fmt.Printf("%s: %s %q\n", d.Job, d.Next, d.Reason.Detail)
	}
	for _, a := range p.World {
		fmt.Printf("%T %s\n", a, a.Subject())
	}
	// Output:
	// to be observed: [custom:report:weekly]
	// build: running ""
	// mail: waiting_on_deps "cannot tell whether custom:report:weekly exists: not observed"
	// test: waiting_on_deps "waiting on job build"
	// kernel.Launch build
}

// Following a plan without performing it, and asking why a job does not run.
func ExampleExplain() {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ship := kernel.Job{ID: "ship", Created: noon, Rev: 1, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"make", "ship"}}}}
	ship.State.Approval = kernel.Require(noon, "ann")
	s := kernel.NewSnapshot(kernel.Observation{Now: noon, Jobs: []kernel.Job{ship}, Facts: kernel.NewFacts()})
	s = s.Apply(kernel.Decide(s))
	e, err := kernel.Explain(s, "ship")
	fmt.Println(e.Status, err)
	for _, u := range e.Unmet {
		fmt.Println(u.Detail+";", "clears by", u.Clears)
	}

	p, err := kernel.Approve(s, "ship", kernel.Consent{By: "bob", Digest: ship.Spec.Digest()})
	fmt.Println("approved by bob:", err)
	s = s.Apply(p)
	s = s.Apply(kernel.Decide(s))
	fmt.Println(s.Job("ship").State.Status)
	// Output:
	// waiting_on_approval <nil>
	// awaiting human approval; clears by a person
	// approved by bob: <nil>
	// running
}

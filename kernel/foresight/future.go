package foresight

import (
	"fmt"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// future is a snapshot on its way.
type future struct {
	s *kernel.Snapshot

	launched func(kernel.AttemptID)                    // an attempt is under way; nil: nothing more is to be known of it than that
	did      func(was *kernel.Snapshot, p kernel.Plan) // p led from was to s; nil: nobody looks
}

// Moved is how a change leaves one job: what it is then, and what it was. Was is nil of
// a job that is new, Then of one that is gone.
type Moved struct{ Was, Then *kernel.Job }

// Forecast is what would follow.
type Forecast struct {
	Now  *kernel.Snapshot // what a tick makes of the world as it is
	Then *kernel.Snapshot
}

// WhatIf is what follows if changes happen, in their order, with all ticks that they
// lead to. Where s Lacks jobs after that, or Probes of either snapshot are not empty,
// it has to be asked again with these. It fails where a change cannot happen: errors
// are those of the kernel's verbs.
func WhatIf(s *kernel.Snapshot, changes []Change) (Forecast, error) {
	f := &future{s: s}
	f.tick()
	out := Forecast{Now: f.s}
	for _, c := range changes {
		if err := c.apply(f); err != nil {
			return Forecast{}, err
		}
		f.tick()
	}
	out.Then = f.s
	return out, nil
}

// Moved are the jobs that stand otherwise than now, in schedule order.
func (f Forecast) Moved() (out []Moved) {
	for _, then := range f.Then.Held() {
		was := f.Now.Job(then.ID)
		if was == nil || stands(was) != stands(then) {
			out = append(out, Moved{was, then})
		}
	}
	for _, was := range f.Now.Held() {
		if f.Then.Job(was.ID) == nil {
			out = append(out, Moved{Was: was})
		}
	}
	return out
}

// standing is what people see of how a job stands.
type standing struct {
	status     kernel.Status
	wait       kernel.WaitReason
	attempt    int
	generation int
	approval   kernel.ApprovalState
	reason     string
}

func stands(j *kernel.Job) standing {
	st, generation := &j.State, j.State.Generation
	if st.Attempt == 0 { // it has not begun: to begin again is the same
		generation = 0
	}
	return standing{st.Status, st.Wait, st.Attempt, generation, st.Approval.State, st.Reason}
}

// do makes p, unless err says that it cannot be.
func (f *future) do(p kernel.Plan, err error) error {
	if err != nil {
		return err
	}
	return f.apply(p)
}

// apply follows p.
func (f *future) apply(p kernel.Plan) error {
	was := f.s
	if f.s = f.s.Apply(p); f.did != nil {
		f.did(was, p)
	}
	return f.perform(p)
}

// tick decides until nothing is left to decide.
func (f *future) tick() {
	for p := kernel.Decide(f.s); !p.Empty(); p = kernel.Decide(f.s) {
		if f.apply(p) != nil {
			return
		}
	}
}

// perform answers for the world: what is launched runs, what is to stop stops, files
// are where they should be.
func (f *future) perform(p kernel.Plan) error {
	for _, a := range p.World {
		switch a := a.(type) {
		case kernel.Launch:
			if f.launched != nil {
				f.launched(a.Attempt)
			} else {
				f.runs(a.Attempt)
			}
		case kernel.Stop:
			q, err := kernel.Finish(f.s, kernel.Result{Attempt: a.Attempt, Outcome: kernel.OutcomeCancelled, Exit: 143})
			if err := f.do(q, err); err != nil {
				return err
			}
		case kernel.TendPrompt: // its file is there
			if err := f.do(kernel.Tended(f.s, a, true, false)); err != nil {
				return err
			}
		case kernel.RemoveWorktree:
			if err := f.do(kernel.CleanedUp(f.s, a, kernel.Cleanup{Status: kernel.CleanupDone})); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *future) runs(a kernel.AttemptID) {
	f.s = f.s.WithFacts(kernel.Facts{Runners: map[kernel.AttemptID]kernel.Fact[kernel.Runner]{a: kernel.Seen(kernel.Runner{Liveness: kernel.Alive})}})
}

// end ends a job as r says, and starts it before if it does not run.
func (f *future) end(id kernel.JobID, r kernel.Result) error {
	if err := f.begin(id); err != nil {
		return err
	}
	j := f.s.Job(id)
	r.Attempt = j.Attempt()
	if r.Outcome == kernel.OutcomeSucceeded {
		r.Produced = slices.DeleteFunc(slices.Clone(j.Spec.Produces), func(a kernel.Artifact) bool { return a.Kind != kernel.Custom })
	}
	if err := f.do(kernel.Finish(f.s, r)); err != nil {
		return err
	}
	if r.Outcome == kernel.OutcomeSucceeded {
		f.made(j)
	}
	return nil
}

// begin has a job run, whatever holds it up.
func (f *future) begin(id kernel.JobID) error {
	j := f.s.Job(id)
	switch {
	case j == nil:
		return fmt.Errorf("job %s: %w", id, kernel.ErrNotFound)
	case j.State.Status == kernel.Running:
		return nil
	case j.State.Status.Terminal():
		return fmt.Errorf("job %s has ended (%s): a retry would open it again: %w", id, j.State.Status, kernel.ErrConflict)
	}
	st := j.State
	st.Status, st.Wait, st.WaitSince, st.RetryAt = kernel.Running, kernel.WaitReason{}, time.Time{}, time.Time{}
	st.Attempt, st.Started = st.Attempt+1, f.s.Now()
	return f.do(kernel.NewPlan(kernel.PutState{Job: id, If: j.Rev, State: st}, kernel.Launch{Attempt: kernel.AttemptID{Job: id, N: st.Attempt}}), nil)
}

// observation is what the snapshot would be made of, all jobs included.
func (f *future) observation() kernel.Observation {
	o := kernel.Observation{Now: f.s.Now(), Limits: f.s.Limits(), Archived: f.s.Archived(), Facts: f.s.Facts()}
	for _, j := range f.s.Jobs() {
		o.Jobs = append(o.Jobs, *j)
	}
	return o
}

// unborn is the commit of a branch that does not exist yet.
const unborn kernel.CommitID = "to come"

// made has the facts tell what j made in git, and what it took away.
func (f *future) made(j *kernel.Job) {
	facts := kernel.NewFacts()
	for _, a := range j.Spec.Produces {
		if a.Kind == kernel.Custom {
			continue
		}
		facts.Present[a] = kernel.Seen(true)
		if branch := a.Branch(); branch != "" {
			facts.Heads[branch] = kernel.Seen(unborn)
		}
	}
	for _, a := range j.Spec.Closes() {
		if a.Kind != kernel.Custom {
			facts.Present[a] = kernel.Seen(false)
		}
	}
	f.s = f.s.WithFacts(facts)
}

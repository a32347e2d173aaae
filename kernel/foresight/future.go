package foresight

import (
	"fmt"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// future is a snapshot that is being carried forward.
type future struct {
	s *kernel.Snapshot

	draft    *kernel.Draft                                         // s is its snapshot, which is changed in place; nil: every step makes a new one
	launched func(kernel.AttemptID)                                // called when an attempt is launched; nil: not called
	did      func(was map[kernel.JobID]*kernel.Job, p kernel.Plan) // called after plan p led to s, with the jobs that it changed as they were; nil: not called
}

// Moved is a job before and after a change. Was is nil for a new job, Then for
// a removed one.
type Moved struct{ Was, Then *kernel.Job }

// Forecast is what would follow from changes.
type Forecast struct {
	Now  *kernel.Snapshot // what a tick makes of the world as it is
	Then *kernel.Snapshot
}

// WhatIf returns what follows if changes happen, in their order, with all the
// ticks that they lead to. If s Lacks jobs afterwards, or Probes of either
// snapshot are not empty, WhatIf must be called again with these. It fails with
// the error of the kernel's verb if a change is not possible.
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

// Moved returns the jobs whose standing differs between Now and Then, in
// schedule order.
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

// standing is the part of a job's state that people see.
type standing struct {
	status     kernel.Status
	wait       kernel.WaitReason
	attempt    int
	generation int
	approval   kernel.ApprovalState
	reason     string
}

func stands(j *kernel.Job) standing {
	st := &j.State
	out := standing{status: st.Status, wait: st.Wait, attempt: st.Attempt, approval: st.Approval.State, reason: st.Reason}
	if st.Attempt > 0 { // before it has begun, beginning again is no change
		out.generation = st.Generation
	}
	return out
}

// do applies p unless err is not nil.
func (f *future) do(p kernel.Plan, err error) error {
	if err != nil {
		return err
	}
	return f.apply(p)
}

// apply applies p, and performs its actions on the world.
func (f *future) apply(p kernel.Plan) error {
	was := f.changing(p)
	if f.draft != nil {
		f.draft.Add(p)
		f.s = f.draft.Snapshot()
	} else {
		f.s = f.s.Apply(p)
	}
	if f.did != nil {
		f.did(was, p)
	}
	return f.perform(p)
}

// changing returns the jobs whose state p changes, if did is to be called with them.
func (f *future) changing(p kernel.Plan) map[kernel.JobID]*kernel.Job {
	if f.did == nil {
		return nil
	}
	was := make(map[kernel.JobID]*kernel.Job, len(p.Records))
	for _, a := range p.Records {
		if a, ok := a.(kernel.PutState); ok {
			was[a.Job] = f.s.Job(a.Job)
		}
	}
	return was
}

// observe adds facts to the snapshot.
func (f *future) observe(facts kernel.Facts) {
	if f.draft == nil {
		f.s = f.s.WithFacts(facts)
		return
	}
	f.draft.Observe(facts)
	f.s = f.draft.Snapshot()
}

// tick decides until there is nothing left to decide.
func (f *future) tick() {
	for {
		p := kernel.Decide(f.s)
		if f.apply(p) != nil || p.Empty() { // an empty one says that nothing is dirty any more
			return
		}
	}
}

// perform simulates the world: launched attempts run, stopped ones end, and
// files are where they should be.
func (f *future) perform(p kernel.Plan) error {
	for _, a := range p.World {
		if err := f.act(a); err != nil {
			return err
		}
	}
	return nil
}

func (f *future) act(a kernel.WorldAction) error {
	switch a := a.(type) {
	case kernel.Launch:
		if f.launched != nil {
			f.launched(a.Attempt)
		} else {
			f.runs(a.Attempt)
		}
	case kernel.Stop:
		return f.do(kernel.Finish(f.s, kernel.Result{Attempt: a.Attempt, Outcome: kernel.OutcomeCancelled, Exit: 143}))
	case kernel.TendPrompt: // the prompt's file is assumed to be in place
		return f.do(kernel.Tended(f.s, a, true, false))
	case kernel.RemoveWorktree:
		return f.do(kernel.CleanedUp(f.s, a, kernel.Cleanup{Status: kernel.CleanupDone}))
	}
	return nil
}

func (f *future) runs(a kernel.AttemptID) {
	f.observe(kernel.Facts{Runners: map[kernel.AttemptID]kernel.Fact[kernel.Runner]{a: kernel.Seen(kernel.Runner{Liveness: kernel.Alive})}})
}

// end ends job id with result r. A job that does not run is started first.
func (f *future) end(id kernel.JobID, r kernel.Result) error {
	if err := f.begin(id); err != nil {
		return err
	}
	j := f.s.Job(id)
	r.Attempt = j.Attempt()
	r.Produced = slices.DeleteFunc(slices.Clone(j.Spec.Products(r.Outcome)), func(a kernel.Artifact) bool { return a.Kind != kernel.Custom })
	if err := f.do(kernel.Finish(f.s, r)); err != nil {
		return err
	}
	f.made(j, r.Outcome)
	return nil
}

// begin starts job id, whatever gate holds it up.
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

// observation returns the observation that the snapshot would be taken from,
// with all jobs.
func (f *future) observation() kernel.Observation {
	o := kernel.Observation{Now: f.s.Now(), Limits: f.s.Limits(), Archived: f.s.Archived(), Facts: f.s.Facts(), Last: f.s.LastNumber(), Unreadable: map[kernel.JobID]string{}}
	for _, id := range f.s.UnreadableIDs() {
		o.Unreadable[id] = f.s.Unreadable(id)
	}
	for _, j := range f.s.Jobs() {
		o.Jobs = append(o.Jobs, *j)
	}
	return o
}

// unborn stands for the commit of a branch that does not exist yet.
const unborn kernel.CommitID = "to come"

// made updates the facts with what j created and removed by its end. Those of tokens, which are not
// in git, decide nothing.
func (f *future) made(j *kernel.Job, end kernel.Outcome) {
	facts := kernel.NewFacts()
	for _, a := range j.Spec.Products(end) {
		facts.Present[a] = kernel.Seen(true)
		if branch := a.Branch(); branch != "" {
			facts.Heads[branch] = kernel.Seen(unborn)
		}
	}
	if end == kernel.OutcomeSucceeded {
		for _, a := range j.Spec.Closes() {
			facts.Present[a] = kernel.Seen(false)
		}
	}
	f.observe(facts)
}

package kernel

// Decision is the scheduler's judgement of one job. What it does not change,
// the job's record says already.
type Decision struct {
	Job    JobID
	From   Status
	Next   Status
	Reason WaitReason
}

// Plan is what to do about a snapshot: data, to be printed, stored, applied or
// thrown away.
type Plan struct {
	Decisions []Decision     // one for every job that a tick changes, in schedule order
	Records   []RecordAction // done first, all or none
	World     []WorldAction  // done after that, in order

	// Judged is the limits by which a tick decided. The store keeps it, so that the next
	// tick under the same limits looks only at what has changed since. "": the plan is
	// not a tick's.
	Judged string
}

// NewPlan is the plan to do actions.
func NewPlan(actions ...Action) Plan {
	var p Plan
	p.add(actions...)
	return p
}

func (p *Plan) add(actions ...Action) {
	for _, a := range actions {
		a.addTo(p)
	}
}

// Empty reports that p does nothing.
func (p Plan) Empty() bool { return len(p.Records)+len(p.World) == 0 }

// Actions are all that p does, in order.
func (p Plan) Actions() []Action {
	var out []Action
	for _, a := range p.Records {
		out = append(out, a)
	}
	for _, a := range p.World {
		out = append(out, a)
	}
	return out
}

// Write has w do p's record actions, up to the first error.
func (p Plan) Write(w RecordWriter) error {
	for _, a := range p.Records {
		if err := a.write(w); err != nil {
			return err
		}
	}
	return nil
}

// Then is p followed by q, where q was decided on the snapshot that p leads
// to. States of one job that p and q both write become one write, so that a
// job created and judged in one transaction is written once.
func (p Plan) Then(q Plan) Plan {
	out := Plan{Decisions: q.Decisions, Records: make([]RecordAction, 0, len(p.Records)+len(q.Records)),
		World: append(p.World[:len(p.World):len(p.World)], q.World...)}
	if len(q.Decisions) == 0 {
		out.Decisions = p.Decisions
	}
	if out.Judged = q.Judged; q.Empty() && q.Judged == "" {
		out.Judged = p.Judged
	}
	last := map[JobID]int{} // the record write of a job that a later one merges into
	for _, a := range append(p.Records[:len(p.Records):len(p.Records)], q.Records...) {
		switch a := a.(type) {
		case CreateJob:
			last[a.Job.ID] = len(out.Records)
		case PutState:
			at, again := last[a.Job]
			if !again {
				last[a.Job] = len(out.Records)
				break
			}
			switch earlier := out.Records[at].(type) {
			case CreateJob:
				j := *earlier.Job
				j.State = a.State
				out.Records[at] = CreateJob{&j}
			case PutState:
				earlier.State = a.State
				out.Records[at] = earlier
			default: // last names no others
			}
			continue
		default: // writes no state
		}
		out.Records = append(out.Records, a)
	}
	return out
}

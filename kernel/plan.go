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
	Decisions []Decision // one for every job that a tick changes, in schedule order
	Actions   []Action   // records first, then the rest of the world, in order

	// Judged is what a tick judged by besides records and facts, the limits: it
	// says that all was judged that what changed before concerns. "": it is no
	// tick's.
	Judged string
}

// Then is p followed by q, where q was decided on the snapshot that p leads
// to. States of one job that p and q both write become one write, so that a
// job created and judged in one transaction is written once.
func (p Plan) Then(q Plan) Plan {
	out := Plan{Decisions: q.Decisions, Actions: make([]Action, 0, len(p.Actions)+len(q.Actions))}
	if len(q.Decisions) == 0 {
		out.Decisions = p.Decisions
	}
	if out.Judged = q.Judged; len(q.Actions) == 0 && q.Judged == "" {
		out.Judged = p.Judged
	}
	last := map[JobID]int{} // the record write of a job that a later one merges into
	var world []Action
	for _, a := range append(p.Actions[:len(p.Actions):len(p.Actions)], q.Actions...) {
		switch a := a.(type) {
		case CreateJob:
			last[a.Job.ID] = len(out.Actions)
			out.Actions = append(out.Actions, a)
		case PutState:
			at, again := last[a.Job]
			if !again {
				last[a.Job] = len(out.Actions)
				out.Actions = append(out.Actions, a)
				continue
			}
			switch earlier := out.Actions[at].(type) {
			case CreateJob:
				earlier.Job.State = a.State
				out.Actions[at] = earlier
			case PutState:
				earlier.State = a.State
				out.Actions[at] = earlier
			}
		case Launch, Stop, Sweep, ClearSentinel, RemoveWorktree, TendPrompt:
			world = append(world, a)
		default:
			out.Actions = append(out.Actions, a)
		}
	}
	out.Actions = append(out.Actions, world...)
	return out
}

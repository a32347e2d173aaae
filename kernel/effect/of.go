package effect

import "github.com/vizier-scheduler/vizier/kernel"

// Of returns the side effects of j with their states: those of its journal or,
// for a plain command, which has no journal, its latest attempt.
func Of(j *kernel.Job, journal []Record) []Record {
	if !j.Spec.Task.Builtin {
		return attempted(j)
	}
	out := make([]Record, len(journal))
	for i, e := range journal {
		e.State = StateOf(j, &e)
		out[i] = e
	}
	return out
}

// attempted returns the effect of a plain command: its attempt is under way,
// was lost, or has a result on the job's record.
func attempted(j *kernel.Job) []Record {
	st := j.State
	if st.Started.IsZero() || st.Status != kernel.Running && !st.Exit.Known {
		return nil
	}
	e := Record{Operation: "command", Job: j.ID, Generation: st.Generation, Attempt: st.Attempt, Begun: st.Started}
	if st.Status != kernel.Running && st.Failure != kernel.WorkerLost {
		e.State = Committed
		e.Result = kernel.Result{Attempt: j.Attempt(), Outcome: st.Outcome, Exit: st.Exit.Code, Class: st.Failure, Reason: st.Reason, Ended: st.Finished}
	}
	return []Record{e}
}

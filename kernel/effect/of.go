package effect

import "github.com/vizier-scheduler/vizier/kernel"

// Of are the side effects of j as far as they got: those of its journal,
// or, of a plain command, which keeps none, its latest attempt.
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

// attempted is the effect of a job that is a plain command: the attempt is under
// way, or it was lost, or the job's record says how it ended.
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

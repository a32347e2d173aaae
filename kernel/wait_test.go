package kernel_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// For records without causes, the cause is found by the words that a tick of
// this version would use. So no record is rewritten only because this version
// reads it.
func TestTheWordsOfOldReasonsTellTheirCause(t *testing.T) {
	const token = "custom:tok:a"
	stopping := func(j *kernel.Job) { j.Spec.FailureMode = kernel.BlockDownstream }
	jobs := []kernel.Job{
		job("a", running(1)),
		job("b-job", after("a")),
		job("c-maker", after("a"), produces(token)),
		job("d-token", needs(token)),
		job("e-missing", needs("custom:tok:none")),
		job("f-broken", is(kernel.Failed), produces("custom:tok:broken")),
		job("g-failed", needs("custom:tok:broken")),
		job("h-stop", is(kernel.Failed), inRun("r"), stopping),
		job("i-stopped", inRun("r"), stopping),
		job("j-plan", needs("plan_branch:p (draft/p)")),
		job("k-locks", locks(excl("x"))),
		job("l-locks", locks(excl("x"))),
	}
	f := marked(facts(), token)
	f.Markers[artifact("custom:tok:none")], f.Markers[artifact("custom:tok:broken")] = kernel.Seen[[]kernel.JobID](nil), kernel.Seen[[]kernel.JobID](nil)
	f.Present[artifact("plan_branch:p (draft/p)")] = kernel.Seen(false)
	s := kernel.NewSnapshot(kernel.Observation{Now: t0, Limits: kernel.Limits{MaxRunning: 1}, Jobs: jobs, Facts: f})
	s = s.Apply(kernel.Decide(s))
	want := map[kernel.JobID]kernel.WaitCause{
		"b-job": kernel.JobNotEnded, "d-token": kernel.TokenProducing, "e-missing": kernel.ArtifactMissing, "g-failed": kernel.ArtifactMissing,
		"i-stopped": kernel.RunStopped, "j-plan": kernel.ArtifactMissing, "k-locks": kernel.ExecutorFull, "l-locks": kernel.OtherCause,
	}
	for id, cause := range want {
		w := s.Job(id).State.Wait
		if w.Cause != cause {
			t.Errorf("%s: %q is %s, want %s", id, w.Detail, w.Cause, cause)
		}
		if old := kernel.WaitReasonOf(w.Kind, w.Detail); old != w {
			t.Errorf("%s: %q is read as %+v, a tick says %+v", id, w.Detail, old, w)
		}
	}
}

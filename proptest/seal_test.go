package proptest

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

// Whatever happens, and whatever somebody writes into records in between, no job
// passes its approval gate with another spec than the one that was approved, and
// none loses its gate.
func TestWhatPassesTheApprovalGateWasApproved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		o.Unreadable = nil
		s := kernel.NewSnapshot(o)
		approved := map[kernel.JobID]string{}
		for _, j := range s.Jobs() {
			if g := j.State.Approval.Grant; g != nil {
				approved[j.ID] = g.Statement
			}
		}
		for range rapid.IntRange(2, 8).Draw(t, "steps") {
			if oneIn(t, 3, "somebody edits a record") {
				s = edited(t, s)
				continue
			}
			name, p := anyVerb(t, s)
			if rapid.Bool().Draw(t, "tick") {
				p = p.Then(kernel.Decide(s.Apply(p)))
			}
			next := s.Apply(p)
			for _, a := range p.Actions() {
				put, ok := a.(kernel.PutState)
				if !ok {
					continue
				}
				was, now := s.Job(put.Job), next.Job(put.Job)
				if was == nil || now == nil {
					continue
				}
				g := now.State.Approval.Grant
				if g != nil && g != was.State.Approval.Grant {
					if name != "approve" {
						t.Fatalf("%s approved %s", name, put.Job)
					}
					approved[put.Job] = was.Spec.Statement()
				}
				asks := now.State.Approval.State != kernel.NotRequired
				if was.State.Approval.State != kernel.NotRequired && !was.State.Approval.InDoubt && !asks {
					t.Fatalf("%s took the gate of %s away", name, put.Job)
				}
				if now.State.Status == kernel.Running && now.State.Attempt > was.State.Attempt && asks && approved[put.Job] != now.Spec.Statement() {
					t.Fatalf("%s started %s as\n%swhich was approved as\n%s", name, put.Job, now.Spec.Statement(), approved[put.Job])
				}
			}
			s = next
		}
	})
}

// edited returns s with a record that somebody edited: another command, another
// environment, or an approval that nobody gave.
func edited(t *rapid.T, s *kernel.Snapshot) *kernel.Snapshot {
	o := kernel.Observation{Now: s.Now(), Facts: s.Facts(), Limits: kernel.Limits{MaxRunning: 4}}
	for _, j := range s.Jobs() {
		o.Jobs = append(o.Jobs, *j)
	}
	if len(o.Jobs) == 0 {
		return s
	}
	j := &o.Jobs[rapid.IntRange(0, len(o.Jobs)-1).Draw(t, "whose")]
	switch a := &j.State.Approval; rapid.IntRange(0, 2).Draw(t, "what") {
	case 0:
		j.Spec.Task.Args = []string{oneOf(t, "command", "false", "curl", "true")}
	case 1:
		j.Spec.Task.Env = []string{"PATH=/tmp"}
	case 2:
		if a.State == kernel.Pending {
			a.State = kernel.Approved
		}
	}
	return kernel.NewSnapshot(o)
}

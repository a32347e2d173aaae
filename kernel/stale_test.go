package kernel_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The reason on record is current: that of a refused launch is dropped once the
// job waits for something else, and a cancelled job waits for nothing.
func TestAReasonDoesNotOutliveItsCause(t *testing.T) {
	s := snapshot(facts(), job("a", locks(excl("k"))))
	s = s.Apply(kernel.Decide(s))
	p, err := kernel.Refuse(s, s.Job("a").Attempt(), "no room", false)
	if err != nil {
		t.Fatal(err)
	}
	a := *s.Apply(p).Job("a")
	s = snapshot(facts(), a, job("b", running(1), locks(excl("k"))))
	s = s.Apply(kernel.Decide(s))
	st := s.Job("a").State
	if st.Status != kernel.WaitingOnLocks || st.Wait.Detail != "waiting on locks" || st.Reason != "" || st.Failure != kernel.NoFailure || st.Refused != 1 {
		t.Errorf("%+v", st)
	}
	if p, err = kernel.Cancel(s, "a", "ann", false); err != nil {
		t.Fatal(err)
	}
	if st := s.Apply(p).Job("a").State; st.Wait != (kernel.WaitReason{}) || !st.WaitSince.IsZero() || st.Reason != "cancelled by ann" {
		t.Errorf("%+v", st)
	}
}

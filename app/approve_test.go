package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// merges makes a job one that merges branch draft/p.
func merges(j *kernel.Job) {
	j.Spec.Origin.Run, j.Spec.Origin.Branch, j.Spec.Origin.About.Operation = "r", "draft/p", "git.integrate_plan_branch"
}

// An approval covers the commit of the branch that the job takes (docs/adr/0068).
func TestAnApprovalCoversTheBranch(t *testing.T) {
	asked := func(status kernel.Status, more ...func(*kernel.Job)) func(*kernel.Job) {
		return func(j *kernel.Job) {
			merges(j)
			j.State = kernel.State{Status: status, Approval: kernel.Require(at, "ann")}
			for _, f := range more {
				f(j)
			}
		}
	}
	now := asked(kernel.WaitingOnApproval)
	when := func(head kernel.CommitID) func(*kernel.Job) {
		return func(j *kernel.Job) { j.State.Approval.Head = head }
	}
	free := func(j *kernel.Job) { j.Spec.Origin.Branch = "" }
	other := func(j *kernel.Job) { j.Spec.Origin.About.Operation = "git.commit" }
	doubt := func(j *kernel.Job) { j.State.Approval.InDoubt = true }
	for name, c := range map[string]struct {
		job       func(*kernel.Job)
		tip, want kernel.CommitID
		head      kernel.CommitID
		err       error
	}{
		"asked while there was none":     {now, "c1", "", "", kernel.ErrConflict},
		"and there is none now":          {now, "", "", "", nil},
		"asked, and waits again":         {asked(kernel.WaitingOnDeps, when("c1")), "c1", "", "c1", nil},
		"asked, waits and has moved":     {asked(kernel.WaitingOnDeps, when("c1")), "c2", "", "", kernel.ErrConflict},
		"asked, waits, and it is gone":   {asked(kernel.WaitingOnDeps, when("c1")), "", "", "", kernel.ErrConflict},
		"it is the commit that was read": {now, "c1", "c1", "c1", nil},
		"the branch has moved":           {now, "c2", "c1", "", kernel.ErrConflict},
		"the branch is gone":             {now, "", "c1", "", kernel.ErrConflict},
		"it is as when the job asked":    {asked(kernel.WaitingOnApproval, when("c1")), "c1", "", "c1", nil},
		"it has moved since":             {asked(kernel.WaitingOnApproval, when("c1")), "c2", "", "", kernel.ErrConflict},
		"that was read":                  {asked(kernel.WaitingOnApproval, when("c1")), "c2", "c2", "c2", nil},
		"it is gone since":               {asked(kernel.WaitingOnApproval, when("c1")), "", "", "", kernel.ErrConflict},
		"in advance":                     {asked(kernel.WaitingOnDeps), "c1", "", "", nil},
		"in advance, of a commit":        {asked(kernel.WaitingOnDeps), "c1", "c1", "c1", nil},
		"the job takes no branch":        {asked(kernel.WaitingOnApproval, free), "c1", "", "", nil},
		"it only works on it":            {asked(kernel.WaitingOnApproval, other), "c1", "", "", nil},
		"a commit of no branch":          {asked(kernel.WaitingOnApproval, free), "c1", "c1", "", kernel.ErrInvalid},
		"an effect in doubt":             {asked(kernel.WaitingOnApproval, doubt), "c1", "", "", nil},
		"a commit, and one in doubt":     {asked(kernel.WaitingOnApproval, doubt), "c1", "c1", "", kernel.ErrInvalid},
	} {
		m := newMemory(job("a", c.job))
		s := m.scheduler()
		s.Observers = append(s.Observers, &heads{map[string]kernel.CommitID{"draft/p": c.tip}, map[string]int{}, 0})
		_, err := s.Approve(t.Context(), "a", kernel.Consent{By: "ann", Head: c.want})
		g := m.jobs["a"].State.Approval.Grant
		if !errors.Is(err, c.err) || (err == nil) != (g != nil) || err == nil && m.jobs["a"].State.Approval.Head != c.head {
			t.Errorf("%s: %v, %+v", name, err, m.jobs["a"].State.Approval)
		}
	}
}

// An approval of what has been decided, or has ended, says so, wherever the branch is now.
func TestWhatIsDecidedIsNotApprovedAgain(t *testing.T) {
	for _, st := range []kernel.State{
		{Status: kernel.Succeeded, Attempt: 1, Approval: kernel.Approval{State: kernel.Approved, Head: "c1"}},
		{Status: kernel.BlockedByApproval, Approval: kernel.Approval{State: kernel.Rejected, Head: "c1"}},
		{Status: kernel.Running, Attempt: 1, Started: at, Approval: kernel.Approval{State: kernel.Approved, Head: "c1"}},
	} {
		m := newMemory(job("a", func(j *kernel.Job) {
			merges(j)
			j.State = st
		}))
		s := m.scheduler()
		s.Observers = append(s.Observers, &heads{map[string]kernel.CommitID{}, map[string]int{}, 0})
		if _, err := s.Approve(t.Context(), "a", kernel.Consent{By: "ann"}); !errors.Is(err, kernel.ErrConflict) || strings.Contains(err.Error(), "branch") {
			t.Errorf("%s: %v", st.Status, err)
		}
	}
}

// unseeing cannot observe branches.
type unseeing struct{}

func (unseeing) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	for _, name := range p.Branches {
		f.Heads[name] = kernel.Unseen[kernel.CommitID]("git is gone")
	}
}

func TestNothingIsApprovedUnseen(t *testing.T) {
	m := newMemory(job("a", func(j *kernel.Job) {
		merges(j)
		j.State = kernel.State{Status: kernel.WaitingOnApproval, Approval: kernel.Require(at, "ann")}
	}))
	s := m.scheduler()
	s.Observers = append(s.Observers, unseeing{})
	if _, err := s.Approve(t.Context(), "a", kernel.Consent{By: "ann"}); err == nil || !strings.HasSuffix(err.Error(), "branch draft/p is approved with job a cannot be told: git is gone") || m.jobs["a"].State.Approval.State != kernel.Pending {
		t.Errorf("%v, %+v", err, m.jobs["a"].State.Approval)
	}
	if _, err := s.Approve(t.Context(), "b", kernel.Consent{By: "ann"}); !errors.Is(err, kernel.ErrNotFound) {
		t.Error(err)
	}
}

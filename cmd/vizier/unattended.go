package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// unattended is what keeps a job from going on though it needs nobody's
// decision: that nobody is there to tick.
type unattended struct {
	Job     kernel.JobID `json:"job"`               // that is to go on first
	Due     *time.Time   `json:"due,omitempty"`     // since when, or from when on, it may
	Command []string     `json:"command,omitempty"` // that sets it going
	text    string
}

// unattended says so of what rests on a tick; nil: somebody is there.
func (r *repo) unattended(rest kernel.TickWait, now time.Time) *unattended {
	few := r.FewFiles()
	if rest.Job == "" || few == "" && r.Attended() {
		return nil
	}
	u := &unattended{Job: rest.Job, Command: []string{"vizier", "wait", string(rest.Job)}}
	why := "no resident scheduler is alive"
	if !r.Config.Scheduler.Resident {
		why = "[scheduler] resident is off"
	} else if own := proc.TooFewFiles(); own != "" {
		why = "none is started from here: " + own
	}
	u.text = "no scheduler is running (" + why + ")"
	if few != "" {
		u.text = few
	}
	what := ", and job " + string(rest.Job)
	switch at := rest.Due; {
	case !at.IsZero() && rest.Now:
		u.Due = &at
		u.text += what + " has been due since " + at.Format(time.RFC3339)
		if late := now.Sub(at).Round(time.Second); late > 0 {
			u.text += ", for " + late.String()
		}
	case rest.Now:
		u.text += what + " could go on"
	case !at.IsZero():
		u.Due = &at
		u.text += what + " is due at " + at.Format(time.RFC3339)
	default:
		u.text += what + " waits for something outside"
	}
	return u
}

// checkScheduler looks for a scheduler that may fail to do its work, and for jobs that
// would go on if only somebody ticked.
func (r *repo) checkScheduler(_ context.Context, s *kernel.Snapshot) ([]app.Finding, error) {
	if few := r.FewFiles(); few != "" {
		return []app.Finding{{Path: ".vizier/jobs/resident.lock", Problem: few, Next: "kill " + strconv.Itoa(r.Resident()) + ": the next command starts another, with its own limit"}}, nil
	}
	for _, rest := range s.TickWaits() {
		if u := r.unattended(rest, s.Now()); u != nil && (rest.Now || r.Config.Scheduler.Resident) {
			return []app.Finding{{Path: ".vizier/jobs/resident.lock", Problem: u.text, Next: strings.Join(u.Command, " ")}}, nil
		}
	}
	return nil, nil
}

// warnUnattended tells of a job that waits why it may go on waiting, if nobody is
// there to tick.
func (c *call) warnUnattended(r *repo, j *kernel.Job) {
	if st := j.State.Status; st != kernel.FailedRetryable && st != kernel.Queued && !st.Waiting() || r.Attended() {
		return
	}
	e, snap, err := r.Scheduler.Explain(c.ctx, j.ID)
	if err != nil {
		return
	}
	if alone := r.unattended(e.TickWait, snap.Now()); alone != nil && (e.TickWait.Now || r.Config.Scheduler.Resident) {
		c.ui.warn("%s: `%s` has it go on", alone.text, strings.Join(alone.Command, " "))
	}
}

package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// unattended says that a job does not continue, although it needs no decision,
// because nobody ticks.
type unattended struct {
	Job     kernel.JobID `json:"job"`               // the job that is to continue first
	Due     *time.Time   `json:"due,omitempty"`     // when it may continue, in the past or the future
	Command []string     `json:"command,omitempty"` // the command that makes it continue
	text    string
}

// unattended returns the finding about a job that depends on a tick, or nil if
// a scheduler is running that does its work.
func (r *repo) unattended(rest kernel.TickWait, now time.Time) *unattended {
	hindered := r.Hindrance()
	if rest.Job == "" || hindered.Problem == "" && r.Attended() {
		return nil
	}
	u := &unattended{Job: rest.Job, Command: []string{"vizier", "wait", string(rest.Job)}}
	why := cmp.Or(r.Off, "no resident scheduler is alive")
	if own := proc.TightLimit(); r.Off == "" && own != "" {
		why = "none is started from here: " + own
	}
	if there := r.obstacle(); r.Off == "" && there != "" {
		why, u.Command = there, []string{"vizier", "doctor", "--fix"}
	}
	u.text = "no scheduler is running (" + why + ")"
	if hindered.Problem != "" {
		u.text = hindered.Problem
	}
	if hindered.Suffices {
		u.Command = hindered.Command
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

// obstacle returns, in words, that something is in the way of every resident scheduler; "": nothing is.
func (r *repo) obstacle() string {
	if r.Obstacle == nil {
		return ""
	}
	return r.Obstacle()
}

// checkDisk looks for a full file system.
func (r *repo) checkDisk(context.Context, *kernel.Snapshot) ([]app.Finding, error) {
	if !r.Full() {
		return nil, nil
	}
	return []app.Finding{{Path: ".vizier/jobs", Problem: diskFull, Next: "make room on it; they go on by themselves"}}, nil
}

// checkScheduler looks for a resident scheduler that may fail to do its work,
// and for jobs that would continue if somebody ticked.
func (r *repo) checkScheduler(_ context.Context, s *kernel.Snapshot) ([]app.Finding, error) {
	if h := r.Hindrance(); h.Problem != "" {
		return []app.Finding{{Path: ".vizier/jobs/resident.lock", Problem: h.Problem, Next: strings.Join(h.Command, " ") + ": " + h.Then}}, nil
	}
	if u := r.firstUnattended(s); u != nil && (r.Off != "" || r.obstacle() == "") { // what is in the way is a finding of the records
		return []app.Finding{{Path: ".vizier/jobs/resident.lock", Problem: u.text, Next: strings.Join(u.Command, " ")}}, nil
	}
	return nil, nil
}

// firstUnattended returns what is unattended in s and should not be: it could go on, or a scheduler was to
// watch for that. nil: nothing.
func (r *repo) firstUnattended(s *kernel.Snapshot) *unattended {
	for _, rest := range s.TickWaits() {
		if u := r.unattended(rest, s.Now()); u != nil && (rest.Now || r.Off == "") {
			return u
		}
	}
	return nil
}

// warnUnattended warns that a waiting job may not continue because no scheduler
// is running.
func (c *call) warnUnattended(r *repo, j *kernel.Job) {
	if st := j.State.Status; st != kernel.FailedRetryable && st != kernel.Queued && !st.Waiting() || r.Attended() {
		return
	}
	e, snap, err := r.Scheduler.Explain(c.ctx, j.ID)
	if err != nil || c.foreign(r) != nil {
		return
	}
	if alone := r.unattended(e.TickWait, snap.Now()); alone != nil && (e.TickWait.Now || r.Off == "") {
		c.ui.warn("%s: `%s` has it go on", alone.text, strings.Join(alone.Command, " "))
	}
}

package view

import (
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Frame is one picture of the live screen.
type Frame struct {
	Counts  Counts
	Rows    []ScheduleRow // the top of the schedule
	Running kernel.JobID  // the job whose output is shown; "" : none
}

// Counts are the visible jobs by what they do. A job that waits for its next
// attempt counts as waiting, one that sleeps as queued.
type Counts struct{ Queued, Waiting, Running, Blocked, Terminal int }

// String is the counts as the screen shows them.
func (c Counts) String() string {
	return fmt.Sprintf("queued=%d waiting=%d running=%d blocked=%d terminal=%d",
		c.Queued, c.Waiting, c.Running, c.Blocked, c.Terminal)
}

// Frame is the screen for s with at most top rows. The job whose output is
// shown is the focus while it runs, else the first row that does (seed 000).
func (s Schedule) Frame(top int) Frame {
	f := Frame{Rows: s.Rows[:min(max(top, 0), len(s.Rows))]}
	for _, r := range s.Rows {
		switch st := r.Status; {
		case st == kernel.Running:
			f.Counts.Running++
		case st.Waiting(), st == kernel.FailedRetryable:
			f.Counts.Waiting++
		case blocked(st):
			f.Counts.Blocked++
		case st.Terminal():
			f.Counts.Terminal++
		default:
			f.Counts.Queued++
		}
	}
	for _, r := range f.Rows {
		if r.Status == kernel.Running {
			f.Running = r.ID
			break
		}
	}
	if j := s.snap.Job(s.opts.Focus); j != nil && j.State.Status == kernel.Running {
		f.Running = j.ID
	}
	return f
}

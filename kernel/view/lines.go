package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Line is a line of a list for people: a run or a batch as a whole, one of its
// jobs below it, or a job by itself.
type Line struct {
	Ref      string // of a job below its run or batch: its part, after a slash
	Name     string
	Status   string // short, see ShortStatus; an active run or batch has its progress too
	Standing kernel.Status
	For      time.Duration // how long it ran, has been running, or has been waiting
	Until    time.Time     // when it continues by itself; zero: not known
	What     string        // what runs, what it waits for, or why it ended
	Below    bool          // it is a job of the run or batch above it
}

// Says returns what the line says about its job besides the status. now is in the reader's time zone.
func (l Line) Says(now time.Time) string {
	if l.Until.IsZero() {
		return l.What
	}
	return strings.TrimSuffix("until "+Clock(l.Until.In(now.Location()), now)+", "+l.What, ", ")
}

// LineOf returns the line of a job by itself. progress is as in LinesOptions.
func LineOf(s *kernel.Snapshot, j *kernel.Job, progress func(kernel.AttemptID) Progress) Line {
	x := overview{s: s, o: OverviewOptions{Progress: progress}}
	return x.line(j)
}

// ShortStatus returns a status in one word.
func ShortStatus(st kernel.Status) string {
	switch {
	case st == kernel.WaitingOnApproval:
		return "approval"
	case st == kernel.FailedRetryable:
		return "retrying"
	case st == kernel.Queued || st.Waiting():
		return "waiting"
	case blocked(st):
		return "blocked"
	case st == kernel.Unscheduled:
		return "asleep"
	}
	return st.String()
}

// StatusesOf returns the statuses that a word means: one of records, one of
// ShortStatus, "waiting" for all that wait, or "open" for all that have not
// ended.
func StatusesOf(word string) (out []kernel.Status) {
	for _, st := range kernel.Statuses() {
		waits := st.Active() && st != kernel.Running
		if st.String() == word || ShortStatus(st) == word || word == "waiting" && waits || word == "open" && st.Active() {
			out = append(out, st)
		}
	}
	return out
}

// LinesOptions select what lines show.
type LinesOptions struct {
	Whole bool // every job below its run, and not only those at work and those that ended badly

	// Wholes are the tallies of all jobs of the runs and batches with these
	// numbers.
	Wholes map[kernel.Number]kernel.Tally

	// Progress returns the last progress that a running attempt reported; nil:
	// progress is not shown.
	Progress func(kernel.AttemptID) Progress

	// Idle is why nothing starts a job that nothing holds up; "": something does.
	Idle string
}

// Lines returns the lines for jobs, which must be in the order of a list, with
// jobs of one number together. Jobs that only a route starts, and that were not
// started, get no line of their own below their run.
func Lines(s *kernel.Snapshot, jobs []*kernel.Job, o LinesOptions) (out []Line) {
	x := overview{s: s, o: OverviewOptions{Progress: o.Progress, Wholes: o.Wholes, Idle: o.Idle}}
	var order []kernel.Number
	of := map[kernel.Number][]*kernel.Job{}
	for _, j := range jobs {
		if of[j.Number] == nil {
			order = append(order, j.Number)
		}
		of[j.Number] = append(of[j.Number], j)
	}
	for _, n := range order {
		if n == 0 || of[n][0].Part == "" {
			for _, j := range of[n] {
				out = append(out, x.line(j))
			}
			continue
		}
		out = append(out, x.wholes(of[n], o)...)
	}
	return out
}

// line returns the line of a job.
func (x *overview) line(j *kernel.Job) Line {
	st := &j.State
	l := Line{Ref: called(j), Name: Title(j), Status: ShortStatus(st.Status), Standing: st.Status}
	from, to := st.Started, st.Finished
	switch {
	case st.Status == kernel.Running:
		from = cmp.Or(x.s.Began(j), from)
		if x.s.Submitted(j.ID) {
			l.Status = Submitted
		}
		to, l.What = x.s.Now(), Going(x.s, j, x.progress(j))
	case st.Status == kernel.WaitingOnApproval:
		from, to, l.Until = st.WaitSince, x.s.Now(), st.Approval.ExpiresAt
		if st.Approval.InDoubt {
			l.What = line(st.Wait.Detail)
		}
	case st.Status.Active():
		from, to, l.What = cmp.Or(st.WaitSince, j.Created), x.s.Now(), cmp.Or(x.waitsFor(j), x.o.Idle)
		l.Until = j.Delayed(x.s.Now())
	case st.Status != kernel.Succeeded && st.Status != kernel.Unscheduled:
		l.What = line(j.WhyEnded(x.s.Now()))
		if st.Failure == kernel.ExitFailure {
			l.What = strings.Replace(l.What, "exit code ", "exit ", 1)
		}
	}
	if !from.IsZero() && to.After(from) {
		l.For = to.Sub(from)
	}
	return l
}

// wholes returns the line of the run or batch that jobs belong to, and the
// lines of its jobs.
func (x *overview) wholes(jobs []*kernel.Job, o LinesOptions) []Line {
	t, known := o.Wholes[jobs[0].Number]
	if !known {
		t = x.s.Tally(jobs)
	}
	status := runStatus(t)
	r := Run{Status: status.String(), Done: t.Statuses[kernel.Succeeded], Total: t.Total()}
	top := Line{Ref: jobs[0].Number.String(), Name: RunName(jobs[0]), Status: r.Status, Standing: r.Standing(), For: x.elapsed(t)}
	over := status <= RunBlocked
	if !over {
		top.Status += " " + r.Progress()
	}
	out := []Line{top}
	rest := 0
	for _, j := range slices.Backward(jobs) {
		switch st := j.State.Status; {
		case st == kernel.Unscheduled:
		case o.Whole || st == kernel.Running || st == kernel.WaitingOnApproval || st == kernel.FailedRetryable || EndedBadly(j):
			l := x.line(j)
			l.Ref, l.Below = "/"+j.Part, true
			if l.Name == humanised.Replace(j.Part) {
				l.Name = ""
			}
			out = append(out, l)
		default:
			rest++
		}
	}
	if rest > 0 && !over {
		out = append(out, Line{Ref: "/…", Below: true, What: "and " + count(rest) + " more"})
	}
	return out
}

// Standing returns the job status that corresponds to the run's status.
func (r Run) Standing() kernel.Status {
	return map[string]kernel.Status{RunSucceeded.String(): kernel.Succeeded, RunCancelled.String(): kernel.Cancelled, RunFailed.String(): kernel.Failed,
		RunBlocked.String(): kernel.BlockedByDependency, RunWaiting.String(): kernel.WaitingOnDeps, RunRunning.String(): kernel.Running, RunNeedsYou.String(): kernel.WaitingOnApproval}[r.Status]
}

// elapsed returns the time from when the first of the tallied jobs was enqueued
// until the last ended, or until now.
func (x *overview) elapsed(t kernel.Tally) time.Duration {
	if t.Active() {
		return x.s.Now().Sub(t.Created)
	}
	return max(0, t.Finished.Sub(t.Created))
}

package view

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// RunStatus is the status of a run as a whole, computed from its jobs.
type RunStatus uint8

// The statuses. The need for a person takes precedence over what goes on by
// itself, and that over how jobs ended.
const (
	RunSucceeded RunStatus = iota
	RunCancelled
	RunFailed  // a job failed for good, and nothing will route it
	RunBlocked // blocked only by something outside the run
	RunWaiting
	RunRunning
	RunNeedsYou // an approval is pending, or a job needs a person for another reason
)

var runStatusNames = kernel.NewNames[RunStatus]("run status", "succeeded", "cancelled", "failed", "blocked", "waiting", "running", "needs you")

func (s RunStatus) String() string { return runStatusNames.Name(s) }

// runStatus returns the status of a run with these jobs. Jobs that only a route starts, and that were not started, do
// not count.
func runStatus(t kernel.Tally) RunStatus {
	has := func(statuses ...kernel.Status) bool {
		return slices.ContainsFunc(statuses, func(st kernel.Status) bool { return t.Statuses[st] > 0 })
	}
	switch {
	case has(kernel.WaitingOnApproval), t.Stuck > 0:
		return RunNeedsYou
	case has(kernel.Running):
		return RunRunning
	case t.Active():
		return RunWaiting
	case has(kernel.Failed):
		return RunFailed
	case has(kernel.Cancelled):
		return RunCancelled
	case has(kernel.BlockedByDependency, kernel.BlockedByApproval):
		return RunBlocked
	}
	return RunSucceeded
}

// Run is a run or a batch, for people.
type Run struct {
	Reference
	Run    kernel.RunID `json:"run"`
	Name   string       `json:"name"`
	Status string       `json:"status"`
	Done   int          `json:"done"`  // jobs that succeeded
	Total  int          `json:"total"` // without jobs that only a route starts and that were not started
	Since  time.Time    `json:"created_at"`
	Parked []string     `json:"parked,omitempty"` // what was kept of its worktrees and branches, and how to get it back; the caller sets it

	Jobs []*kernel.Job `json:"-"`
}

// Progress returns how many jobs of the run have succeeded, such as 4/15.
func (r Run) Progress() string { return strconv.Itoa(r.Done) + "/" + strconv.Itoa(r.Total) }

// RunOf returns the run that jobs belong to. There must be at least one job.
func RunOf(s *kernel.Snapshot, jobs []*kernel.Job) Run {
	first, t := jobs[0], s.Tally(jobs)
	r := Run{Reference: ReferenceTo(first.Number), Run: first.Spec.Origin.Run, Name: RunName(first), Status: runStatus(t).String(), Since: first.Created, Jobs: jobs,
		Done: t.Statuses[kernel.Succeeded], Total: t.Total()}
	if first.Number == 0 {
		r.Reference = Reference{}
	}
	return r
}

// RunName returns the name of the run or batch that j belongs to.
func RunName(j *kernel.Job) string {
	if j.Spec.Origin.Run == "" || j.Spec.Origin.Parent != "" {
		return "batch"
	}
	return runName(&j.Spec.Origin)
}

// runName returns the name of a run's template and its subject.
func runName(o *kernel.Origin) string {
	name := cmp.Or(o.Alias, o.Template.Selector, o.Template.ID)
	if o.Plan != "" {
		name += " " + o.Plan
	}
	return line(name)
}

// RunsOf returns the runs of s, newest first.
func RunsOf(s *kernel.Snapshot) []Run {
	of := map[kernel.RunID][]*kernel.Job{}
	var order []kernel.RunID
	for _, j := range s.Jobs() {
		run := j.Spec.Origin.Run
		if run == "" {
			continue
		}
		if of[run] == nil {
			order = append(order, run)
		}
		of[run] = append(of[run], j)
	}
	out := make([]Run, 0, len(order))
	for _, run := range slices.Backward(order) {
		out = append(out, RunOf(s, of[run]))
	}
	return out
}

// ToRetry returns those of a run's jobs that a retry of the run begins with: those that ended
// badly, and those that something outside of the run has blocked.
func ToRetry(jobs []*kernel.Job) (out []*kernel.Job) {
	bad := causesOf(jobs, bad)
	for _, j := range jobs {
		if EndedBadly(j) || j.State.Status == kernel.BlockedByDependency && !bad.concern(j) {
			out = append(out, j)
		}
	}
	return out
}

func bad(s kernel.Status) bool { return s.Terminal() && s != kernel.Succeeded }

// causes are jobs of a run, and what they produce, that may be why others of its jobs do not start.
type causes struct {
	jobs map[kernel.JobID]bool
	make map[kernel.Artifact]bool
}

// causesOf returns those of jobs that have such a status.
func causesOf(jobs []*kernel.Job, such func(kernel.Status) bool) causes {
	c := causes{map[kernel.JobID]bool{}, map[kernel.Artifact]bool{}}
	for _, j := range jobs {
		if such(j.State.Status) {
			c.jobs[j.ID] = true
			for _, a := range j.Spec.Produces {
				c.make[a] = true
			}
		}
	}
	return c
}

// concern reports whether one of c may be why j does not start.
func (c causes) concern(j *kernel.Job) bool {
	return c.jobs[j.State.Wait.Job] || slices.ContainsFunc(j.Spec.After, func(id kernel.JobID) bool { return c.jobs[id] }) ||
		slices.ContainsFunc(j.Spec.Needs, func(a kernel.Artifact) bool { return c.make[a] })
}

// EndedBadly reports whether j ended without success by itself, and not because
// of another job.
func EndedBadly(j *kernel.Job) bool {
	switch j.State.Status {
	case kernel.Failed, kernel.Cancelled, kernel.BlockedByApproval:
		return true
	case kernel.BlockedByDependency:
		return j.State.Outcome == kernel.OutcomeBlocked
	default:
		return false
	}
}

// HoldingUp returns the jobs that explain why a run does not continue: those
// that ended badly, those that wait for a person, and those that wait for
// something outside of the run or are blocked by it. If there are none, it
// returns the first that waits or else the first that is blocked.
func HoldingUp(jobs []*kernel.Job) (out []*kernel.Job) {
	var waits, blocked []*kernel.Job
	bad, open := causesOf(jobs, bad), causesOf(jobs, func(s kernel.Status) bool { return !s.Terminal() })
	for _, j := range jobs {
		switch st := j.State.Status; {
		case EndedBadly(j), st == kernel.WaitingOnApproval, st == kernel.WaitingOnDeps && !open.concern(j),
			st == kernel.BlockedByDependency && !bad.concern(j):
			out = append(out, j)
		case st.Active() && st != kernel.Running:
			waits = append(waits, j)
		case st == kernel.BlockedByDependency:
			blocked = append(blocked, j)
		}
	}
	for _, more := range [][]*kernel.Job{waits, blocked} {
		if len(out) == 0 && len(more) > 0 {
			return more[:1]
		}
	}
	return out
}

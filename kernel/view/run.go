package view

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// RunStatus is how a run stands as a whole. It follows from its jobs.
type RunStatus uint8

// The statuses. What needs a person comes before what goes on by itself, and
// what goes on before how a run ended.
const (
	RunSucceeded RunStatus = iota
	RunCancelled
	RunFailed  // a job failed for good, and nothing will route it
	RunBlocked // only by something outside of the run
	RunWaiting
	RunRunning
	RunNeedsYou // an approval is pending, or a job waits for a person otherwise
)

var runStatusNames = kernel.NewNames[RunStatus]("run status", "succeeded", "cancelled", "failed", "blocked", "waiting", "running", "needs you")

func (s RunStatus) String() string { return runStatusNames.Name(s) }

// RunStatusOf is how the run of jobs stands. Jobs that only a route starts, and
// that none has, do not count.
func RunStatusOf(s *kernel.Snapshot, jobs []*kernel.Job) RunStatus { return runStatus(s.Tally(jobs)) }

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

// Run is a run, or a batch, as people see it.
type Run struct {
	Reference
	Run    kernel.RunID `json:"run"`
	Name   string       `json:"name"`
	Status string       `json:"status"`
	Done   int          `json:"done"`  // jobs that succeeded
	Total  int          `json:"total"` // those that only a route starts, and none has, are left out
	Since  time.Time    `json:"created_at"`

	Jobs []*kernel.Job `json:"-"`
}

// Progress is how many jobs of the run have succeeded: 4/15.
func (r Run) Progress() string { return strconv.Itoa(r.Done) + "/" + strconv.Itoa(r.Total) }

// RunOf is the run of jobs, of which there is at least one.
func RunOf(s *kernel.Snapshot, jobs []*kernel.Job) Run {
	first, t := jobs[0], s.Tally(jobs)
	o := &first.Spec.Origin
	r := Run{Reference: ReferenceTo(first.Number), Run: o.Run, Name: runName(o), Status: runStatus(t).String(), Since: first.Created, Jobs: jobs,
		Done: t.Statuses[kernel.Succeeded], Total: t.Total()}
	if o.Run == "" {
		r.Name = "batch"
	}
	if first.Number == 0 {
		r.Reference = Reference{}
	}
	return r
}

// RunName is what people call the run or the batch that j belongs to.
func RunName(j *kernel.Job) string {
	if j.Spec.Origin.Run == "" || j.Spec.Origin.Parent != "" {
		return "batch"
	}
	return runName(&j.Spec.Origin)
}

// runName is the flow of a run and what it is about.
func runName(o *kernel.Origin) string {
	name := cmp.Or(o.Alias, o.Template.Selector, o.Template.ID)
	if o.Plan != "" {
		name += " " + o.Plan
	}
	return line(name)
}

// RunsOf are the runs of s, newest first.
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

// EndedBadly reports that j did not succeed, by itself and not because of another:
// what a retry of its run begins with.
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

// HoldingUp are the jobs of a run that explain why it does not go on: those that
// ended badly, those that wait for a person, and else the first that waits.
func HoldingUp(jobs []*kernel.Job) (out []*kernel.Job) {
	var waits []*kernel.Job
	for _, j := range jobs {
		switch st := j.State.Status; {
		case EndedBadly(j), st == kernel.WaitingOnApproval:
			out = append(out, j)
		case st.Active() && st != kernel.Running:
			waits = append(waits, j)
		}
	}
	if len(out) == 0 && len(waits) > 0 {
		return waits[:1]
	}
	return out
}

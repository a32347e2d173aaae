package view

import (
	"slices"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// ScheduleOptions say what a schedule shows.
type ScheduleOptions struct {
	All      bool         // every status, whatever it is
	Focus    kernel.JobID // only this job and its neighbourhood; "" : all jobs
	MaxDepth int          // steps from the focus, and levels of DAG

	// Label returns the text that stands for a job's id; nil: the whole id.
	// JSON always has whole ids.
	Label func(kernel.JobID) string
}

// Schedule is the schedule view (seed 000) of one snapshot.
type Schedule struct {
	Rows       []ScheduleRow // by (created, id), the focus first
	Unreadable []Unreadable

	snap *kernel.Snapshot
	opts ScheduleOptions
}

// ScheduleRow is one visible job.
type ScheduleRow struct {
	Order   int // from 1
	ID      kernel.JobID
	Slug    string // the plan the job works on; "" : none
	Name    string
	Status  kernel.Status
	Wait    string // why it is not running; "" : no reason on record
	Created time.Time
	Command []string
}

// ScheduleOf returns the schedule of s. Unless o.All is set, it shows open and
// blocked jobs, and failed ones that hold up a dependent. Dormant jobs show
// only in the neighbourhood of a focus. If the focus names no job, the schedule
// is empty.
func ScheduleOf(s *kernel.Snapshot, o ScheduleOptions) Schedule {
	if o.Label == nil {
		o.Label = func(id kernel.JobID) string { return string(id) }
	}
	v := Schedule{Unreadable: unreadable(s), snap: s, opts: o}
	jobs := s.Jobs()
	if o.Focus != "" {
		jobs = neighbourhood(s, o.Focus, o.MaxDepth)
	}
	v.Rows = make([]ScheduleRow, 0, len(jobs))
	var holding map[kernel.JobID]bool // computed for the first failed job
	for _, j := range jobs {
		st := j.State.Status
		if st == kernel.Failed && !o.All && holding == nil {
			holding = holdingUp(s)
		}
		switch {
		case o.All, j.ID == o.Focus, st.Active(), blocked(st), holding[j.ID]:
		case st == kernel.Unscheduled && o.Focus != "":
		default:
			continue
		}
		v.Rows = append(v.Rows, ScheduleRow{len(v.Rows) + 1, j.ID, slug(j), Title(j), st, wait(j), j.Created, argv(j)})
	}
	return v
}

// holdingUp returns the failed jobs with a dependent that waits for them or is
// blocked by them. It goes from dependents to producers: an artifact that every
// run makes anew has few producers that count, but many consumers.
func holdingUp(s *kernel.Snapshot) map[kernel.JobID]bool {
	out := map[kernel.JobID]bool{}
	for _, j := range s.Jobs() {
		if st := j.State.Status; st != kernel.WaitingOnDeps && st != kernel.BlockedByDependency {
			continue
		}
		for _, p := range s.Predecessors(j.ID) {
			if s.Job(p).State.Status == kernel.Failed {
				out[p] = true
			}
		}
	}
	return out
}

// neighbourhood returns focus and the jobs at most depth edges away from it, in
// either direction and over both kinds of edge: focus first, then in schedule
// order.
func neighbourhood(s *kernel.Snapshot, focus kernel.JobID, depth int) []*kernel.Job {
	root := s.Job(focus)
	if root == nil {
		return nil
	}
	seen := map[kernel.JobID]bool{focus: true}
	var near []*kernel.Job
	for edge := []kernel.JobID{focus}; depth > 0 && len(edge) > 0; depth-- {
		var next []kernel.JobID
		for _, id := range edge {
			for _, n := range slices.Concat(s.Predecessors(id), s.Successors(id)) {
				if !seen[n] {
					seen[n] = true
					next = append(next, n)
					near = append(near, s.Job(n))
				}
			}
		}
		edge = next
	}
	slices.SortFunc(near, (*kernel.Job).Compare)
	return append([]*kernel.Job{root}, near...)
}

// SummaryColumns returns the headings of Summary.
func SummaryColumns() []string { return []string{"#", "Slug", "Name", "Status", "Wait", "Job"} }

// Summary returns the cells of rows, which may be s.Rows or the top of them. An
// absent value is "-".
func (s Schedule) Summary(rows []ScheduleRow) [][]string {
	out := make([][]string, len(rows))
	for i, r := range rows {
		out[i] = []string{strconv.Itoa(r.Order), orDash(line(r.Slug)), orDash(r.Name), r.Status.String(), orDash(r.Wait), s.opts.Label(r.ID)}
	}
	return out
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

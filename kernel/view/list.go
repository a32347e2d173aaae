package view

import (
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// ListOptions select the jobs of a list. The zero value hides succeeded and
// dormant jobs.
type ListOptions struct {
	All             bool // everything, whatever else is set
	ShowSucceeded   bool
	DismissFailures bool                   // hide what failed
	Tags            []kernel.Tag           // only jobs that have all of these
	Statuses        []kernel.Status        // only jobs with one of these, even those hidden otherwise
	Only            func(*kernel.Job) bool // only such jobs; nil: any
	Most            int                    // only so many of the newest; 0: all

	// Progress returns the last progress that a running attempt reported; nil:
	// progress is not shown.
	Progress func(kernel.AttemptID) Progress

	// Counts is how many jobs have each status; nil: the snapshot holds all
	// jobs, and they are counted there.
	Counts map[kernel.Status]int
}

// List is the job list, newest first.
type List struct {
	Outcome    string // how many there are, or why there are none
	Hidden     string // what is not shown and how to see it; "" : nothing
	Rows       []ListRow
	Unreadable []Unreadable

	at time.Time // of the snapshot
}

// ListRow is one job of a list.
type ListRow struct {
	ID       kernel.JobID
	Status   kernel.Status
	job      *kernel.Job
	standing string
	remark   string
	progress Progress
}

var listColumns = []column{
	{Field{"job", "Job", true}, func(r record) string { return string(r.ID) }},
	{Field{"number", "Number", false}, numberText},
	{Field{"ref", "Ref", false}, func(r record) string { return r.Ref() }},
	{Field{"status", "Status", true}, func(r record) string { return r.standing }},
	{Field{"created", "Created", true}, func(r record) string { return stamp(r.Created) }},
	{Field{"wait", "Wait", true}, waiting},
	{Field{"remark", "Remark", true}, func(r record) string { return r.remark }},
	{Field{"progress", "Progress", true}, func(r record) string { return r.Progress.String() }},
	{Field{"waited_on", "Waited on", true}, waitedOn},
	{Field{"after", "After", true}, after},
	{Field{"dependencies", "Needs", true}, dependencies},
	{Field{"locks", "Locks", true}, func(r record) string { return locks(r.Spec.Locks) }},
	{Field{"pinned_head", "Pinned head", true}, func(r record) string { return pinned(r.Spec.Pinned) }},
	{Field{"approval_required", "Approval required", true}, approvalRequired},
	{Field{"approval_state", "Approval state", true}, func(r record) string { return r.State.Approval.State.String() }},
	{Field{"approval_decided_by", "Approval decided by", true}, func(r record) string { return r.State.Approval.DecidedBy }},
	{Field{"artifacts", "Produces", true}, artifacts},
	{Field{"failed", "Failed", true}, failedAt},
	{Field{"command", "Command", true}, func(r record) string { return command(r.Job) }},
	{Field{"removed", "Files removed", true}, func(r record) string { return stamp(r.State.Removed) }},
	{Field{"name", "Name", false}, func(r record) string { return Title(r.Job) }},
	{Field{"tags", "Tags", false}, tags},
	{Field{"exit_code", "Exit code", false}, exitCode},
	{Field{"reason", "Reason", false}, func(r record) string { return r.State.Reason }},
	{Field{"attempt", "Attempt", false}, func(r record) string { return number(r.State.Attempt) }},
	{Field{"duration", "Duration", false}, took},
	{Field{"cpu", "CPU time", false}, func(r record) string { return processorTime(r.State.Place.Used) }},
	{Field{"memory", "Peak memory", false}, func(r record) string { return memory(r.State.Place.Used) }},
	{Field{"host", "Host", false}, func(r record) string { return r.State.Place.Host }},
	{Field{"agent", "Agent", false}, agentText(agentName)},
	{Field{"model", "Model", false}, agentText(func(a *kernel.AgentRun) string { return a.Model })},
	{Field{"session", "Session", false}, agentText(func(a *kernel.AgentRun) string { return a.Session })},
	{Field{"usage", "Usage", false}, usage},
}

// Jobs returns the jobs of the list, in its order.
func (l List) Jobs() []*kernel.Job {
	out := make([]*kernel.Job, len(l.Rows))
	for i, r := range l.Rows {
		out[i] = r.job
	}
	return out
}

// ListFields returns the fields of a list in their default order.
func ListFields() []Field { return fields(listColumns) }

// Text returns the row's field of that key. An absent value, and a key that
// names no field, is "".
func (r ListRow) Text(key string) string {
	for _, c := range listColumns {
		if c.Key == key {
			return line(c.text(record{Job: r.job, Paths: Paths{Progress: r.progress}, standing: r.standing, remark: r.remark}))
		}
	}
	return ""
}

// hides reports whether the list omits jobs of a status.
func (o ListOptions) hides(st kernel.Status) bool {
	if len(o.Statuses) > 0 {
		return !slices.Contains(o.Statuses, st)
	}
	return !o.All && (st == kernel.Succeeded && !o.ShowSucceeded || st == kernel.Failed && o.DismissFailures || st == kernel.Unscheduled)
}

// Near returns the query for the jobs that the list shows, for a store that can
// answer it.
func (o ListOptions) Near() kernel.Near {
	n := kernel.Near{Kind: kernel.Newest, Most: o.Most}
	for _, st := range kernel.Statuses() {
		if !o.hides(st) {
			n = n.With(st)
		}
	}
	return n
}

// RowOf returns the row of a job of s. It depends on the job, and on what is
// known of its runner.
func RowOf(s *kernel.Snapshot, j *kernel.Job) ListRow {
	return ListRow{ID: j.ID, Status: j.State.Status, job: begun(s, j), standing: Standing(s, j), remark: s.Remark(j.ID)}
}

// ListOf lists the jobs of s.
func ListOf(s *kernel.Snapshot, o ListOptions) List {
	l := List{Unreadable: unreadable(s), at: s.Now()}
	jobs, counts := s.Jobs(), o.Counts
	if len(o.Tags) > 0 || o.Only != nil {
		jobs = slices.DeleteFunc(slices.Clone(jobs), func(j *kernel.Job) bool { return !j.Spec.Tagged(o.Tags) || o.Only != nil && !o.Only(j) })
		counts = map[kernel.Status]int{}
		for _, j := range jobs {
			counts[j.State.Status]++
		}
	}
	if counts == nil {
		counts = map[kernel.Status]int{kernel.Succeeded: s.Archived()}
		for _, j := range jobs {
			counts[j.State.Status]++
		}
	}
	all, shown := 0, 0
	for st, n := range counts {
		if all += n; !o.hides(st) {
			shown += n
		}
	}
	for _, j := range slices.Backward(jobs) {
		if st := j.State.Status; !o.hides(st) && (o.Most == 0 || len(l.Rows) < o.Most) {
			row := RowOf(s, j)
			if o.Progress != nil && st == kernel.Running {
				row.progress = o.Progress(j.Attempt())
			}
			l.Rows = append(l.Rows, row)
		}
	}
	gone := func(st kernel.Status) int {
		if o.hides(st) {
			return counts[st]
		}
		return 0
	}
	switch {
	case all == 0:
		l.Outcome = "No jobs"
	case len(l.Rows) > 0:
		l.Outcome = Counted(shown, "job")
	case gone(kernel.Failed) > 0, len(o.Statuses) > 0:
		l.Outcome = "No jobs to show"
	default:
		l.Outcome = "No open jobs"
	}
	if len(o.Statuses) == 0 { // else nothing is hidden that was asked for
		l.Hidden = hidden(gone(kernel.Failed), gone(kernel.Succeeded), gone(kernel.Unscheduled))
	}
	if older := shown - len(l.Rows); o.Most > 0 && older > 0 {
		l.Hidden = strings.TrimPrefix(l.Hidden+"; "+count(older)+" older", "; ")
	}
	return l
}

func hidden(failed, succeeded, asleep int) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{failed, " failed"}, {succeeded, " succeeded"}, {asleep, " unscheduled"}} {
		if p.n > 0 {
			parts = append(parts, count(p.n)+p.what)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + " (use --all to include)"
}

// ListDocument is `jobs list --format json`: docs/schemas/jobs_list.schema.json.
type ListDocument struct {
	Header     ListHeader          `json:"header"`
	Jobs       []map[string]string `json:"jobs"`
	Unreadable []Unreadable        `json:"unreadable,omitempty"`
}

// ListHeader is what a list says before its rows.
type ListHeader struct {
	Outcome string `json:"outcome"`
	Hidden  string `json:"hidden,omitempty"`
}

// Document returns l with the fields named by keys and, beside each id, the
// job's reference. Absent values are left out.
func (l List) Document(keys []string) ListDocument {
	keys = WithReference(keys)
	d := ListDocument{ListHeader{l.Outcome, l.Hidden}, make([]map[string]string, len(l.Rows)), l.Unreadable}
	for i, r := range l.Rows {
		d.Jobs[i] = make(map[string]string, len(keys))
		for _, k := range keys {
			if text := r.Text(k); text != "" {
				d.Jobs[i][k] = text
			}
		}
	}
	return d
}

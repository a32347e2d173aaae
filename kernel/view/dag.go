package view

import (
	"iter"

	"github.com/vizier-scheduler/vizier/kernel"
)

// DAG yields the lines of `--format dag`: each visible job, and below it what
// it depends on, MaxDepth levels deep. A dependency that was already drawn in
// full below the same job is only named the next time, so the text grows with
// the number of edges and not with the number of paths.
func (s Schedule) DAG() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, r := range s.Rows {
			if i > 0 && !yield("") {
				return
			}
			j := s.snap.Job(r.ID)
			if !yield(s.heading(r, j)) {
				return
			}
			t := tree{s: s, yield: yield, path: map[kernel.JobID]bool{}, drawn: map[kernel.JobID]int{}}
			if !t.below(j, "", s.opts.MaxDepth) {
				return
			}
		}
	}
}

func (s Schedule) heading(r ScheduleRow, j *kernel.Job) string {
	h := s.opts.Label(r.ID) + " " + r.Status.String() + " [" + r.Name + "]"
	for _, part := range []struct{ what, text string }{
		{"wait", r.Wait}, {"locks", locks(j.Spec.Locks)}, {"pinned", pinned(j.Spec.Pinned)},
	} {
		if part.text != "" {
			h += " [" + part.what + ": " + line(part.text) + "]"
		}
	}
	return h
}

// tree draws what one job depends on.
type tree struct {
	s     Schedule
	yield func(string) bool
	path  map[kernel.JobID]bool // from the root to here
	drawn map[kernel.JobID]int  // the levels that were drawn below a job
}

// below draws the dependencies of j, levels deep, and reports whether the
// reader wants more.
func (t *tree) below(j *kernel.Job, indent string, levels int) bool {
	if levels <= 0 {
		return true
	}
	t.path[j.ID] = true
	defer delete(t.path, j.ID)
	t.drawn[j.ID] = levels
	deps := t.s.dependencies(j)
	for i, d := range deps {
		branch, next := "|-- ", "|   "
		if i == len(deps)-1 {
			branch, next = "`-- ", "    "
		}
		to := t.s.snap.Job(d.to)
		note, deeper := "", to != nil && levels > 1 && len(to.Spec.After)+len(to.Spec.Needs) > 0
		switch {
		case to != nil && t.path[d.to]:
			note, deeper = " (cycle)", false
		case deeper && t.drawn[d.to] >= levels-1:
			note, deeper = " (see above)", false
		}
		if !t.yield(indent + branch + t.s.describe(d) + note) {
			return false
		}
		if deeper && !t.below(to, indent+next, levels-1) {
			return false
		}
	}
	return true
}

// describe returns a dependency and its status.
func (s Schedule) describe(d dependency) string {
	what := "after:" + d.policy.String()
	if d.artifact != "" {
		what = d.artifact
	}
	if d.to == "" {
		state := d.state
		if state == "" {
			state = "unknown"
		}
		return line(what) + " -> [" + state + "]"
	}
	return line(what) + " -> " + s.opts.Label(d.to) + " " + s.standing(d.to)
}

// standing returns a job's status, or why it has none.
func (s Schedule) standing(id kernel.JobID) string {
	switch j := s.snap.Job(id); {
	case j != nil:
		return j.State.Status.String()
	case s.snap.Unreadable(id) != "":
		return "unreadable"
	default:
		return "missing"
	}
}

package view

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// unknown is a reference that names no job.
type unknown struct{ ref string }

func (u unknown) Error() string { return "no job " + strconv.Quote(u.ref) }
func (u unknown) Unwrap() error { return kernel.ErrNotFound }

// find is the job of that id.
func find(s *kernel.Snapshot, id kernel.JobID) (*kernel.Job, error) {
	if j := s.Job(id); j != nil {
		return j, nil
	}
	if why := s.Unreadable(id); why != "" {
		return nil, fmt.Errorf("cannot read job record %s: %s: %w", id, why, kernel.ErrInvalid)
	}
	return nil, unknown{string(id)}
}

// Resolve is the one job that a person means by ref: see Find. What names no job is
// kernel.ErrNotFound; what names several, or a record that cannot be read, is
// kernel.ErrInvalid.
func Resolve(s *kernel.Snapshot, ref string) (kernel.JobID, error) {
	t, err := Find(s, ref)
	switch {
	case err != nil:
		return "", err
	case len(t.Jobs) == 1:
		return t.Jobs[0].ID, nil
	case len(t.Jobs) == 0:
		return "", unknown{ref}
	}
	return "", ambiguous(ref, "job", texts(t.Jobs, called))
}

// Target is what a person means by a reference: a job, or all that was enqueued
// with one number.
type Target struct {
	Jobs  []*kernel.Job // in schedule order
	Whole bool          // a run or a batch was named, and not one of its jobs
}

// Run is the run that the target is of, or "".
func (t Target) Run() kernel.RunID {
	if len(t.Jobs) == 0 {
		return ""
	}
	return t.Jobs[0].Spec.Origin.Run
}

// Find is what a person means by ref: a whole id, @last, the newest job, a number
// or one with a part (see kernel.Job.Ref), run_ and the beginning of a run's id,
// RUN/NODE with such a beginning or with a run's slug, of which the latest run
// counts, the beginning of a job's id, or a name that exactly one open job or run
// has, or else exactly one. Errors are those of Resolve.
func Find(s *kernel.Snapshot, ref string) (Target, error) {
	id := kernel.JobID(ref)
	switch j := s.Job(id); {
	case j != nil:
		return single(j), nil
	case s.Unreadable(id) != "":
		_, err := find(s, id)
		return Target{}, err
	case ref == "@last":
		if jobs := s.Jobs(); len(jobs) > 0 {
			return single(jobs[len(jobs)-1]), nil
		}
		return Target{}, unknown{ref}
	}
	if n, part, ok := kernel.ParseRef(ref); ok {
		return numbered(s, ref, n, part)
	}
	if t, err := named(s, ref); err != nil || len(t.Jobs) > 0 {
		return t, err
	}
	run, node, inRun := strings.Cut(ref, "/")
	switch {
	case inRun && run != "" && node != "":
		return ofNode(s, ref, run, node)
	case !inRun && strings.HasPrefix(ref, "run_"):
		one, err := runOf(s, ref, ref)
		return Target{members(s, one), true}, err
	}
	return begins(s, ref)
}

func single(j *kernel.Job) Target { return Target{Jobs: []*kernel.Job{j}} }

// members are all jobs of a run, those as well that its jobs submitted.
func members(s *kernel.Snapshot, run kernel.RunID) (out []*kernel.Job) {
	for _, j := range s.Jobs() {
		if run != "" && j.Spec.Origin.Run == run {
			out = append(out, j)
		}
	}
	return out
}

// numbered is what has a number, or one job of it.
func numbered(s *kernel.Snapshot, ref string, n kernel.Number, part string) (Target, error) {
	jobs := s.Numbered(n, part)
	for _, j := range jobs {
		if j.Part == part {
			return single(j), nil
		}
	}
	if len(jobs) == 0 {
		return Target{}, unknown{ref}
	}
	if o := jobs[0].Spec.Origin; o.Run != "" && o.Parent == "" {
		jobs = members(s, o.Run)
	}
	return Target{jobs, true}, nil
}

// slugs are the names that people know a run by.
func slugs(o *kernel.Origin) []string { return []string{o.Plan, o.Alias} }

// named is what has the name ref: one that is open, or else one. None is no error.
func named(s *kernel.Snapshot, ref string) (Target, error) {
	if strings.TrimSpace(ref) == "" {
		return Target{}, nil
	}
	type thing struct {
		Target
		open bool
	}
	var things []*thing
	runs := map[kernel.RunID]*thing{}
	for _, j := range s.Jobs() {
		switch o := &j.Spec.Origin; {
		case j.Spec.Name == ref:
			things = append(things, &thing{single(j), j.Open()})
		case o.Run != "" && o.Parent == "" && slices.Contains(slugs(o), ref):
			if runs[o.Run] == nil {
				runs[o.Run] = &thing{Target: Target{members(s, o.Run), true}}
				things = append(things, runs[o.Run])
			}
			runs[o.Run].open = runs[o.Run].open || j.State.Status.Active()
		}
	}
	if slices.ContainsFunc(things, func(t *thing) bool { return t.open }) {
		things = slices.DeleteFunc(things, func(t *thing) bool { return !t.open })
	}
	switch len(things) {
	case 0:
		return Target{}, nil
	case 1:
		return things[0].Target, nil
	}
	return Target{}, ambiguous(ref, "", texts(things, func(t *thing) string {
		if t.Whole {
			return calledRun(t.Jobs)
		}
		return called(t.Jobs[0])
	}))
}

// ofNode is the job of a node of a run, which the beginning of its id or its slug
// names.
func ofNode(s *kernel.Snapshot, ref, run, node string) (Target, error) {
	one, err := runOf(s, ref, run)
	if errors.Is(err, kernel.ErrNotFound) {
		for _, j := range slices.Backward(s.Jobs()) {
			if o := &j.Spec.Origin; o.Run != "" && o.Parent == "" && slices.Contains(slugs(o), run) {
				one, err = o.Run, nil
				break
			}
		}
	}
	if err != nil {
		return Target{}, err
	}
	for _, j := range members(s, one) {
		if j.Spec.Origin.Node == node && j.Spec.Origin.Parent == "" {
			return single(j), nil
		}
	}
	return Target{}, unknown{ref}
}

// begins is the job whose id begins with ref.
func begins(s *kernel.Snapshot, ref string) (Target, error) {
	var found []kernel.JobID
	for _, j := range s.Jobs() {
		if strings.HasPrefix(string(j.ID), ref) {
			found = append(found, j.ID)
		}
	}
	for _, u := range s.UnreadableIDs() {
		if strings.HasPrefix(string(u), ref) {
			found = append(found, u)
		}
	}
	switch {
	case len(found) == 0 || strings.TrimSpace(ref) == "":
		return Target{}, unknown{ref}
	case len(found) > 1:
		return Target{}, ambiguous(ref, "job", texts(found, func(id kernel.JobID) string {
			if j := s.Job(id); j != nil {
				return called(j)
			}
			return string(id)
		}))
	}
	j, err := find(s, found[0])
	if err != nil {
		return Target{}, err
	}
	return single(j), nil
}

func runOf(s *kernel.Snapshot, ref, run string) (kernel.RunID, error) {
	var runs []kernel.RunID
	for _, j := range s.Jobs() {
		id := j.Spec.Origin.Run
		if string(id) == run {
			return id, nil
		}
		if id != "" && (strings.HasPrefix(string(id), run) || strings.HasPrefix(strings.TrimPrefix(string(id), "run_"), run)) {
			runs = append(runs, id)
		}
	}
	slices.Sort(runs)
	switch runs = slices.Compact(runs); {
	case len(runs) == 0 || strings.TrimSpace(ref) == "":
		return "", unknown{ref}
	case len(runs) > 1:
		return "", ambiguous(ref, "run", texts(runs, func(run kernel.RunID) string { return calledRun(members(s, run)) }))
	}
	return runs[0], nil
}

// called is what people call j, or its id before it has a number.
func called(j *kernel.Job) string { return cmp.Or(j.Ref(), string(j.ID)) }

// calledRun is what people call the run of jobs.
func calledRun(jobs []*kernel.Job) string {
	for _, j := range jobs {
		if j.Number != 0 && j.Spec.Origin.Parent == "" {
			return j.Number.String()
		}
	}
	return string(jobs[0].Spec.Origin.Run)
}

// ambiguous says what ref may be.
func ambiguous(ref, what string, found []string) error {
	const shown = 10
	more := ""
	if len(found) > shown {
		found, more = found[:shown], fmt.Sprintf(" and %s more", count(len(found)-shown))
	}
	if what != "" {
		what += " "
	}
	return fmt.Errorf("%q is ambiguous: it may be %s%s%s: name one of them: %w",
		ref, what, strings.Join(found, ", "), more, kernel.ErrInvalid)
}

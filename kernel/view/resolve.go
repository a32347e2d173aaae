package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// unknown is a reference that names no job.
type unknown struct{ ref string }

func (u unknown) Error() string { return "no background job " + u.ref }
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

// Resolve is the job that a person means by ref: a number or one with a part (see
// kernel.Job.Ref), a whole id, an unambiguous
// beginning of one, RUN/NODE with an unambiguous beginning of a run's id, or
// @last, the newest. What names no job is kernel.ErrNotFound; what names
// several, or a record that cannot be read, is kernel.ErrInvalid.
func Resolve(s *kernel.Snapshot, ref string) (kernel.JobID, error) {
	id := kernel.JobID(ref)
	if s.Job(id) != nil {
		return id, nil
	}
	if s.Unreadable(id) != "" {
		_, err := find(s, id)
		return "", err
	}
	if ref == "@last" {
		if jobs := s.Jobs(); len(jobs) > 0 {
			return jobs[len(jobs)-1].ID, nil
		}
		return "", unknown{ref}
	}
	if n, part, ok := kernel.ParseRef(ref); ok {
		return resolveNumber(s, ref, n, part)
	}
	if run, node, ok := strings.Cut(ref, "/"); ok && run != "" && node != "" {
		return resolveNode(s, ref, run, node)
	}
	var found []string
	for _, j := range s.Jobs() {
		if strings.HasPrefix(string(j.ID), ref) {
			found = append(found, string(j.ID))
		}
	}
	for _, u := range s.UnreadableIDs() {
		if strings.HasPrefix(string(u), ref) {
			found = append(found, string(u))
		}
	}
	one, err := only(ref, "job", found)
	if err != nil {
		return "", err
	}
	j, err := find(s, kernel.JobID(one))
	if err != nil {
		return "", err
	}
	return j.ID, nil
}

// resolveNumber is the job of that number, which stands alone, or its part.
func resolveNumber(s *kernel.Snapshot, ref string, n kernel.Number, part string) (kernel.JobID, error) {
	jobs := s.Numbered(n)
	var parts []string
	for _, j := range jobs {
		if j.Part == part {
			return j.ID, nil
		}
		parts = append(parts, j.Ref())
	}
	if part != "" || len(parts) == 0 {
		return "", unknown{ref}
	}
	_, err := only(ref, "job", parts)
	if len(parts) == 1 {
		return jobs[0].ID, nil
	}
	return "", err
}

func resolveNode(s *kernel.Snapshot, ref, run, node string) (kernel.JobID, error) {
	one, err := resolveRun(s, ref, run)
	if err != nil {
		return "", err
	}
	for _, j := range s.Jobs() {
		if j.Spec.Origin.Run == one && j.Spec.Origin.Node == node {
			return j.ID, nil
		}
	}
	return "", unknown{ref}
}

// Members are the jobs of what a person means by ref: a number, or run_ and an
// unambiguous beginning of a run's id. It is false where ref looks like neither,
// and where a number is that of one job alone.
func Members(s *kernel.Snapshot, ref string) ([]kernel.JobID, bool, error) {
	if n, part, ok := kernel.ParseRef(ref); ok {
		jobs := s.Numbered(n)
		if part != "" || len(jobs) == 1 && jobs[0].Part == "" {
			return nil, false, nil
		}
		var members []kernel.JobID
		for _, j := range jobs {
			members = append(members, j.ID)
		}
		if len(members) == 0 {
			return nil, true, unknown{ref}
		}
		return members, true, nil
	}
	if !strings.HasPrefix(ref, "run_") || strings.Contains(ref, "/") {
		return nil, false, nil
	}
	run, err := resolveRun(s, ref, ref)
	if err != nil {
		return nil, true, err
	}
	var members []kernel.JobID
	for _, j := range s.Jobs() {
		if j.Spec.Origin.Run == run {
			members = append(members, j.ID)
		}
	}
	return members, true, nil
}

func resolveRun(s *kernel.Snapshot, ref, run string) (kernel.RunID, error) {
	var runs []string
	for _, j := range s.Jobs() {
		id := string(j.Spec.Origin.Run)
		if id == run {
			runs = []string{id}
			break
		}
		if id != "" && (strings.HasPrefix(id, run) || strings.HasPrefix(strings.TrimPrefix(id, "run_"), run)) {
			runs = append(runs, id)
		}
	}
	slices.Sort(runs)
	one, err := only(ref, "run", slices.Compact(runs))
	return kernel.RunID(one), err
}

// only is the one candidate there is for ref.
func only(ref, what string, found []string) (string, error) {
	const shown = 10
	switch {
	case len(found) == 0 || strings.TrimSpace(ref) == "":
		return "", unknown{ref}
	case len(found) == 1:
		return found[0], nil
	}
	more := ""
	if len(found) > shown {
		found, more = found[:shown], fmt.Sprintf(" and %s more", count(len(found)-shown))
	}
	return "", fmt.Errorf("%q is ambiguous: it may be %s %s%s: give more of the id: %w",
		ref, what, strings.Join(found, ", "), more, kernel.ErrInvalid)
}

// minPrefix is the shortest prefix that is shown, in characters.
const minPrefix = 8

// Prefixes is the shortest prefix of each id that none of the others begins
// with, at least eight characters long.
func Prefixes(ids []kernel.JobID) map[kernel.JobID]string {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	out := make(map[kernel.JobID]string, len(sorted))
	before := 0 // what an id has in common with the one before it
	for i, id := range sorted {
		next := 0
		if i+1 < len(sorted) {
			next = common(string(id), string(sorted[i+1]))
		}
		out[id] = string(id[:min(len(id), max(minPrefix, before+1, next+1))])
		before = next
	}
	return out
}

// common is the length of what a and b both begin with.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

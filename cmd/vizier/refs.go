package main

import (
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// references looks up the references of jobs and runs that are mentioned in
// output. Text shows references, documents have ids as well. The zero value
// knows none, and leaves every id as it is.
type references struct {
	known map[string]view.Reference // by id of a job or of a run; without a number: it has no reference
	read  func([]kernel.JobID, []kernel.RunID) []*kernel.Job
}

// named adds the jobs of s, so that they need not be read again.
func (x *references) named(s *kernel.Snapshot) {
	if s == nil || x.read == nil {
		return
	}
	for _, j := range s.Jobs() {
		if j.Number != 0 {
			x.learn(string(j.ID), view.ReferenceOf(j))
		}
	}
}

func (x *references) learn(id string, ref view.Reference) {
	if x.known == nil {
		x.known = map[string]view.Reference{}
	}
	x.known[id] = ref
}

// find looks up the references of ids, with one read if one of them is new.
func (x *references) find(ids []string) {
	var jobs []kernel.JobID
	var runs []kernel.RunID
	for _, id := range ids {
		if _, known := x.known[id]; known || x.read == nil {
			continue
		}
		x.learn(id, view.Reference{})
		if strings.HasPrefix(id, "run_") {
			runs = append(runs, kernel.RunID(id))
		} else {
			jobs = append(jobs, kernel.JobID(id))
		}
	}
	if len(jobs)+len(runs) == 0 {
		return
	}
	for _, j := range x.read(jobs, runs) {
		if j.Number == 0 {
			continue
		}
		x.learn(string(j.ID), view.ReferenceOf(j))
		if run := j.Spec.Origin.Run; run != "" && j.Spec.Origin.Parent == "" {
			x.learn(string(run), view.ReferenceTo(j.Number))
		}
	}
}

// of returns the reference of a job or a run.
func (x *references) of(id string) view.Reference {
	x.find([]string{id})
	return x.known[id]
}

// among returns the references of the jobs in lists, by id, for documents that
// list ids.
func (x *references) among(lists ...[]kernel.JobID) map[kernel.JobID]string {
	all := slices.Concat(lists...)
	x.find(texts(all))
	out := map[kernel.JobID]string{}
	for _, id := range all {
		if ref := x.known[string(id)].Ref; ref != "" {
			out[id] = ref
		}
	}
	return out
}

// command returns a command line with references in place of ids.
func (x *references) command(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = x.text(w)
	}
	return out
}

// short returns the reference of a job or of a run, or its id if it has none.
func (x *references) short(id string) string {
	if ref := x.of(id).Ref; ref != "" {
		return ref
	}
	return id
}

// text returns s with references in place of the ids of jobs and runs.
func (x *references) text(s string) string {
	if x.read == nil {
		return s
	}
	x.find(view.IDs(s))
	return view.Refer(s, func(id string) string { return x.known[id].Ref })
}

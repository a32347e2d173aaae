package main

import (
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// references are what people call the jobs and runs that output speaks of.
// People see references, programs get ids as well. The zero value knows none, and
// leaves every id as it is.
type references struct {
	known map[string]view.Reference // by id of a job or of a run; without a number: it has none
	read  func([]kernel.JobID, []kernel.RunID) []*kernel.Job
}

const idLength = 32

// named makes the jobs of s known, so that nobody has to read them again.
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

// find makes known what ids are called, with one read if any of them is new.
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

// of is what a job or a run is called.
func (x *references) of(id string) view.Reference {
	x.find([]string{id})
	return x.known[id]
}

// short is the reference of a job or of a run, or its id where it has none.
func (x *references) short(id string) string {
	if ref := x.of(id).Ref; ref != "" {
		return ref
	}
	return id
}

// text is s with references in the place of the ids of jobs and runs.
func (x *references) text(s string) string {
	if x.read == nil || len(s) < idLength {
		return s
	}
	ids := idsOf(s)
	if len(ids) == 0 {
		return s
	}
	x.find(ids)
	var b strings.Builder
	at := 0
	for i, p := range idsIn(s) {
		if ref := x.known[ids[i]].Ref; ref != "" {
			b.WriteString(s[at:p[0]])
			b.WriteString(ref)
			at = p[1]
		}
	}
	b.WriteString(s[at:])
	return b.String()
}

// idsOf are what stands in the places of idsIn.
func idsOf(s string) (ids []string) {
	for _, p := range idsIn(s) {
		ids = append(ids, s[p[0]:p[1]])
	}
	return ids
}

// idsIn are the places in s of what may be the id of a job or of a run, and is no
// part of a path, of a name or of an artifact.
func idsIn(s string) (places [][2]int) {
	for i := 0; i < len(s); {
		if !isHex(s[i]) {
			i++
			continue
		}
		from, to := i, i
		for to < len(s) && isHex(s[to]) {
			to++
		}
		i = to
		if to-from != idLength {
			continue
		}
		run := strings.HasSuffix(s[:from], "run_")
		if run {
			from -= len("run_")
		}
		if from > 0 && joins(s[from-1]) {
			continue
		}
		if rest := s[to:]; rest == "" || rest[0] == '/' && run || !joins(rest[0]) || strings.IndexByte(".:", rest[0]) >= 0 && (len(rest) == 1 || rest[1] == ' ' || rest[1] == '\n') {
			places = append(places, [2]int{from, to})
		}
	}
	return places
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// joins reports that c makes one word of what stands before and behind it.
func joins(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("_-./:=@~", c) >= 0
}

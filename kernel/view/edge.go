package view

import (
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// dependency is one thing a job depends on: another job, through after or
// through an artifact, or an artifact that no known job produces.
type dependency struct {
	to       kernel.JobID // "" : nobody produces the artifact
	artifact string       // label; "" : an after edge
	policy   kernel.AfterPolicy
	state    string // of an artifact that nobody produces: present, missing or "" for not known
}

// dependencies returns what j depends on: after edges by id, then artifacts by
// label with their producers in schedule order, each once.
func (s Schedule) dependencies(j *kernel.Job) []dependency {
	out := make([]dependency, 0, len(j.Spec.After)+len(j.Spec.Needs))
	for _, id := range each(j.Spec.After, func(id kernel.JobID) string { return string(id) }) {
		out = append(out, dependency{to: id, policy: j.Spec.AfterPolicy(id)})
	}
	for _, a := range each(j.Spec.Needs, kernel.Artifact.String) {
		producers := slices.Compact(s.snap.Producers(j.ID, a)) // a record may name an artifact twice
		for _, p := range producers {
			out = append(out, dependency{to: p, artifact: a.String()})
		}
		if len(producers) == 0 {
			out = append(out, dependency{artifact: a.String(), state: presence(s.snap, a)})
		}
	}
	return out
}

// each returns the values of in, ordered by key and without duplicates.
func each[T comparable](in []T, key func(T) string) []T {
	if len(in) < 2 {
		return in
	}
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	return slices.Compact(out)
}

// presence returns whether an artifact without a producer exists. Needs of
// terminal jobs are not observed, so it may be unknown.
func presence(s *kernel.Snapshot, a kernel.Artifact) string {
	known, there := false, false
	if a.Kind == kernel.Custom {
		f := s.Facts().Markers[a]
		known, there = f.Known, len(f.Value) > 0
	} else {
		f := s.Facts().Present[a]
		known, there = f.Known, f.Value
	}
	switch {
	case known && there:
		return "present"
	case known:
		return "missing"
	}
	return ""
}

// ScheduleDocument is `jobs schedule --format json`, version 1:
// docs/schemas/schedule.schema.json.
type ScheduleDocument struct {
	Version    int           `json:"version"`
	Ordering   string        `json:"ordering"`
	Jobs       []ScheduleJob `json:"jobs"`
	Edges      []Edge        `json:"edges"`
	Unreadable []Unreadable  `json:"unreadable,omitempty"`
}

// ScheduleJob is one row of the document.
type ScheduleJob struct {
	Order int          `json:"order"`
	JobID kernel.JobID `json:"job_id"`
	Reference
	Slug      *string  `json:"slug"`
	Name      string   `json:"name"`
	Status    string   `json:"status"`
	Wait      *string  `json:"wait"`
	CreatedAt string   `json:"created_at"`
	Command   []string `json:"command"`
}

// Edge is one dependency of a visible job. To is a job's id, or
// "artifact:LABEL" where no known job produces the artifact.
type Edge struct {
	From     kernel.JobID `json:"from"`
	To       string       `json:"to"`
	After    *AfterEdge   `json:"after,omitempty"`
	Artifact string       `json:"artifact,omitempty"`
	State    string       `json:"state,omitempty"` // present or missing; "" : not known
}

// AfterEdge is the condition on which the dependent may start.
type AfterEdge struct {
	Policy string `json:"policy"` // success, or any end
}

// Document returns s for programs. It has each edge of a visible job once, in
// the order of the rows.
func (s Schedule) Document() ScheduleDocument {
	d := ScheduleDocument{Version: 1, Ordering: "created_at_then_job_id",
		Jobs: make([]ScheduleJob, len(s.Rows)), Edges: []Edge{}, Unreadable: s.Unreadable}
	for i, r := range s.Rows {
		d.Jobs[i] = ScheduleJob{r.Order, r.ID, ReferenceOf(s.snap.Job(r.ID)), nullable(r.Slug), r.Name, r.Status.String(), nullable(r.Wait), stamp(r.Created),
			orEmpty(r.Command)}
		for _, dep := range s.dependencies(s.snap.Job(r.ID)) {
			d.Edges = append(d.Edges, dep.edge(r.ID))
		}
	}
	return d
}

func (d dependency) edge(from kernel.JobID) Edge {
	switch {
	case d.artifact == "":
		return Edge{From: from, To: string(d.to), After: &AfterEdge{d.policy.String()}}
	case d.to == "":
		return Edge{From: from, To: "artifact:" + d.artifact, Artifact: d.artifact, State: d.state}
	default:
		return Edge{From: from, To: string(d.to), Artifact: d.artifact}
	}
}

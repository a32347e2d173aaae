package main

import (
	"context"
	"path"
	"slices"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// cycle is the finding about jobs that wait for each other.
type cycle struct {
	app.Finding
	job kernel.JobID
}

func (r *repo) cycles(s *kernel.Snapshot) []cycle {
	var out []cycle
	for _, c := range s.Cycles() {
		id := c.Jobs[0]
		f := app.Finding{Path: r.rel(path.Join(r.Logs.JobDir(id), "job.json")),
			Problem: "its schedule was changed by hand, and waits for itself: " + c.Text + ": none of them can ever start",
			Next:    "vizier cancel " + string(id)}
		if len(c.Lacks) > 0 {
			f.Problem = "these jobs wait for each other, since nothing else makes what they need: " + c.Text
			f.Next = c.Freed() + ", or vizier cancel " + string(id)
		}
		out = append(out, cycle{f, id})
	}
	return out
}

// unsound returns what `jobs validate` finds wrong with records for which there
// is no finding yet.
func (r *repo) unsound(ctx context.Context, found []app.Finding) ([]app.Finding, error) {
	if r.Doctor.files == nil {
		return nil, nil
	}
	problems, _, err := r.Doctor.files.Validate(ctx)
	if err != nil {
		return nil, err
	}
	var out []app.Finding
	for _, p := range problems {
		dir := path.Dir(p.Path)
		if !slices.ContainsFunc(found, func(f app.Finding) bool { return f.Path == dir || path.Dir(f.Path) == dir }) {
			out = append(out, app.Finding{Check: "records", Path: p.Path, Problem: p.Text, Next: "look at it; fix it or move it away"})
		}
	}
	return out, nil
}

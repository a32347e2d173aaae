package view_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// world draws few names so that jobs collide: cycles, records that are gone,
// runs that shadow each other, times that tie.
func world(t *rapid.T) []kernel.Job {
	n := rapid.IntRange(0, 8).Draw(t, "jobs")
	name := rapid.Custom(func(t *rapid.T) kernel.JobID {
		return kernel.JobID(fmt.Sprintf("j%d", rapid.IntRange(0, 9).Draw(t, "id")))
	})
	artifact := rapid.SampledFrom([]kernel.Artifact{{Kind: kernel.Custom, Name: "t", Ref: "k"}, {Kind: kernel.TargetBranch, Name: "m"},
		{Kind: kernel.PlanDoc, Name: "p", Ref: "draft/p"}})
	var jobs []kernel.Job
	for i := range n {
		jobs = append(jobs, job(fmt.Sprintf("j%d", i), rapid.IntRange(0, 2).Draw(t, "minute"), rapid.SampledFrom(kernel.Statuses()).Draw(t, "status"),
			func(j *kernel.Job) {
				j.Spec.After = rapid.SliceOfN(name, 0, 3).Draw(t, "after")
				j.Spec.Needs = rapid.SliceOfN(artifact, 0, 3).Draw(t, "needs")
				j.Spec.Produces = rapid.SliceOfN(artifact, 0, 2).Draw(t, "makes")
				j.Spec.Origin.Run = rapid.SampledFrom([]kernel.RunID{"", "run_1", "run_2"}).Draw(t, "run")
			}))
	}
	return jobs
}

func options(t *rapid.T) view.ScheduleOptions {
	return view.ScheduleOptions{All: rapid.Bool().Draw(t, "all"), MaxDepth: rapid.IntRange(0, 4).Draw(t, "depth"),
		Focus: rapid.SampledFrom([]kernel.JobID{"", "j0", "j1", "j9"}).Draw(t, "focus")}
}

func TestScheduleLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		jobs, o := world(t), options(t)
		v := view.ScheduleOf(snap(jobs...), o)
		d := v.Document()
		rows := map[kernel.JobID]int{}
		for i, r := range d.Jobs {
			if rows[r.JobID]++; rows[r.JobID] > 1 || r.Order != i+1 {
				t.Fatalf("row %d: %+v", i, r)
			}
		}
		known := map[string]bool{}
		for _, j := range jobs {
			known[string(j.ID)] = true
			for _, id := range j.Spec.After {
				known[string(id)] = true
			}
			for _, a := range j.Spec.Needs {
				known["artifact:"+a.String()] = true
			}
		}
		seen := map[string]bool{}
		for _, e := range d.Edges {
			key := fmt.Sprint(e.From, " ", e.To, " ", e.Artifact)
			if seen[key] || rows[e.From] == 0 || !known[e.To] || (e.After == nil) == (e.Artifact == "") {
				t.Fatalf("edge %+v", e)
			}
			seen[key] = true
		}
		for _, j := range jobs {
			if _, ok := rows[j.ID]; !ok && (o.All || j.Open() && j.State.Status != kernel.Unscheduled) && o.Focus == "" {
				t.Fatalf("%s %s is not shown", j.ID, j.State.Status)
			}
		}
		if n := len(slices.Collect(v.DAG())); n < 2*len(v.Rows)-1 {
			t.Fatalf("%d lines for %d rows", n, len(v.Rows))
		}
	})
}

func TestOrderOfRecordsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		jobs, o := world(t), options(t)
		a, b := snap(jobs...), snap(rapid.Permutation(jobs).Draw(t, "order")...)
		draw := func(s *kernel.Snapshot) []any {
			v, l := view.ScheduleOf(s, o), view.ListOf(s, view.ListOptions{All: o.All})
			return []any{v.Document(), slices.Collect(v.DAG()), v.DOT(), v.Mermaid(), v.SVG(), l.Document([]string{"job", "after"})}
		}
		if d := cmp.Diff(draw(a), draw(b)); d != "" {
			t.Fatal(d)
		}
	})
}

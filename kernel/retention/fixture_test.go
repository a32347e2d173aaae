package retention_test

import (
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type option func(*kernel.Job)

// job returns a queued job. Jobs are created at one moment, so their ids are
// the schedule order.
func job(id kernel.JobID, options ...option) kernel.Job {
	j := kernel.Job{ID: id, Created: t0, Rev: 1, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}
	for _, o := range options {
		o(&j)
	}
	return j
}

func is(s kernel.Status) option { return func(j *kernel.Job) { j.State.Status = s } }

func running(n int) option {
	return func(j *kernel.Job) {
		j.State.Status, j.State.Attempt, j.State.Started = kernel.Running, n, t0
	}
}

func after(ids ...kernel.JobID) option { return func(j *kernel.Job) { j.Spec.After = ids } }

func needs(labels ...string) option {
	return func(j *kernel.Job) { j.Spec.Needs = artifacts(labels...) }
}

func produces(labels ...string) option {
	return func(j *kernel.Job) { j.Spec.Produces = artifacts(labels...) }
}

func inRun(r kernel.RunID) option { return func(j *kernel.Job) { j.Spec.Origin.Run = r } }

func finishedAt(at time.Time) option { return func(j *kernel.Job) { j.State.Finished = at } }

func artifacts(labels ...string) []kernel.Artifact {
	var out []kernel.Artifact
	for _, l := range labels {
		a, err := kernel.ParseArtifact(l)
		if err != nil {
			panic(err)
		}
		out = append(out, a)
	}
	return out
}

// facts are no branches, no artifacts, a clean checkout of main.
func facts() kernel.Facts {
	f := kernel.NewFacts()
	f.Clean, f.Head, f.Merging = kernel.Seen(true), kernel.Seen("main"), kernel.Seen("")
	return f
}

// marked says that jobs' markers of the custom artifact exist.
func marked(f kernel.Facts, label string, owners ...kernel.JobID) kernel.Facts {
	f.Markers[artifacts(label)[0]] = kernel.Seen(owners)
	return f
}

func snapshot(f kernel.Facts, jobs ...kernel.Job) *kernel.Snapshot {
	return kernel.NewSnapshot(kernel.Observation{Now: t0.Add(time.Hour), Jobs: jobs, Facts: f})
}

// actionsOf returns the plan's actions of one type.
func actionsOf[A kernel.Action](p kernel.Plan) []A {
	var out []A
	for _, a := range p.Actions() {
		if one, ok := a.(A); ok {
			out = append(out, one)
		}
	}
	return out
}

func words(in []kernel.JobID) string {
	out := make([]string, len(in))
	for i, w := range in {
		out[i] = string(w)
	}
	return strings.Join(out, " ")
}

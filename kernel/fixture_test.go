package kernel_test

import (
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type option func(*kernel.Job)

// job returns a job that starts at the next tick unless an option holds it up.
// All jobs are created at the same moment, so the schedule order is that of
// their ids.
func job(id kernel.JobID, options ...option) kernel.Job {
	j := kernel.Job{ID: id, Created: t0, Rev: 1, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}
	for _, o := range options {
		o(&j)
	}
	return j
}

func is(s kernel.Status) option { return func(j *kernel.Job) { j.State.Status = s } }

// running puts the job's n-th attempt under way.
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

func producesOn(on kernel.Outcome, labels ...string) option {
	return func(j *kernel.Job) {
		j.Spec.ProducesOn = append(j.Spec.ProducesOn, kernel.Products{On: on, Artifacts: artifacts(labels...)})
	}
}

func policy(m kernel.MissingProducer) option {
	return func(j *kernel.Job) { j.Spec.MissingProducer = m }
}

func locks(l ...kernel.Lock) option { return func(j *kernel.Job) { j.Spec.Locks = l } }

func inRun(r kernel.RunID) option { return func(j *kernel.Job) { j.Spec.Origin.Run = r } }

func transient(m kernel.Transient) option { return func(j *kernel.Job) { j.Spec.Transient = m } }

func routed(j *kernel.Job) { j.Spec.Routed = true }

func noArgs(j *kernel.Job) { j.Spec.Task.Args = nil }

func pinned(branch string, at kernel.CommitID) option {
	return func(j *kernel.Job) { j.Spec.Pinned = kernel.PinnedHead{Branch: branch, Commit: at} }
}

func pre(p ...kernel.Precondition) option { return func(j *kernel.Job) { j.Spec.Preconditions = p } }

func approval(s kernel.ApprovalState, reason string) option {
	return func(j *kernel.Job) { j.State.Approval = kernel.Approval{State: s, Reason: reason} }
}

func finishedAt(at time.Time) option { return func(j *kernel.Job) { j.State.Finished = at } }

func excl(key string) kernel.Lock   { return kernel.Lock{Key: key} }
func shared(key string) kernel.Lock { return kernel.Lock{Key: key, Mode: kernel.Shared} }
func pool(key string, units int) kernel.Lock {
	return kernel.Lock{Key: key, Mode: kernel.Shared, Units: units}
}

// artifacts parses labels without validating them.
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

func artifact(label string) kernel.Artifact { return artifacts(label)[0] }

// facts returns facts with no branches, no artifacts, and a clean checkout of
// main.
func facts() kernel.Facts {
	f := kernel.NewFacts()
	f.Clean, f.Head, f.Merging = kernel.Seen(true), kernel.Seen("main"), kernel.Seen("")
	return f
}

// marked adds the markers of the custom artifact that jobs made; with no jobs,
// the artifact is known not to exist.
func marked(f kernel.Facts, label string, owners ...kernel.JobID) kernel.Facts {
	f.Markers[artifact(label)] = kernel.Seen(owners)
	return f
}

func dead(f kernel.Facts, a kernel.AttemptID, r *kernel.Result) kernel.Facts {
	f.Runners[a], f.Results[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Seen(r)
	return f
}

func snapshot(f kernel.Facts, jobs ...kernel.Job) *kernel.Snapshot {
	return kernel.NewSnapshot(kernel.Observation{Now: t0.Add(time.Hour), Jobs: jobs, Facts: f})
}

// decided returns a tick's decision about id, and the job as the tick leaves
// it.
func decided(t *testing.T, s *kernel.Snapshot, id kernel.JobID) (kernel.Decision, *kernel.Job) {
	t.Helper()
	p := kernel.Decide(s)
	for _, d := range p.Decisions {
		if d.Job == id {
			return d, s.Apply(p).Job(id)
		}
	}
	st := s.Job(id).State
	if st != s.Apply(p).Job(id).State {
		t.Fatalf("no decision about %s in %+v", id, p.Decisions)
	}
	return kernel.Decision{Job: id, From: st.Status, Next: st.Status, Reason: st.Wait}, s.Job(id)
}

// expect asserts a tick's decision: "STATUS", or "STATUS KIND: DETAIL". A
// second tick must have nothing to do.
func expect(t *testing.T, s *kernel.Snapshot, id kernel.JobID, want string) {
	t.Helper()
	d, j := decided(t, s, id)
	if got := said(d.Next, d.Reason); got != want {
		t.Errorf("%s: %s\n   want %s", id, got, want)
	}
	if got := said(j.State.Status, j.State.Wait); got != want {
		t.Errorf("%s is left as %s, want %s", id, got, want)
	}
	if again := kernel.Decide(s.Apply(kernel.Decide(s))); len(again.Actions()) > 0 {
		t.Errorf("a second tick finds more to do: %+v", again.Actions())
	}
}

func said(s kernel.Status, w kernel.WaitReason) string {
	if w == (kernel.WaitReason{}) {
		return s.String()
	}
	return s.String() + " " + w.Kind.String() + ": " + w.Detail
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

// words joins values that have a String method or are strings.
func words[T ~string](in []T) string {
	out := make([]string, len(in))
	for i, w := range in {
		out[i] = string(w)
	}
	return strings.Join(out, " ")
}

// statuses returns all jobs of s as "job:status job:status".
func statuses(s *kernel.Snapshot) string {
	var b []string
	for _, j := range s.Jobs() {
		b = append(b, string(j.ID)+":"+j.State.Status.String())
	}
	return strings.Join(b, " ")
}

// later returns s at another moment, without facts.
func later(s *kernel.Snapshot, now time.Time) *kernel.Snapshot {
	o := kernel.Observation{Now: now, Limits: s.Limits(), Facts: kernel.NewFacts()}
	for _, j := range s.Jobs() {
		o.Jobs = append(o.Jobs, *j)
	}
	return kernel.NewSnapshot(o)
}

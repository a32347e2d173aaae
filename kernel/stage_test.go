package kernel_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// stage is the world of a scenario. It keeps the records and everything that
// can be observed, and applies plans.
type stage struct {
	t       *testing.T
	now     time.Time
	limits  kernel.Limits
	jobs    []kernel.Job
	present map[kernel.Artifact]bool
	markers map[kernel.Artifact][]kernel.JobID
	heads   map[string]kernel.CommitID
	head    string
	dirty   bool
	broken  string // why observations fail; "": they do not
	merging string
	results map[kernel.AttemptID]*kernel.Result // results of dead runners
}

func newStage(t *testing.T) *stage {
	return &stage{t: t, now: t0, limits: kernel.Limits{Pools: map[string]int{}}, present: map[kernel.Artifact]bool{},
		markers: map[kernel.Artifact][]kernel.JobID{}, heads: map[string]kernel.CommitID{"main": "c1"}, head: "main",
		results: map[kernel.AttemptID]*kernel.Result{}}
}

// look returns a snapshot in which every probe is answered.
func (w *stage) look() *kernel.Snapshot {
	s := kernel.NewSnapshot(kernel.Observation{Now: w.now, Limits: w.limits, Jobs: w.jobs})
	for range 4 {
		p := s.Probes()
		if p.Empty() {
			return s
		}
		s = s.WithFacts(w.observe(p))
	}
	w.t.Fatalf("the kernel goes on asking: %+v", s.Probes())
	return nil
}

func (w *stage) observe(p kernel.Probes) kernel.Facts {
	f := kernel.NewFacts()
	for _, a := range p.Attempts {
		r, dead := w.results[a]
		f.Runners[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
		if dead {
			f.Runners[a], f.Results[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Seen(r)
		}
	}
	for _, a := range p.Artifacts {
		f.Present[a] = answer(w, w.present[a])
	}
	for _, a := range p.Markers {
		f.Markers[a] = answer(w, slices.Clone(w.markers[a]))
	}
	for _, b := range p.Branches {
		f.Heads[b] = answer(w, w.heads[b])
	}
	if p.Head {
		f.Head = answer(w, w.head)
	}
	if p.Clean {
		f.Clean = answer(w, !w.dirty)
	}
	if p.Merging {
		f.Merging = answer(w, w.merging)
	}
	return f
}

func answer[T any](w *stage, v T) kernel.Fact[T] {
	if w.broken != "" {
		return kernel.Unseen[T](w.broken)
	}
	return kernel.Seen(v)
}

// commit applies a plan and describes the result.
func (w *stage) commit(s *kernel.Snapshot, p kernel.Plan) []string {
	for _, a := range p.Actions() {
		switch a := a.(type) {
		case kernel.Publish:
			for _, x := range a.Artifacts {
				w.unmark(x, a.Attempt.Job)
				w.markers[x] = append(w.markers[x], a.Attempt.Job)
			}
		case kernel.Reset:
			for _, x := range a.Produces {
				w.unmark(x, a.Attempt.Job)
			}
		case kernel.RemoveJob:
			for _, x := range a.Produces {
				w.unmark(x, a.Job)
			}
		}
	}
	next := s.Apply(p)
	w.jobs = nil
	for _, j := range next.Jobs() {
		w.jobs = append(w.jobs, *j)
	}
	return told(s, next, p, false)
}

func (w *stage) unmark(a kernel.Artifact, owner kernel.JobID) {
	w.markers[a] = slices.DeleteFunc(w.markers[a], func(id kernel.JobID) bool { return id == owner })
}

// told describes a plan: what became of each job that it writes, and what else
// it does to the world. For a tick it also describes the jobs that wait.
func told(before, after *kernel.Snapshot, p kernel.Plan, tick bool) []string {
	subjects := map[kernel.JobID]bool{}
	for _, d := range p.Decisions {
		subjects[d.Job] = true
	}
	for _, j := range after.Jobs() {
		subjects[j.ID] = subjects[j.ID] || tick && (j.State.Status.Waiting() || j.State.Status == kernel.FailedRetryable)
	}
	var others []string
	for _, a := range p.Actions() {
		switch a := a.(type) {
		case kernel.PutState, kernel.CreateJob:
			subjects[a.Subject()] = true
		case kernel.Launch: // the state shows it
		case kernel.Publish:
			others = append(others, fmt.Sprintf("  publish %s", labels(a.Artifacts)))
		case kernel.RemoveWorktree:
			others = append(others, fmt.Sprintf("  remove worktree of %s: %s", a.Job, a.Context.Worktree))
		case kernel.ClearSentinel:
			others = append(others, "  clear sentinel of "+a.Slug)
		case kernel.Reset:
			others = append(others, fmt.Sprintf("  reset %s attempt %d", a.Attempt.Job, a.Attempt.N))
		case kernel.Rotate:
			others = append(others, fmt.Sprintf("  rotate %s attempt %d", a.Attempt.Job, a.Attempt.N))
		case kernel.Stop:
			others = append(others, fmt.Sprintf("  stop %s attempt %d", a.Attempt.Job, a.Attempt.N))
		case kernel.Sweep:
			others = append(others, fmt.Sprintf("  sweep %s attempt %d", a.Attempt.Job, a.Attempt.N))
		case kernel.RemoveJob:
			others = append(others, "  remove "+string(a.Job))
		}
	}
	var out []string
	for _, j := range after.Jobs() {
		if subjects[j.ID] {
			out = append(out, became(before.Job(j.ID), j))
		}
	}
	if out = append(out, others...); len(out) == 0 {
		return []string{"nothing to do"}
	}
	return out
}

func became(old, j *kernel.Job) string {
	line, st := string(j.ID)+":", j.State
	if old != nil && old.State.Status != st.Status {
		line += " " + old.State.Status.String() + " ->"
	}
	line += " " + st.Status.String()
	if st.Wait != (kernel.WaitReason{}) {
		line += " (" + st.Wait.Kind.String() + ": " + st.Wait.Detail + ")"
	}
	if st.Status == kernel.Running {
		line += fmt.Sprintf(" attempt=%d", st.Attempt)
	}
	if !st.Stop.At.IsZero() && st.Status == kernel.Running {
		line += " stopping"
	}
	if st.Exit.Known {
		line += fmt.Sprintf(" exit=%d", st.Exit.Code)
	}
	if st.Failure != kernel.NoFailure {
		line += " class=" + st.Failure.String()
	}
	if !st.RetryAt.IsZero() {
		line += " again=+" + st.RetryAt.Sub(st.Finished).Round(time.Second).String()
	}
	return line
}

func labels(in []kernel.Artifact) string {
	out := make([]string, len(in))
	for i, a := range in {
		out[i] = a.String()
	}
	return strings.Join(out, "; ")
}

func (w *stage) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

package proptest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// store does with a plan what a store does, in the simplest way: records by id, a
// state only over the revision it was decided on, markers by artifact.
type store struct {
	jobs    map[kernel.JobID]kernel.Job
	markers map[kernel.Artifact][]kernel.JobID // known ones only
}

func newStore(s *kernel.Snapshot) store {
	st := store{jobs: map[kernel.JobID]kernel.Job{}, markers: map[kernel.Artifact][]kernel.JobID{}}
	for _, j := range s.Jobs() {
		st.jobs[j.ID] = *j
	}
	for a, f := range s.Facts().Markers {
		if f.Known {
			st.markers[a] = slices.Compact(slices.Sorted(slices.Values(f.Value)))
		}
	}
	return st
}

func (st store) do(actions []kernel.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case kernel.CreateJob:
			if _, taken := st.jobs[a.Job.ID]; !taken {
				st.jobs[a.Job.ID] = *a.Job
			}
		case kernel.PutState:
			if j, ok := st.jobs[a.Job]; ok && j.Rev == a.If {
				j.State, j.Rev = a.State, a.If+1
				st.jobs[a.Job] = j
			}
		case kernel.RemoveJob:
			delete(st.jobs, a.Job)
			st.mark(a.Job, a.Produces, false)
		case kernel.PurgeFiles:
			st.mark(a.Job, a.Produces, false)
		case kernel.Publish:
			st.mark(a.Attempt.Job, a.Artifacts, true)
		case kernel.Reset:
			st.mark(a.Attempt.Job, a.Produces, false)
		}
	}
}

func (st store) mark(id kernel.JobID, artifacts []kernel.Artifact, exists bool) {
	for _, a := range artifacts {
		owners, known := st.markers[a]
		if !known {
			continue
		}
		owners = slices.DeleteFunc(slices.Clone(owners), func(o kernel.JobID) bool { return o == id })
		if exists {
			owners = append(owners, id)
			slices.Sort(owners)
		}
		st.markers[a] = owners
	}
}

// same compares two stores; revisions count only where asked.
func (st store) same(u store, revisions bool) bool {
	if len(st.jobs) != len(u.jobs) || len(st.markers) != len(u.markers) {
		return false
	}
	for id, j := range st.jobs {
		k, ok := u.jobs[id]
		if !ok || j.State != k.State || revisions && j.Rev != k.Rev || !reflect.DeepEqual(j.Spec, k.Spec) || !j.Created.Equal(k.Created) {
			return false
		}
	}
	for a, owners := range st.markers {
		if !slices.Equal(owners, u.markers[a]) {
			return false
		}
	}
	return true
}

// observed returns o with an answer to every probe, so that verbs find nothing left
// to ask.
func observed(o kernel.Observation) kernel.Observation {
	f := o.Facts
	o.Facts = kernel.NewFacts()
	o.Facts = ask(kernel.NewSnapshot(o), f).Facts()
	return o
}

// ask returns s with its probes answered from f.
func ask(s *kernel.Snapshot, f kernel.Facts) *kernel.Snapshot {
	for range 4 {
		p := s.Probes()
		if p.Empty() {
			break
		}
		s = s.WithFacts(answers(p, f))
	}
	return s
}

// answers answers p from f. What f does not know is answered with an error.
func answers(p kernel.Probes, f kernel.Facts) kernel.Facts {
	out := kernel.NewFacts()
	for _, a := range p.Artifacts {
		out.Present[a] = known(f.Present[a])
	}
	for _, a := range p.Markers {
		out.Markers[a] = known(f.Markers[a])
	}
	for _, b := range p.Branches {
		out.Heads[b] = known(f.Heads[b])
	}
	for _, a := range p.Attempts {
		out.Runners[a], out.Results[a] = known(f.Runners[a]), known(f.Results[a])
	}
	if p.Head {
		out.Head = known(f.Head)
	}
	if p.Clean {
		out.Clean = known(f.Clean)
	}
	if p.Sandbox {
		out.Sandbox = known(f.Sandbox)
	}
	if p.Merging {
		out.Merging = known(f.Merging)
	}
	return out
}

func known[T any](f kernel.Fact[T]) kernel.Fact[T] {
	if !f.Known && f.Err == "" {
		return kernel.Unseen[T]("no answer")
	}
	return f
}

// launches returns the attempts a plan starts.
func launches(p kernel.Plan) map[kernel.JobID]int {
	out := map[kernel.JobID]int{}
	for _, a := range p.Actions() {
		if l, ok := a.(kernel.Launch); ok {
			out[l.Attempt.Job] = l.Attempt.N
		}
	}
	return out
}

// The generator must produce the situations that the laws are about.
func TestWorldsAreInteresting(t *testing.T) {
	seen := map[string]int{}
	for i := range 2000 {
		s := kernel.NewSnapshot(World.Example(i))
		p := kernel.Decide(s)
		for _, j := range s.Apply(p).Jobs() {
			if j.State.Status == kernel.FailedRetryable { // most of them are due later, so there is no decision about them
				seen[j.State.Status.String()]++
			}
		}
		for _, d := range p.Decisions {
			seen[d.Next.String()]++
			if d.Reason.Kind != kernel.NoWait {
				seen[d.Reason.Kind.String()]++
			}
			if strings.HasPrefix(d.Reason.Detail, anotherRun) {
				seen["branch"]++
			}
		}
		for _, a := range p.Actions() {
			seen[reflect.TypeOf(a).Name()]++
		}
	}
	for _, want := range []string{"running", "waiting_on_deps", "waiting_on_approval", "waiting_on_locks", "failed_retryable", "unscheduled",
		"succeeded", "failed", "cancelled", "blocked_by_dependency", "blocked_by_approval",
		"dependencies", "pinned_head", "preconditions", "approval", "branch", "locks", "Launch", "Sweep", "Rotate", "Publish", "PutState"} {
		if seen[want] < 15 {
			t.Errorf("%s: %d times in 2000 worlds", want, seen[want])
		}
	}
}

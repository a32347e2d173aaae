package proptest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

// Wakes has every time and every fact by which a job can start: a resident scheduler
// sleeps until then, and nothing else would notice. An exception is a token that a job
// is going to make: that job's end is noticed.
func TestWhatTimeOrAFactStartsIsInWakes(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		o := observed(World.Draw(t, "world"))
		s := kernel.NewSnapshot(o)
		for range 3 {
			s = ask(s.Apply(kernel.Decide(s)), o.Facts)
		}
		w := s.Wakes()
		o = kernel.Observation{Now: s.Now(), Limits: s.Limits(), Facts: s.Facts(), Unreadable: o.Unreadable}
		for _, j := range s.Jobs() {
			o.Jobs = append(o.Jobs, *j)
		}
		if starts(o) != "" { // it is not at rest
			t.Skip()
		}

		later := o
		later.Now = s.Now().Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second)
		if id := starts(later); id != "" {
			seen["time"]++
			if !w.Poll && (w.At.IsZero() || later.Now.Before(w.At)) {
				t.Fatalf("%s starts at %v by the clock alone, and %+v does not say so", id, later.Now, w)
			}
		}

		other := o
		what := oneOf(t, "news", "artifact", "token", "head", "checked out", "clean")
		a, b := oneOf(t, "of", artifacts...), oneOf(t, "branch", branches...)
		told := false
		switch f := &other.Facts; what {
		case "artifact":
			f.Present = maps.Clone(f.Present)
			f.Present[a] = kernel.Seen(true)
			told = slices.Contains(w.Outside.Artifacts, a)
		case "token":
			f.Markers = maps.Clone(f.Markers)
			f.Markers[a] = kernel.Seen([]kernel.JobID{oneOf(t, "owner", jobIDs...)})
			told = slices.Contains(w.Outside.Markers, a) || slices.ContainsFunc(s.Jobs(), func(j *kernel.Job) bool {
				return slices.Contains(j.Spec.Produces, a) && (j.State.Status.Active() || j.State.Status == kernel.Unscheduled)
			})
		case "head":
			f.Heads = maps.Clone(f.Heads)
			f.Heads[b] = kernel.Seen(oneOf(t, "commit", commits...))
			told = slices.Contains(w.Outside.Branches, b)
		case "checked out":
			f.Head = kernel.Seen(b)
			told = w.Outside.Head
		case "clean":
			f.Clean = kernel.Seen(true)
			told = w.Outside.Clean
		}
		if id := starts(other); id != "" {
			seen[what]++
			if !told && !w.Poll {
				t.Fatalf("%s starts by another %s (%s, %s), and %+v does not say so", id, what, a, b, w)
			}
		}
	})
	for _, what := range []string{"time", "artifact", "token", "head", "clean"} {
		if seen[what] == 0 {
			t.Logf("no world in which %s starts a job", what)
		}
	}
}

// starts returns a job that a tick on o starts, or whose approval expires in it. It
// returns "" if there is none, or if the tick also changes jobs that wait neither for
// time nor for the world.
func starts(o kernel.Observation) kernel.JobID {
	var id kernel.JobID
	for _, d := range kernel.Decide(kernel.NewSnapshot(o)).Decisions {
		switch {
		case d.From == kernel.WaitingOnApproval && d.Next == kernel.BlockedByApproval:
			id = d.Job
		case d.From != kernel.WaitingOnDeps && d.From != kernel.Queued && d.From != kernel.FailedRetryable:
			return ""
		case d.Next == kernel.Running:
			id = d.Job
		}
	}
	return id
}

package retention_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

func ownsTree(j *kernel.Job) {
	j.State.Context = kernel.Context{Root: "w", Worktree: "w", Name: "n", Branch: "draft/x", Owned: true}
}

func ephemeral(j *kernel.Job) { j.Spec.Origin.Ephemeral = true }

// Original 1.7: a clean takes the run of its job, or the job; what is active
// forbids it for good, what outside depends on it unless by force.
func TestCleanGuards(t *testing.T) {
	const x = "custom:t:x"
	done := is(kernel.Succeeded)
	for _, c := range []struct {
		name  string
		jobs  []kernel.Job
		gone  string // of a clean of a; "" : refused; "-" : nothing yet
		force string // the same by force
		why   string
	}{
		{"a job alone", []kernel.Job{job("a", done), job("b", done)}, "a", "a", ""},
		{"its run", []kernel.Job{job("a", done, inRun("r")), job("b", is(kernel.Failed), inRun("r")), job("c", done)}, "a b", "a b", ""},
		{"a sleeper", []kernel.Job{job("a", done, inRun("r")), job("b", is(kernel.Unscheduled), inRun("r"))}, "a b", "a b", ""},
		{"itself active", []kernel.Job{job("a", running(1))}, "", "", "job a is running"},
		{"a member active", []kernel.Job{job("a", done, inRun("r")), job("b", is(kernel.FailedRetryable), inRun("r"))}, "", "", "job b is failed_retryable"},
		{"an active job after it", []kernel.Job{job("a", done), job("b", after("a"))}, "", "a", "job b, which is queued, runs after a"},
		{"an ended job after it", []kernel.Job{job("a", done), job("b", done, after("a"))}, "a", "a", ""},
		{"its artifact", []kernel.Job{job("a", done, produces(x)), job("b", needs(x))}, "", "a", "job b, which is queued, needs " + x},
		{"an artifact of others too", []kernel.Job{job("a", done, produces(x)), job("b", needs(x)), job("c", done, produces(x))}, "a", "a", ""},
		{"an artifact that else only comes after its user", []kernel.Job{job("a", done, produces(x)), job("b", needs(x)), job("c", after("b"), produces(x))}, "", "a", "jobs would wait for each other in a cycle: b -> c -> b (b needs " + x + " of c); enqueue another job that makes " + x + " first"},
		{"an artifact that also comes after its user", []kernel.Job{job("a", done, produces(x)), job("b", needs(x)), job("c", after("b"), produces(x)), job("d", produces(x))}, "a", "a", ""},
		{"its patch", []kernel.Job{job("a", done), job("b", needs("command_patch:a"))}, "", "a", "needs the patch of a"},
		{"a worktree left", []kernel.Job{job("a", done, inRun("r"), ownsTree), job("b", done, inRun("r"))}, "-", "a b", ""},
		{"a worktree left of another run", []kernel.Job{job("a", done), job("b", done, inRun("q"), ownsTree)}, "a", "a", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := facts()
			f.Markers[artifacts(x)[0]] = kernel.Seen(ids("a"))
			s := snapshot(f, c.jobs...)
			for force, want := range map[bool]string{false: c.gone, true: c.force} {
				p, err := retention.Clean(s, ids("a"), force)
				var gone []kernel.JobID
				for _, r := range actionsOf[kernel.RemoveJob](p) {
					gone = append(gone, r.Job)
				}
				if got := words(gone); got != strings.Trim(want, "-") {
					t.Errorf("force %t: %q went, want %q", force, got, want)
				}
				if (want == "") != errors.Is(err, kernel.ErrConflict) || want == "" && !strings.Contains(err.Error(), c.why) {
					t.Errorf("force %t: %v, want %q", force, err, c.why)
				}
				_, again := retention.CleanWorktrees(s, ids("a"), force)
				if (again == nil) != (err == nil) {
					t.Errorf("force %t: worktrees %v, records %v", force, again, err)
				}
			}
		})
	}
	if _, err := retention.Clean(snapshot(facts()), ids("a"), true); !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("no such job: %v", err)
	}
}

func ids(all ...kernel.JobID) []kernel.JobID { return all }

// Several jobs go at once, with the runs of those that have one, or none of them does.
func TestCleanOfSeveral(t *testing.T) {
	done := is(kernel.Succeeded)
	s := snapshot(facts(), job("a", done), job("b", done, after("a")), job("c", done, inRun("r")), job("d", done, inRun("r")), job("e", done), job("f", after("e")))
	set, err := retention.CleanOf(s, ids("b", "a", "c"), false)
	if got := words(set.Jobs); err != nil || got != "a b c d" {
		t.Errorf("%s, %v", got, err)
	}
	if p, err := retention.Clean(s, ids("a", "e"), false); !errors.Is(err, kernel.ErrConflict) || !p.Empty() {
		t.Errorf("%+v, %v", p, err)
	}
}

// What is blocked behind the set can never start again: it is named, and forbids nothing.
func TestCleanNamesWhatItStrands(t *testing.T) {
	const x = "custom:t:x"
	done, blocked := is(kernel.Succeeded), is(kernel.BlockedByDependency)
	retired := func(j *kernel.Job) { j.State.Retired = true }
	waits := func(j *kernel.Job) { j.Spec.MissingProducer = kernel.Wait }
	s := snapshot(facts(), job("a", is(kernel.Failed), produces(x), inRun("r")), job("b", blocked, after("a"), inRun("r")), job("c", blocked, after("a")), job("d", blocked, needs(x)),
		job("e", blocked, after("d")), job("f", done, after("a")), job("g", blocked, after("a"), retired),
		job("h", blocked, needs(x), waits), job("i", blocked, needs(x), waits, after("a")))
	for _, force := range []bool{false, true} {
		set, err := retention.CleanOf(s, ids("a"), force)
		if got := words(set.Stranded); err != nil || got != "c d i" {
			t.Errorf("force %t: %s, %v", force, got, err)
		}
	}
}

// A job for which any end of another will do has what it needs once that one has ended: it starts without its record.
// One that sleeps has not ended.
func TestCleanLeavesWhatComesAfterAnyEnd(t *testing.T) {
	anyEnd := func(ids ...kernel.JobID) option {
		return func(j *kernel.Job) { j.Spec.After, j.Spec.AfterAny = append(j.Spec.After, ids...), ids }
	}
	for status, want := range map[kernel.Status]string{kernel.Failed: "d", kernel.Succeeded: "d", kernel.Unscheduled: "c d"} {
		s := snapshot(facts(), job("a", is(status)), job("b", is(kernel.Failed)),
			job("c", is(kernel.BlockedByDependency), after("b"), anyEnd("a")), job("d", is(kernel.BlockedByDependency), after("a"), anyEnd("b")))
		set, err := retention.CleanOf(s, ids("a"), false)
		if got := words(set.Stranded); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", status, got, err, want)
		}
		s = snapshot(facts(), job("a", is(status)), job("c", is(kernel.WaitingOnApproval), anyEnd("a")))
		if _, err := retention.CleanOf(s, ids("a"), false); (err == nil) != (want == "d") {
			t.Errorf("%s: %v", status, err)
		}
	}
}

// Worktrees go before the records that tell of them, and the manifest goes with
// the last job of the run.
func TestCleanInTwoHalves(t *testing.T) {
	s := snapshot(facts(), job("a", is(kernel.Succeeded), inRun("r"), ownsTree), job("b", is(kernel.Succeeded), inRun("r")))
	p, err := retention.CleanWorktrees(s, ids("b"), false)
	trees := actionsOf[kernel.RemoveWorktree](p)
	if err != nil || len(trees) != 1 || len(p.Actions()) != 1 || trees[0].Job != "a" {
		t.Fatalf("%+v %v", p, err)
	}
	for _, c := range []struct {
		status kernel.CleanupStatus
		jobs   int
		runs   int
	}{{kernel.CleanupDone, 2, 1}, {kernel.CleanupFailed, 0, 0}} {
		cleaned, err := kernel.CleanedUp(s, trees[0], kernel.Cleanup{Status: c.status})
		if err != nil {
			t.Fatal(err)
		}
		p, err := retention.Clean(s.Apply(cleaned), ids("b"), false)
		if jobs, runs := len(actionsOf[kernel.RemoveJob](p)), len(actionsOf[kernel.RemoveRun](p)); err != nil || jobs != c.jobs || runs != c.runs {
			t.Errorf("%s: %d jobs and %d manifests, %v", c.status, jobs, runs, err)
		}
	}
}

// A garbage collection takes the manifest with the last job, and keeps it while
// some record cannot be read.
func TestGCRemovesManifests(t *testing.T) {
	jobs := []kernel.Job{job("a", is(kernel.Failed), inRun("r")), job("b", is(kernel.Failed), inRun("q")), job("c", inRun("q")), job("d", is(kernel.Failed))}
	for why, want := range map[string]int{"": 1, "not JSON": 0} {
		o := kernel.Observation{Now: t0.AddDate(0, 0, 9), Jobs: jobs, Facts: facts()}
		if why != "" {
			o.Unreadable = map[kernel.JobID]string{"z": why}
		}
		runs := actionsOf[kernel.RemoveRun](retention.GC(kernel.NewSnapshot(o), 0))
		if len(runs) != want || want == 1 && runs[0].Run != "r" {
			t.Errorf("unreadable %q: %+v", why, runs)
		}
	}
}

// An ephemeral run can be removed when it is over, nobody waits for it, and no
// worktree of it defied removal.
func TestEndedEphemeralRuns(t *testing.T) {
	of := func(o ...option) []option { return append(o, inRun("r"), ephemeral) }
	stuck := func(j *kernel.Job) { j.State.Retried = kernel.Cleanup{Status: kernel.CleanupFailed} }
	itself := func(j *kernel.Job) {
		j.State.Status, j.State.Outcome = kernel.BlockedByDependency, kernel.OutcomeBlocked
	}
	resolver := func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeBlocked, To: "b"}} }
	merged := func(j *kernel.Job) { j.State.Retired = true }
	for _, c := range []struct {
		name string
		jobs []kernel.Job
		want string
	}{
		{"over", []kernel.Job{job("a", of(is(kernel.Succeeded))...), job("b", of(is(kernel.BlockedByDependency))...)}, "r"},
		{"under way", []kernel.Job{job("a", of(is(kernel.Succeeded))...), job("b", of(running(1))...)}, ""},
		{"awaited", []kernel.Job{job("a", of(is(kernel.Succeeded))...), job("b", after("a"))}, ""},
		{"blocked until a person sees to it", []kernel.Job{job("a", of(is(kernel.Succeeded))...), job("b", of(itself)...)}, ""},
		{"its resolver needs a person", []kernel.Job{job("a", of(itself, resolver)...), job("b", of(itself)...)}, ""},
		{"merged by another", []kernel.Job{job("a", of(itself, merged)...)}, "r"},
		{"in doubt", []kernel.Job{job("a", of(is(kernel.Failed), func(j *kernel.Job) { j.State.Failure = kernel.EffectInDoubt })...)}, ""},
		{"failed for good", []kernel.Job{job("a", of(is(kernel.Failed))...), job("b", of(is(kernel.BlockedByApproval))...)}, "r"},
		{"stuck", []kernel.Job{job("a", of(is(kernel.Succeeded), stuck)...)}, ""},
		{"to be kept", []kernel.Job{job("a", is(kernel.Succeeded), inRun("r"))}, ""},
	} {
		got := ""
		for _, set := range retention.EndedEphemeralRuns(snapshot(facts(), c.jobs...)) {
			got += string(set.Run)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

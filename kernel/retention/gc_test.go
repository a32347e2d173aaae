package retention_test

import (
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// gone lists what a GC removes.
func gone(s *kernel.Snapshot, olderThan time.Duration) string {
	var ids []kernel.JobID
	for _, r := range actionsOf[kernel.RemoveJob](retention.GC(s, olderThan)) {
		ids = append(ids, r.Job)
	}
	return words(ids)
}

// Seed 000, "GC safety", and I13.
func TestGC(t *testing.T) {
	old, fresh := finishedAt(t0.Add(-48*time.Hour)), finishedAt(t0)
	done := is(kernel.Succeeded)
	for _, st := range kernel.Statuses() {
		if got := gone(snapshot(facts(), job("a", is(st), old)), 24*time.Hour); (got == "a") != (st.Terminal() || st == kernel.Unscheduled) {
			t.Errorf("%s: %q", st, got)
		}
	}
	// A sleeper stays while its run is under way.
	inRun := func(j *kernel.Job) { j.Spec.Origin.Run = "r" }
	for st, want := range map[kernel.Status]string{kernel.Running: "", kernel.Failed: "a b"} {
		if got := gone(snapshot(facts(), job("a", is(kernel.Unscheduled), old, inRun), job("b", is(st), old, inRun)), 24*time.Hour); got != want {
			t.Errorf("sleeper beside a %s job: %q", st, got)
		}
	}
	const x, token = "custom:t:x", "custom:stage_token:approve:p"
	retired := func(j *kernel.Job) { j.State.Retired = true }
	stops := func(j *kernel.Job) { j.Spec.FailureMode = kernel.BlockDownstream }
	conflict := func(j *kernel.Job) {
		j.State.Status, j.State.Outcome = kernel.BlockedByDependency, kernel.OutcomeBlocked
	}
	in := func(run kernel.RunID) option { return func(j *kernel.Job) { j.Spec.Origin.Run = run } }
	merges := func(plan string) option {
		return func(j *kernel.Job) {
			j.Spec.Origin = kernel.Origin{Run: "r", Plan: plan, About: kernel.NodeInfo{Operation: "git.integrate_plan_branch"}}
		}
	}
	for _, c := range []struct {
		name, want string
		facts      kernel.Facts
		jobs       []kernel.Job
	}{
		{"too young", "", facts(), []kernel.Job{job("a", done, fresh)}},
		{"never ran: its creation counts", "a", facts(), []kernel.Job{job("a", is(kernel.BlockedByDependency), func(j *kernel.Job) { j.Created = t0.AddDate(0, 0, -9) }), job("b", is(kernel.Cancelled))}},
		{"predecessor of an open job", "a", facts(), []kernel.Job{job("a", done, old), job("b", done, old), job("c", is(kernel.Running), after("b"))}},
		{"predecessor of a terminal job", "a b", facts(), []kernel.Job{job("a", done, old), job("b", done, old, after("a"))}},
		{"patch of an open job", "", facts(), []kernel.Job{job("a", done, old), job("q", needs("command_patch:a"))}},
		{"newest producer", "a", marked(facts(), x), []kernel.Job{job("a", done, old, produces(x)), job("b", done, old, produces(x)), job("q", needs(x))}},
		{"every marker", "c", marked(facts(), x, "a", "b"), []kernel.Job{job("a", done, old, produces(x)), job("b", done, old, produces(x)), job("c", done, old), job("q", needs(x))}},
		{"producers whose markers cannot be seen", "d", facts(), []kernel.Job{job("a", done, old, produces(x)), job("b", done, old, produces(x)), job("c", is(kernel.Failed), old, produces(x)), job("d", done, old), job("q", needs(x))}},
		{"just as old as that", "", facts(), []kernel.Job{job("a", done, finishedAt(t0.Add(-23*time.Hour)))}},
		{"a success beside a newer failure", "", marked(facts(), x), []kernel.Job{job("a", done, old, produces(x)), job("b", is(kernel.Failed), old, produces(x)), job("q", needs(x))}},
		{"what a route may rewind", "d", facts(), []kernel.Job{job("a", done, old), job("b", done, old), job("c", done, old, after("a", "b")), job("d", done, old),
			job("q", func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{To: "b"}} })}},
		{"a run of which one stays", "c", marked(facts(), x), []kernel.Job{job("a", done, old, inRun, produces(x)), job("b", is(kernel.Failed), old, inRun), job("c", done, old), job("q", needs(x))}},
		{"a run of which one is young", "c", facts(), []kernel.Job{job("a", is(kernel.Failed), old, inRun), job("b", done, fresh, inRun), job("c", done, old)}},
		{"what the sleeper of such a run refers to", "", marked(facts(), x), []kernel.Job{job("a", done, old, inRun, produces(x)), job("s", is(kernel.Unscheduled), old, inRun, after("c")), job("c", done, old), job("q", needs(x))}},
		{"the newest token of a plan", "a d e f", facts(), []kernel.Job{job("a", done, old, produces(token)), job("b", done, old, produces(token)), job("c", done, old, produces("custom:stage_token:approve:q")),
			job("d", is(kernel.Failed), old, produces(token)), job("e", done, old, produces("custom:other:approve:p")), job("f", done, old, produces(token), retired)}},
		{"a merge in conflict, with its run", "c d e", facts(), []kernel.Job{job("a", conflict, old, merges("p")), job("b", done, old, inRun), job("c", is(kernel.BlockedByDependency), old, merges("q"), in("s")),
			job("d", conflict, old, merges("r"), in("t")), job("e", done, old, merges("r"), in("u")), job("f", conflict, old, merges("r"), in("v"))}},
		{"the failures of a run that stops at the first one", "", facts(), []kernel.Job{job("a", is(kernel.Failed), old, inRun, stops), job("b", done, old, inRun, stops), job("c", inRun, stops)}},
		{"route target", "", facts(), []kernel.Job{job("a", done, old), job("q", func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{To: "a"}} })}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := gone(snapshot(c.facts, c.jobs...), 24*time.Hour); got != c.want {
				t.Errorf("removes %q, want %q", got, c.want)
			}
		})
	}
	s := snapshot(marked(facts(), x, "a"), job("a", done, old, produces(x)))
	if next := s.Apply(retention.GC(s, 0)); len(next.Jobs()) > 0 || len(next.Facts().Markers[artifacts(x)[0]].Value) > 0 {
		t.Errorf("%v is left", next.Jobs())
	}
}

// A sleeper that demand would wake is no litter, whoever else makes the same.
func TestGCKeepsASleeperThatIsNeeded(t *testing.T) {
	sleeper := job("a-sleeper", is(kernel.Unscheduled), func(j *kernel.Job) { j.Spec.Transient = kernel.OnDemand }, produces("custom:tok:a"), inRun("r1"))
	s := snapshot(marked(facts(), "custom:tok:a"), sleeper, job("b-maker", produces("custom:tok:a")), job("c-consumer", needs("custom:tok:a")))
	if p := retention.GC(s, 0); !p.Empty() {
		t.Errorf("%+v goes", p.Records)
	}
	if p := retention.GC(snapshot(facts(), sleeper), 0); p.Empty() {
		t.Error("one that nobody needs stays")
	}
}

// The verbs on record are the functions by their names.
func TestVerbsOnRecord(t *testing.T) {
	owns := func(j *kernel.Job) { j.State.Context = kernel.Context{Root: "w", Worktree: "/w", Owned: true} }
	s := snapshot(facts(), job("a", is(kernel.Succeeded), finishedAt(t0.Add(-48*time.Hour))), job("b", is(kernel.Failed), finishedAt(t0.Add(-48*time.Hour)), owns), job("c", is(kernel.Succeeded), finishedAt(t0)))
	of := func(p kernel.Plan, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var ids []kernel.JobID
		for _, a := range actionsOf[kernel.RemoveJob](p) {
			ids = append(ids, a.Job)
		}
		text := words(ids)
		for _, a := range p.World {
			if a, is := a.(kernel.RemoveWorktree); is {
				text += " worktree of " + string(a.Job)
			}
		}
		return text
	}
	for _, c := range []struct{ got, want string }{
		{of(retention.Old{Than: 24 * time.Hour}.Decide(s)), "a"}, {of(retention.Old{Than: 24 * time.Hour, Worktrees: true}.Decide(s)), " worktree of b"},
		{of(retention.Cleaning{Jobs: []kernel.JobID{"c"}}.Decide(s)), "c"}, {of(retention.Cleaning{Jobs: []kernel.JobID{"b", "c"}, Worktrees: true}.Decide(s)), " worktree of b"},
		{of(retention.Keeping{Policy: retention.Policy{Age: 24 * time.Hour}}.Decide(s)), "a"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	for _, v := range []interface{ Scope() kernel.Scope }{retention.Old{}, retention.Cleaning{}, retention.Keeping{}} {
		if !v.Scope().All {
			t.Errorf("%T does not read every record", v)
		}
	}
}

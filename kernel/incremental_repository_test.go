package kernel_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// An incremental tick judges the jobs that read what has changed in the
// repository, and no others.
func TestATickThatRemembersSeesTheRepositoryChange(t *testing.T) {
	branch := func(name string) kernel.Precondition {
		return kernel.Precondition{Kind: kernel.BranchExists, Branch: name}
	}
	seen := func(change func(*kernel.Facts)) kernel.Facts {
		f := facts()
		f.Clean, f.Head = kernel.Seen(false), kernel.Seen("other")
		f.Heads["main"], f.Heads["new"], f.Heads["old"] = kernel.Seen(kernel.CommitID("c1")), kernel.Seen(kernel.CommitID("")), kernel.Unseen[kernel.CommitID]("no answer")
		f.Present[artifact("plan_doc:p (draft/p)")] = kernel.Seen(false)
		f.Markers[artifact("custom:t:k")] = kernel.Seen[[]kernel.JobID](nil)
		if change != nil {
			change(&f)
		}
		return f
	}
	jobs := []kernel.Job{
		job("moves", pinned("main", "c2")),
		job("appears", pre(branch("new"))),
		job("answers", pre(branch("old"))),
		job("clean", pre(kernel.Precondition{Kind: kernel.CleanWorktree})),
		job("checked-out", pre(branch(""))),
		job("exists", needs("plan_doc:p (draft/p)"), policy(kernel.Wait)),
		job("marked", needs("custom:t:k"), policy(kernel.Wait)),
	}
	for name, change := range map[kernel.JobID]func(*kernel.Facts){
		"moves":       func(f *kernel.Facts) { f.Heads["main"] = kernel.Seen(kernel.CommitID("c2")) },
		"appears":     func(f *kernel.Facts) { f.Heads["new"] = kernel.Seen(kernel.CommitID("c1")) },
		"answers":     func(f *kernel.Facts) { f.Heads["old"] = kernel.Seen(kernel.CommitID("c1")) },
		"clean":       func(f *kernel.Facts) { f.Clean = kernel.Seen(true) },
		"checked-out": func(f *kernel.Facts) { f.Head = kernel.Seen("main") },
		"exists":      func(f *kernel.Facts) { f.Present[artifact("plan_doc:p (draft/p)")] = kernel.Seen(true) },
		"marked":      func(f *kernel.Facts) { f.Markers[artifact("custom:t:k")] = kernel.Seen([]kernel.JobID{"z"}) },
	} {
		s := snapshot(seen(nil), jobs...)
		s = s.Apply(kernel.Decide(s)).WithFacts(s.Facts())
		if p := kernel.Decide(s); !p.Empty() {
			t.Fatalf("before anything changes: %+v", p.Actions())
		}
		s = s.WithFacts(seen(change))
		started := actionsOf[kernel.Launch](kernel.Decide(s))
		if len(started) != 1 || started[0].Attempt.Job != name {
			t.Errorf("%s: started %v", name, started)
		}
	}
}

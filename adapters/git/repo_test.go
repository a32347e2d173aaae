package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

func artifact(kind kernel.ArtifactKind, name, ref string) kernel.Artifact {
	return kernel.Artifact{Kind: kind, Name: name, Ref: ref}.Canonical()
}

func TestObserve(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		f := newFixture(t)
		base := f.commit("file", "x")
		f.git("switch", "--quiet", "--create", "draft/a")
		tip := f.commit(planDoc("a"), "# plan")
		f.git("switch", "--quiet", "main")
		f.write("new", "x")
		r := open(f.root())
		var (
			branch, commits = artifact(kernel.PlanBranch, "a", ""), artifact(kernel.PlanCommits, "a", "")
			doc, docOnMain  = artifact(kernel.PlanDoc, "a", ""), artifact(kernel.PlanDoc, "a", "main")
			docNowhere      = artifact(kernel.PlanDoc, "a", "missing")
			climbing        = artifact(kernel.PlanDoc, "../../file", "main")
			none            = artifact(kernel.PlanBranch, "b", "")
			target          = artifact(kernel.TargetBranch, "main", "")
			others          = []kernel.Artifact{artifact(kernel.MergeSentinel, "a", ""), artifact(kernel.CommandPatch, "a", "")}
		)
		got := kernel.NewFacts()
		r.Observe(t.Context(), kernel.Probes{
			Artifacts: append(others, branch, commits, doc, docOnMain, docNowhere, climbing, none, target),
			Branches:  []string{"main", "draft/a", "missing", "-x"},
			Head:      true, Clean: true, Merging: true,
		}, &got)
		want := kernel.NewFacts()
		for a, present := range map[kernel.Artifact]bool{branch: true, commits: true, doc: true, docOnMain: false,
			docNowhere: false, climbing: false, none: false, target: true} {
			want.Present[a] = kernel.Seen(present)
		}
		for b, id := range map[string]kernel.CommitID{"main": base, "draft/a": tip, "missing": "", "-x": ""} {
			want.Heads[b] = kernel.Seen(id)
		}
		want.Head, want.Clean, want.Merging = kernel.Seen("main"), kernel.Seen(false), kernel.Seen("")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
	})
}

func TestObserveNothingAsked(t *testing.T) {
	f := newFixture(t)
	r := Open(f.root())
	r.Backend = r.cli
	n := counting(r.cli)
	got := kernel.NewFacts()
	r.Observe(t.Context(), kernel.Probes{Artifacts: []kernel.Artifact{artifact(kernel.CommandPatch, "a", "")}}, &got)
	if diff := cmp.Diff(kernel.NewFacts(), got); diff != "" || n.Load() != 0 {
		t.Errorf("%d processes, facts (-want +got):\n%s", n.Load(), diff)
	}
}

func TestObserveUnseen(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		f := newFixture(t)
		f.commit("file", "x")
		r := open(f.root())
		if err := os.Rename(f.path(".git"), f.path("../gone")); err != nil {
			t.Fatal(err)
		}
		got := kernel.NewFacts()
		doc := artifact(kernel.PlanDoc, "a", "")
		r.Observe(t.Context(), kernel.Probes{Artifacts: []kernel.Artifact{doc}, Branches: []string{"main"}, Head: true, Clean: true}, &got)
		for name, err := range map[string]string{"doc": got.Present[doc].Err, "branch": got.Heads["main"].Err, "head": got.Head.Err, "clean": got.Clean.Err} {
			if !strings.Contains(err, "not a git repository") {
				t.Errorf("%s: error %q", name, err)
			}
		}
	})
}

// One question or thousands: the same number of git processes.
func TestObserveIsBatched(t *testing.T) {
	const many = 1000
	f := newFixture(t)
	tip := f.commit("file", "x")
	var tree, refs strings.Builder
	blob := f.rev("HEAD:file")
	var names []string
	for i := range many {
		name := fmt.Sprintf("n%04d", i)
		names = append(names, name)
		fmt.Fprintf(&refs, "create refs/heads/draft/%s %s\n", name, tip)
		if i%2 == 0 {
			fmt.Fprintf(&tree, "100644 blob %s\t%s\n", blob, planDoc(name))
		}
	}
	f.feed(tree.String(), "update-index", "--index-info")
	f.git("commit", "--quiet", "-m", "plans")
	with := f.rev("HEAD")
	f.feed(strings.ReplaceAll(refs.String(), string(tip), string(with)), "update-ref", "--stdin")

	processes := func(n int) int64 {
		r := Open(f.root())
		r.Backend = r.cli
		count := counting(r.cli)
		p := kernel.Probes{Head: true, Clean: true, Merging: true}
		for _, name := range append(names[:n:n], "missing") {
			p.Branches = append(p.Branches, "draft/"+name)
			p.Artifacts = append(p.Artifacts, artifact(kernel.PlanDoc, name, ""), artifact(kernel.PlanBranch, name, ""))
		}
		got := kernel.NewFacts()
		r.Observe(t.Context(), p, &got)
		for i, name := range names[:n] {
			if tip := got.Heads["draft/"+name]; tip != kernel.Seen(with) {
				t.Fatalf("branch %s: %+v", name, tip)
			}
			if doc := got.Present[artifact(kernel.PlanDoc, name, "")]; doc != kernel.Seen(i%2 == 0) {
				t.Fatalf("document %s: %+v", name, doc)
			}
		}
		if got.Heads["draft/missing"] != kernel.Seen(kernel.CommitID("")) {
			t.Errorf("missing branch: %+v", got.Heads["draft/missing"])
		}
		return count.Load()
	}
	if one, all := processes(1), processes(many); one != 3 || all != 3 {
		t.Errorf("%d git processes for one name, %d for %d; want 3", one, all, many)
	}
}

func TestOperation(t *testing.T) {
	conflict := func(op ...string) func(fixture) {
		return func(f fixture) {
			f.git("switch", "--quiet", "--create", "side")
			f.commit("file", "side")
			f.git("switch", "--quiet", "main")
			f.commit("file", "main")
			f.mayFail(op...)
		}
	}
	for _, c := range []struct {
		name, want string
		do         func(fixture)
	}{
		{"nothing", "", func(fixture) {}},
		{"merge", "merge", conflict("merge", "side")},
		{"cherry-pick", "cherry-pick", conflict("cherry-pick", "side")},
		{"rebase", "rebase", conflict("rebase", "side")},
		{"rebase by patches", "rebase", conflict("rebase", "--apply", "side")},
		{"revert", "revert", func(f fixture) {
			f.commit("file", "2")
			f.commit("file", "3")
			f.mayFail("revert", "--no-edit", "HEAD~1")
		}},
		{"between two picks", "cherry-pick", func(f fixture) {
			f.git("switch", "--quiet", "--create", "side")
			f.commit("file", "side")
			f.commit("other", "side")
			f.git("switch", "--quiet", "main")
			f.commit("file", "main")
			f.mayFail("cherry-pick", "side~1", "side")
			f.commit("file", "resolved")
		}},
		{"in another worktree", "", func(f fixture) {
			f.git("worktree", "add", "--quiet", "../w", "-b", "w")
			conflict("status")(f)
			w := f.in(f.path("../w"))
			w.commit("file", "w")
			w.mayFail("merge", "side")
			if got, err := operation(filepath.Join(f.path(".git"), "worktrees/w")); got != "merge" || err != nil {
				f.Fatalf("no merge there: %q, %v", got, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("file", "1")
			c.do(f)
			got := kernel.NewFacts()
			Open(f.root()).Observe(t.Context(), kernel.Probes{Merging: true}, &got)
			if got.Merging != kernel.Seen(c.want) {
				t.Errorf("got %+v, want %q\n%s", got.Merging, c.want, f.git("status"))
			}
		})
	}
}

func TestBranches(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		f := newFixture(t)
		one, two := f.commit("file", "1"), f.commit("file", "2")
		r, ctx := open(f.root()), t.Context()
		check := func(name string, want kernel.CommitID) {
			t.Helper()
			if heads, err := r.Heads(ctx, []string{name}); err != nil || heads[name] != want {
				t.Errorf("%s is at %v, %v; want %q", name, heads, err, want)
			}
		}
		must := func(err, want error) {
			t.Helper()
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("error %v, want %v", err, want)
			}
		}
		const name = "draft/ä-名"
		must(r.CreateBranch(ctx, name, one), nil)
		check(name, one)
		must(r.CreateBranch(ctx, name, two), ErrMoved)
		must(r.UpdateRef(ctx, "refs/heads/"+name, two, two), ErrMoved)
		must(r.UpdateRef(ctx, "refs/heads/missing", two, one), ErrMoved)
		check(name, one)
		must(r.UpdateRef(ctx, "refs/heads/"+name, two, one), nil)
		check(name, two)
		must(r.DeleteBranch(ctx, name, one), ErrMoved)
		check(name, two)
		must(r.DeleteBranch(ctx, "main", two), ErrCheckedOut)
		f.git("worktree", "add", "--quiet", f.path("../w"), name)
		must(r.DeleteBranch(ctx, name, two), ErrCheckedOut)
		f.git("worktree", "remove", f.path("../w"))
		must(r.DeleteBranch(ctx, name, two), nil)
		check(name, "")
		for _, bad := range []string{"-f", "a b", "", "x..y", "HEAD"} {
			if err := r.CreateBranch(ctx, bad, one); err == nil {
				t.Errorf("created %q", bad)
			}
		}
		for _, err := range []error{
			r.CreateBranch(ctx, "fine", nowhere), r.CreateBranch(ctx, "fine", "main"), r.DeleteBranch(ctx, "fine", ""),
			r.UpdateRef(ctx, "main", two, one), r.UpdateRef(ctx, "refs/heads/x\ncreate y", two, one), r.UpdateRef(ctx, "refs/heads/main", "", two),
		} {
			if err == nil || errors.Is(err, ErrMoved) {
				t.Errorf("error %v", err)
			}
		}
		check("main", two)
	})
}

// Deleting a branch never loses its commits.
func TestDeleteBranchParks(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		f := newFixture(t)
		base := f.commit("file", "x")
		f.git("switch", "--quiet", "--create", "draft/ä")
		lone := f.commit("lone", "y")
		f.git("switch", "--quiet", "main")
		f.git("branch", "same", string(base))
		r := open(f.root())
		var parked []Parked
		r.OnPark = func(p Parked) { parked = append(parked, p) }
		if err := r.DeleteBranch(t.Context(), "same", base); err != nil || len(parked) != 0 {
			t.Errorf("reachable from main: %v, %+v", err, parked)
		}
		if err := r.DeleteBranch(t.Context(), "draft/ä", base); !errors.Is(err, ErrMoved) || f.rev("draft/ä") != lone {
			t.Errorf("at another commit: %v", err)
		}
		if err := r.DeleteBranch(t.Context(), "draft/ä", lone); err != nil {
			t.Fatal(err)
		}
		want := []Parked{{Branch: "draft/ä", Ref: "refs/vizier/parked/draft---" + string(lone[:12]), Commit: lone}}
		if diff := cmp.Diff(want, parked); diff != "" || f.rev(want[0].Ref) != lone || f.git("branch", "--list", "draft/ä") != "" {
			t.Errorf("parked (-want +got):\n%s", diff)
		}
	})
}

// Of a symbolic ref only the name goes; the branch that it stands for and its commits stay.
func TestDeleteAnotherNameOfABranch(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		f := newFixture(t)
		f.commit("file", "x")
		f.git("switch", "--quiet", "--create", "work")
		lone := f.commit("lone", "y")
		f.git("switch", "--quiet", "main")
		f.git("symbolic-ref", "refs/heads/draft/one", "refs/heads/work")
		f.git("symbolic-ref", "HEAD", "refs/heads/draft/one")
		if err := open(f.root()).DeleteBranch(t.Context(), "draft/one", lone); !errors.Is(err, ErrCheckedOut) {
			t.Errorf("while it is checked out: %v", err)
		}
		f.git("symbolic-ref", "HEAD", "refs/heads/main")
		if err := open(f.root()).DeleteBranch(t.Context(), "draft/one", lone); err != nil {
			t.Fatal(err)
		}
		if all := f.git("for-each-ref", "--format=%(refname)"); all != "refs/heads/main\nrefs/heads/work" || f.rev("work") != lone {
			t.Errorf("left are %q", all)
		}
	})
}

// Parked work is named after its worktree or, without one, after its branch.
func TestParkedWorkInWords(t *testing.T) {
	for want, p := range map[string]Parked{
		"work of worktree /w that no branch has is kept as refs/x: ": {Worktree: "/w", Branch: "b", Ref: "refs/x"},
		"work of branch b that no branch has is kept as refs/x: ":    {Branch: "b", Ref: "refs/x"},
	} {
		if got := p.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// Where nothing is parked, no git is started to say so; where it cannot be seen, that is an error.
func TestNothingIsParked(t *testing.T) {
	for name, c := range map[string]struct {
		packed string // the file of refs; "": there is none
		calls  int
		fails  bool
	}{"no file": {"", 0, false}, "other refs": {"# pack-refs\n", 0, false}, "a directory": {"/", 0, true}} {
		f := newFixture(t)
		f.commit("file", "x")
		switch c.packed {
		case "":
		case "/":
			if err := os.Mkdir(f.path(".git/packed-refs"), 0o700); err != nil {
				t.Fatal(err)
			}
		default:
			f.write(".git/packed-refs", c.packed)
		}
		r := Open(f.root())
		calls := brittle(r, 0)
		lines, err := r.ParkedOf(t.Context(), func() ([]kernel.JobID, error) { return []kernel.JobID{"1"}, nil })
		if len(lines) > 0 || (err != nil) != c.fails || *calls != c.calls {
			t.Errorf("%s: %q, %v, after %d git processes", name, lines, err, *calls)
		}
	}
}

// What is parked is found by the jobs whose it was, wherever git keeps the ref. Where nothing is
// parked, nobody is asked for jobs.
func TestParkedOf(t *testing.T) {
	o := newOwned(t, Open)
	of := func(jobs ...kernel.JobID) []string {
		t.Helper()
		lines, err := o.repo.ParkedOf(t.Context(), func() ([]kernel.JobID, error) {
			if jobs == nil {
				t.Error("the jobs were asked for")
			}
			return jobs, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	of()
	o.git("pack-refs", "--all")
	of()
	o.tree.write("file", "changed")
	o.remove(kernel.CleanupDone)
	o.git("switch", "--quiet", "--create", "draft/b")
	lone := o.commit("lone", "x")
	o.git("switch", "--quiet", "-")
	worker := *o.repo
	worker.ParkedBy = "2"
	if err := worker.DeleteBranch(t.Context(), "draft/b", lone); err != nil {
		t.Fatal(err)
	}
	for _, packed := range []bool{false, true} {
		if packed {
			o.git("pack-refs", "--all", "--prune")
			if err := os.RemoveAll(o.path(".git/" + parkedRefs)); err != nil {
				t.Fatal(err)
			}
		}
		branch := parkedRefs + "draft-b-2-" + string(lone[:12])
		want := "what was only in draft-b is kept as " + branch + ": see it with `git show " + branch + "`, get it back with `git switch --create NAME " + branch + "`"
		if got := of("2", "3"); len(got) != 1 || got[0] != want {
			t.Errorf("packed %v: of the branch %q; want %q", packed, got, want)
		}
		if got := of("1"); len(got) != 1 || !strings.HasPrefix(got[0], "what was only in draft is kept as "+parkedRefs+"draft-1-") {
			t.Errorf("packed %v: of the worktree %q", packed, got)
		}
		if got := of("3"); len(got) != 0 {
			t.Errorf("packed %v: of another job %q", packed, got)
		}
	}
}

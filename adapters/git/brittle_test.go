package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// brittle makes the n-th git process of r fail, and counts them.
func brittle(r *Repo, n int) *int {
	run, calls := (*exec.Cmd).Run, new(int)
	r.cli.exec = func(cmd *exec.Cmd) error {
		if *calls++; *calls == n {
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "echo " + onFire + " >&2; exit 128"}
		}
		return run(cmd)
	}
	return calls
}

// newBrittle is a repository with work in a worktree, and what is behind main.
func newBrittle(t *testing.T) *owned {
	t.Helper()
	return ownedLike(t, "brittle", Open, func() *owned {
		o := newOwned(t, Open)
		o.commit("later", "1\n")
		o.git("tag", "v1")
		o.git("switch", "--quiet", "--create", "ahead")
		o.commit("later", "2\n")
		o.git("switch", "--quiet", "main")
		o.tree.write("file", "changed")
		o.tree.git("add", "file")
		o.tree.write("file", "changed again")
		o.tree.write("new", "x")
		return o
	})
}

// An answer is right, and whichever git process fails, there is none.
func TestWhicheverGitFailsThereIsNoAnswer(t *testing.T) {
	ctx := t.Context()
	o := newBrittle(t)
	dir, main, ahead := o.tree.dir, o.rev("main"), o.rev("ahead")
	parked := parkedRefs + "draft-1-1-" + string(main[:7])
	o.git("update-ref", parked, string(main))
	o.git("update-ref", heldRefs+"gone/before", string(main))
	patch, err := o.repo.Patch(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer(string(main), "MAIN", string(ahead), "AHEAD", string(o.rev("draft/a")), "DRAFT", string(o.rev("main~2")), "FIRST", o.dir, "REPO", parked, "PARKED")
	for name, c := range map[string]struct {
		want string
		ask  func(r *Repo) []any
	}{
		"branches":    {"[map[draft/a:DRAFT]]", func(r *Repo) []any { return all(r.Branches(ctx, "draft/")) }},
		"containing":  {"[[ahead]]", func(r *Repo) []any { return all(r.Containing(ctx, main, "main")) }},
		"a branch":    {"[true REPO/.vizier/tmp-worktrees/draft-1]", func(r *Repo) []any { return all(r.BranchAt(ctx, "draft/a")) }},
		"an obstacle": {"[]", func(r *Repo) []any { return all(r.Obstacle(ctx, "main")) }},
		"staged":      {"[true]", func(r *Repo) []any { return all(r.Staged(ctx, dir)) }},
		"uncommitted": {"[[file new]]", func(r *Repo) []any { return all(r.Uncommitted(ctx, dir)) }},
		"untracked":   {"[[new]]", func(r *Repo) []any { return all(r.Untracked(ctx, dir)) }},
		"a message":   {"[add later]", func(r *Repo) []any { return all(r.Message(ctx, main)) }},
		"marked":      {"[]", func(r *Repo) []any { return all(r.Marked(ctx, ahead, "key", time.Time{})) }},
		"commits": {"[[FIRST MAIN AHEAD] 3]", func(r *Repo) []any {
			ids, objects, err := r.Commits(ctx, []string{"add file", "add later"})
			return all(ids, len(objects), err)
		}},
		"touched":     {"[false]", func(r *Repo) []any { return all(r.Touched(ctx, ahead, "", "main", time.Time{})) }},
		"unmerged":    {"[[]]", func(r *Repo) []any { return all(r.Unmerged(ctx, dir)) }},
		"a merge":     {"[  ]", func(r *Repo) []any { return all(r.MergeState(ctx, dir)) }},
		"merging":     {"[false]", func(r *Repo) []any { return all(r.Merging(ctx, dir)) }},
		"a file":      {"[x]", func(r *Repo) []any { return all(r.FileAt(ctx, main, "file")) }},
		"no file":     {"[]", func(r *Repo) []any { return all(r.FileAt(ctx, main, "none")) }},
		"a last file": {"[2\n]", func(r *Repo) []any { return all(r.LastFile(ctx, ahead, main, "later")) }},
		"a patch":     {"[" + string(patch) + "]", func(r *Repo) []any { return all(r.Patch(ctx, dir)) }},
		"tags":        {"[[v1]]", func(r *Repo) []any { return all(r.Tags(ctx, main)) }},
		"a tag":       {"[true]", func(r *Repo) []any { return all(r.TagExists(ctx, "v1")) }},
		"the history": {"[[[AHEAD add later] [MAIN add later] [DRAFT add .gitignore] [FIRST add file]]]", func(r *Repo) []any { return all(r.History(ctx, "", ahead)) }},
		"a head":      {"[DRAFT]", func(r *Repo) []any { return all(r.HeadCommit(ctx, dir)) }},
		"its branch":  {"[draft/a]", func(r *Repo) []any { return all(r.HeadBranch(ctx, dir)) }},
		"its base":    {"[DRAFT]", func(r *Repo) []any { return all(r.Base(dir)) }},
		"no base":     {"[]", func(r *Repo) []any { return all(r.Base(o.dir)) }},
		"a last tip":  {"[]", func(r *Repo) []any { return all(r.LastTip(ctx, "gone")) }},
		"left over":   {"[[]]", func(r *Repo) []any { return all(r.Leftover(ctx, dir)) }},
		"unstaged":    {"[[file] [new]]", func(r *Repo) []any { return all(r.Unstaged(ctx, dir)) }},
		"an ancestor": {"[true]", func(r *Repo) []any { return all(r.IsAncestor(ctx, main, ahead)) }},
		"related":     {"[true]", func(r *Repo) []any { return all(r.Related(ctx, main, ahead)) }},
		"a parent":    {"[MAIN]", func(r *Repo) []any { return all(r.Parent(ctx, ahead)) }},
		"heads":       {"[map[gone: main:MAIN]]", func(r *Repo) []any { return all(r.Heads(ctx, []string{"main", "gone"})) }},
		"rebasing":    {"[false]", func(r *Repo) []any { return all(r.Rebasing(ctx, dir)) }},
		"squashing":   {"[false]", func(r *Repo) []any { return all(r.Squashing(ctx, dir)) }},
		"git itself":  {"", func(r *Repo) []any { return all(r.ProgramVersion(ctx)) }},
		"tracked":     {"[file]", func(r *Repo) []any { return all(r.Tracked(ctx, "FILE")) }},
		"tracked in":  {"[[file]]", func(r *Repo) []any { return all(r.TrackedIn(ctx, "File/below")) }},
		"a release": {"[true]", func(r *Repo) []any {
			return all(r.Undoes(ctx, Begun{Branch: "ahead", From: main, Commit: ahead, Tag: "v1"}))
		}},
		"held":             {"[[refs/vizier/held/gone/before]]", func(r *Repo) []any { return all(r.Unheld(ctx)) }},
		"old work":         {"[]", func(r *Repo) []any { return all(r.DropStaged(ctx, time.Time{})) }},
		"on its way":       {"[]", func(r *Repo) []any { return all(r.EndAdvance(ctx, "main")) }},
		"on a branch":      {"[REPO/.vizier/tmp-worktrees/draft-1]", func(r *Repo) []any { return all(r.cli.checkedOut(ctx, "draft/a")) }},
		"sparse":           {"[false]", func(r *Repo) []any { return all(r.Sparse(ctx, dir)) }},
		"steering":         {"[[]]", func(r *Repo) []any { return all(r.Steering(ctx, "draft/a", "main")) }},
		"steering, behind": {"[[]]", func(r *Repo) []any { return all(r.Steering(ctx, "draft/a", "")) }},
		"what is kept": {"[[what was only in draft, in its submodule 1 is kept as PARKED: see it with `git show PARKED`, get it back in another clone of the submodule with `git fetch REPO PARKED:refs/heads/NAME`]]",
			func(r *Repo) []any {
				return all(r.ParkedOf(ctx, func() ([]kernel.JobID, error) { return []kernel.JobID{"1"}, nil }))
			}},
		"who stands":   {"[[REPO/.vizier/tmp-worktrees/draft-1] ]", func(r *Repo) []any { return all(r.Standing(ctx, "draft/a")) }},
		"observations": {"[map[plan_branch:a ():{true true } plan_doc:a ():{false true }] map[draft/a:{DRAFT true } main:{MAIN true } none:{ true }] {main true } {true true } { true }]", func(r *Repo) []any { return observed(ctx, r) }},
	} {
		r := Open(o.root())
		calls := brittle(r, 0)
		answer := c.ask(r)
		parts := answer[:len(answer)-1]
		for i, part := range parts {
			if text, is := part.([]byte); is {
				parts[i] = string(text)
			}
		}
		if got := names.Replace(fmt.Sprint(parts)); answer[len(parts)] != nil || c.want != "" && got != c.want {
			t.Errorf("%s: %s, %v", name, got, answer[len(parts)])
		}
		for k, n := 1, *calls; k <= n; k++ {
			brittle(r, k)
			failed := c.ask(r)
			if name == "a release" || name == "observations" { // what could be seen of it is told
				failed = failed[len(failed)-1:]
			}
			noAnswer(t, fmt.Sprintf("%s, process %d of %d fails", name, k, n), failed)
		}
	}
}

// observed returns the facts that r observes; the error is of those that it could not.
func observed(ctx context.Context, r *Repo) []any {
	f := kernel.NewFacts()
	r.Observe(ctx, kernel.Probes{Artifacts: []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "a"}, {Kind: kernel.PlanDoc, Name: "a"}},
		Branches: []string{"main", "draft/a", "none"}, Head: true, Clean: true, Merging: true}, &f)
	var err error
	unseen := func(why string) {
		if why != "" {
			err = errors.Join(err, errors.New(why))
		}
	}
	for _, x := range f.Present {
		unseen(x.Err)
	}
	for _, x := range f.Heads {
		unseen(x.Err)
	}
	unseen(f.Head.Err + f.Clean.Err + f.Merging.Err)
	return all(f.Present, f.Heads, f.Head, f.Clean, f.Merging, err)
}

// Whichever git process fails, a deed says so or is done.
func TestWhicheverGitFailsADeedSaysSo(t *testing.T) {
	ctx := t.Context()
	before := map[string]func(o *owned){
		"commit all but its own": func(o *owned) {
			o.tree.write(".vizier/tmp/x", "x")
			o.tree.git("add", "--force", ".vizier/tmp/x")
		},
		"keep a commit": func(o *owned) { o.git("update-ref", "refs/x/lost", o.git("commit-tree", "-m", "lost", "main^{tree}")) },
		"no alias":      func(o *owned) { o.git("symbolic-ref", "refs/heads/alias", "refs/heads/main") },
		"nothing held":  func(o *owned) { o.git("update-ref", heldRefs+"gone/before", "main") },
		"a damaged one": func(o *owned) {
			o.tree.git("switch", "--quiet", "--detach")
			o.tree.commit("made", "x")
			if err := os.WriteFile(o.path(".git/worktrees/draft-1/index"), []byte("torn"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"an agent's repository": func(o *owned) {
			o.git("init", "--quiet", o.tree.path("inner"))
			o.in(o.tree.path("inner")).commit("x", "x")
			o.tree.git("add", "inner")
		},
	}
	for name, deed := range map[string]func(o *owned) error{
		"stage":                  func(o *owned) error { return o.repo.Stage(ctx, o.tree.dir, []string{"new", "file"}, nil) },
		"stage tracked":          func(o *owned) error { return o.repo.StageTracked(ctx, o.tree.dir) },
		"stage paths":            func(o *owned) error { return o.repo.cli.stagePaths(ctx, command{dir: o.tree.dir}, []string{"new"}) },
		"commit":                 func(o *owned) error { return o.answered(o.repo.Commit(ctx, o.tree.dir, "work")) },
		"commit all but its own": func(o *owned) error { return o.answered(o.repo.Commit(ctx, o.tree.dir, "work")) },
		"amend":                  func(o *owned) error { return o.answered(o.repo.Amend(ctx, o.tree.dir, "work")) },
		"merge":                  func(o *owned) error { return o.repo.Merge(ctx, o.dir, o.rev("ahead"), false) },
		"squash":                 func(o *owned) error { return o.repo.Merge(ctx, o.dir, o.rev("ahead"), true) },
		"detach":                 func(o *owned) error { return o.repo.Detach(ctx, o.dir, o.rev("ahead")) },
		"remove a file":          func(o *owned) error { return o.repo.RemoveFile(ctx, o.dir, "later") },
		"release":                func(o *owned) error { return o.repo.Release(ctx, o.tree.dir) },
		"replay": func(o *owned) error {
			return second(o.repo.Replay(ctx, o.rev("ahead"), o.rev("main"), o.rev("main~1")))
		},
		"advance": func(o *owned) error {
			_, moved, err := o.repo.Advance(ctx, "main", o.rev("main"), o.rev("ahead"))
			if err == nil && !moved {
				err = errors.New("not moved")
			}
			return err
		},
		"an empty commit":  func(o *owned) error { return o.answered(o.repo.EmptyCommit(ctx, o.rev("ahead"), "nothing")) },
		"a tag":            func(o *owned) error { return o.answered(o.repo.CreateTag(ctx, "v2", o.rev("main"), "two")) },
		"no tag":           func(o *owned) error { return o.repo.DeleteTag(ctx, "v1", o.git("rev-parse", "v1")) },
		"no branch":        func(o *owned) error { return o.repo.DeleteBranch(ctx, "ahead", o.rev("ahead")) },
		"another worktree": func(o *owned) error { return o.answered(o.repo.EnsureWorktree(ctx, "more", "more", "ahead", "")) },
		"a detached one":   func(o *owned) error { return o.answered(o.repo.EnsureWorktree(ctx, "more", "more", "", o.rev("main"))) },
		"the same worktree": func(o *owned) error {
			return o.answered(o.repo.EnsureWorktree(ctx, "draft-1", "draft-1", "draft/a", ""))
		},
		"no worktree": (*owned).removed,
		"a patch": func(o *owned) error {
			patch, err := o.repo.Patch(ctx, o.tree.dir)
			if err == nil {
				err = o.repo.Apply(ctx, o.dir, patch)
			}
			return err
		},
		"stage everything":      func(o *owned) error { return o.repo.Stage(ctx, o.tree.dir, nil, []string{"new"}) },
		"keep a commit":         func(o *owned) error { return o.repo.Keep(ctx, o.rev("refs/x/lost")) },
		"no alias":              func(o *owned) error { return o.repo.DeleteBranch(ctx, "alias", o.rev("main")) },
		"nothing held":          func(o *owned) error { return o.repo.DropHeld(ctx) },
		"a damaged one":         (*owned).removed,
		"an agent's repository": func(o *owned) error { return o.repo.Stage(ctx, o.tree.dir, []string{"new"}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whicheverGitFails(t, func() *owned {
				o := newBrittle(t)
				if do := before[name]; do != nil {
					do(o)
				}
				return o
			}, deed)
		})
	}
}

// whicheverGitFails asserts that deed fails or is done if one of its git processes fails. Only for those whose failure it
// does not tell in a rehearsal is it done once more.
func whicheverGitFails(t *testing.T, fresh func() *owned, deed func(*owned) error) {
	t.Helper()
	o := fresh()
	r := rehearsed(t, o.repo, func() error { return deed(o) })
	want := o.stands()
	for _, k := range r.untold {
		o := fresh()
		brittle(o.repo, k)
		err := deed(o)
		brittle(o.repo, 0)
		if got := o.stands(); err == nil && got != want {
			t.Errorf("process %d of %d fails:\n%s\nwant\n%s", k, len(r.answers), got, want)
		}
	}
}

// What is put in the place of a commit and is none is refused, and git is not asked about it.
func TestOnlyCommitsAreAskedAbout(t *testing.T) {
	ctx := t.Context()
	o := newBrittle(t)
	dir, good := o.tree.dir, o.rev("main")
	before, now := o.stands(), time.Time{}
	for name, ask := range map[string]func(kernel.CommitID) []any{
		"containing":        func(c kernel.CommitID) []any { return all(o.repo.Containing(ctx, c, "main")) },
		"a message":         func(c kernel.CommitID) []any { return all(o.repo.Message(ctx, c)) },
		"marked":            func(c kernel.CommitID) []any { return all(o.repo.Marked(ctx, c, "mark", now)) },
		"touched":           func(c kernel.CommitID) []any { return all(o.repo.Touched(ctx, c, "", "main", now)) },
		"a last file":       func(c kernel.CommitID) []any { return all(o.repo.LastFile(ctx, c, good, "file")) },
		"a last file since": func(c kernel.CommitID) []any { return all(o.repo.LastFile(ctx, good, c, "file")) },
		"an ancestor":       func(c kernel.CommitID) []any { return all(o.repo.IsAncestor(ctx, c, good)) },
		"a descendant":      func(c kernel.CommitID) []any { return all(o.repo.IsAncestor(ctx, good, c)) },
		"related":           func(c kernel.CommitID) []any { return all(o.repo.Related(ctx, c, good)) },
		"a relative":        func(c kernel.CommitID) []any { return all(o.repo.Related(ctx, good, c)) },
		"a parent":          func(c kernel.CommitID) []any { return all(o.repo.Parent(ctx, c)) },
		"detach":            func(c kernel.CommitID) []any { return all(o.repo.Detach(ctx, dir, c)) },
		"replay":            func(c kernel.CommitID) []any { return all(o.repo.Replay(ctx, c, good, good)) },
		"replay from":       func(c kernel.CommitID) []any { return all(o.repo.Replay(ctx, good, c, good)) },
		"replay onto":       func(c kernel.CommitID) []any { return all(o.repo.Replay(ctx, good, good, c)) },
		"a worktree":        func(c kernel.CommitID) []any { return all(o.repo.EnsureWorktree(ctx, "more", "more", "", c)) },
		"a branch":          func(c kernel.CommitID) []any { return all(o.repo.CreateBranch(ctx, "new", c)) },
		"advance to":        func(c kernel.CommitID) []any { return all(o.repo.Advance(ctx, "main", good, c)) },
		"advance from":      func(c kernel.CommitID) []any { return all(o.repo.Advance(ctx, "main", c, good)) },
		"a tag":             func(c kernel.CommitID) []any { return all(o.repo.CreateTag(ctx, "v2", c, "two")) },
		"an empty commit":   func(c kernel.CommitID) []any { return all(o.repo.EmptyCommit(ctx, c, "nothing")) },
		"tags":              func(c kernel.CommitID) []any { return all(o.repo.Tags(ctx, c)) },
		"the history":       func(c kernel.CommitID) []any { return all(o.repo.History(ctx, "", c)) },
		"whether it is":     func(c kernel.CommitID) []any { return all(o.repo.Has(ctx, c)) },
		"no branch":         func(c kernel.CommitID) []any { return all(o.repo.DeleteBranch(ctx, "ahead", c)) },
	} {
		for _, c := range []kernel.CommitID{"--all", "HEAD", "main", kernel.CommitID(strings.ToUpper(string(good)))} {
			calls := brittle(o.repo, 0)
			noAnswer(t, fmt.Sprintf("%s of %s", name, c), ask(c))
			if *calls > 0 {
				t.Errorf("%s of %s: %d git processes", name, c, *calls)
			}
		}
	}
	brittle(o.repo, 0)
	if after := o.stands(); after != before {
		t.Errorf("it stands\n%s\nand not\n%s", after, before)
	}
}

// removed removes the worktree.
func (o *owned) removed() error {
	if got := o.repo.RemoveWorktree(o.Context(), o.ctx); got.Status != kernel.CleanupDone {
		return errors.New(got.Error)
	}
	return nil
}

func second[T any](_ T, err error) error { return err }

// answered returns the error of a deed, which without one has an answer.
func (o *owned) answered(answer any, err error) error {
	o.Helper()
	if err == nil && reflect.ValueOf(answer).IsZero() {
		o.Error("no answer, and no error")
	}
	return err
}

// stands returns what branches, tags, parked work and working trees hold, and how much a
// person was told of that was parked.
func (o *owned) stands() string {
	o.Helper()
	refs := strings.Split(o.git("for-each-ref", "--format=%(objecttype) %(tree) %(subject)"), "\n")
	slices.Sort(refs)
	out := fmt.Sprintf("%s\n%d parked", strings.Join(refs, "\n"), len(o.parked))
	for line := range strings.Lines(o.git("worktree", "list", "--porcelain")) {
		if dir, is := strings.CutPrefix(strings.TrimSpace(line), "worktree "); is {
			out += "\n" + strings.TrimPrefix(dir, o.dir) + "\n" + o.in(dir).git("status", "--porcelain", "--branch") + "\n" + o.in(dir).git("rev-parse", "HEAD^{tree}")
		}
	}
	return out
}

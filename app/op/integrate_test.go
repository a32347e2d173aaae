package op

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// merge returns a node that merges draft/foo into main.
func (w *world) merge(args map[string]string) *Node {
	all := map[string]string{"slug": "foo", "target_branch": "main"}
	for k, v := range args {
		all[k] = v
	}
	return w.node("git.integrate_plan_branch", all)
}

// plan makes draft/foo with a plan document and files.
func (w *world) plan(files map[string]string) {
	w.Helper()
	all := map[string]string{planFile("foo"): "---\nplan: foo\n---\n\n# The plan\n"}
	for f, text := range files {
		all[f] = text
	}
	w.branch("draft/foo", all)
}

// planned returns a world with a plan whose change makes new.txt.
func planned(t *testing.T) *world {
	t.Helper()
	return worldLike(t, "planned", newWorld, func(w *world) { w.plan(map[string]string{"new.txt": "new\n"}) })
}

// tidy asserts that nothing of a merge is left.
func (w *world) tidy() {
	w.Helper()
	if left, _ := filepath.Glob(filepath.Join(w.dir, ".vizier/tmp-worktrees/*")); len(left) > 0 {
		w.Errorf("left behind: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, ".vizier/tmp-worktrees/.*")); len(left) > 0 {
		w.Errorf("left behind: %v", left)
	}
	if w.there(w.dir, ".vizier/tmp/merge-conflicts/foo.json") {
		w.Error("the conflict's mark is left behind")
	}
}

func (w *world) parked() string {
	w.Helper()
	return w.git(w.dir, "for-each-ref", "--format=%(refname)", "refs/vizier/parked")
}

func TestSquashMergeEmbedsAndRemovesThePlanDocument(t *testing.T) {
	w := newWorld(t)
	w.plan(map[string]string{"new file.txt": "new\r\n"})
	before, tip := w.rev("main"), w.rev("draft/foo")
	n := w.merge(nil)
	w.want(n, kernel.OutcomeSucceeded, "merged draft/foo into main")
	if w.rev("main^") != before || w.git(w.dir, "rev-list", "--count", before+"..main") != "1" {
		t.Fatal("main did not get exactly one commit")
	}
	if w.rev("draft/foo^") != tip || w.git(w.dir, "log", "-1", "--format=%s", "draft/foo") != "chore: remove implementation plan doc foo" {
		t.Error("the document was not removed from the source branch")
	}
	want := "feat: merge plan foo\n\n---\nplan: foo\n---\n\n# The plan\n\nVizier-Effect: " + effectKey(n, "")
	if got := w.git(w.dir, "log", "-1", "--format=%B", "main"); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if got := w.files("main"); !slices.Equal(got, []string{".gitignore", "new file.txt", "readme.txt"}) {
		t.Errorf("files %q", got)
	}
	if w.read(w.dir, "new file.txt") != "new\r\n" || w.git(w.dir, "status", "--porcelain", "--untracked-files=no") != "" {
		t.Error("the clean checkout was not brought along")
	}
	w.tidy()
	main := w.rev("main")
	w.want(n, kernel.OutcomeSucceeded, "earlier attempt")
	w.want(w.merge(nil), kernel.OutcomeSucceeded, "brings nothing new")
	if w.rev("main") != main || w.parked() != "" {
		t.Error("executed again, it moved main or parked something: ", w.parked())
	}
	w.tidy()
}

// What a hook demands of messages, the message of the merge gives to all that the merge commits.
func TestAMergeWithAMessageThatAHookDemands(t *testing.T) {
	w := planned(t)
	w.write(w.dir, ".git/hooks/commit-msg", "#!/bin/sh\nhead -n 1 \"$1\" | grep -q '^T-1 '\n")
	if err := os.Chmod(filepath.Join(w.dir, ".git/hooks/commit-msg"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.want(w.merge(map[string]string{"message": "T-1 merge it\n\nAt last."}), kernel.OutcomeSucceeded)
	if got := w.git(w.dir, "log", "-1", "--format=%s", "draft/foo"); got != "T-1 merge it: remove implementation plan doc foo" {
		t.Errorf("message %q", got)
	}
	w.tidy()
}

func TestMergeWithoutSquash(t *testing.T) {
	w := planned(t)
	w.git(w.dir, "config", "merge.ff", "false") // which squash does not agree with
	before := w.rev("main")
	n := w.merge(map[string]string{"squash": "no", "message": "Merge it", "delete_branch": "yes"})
	w.want(n, kernel.OutcomeSucceeded)
	if w.rev("main^1") != before || w.git(w.dir, "log", "-1", "--format=%s", "main^2") != "Merge it: remove implementation plan doc foo" {
		t.Error("not a merge of the source's tip")
	}
	if w.has("draft/foo") || w.parked() != "" {
		t.Error("the merged branch is there, or something reachable was parked")
	}
	if got := w.git(w.dir, "log", "-1", "--format=%B"); !strings.HasPrefix(got, "Merge it\n\n---\nplan: foo") {
		t.Errorf("message %q", got)
	}
	w.tidy()
	w.branch("draft/foo", map[string]string{"another plan.txt": ""})
	w.want(n, kernel.OutcomeSucceeded, "earlier attempt", "is kept")
	if !w.has("draft/foo") {
		t.Error("a branch that was not merged is gone")
	}

	w.branch("draft/bar", map[string]string{"bar.txt": ""})
	n = w.node("git.integrate_plan_branch", map[string]string{"source_branch": "draft/bar", "delete_branch": "true"})
	w.want(n, kernel.OutcomeSucceeded) // squash, into the main checkout's branch
	if w.has("draft/bar") || w.parked() == "" {
		t.Error("a squashed branch is there, or its commits were not kept")
	}
	w.branch("draft/baz", nil)
	w.want(w.node("git.integrate_plan_branch", map[string]string{"slug": "baz"}), kernel.OutcomeSucceeded, "merged already")
}

func TestMergeNeverTouchesADirtyCheckout(t *testing.T) {
	w := newWorld(t)
	w.plan(map[string]string{"readme.txt": "theirs\n"})
	w.write(w.dir, "readme.txt", "operator's\n")
	w.write(w.dir, "untracked.txt", "operator's\n")
	before, main, source := w.photograph(), w.rev("main"), w.rev("draft/foo")
	n := w.merge(map[string]string{"delete_branch": "true"})
	if r := w.want(n, kernel.OutcomeBlocked, w.dir, "stash", "vizier retry "+string(n.Job.ID)); r.Exit != 10 {
		t.Errorf("exit %d", r.Exit)
	}
	w.unchanged(before)
	if w.rev("main") != main || w.rev("draft/foo") != source {
		t.Error("a branch moved")
	}
	w.git(w.dir, "checkout", "--quiet", "--", "readme.txt")
	w.want(n, kernel.OutcomeSucceeded)
	if w.read(w.dir, "readme.txt") != "theirs\n" || w.read(w.dir, "untracked.txt") != "operator's\n" {
		t.Error("the checkout did not follow, or lost a file")
	}

	// The operator works on something else: the target is checked out nowhere.
	w = newWorld(t)
	w.plan(map[string]string{"new.txt": "theirs\n"})
	w.git(w.dir, "switch", "--quiet", "--create", "mine")
	w.write(w.dir, "readme.txt", "operator's\n")
	w.git(w.dir, "add", "readme.txt")
	w.write(w.dir, "new.txt", "operator's\n")
	before = w.photograph()
	w.want(w.merge(nil), kernel.OutcomeSucceeded)
	w.unchanged(before)
	if !slices.Contains(w.files("main"), "new.txt") {
		t.Error("not merged")
	}
}

// The operator begins to work in the checkout while the merge is made.
func TestMergeWhenTheCheckoutBecomesDirtyMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.branch("draft/foo", map[string]string{"new.txt": ""})
	var before map[string]string
	w.env.Git = &moving{Git: w.env.Git, move: func(string) {
		w.write(w.dir, "readme.txt", "operator's\n")
		before = w.photograph()
	}}
	n, main := w.merge(nil), w.rev("main")
	w.want(n, kernel.OutcomeBlocked, w.dir)
	w.unchanged(before)
	if w.rev("main") != main {
		t.Error("main moved")
	}
	w.git(w.dir, "checkout", "--quiet", "readme.txt")
	w.env.Git.(*moving).move = func(string) {}
	w.want(n, kernel.OutcomeSucceeded)
	w.tidy()
}

// A kill comes while the checkout follows its branch: git photographs what it would leave, and the next attempt
// begins with that.
func TestMergeAfterAKillWhileTheCheckoutFollows(t *testing.T) {
	for _, at := range []string{"smudge", "prepared", "committed"} { // within the files, before the branch has moved, and after that
		t.Run(at, func(t *testing.T) {
			w := newWorld(t)
			w.commit(w.dir, ".gitattributes", "readme.txt filter=copy\n")
			w.plan(map[string]string{"readme.txt": "two\n", "new.txt": "new\n"})
			n, main := w.merge(nil), w.rev("main")
			killed := filepath.Join(t.TempDir(), "killed")
			w.env.Git = &moving{Git: w.env.Git, move: func(string) {
				w.write(w.dir, ".git/hooks/reference-transaction", "#!/bin/sh\n[ $1 = "+at+" ] && [ ! -e "+killed+" ] && cp -a "+w.dir+" "+killed+"\n[ $1 != smudge ] || cat\n")
				hook := filepath.Join(w.dir, ".git/hooks/reference-transaction")
				if err := os.Chmod(hook, 0o755); err != nil {
					t.Fatal(err)
				}
				w.git(w.dir, "config", "filter.copy.smudge", hook+" smudge")
			}, then: func() { panic("crash") }}
			w.want(n, kernel.OutcomeFailed, "crash")
			w.env.Git = w.env.Git.(*moving).Git
			if err := errors.Join(os.Rename(w.dir, w.dir+".old"), os.Rename(killed, w.dir), os.Remove(filepath.Join(w.dir, ".git/hooks/reference-transaction"))); err != nil {
				t.Fatal(err)
			}
			w.git(w.dir, "config", "--remove-section", "filter.copy")
			for _, lock := range []string{"HEAD.lock", "refs/heads/main.lock"} { // some systems cannot tell whose they are
				_ = os.Remove(filepath.Join(w.dir, ".git", lock))
			}
			if moved := w.rev("main") != main; moved != (at == "committed") || w.git(w.dir, "status", "--porcelain") == "" {
				t.Fatalf("moved %v, and %q", moved, w.git(w.dir, "status", "--porcelain"))
			}
			w.want(n, kernel.OutcomeSucceeded)
			if got := w.git(w.dir, "status", "--porcelain"); got != "" || w.git(w.dir, "rev-list", "--count", main+"..main") != "1" || w.read(w.dir, "new.txt") != "new\n" {
				t.Errorf("not completed: %q", got)
			}
			w.tidy()
		})
	}
}

// What git does not track is not overwritten, whether it ignores it or not, and blocks the merge unless
// it is what the merge brings.
func TestMergeWithAnUntrackedFileInTheWay(t *testing.T) {
	for _, ignored := range []string{"", "new.txt\n"} {
		w := newWorld(t)
		w.branch("draft/foo", map[string]string{"new.txt": "theirs\n"})
		w.write(w.dir, ".git/info/exclude", ignored)
		w.write(w.dir, "new.txt", "operator's\n")
		before, main := w.photograph(), w.rev("main")
		n := w.merge(nil)
		w.want(n, kernel.OutcomeBlocked, "new.txt", w.dir, "move it away")
		w.unchanged(before)
		if w.rev("main") != main {
			t.Error("main moved")
		}
		w.write(w.dir, "new.txt", "theirs\n")
		w.want(n, kernel.OutcomeSucceeded)
		if w.git(w.dir, "status", "--porcelain") != "" || w.git(w.dir, "rev-list", "--count", main+"..main") != "1" {
			t.Error("not merged once")
		}
		w.tidy()
	}
}

func TestMergeBringsEveryCheckoutOfItsBranchesAlong(t *testing.T) {
	w := newWorld(t)
	w.plan(map[string]string{"new.txt": ""})
	w.git(w.dir, "switch", "--quiet", "--create", "mine")
	target, source := filepath.Join(t.TempDir(), "target"), filepath.Join(t.TempDir(), "source")
	second := filepath.Join(t.TempDir(), "second")
	w.git(w.dir, "worktree", "add", "--quiet", target, "main")
	w.git(w.dir, "worktree", "add", "--quiet", "--force", second, "main")
	w.git(w.dir, "worktree", "add", "--quiet", source, "draft/foo")
	n := w.merge(map[string]string{"delete_branch": "true"})
	w.want(n, kernel.OutcomeSucceeded, "branch draft/foo is kept", source)
	for _, dir := range []string{target, second, source} {
		if w.git(dir, "status", "--porcelain") != "" || !w.there(dir, "new.txt") || w.there(dir, planFile("foo")) {
			t.Errorf("%s was not brought along", dir)
		}
	}
	w.tidy()
}

func TestMergeSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	w.want(w.merge(nil), kernel.OutcomeFailed, "no branch draft/foo")
	w.plan(nil)
	w.want(w.merge(map[string]string{"target_branch": "nowhere"}), kernel.OutcomeBlocked, "no branch nowhere to merge into", "another --target", "git branch nowhere COMMIT", "then run `vizier retry")
	w.want(w.merge(map[string]string{"target_branch": "draft/foo"}), kernel.OutcomeFailed, "into itself")
	w.want(w.merge(map[string]string{"squash": "perhaps"}), kernel.OutcomeFailed, "squash")
	w.git(w.dir, "checkout", "--quiet", "--detach")
	w.want(w.merge(map[string]string{"target_branch": ""}), kernel.OutcomeFailed, "set target_branch")
	w.git(w.dir, "checkout", "--quiet", "main")

	hook := filepath.Join(w.dir, ".git/hooks/commit-msg")
	w.write("/", hook, "#!/bin/sh\ngrep -q TICKET \"$1\" || { echo 'no ticket' >&2; exit 1; }\n")
	os.Chmod(hook, 0o755)
	main := w.rev("main")
	w.want(w.merge(nil), kernel.OutcomeFailed, "no ticket")
	w.want(w.merge(nil), kernel.OutcomeFailed, "no ticket")
	if w.rev("main") != main || w.parked() != "" {
		t.Error("main moved, or parked ", w.parked())
	}
	w.write("/", hook, "#!/bin/sh\ngrep -q TICKET \"$1\" || echo TICKET-1 >> \"$1\"\n")
	w.want(w.merge(nil), kernel.OutcomeSucceeded)
	w.want(w.merge(nil), kernel.OutcomeSucceeded)
}

// The target moves between the merge and the compare-and-swap.
func TestMergeWhenTheTargetMoves(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := planned(t)
		w.git(w.dir, "switch", "--quiet", "--create", "mine")
		w.write(w.dir, "other.txt", "operator's\n")
		moves := 3
		w.env.Git = &moving{Git: w.env.Git, move: func(branch string) {
			if branch == "main" && moves > 0 {
				moves--
				id := w.git(w.dir, "commit-tree", "-p", "main", "-m", "concurrent", "main^{tree}")
				w.git(w.dir, "update-ref", "refs/heads/main", id)
			}
		}}
		n := w.merge(map[string]string{"squash": squash})
		w.want(n, kernel.OutcomeSucceeded)
		if got := w.git(w.dir, "log", "--first-parent", "--format=%s", "-5", "main"); got != "feat: merge plan foo\nconcurrent\nconcurrent\nconcurrent\nadd readme.txt" {
			t.Errorf("squash %s: history %q", squash, got)
		}
		if parents := len(strings.Fields(w.git(w.dir, "log", "-1", "--format=%P", "main"))); parents != map[string]int{"true": 1, "false": 2}[squash] {
			t.Errorf("squash %s: %d parents", squash, parents)
		}
		if got := w.git(w.dir, "log", "-1", "--format=%an %B", "main"); !strings.HasPrefix(got, "Ann feat:") || !strings.Contains(got, effectKey(n, "")) {
			t.Errorf("squash %s: message %q", squash, got)
		}
		if !slices.Contains(w.files("main"), "new.txt") || w.parked() != "" {
			t.Error("not merged, or something was parked")
		}
		w.tidy()
	}
}

// The target moves to what the merge would have made of it.
func TestMergeWhenTheTargetHasItAllMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.plan(map[string]string{"new.txt": "new\n"})
	w.git(w.dir, "switch", "--quiet", "--create", "mine")
	main := w.rev("main")
	w.env.Git = &moving{Git: w.env.Git, move: func(branch string) {
		if branch == "main" && w.rev("main") == main {
			dir := filepath.Join(t.TempDir(), "main")
			w.git(w.dir, "worktree", "add", "--quiet", dir, "main")
			w.commit(dir, "new.txt", "new\n")
			w.git(w.dir, "worktree", "remove", "--force", dir)
		}
	}}
	w.want(w.merge(nil), kernel.OutcomeSucceeded, "nothing to commit: draft/foo brings nothing new to main")
	if got := w.git(w.dir, "log", "-1", "--format=%s", "main"); got != "add new.txt" {
		t.Errorf("main ends in %q", got)
	}
	w.tidy()
}

// moving moves branches at the worst moment.
type moving struct {
	Git
	move func(branch string)
	then func() // unless nil
}

func (g *moving) Advance(ctx context.Context, branch string, from, to kernel.CommitID) (string, bool, error) {
	g.move(branch)
	if g.then != nil {
		defer g.then()
	}
	return g.Git.Advance(ctx, branch, from, to)
}

// The target moves to something that the merge conflicts with.
func TestMergeWhenTheTargetMovesIntoAConflict(t *testing.T) {
	w := newWorld(t)
	w.plan(map[string]string{"readme.txt": "theirs\n"})
	w.git(w.dir, "switch", "--quiet", "--create", "mine")
	moved := false
	w.env.Git = &moving{Git: w.env.Git, move: func(branch string) {
		if branch == "main" && !moved {
			moved = true
			dir := filepath.Join(t.TempDir(), "main")
			w.git(w.dir, "worktree", "add", "--quiet", dir, "main")
			w.commit(dir, "readme.txt", "ours\n")
			w.git(w.dir, "worktree", "remove", "--force", dir)
		}
	}}
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked, "readme.txt")
	w.resolve(n, "both\n")
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.git(w.dir, "show", "main:readme.txt"); got != "both" {
		t.Errorf("merged %q", got)
	}
	w.tidy()
}

// A retry of a merge whose branch went with it has nothing to do, as long as the target has what
// was merged. Of a branch that it never merged it says that there is none.
func TestMergeThatIsRetriedAfterItsBranchWent(t *testing.T) {
	w := newWorld(t)
	w.plan(map[string]string{"new.txt": "new\n"})
	n := w.merge(map[string]string{"delete_branch": "true"})
	w.want(n, kernel.OutcomeSucceeded, "merged draft/foo into main")
	main := w.rev("main")
	w.want(w.merge(nil), kernel.OutcomeFailed, "there is no branch draft/foo to merge")
	for _, n.Job.State.Closed = range []bool{false, true} { // the second is after a retry of the first
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded, "draft/foo was merged before, and is gone: main has it in "+main[:12])
	}
	if w.rev("main") != main {
		t.Error("main has moved")
	}
	w.tidy()
}

// The target does not have the merge any more. With what is on record, the branch is merged again.
func TestMergeThatIsRetriedAfterItsTargetWasReset(t *testing.T) {
	for name, c := range map[string]struct {
		squash string
		onMain map[string]string // before the merge: what the branch brings
		forget bool              // what it settled, as a version did that did not record it
	}{
		"squash":              {squash: "true"},
		"second parent":       {squash: "false"},
		"nothing to commit":   {squash: "true", onMain: map[string]string{"new.txt": "new\n"}},
		"of an older version": {squash: "true", forget: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.dir, ".vizier/jobs/.keep", "")
			before := w.rev("main")
			w.branch("draft/foo", map[string]string{"new.txt": "new\n"})
			tip := w.rev("draft/foo")
			for f, text := range c.onMain {
				w.commit(w.dir, f, text)
			}
			n := w.merge(map[string]string{"delete_branch": "true", "squash": c.squash})
			w.want(n, kernel.OutcomeSucceeded)
			if w.has("draft/foo") {
				t.Fatal("the branch is there")
			}
			if c.forget {
				e := w.journal.entries[effectKey(n, "")]
				e.Merge = effect.Merge{}
				w.journal.entries[e.Key] = e
			}
			n.Job.State.Closed = true
			n.Job.State.Generation++
			w.want(n, kernel.OutcomeSucceeded, "was merged before")
			w.git(w.dir, "reset", "--quiet", "--hard", before)
			n.Job.State.Generation++
			back := "git branch draft/foo " + tip
			w.want(n, kernel.OutcomeFailed, "main does not have that merge now", "`"+back+"`, then `vizier retry")
			w.git(w.dir, strings.Fields(strings.TrimPrefix(back, "git "))...)
			w.want(n, kernel.OutcomeSucceeded, "merged draft/foo into main")
			if w.read(w.dir, "new.txt") != "new\n" {
				t.Error("it is not merged")
			}
			w.tidy()
		})
	}
}

// dying is killed when it has deleted the branch of a merge or, with later, the merge's worktree after that.
type dying struct {
	Git
	later bool
	gone  *bool // the branch
}

func (d dying) DeleteBranch(ctx context.Context, branch string, tip kernel.CommitID) error {
	err := d.Git.DeleteBranch(ctx, branch, tip)
	if *d.gone = err == nil; *d.gone && !d.later {
		panic(errKilled)
	}
	return err
}

func (d dying) RemoveWorktree(ctx context.Context, c kernel.Context) kernel.Cleanup {
	r := d.Git.RemoveWorktree(ctx, c)
	if *d.gone {
		panic(errKilled)
	}
	return r
}

// A merge that is killed when it has deleted its branch is done, also if somebody else had merged that and no commit says so.
func TestAMergeThatIsKilledAfterItsBranchWent(t *testing.T) {
	for name, byHand := range map[string][]string{
		"merged by hand": {"merge", "--quiet", "--ff-only", "draft/foo"}, "squashed by hand": {"merge", "--quiet", "--squash", "draft/foo"}, "its own": {"status"},
	} {
		for k := range 4 {
			w := planned(t)
			w.git(w.dir, byHand...)
			w.git(w.dir, "commit", "--quiet", "--allow-empty", "-m", "by hand")
			n, real := w.merge(map[string]string{"delete_branch": "true"}), w.env.Git
			w.env.Git = dying{real, k%2 == 1, new(bool)}
			if r := Run(t.Context(), w.env, n); !strings.Contains(r.Reason, "killed") || w.has("draft/foo") {
				t.Fatalf("%s: it lives: %+v", name, r)
			}
			w.env.Git, n.Job.State.Attempt = real, 2
			if k < 2 {
				n.Job.State.Lost = 1
			} else {
				n.Job.State.Generation = 1
			}
			if r := Run(t.Context(), w.env, n); r.Outcome != kernel.OutcomeSucceeded || r.Merge.Target != kernel.CommitID(w.rev("main")) && name != "merged by hand" {
				t.Errorf("%s, %d: %+v", name, k, r)
			}
			w.tidy()
		}
	}
}

// A branch that the target had already is deleted without a merge commit.
func TestRetryOfAMergeThatWasMergedAlready(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, ".vizier/jobs/.keep", "")
	before := w.rev("main")
	w.git(w.dir, "branch", "draft/foo", w.commit(w.dir, "new.txt", "new\n"))
	tip := w.rev("main")
	n := w.merge(map[string]string{"delete_branch": "true"})
	w.want(n, kernel.OutcomeSucceeded, "draft/foo is merged already")
	n.Job.State.Closed = true
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded, "was merged before", "main has it in "+tip[:12])
	w.git(w.dir, "reset", "--quiet", "--hard", before)
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeFailed, "`git branch draft/foo "+tip+"`")
}

func TestMergeBesideASubmodule(t *testing.T) {
	w, sub := newWorld(t), newWorld(t)
	w.git(w.dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.dir, "sub")
	w.git(w.dir, "commit", "--quiet", "-m", "sub")
	w.plan(map[string]string{"new.txt": ""})
	sub.write(filepath.Join(w.dir, "sub"), "readme.txt", "operator's\n")
	w.want(w.merge(nil), kernel.OutcomeSucceeded)
	if w.read(w.dir, "sub/readme.txt") != "operator's\n" || !w.there(w.dir, "new.txt") || !strings.HasPrefix(w.git(w.dir, "ls-tree", "main", "sub"), "160000") {
		t.Error("the submodule was touched, or nothing was merged")
	}
	w.tidy()
}

// A merge that updates a submodule, which a hook has initialised, has its new commit also after
// a conflict in a file; only a commit that somebody makes in it replaces that.
func TestConflictBesideASubmodule(t *testing.T) {
	for _, changed := range []bool{false, true} {
		w, sub := newWorld(t), newWorld(t)
		t.Setenv("GIT_ALLOW_PROTOCOL", "file")
		w.env.Shell = script{}
		w.git(w.dir, "submodule", "--quiet", "add", sub.dir, "sub")
		w.git(w.dir, "commit", "--quiet", "-m", "sub")
		want := sub.commit(sub.dir, "more.txt", "more")
		w.write(filepath.Join(w.dir, ".git"), "hooks/post-checkout", "#!/bin/sh\ngit submodule --quiet update --init\n")
		if err := os.Chmod(filepath.Join(w.dir, ".git/hooks/post-checkout"), 0o755); err != nil {
			t.Fatal(err)
		}
		dir, _ := w.prepared(map[string]string{"slug": "foo"})
		w.write(dir, "readme.txt", "theirs\n")
		w.git(filepath.Join(dir, "sub"), "pull", "--quiet", "origin", "main")
		w.git(dir, "commit", "--quiet", "-a", "-m", "update sub")
		w.commit(w.dir, "readme.txt", "ours\n")
		n := w.merge(nil)
		w.want(n, kernel.OutcomeBlocked, "resolve readme.txt in")
		script := "echo both > readme.txt"
		if changed {
			script += "; git -C sub commit --quiet --allow-empty -m other"
		}
		w.want(w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": script}), kernel.OutcomeSucceeded, "resolved")
		if changed {
			want = w.rev("HEAD", filepath.Join(w.mergeDir(n), "sub"))
		}
		n.Job.State.Generation++
		r := w.want(n, kernel.OutcomeSucceeded)
		if got := w.rev("main:sub"); got != want || w.read(w.dir, "readme.txt") != "both\n" || strings.Contains(r.Reason, "parked") {
			t.Errorf("%s; the submodule is at %s, want %s", r.Reason, got, want)
		}
	}
}

// The two sides moved a submodule to different commits. Its files are not there, so the merge
// says how to choose one without them.
func TestConflictOfASubmodule(t *testing.T) {
	w, sub := newWorld(t), newWorld(t)
	t.Setenv("GIT_ALLOW_PROTOCOL", "file")
	w.env.Shell = script{}
	w.git(w.dir, "submodule", "--quiet", "add", sub.dir, "sub")
	w.git(w.dir, "commit", "--quiet", "-m", "sub")
	theirs := sub.commit(sub.dir, "theirs.txt", "x")
	sub.git(sub.dir, "reset", "--quiet", "--hard", "HEAD~")
	ours := sub.commit(sub.dir, "ours.txt", "x")
	move := func(to string) {
		w.git(w.dir, "update-index", "--cacheinfo", "160000,"+to+",sub")
		w.git(w.dir, "commit", "--quiet", "-m", "move sub")
	}
	w.git(w.dir, "switch", "--quiet", "--create", "draft/foo")
	move(theirs)
	w.git(w.dir, "switch", "--quiet", "main")
	move(ours)
	w.git(filepath.Join(w.dir, "sub"), "fetch", "--quiet", "origin", ours)
	w.git(filepath.Join(w.dir, "sub"), "checkout", "--quiet", ours)
	n := w.merge(nil)
	r := w.want(n, kernel.OutcomeBlocked, kernel.InConflict)
	command := "git -C .vizier/tmp-worktrees/merge-foo update-index --cacheinfo 160000,COMMIT,sub"
	if !strings.Contains(r.Reason, "`"+command+"`") {
		t.Errorf("%s", r.Reason)
	}
	w.want(w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": ":"}), kernel.OutcomeBlocked, "the merge conflict is not resolved", command)
	w.git(w.dir, strings.Fields(strings.Replace(strings.TrimPrefix(command, "git "), "COMMIT", theirs, 1))...)
	w.want(w.conflictGate(n, nil), kernel.OutcomeSucceeded)
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.rev("main:sub"); got != theirs {
		t.Errorf("the submodule is at %s, want %s", got, theirs)
	}
}

// A shallow clone may lack the common commit; with the rest of the history the merge goes on.
func TestAMergeInAShallowClone(t *testing.T) {
	w := planned(t)
	up := "file://" + w.dir + "/../up"
	w.shell(w.dir, "git clone -q . ../up && cd ../up && git config user.name a && git config user.email a@b && "+
		"echo x >x.txt && git add x.txt && git commit -qm x && echo y >y.txt && git add y.txt && git commit -qm y")
	w.shell(w.dir, "git remote add origin "+up+" && git fetch -q --depth 1 origin main && git reset -q --hard FETCH_HEAD")
	n := w.merge(nil)
	r := w.want(n, kernel.OutcomeFailed, "draft/foo and main have no commit in common in this shallow clone", "`vizier retry "+string(n.Job.ID)+"`")
	w.shell(w.dir, strings.Split(r.Reason, "`")[1])
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.files("main"); !w.there(w.dir, "x.txt") || !w.there(w.dir, "new.txt") {
		t.Errorf("main has %q", got)
	}
	w.tidy()
}

// Histories without a common commit are not merged, and each way out that is named works as typed.
func TestAMergeOfUnrelatedHistories(t *testing.T) {
	for _, whose := range []string{"the plan's", "the target's"} {
		for way := range 2 {
			w := planned(t)
			switch whose {
			case "the plan's":
				w.shell(w.dir, "git switch -q --orphan fresh; echo x >x.txt; git add x.txt; git commit -qm x; git branch -M fresh draft/foo; git switch -q main")
			default:
				w.shell(w.dir, "git switch -q --orphan fresh; echo y >y.txt; git add y.txt; git commit -qm y; git branch -M fresh main")
			}
			main := w.rev("main")
			n := w.merge(map[string]string{"delete_branch": "true"})
			r := w.want(n, kernel.OutcomeFailed, "draft/foo and main have no commit in common", "`vizier retry "+string(n.Job.ID)+"`")
			if w.rev("main") != main {
				t.Fatal("main has moved")
			}
			typed := strings.Split(r.Reason, "`")
			w.shell(w.dir, [...]string{typed[1], typed[3] + " && " + typed[5]}[way])
			n.Job.State.Generation++
			w.want(n, kernel.OutcomeSucceeded)
			want := map[string]string{"the plan's": "x.txt", "the target's": "new.txt"}[whose]
			if !w.there(w.dir, want) || w.git(w.dir, "merge-base", main, "main") != main {
				t.Errorf("%s, %d: main has %q", whose, way, w.files("main"))
			}
			w.tidy()
		}
	}
}

// What an agent has written on the target, of another merge, is not taken for that merge.
func TestAMergeThatAnAgentSaysIsDone(t *testing.T) {
	w := planned(t)
	n := w.merge(map[string]string{"delete_branch": "true"})
	forged := effect.Trailer + effectKey(n, "")
	w.git(w.dir, "commit", "--quiet", "--allow-empty", "-m", "feat: merge plan bar\n\n"+forged)
	w.want(n, kernel.OutcomeSucceeded, "merged draft/foo into main")
	if !w.there(w.dir, "new.txt") || w.has("draft/foo") {
		t.Error("it is not merged, or its branch is left")
	}

	w = planned(t)
	n = w.merge(map[string]string{"delete_branch": "true"})
	n.Job.State.Attempt = 2 // the first one had no time to do anything
	forged = effect.Trailer + effectKey(n, "")
	w.git(w.dir, "commit", "--quiet", "--allow-empty", "-m", "feat: merge plan bar\n\n# A plan\n\n"+forged+"\n\n"+effect.Trailer+"another")
	w.branch("draft/bar", nil)
	w.git(w.dir, "checkout", "--quiet", "draft/bar")
	w.git(w.dir, "commit", "--quiet", "--allow-empty", "-m", "an agent's\n\n"+forged)
	w.git(w.dir, "checkout", "--quiet", "main")
	w.git(w.dir, "merge", "--quiet", "--no-ff", "draft/bar")
	w.want(n, kernel.OutcomeSucceeded, "merged draft/foo into main")
	if !w.there(w.dir, "new.txt") || w.has("draft/foo") {
		t.Error("a later attempt has not merged it, or its branch is left")
	}
}

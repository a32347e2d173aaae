package op

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// mergeDir returns the worktree of a merge.
func (w *world) mergeDir(n *Node) string {
	w.Helper()
	tree, err := w.env.Git.OwnedWorktree("merge-foo-" + string(n.Job.ID))
	if err != nil {
		w.Fatal(err)
	}
	return filepath.Join(w.dir, cmp.Or(tree.Worktree, ".vizier/tmp-worktrees/none"))
}

// resolve resolves readme.txt by hand.
func (w *world) resolve(n *Node, text string) {
	w.Helper()
	w.write(w.mergeDir(n), "readme.txt", text)
	w.git(w.mergeDir(n), "add", "readme.txt")
}

// conflicting returns a world where draft/foo and main disagree about
// readme.txt.
func conflicting(t *testing.T) *world {
	t.Helper()
	return worldLike(t, "conflict", newWorld, func(w *world) {
		w.plan(map[string]string{"readme.txt": "theirs\n", "new.txt": "new\n"})
		w.commit(w.dir, "readme.txt", "ours\n")
	})
}

func TestConflictIsResolvedByHandAndGoesOn(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := conflicting(t)
		before, main := w.photograph(), w.rev("main")
		n := w.merge(map[string]string{"squash": squash, "delete_branch": "true"})
		for range 2 { // a conflict that is open is left as it is
			r := w.want(n, kernel.OutcomeBlocked, "readme.txt", " in .vizier/tmp-worktrees/merge-foo,", "git add", "vizier retry")
			if r.Exit != 10 || !r.produced(kernel.Artifact{Kind: kernel.MergeSentinel, Name: "foo"}) {
				t.Errorf("exit %d, produced %v", r.Exit, r.Produced)
			}
		}
		w.unchanged(before)
		if got := w.git(w.dir, "ls-tree", "-r", "--name-only", "draft/foo", planFile("foo")); got == "" {
			t.Error("other stages of the plan have no document any more")
		}
		var s sentinel
		data, err := w.env.Files.Sentinel("foo")
		if err = errors.Join(err, json.Unmarshal(data, &s)); err != nil {
			t.Fatal(err)
		}
		s.Created = s.Created.Truncate(0)
		if s.Slug != "foo" || s.Source != "draft/foo" || s.Target != "main" || s.Job != string(n.Job.ID) || s.Node != n.Node ||
			s.Run != string(n.Job.Spec.Origin.Run) || filepath.Join(w.dir, s.Worktree) != w.mergeDir(n) ||
			!slices.Equal(s.Files, []string{"readme.txt"}) || s.Created.IsZero() {
			t.Errorf("sentinel %+v", s)
		}
		w.resolve(n, "both\n")
		n.Job.State.Generation++ // the gate's route rewinds the job
		w.want(n, kernel.OutcomeSucceeded)
		if w.rev("main^") != main || w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "new\n" {
			t.Error("not merged as it was resolved")
		}
		if got := w.git(w.dir, "log", "-1", "--format=%B", "main"); !strings.Contains(got, "# The plan") || strings.Contains(got, "Conflicts") {
			t.Errorf("message %q", got)
		}
		if w.has("draft/foo") {
			t.Error("the source branch is still there")
		}
		w.tidy()
	}
}

// script is a shell for gates.
type script struct{ Shell }

func (script) Run(_ context.Context, dir, text string, _ []string) (int, error) {
	cmd := exec.Command("sh", "-c", text)
	cmd.Dir = dir
	return 0, cmd.Run()
}

// conflictGate returns the gate that resolves conflicts of merge n.
func (w *world) conflictGate(n *Node, args map[string]string) *Node {
	w.Helper()
	all := map[string]string{"slug": "foo"}
	maps.Copy(all, args)
	gate := w.node("", all)
	gate.Control, gate.Uses = "gate.conflict_resolution", "control.gate.conflict_resolution"
	gate.Job.Spec.Origin.Run = n.Job.Spec.Origin.Run
	return gate
}

func TestConflictIsResolvedByItsGate(t *testing.T) {
	w := conflicting(t)
	w.env.Shell = script{}
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	gate := w.conflictGate(w.merge(nil), map[string]string{"auto_resolve": "true", "auto_resolve_script": "echo both > readme.txt"})
	w.want(gate, kernel.OutcomeBlocked, kernel.NoConflict) // it is of another run
	gate.Job.Spec.Origin.Run = n.Job.Spec.Origin.Run
	w.want(gate, kernel.OutcomeSucceeded, "resolved")
	if s, err := readSentinel(w.env, "foo"); s != nil || err != nil {
		t.Errorf("the mark is left: %v, %v", s, err)
	}
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if w.read(w.dir, "readme.txt") != "both\n" {
		t.Error("not merged as the gate resolved it")
	}
	w.tidy()
}

// A merge in conflict whose branch is gone names the commit that it was merging, and goes on from there.
func TestAMergeInConflictWhoseBranchIsGone(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := conflicting(t)
		tip := w.rev("draft/foo")
		n := w.merge(map[string]string{"squash": squash})
		w.want(n, kernel.OutcomeBlocked)
		w.resolve(n, "both\n")
		w.git(w.dir, "branch", "-D", "draft/foo")
		n.Job.State.Generation++
		r := w.want(n, kernel.OutcomeFailed, "there is no branch draft/foo to merge", "`git branch draft/foo "+tip+"`, then `vizier retry ")
		_, command, _ := strings.Cut(r.Reason, "`git branch")
		w.shell(w.dir, "git branch"+command[:strings.IndexByte(command, '`')])
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded)
		if w.read(w.dir, "readme.txt") != "both\n" {
			t.Error("what was resolved is lost")
		}
	}
}

// gc removes from the repository what git does not count as needed.
func (w *world) gc() {
	w.Helper()
	w.git(w.dir, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
	w.git(w.dir, "gc", "--quiet", "--prune=now")
}

// The commit that a merge in conflict merges is kept as long as that is open, also if its branch is gone or amended.
func TestAConflictKeepsWhatIsMerged(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := conflicting(t)
		tip := w.rev("draft/foo")
		n := w.merge(map[string]string{"squash": squash})
		w.want(n, kernel.OutcomeBlocked)
		w.resolve(n, "both\n")
		w.git(w.dir, "branch", "-D", "draft/foo")
		w.gc()
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeFailed, "there is no branch draft/foo to merge", "`git branch draft/foo "+tip+"`")
		w.git(w.dir, "branch", "draft/foo", tip)
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded)
		if w.read(w.dir, "readme.txt") != "both\n" {
			t.Error("what was resolved is lost")
		}
		if held := w.git(w.dir, "for-each-ref", "refs/vizier/held"); held != "" {
			t.Errorf("held: %s", held)
		}
	}
}

// Where the commit that a merge in conflict merges is gone, as an earlier version let it, the merge begins anew if there is a branch,
// and else says what is gone. What was resolved is parked, or left.
func TestAConflictWhoseCommitIsGone(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		for _, amended := range []bool{true, false} {
			w := conflicting(t)
			n := w.merge(map[string]string{"squash": squash})
			w.want(n, kernel.OutcomeBlocked)
			w.resolve(n, "both\n")
			if amended {
				w.git(w.dir, "switch", "--quiet", "draft/foo")
				w.git(w.dir, "commit", "--quiet", "--amend", "--message", "amended")
				w.git(w.dir, "switch", "--quiet", "main")
			} else {
				w.git(w.dir, "branch", "-D", "draft/foo")
			}
			for ref := range strings.FieldsSeq(w.git(w.dir, "for-each-ref", "--format=%(refname)", "refs/vizier/held")) {
				w.git(w.dir, "update-ref", "-d", ref)
			}
			w.gc()
			n.Job.State.Generation++
			if !amended {
				w.want(n, kernel.OutcomeFailed, "there is no branch draft/foo to merge, and git does not have the commit ", "make the branch again", "vizier clean")
				if text := w.read(w.mergeDir(n), "readme.txt"); text != "both\n" {
					t.Errorf("squash %s: the file is %q", squash, text)
				}
				w.branch("draft/foo", map[string]string{"readme.txt": "theirs\n"})
				w.commit(w.dir, "readme.txt", "ours, too\n")
				n.Job.State.Generation++
			}
			w.want(n, kernel.OutcomeBlocked, "draft/foo has moved since it was last merged, and what that merge got to is parked", kernel.InConflict)
			if ref, _, _ := strings.Cut(w.parked(), "\n"); w.git(w.dir, "show", ref+":readme.txt") != "both" {
				t.Errorf("squash %s, amended %v: parked %q", squash, amended, w.parked())
			}
			w.resolve(n, "again\n")
			n.Job.State.Generation++
			w.want(n, kernel.OutcomeSucceeded)
		}
	}
}

// A gate that is retried after its merge has succeeded has nothing to do.
func TestAConflictGateAfterItsMerge(t *testing.T) {
	for st, want := range map[kernel.Status]kernel.Outcome{kernel.Succeeded: kernel.OutcomeSucceeded, kernel.Failed: kernel.OutcomeBlocked} {
		w := newWorld(t)
		w.write(w.dir, ".vizier/tmp/any", "") // else there is no store
		m := w.merge(nil)
		m.Job.State.Status = st
		m.ManifestNode.Job = m.Job.ID
		w.env.Records = past{m.Job}
		gate := w.conflictGate(m, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
		m.ManifestNode.Routes = map[string][]workflow.ManifestRoute{"blocked": {{Node: gate.Node}}}
		gate.Manifest.Nodes = map[string]workflow.ManifestNode{"merge": m.ManifestNode, "gone": {Job: "gone", Routes: m.Routes}}
		w.want(gate, want, map[kernel.Status]string{kernel.Succeeded: "nothing is left to resolve", kernel.Failed: kernel.NoConflict}[st])
	}
}

// A conflict whose mark somebody removed goes on as its merge says: with what is in its worktree or, without that, anew.
func TestAConflictWhoseMarkIsGone(t *testing.T) {
	for _, does := range []string{"nothing", "resolved", "removed"} {
		w := conflicting(t)
		m := w.merge(nil)
		m.ManifestNode.Job = m.Job.ID
		gate := w.conflictGate(m, nil)
		m.ManifestNode.Routes = map[string][]workflow.ManifestRoute{"blocked": {{Node: gate.Node}}}
		gate.Manifest.Nodes = map[string]workflow.ManifestNode{"merge": m.ManifestNode}
		r := w.want(m, kernel.OutcomeBlocked, "resolve readme.txt in")
		if err := w.env.Files.ClearSentinel("foo"); err != nil {
			t.Fatal(err)
		}
		blocked := m.Job
		blocked.State.Status, blocked.State.Reason = kernel.BlockedByDependency, r.Reason
		w.env.Records = past{blocked}
		w.want(gate, kernel.OutcomeBlocked, "not resolved: resolve readme.txt in", "vizier retry "+string(gate.Job.ID))
		if mark, err := readSentinel(w.env, "foo"); err != nil || mark == nil || mark.Job != string(m.Job.ID) || mark.Run != string(m.Job.Spec.Origin.Run) || mark.Source != "draft/foo" || mark.Worktree == "" {
			t.Errorf("the mark is not there again: %+v, %v", mark, err)
		}
		if err := w.env.Files.ClearSentinel("foo"); err != nil {
			t.Fatal(err)
		}
		switch does {
		case "nothing":
			continue
		case "resolved":
			w.resolve(m, "both\n")
		case "removed":
			w.git(w.dir, "worktree", "remove", "--force", w.mergeDir(m))
		}
		gate.Job.State.Generation++
		w.want(gate, kernel.OutcomeSucceeded, "the merge conflict is resolved")
		m.Job.State.Generation++
		if does == "removed" {
			w.want(m, kernel.OutcomeBlocked, "resolve readme.txt in")
			continue
		}
		w.want(m, kernel.OutcomeSucceeded)
		if got := w.read(w.dir, "readme.txt"); got != "both\n" {
			t.Errorf("merged is %q", got)
		}
		w.tidy()
		blocked.State.Reason = "main has uncommitted changes"
		w.env.Records = past{blocked}
		gate.Job.State.Generation++
		w.want(gate, kernel.OutcomeBlocked, kernel.NoConflict)
	}
}

// A file with conflict markers stays in conflict, however it was changed.
func TestAFileWithMarkersStaysInConflict(t *testing.T) {
	w := conflicting(t)
	w.env.Shell = script{}
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": "printf '<<<<<<< ours\\nhalf\\n' >readme.txt"})
	w.want(gate, kernel.OutcomeBlocked, "the merge conflict is not resolved", "resolve readme.txt")
	if s, err := readSentinel(w.env, "foo"); s == nil || err != nil {
		t.Errorf("the mark is gone: %v", err)
	}
	if got := w.git(w.mergeDir(n), "diff", "--name-only", "--diff-filter=U"); got != "readme.txt" {
		t.Errorf("in conflict are %q", got)
	}
}

// A file that is staged with its conflict markers is not resolved, also if a filter makes lines of the file begin with something
// else, or a retry of the merge has dropped the mark of the conflict.
func TestAFileThatIsStagedWithMarkersStaysInConflict(t *testing.T) {
	for _, filter := range []string{"cat", "sed 's/^S://'"} {
		for _, squash := range []string{"true", "false"} {
			w := conflicting(t)
			w.env.Shell = script{}
			w.git(w.dir, "config", "filter.s.clean", filter)
			if filter != "cat" {
				w.git(w.dir, "config", "filter.s.smudge", "sed 's/^/S:/'")
			}
			w.write(w.dir, ".git/info/attributes", "readme.txt filter=s\n")
			w.git(w.dir, "checkout", "--force", "--quiet", "HEAD", "--", "readme.txt")
			n, main := w.merge(map[string]string{"squash": squash}), w.rev("main")
			w.want(n, kernel.OutcomeBlocked)
			gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": "echo S:more >>readme.txt"})
			w.want(gate, kernel.OutcomeBlocked, "the merge conflict is not resolved", "resolve readme.txt")
			w.git(w.mergeDir(n), "add", "readme.txt")
			w.want(w.conflictGate(n, nil), kernel.OutcomeBlocked, "the merge conflict is not resolved", "resolve readme.txt", map[bool]string{true: "(conflict markers that are meant: commit them there)"}[filter == "cat"])
			for range 2 {
				if err := w.env.Files.ClearSentinel("foo"); err != nil {
					t.Fatal(err)
				}
				n.Job.State.Generation++
				w.want(n, kernel.OutcomeBlocked, "merging draft/foo into main is in conflict: resolve readme.txt in ")
			}
			if w.rev("main") != main {
				t.Error("it is merged")
			}
			w.resolve(n, "S:both\n")
			w.want(w.conflictGate(n, nil), kernel.OutcomeSucceeded, "resolved")
			w.want(n, kernel.OutcomeSucceeded)
		}
	}
}

// Whoever resolves a conflict first removes the locks of a git that was killed.
func TestLocksInAConflictedMerge(t *testing.T) {
	w := conflicting(t)
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	w.resolve(n, "both\n")
	tree := w.mergeDir(n)
	var locks []string
	for _, at := range []string{w.git(tree, "rev-parse", "--absolute-git-dir") + "/refs/worktree/vizier/settled.lock", filepath.Join(w.dir, ".git/refs/vizier/held", filepath.Base(tree), "settled.lock")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, nil, 0o600), os.Chtimes(at, time.Time{}, time.Now().Add(-time.Hour))); err != nil {
			t.Fatal(err)
		}
		locks = append(locks, at)
	}
	gate := w.conflictGate(n, nil)
	gate.Job.State.Started = time.Now()
	w.want(gate, kernel.OutcomeSucceeded, "resolved")
	for _, at := range locks {
		if _, err := os.Lstat(at); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("%s is left: %v", at, err)
		}
	}
	w.want(n, kernel.OutcomeSucceeded)
}

// A retry of a merge whose commit stands already takes that for its own.
func TestAMergeThatARetryFindsCommitted(t *testing.T) {
	w := conflicting(t)
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	w.resolve(n, "both\n")
	w.git(w.mergeDir(n), "commit", "--quiet", "-m", "merge\n\n"+effect.Trailer+effectKeyOf(n, 0, "")+"\n"+effect.Trailer+"another")
	n.Job.State.Generation = 2
	w.want(n, kernel.OutcomeSucceeded)
	if got, want := w.git(w.dir, "log", "-1", "--format=%B", "main"), "merge\n\n"+effect.Trailer+effectKeyOf(n, 2, ""); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	w.tidy()
}

func TestConflictThatAPersonCommits(t *testing.T) {
	for k := range 8 {
		w := conflicting(t)
		n, main := w.merge(map[string]string{"squash": []string{"true", "false"}[k%2]}), w.rev("main")
		w.want(n, kernel.OutcomeBlocked)
		w.resolve(n, "both\n")
		w.git(w.mergeDir(n), "commit", "--quiet", "-m", "by hand")
		w.crash(n, k/2+1)
		w.want(n, kernel.OutcomeSucceeded)
		if got := w.git(w.dir, "log", "-1", "--format=%B", "main"); got != "by hand\n\nVizier-Effect: "+effectKey(n, "") {
			t.Errorf("crash %d: message %q", k/2+1, got)
		}
		if w.read(w.dir, "readme.txt") != "both\n" || w.rev("main^") != main {
			t.Errorf("crash %d: the person's commit was not taken", k/2+1)
		}
		w.tidy()
	}
}

// A conflict may be resolved so that nothing is left of the plan.
func TestConflictThatIsResolvedToTheTarget(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		for _, crash := range []int{0, 1, 2} {
			w := newWorld(t)
			w.plan(map[string]string{"readme.txt": "theirs\n"})
			w.commit(w.dir, "readme.txt", "ours\n")
			main := w.rev("main")
			n := w.merge(map[string]string{"squash": squash, "delete_branch": "true"})
			w.want(n, kernel.OutcomeBlocked)
			w.git(w.mergeDir(n), "checkout", "--quiet", "--ours", "readme.txt")
			w.git(w.mergeDir(n), "add", "readme.txt")
			if crash > 0 {
				w.crash(n, crash)
			}
			n.Job.State.Generation++
			r := w.want(n, kernel.OutcomeSucceeded)
			if squash == "true" && (w.rev("main") != main || !strings.Contains(r.Reason, "nothing to commit: draft/foo brings nothing new to main")) {
				t.Errorf("crash %d: main %s, %q", crash, w.git(w.dir, "log", "--oneline", "main"), r.Reason)
			}
			if squash == "false" && (w.rev("main^") != main || w.git(w.dir, "diff", "main^", "main") != "") {
				t.Errorf("crash %d: %s: main %s", crash, r.Reason, w.git(w.dir, "log", "--graph", "--oneline", "main"))
			}
			if w.has("draft/foo") || w.read(w.dir, "readme.txt") != "ours\n" {
				t.Error("the branch is left, or the target has changed")
			}
			w.tidy()
		}
	}
}

// A merge that somebody has undone is no merge.
func TestConflictThatAPersonAborts(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := conflicting(t)
		main := w.rev("main")
		n := w.merge(map[string]string{"squash": squash, "delete_branch": "true"})
		w.want(n, kernel.OutcomeBlocked)
		w.git(w.mergeDir(n), "reset", "--quiet", "--hard")
		w.want(n, kernel.OutcomeBlocked, "readme.txt")
		if w.rev("main") != main || !w.has("draft/foo") {
			t.Error("an undone merge was taken for one")
		}
	}
}

// What is changed after somebody has undone the merge is not taken for its result: the gate says so, and the
// merge begins anew and keeps what is there.
func TestConflictThatAPersonResetsAndResolves(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		for _, reset := range []string{"--hard", "--mixed"} {
			w := conflicting(t)
			main := w.rev("main")
			n := w.merge(map[string]string{"squash": squash, "delete_branch": "true"})
			w.want(n, kernel.OutcomeBlocked)
			w.git(w.mergeDir(n), "reset", "--quiet", reset)
			w.resolve(n, "by hand\n")
			gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": "exit 1"})
			w.want(gate, kernel.OutcomeBlocked, "the merge in .vizier/tmp-worktrees/merge-foo was undone", "`vizier retry "+string(gate.Job.ID)+"` merges anew")
			if reset == "--hard" {
				w.want(gate, kernel.OutcomeSucceeded, "begins anew")
			} else if err := w.env.Files.ClearSentinel("foo"); err != nil { // as the kernel does at a retry of the merge
				t.Fatal(err)
			}
			n.Job.State.Generation++
			w.want(n, kernel.OutcomeBlocked, "the merge was undone in its worktree", "parked (`vizier tail "+string(n.Job.ID)+"`)", kernel.InConflict, "resolve readme.txt")
			if ref := w.parked(); ref == "" || w.git(w.dir, "show", strings.Fields(ref)[0]+":readme.txt") != "by hand" || w.rev("main") != main || !w.has("draft/foo") {
				t.Errorf("squash %s, %s: parked %q, main %s", squash, reset, ref, w.git(w.dir, "log", "--oneline", "main"))
			}
			w.resolve(n, "both\n")
			w.want(w.conflictGate(n, nil), kernel.OutcomeSucceeded)
			n.Job.State.Generation++
			w.want(n, kernel.OutcomeSucceeded)
			if w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "new\n" {
				t.Errorf("squash %s, %s: not merged as it was resolved", squash, reset)
			}
			w.tidy()
		}
	}
}

// So it is if that is committed, where the merge is to have two parents.
func TestConflictThatAPersonResetsAndCommits(t *testing.T) {
	w := conflicting(t)
	n, main := w.merge(map[string]string{"squash": "false"}), w.rev("main")
	w.want(n, kernel.OutcomeBlocked)
	w.git(w.mergeDir(n), "reset", "--quiet", "--hard")
	w.resolve(n, "by hand\n")
	w.git(w.mergeDir(n), "commit", "--quiet", "-m", "by hand")
	w.want(n, kernel.OutcomeBlocked, "the merge was undone in its worktree", kernel.InConflict)
	if ref := w.parked(); ref == "" || w.git(w.dir, "show", ref+":readme.txt") != "by hand" || w.rev("main") != main {
		t.Errorf("parked %q, main %s", ref, w.git(w.dir, "log", "--oneline", "main"))
	}
	w.git(w.mergeDir(n), "reset", "--quiet", "--hard") // merged again by hand
	w.shell(w.mergeDir(n), "git merge --quiet --no-commit draft/foo || true")
	w.resolve(n, "both\n")
	w.git(w.mergeDir(n), "commit", "--quiet", "-m", "both")
	w.want(n, kernel.OutcomeSucceeded)
	if w.rev("main^") != main || w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "new\n" {
		t.Errorf("the person's merge was not taken: %s", w.git(w.dir, "log", "--oneline", "main"))
	}
}

// So it is if the gate's script does that.
func TestConflictThatAScriptResets(t *testing.T) {
	w := conflicting(t)
	w.env.Shell = script{}
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": "git reset --quiet --hard; echo both >readme.txt"})
	w.want(gate, kernel.OutcomeBlocked, "was undone")
}

// A person retries the merge: the kernel has dropped the mark.
func TestConflictThatIsStartedOver(t *testing.T) {
	w := conflicting(t)
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	w.write(w.mergeDir(n), "readme.txt", "half done\n")
	if err := w.env.Files.ClearSentinel("foo"); err != nil {
		t.Fatal(err)
	}
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeBlocked)
	if got := w.read(w.mergeDir(n), "readme.txt"); !strings.Contains(got, "<<<<<<<") {
		t.Errorf("not merged anew: %q", got)
	}
	if ref := w.parked(); ref == "" || w.git(w.dir, "show", strings.Fields(ref)[0]+":readme.txt") != "half done" {
		t.Errorf("the half-done resolution is lost: parked %q", ref)
	}
	// The plan's branch moves on: what was resolved is not what is to be
	// merged now.
	w.resolve(n, "both\n")
	dir, _ := w.prepared(map[string]string{"slug": "foo"})
	w.commit(dir, "more.txt", "")
	w.want(n, kernel.OutcomeBlocked)
	w.resolve(n, "both, again\n")
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.files("main"); !slices.Contains(got, "more.txt") || w.read(w.dir, "readme.txt") != "both, again\n" {
		t.Errorf("files %q", got)
	}
}

// What a person commits in the merge's worktree and leaves behind there is kept, with what they had staged before.
func TestACommitThatIsLeftBehindInAMerge(t *testing.T) {
	for does, says := range map[string]string{
		"git switch --quiet draft/foo; echo more >more.txt; git add more.txt; git commit --quiet -m more": "draft/foo has moved since it was last merged, and what that merge got to is parked",
		"main=$(git rev-parse main); git switch --quiet draft/foo; git update-ref --no-deref HEAD $main":  "the merge was undone in its worktree, and what was changed there since is parked",
		"git checkout --quiet HEAD~1": "",
	} {
		for _, squash := range []string{"true", "false"} {
			w := conflicting(t)
			n := w.merge(map[string]string{"squash": squash})
			w.want(n, kernel.OutcomeBlocked)
			w.resolve(n, "draft\n")
			w.git(w.mergeDir(n), "commit", "--quiet", "-m", "draft")
			w.write(w.mergeDir(n), "readme.txt", "done\n")
			w.git(w.mergeDir(n), "commit", "--quiet", "--amend", "-a", "-m", "done")
			done := w.rev("HEAD", w.mergeDir(n))
			w.shell(w.mergeDir(n), does)
			w.want(n, kernel.OutcomeBlocked, says, kernel.InConflict)
			before := w.parked()
			if at := w.git(w.dir, "for-each-ref", "--format=%(objectname)", "refs/vizier/parked"); !strings.Contains(at, done) {
				t.Errorf("%s: parked %q, want %s", does, before, done)
			}
			w.resolve(n, "both\n")
			w.want(n, kernel.OutcomeSucceeded)
			if got := w.parked(); got != before {
				t.Errorf("%s: parked %q", does, got)
			}
		}
	}
}

// A merge says that something is parked only if something is.
func TestAMergeThatBeginsAnewWithNothingToPark(t *testing.T) {
	w := conflicting(t)
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	w.git(w.mergeDir(n), "reset", "--quiet", "--hard")
	dir, _ := w.prepared(map[string]string{"slug": "foo"})
	w.commit(dir, "more.txt", "")
	if r := w.want(n, kernel.OutcomeBlocked, "draft/foo has moved since it was last merged; merging"); strings.Contains(r.Reason, "parked") || w.parked() != "" {
		t.Errorf("%q, parked %q", r.Reason, w.parked())
	}
}

// A resolved merge is taken along when the target has moved meanwhile.
func TestResolvedConflictWhenTheTargetHasMoved(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := conflicting(t)
		n := w.merge(map[string]string{"squash": squash})
		w.want(n, kernel.OutcomeBlocked)
		w.commit(w.dir, "elsewhere.txt", "")
		w.resolve(n, "both\n")
		w.want(n, kernel.OutcomeSucceeded)
		if w.git(w.dir, "log", "-1", "--format=%s", "main^") != "add elsewhere.txt" || w.read(w.dir, "readme.txt") != "both\n" || w.parked() != "" {
			t.Errorf("not merged on top, or parked %q", w.parked())
		}
		w.tidy()
	}
}

// What a person changed in the worktree and did not stage is neither left out nor lost: it is
// named, and the merge waits. So are conflict markers that were staged; who means them commits.
func TestConflictWithChangesThatAreNotStaged(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := conflicting(t)
		n := w.merge(map[string]string{"squash": squash})
		w.want(n, kernel.OutcomeBlocked)
		gate := w.conflictGate(n, nil)
		w.git(w.mergeDir(n), "add", "readme.txt")
		w.want(gate, kernel.OutcomeBlocked, "resolve readme.txt in")
		w.want(n, kernel.OutcomeBlocked, kernel.InConflict, "resolve readme.txt in")
		w.resolve(n, "good\n")
		w.write(w.mergeDir(n), "readme.txt", "better\n")
		w.write(w.mergeDir(n), "new.txt", "fixed up\n")
		w.want(gate, kernel.OutcomeBlocked, "new.txt", "readme.txt")
		w.want(n, kernel.OutcomeBlocked, kernel.InConflict, "new.txt", "readme.txt")
		w.git(w.mergeDir(n), "add", "--all")
		w.want(gate, kernel.OutcomeSucceeded)
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded)
		if w.read(w.dir, "readme.txt") != "better\n" || w.read(w.dir, "new.txt") != "fixed up\n" || w.parked() != "" {
			t.Errorf("squash %s: not merged as it was left, or parked %q", squash, w.parked())
		}
		w.tidy()
	}
	w := conflicting(t)
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	w.git(w.mergeDir(n), "add", "readme.txt")
	w.git(w.mergeDir(n), "commit", "--quiet", "-m", "with markers")
	w.want(n, kernel.OutcomeSucceeded)
}

// All that the gate's script or agent did for the conflict is part of its resolution.
func TestAResolutionInOtherFiles(t *testing.T) {
	w := conflicting(t)
	w.env.Shell = script{}
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": "echo both > readme.txt; echo repaired > new.txt; echo made > made.txt"})
	w.want(gate, kernel.OutcomeSucceeded, "resolved")
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "repaired\n" || w.read(w.dir, "made.txt") != "made\n" || w.parked() != "" {
		t.Errorf("not merged as the script left it, or parked %q", w.parked())
	}
	w.tidy()
}

// A repository that was made besides is none of a resolution: it is not merged, and stays where it is.
func TestAResolutionBesideARepository(t *testing.T) {
	w := conflicting(t)
	w.env.Shell = script{}
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": "echo both > readme.txt; git init --quiet own; git -C own commit --quiet --allow-empty -m own"})
	w.want(gate, kernel.OutcomeSucceeded, "resolved")
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded, "its worktree is left")
	if w.read(w.dir, "readme.txt") != "both\n" || w.git(w.dir, "ls-tree", "main", "own") != "" {
		t.Errorf("merged as\n%s", w.git(w.dir, "ls-tree", "-r", "main"))
	}
	if w.git(filepath.Join(w.mergeDir(n), "own"), "log", "--format=%s") != "own" {
		t.Error("the repository is lost")
	}
}

// What is changed in the worktree once the merge has a result is parked, and that is said.
func TestChangesAfterTheResult(t *testing.T) {
	w := conflicting(t)
	w.env.Shell = &checks{}
	n := w.merge(nil).gatedBy("test -e "+filepath.Join(w.dir, "go"), "block")
	w.want(n, kernel.OutcomeBlocked)
	w.resolve(n, "both\n")
	w.want(n, kernel.OutcomeFailed, "main has not moved")
	w.write(w.mergeDir(n), "new.txt", "too late\n")
	w.write(w.dir, "go", "")
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded, "merged draft/foo", "is not part of it, and is parked: new.txt")
	if w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "new\n" || w.parked() == "" {
		t.Errorf("merged %q, parked %q", w.read(w.dir, "new.txt"), w.parked())
	}
}

// If the target has moved to something that a resolved squash conflicts with, only that is
// left to resolve. A merge of two parents begins anew and says where the work is.
func TestResolvedConflictWhenTheTargetMovedIntoAConflict(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := conflicting(t)
		n := w.merge(map[string]string{"squash": squash})
		w.want(n, kernel.OutcomeBlocked)
		w.resolve(n, "resolved\n")
		w.commit(w.dir, "readme.txt", "ours, again\n")
		n.Job.State.Generation++
		r := w.want(n, kernel.OutcomeBlocked, "main has moved since", kernel.InConflict, "readme.txt")
		text := w.read(w.mergeDir(n), "readme.txt")
		if squash == "true" {
			if w.parked() != "" || !strings.Contains(text, "resolved\n") || !strings.Contains(text, "ours, again\n") || strings.Contains(text, "theirs\n") {
				t.Errorf("parked %q; to resolve:\n%s", w.parked(), text)
			}
		} else if w.parked() == "" || !strings.Contains(r.Reason, "parked (`vizier tail "+string(n.Job.ID)) {
			t.Errorf("parked %q, %q", w.parked(), r.Reason)
		}
		w.resolve(n, "both\n")
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded)
		if w.git(w.dir, "log", "-1", "--format=%s", "main^") != "add readme.txt" || w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "new\n" {
			t.Errorf("squash %s: not merged as it was resolved:\n%s", squash, w.git(w.dir, "log", "--oneline", "main"))
		}
	}
}

// If the plan's branch has moved since, the merge begins anew and says where the work is.
func TestResolvedConflictWhenTheSourceHasMoved(t *testing.T) {
	w := conflicting(t)
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	w.resolve(n, "resolved\n")
	w.git(w.dir, "switch", "--quiet", "draft/foo")
	w.commit(w.dir, "readme.txt", "theirs, again\n")
	w.git(w.dir, "switch", "--quiet", "main")
	w.want(n, kernel.OutcomeBlocked, "draft/foo has moved since it was last merged", "is parked", kernel.InConflict)
	if w.parked() == "" {
		t.Error("nothing is parked")
	}
}

// Who resolves a conflict on the plan's branch, as by a rebase, retries the gate: it asks nobody, and the merge begins anew.
func TestConflictThatAPersonResolvesOnTheBranch(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := conflicting(t)
		w.env.Shell = script{}
		n := w.merge(map[string]string{"squash": squash, "delete_branch": "true"})
		w.want(n, kernel.OutcomeBlocked)
		gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": "true"})
		w.want(gate, kernel.OutcomeBlocked, "the merge conflict is not resolved")
		w.git(w.dir, "switch", "--quiet", "draft/foo")
		w.git(w.dir, "merge", "--quiet", "--strategy=ours", "main")
		w.git(w.dir, "switch", "--quiet", "main")
		gate.Job.State.Generation++
		w.want(gate, kernel.OutcomeSucceeded, "draft/foo has moved since, and is merged anew")
		if s, err := readSentinel(w.env, "foo"); s != nil || err != nil {
			t.Errorf("squash %s: the mark is left: %v, %v", squash, s, err)
		}
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded)
		if w.read(w.dir, "readme.txt") != "theirs\n" || w.read(w.dir, "new.txt") != "new\n" {
			t.Errorf("squash %s: not merged as it was resolved", squash)
		}
		w.tidy()
	}
}

// A second merge of a plan leaves the conflict of the first as it is, and goes on once that is
// resolved or its worktree is gone.
func TestASecondMergeInConflict(t *testing.T) {
	for _, resolve := range []bool{true, false} {
		w := conflicting(t)
		first, second := w.merge(map[string]string{"squash": "false"}), w.merge(map[string]string{"squash": "false"})
		w.want(first, kernel.OutcomeBlocked)
		w.want(second, kernel.OutcomeBlocked, "conflicts here too", string(first.Job.ID), "open in .vizier/tmp-worktrees/merge-foo:")
		if mark, err := readSentinel(w.env, "foo"); err != nil || mark.Job != string(first.Job.ID) {
			t.Errorf("the mark %+v, %v", mark, err)
		}
		if tree, err := w.env.Git.OwnedWorktree("merge-foo-" + string(second.Job.ID)); err != nil || tree.Worktree != "" {
			t.Errorf("its worktree is left: %+v, %v", tree, err)
		}
		if !resolve {
			tree, err := w.env.Git.OwnedWorktree("merge-foo-" + string(first.Job.ID))
			if err != nil || w.env.Git.RemoveWorktree(t.Context(), tree).Status != kernel.CleanupDone {
				t.Fatalf("%+v, %v", tree, err)
			}
			w.want(second, kernel.OutcomeBlocked, kernel.InConflict, " in .vizier/tmp-worktrees/merge-foo,")
			continue
		}
		w.resolve(first, "both\n")
		w.want(first, kernel.OutcomeSucceeded)
		w.want(second, kernel.OutcomeSucceeded, "is merged already")
		w.tidy()
	}
}

// The merge of another branch of the plan leaves the conflict as it is, and what was resolved of it so far.
func TestAMergeOfAnotherBranchLeavesAConflictOpen(t *testing.T) {
	w := conflicting(t)
	w.branch("other", map[string]string{"other.txt": "other\n"})
	first := w.merge(map[string]string{"squash": "false"})
	w.want(first, kernel.OutcomeBlocked)
	before, err := readSentinel(w.env, "foo")
	if err != nil {
		t.Fatal(err)
	}
	w.resolve(first, "both\n")
	w.want(w.merge(map[string]string{"branch": "other", "squash": "false"}), kernel.OutcomeSucceeded)
	if mark, err := readSentinel(w.env, "foo"); err != nil || !reflect.DeepEqual(mark, before) {
		t.Fatalf("the mark is %+v, %v; it was %+v", mark, err, before)
	}
	w.want(first, kernel.OutcomeSucceeded)
	if mark, err := readSentinel(w.env, "foo"); mark != nil || err != nil {
		t.Errorf("the mark is left: %+v, %v", mark, err)
	}
	if w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "other.txt") != "other\n" || w.parked() != "" {
		t.Errorf("not merged as it was resolved; parked %q", w.parked())
	}
	w.tidy()
}

// Nor does a second merge forget the conflict of the first if somebody has moved its worktree: it is resolved where it is.
func TestASecondMergeWhileTheWorktreeOfAConflictIsElsewhere(t *testing.T) {
	for _, to := range []string{".vizier/tmp-worktrees/mine", filepath.Join(t.TempDir(), "mine")} {
		w := conflicting(t)
		first, second := w.merge(map[string]string{"squash": "false"}), w.merge(map[string]string{"squash": "false"})
		w.want(first, kernel.OutcomeBlocked)
		was, err := readSentinel(w.env, "foo")
		if err != nil {
			t.Fatal(err)
		}
		w.git(w.dir, "worktree", "move", was.Worktree, to)
		w.want(second, kernel.OutcomeBlocked, string(first.Job.ID), "open in "+to+":")
		if mark, err := readSentinel(w.env, "foo"); err != nil || mark.Job != string(first.Job.ID) {
			t.Errorf("the mark %+v, %v", mark, err)
		}
		w.git(w.dir, "worktree", "move", to, was.Worktree)
		w.resolve(first, "both\n")
		w.want(first, kernel.OutcomeSucceeded)
		w.want(second, kernel.OutcomeSucceeded, "is merged already")
		w.tidy()
	}
}

func TestConflictsOfManyKinds(t *testing.T) {
	w := newWorld(t)
	odd := "dir/with space é\nand break"
	w.commit(w.dir, odd, "base\n")
	w.commit(w.dir, "gone.txt", "base\n")
	dir := filepath.Join(t.TempDir(), "b")
	w.git(w.dir, "worktree", "add", "--quiet", "-b", "draft/foo", dir)
	w.commit(dir, odd, "theirs\n")
	w.git(dir, "rm", "--quiet", "gone.txt")
	w.commit(dir, "both.txt", "theirs\n")
	w.git(w.dir, "worktree", "remove", dir)
	w.commit(w.dir, odd, "ours\n")
	w.commit(w.dir, "gone.txt", "changed\n")
	w.commit(w.dir, "both.txt", "ours\n")
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	s, err := readSentinel(w.env, "foo")
	if err != nil || !slices.Equal(s.Files, []string{"both.txt", odd, "gone.txt"}) {
		t.Fatalf("%v, %q", err, s.Files)
	}
	at := filepath.Join(w.dir, s.Worktree)
	w.write(at, odd, "resolved\n")
	w.write(at, "both.txt", "resolved\n")
	os.Remove(filepath.Join(at, "gone.txt"))
	w.write(at, "stray.txt", "not part of the merge")
	w.git(at, append([]string{"add", "--all", "--"}, s.Files...)...)
	if left, err := w.env.Git.Unmerged(t.Context(), at); err != nil || len(left) > 0 {
		t.Fatalf("%v, unmerged %q", err, left)
	}
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.files("main"); !slices.Equal(got, []string{".gitignore", "both.txt", odd, "readme.txt"}) {
		t.Errorf("files %q", got)
	}
	if w.read(w.dir, odd) != "resolved\n" || w.read(w.dir, "both.txt") != "resolved\n" {
		t.Error("not as resolved")
	}
}

var errCrash = errors.New("crash")

// crashing stops right after the k-th change of the world.
type crashing struct {
	Git
	left int
}

// step counts a change.
func (g *crashing) step(do func() error) error {
	g.left--
	switch {
	case g.left > 0:
		return do()
	case g.left == 0:
		return errors.Join(do(), errCrash)
	default:
		return errCrash
	}
}

func (g *crashing) EnsureWorktree(ctx context.Context, name, place, branch string, c kernel.CommitID) (tree kernel.Context, err error) {
	err = g.step(func() (err error) { tree, err = g.Git.EnsureWorktree(ctx, name, place, branch, c); return err })
	return tree, err
}

func (g *crashing) RemoveFile(ctx context.Context, dir, p string) error {
	return g.step(func() error { return g.Git.RemoveFile(ctx, dir, p) })
}

func (g *crashing) Commit(ctx context.Context, dir, m string) (id kernel.CommitID, err error) {
	err = g.step(func() (err error) { id, err = g.Git.Commit(ctx, dir, m); return err })
	return id, err
}

func (g *crashing) Amend(ctx context.Context, dir, m string) (id kernel.CommitID, err error) {
	err = g.step(func() (err error) { id, err = g.Git.Amend(ctx, dir, m); return err })
	return id, err
}

func (g *crashing) Advance(ctx context.Context, b string, from, to kernel.CommitID) (o string, moved bool, err error) {
	err = g.step(func() (err error) { o, moved, err = g.Git.Advance(ctx, b, from, to); return err })
	return o, moved, err
}

func (g *crashing) Detach(ctx context.Context, dir string, c kernel.CommitID) error {
	return g.step(func() error { return g.Git.Detach(ctx, dir, c) })
}

func (g *crashing) Merge(ctx context.Context, dir string, c kernel.CommitID, squash bool) error {
	return g.step(func() error { return g.Git.Merge(ctx, dir, c, squash) })
}

func (g *crashing) SetMergeState(ctx context.Context, dir string, a, b, c kernel.CommitID) error {
	return g.step(func() error { return g.Git.SetMergeState(ctx, dir, a, b, c) })
}

func (g *crashing) DeleteBranch(ctx context.Context, name string, old kernel.CommitID) error {
	return g.step(func() error { return g.Git.DeleteBranch(ctx, name, old) })
}

func (g *crashing) RemoveWorktree(ctx context.Context, c kernel.Context) (gone kernel.Cleanup) {
	if err := g.step(func() error { gone = g.Git.RemoveWorktree(ctx, c); return nil }); err != nil {
		return kernel.Cleanup{Status: kernel.CleanupFailed, Error: err.Error()}
	}
	return gone
}

// crash runs n until after its k-th change of the world, or to its end.
func (w *world) crash(n *Node, k int) (ended bool) {
	real := w.env.Git
	g := &crashing{real, k}
	w.env.Git = g
	w.run(n)
	w.env.Git = real
	return g.left > 0
}

// crashes returns after how many changes more the next crash comes, for a squash and for a merge with two parents:
// most that they change is the same.
func crashes() map[string]int {
	if os.Getenv("VIZIER_LONG") != "" {
		return map[string]int{"true": 1, "false": 1}
	}
	return map[string]int{"true": 1, "false": 3}
}

// A resolution is not lost wherever a crash comes, and the target may have
// moved before it.
func TestResolvedConflictAfterACrashAnywhere(t *testing.T) {
	for squash, every := range crashes() {
		for k, seen := 1, false; !seen; k += every {
			w := conflicting(t)
			n := w.merge(map[string]string{"squash": squash, "delete_branch": "true"})
			w.want(n, kernel.OutcomeBlocked)
			w.commit(w.dir, "elsewhere.txt", "")
			w.resolve(n, "both\n")
			before := w.rev("main")
			if seen = w.crash(n, k); seen && k < 6 {
				t.Fatalf("only %d changes seen", k-1)
			}
			w.want(n, kernel.OutcomeSucceeded)
			count := w.git(w.dir, "rev-list", "--first-parent", "--count", before+"..main")
			if count != "1" || w.read(w.dir, "readme.txt") != "both\n" || w.has("draft/foo") {
				t.Errorf("crash after change %d: %s commits, readme %q", k, count, w.read(w.dir, "readme.txt"))
			}
			w.tidy()
		}
	}
}

// Nor is it lost where the target has moved to something that it conflicts with.
func TestCollidingConflictAfterACrashAnywhere(t *testing.T) {
	for k, seen := 1, false; !seen; k++ {
		w := conflicting(t)
		n := w.merge(nil)
		w.want(n, kernel.OutcomeBlocked)
		w.resolve(n, "resolved\n")
		w.commit(w.dir, "readme.txt", "ours, again\n")
		if seen = w.crash(n, k); seen && k < 4 {
			t.Fatalf("only %d changes seen", k-1)
		}
		w.want(n, kernel.OutcomeBlocked, kernel.InConflict, "readme.txt")
		if text := w.read(w.mergeDir(n), "readme.txt"); !strings.Contains(text, "resolved\n") || !strings.Contains(text, "ours, again\n") {
			t.Errorf("crash after change %d: to resolve:\n%s", k, text)
		}
		w.resolve(n, "both\n")
		w.want(n, kernel.OutcomeSucceeded)
		if w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "new\n" {
			t.Errorf("crash after change %d: merged %q", k, w.read(w.dir, "readme.txt"))
		}
		w.tidy()
	}
}

// Wherever a crash comes, the next attempt ends as if there had been none.
func TestMergeAfterACrashAnywhere(t *testing.T) {
	for squash, every := range crashes() {
		for k, seen := 1, false; !seen; k += every {
			w := planned(t)
			before := w.rev("main")
			n := w.merge(map[string]string{"squash": squash, "delete_branch": "true"})
			if seen = w.crash(n, k); seen && k < 12 {
				t.Fatalf("only %d changes seen", k-1)
			}
			r := w.run(n)
			if r.Outcome != kernel.OutcomeSucceeded {
				t.Fatalf("crash after change %d: %s", k, r.Reason)
			}
			count := w.git(w.dir, "rev-list", "--first-parent", "--count", before+"..main")
			if count != "1" || !slices.Equal(w.files("main"), []string{".gitignore", "new.txt", "readme.txt"}) {
				t.Errorf("crash after change %d: %s commits, files %q", k, count, w.files("main"))
			}
			if w.read(w.dir, "new.txt") != "new\n" || w.git(w.dir, "status", "--porcelain", "--untracked-files=no") != "" {
				t.Errorf("crash after change %d: the checkout was not brought along", k)
			}
			if w.has("draft/foo") {
				t.Errorf("crash after change %d: the source branch is there: %s", k, r.Reason)
			}
			w.tidy()
		}
	}
}

// stages returns what the index of a merge has of each file in conflict, as git's
// status has it.
func (w *world) stages(n *Node) string {
	w.Helper()
	var out []string
	for line := range strings.Lines(w.git(w.mergeDir(n), "status", "--porcelain")) {
		if f := strings.Fields(line); strings.ContainsAny(f[0], "U") || f[0] == "AA" || f[0] == "DD" {
			out = append(out, strings.Join(f, " "))
		}
	}
	return strings.Join(out, ", ")
}

// Each kind of conflict is resolved by what a script does to the files, and by nothing else.
func TestEachKindOfConflictIsResolvedByItsFiles(t *testing.T) {
	const long = "1\n2\n3\n4\n5\n6\n"
	for _, c := range []struct {
		name               string
		base, theirs, ours string // scripts
		stages             string
		resolve, want      string // a script, and what main has then
	}{
		{"renamed on both sides", "printf '" + long + "' >old", "git mv old b", "git mv old a", "AU a, UA b", "rm b; echo both >a", "a: both"},
		{"deleted by them", "echo base >f", "git rm -q f", "echo ours >f", "UD f", "rm f", ""},
		{"deleted by them, kept", "echo base >f", "git rm -q f", "echo ours >f", "UD f", "touch f", "f: ours"},
		{"deleted by us", "echo base >f", "echo theirs >f", "git rm -q f", "DU f", "rm f", ""},
		{"deleted by us, changed", "echo base >f", "echo theirs >f", "git rm -q f", "DU f", "echo both >f", "f: both"},
		{"binary", "printf 'a\\0b' >f", "printf 'a\\0theirs' >f", "printf 'a\\0ours' >f", "UU f", "touch f", "f: a\x00ours"},
		{"added on both sides", ":", "echo theirs >f", "echo ours >f", "AA f", "echo both >f", "f: both"},
		{"links", "ln -s base f", "ln -sf theirs f", "ln -sf ours f", "UU f", "ln -sf both f", "f -> both"},
		{"a link that leads to a directory", "ln -s base f", "ln -sf theirs f", "ln -sf ours f", "UU f", "ln -sfn . f", "f -> ."},
		{"modes", ":", "echo x >f; chmod +x f", "echo x >f", "AA f", "chmod +x f", "f: x (755)"},
		{"a file that is to be a directory", "echo base >f", "echo theirs >f", "echo ours >f", "UU f", "rm f; mkdir f; echo in >f/g", "f/g: in"},
		{"a directory that is to be a file", "mkdir d; echo base >d/f", "echo theirs >d/f", "echo ours >d/f", "UU d/f", "rm -r d; echo file >d", "d: file"},
		{"a file beside a directory", ":", "mkdir f; echo theirs >f/g", "echo ours >f", "AU f~HEAD", "rm f~HEAD", "f/g: theirs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.env.Shell = script{}
			do := func(text string) {
				w.Helper()
				if _, err := (script{}).Run(t.Context(), w.dir, text+"; git add -A; git commit --quiet --allow-empty -m x", nil); err != nil {
					t.Fatal(err)
				}
			}
			do(c.base)
			w.git(w.dir, "switch", "--quiet", "--create", "draft/foo")
			do(c.theirs)
			w.git(w.dir, "switch", "--quiet", "main")
			do(c.ours)
			n := w.merge(nil)
			w.want(n, kernel.OutcomeBlocked, kernel.InConflict)
			if got := w.stages(n); got != c.stages {
				t.Fatalf("in conflict are %q, want %q", got, c.stages)
			}
			gate := func(script string) *Node {
				return w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": script})
			}
			w.want(gate(":"), kernel.OutcomeBlocked, "the merge conflict is not resolved")
			w.want(gate(c.resolve), kernel.OutcomeSucceeded)
			n.Job.State.Generation++
			w.want(n, kernel.OutcomeSucceeded)
			var got []string
			for line := range strings.Lines(w.git(w.dir, "ls-tree", "-r", "main")) {
				info, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
				if name == "readme.txt" || name == ".gitignore" {
					continue
				}
				text := w.git(w.dir, "show", "main:"+name)
				switch info[:6] {
				case "120000":
					got = append(got, name+" -> "+text)
				case "100755":
					got = append(got, name+": "+text+" (755)")
				default:
					got = append(got, name+": "+text)
				}
			}
			if have := strings.Join(got, ", "); have != c.want {
				t.Errorf("main has %q, want %q", have, c.want)
			}
			w.tidy()
		})
	}
}

// What a person resolved without git add counts once the gate's script or agent has ended well, although
// the gate does not see it change.
func TestAResolutionBeforeItsGate(t *testing.T) {
	w := conflicting(t)
	w.env.Shell = script{}
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	w.write(w.mergeDir(n), "readme.txt", "both\n")
	w.want(w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": ":"}), kernel.OutcomeSucceeded, "resolved")
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if w.read(w.dir, "readme.txt") != "both\n" {
		t.Error("not merged as it was resolved")
	}
}

// What the merge and its gate say of a conflict is true only while its worktree is there.
func TestConflictWhoseWorktreeIsGone(t *testing.T) {
	w := newWorld(t)
	w.plan(map[string]string{"readme.txt": "theirs\n"})
	w.commit(w.dir, "readme.txt", "ours\n")
	n := w.merge(nil)
	gate := w.conflictGate(n, nil)
	for _, n := range []*Node{n, gate} {
		r := w.want(n, kernel.OutcomeBlocked)
		if got := Resolvable(r.Reason, func(dir string) string { return dir }); got != r.Reason {
			t.Errorf("with its worktree: %s", got)
		}
		before, _, _ := strings.Cut(r.Reason, "resolve readme.txt")
		want := before + "its worktree .vizier/tmp-worktrees/merge-foo is gone, and `vizier retry " + string(n.Job.ID) + "` merges anew"
		if got := Resolvable(r.Reason, func(string) string { return "" }); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	was := "a note: " + toResolve(t.Context(), w.env, "d", []string{"one", "two"}, "gate") + "; more"
	is := "not resolved: " + toResolve(t.Context(), w.env, "d", []string{"two"}, "gate")
	if got := LeftToResolve(was, is); got != strings.Replace(was, "resolve one, two in d", "resolve two in d", 1) {
		t.Errorf("after its gate: %s", got)
	}
	for _, c := range [][2]string{{was, "no merge conflict is open"}, {"main has moved", is}} {
		if got := LeftToResolve(c[0], c[1]); got != c[0] {
			t.Errorf("%s, after %s: %s", c[0], c[1], got)
		}
	}
	second := w.merge(nil)
	r := w.want(second, kernel.OutcomeBlocked)
	if got := Resolvable(r.Reason, func(dir string) string { return dir }); got != r.Reason {
		t.Errorf("behind a conflict that is there: %s", got)
	}
	got := Resolvable(r.Reason, func(string) string { return "" })
	if want := "`vizier retry " + string(second.Job.ID) + "` merges unless that has merged the plan"; !strings.HasSuffix(got, want) || strings.Contains(got, "vizier clean") {
		t.Errorf("behind a conflict that is gone: %s; want %s", got, want)
	}
}

// An earlier version put the absolute path of the worktree on record, which the repository may have left since.
func TestConflictOnRecordWithAnAbsolutePath(t *testing.T) {
	const tree = ".vizier/tmp-worktrees/merge-foo"
	for _, root := range []string{"/repo", "/home/a user/repo", "/repo/.vizier/tmp-worktrees/other"} {
		for _, said := range []string{
			"merging foo into main is in conflict: resolve a.txt in %s, `git add` them (submodule m: `git -C %[1]s update-index`), then `vizier retry 3`",
			"merging foo into main waits: the conflict of 2 is open in %s: resolve it there as `vizier why 2` says, or `vizier clean 2`; then `vizier retry 3`",
		} {
			was, is := fmt.Sprintf(said, root+"/"+tree), fmt.Sprintf(said, tree)
			if got := TreeToResolve(was); got != tree {
				t.Errorf("the tree of %q: %q", was, got)
			}
			if got := Resolvable(was, func(dir string) string { return dir }); got != is {
				t.Errorf("%q: %q; want %q", was, got, is)
			}
			if got, want := Resolvable(was, func(string) string { return "" }), Resolvable(is, func(string) string { return "" }); got != want {
				t.Errorf("without its worktree, %q: %q; want %q", was, got, want)
			}
		}
	}

	w := newWorld(t)
	w.plan(map[string]string{"readme.txt": "theirs\n"})
	w.commit(w.dir, "readme.txt", "ours\n")
	first, second := w.merge(nil), w.merge(nil)
	w.want(first, kernel.OutcomeBlocked)
	mark, err := readSentinel(w.env, "foo")
	if err != nil {
		t.Fatal(err)
	}
	mark.Worktree = filepath.Join("/was/here", mark.Worktree)
	if err := writeSentinel(w.env, first, *mark); err != nil {
		t.Fatal(err)
	}
	w.want(second, kernel.OutcomeBlocked, "resolve it there")
}

// A merge has all files, also where the checkout is sparse. In a worktree that a person made sparse, what the advice
// names takes a file outside of it.
func TestConflictOutsideOfASparseCheckout(t *testing.T) {
	w := newWorld(t)
	w.commit(w.dir, "in/a.txt", "one\n")
	w.commit(w.dir, "out/c.txt", "one\n")
	w.commit(w.dir, "out/b.txt", "one\n")
	w.branch("draft/foo", map[string]string{"out/b.txt": "theirs\n"})
	w.commit(w.dir, "out/b.txt", "ours\n")
	w.write(w.dir, ".vizier/jobs/.keep", "")
	w.git(w.dir, "sparse-checkout", "set", "in")
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked, "resolve out/b.txt in", "`git add` them")
	if !w.there(w.mergeDir(n), "out/c.txt") {
		t.Fatal("the merge's worktree lacks out/c.txt")
	}
	w.narrow(n)
	w.want(n, kernel.OutcomeBlocked, "resolve out/b.txt in", "`git add --sparse` them")
	w.want(w.conflictGate(n, nil), kernel.OutcomeBlocked, "`git add --sparse` them")
	w.write(w.mergeDir(n), "out/b.txt", "both\n")
	w.git(w.mergeDir(n), "add", "--sparse", "out/b.txt")
	w.want(n, kernel.OutcomeSucceeded)
	if w.git(w.dir, "show", "main:out/b.txt") != "both" {
		t.Error("not merged as resolved")
	}
}

// resolver is an agent that does something to a conflict, and then ends as it is told.
type resolver struct {
	does   func(dir string)
	answer kernel.AgentAnswer
	asked  int
}

func (r *resolver) Run(ctx context.Context, q kernel.AgentRequest) (kernel.AgentAnswer, error) {
	r.asked++
	r.does(q.Dir)
	return r.answer, ctx.Err()
}

package op

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

func TestSaveAndApplyPatches(t *testing.T) {
	w := newWorld(t)
	w.commit(w.dir, "crlf é.txt", "a\r\nb\r\n")
	w.commit(w.dir, "binary", "\x00\x01\x02")
	w.commit(w.dir, "script", "#!/bin/sh\n")
	for _, setting := range []string{"diff.noprefix", "diff.mnemonicPrefix", "diff.relative"} {
		w.git(w.dir, "config", setting, "true")
	}
	w.git(w.dir, "config", "color.ui", "always")
	base := w.rev("HEAD")
	w.write(w.dir, "crlf é.txt", "a\r\nc \r\n")
	w.write(w.dir, "binary", "\x03\x00")
	os.Chmod(filepath.Join(w.dir, "script"), 0o755)
	w.git(w.dir, "rm", "--quiet", "readme.txt")
	w.write(w.dir, "staged.txt", "new\n")
	w.git(w.dir, "add", "staged.txt")
	w.write(w.dir, "untracked.txt", "no part of it\n")
	w.write(w.dir, ".vizier/state/x", "private")
	w.git(w.dir, "add", "--force", ".vizier/state/x")
	save := w.node("git.save_worktree_patch", nil)
	r := w.want(save, kernel.OutcomeSucceeded)
	if !r.produced(kernel.Artifact{Kind: kernel.CommandPatch, Name: string(save.Job.ID)}) {
		t.Errorf("produced %v", r.Produced)
	}
	file := jobFile(save.Job.ID, patchName)
	if text := w.read(w.dir, file); strings.Contains(text, "untracked") || strings.Contains(text, "private") {
		t.Errorf("patch %s", text)
	}

	dir, _ := w.prepared(map[string]string{"slug": "foo"})
	w.write(dir, ".vizier/more.patch", "diff --git a/staged.txt b/staged.txt\n--- a/staged.txt\n+++ b/staged.txt\n@@ -1 +1 @@\n-new\n+newer\n")
	list := map[string]string{"files_json": `["` + file + `", ".vizier/more.patch"]`}
	prepare := w.node("patch.pipeline_prepare", list).in(dir)
	w.want(prepare, kernel.OutcomeSucceeded, "2 patches")
	n := w.node("patch.execute_pipeline", nil).in(dir)
	n.Job.Spec.After = []kernel.JobID{prepare.Job.ID}
	w.want(n, kernel.OutcomeSucceeded, "2 patches")
	if w.read(dir, "crlf é.txt") != "a\r\nc \r\n" || w.read(dir, "binary") != "\x03\x00" || w.read(dir, "staged.txt") != "newer\n" || w.there(dir, "readme.txt") {
		t.Error("not applied")
	}
	if info, err := os.Stat(filepath.Join(dir, "script")); err != nil || info.Mode()&0o111 == 0 {
		t.Error("the executable bit is lost")
	}
	// Crashes: before the last patch was recorded, and after it.
	w.want(n, kernel.OutcomeSucceeded)
	w.write(w.dir, jobFile(n.Job.ID, progressName), `{"effect": "`+effectKey(n, "")+`", "applied": 1}`)
	w.want(n, kernel.OutcomeSucceeded)
	w.git(dir, "reset", "--quiet", "--hard")
	w.want(w.node("patch.execute_pipeline", map[string]string{"files_json": `["` + file + `"]`}).in(dir), kernel.OutcomeSucceeded)

	last := w.node("patch.pipeline_finalize", nil).in(dir)
	w.want(last, kernel.OutcomeSucceeded)
	if w.read(w.dir, jobFile(last.Job.ID, patchName)) != w.read(w.dir, file) {
		t.Error("the result's patch differs from the one that was applied")
	}
	if got := w.read(w.dir, jobFile(last.Job.ID, finalizedName)); !strings.Contains(got, `"patch_path": "`+jobFile(last.Job.ID, patchName)) {
		t.Errorf("finalized %s", got)
	}
	if info, err := os.Stat(filepath.Join(w.dir, jobFile(last.Job.ID, finalizedName))); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if w.rev("HEAD") != base {
		t.Error("something was committed")
	}
}

// A patch that a node of the run has kept is named by that node, in a stage
// without the stage's name too, if the node that applies it needs it.
func TestThePatchOfANode(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, "readme.txt", "changed\n")
	save := w.node("git.save_worktree_patch", nil)
	w.want(save, kernel.OutcomeSucceeded)
	dir, _ := w.prepared(map[string]string{"slug": "foo"})
	before := w.read(dir, "readme.txt")
	patch := kernel.Artifact{Kind: kernel.CommandPatch, Name: string(save.Job.ID)}
	for _, name := range []string{"keep", "one__keep"} {
		for _, op := range []string{"patch.pipeline_prepare", "patch.execute_pipeline"} {
			n := w.node(op, map[string]string{"files_json": `["` + name + `"]`}).in(dir)
			n.Node = "one__apply"
			n.Manifest.Nodes = map[string]workflow.ManifestNode{"one__keep": {Node: "one__keep", Job: save.Job.ID}}
			w.want(n, kernel.OutcomeFailed, "patch "+name+" is not there")
			n.Needs = append(n.Needs, workflow.RecordOf(patch))
			w.want(n, kernel.OutcomeSucceeded, "1 patches")
		}
		if got := w.read(dir, "readme.txt"); got != "changed\n" || got == before {
			t.Errorf("%s: readme.txt is %q", name, got)
		}
		w.git(dir, "reset", "--quiet", "--hard")
	}
	n := w.node("patch.execute_pipeline", map[string]string{"files_json": `["keep"]`}).in(dir)
	n.Manifest.Nodes = map[string]workflow.ManifestNode{"keep": {Node: "keep", Job: "gone"}}
	n.Needs = append(n.Needs, workflow.RecordOf(kernel.Artifact{Kind: kernel.CommandPatch, Name: "gone"}))
	w.want(n, kernel.OutcomeFailed, "the patch of node keep is not there")
}

// A retry goes on behind the patches that are applied, also where a later one hides an earlier one; and begins anew
// in a new worktree. A patch that does not apply names the job that makes that.
func TestARetryOfPatchesGoesOn(t *testing.T) {
	w := newWorld(t)
	patch := func(name, from, to string) {
		w.write(w.dir, name, "diff --git a/readme.txt b/readme.txt\n--- a/readme.txt\n+++ b/readme.txt\n@@ -1 +1 @@\n-"+from+"\n+"+to+"\n")
	}
	patch("1.patch", "one", "two")
	patch("2.patch", "two", "three")
	patch("3.patch", "other", "four")
	maker := w.node("worktree.prepare", map[string]string{"slug": "foo"})
	r := w.want(maker, kernel.OutcomeSucceeded)
	dir := filepath.Join(w.dir, r.Context.Worktree)
	n := w.node("patch.execute_pipeline", map[string]string{"files_json": `["1.patch", "2.patch", "3.patch"]`}).in(dir)
	n.Job.State.Context = *r.Context
	w.want(n, kernel.OutcomeFailed, "patch 3.patch (3 of 3)", "`vizier retry "+string(maker.Job.ID)+"` makes it anew")
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeFailed, "patch 3.patch (3 of 3)")
	patch("3.patch", "three", "four")
	for _, reset := range []bool{false, false, true} { // the second is after a success
		if reset {
			w.git(dir, "reset", "--quiet", "--hard")
		}
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded, "3 patches are applied")
		if got := w.read(dir, "readme.txt"); got != "four\n" {
			t.Errorf("after %t: readme %q", reset, got)
		}
	}
	w.write(w.dir, jobFile(n.Job.ID, progressName), `{"effect": "another", "applied": 99}`)
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded, "3 patches are applied")
}

func TestPatchPipelineStopsAtTheFirstFailure(t *testing.T) {
	w := newWorld(t)
	patch := func(name, from, to string) {
		w.write(w.dir, name, "diff --git a/readme.txt b/readme.txt\n--- a/readme.txt\n+++ b/readme.txt\n@@ -1 +1 @@\n-"+from+"\n+"+to+"\n")
	}
	patch("1.patch", "one", "two")
	patch("2.patch", "other", "three")
	patch("3.patch", "two", "four")
	w.write(w.dir, "empty.patch", "")
	n := w.node("patch.execute_pipeline", map[string]string{"files_json": `["1.patch", "empty.patch", "2.patch", "3.patch"]`})
	w.want(n, kernel.OutcomeFailed, "patch 2.patch (3 of 4)", "readme.txt")
	if got := w.read(w.dir, "readme.txt"); got != "two\n" {
		t.Errorf("readme %q", got)
	}
	patch("2.patch", "two", "two and a half")
	patch("3.patch", "two and a half", "three")
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.read(w.dir, "readme.txt"); got != "three\n" {
		t.Errorf("readme %q", got)
	}
	w.want(w.node("patch.pipeline_prepare", map[string]string{"files_json": `["none.patch"]`}), kernel.OutcomeFailed, "none.patch is not there")
	w.want(w.node("patch.execute_pipeline", nil), kernel.OutcomeSucceeded, "0 patches")

	w = newEmptyWorld(t)
	w.write(w.dir, "first.txt", "")
	w.git(w.dir, "add", "first.txt")
	w.want(w.node("git.save_worktree_patch", nil), kernel.OutcomeSucceeded, "patch of ")
}

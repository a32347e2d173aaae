package op

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// No commit is made of files in conflict, whoever left them so and whatever operation it is: their conflict
// markers are no resolution. Once they are resolved, what was refused goes on.
func TestNothingIsCommittedOfFilesInConflict(t *testing.T) {
	for how, conflict := range map[string]string{
		"merge": "git merge --quiet main || true",
		"stash": "echo stashed >readme.txt; git stash --quiet; git merge --quiet --strategy-option theirs main; git stash pop || true",
		"pick":  "git cherry-pick main || true",
	} {
		for operation, args := range map[string]map[string]string{
			"git.stage_commit":        nil,
			"git.commit":              nil,
			"git.stage":               {"files_json": `["readme.txt"]`},
			"git.save_worktree_patch": nil,
			"patch.pipeline_finalize": nil,
			"patch.execute_pipeline":  {"files_json": `["some.patch"]`},
			"gate.stop_condition":     nil,
		} {
			t.Run(how+" "+operation, func(t *testing.T) {
				w := newWorld(t)
				w.env.Shell = script{}
				n := w.stop("git.stage_commit", "true")
				n, outcome := w.inStage(n, operation, args)
				w.commit(n.Dir, "readme.txt", "plan\n")
				w.commit(w.dir, "readme.txt", "target\n")
				w.write(n.Dir, "some.patch", "")
				w.shell(n.Dir, conflict)
				tip, index := w.rev("draft/foo"), w.git(n.Dir, "ls-files", "--stage")
				if !strings.Contains(index, " 2\treadme.txt") {
					t.Fatalf("nothing is in conflict: %s", index)
				}
				w.want(n, outcome, "tmp-worktrees/", "has files in conflict", "readme.txt: resolve them there and `git -C ", "` them; then `vizier retry "+string(n.Job.ID)+"`")
				if w.rev("draft/foo") != tip || w.git(n.Dir, "ls-files", "--stage") != index {
					t.Fatalf("the branch or the index has changed:\n%s", w.git(n.Dir, "log", "-p", "draft/foo"))
				}
				w.write(n.Dir, "readme.txt", "both\n")
				w.git(n.Dir, "add", "readme.txt")
				n.Job.State.Generation++
				w.want(n, kernel.OutcomeSucceeded)
				if strings.HasSuffix(operation, "commit") || operation == "gate.stop_condition" {
					if got := w.git(w.dir, "show", "draft/foo:readme.txt"); got != "both" {
						t.Errorf("the branch has %q", got)
					}
				}
			})
		}
	}
}

// A repair that leaves files in conflict, or stages them so, is none.
func TestARepairInConflict(t *testing.T) {
	for script, says := range map[string]string{
		"git merge --quiet other || true":                       "has files in conflict: readme.txt",
		"git merge --quiet other || true; git add readme.txt":   "are staged with conflict markers: readme.txt",
		"git merge --quiet other || true; git reset --quiet; :": "are staged with conflict markers: readme.txt",
	} {
		t.Run(script, func(t *testing.T) { aRepairInConflict(t, script, says) })
	}
}

func aRepairInConflict(t *testing.T, script, says string) {
	t.Helper()
	w := newWorld(t)
	w.env.Shell = &checks{}
	w.branch("other", map[string]string{"readme.txt": "other\n"})
	tip := w.commit(w.dir, "readme.txt", "ours\n")
	n := w.judge("false", map[string]string{"auto_resolve": "true", "auto_resolve_script": script})
	w.want(n, kernel.OutcomeFailed, says, "on main: fix it there, then `vizier retry")
	if w.rev("main") != tip {
		t.Errorf("main has %s", w.git(w.dir, "show", "main"))
	}
}

package op

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Conflict markers that somebody has staged, or left in a file that is staged now, are not committed. The advice works.
func TestNoConflictMarkersAreCommitted(t *testing.T) {
	for how, does := range map[string]string{
		"merged":       "git merge --quiet main; git add readme.txt",
		"merged diff3": "git -c merge.conflictStyle=diff3 merge --quiet main; git add readme.txt",
		"picked":       "git cherry-pick main; git add readme.txt",
		"popped":       "echo stashed >readme.txt; git stash --quiet; git merge --quiet --strategy-option theirs main; git stash pop; git add readme.txt",
		"undone":       "git merge --quiet main; git reset --quiet; git add readme.txt",
		"half":         "git merge --quiet main; (echo text; cat readme.txt; echo more) >all; mv all readme.txt; git add readme.txt",
		"own size":     "echo '*.txt conflict-marker-size=12' >.gitattributes; git merge --quiet main; git add readme.txt",
	} {
		for _, operation := range []string{"git.stage_commit", "git.commit", "gate.stop_condition"} {
			t.Run(how+" "+operation, func(t *testing.T) {
				w := newWorld(t)
				w.env.Shell = script{}
				n := w.stop("git.stage_commit", "true")
				n, outcome := w.inStage(n, operation, nil)
				w.commit(n.Dir, "readme.txt", "plan\n")
				w.commit(w.dir, "readme.txt", "target\n")
				w.shell(n.Dir, "("+does+") || true")
				if !strings.Contains(w.git(n.Dir, "diff", "--cached"), "+<<<<<<<") {
					t.Fatalf("nothing is staged with markers: %s", w.git(n.Dir, "status"))
				}
				tip := w.rev("draft/foo")
				r := w.want(n, outcome, "files that were in conflict and still have conflict markers: readme.txt: resolve them there and `git -C ", "` them, or commit them there if the markers are meant; then `vizier retry "+string(n.Job.ID)+"`")
				if w.rev("draft/foo") != tip || strings.Count(r.Reason, "vizier retry") != 1 {
					t.Fatalf("the branch has changed, or %q", r.Reason)
				}
				want := "both"
				if how == "half" { // they are meant
					w.git(n.Dir, "commit", "--quiet", "-m", "meant")
					want = w.git(w.dir, "show", "draft/foo:readme.txt")
				} else {
					w.write(n.Dir, "readme.txt", "both\n")
					w.git(n.Dir, "add", "readme.txt")
				}
				n.Job.State.Generation++
				w.want(n, kernel.OutcomeSucceeded)
				if got := w.git(w.dir, "show", "draft/foo:readme.txt"); got != want {
					t.Errorf("the branch has %q", got)
				}
			})
		}
	}
}

// Text that only looks like a conflict, or is about conflicts, is committed.
func TestTextAboutConflictsIsCommitted(t *testing.T) {
	const about = "Such a file has\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> other\nin it.\n"
	for how, does := range map[string]string{
		"never in conflict":        "cat about >readme.txt",
		"a heading in a conflict":  "git merge --quiet main; printf 'Title\\n=======\\n\\n<<<<<<< is a marker.\\n' >readme.txt; git add readme.txt",
		"another file beside one":  "git merge --quiet main; echo both >readme.txt; git add readme.txt; cat about >new.txt; git add new.txt",
		"a side had it":            "cat about >readme.txt; git commit --quiet -am about; git merge --quiet main; (cat about; echo target) >readme.txt; git add readme.txt",
		"another size of markers":  "echo '*.txt conflict-marker-size=12' >.gitattributes; git merge --quiet main; cat about >readme.txt; git add readme.txt",
		"resolved, and then again": "git merge --quiet main; git add readme.txt; echo both >readme.txt",
	} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			dir, prepared := w.prepared(map[string]string{"slug": "foo"})
			n := w.node("git.stage_commit", nil).in(dir)
			n.Job.State.Context = *prepared.Context
			w.commit(dir, "about", about)
			w.commit(dir, "readme.txt", "plan\n")
			w.commit(w.dir, "readme.txt", "target\n")
			w.shell(dir, "("+does+") || true")
			tip := w.rev("draft/foo")
			w.want(n, kernel.OutcomeSucceeded)
			if w.rev("draft/foo") == tip || w.git(dir, "status", "--porcelain") != "" {
				t.Errorf("nothing was committed: %s", w.git(dir, "status"))
			}
		})
	}
}

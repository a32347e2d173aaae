package op

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// stop returns a stop condition that judges, in a worktree of foo's branch,
// what a node of operation has committed there.
func (w *world) stop(operation, script string) *Node {
	w.Helper()
	dir, r := w.prepared(map[string]string{"slug": "foo"})
	n := w.node("", nil).in(dir)
	n.Control, n.Uses, n.Job.State.Context = "gate.stop_condition", "control.gate.stop_condition", *r.Context
	n.Gates = []workflow.ManifestGate{{Kind: "script", Policy: "block", Script: script}}
	n.Manifest.Nodes = map[string]workflow.ManifestNode{"before": {Node: "before", Operation: operation, Args: map[string]string{"message": "chore: theirs"},
		Routes: map[string][]workflow.ManifestRoute{"succeeded": {{Node: n.Node}}}}}
	return n
}

// What holds in the worktree holds on the branch: changes made since the stage
// committed are committed before the script sees them, new files included.
func TestTheStopConditionJudgesWhatIsCommitted(t *testing.T) {
	w := newWorld(t)
	sh := &checks{}
	w.env.Shell = sh
	n := w.stop("git.stage_commit", "grep right readme.txt && test -e new.txt && touch litter")
	w.write(n.Dir, "readme.txt", "right\n")
	w.write(n.Dir, "new.txt", "")
	w.want(n, kernel.OutcomeSucceeded, "the stop condition holds; commit ", "readme.txt, new.txt")
	tip := w.rev("draft/foo")
	if w.git(w.dir, "show", "draft/foo:readme.txt") != "right" || w.git(w.dir, "log", "-1", "--format=%s", tip) != "chore: theirs" || len(sh.seen) != 1 || sh.seen[0] != tip {
		t.Errorf("the script saw %v, the branch is\n%s", sh.seen, w.git(w.dir, "log", "--stat", "draft/foo"))
	}
	n.Job.State.Generation++
	w.git(n.Dir, "clean", "--quiet", "--force")
	if r := w.want(n, kernel.OutcomeSucceeded); r.Reason != "the stop condition holds" || w.rev("draft/foo") != tip {
		t.Errorf("with nothing to commit: %s", r.Reason)
	}
}

// A hook that changes a file with each commit is named, and no submodule. Once it leaves the file alone, a retry goes on.
func TestTheStopConditionNamesWhatAHookChanges(t *testing.T) {
	w := newWorld(t)
	w.env.Shell = &checks{}
	hook := filepath.Join(w.dir, ".git/hooks/pre-commit")
	if err := errors.Join(os.MkdirAll(filepath.Dir(hook), 0o755), os.WriteFile(hook, []byte("#!/bin/sh\ndate +%s%N >>stamp.txt\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	n := w.stop("git.stage_commit", "true")
	w.write(n.Dir, "new.txt", "")
	w.want(n, kernel.OutcomeBlocked, "stamp.txt in "+strings.TrimPrefix(n.Dir, w.dir+"/")+" changed again while it was committed, as by a hook of git", "then `vizier retry ")
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded, "the stop condition holds; commit ")
}

// Where the flow decides what is committed, and where the worktree is not the
// stage's, the gate commits nothing and runs nothing.
func TestTheStopConditionRefusesWhatItMayNotCommit(t *testing.T) {
	for name, spoil := range map[string]func(*world, *Node) string{
		"other commits": func(w *world, n *Node) string {
			for k, m := range n.Manifest.Nodes {
				m.Operation = "git.commit"
				n.Manifest.Nodes[k] = m
			}
			return "has changes that are not committed: new.txt: commit or remove them; then `vizier retry "
		},
		"the checkout": func(w *world, n *Node) string {
			n.Job.State.Context = kernel.Context{}
			return strings.TrimPrefix(n.Dir, w.dir+"/") + " has changes that are not committed: new.txt"
		},
		"another branch": func(w *world, n *Node) string {
			w.git(n.Dir, "switch", "--quiet", "--detach")
			return "is not on branch draft/foo any more: another run"
		},
		"commits on no branch": func(w *world, n *Node) string {
			w.git(n.Dir, "switch", "--quiet", "--detach")
			w.git(n.Dir, "commit", "--quiet", "--allow-empty", "-m", "the agent's")
			return "and has commits that the branch lacks: finish what git has in progress there, if anything, then put the branch at them with `git -C .vizier/tmp-worktrees/"
		},
		"a hook": func(w *world, n *Node) string {
			w.write(w.dir, ".git/hooks/pre-commit", "#!/bin/sh\necho no such thing >&2; exit 1\n")
			os.Chmod(filepath.Join(w.dir, ".git/hooks/pre-commit"), 0o755)
			return "gate.stop_condition: git commit: "
		},
	} {
		w := newWorld(t)
		sh := &checks{}
		w.env.Shell = sh
		n := w.stop("git.stage_commit", "true")
		w.write(n.Dir, "new.txt", "")
		tip := w.rev("draft/foo")
		says := spoil(w, n)
		w.want(n, kernel.OutcomeBlocked, says, "then `vizier retry "+string(n.Job.ID)+"`")
		if len(sh.seen) > 0 || w.rev("draft/foo") != tip || !w.there(n.Dir, "new.txt") {
			t.Errorf("%s: the script saw %v, the branch moved from %s to %s", name, sh.seen, tip, w.rev("draft/foo"))
		}
	}
}

// Nothing is committed onto a branch that is gone: git would begin a history of its own.
func TestTheStopConditionOnABranchThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.env.Shell = &checks{}
	n := w.stop("git.stage_commit", "true")
	w.write(n.Dir, "new.txt", "")
	tip := w.rev("draft/foo")
	w.git(w.dir, "update-ref", "-d", "refs/heads/draft/foo")
	w.want(n, kernel.OutcomeBlocked, "is gone: make it again with `git branch draft/foo "+tip+"`", "then `vizier retry "+string(n.Job.ID)+"`")
	w.git(w.dir, "branch", "draft/foo", tip)
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.rev("draft/foo^"); got != tip {
		t.Errorf("the commit is on %s, not on %s", got, tip)
	}
}

// What is changed within a submodule is not committed by a commit of everything.
func TestTheStopConditionBesideASubmodule(t *testing.T) {
	w, sub := newWorld(t), newWorld(t)
	sh := &checks{}
	w.env.Shell = sh
	n := w.stop("git.stage_commit", "true")
	w.git(n.Dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.dir, "sub")
	w.git(n.Dir, "commit", "--quiet", "-m", "a submodule")
	w.write(n.Dir, "sub/readme.txt", "changed\n")
	const says = "lies within sub, and a commit of a submodule is made there"
	w.want(n, kernel.OutcomeBlocked, says, "then `vizier retry "+string(n.Job.ID)+"`")
	w.write(n.Dir, "new.txt", "")
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeBlocked, says)
	if len(sh.seen) > 0 || w.git(n.Dir, "status", "--porcelain", "--ignore-submodules=dirty") != "" {
		t.Errorf("the script saw %v; what is not committed:\n%s", sh.seen, w.git(n.Dir, "status"))
	}
	w.git(filepath.Join(n.Dir, "sub"), "checkout", "--quiet", ".")
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
}

package op

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// judge returns a CI gate about main.
func (w *world) judge(script string, args map[string]string) *Node {
	n := w.node("", map[string]string{"slug": "foo", "target_branch": "main"}).gatedBy(script, "block")
	for k, v := range args {
		n.Args[k] = v
	}
	n.Control, n.Uses = "gate.cicd", "control.gate.cicd"
	return n
}

// The main checkout stands on another branch and has a file of nobody's:
// neither is what the gate is about.
func TestTheCIGateJudgesTheTarget(t *testing.T) {
	for _, operation := range []string{"", "cicd.run"} {
		w := newWorld(t)
		sh := &checks{}
		w.env.Shell = sh
		w.commit(w.dir, "wanted.txt", "x")
		w.git(w.dir, "switch", "--quiet", "-c", "elsewhere", "HEAD~1")
		w.write(w.dir, "stray.txt", "x")
		before := w.photograph()
		n := w.judge("test ! -e stray.txt && touch litter && test -e wanted.txt", nil)
		if operation != "" {
			n.Operation, n.Control = operation, ""
		}
		w.want(n, kernel.OutcomeSucceeded)
		if len(sh.seen) != 1 || sh.seen[0] != w.rev("main") {
			t.Errorf("the gate saw %v, main is %s", sh.seen, w.rev("main"))
		}
		n.Gates[0].Script, n.Job.State.Generation = "exit 3", 1
		w.want(n, kernel.OutcomeFailed, "cicd gate of the_node failed (exit 3) on main: fix it there, then `vizier retry "+string(n.Job.ID))
		w.unchanged(before)
		w.tidy()
	}
}

func TestTheCIGateOfABranchThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.env.Shell = &checks{}
	w.want(w.judge("true", map[string]string{"target_branch": "gone"}), kernel.OutcomeFailed, "there is no branch gone")
}

// A repair is on the branch before the gate passes, without the untracked files
// that it left.
func TestTheCIGateKeepsItsRepair(t *testing.T) {
	for name, fix := range map[string]string{
		"changed":   "echo right >readme.txt; echo new >new.txt; git add new.txt; touch litter",
		"committed": "echo right >readme.txt; echo new >new.txt; git add . && git commit -q -m mine",
	} {
		w := newWorld(t)
		w.env.Shell = &checks{}
		main := w.rev("main")
		n := w.judge("grep right readme.txt", map[string]string{"auto_resolve": "true", "auto_resolve_script": fix})
		w.want(n, kernel.OutcomeSucceeded, "repaired by the auto_resolve script, as ")
		if w.rev("main^") != main || w.read(w.dir, "readme.txt") != "right\n" || w.read(w.dir, "new.txt") != "new\n" || w.there(w.dir, "litter") {
			t.Errorf("%s: the repair is not on main: %s", name, w.git(w.dir, "log", "--oneline", "main"))
		}
		w.tidy()
	}
}

// A target that a person works on is not moved under them.
func TestTheCIGateLeavesADirtyCheckoutAlone(t *testing.T) {
	w := newWorld(t)
	w.env.Shell = &checks{}
	main := w.rev("main")
	w.write(w.dir, "readme.txt", "mine\n")
	n := w.judge("grep right readme.txt", map[string]string{"auto_resolve": "true", "auto_resolve_script": "echo right >readme.txt"})
	w.want(n, kernel.OutcomeBlocked, "uncommitted changes", "vizier retry")
	if w.rev("main") != main || w.read(w.dir, "readme.txt") != "mine\n" || !strings.Contains(w.parked(), "refs/vizier/parked/") {
		t.Errorf("main %s, parked %q", w.rev("main"), w.parked())
	}
}

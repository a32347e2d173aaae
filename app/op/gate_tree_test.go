package op

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
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
		if got := w.parked(); got != "" {
			t.Errorf("of a gate that passed is kept %q", got)
		}
		n.Gates[0].Script, n.Job.State.Generation = "touch litter; exit 3", 1
		w.want(n, kernel.OutcomeFailed, "cicd gate of the_node failed (exit 3) on main: fix it there, then `vizier retry "+string(n.Job.ID))
		if got := w.parked(); got == "" || w.git(w.dir, "diff", "--name-only", "main", got) != "litter" {
			t.Errorf("of a gate that failed is kept %q", got)
		}
		w.unchanged(before)
		w.tidy()
	}
}

func TestTheCIGateOfABranchThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.env.Shell = &checks{}
	w.want(w.judge("true", map[string]string{"target_branch": "gone"}), kernel.OutcomeFailed, "there is no branch gone")
}

// A repair is on the branch before the gate passes: all that the script left,
// unless it commits by itself, and nothing that the gate's script left.
func TestTheCIGateKeepsItsRepair(t *testing.T) {
	const check = "touch litter dir.litter; echo $$ >>made; echo x >>readme.txt; grep right readme.txt"
	for name, c := range map[string]struct{ fix, files string }{
		"edited":          {"echo right >readme.txt; mkdir dir; echo new >dir/new.txt", ".gitignore dir/new.txt readme.txt"},
		"staged":          {"echo right >readme.txt; echo new >new.txt; git add new.txt; git rm -q --cached .gitignore", "new.txt readme.txt"},
		"rewritten":       {"echo right >readme.txt; sleep .02; echo made >made", ".gitignore made readme.txt"},
		"committed":       {"echo right >readme.txt; echo new >new.txt; git add new.txt readme.txt && git commit -q -m mine; touch not.this", ".gitignore new.txt readme.txt"},
		"ignored by then": {"echo right >readme.txt; git rm -q --cached .gitignore; printf '.gitignore\ncache\n' >.gitignore; touch cache", "readme.txt"},
	} {
		w := newWorld(t)
		sh := &checks{}
		w.env.Shell = sh
		main := w.rev("main")
		n := w.judge(check, map[string]string{"auto_resolve": "true", "auto_resolve_script": c.fix})
		w.want(n, kernel.OutcomeSucceeded, "repaired by the auto_resolve script, as ")
		if got := strings.Join(w.files("main"), " "); w.rev("main^") != main || w.read(w.dir, "readme.txt") != "right\n" || got != c.files {
			t.Errorf("%s: main has %s, want %s\n%s", name, got, c.files, w.git(w.dir, "log", "--oneline", "main"))
		}
		if sh.seen[2] != w.rev("main") {
			t.Errorf("%s: the gate judged %s, main is %s", name, sh.seen[2], w.rev("main"))
		}
		w.tidy()
	}
}

// A repair that leaves only what git ignores, or nothing, is not called one.
func TestTheCIGateWhoseRepairChangesNothing(t *testing.T) {
	for _, fix := range []string{"touch made.log", "true"} {
		w := newWorld(t)
		w.env.Shell = &checks{}
		w.commit(w.dir, ".gitignore", "*.log\n")
		main := w.rev("main")
		n := w.judge("test -e run.log || { touch run.log; exit 1; }", map[string]string{"auto_resolve": "true", "auto_resolve_script": fix})
		if r := w.want(n, kernel.OutcomeSucceeded, "left nothing to commit: main is as it was"); strings.Contains(r.Reason, "repaired") || w.rev("main") != main {
			t.Errorf("%s: %s, main at %s", fix, r.Reason, w.rev("main"))
		}
	}
}

// A repair that fails, or that the gate does not accept, is not on the branch,
// even if the gate only warns; the reason says what became of it.
func TestTheCIGateDropsARepairThatIsNone(t *testing.T) {
	for _, c := range []struct{ fix, says string }{
		{"echo left >readme.txt; exit 7", "the cicd gate of the_node failed (exit 1) and its auto_resolve script as well (exit 7; its output is in the job's log)"},
		{"echo left >readme.txt", "the cicd gate of the_node failed (exit 1), and again (exit 1) after its auto_resolve script"},
	} {
		for policy, outcome := range map[string]kernel.Outcome{"block": kernel.OutcomeFailed, "warn": kernel.OutcomeSucceeded} {
			w := newWorld(t)
			w.env.Shell = &checks{}
			main := w.rev("main")
			n := w.judge("grep right readme.txt", map[string]string{"auto_resolve": "true", "auto_resolve_script": c.fix})
			n.Gates[0].Policy = policy
			w.want(n, outcome, c.says)
			if w.rev("main") != main {
				t.Errorf("%s, %s: main has moved", c.fix, policy)
			}
		}
	}
}

// A hook of the user's may refuse a repair.
func TestTheCIGateWhoseRepairIsRefused(t *testing.T) {
	w := newWorld(t)
	w.env.Shell = &checks{}
	main := w.rev("main")
	w.write(w.dir, ".git/hooks/pre-commit", "#!/bin/sh\necho no such thing >&2; exit 1\n")
	os.Chmod(filepath.Join(w.dir, ".git/hooks/pre-commit"), 0o755)
	n := w.judge("grep right readme.txt", map[string]string{"auto_resolve": "true", "auto_resolve_script": "echo right >readme.txt"})
	w.want(n, kernel.OutcomeFailed, "gate.cicd: ", "no such thing", "on main: fix it there, then `vizier retry ")
	if w.rev("main") != main {
		t.Error("main has moved")
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

// A conflict marker has seven characters, or more where an attribute says so.
func TestConflictMarkers(t *testing.T) {
	for line, want := range map[string]bool{"<<<<<<< HEAD\n": true, ">>>>>>> c1\n": true, strings.Repeat("<", 30) + " HEAD\n": true,
		"<<<<<< six\n": false, "<<<<<<<\n": false, "=======\n": false, " <<<<<<< HEAD\n": false, "<<<<<<<no space\n": false, "": false} {
		if got := isMarker([]byte(line), '<') || isMarker([]byte(line), '>'); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
}

// The target that the gate of a merge judges has that merge, before its script runs and when that has passed.
func TestTheCIGateOfAMergeThatTheTargetLost(t *testing.T) {
	for _, drop := range []string{"true", "false"} {
		for _, squash := range []string{"true", "false"} {
			w := planned(t)
			sh := &checks{}
			w.env.Shell = sh
			before := w.rev("main")
			w.commit(w.dir, "later.txt", "")
			m := w.merge(map[string]string{"squash": squash, "delete_branch": drop})
			w.want(m, kernel.OutcomeSucceeded)
			merged := w.rev("main")
			m.Job.State.Status = kernel.Succeeded
			m.ManifestNode.Job = m.Job.ID
			w.env.Records = past{m.Job}
			gate := func(script string) *Node {
				n := w.judge(script, nil)
				n.Job.Spec.After = []kernel.JobID{m.Job.ID}
				n.Manifest.Nodes = map[string]workflow.ManifestNode{"merge": m.ManifestNode}
				return n
			}
			w.want(gate("true"), kernel.OutcomeSucceeded)
			w.commit(w.dir, "on top.txt", "")
			w.want(gate("true"), kernel.OutcomeSucceeded)

			says := []string{"draft/foo was merged into main, but main does not have that merge now", "`vizier retry " + string(m.Job.ID) + "`"}
			if drop == "true" {
				says = append(says, "`git branch draft/foo ")
			}
			w.want(gate("git -C "+w.dir+" reset --quiet --hard "+before), kernel.OutcomeFailed, says...) // while it runs
			ran := len(sh.seen)
			r := w.want(gate("true"), kernel.OutcomeFailed, says...)
			if len(sh.seen) != ran {
				t.Error("its script judged a target without the merge")
			}
			if _, command, found := strings.Cut(r.Reason, "`git branch"); found {
				w.shell(w.dir, "git branch"+command[:strings.IndexByte(command, '`')])
			}
			m.Job.State.Generation++
			m.Job.State.Closed = true
			w.want(m, kernel.OutcomeSucceeded, "merged draft/foo into main")
			w.env.Records = past{m.Job}
			w.want(gate("true"), kernel.OutcomeSucceeded)
			if w.read(w.dir, "new.txt") != "new\n" || w.rev("main") == merged {
				t.Errorf("drop %s, squash %s: not merged again", drop, squash)
			}
			w.tidy()
		}
	}
}

package op

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// checks is a shell for gates whose scripts may fail.
type checks struct {
	Shell
	seen []string // the commits that they saw checked out
}

func (c *checks) Run(_ context.Context, dir, text string, _ []string) (int, error) {
	head, err := exec.Command("git", "-C", dir, "rev-parse", "HEAD").Output()
	if err != nil {
		return 0, err
	}
	c.seen = append(c.seen, strings.TrimSpace(string(head)))
	cmd := exec.Command("sh", "-c", text)
	cmd.Dir = dir
	if _, err := cmd.Output(); cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// gatedBy gives n a CI gate of its own.
func (n *Node) gatedBy(script, policy string) *Node {
	n.Gates = []workflow.ManifestGate{{Kind: "cicd", Policy: policy, Script: script}}
	return n
}

func TestTheGateOfAMergeIsAskedBeforeTheTargetMoves(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := newWorld(t)
		sh := &checks{}
		w.env.Shell = sh
		w.plan(map[string]string{"new.txt": "wrong\n"})
		before, main := w.photograph(), w.rev("main")
		n := w.merge(map[string]string{"squash": squash}).gatedBy("test -f readme.txt && touch litter && grep right new.txt", "block")
		r := w.want(n, kernel.OutcomeFailed, "the check before the merge of the_node failed (exit 1)", "main has not moved", "fix draft/foo", "vizier retry")
		if r.Class != kernel.ExitFailure || w.rev("main") != main || len(sh.seen) != 1 || sh.seen[0] == main {
			t.Fatalf("class %v, main %s, the gate saw %v", r.Class, w.rev("main"), sh.seen)
		}
		w.unchanged(before)

		// Again, as it is: the same merge is judged, and not made anew.
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeFailed)
		if len(sh.seen) != 2 || sh.seen[1] != sh.seen[0] {
			t.Errorf("the gate saw %v", sh.seen)
		}

		// The plan's branch is mended; what the gate accepts is what the target becomes.
		w.git(w.dir, "switch", "--quiet", "draft/foo")
		w.commit(w.dir, "new.txt", "right\n")
		w.git(w.dir, "switch", "--quiet", "main")
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded, "merged draft/foo into main")
		if len(sh.seen) != 3 || sh.seen[2] != w.rev("main") || w.read(w.dir, "new.txt") != "right\n" || w.there(w.dir, "litter") {
			t.Errorf("main is %s, the gate saw %v", w.rev("main"), sh.seen)
		}
		w.tidy()
	}
}

// TestTheGateOfAMergeJudgesWhatTheTargetBecomes moves the target while the
// gate runs: what is merged then is looked at as well.
func TestTheGateOfAMergeJudgesWhatTheTargetBecomes(t *testing.T) {
	w := newWorld(t)
	sh := &checks{}
	w.env.Shell = sh
	w.plan(map[string]string{"new.txt": "new\n"})
	n := w.merge(nil).gatedBy("test ! -f forbidden.txt", "block")
	w.env.Git = &moving{Git: w.env.Git, move: func(branch string) {
		if branch == "main" && !w.there(w.dir, "forbidden.txt") {
			w.commit(w.dir, "forbidden.txt", "x\n")
		}
	}}
	w.want(n, kernel.OutcomeFailed, "main has not moved")
	if len(sh.seen) != 2 || sh.seen[0] == sh.seen[1] || w.git(w.dir, "log", "-1", "--format=%s", "main") != "add forbidden.txt" {
		t.Errorf("the gate saw %v, main is %q", sh.seen, w.git(w.dir, "log", "-1", "--format=%s", "main"))
	}
}

func TestAGateThatWarnsLetsTheMergePass(t *testing.T) {
	w := newWorld(t)
	w.env.Shell = &checks{}
	w.plan(map[string]string{"new.txt": "new\n"})
	w.want(w.merge(nil).gatedBy("exit 3", "warn"), kernel.OutcomeSucceeded, "merged draft/foo into main", "warning: the check before the merge of the_node failed (exit 3)")
	w.tidy()
}

// cutting is a shell whose first script is the death of its process.
type cutting struct {
	checks
	deaths int
}

func (c *cutting) Run(ctx context.Context, dir, text string, env []string) (int, error) {
	exit, err := c.checks.Run(ctx, dir, text, env)
	if c.deaths++; c.deaths == 1 {
		panic(errKilled)
	}
	return exit, err
}

// An attempt that was lost while the gate of a merge ran leaves the gate in
// doubt, and not the merge: with leave the same merge is judged once more.
func TestAMergeWhoseGateWasCutOff(t *testing.T) {
	w := newWorld(t)
	sh := &cutting{}
	w.env.Shell = sh
	w.plan(map[string]string{"new.txt": "new\n"})
	n, main := w.merge(nil).gatedBy("true", "block"), w.rev("main")
	Run(t.Context(), w.env, n)
	n.Job.State.Attempt, n.Job.State.Lost = 2, 1
	for range 2 {
		r := Run(t.Context(), w.env, n)
		if r.Class != kernel.EffectInDoubt || !strings.Contains(r.Reason, "the gate of "+sh.seen[0][:12]) || len(sh.seen) != 1 || w.rev("main") != main {
			t.Fatalf("%+v, the gate saw %v, main is %s", r, sh.seen, w.rev("main"))
		}
		n.Job.State.Attempt++
	}
	n.Job.State.Lost = 0
	if r := Run(t.Context(), w.env, n); r.Outcome != kernel.OutcomeSucceeded || len(sh.seen) != 2 || sh.seen[1] != sh.seen[0] || w.rev("main") != sh.seen[0] {
		t.Errorf("with leave: %+v, the gate saw %v, main is %s", r, sh.seen, w.rev("main"))
	}
	w.tidy()
}

// The gate's tree is at what the merge made, which is not lost with it: no ref is left. What the
// script commits there is kept.
func TestTheGateOfAMergeLeavesNoRefOfItsResult(t *testing.T) {
	for _, squash := range []string{"true", "false"} {
		w := planned(t)
		w.env.Shell = &checks{}
		n := w.merge(map[string]string{"squash": squash}).gatedBy("exit 1", "block")
		w.want(n, kernel.OutcomeFailed)
		if w.parked() != "" {
			t.Errorf("squash %s: what failed is parked as %s", squash, w.parked())
		}
		n.Job.State.Generation++
		n.gatedBy("test -f new.txt", "block")
		w.want(n, kernel.OutcomeSucceeded)
		if w.parked() != "" {
			t.Errorf("squash %s: what was merged is parked as %s", squash, w.parked())
		}
		w.tidy()
	}
	w := planned(t)
	w.env.Shell = &checks{}
	w.want(w.merge(nil).gatedBy("echo more >more.txt && git add more.txt && git commit --quiet -m more", "block"), kernel.OutcomeSucceeded)
	if w.git(w.dir, "show", w.parked()+":more.txt") != "more" {
		t.Error("what the script committed is lost")
	}
}

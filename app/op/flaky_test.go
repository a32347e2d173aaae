package op

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// flaky notes the calls of git, of which one fails before it does anything.
type flaky struct {
	calls []string
	at    int // the call that fails, from 1; 0: none
}

func (f *flaky) in(g Git) Git {
	return gitCalls{g, func(name string, _ []any, do func() (any, error)) (any, error) {
		if f.calls = append(f.calls, name); len(f.calls) == f.at {
			return nil, errFaulty
		}
		return do()
	}}
}

// Whichever call of git fails, an operation says so, or has done the same as without that. A retry does what is
// left.
func TestWhicheverCallOfGitFails(t *testing.T) {
	resolvedBy := func(text string) func(*world) *Node {
		return func(w *world) *Node {
			w.env.Shell = script{}
			n := w.merge(nil)
			w.want(n, kernel.OutcomeBlocked)
			return w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": text})
		}
	}
	resumed := func(squash string) func(*world) *Node {
		return func(w *world) *Node {
			n := w.merge(map[string]string{"squash": squash, "delete_branch": "true"})
			w.want(n, kernel.OutcomeBlocked)
			w.resolve(n, "both\n")
			n.Job.State.Generation++
			return n
		}
	}
	committed := func(message string) func(*world) *Node {
		return func(w *world) *Node {
			dir, r := w.prepared(map[string]string{"slug": "foo"})
			w.write(dir, "new.txt", "new\n")
			n := w.node("git.stage_commit", map[string]string{"message": message}).in(dir)
			n.Job.State.Context = *r.Context
			return n
		}
	}
	moves := func(file, squash string) func(*world) *Node { // the target moves once, just before it is advanced
		return func(w *world) *Node {
			w.git(w.dir, "switch", "--quiet", "--create", "mine")
			moved := false
			w.env.Git = &moving{Git: w.env.Git, move: func(branch string) {
				if branch == "main" && !moved {
					moved = true
					dir := filepath.Join(w.TempDir(), "main")
					w.git(w.dir, "worktree", "add", "--quiet", dir, "main")
					w.commit(dir, file, "ours\n")
					w.git(w.dir, "worktree", "remove", "--force", dir)
				}
			}}
			return w.merge(map[string]string{"squash": squash})
		}
	}
	changing := func(t *testing.T) *world {
		return worldLike(t, "change", newWorld, func(w *world) { w.plan(map[string]string{"readme.txt": "theirs\n"}) })
	}
	tried := map[string]bool{} // what was called until the failure
	for _, c := range []struct {
		name  string
		world func(*testing.T) *world
		node  func(*world) *Node
		how   kernel.Outcome
	}{
		{"a target that moves", changing, moves("other.txt", "true"), kernel.OutcomeSucceeded},
		{"a target that moves into a conflict with a squash", changing, moves("readme.txt", "true"), kernel.OutcomeBlocked},
		{"a target that moves into a conflict with a merge", changing, moves("readme.txt", "false"), kernel.OutcomeBlocked},
		{"a merge with two parents", planned, func(w *world) *Node { return w.merge(map[string]string{"squash": "false", "delete_branch": "true"}) }, kernel.OutcomeSucceeded},
		{"a merge that is checked", planned, func(w *world) *Node { w.env.Shell = script{}; return w.merge(nil).gatedBy("true", "block") }, kernel.OutcomeSucceeded},
		{"a conflict", conflicting, func(w *world) *Node { return w.merge(nil) }, kernel.OutcomeBlocked},
		{"a squash that goes on", conflicting, resumed("true"), kernel.OutcomeSucceeded},
		{"a merge that goes on", conflicting, resumed("false"), kernel.OutcomeSucceeded},
		{"a merge in whose place something else was committed", conflicting, func(w *world) *Node {
			n := resumed("false")(w)
			w.git(w.mergeDir(n), "reset", "--quiet", "--merge")
			w.commit(w.mergeDir(n), "other.txt", "other\n")
			return n
		}, kernel.OutcomeBlocked},
		{"a gate of a conflict", conflicting, resolvedBy("echo both > readme.txt"), kernel.OutcomeSucceeded},
		{"a gate that resolves none", conflicting, resolvedBy("true"), kernel.OutcomeBlocked},
		{"a gate of a branch", newWorld, func(w *world) *Node { w.env.Shell = script{}; return w.judge("test -f readme.txt", nil) }, kernel.OutcomeSucceeded},
		{"a commit of a worktree", newWorld, committed("feat: new"), kernel.OutcomeSucceeded},
		{"a commit of nothing", newWorld, func(w *world) *Node { return w.node("git.stage_commit", map[string]string{"message": "feat: new"}) }, kernel.OutcomeSucceeded},
		{"a plan", newWorld, func(w *world) *Node {
			return w.node("plan.persist", map[string]string{"name_override": "foo", "spec_text": "a"})
		}, kernel.OutcomeSucceeded},
		{"a worktree", newWorld, func(w *world) *Node { return w.node("worktree.prepare", map[string]string{"slug": "foo"}) }, kernel.OutcomeSucceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world(t)
			n := c.node(w)
			g := &flaky{}
			w.env.Git = g.in(w.env.Git)
			first := w.run(n)
			if first.Outcome != c.how {
				t.Fatalf("%v (%s)\n%s", first.Outcome, first.Reason, w.stderr)
			}
			want, calls := w.standing(), g.calls
			if len(calls) < 3 {
				t.Fatalf("git was called %d times", len(calls))
			}
			every := 10
			if os.Getenv("VIZIER_LONG") != "" {
				every = 3
			}
			for i := 0; i < len(calls); i += every {
				where := calls[i]
				until := strings.Join(calls[:i+1], " ")
				if tried[until] {
					continue // which bounds the time
				}
				tried[until] = true
				w := c.world(t)
				n := c.node(w)
				g := &flaky{at: i + 1}
				w.env.Git = g.in(w.env.Git)
				w.stderr.Reset()
				w.swept = true
				r := w.run(n)
				told := strings.Contains(r.Reason+w.stderr.String(), errFaulty.Error())
				if !told && (r.Outcome != c.how || w.standing() != want) || r.Outcome != kernel.OutcomeSucceeded && r.Reason == "" {
					t.Errorf("%s fails, call %d of %d: %v (%s)\n%s", where, i+1, len(calls), r.Outcome, r.Reason, w.stderr)
				}
				if slices.Contains([]kernel.Outcome{kernel.OutcomeSucceeded, c.how}, r.Outcome) {
					continue
				}
				n.Job.State.Generation++
				if r := w.run(n); r.Outcome != c.how || w.standing() != want {
					t.Errorf("%s failed, call %d of %d, and a retry: %v (%s)\n%s\nand not\n%s", where, i+1, len(calls), r.Outcome, r.Reason, w.standing(), want)
				}
			}
		})
	}
}

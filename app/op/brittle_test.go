package op

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// brittle is git that fails when it is called for the n-th time.
type brittle struct {
	dir  string
	path string // of programs without it
}

func newBrittle(t *testing.T) brittle {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	b := brittle{t.TempDir(), os.Getenv("PATH")}
	script := fmt.Sprintf(`#!/bin/sh
read n <%[1]q/calls
read fails <%[1]q/fails
n=$((n + 1))
echo $n >%[1]q/calls
if [ $n = $fails ]; then
	echo disk on fire >&2
	exit 128
fi
exec %[2]q "$@"
`, b.dir, git)
	if err := os.WriteFile(filepath.Join(b.dir, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

// failing has f call git, of which the n-th call fails, and counts the calls.
func (b brittle) failing(t *testing.T, n int, f func()) (calls int) {
	t.Helper()
	for name, v := range map[string]int{"calls": 0, "fails": n} {
		if err := os.WriteFile(filepath.Join(b.dir, name), fmt.Appendln(nil, v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", b.dir+":"+b.path)
	f()
	t.Setenv("PATH", b.path)
	data, err := os.ReadFile(filepath.Join(b.dir, "calls"))
	if err == nil {
		calls, err = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// stand returns how the repository stands: what its branches hold, and its
// trees.
func (w *world) stand() string {
	w.Helper()
	return w.git(w.dir, "for-each-ref", "--format=%(refname) %(tree) %(subject)", "refs/heads") + "\n" +
		w.git(w.dir, "status", "--porcelain") + "\n" + w.git(w.dir, "worktree", "list", "--porcelain")
}

// standing returns stand without what is another's in every world.
func (w *world) standing() string {
	var out []string
	for line := range strings.Lines(w.stand()) {
		if !strings.HasPrefix(line, "HEAD ") {
			out = append(out, strings.ReplaceAll(line, w.dir, ""))
		}
	}
	return strings.Join(out, "")
}

// Whichever call of git fails, an operation does not say that it succeeded where
// it did not, or says what it left, and the next attempt does the rest.
func TestWhateverGitCallFails(t *testing.T) {
	for name, c := range map[string]struct {
		every int // call, to bound the time
		world func(*testing.T) *world
		node  func(*world) *Node
	}{
		"worktree": {1, newWorld, func(w *world) *Node {
			return w.node("worktree.prepare", map[string]string{"slug": "foo"})
		}},
		"commit": {1, newWorld, func(w *world) *Node {
			w.write(w.dir, "new.txt", "new\n")
			return w.node("git.stage_commit", map[string]string{"message": "feat: new"})
		}},
		"merge": {3, planned, func(w *world) *Node { return w.merge(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBrittle(t)
			w := c.world(t)
			n := c.node(w)
			calls := b.failing(t, 0, func() { w.want(n, kernel.OutcomeSucceeded) })
			want := w.standing()
			if calls < 3 {
				t.Fatalf("git was called %d times", calls)
			}
			every := c.every
			if os.Getenv("VIZIER_LONG") == "" {
				every++
			}
			for at := 1; at <= calls; at += every {
				w := c.world(t)
				n := c.node(w)
				var r Result
				w.swept = true
				b.failing(t, at, func() { r = w.run(n) })
				if got := w.standing(); r.Outcome == kernel.OutcomeSucceeded && got != want && !strings.Contains(r.Reason, "its worktree is left") {
					t.Errorf("call %d of %d fails: succeeded (%s), and it stands\n%s\nand not\n%s", at, calls, r.Reason, got, want)
				}
				if r.Outcome != kernel.OutcomeSucceeded && r.Reason == "" {
					t.Errorf("call %d of %d fails: %v, without a reason", at, calls, r.Outcome)
				}
				w.want(n, kernel.OutcomeSucceeded)
				if got := w.standing(); got != want {
					t.Errorf("call %d of %d fails: after the next attempt it stands\n%s\nand not\n%s", at, calls, got, want)
				}
			}
		})
	}
}

package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A branch that is gone was last where the main working tree left it, or where it was parked,
// whichever is later.
func TestLastTip(t *testing.T) {
	f := newFixture(t)
	f.signs()
	f.git("config", "log.showSignature", "true")
	f.commit("a.txt", "a")
	f.git("switch", "--quiet", "--create", "draft/foo")
	left := f.commit("b.txt", "b")
	f.git("switch", "--quiet", "main")
	f.git("branch", "-D", "draft/foo")
	f.git("switch", "--quiet", "--create", "old")
	renamed := f.commit("c.txt", "c")
	f.git("branch", "--move", "new")
	f.commit("d.txt", "d")
	f.git("switch", "--quiet", "main")
	r := Open(f.root())
	for branch, want := range map[string]kernel.CommitID{"draft/foo": left, "old": renamed, "nowhere": "", "foo": ""} {
		if got, err := r.LastTip(t.Context(), branch); got != want || err != nil {
			t.Errorf("%s was at %s, %v; want %s", branch, got, err, want)
		}
	}

	t.Setenv("GIT_COMMITTER_DATE", "2040-01-01T00:00:00Z")
	later := f.git("commit-tree", "-p", "main", "-m", "later", "main^{tree}")
	job := strings.Repeat("1a", 16)
	f.git("update-ref", "refs/vizier/parked/draft-foo-"+job+"-"+later[:12], later)
	f.git("update-ref", "refs/vizier/parked/nowhere-"+later[:12], later)
	f.git("update-ref", "refs/vizier/parked/foo-bar-"+job+"-"+later[:12], later)
	f.git("update-ref", "refs/vizier/parked/foo-"+job+"-module-"+later[:12], later)
	for branch, want := range map[string]string{"draft/foo": later, "nowhere": later, "foo": "", "old": string(renamed)} {
		if got, err := r.LastTip(t.Context(), branch); string(got) != want || err != nil {
			t.Errorf("with parked work, %s was at %s, %v; want %s", branch, got, err, want)
		}
	}
}

// A linked working tree may be on a branch that is gone: then it was last there.
func TestLastTipOfALinkedTree(t *testing.T) {
	f := newFixture(t)
	f.commit("a.txt", "a")
	f.git("worktree", "add", "--quiet", "-b", "draft/foo", "wt")
	f.git("-C", "wt", "commit", "--quiet", "--allow-empty", "--message", "plan")
	want := f.git("-C", "wt", "rev-parse", "HEAD")
	was := func(branch string) {
		t.Helper()
		if got, err := Open(f.root()).LastTip(t.Context(), branch); string(got) != want || err != nil {
			t.Errorf("%s was at %s, %v; want %s", branch, got, err, want)
		}
	}
	f.git("update-ref", "-d", "refs/heads/draft/foo")
	was("draft/foo")
	f.git("branch", "draft/foo", want)
	f.git("-C", "wt", "branch", "--move", "left")
	f.git("-C", "wt", "switch", "--quiet", "--create", "other", "main")
	f.git("branch", "--quiet", "-D", "left")
	was("draft/foo")
	was("left")
}

// The tracked files that a tree lacks come back, and others stay as they are.
func TestRestoreMissing(t *testing.T) {
	f := newFixture(t)
	f.commit("a.txt", "a")
	f.commit("dir/b.txt", "b")
	f.commit("c.txt", "c")
	f.write("c.txt", "changed")
	f.write("new.txt", "new")
	if err := errors.Join(os.Remove(filepath.Join(f.dir, "a.txt")), os.RemoveAll(filepath.Join(f.dir, "dir"))); err != nil {
		t.Fatal(err)
	}
	if n, err := Open(f.root()).RestoreMissing(t.Context(), f.dir); n != 2 || err != nil {
		t.Errorf("%d files, %v", n, err)
	}
	for name, want := range map[string]string{"a.txt": "a", "dir/b.txt": "b", "c.txt": "changed", "new.txt": "new"} {
		if b, err := os.ReadFile(filepath.Join(f.dir, name)); string(b) != want || err != nil {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
}

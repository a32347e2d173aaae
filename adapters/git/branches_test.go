package git

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A branch that is gone was last where the main working tree left it, or where it was parked,
// whichever is later.
func TestLastTip(t *testing.T) {
	f := newFixture(t)
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

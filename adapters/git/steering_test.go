package git

import (
	"slices"
	"testing"
)

// What a plan's branch changes below .vizier counts, and not what the target has changed since.
func TestWhatABranchChangesOfVizier(t *testing.T) {
	f := newFixture(t)
	f.commit(".vizier/config.toml", "a")
	f.git("branch", "draft/quiet")
	f.git("switch", "--quiet", "-c", "draft/x")
	f.commit(".vizier/implementation-plans/x.md", "plan")
	f.commit(".vizier/narrative/snapshot.md", "news")
	f.commit("code", "x")
	f.commit(".vizier/config.toml", "b")
	f.commit(".vizier/workflows/new.toml", "x")
	f.git("switch", "--quiet", "-")
	f.commit(".vizier/prompts/mine.md", "x")
	main := f.git("rev-parse", "--abbrev-ref", "HEAD")
	r := Open(f.root())
	for _, c := range []struct {
		branch, target string
		want           []string
	}{
		{"draft/x", "", []string{".vizier/config.toml", ".vizier/workflows/new.toml"}},
		{"draft/x", main, []string{".vizier/config.toml", ".vizier/workflows/new.toml"}},
		{"draft/x", "draft/x", nil},
		{"draft/quiet", main, nil},
		{"draft/none", main, nil},
		{"draft/x", "none", nil},
	} {
		if got, err := r.Steering(t.Context(), c.branch, c.target); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s onto %q: %v, %v, want %v", c.branch, c.target, got, err, c.want)
		}
	}
}

package git

import (
	"slices"
	"testing"
)

func TestUncommitted(t *testing.T) {
	f := newFixture(t)
	f.commit(".gitignore", "ignored\n")
	f.commit("kept", "1\n")
	f.commit("changed", "1\n")
	f.commit("removed", "1\n")
	f.write("changed", "2\n")
	f.git("rm", "--quiet", "removed")
	for _, new := range []string{"staged", "dir/a\nb", "ignored", ".vizier/jobs/x"} {
		f.write(new, "1\n")
	}
	f.git("add", "staged")
	r := Open(f.root())
	got, err := r.Uncommitted(t.Context(), f.dir)
	slices.Sort(got)
	if want := []string{"changed", "dir/a\nb", "removed", "staged"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	f.git("rm", "--quiet", "--cached", "kept") // a removal, and no new file
	if got, err := r.Untracked(t.Context(), f.dir); err != nil || !slices.Equal(got, []string{"dir/a\nb"}) {
		t.Errorf("untracked %q, %v", got, err)
	}
}

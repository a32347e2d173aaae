package git

import (
	"context"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A repository may ignore .vizier as a whole; git add must then not hear of
// what is below it.
func TestWorkIsParkedWhereViziersDirectoryIsIgnored(t *testing.T) {
	f := newFixture(t)
	f.commit(".gitignore", ".vizier/\n")
	f.commit(".vizier/config.toml", "")
	f.git("branch", "b")
	r := Open(f.root())
	ctx, rel := context.Background(), ".vizier/tmp-worktrees/x"
	if _, err := r.EnsureWorktree(ctx, f.path(rel), "b", ""); err != nil {
		t.Fatal(err)
	}
	f.write(rel+"/new.txt", "work")
	f.write(rel+"/.vizier/jobs/x", "private")
	if gone := r.RemoveWorktree(ctx, kernel.Context{Worktree: rel, Owned: true}); gone.Status != kernel.CleanupDone {
		t.Fatal(gone)
	}
	ref := f.git("for-each-ref", "--format=%(refname)", parkedRefs)
	if got := f.git("ls-tree", "-r", "--name-only", ref); got != ".gitignore\n.vizier/config.toml\nnew.txt" {
		t.Errorf("parked %q", got)
	}
}

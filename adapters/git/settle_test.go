package git

import (
	"os"
	"testing"
)

// Whichever git process fails while a resolution is staged, or wherever that is cut off, it is staged as a whole in the end.
func TestAResolutionIsStagedAsAWhole(t *testing.T) {
	ctx := t.Context()
	resolved := func() *owned {
		o := newOwned(t, Open)
		main := o.commit("file", "ours")
		o.tree.commit("gone", "x")
		o.tree.commit("file", "theirs")
		theirs := o.tree.rev("HEAD")
		o.tree.git("switch", "--quiet", "--detach", string(main))
		if err := o.repo.Merge(ctx, o.tree.dir, theirs, true); err != nil {
			t.Fatal(err)
		}
		if err := o.repo.Remember(ctx, o.tree.dir, true); err != nil {
			t.Fatal(err)
		}
		o.tree.write("file", "both")
		o.tree.write("lib/helper", "new")
		if err := os.Remove(o.tree.path("gone")); err != nil {
			t.Fatal(err)
		}
		return o
	}
	stands := func(o *owned) string {
		return o.tree.git("status", "--porcelain", "--untracked-files=all") + "\n" + o.tree.git("show", ":file")
	}
	settle := func(o *owned) error { return o.repo.Settle(ctx, o.tree.dir, []string{"file"}) }
	o := resolved()
	calls := brittle(o.repo, 0)
	if err := settle(o); err != nil {
		t.Fatal(err)
	}
	const want = "M  file\nA  lib/helper\nboth"
	if got := stands(o); got != want {
		t.Fatalf("staged:\n%s", got)
	}
	for k := 1; k <= *calls; k++ {
		o := resolved()
		brittle(o.repo, k)
		first := settle(o)
		again := Open(o.root())
		if changed, err := again.PutBack(ctx, o.tree.dir); changed || err != nil {
			t.Errorf("after process %d: %v, %v", k, changed, err)
		}
		if got := stands(o); got != want {
			t.Errorf("process %d of %d failed (%v):\n%s", k, *calls, first, got)
		}
		o.tree.write("more", "x")
		if changed, err := again.PutBack(ctx, o.tree.dir); changed || err != nil || stands(o) != "M  file\nA  lib/helper\n?? more\nboth" {
			t.Errorf("it is not forgotten: %v, %v, %s", changed, err, stands(o))
		}
	}
}

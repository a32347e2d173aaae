package git

import (
	"fmt"
	"os"
	"strings"
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

// Whichever git process fails while a worktree is put back as it was remembered, or wherever that is cut off, it is
// put back in the end, and what was changed since is parked.
func TestAWorktreeIsPutBackAsAWhole(t *testing.T) {
	ctx := t.Context()
	for _, confined := range []bool{false, true} {
		changed := func() *owned {
			o := newOwned(t, Open)
			main := o.commit("file", "ours")
			o.tree.commit("gone", "x")
			o.tree.commit("file", "theirs")
			theirs := o.tree.rev("HEAD")
			o.tree.git("switch", "--quiet", "--detach", string(main))
			if err := o.repo.Merge(ctx, o.tree.dir, theirs, false); err != nil {
				t.Fatal(err)
			}
			if err := o.repo.Remember(ctx, o.tree.dir, confined); err != nil {
				t.Fatal(err)
			}
			o.tree.write("file", "both")
			o.tree.write("new", "new")
			if !confined {
				o.tree.git("add", "file")
			}
			return o
		}
		stands := func(o *owned) string {
			text, err := os.ReadFile(o.tree.path("file"))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(text), "\n")
			for i := range lines {
				lines[i], _, _ = strings.Cut(lines[i], " ") // the names in the marks of a conflict are others each time
			}
			return fmt.Sprint(o.tree.git("status", "--porcelain", "--untracked-files=all"), lines, o.tree.git("rev-parse", "HEAD^{tree}", "MERGE_HEAD^{tree}"))
		}
		o := changed()
		calls := brittle(o.repo, 0)
		if had, err := o.repo.PutBack(ctx, o.tree.dir); !had || err != nil {
			t.Fatalf("%v, %v", had, err)
		}
		n, want := *calls, stands(o)
		for k := 1; k <= n; k += 2 {
			o := changed()
			brittle(o.repo, k)
			_, first := o.repo.PutBack(ctx, o.tree.dir)
			if got := stands(o); first == nil && got != want {
				t.Errorf("confined %t, process %d of %d fails, and nobody hears of it:\n%s\nwant\n%s", confined, k, n, got, want)
			}
			if _, err := Open(o.root()).PutBack(ctx, o.tree.dir); err != nil || stands(o) != want {
				t.Errorf("confined %t, process %d of %d failed (%v), and then: %v\n%s\nwant\n%s", confined, k, n, first, err, stands(o), want)
			}
		}
	}
}

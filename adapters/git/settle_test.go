package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newResolved is a merge in conflict about file, which was resolved since Remember: so that file is "both", lib/helper is new, and
// gone is removed.
func newResolved(t *testing.T, confined bool) *owned {
	t.Helper()
	return ownedLike(t, fmt.Sprintf("resolved %t", confined), Open, func() *owned {
		o := newOwned(t, Open)
		o.commit("other", "x")
		main := o.commit("file", "ours")
		o.tree.commit("gone", "x")
		theirs := o.tree.commit("file", "theirs")
		o.tree.git("switch", "--quiet", "--detach", string(main))
		if err := o.repo.Merge(t.Context(), o.tree.dir, theirs, true); err != nil {
			t.Fatal(err)
		}
		if err := o.repo.Remember(t.Context(), o.tree.dir, confined); err != nil {
			t.Fatal(err)
		}
		o.tree.write("file", "both")
		o.tree.write("lib/helper", "new")
		if err := os.Remove(o.tree.path("gone")); err != nil {
			t.Fatal(err)
		}
		return o
	})
}

func (o *owned) settle() error { return o.repo.Settle(o.Context(), o.tree.dir, []string{"file"}) }

// Whichever git process fails while a resolution is staged, or wherever that is cut off, all of it is staged or nothing, and
// all in the end.
func TestAResolutionIsStagedAsAWhole(t *testing.T) {
	ctx := t.Context()
	stands := func(o *owned) string {
		return o.tree.git("status", "--porcelain", "--untracked-files=all") + "\n" + o.tree.git("show", ":file")
	}
	index := func(o *owned) string { return o.tree.git("ls-files", "--stage") }
	o := newResolved(t, true)
	calls, begun := brittle(o.repo, 0), index(o)
	if err := o.settle(); err != nil {
		t.Fatal(err)
	}
	const want = "M  file\nA  lib/helper\nboth"
	if got := stands(o); got != want {
		t.Fatalf("staged:\n%s", got)
	}
	ended := index(o)
	for k := 1; k <= *calls; k++ {
		o := newResolved(t, true)
		brittle(o.repo, k)
		first := o.settle()
		if got := index(o); got != begun && got != ended {
			t.Errorf("process %d of %d failed (%v), and a part is staged:\n%s", k, *calls, first, got)
		}
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

// A Settle of an earlier version, which noted only the paths resolved and staged them one after the other, is ended.
func TestASettleOfAnEarlierVersionIsEnded(t *testing.T) {
	for name, staged := range map[string][]string{"nothing is staged": nil, "a part is staged": {"file", "gone"}} {
		o := newResolved(t, true)
		w, err := worktreeAt(o.repo.root.CommonDir, o.tree.dir)
		if err == nil {
			err = os.WriteFile(filepath.Join(w.gitDir, besideIndex, settledNote), []byte("file\x00"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range staged {
			o.tree.git("add", "--all", path)
		}
		if changed, err := o.repo.PutBack(t.Context(), o.tree.dir); changed || err != nil {
			t.Errorf("%s: %v, %v", name, changed, err)
		}
		if got := o.tree.git("status", "--porcelain", "--untracked-files=all"); got != "M  file\nA  lib/helper" {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// Whichever git process fails while a worktree is put back as it was remembered, or wherever that is cut off, it is
// put back in the end, and what was changed since is parked.
func TestAWorktreeIsPutBackAsAWhole(t *testing.T) {
	ctx := t.Context()
	for _, confined := range []bool{false, true} {
		changed := func() *owned {
			return ownedLike(t, fmt.Sprintf("changed %t", confined), Open, func() *owned {
				o := newOwned(t, Open)
				main := o.commit("file", "ours")
				o.tree.commit("gone", "x")
				theirs := o.tree.commit("file", "theirs")
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
			})
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
		every := 5
		if os.Getenv("VIZIER_LONG") != "" {
			every = 2
		}
		for k := 1; k <= n; k += every {
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

// What somebody does in the worktree after a Settle that was cut off is not staged with the resolution. If it is about the same
// files, or staged, the resolution is not taken either: it is parked, and the files are put back.
func TestWhatAPersonDoesAfterASettleThatWasCutOff(t *testing.T) {
	const taken = "M  file\nA  lib/helper"
	for name, c := range map[string]struct {
		does   func(in fixture)
		want   string // the status
		file   string // what file is then; "": in conflict
		parked string // what of it is parked; "": nothing is
	}{
		"nothing":                     {func(fixture) {}, taken, "both", ""},
		"changes another file":        {func(in fixture) { in.write("other", "half") }, taken + "\n M other", "both", ""},
		"makes a file":                {func(in fixture) { in.write("scratch", "x") }, taken + "\n?? scratch", "both", ""},
		"changes the file":            {func(in fixture) { in.write("file", "half") }, "UU file\nA  gone", "", "half"},
		"brings back a removed file":  {func(in fixture) { in.git("checkout", "--", "gone") }, "UU file\nA  gone", "", "both"},
		"removes a made file":         {func(in fixture) { in.git("clean", "--quiet", "-fdx") }, "UU file\nA  gone", "", "both"},
		"stages something else":       {func(in fixture) { in.write("file", "mine"); in.git("add", "file") }, "M  file\nA  gone", "mine", "mine"},
		"stages a part":               {func(in fixture) { in.git("add", "file") }, "M  file\nA  gone", "both", "both"},
		"stages a part, and commits":  {func(in fixture) { in.git("add", "file"); in.git("commit", "--quiet", "-m", "x") }, "", "both", "both"},
		"stages all by himself":       {func(in fixture) { in.git("add", "--all") }, taken, "both", ""},
		"undoes the merge":            {func(in fixture) { in.git("reset", "--quiet", "--hard") }, "", "ours", "ours"},
		"undoes and makes it himself": {func(in fixture) { in.git("reset", "--quiet", "--hard"); in.mayFail("merge", "--squash", "draft/a") }, "UU file\nA  gone", "", "<"},
	} {
		o := newResolved(t, true)
		o.cutOff()
		c.does(o.tree)
		changed, err := o.repo.PutBack(t.Context(), o.tree.dir)
		if err != nil || changed != (c.parked != "") {
			t.Errorf("%s: changed %v, %v", name, changed, err)
		}
		if got := o.tree.git("status", "--porcelain", "--untracked-files=all"); got != c.want {
			t.Errorf("%s: it stands at\n%s\nwant\n%s", name, got, c.want)
		}
		if got, err := os.ReadFile(o.tree.path("file")); err != nil || c.file != "" && string(got) != c.file || c.file == "" && !strings.HasPrefix(string(got), "<<<<<<<") {
			t.Errorf("%s: file is %q, %v", name, got, err)
		}
		if c.parked != "" {
			if got := o.git("show", o.saved().Ref+":file"); !strings.HasPrefix(got, c.parked) {
				t.Errorf("%s: parked is %q", name, got)
			}
		}
	}
}

// cutOff has Settle note what it is about to stage, and no more.
func (o *owned) cutOff() {
	o.Helper()
	w, err := worktreeAt(o.repo.root.CommonDir, o.tree.dir)
	if err != nil {
		o.Fatal(err)
	}
	lock := w.gitDir + "/index.lock"
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		o.Fatal(err)
	}
	if err := o.settle(); err == nil || !strings.Contains(err.Error(), "index.lock") {
		o.Fatal(err)
	}
	if err := os.Remove(lock); err != nil {
		o.Fatal(err)
	}
}

// Whichever git process fails while a Settle that was cut off is ended, the resolution is staged in the end.
func TestWhicheverGitFailsWhileASettleEnds(t *testing.T) {
	for _, confined := range []bool{true, false} {
		o := newResolved(t, confined)
		o.cutOff()
		for k := 1; ; k++ {
			r := Open(o.root())
			calls := brittle(r, k)
			if changed, err := r.PutBack(t.Context(), o.tree.dir); changed || (err != nil) != (*calls >= k) {
				t.Errorf("process %d of %d: changed %v, %v", k, *calls, changed, err)
			}
			if *calls < k {
				break
			}
		}
		if got := o.tree.git("status", "--porcelain", "--untracked-files=all"); got != "M  file\nA  lib/helper" {
			t.Errorf("confined %v:\n%s", confined, got)
		}
	}
}

// Where a person may have staged the resolution, and has committed it since, it is theirs.
func TestASettleThatWasCutOffAndIsCommittedSince(t *testing.T) {
	o := newResolved(t, false)
	o.cutOff()
	o.tree.git("add", "--all")
	o.tree.git("commit", "--quiet", "-m", "mine")
	mine := o.tree.rev("HEAD")
	for _, want := range []string{"", "?? more"} {
		if changed, err := o.repo.PutBack(t.Context(), o.tree.dir); changed || err != nil || len(o.parked) > 0 {
			t.Errorf("changed %v, parked %v, %v", changed, o.parked, err)
		}
		if got := o.tree.git("status", "--porcelain"); got != want || o.tree.rev("HEAD") != mine {
			t.Errorf("the commit is %s, want %s:\n%s", o.tree.rev("HEAD"), mine, got)
		}
		o.tree.write("more", "x")
	}
}

// In the main working tree a resolution is staged at once, or whoever asked for it hears that it is not.
func TestAResolutionInTheMainTree(t *testing.T) {
	o := newResolved(t, true)
	o.mayFail("merge", "--squash", "draft/a")
	o.write("file", "both")
	o.write("lib/helper", "new")
	const begun, ended = "UU file\nA  gone\n?? lib/helper", "M  file\nA  gone\nA  lib/helper"
	status := func() string { return o.git("status", "--porcelain", "--untracked-files=all") }
	if got := status(); got != begun {
		t.Fatalf("before:\n%s", got)
	}
	for k := 1; ; k++ {
		calls := brittle(o.repo, k)
		err := o.repo.Settle(t.Context(), o.dir, []string{"file"})
		if (err != nil) != (*calls >= k) {
			t.Errorf("process %d of %d: %v", k, *calls, err)
		}
		if *calls < k {
			break
		}
	}
	if got := status(); got != ended {
		t.Errorf("after:\n%s", got)
	}
}

// Whichever git process fails, a worktree in which a program has worked is said not to be settled or put back, or it is.
func TestWhicheverGitFailsAWorktreeIsSettledOrPutBack(t *testing.T) {
	ctx := t.Context()
	for name, deed := range map[string]func(o *owned) error{
		"settled":    (*owned).settle,
		"remembered": func(o *owned) error { return o.repo.Remember(ctx, o.tree.dir, true) },
		"put back":   func(o *owned) error { return second(o.repo.PutBack(ctx, o.tree.dir)) },
		"to be settled": func(o *owned) error {
			at, err := o.repo.treeAt(o.tree.dir)
			if err == nil {
				err = at.noteSettled("", []string{"file"})
			}
			return errors.Join(err, second(o.repo.PutBack(ctx, o.tree.dir)))
		},
	} {
		for _, confined := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", confined ", confined), func(t *testing.T) {
				whicheverGitFails(t, func() *owned {
					o := newResolved(t, confined)
					o.tree.git("add", "lib")
					return o
				}, deed)
			})
		}
	}
}

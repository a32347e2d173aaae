package git

import (
	"os"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// shuts closes what is at path until open is called or the test ends, and returns what an obstacle says of that.
func (f fixture) shuts(path string, mode os.FileMode) (says string, open func()) {
	f.Helper()
	info, err := os.Lstat(f.path(path))
	if err == nil {
		err = os.Chmod(f.path(path), mode)
	}
	if err != nil {
		f.Fatal(err)
	}
	open = func() { _ = os.Chmod(f.path(path), info.Mode()) }
	f.Cleanup(open)
	return "but " + f.path(path) + " cannot be read: make it readable, as its owner's `chmod u+rwX " + f.path(path) + "` does", open
}

// A checkout does not follow where it cannot be read, since it could not be put back either. It says what helps.
func TestACheckoutThatCannotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for name, c := range map[string]struct {
		plan func(in fixture)
		shut string
		mode os.FileMode
		mine string // an untracked file, which is in the way
	}{
		"a directory with a change":     {func(in fixture) { in.write("d/x", "2\n") }, "d", 0, ""},
		"a directory to pass through":   {func(in fixture) { in.write("d/x", "2\n") }, "d", 0o600, ""},
		"a directory with a new file":   {func(in fixture) { in.write("d/sub/new", "2\n") }, "d/sub", 0, ""},
		"a directory that goes":         {func(in fixture) { in.git("rm", "--quiet", "-r", "d") }, "d", 0, ""},
		"a directory with another file": {func(in fixture) { in.git("rm", "--quiet", "-r", "d"); in.write("d", "2\n") }, "d/mine", 0, "d/mine/x"},
		"an untracked file":             {func(in fixture) { in.write("new", "2\n") }, "new", 0, "new"},
		"a tracked file":                {func(in fixture) { in.write("a", "2\n") }, "a", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.TB = t
			f.commit("d/x", "1\n")
			f.commit("d/sub/x", "1\n")
			f.commit("a", "1\n")
			j := journey{f, f.rev("main"), f.planned("main", c.plan)}
			if c.mine != "" {
				j.write(c.mine, "mine\n")
			}
			before := j.standing()
			says, open := j.shuts(c.shut, c.mode)
			says = "main is checked out in " + j.dir + ", " + says
			r := Open(j.root())
			if o, moved, err := r.Advance(t.Context(), "main", j.from, j.to); o != says || moved || err != nil {
				t.Errorf("obstacle %q, moved %v, %v; want %q", o, moved, err, says)
			}
			if left := j.litter(); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
			open()
			if got := j.standing(); got != before {
				t.Errorf("it has now\n%s\nand had\n%s", got, before)
			}
			if c.mine != "" {
				j.refuses(t.Context(), r, "where "+c.mine+", which git does not track, is in the way")
				return
			}
			if o, moved, err := r.Advance(t.Context(), "main", j.from, j.to); o != "" || !moved || err != nil || j.git("status", "--porcelain", "--untracked-files=no") != "" {
				t.Errorf("after the advice: obstacle %q, moved %v, %v; status %q", o, moved, err, j.git("status", "--porcelain"))
			}
		})
	}
}

// What a merge does not change stays as it is, whether it can be read or not.
func TestADirectoryThatCannotBeReadAndIsNotChanged(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	f := newFixture(t)
	f.commit("a", "1\n")
	f.commit("d/x", "1\n")
	from, to := fork(f, func() { f.write("a", "2\n") })
	f.write("d/x", "mine\n")
	_, open := f.shuts("d", 0)
	if o, moved, err := Open(f.root()).Advance(t.Context(), "main", from, to); o != "" || !moved || err != nil {
		t.Errorf("obstacle %q, moved %v, %v", o, moved, err)
	}
	open()
	if got := f.git("status", "--porcelain") + " " + f.content("d/x"); got != "M d/x mine\n" {
		t.Errorf("it is left as %q", got)
	}
}

// What could not be put back, since it was shut meanwhile, says what helps.
func TestACheckoutHalfWayThatCannotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	f := newFixture(t)
	f.commit("d/x", "1\n")
	from, to := fork(f, func() { f.write("d/x", "2\n") })
	j := journey{f, from, to}
	j.half()
	says, open := j.shuts("d", 0)
	r := Open(j.root())
	if o, err := r.EndAdvance(t.Context(), "main"); o != "main is checked out in "+j.dir+", which is half way to another commit, "+says || err != nil {
		t.Errorf("obstacle %q, %v", o, err)
	}
	if err := r.EndHalfWay(t.Context(), j.dir); err == nil || "but "+err.Error() != says {
		t.Error(err)
	}
	open()
	if err := r.EndHalfWay(t.Context(), j.dir); err != nil {
		t.Error(err)
	}
	j.isWhole()
}

// A tracked file that cannot be read has no changes that anybody could commit or stash.
func TestATrackedFileThatCannotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for name, c := range map[string]struct {
		change func(f fixture)
		shut   bool   // the file is what is in the way
		then   string // what is in the way when it can be read
	}{
		"unchanged":  {func(fixture) {}, true, ""},
		"changed":    {func(f fixture) { f.write("a", "mine\n") }, true, "stash"},
		"staged":     {func(f fixture) { f.write("a", "mine\n"); f.git("add", "a") }, true, "stash"},
		"another is": {func(f fixture) { f.write("b", "mine\n") }, true, "stash"},
		"a link to it": {func(f fixture) {
			_ = os.Remove(f.path("link"))
			if err := os.Symlink("a", f.path("link")); err != nil {
				t.Fatal(err)
			}
			f.git("update-index", "--assume-unchanged", "a")
		}, false, "stash"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.TB = t
			if err := os.Symlink("b", f.path("link")); err != nil {
				t.Fatal(err)
			}
			f.git("add", "link")
			f.commit("a", "1\n")
			f.commit("b", "1\n")
			c.change(f)
			says, open := f.shuts("a", 0)
			says = "main is checked out in " + f.dir + ", " + says
			r := Open(f.root())
			if o, err := r.Obstacle(t.Context(), "main"); (o == says) != c.shut || !c.shut && !strings.Contains(o, c.then) || err != nil {
				t.Errorf("obstacle %q, %v", o, err)
			}
			open()
			if o, err := r.Obstacle(t.Context(), "main"); (o == "") != (c.then == "") || !strings.Contains(o, c.then) || err != nil {
				t.Errorf("when it can be read: obstacle %q, %v", o, err)
			}
		})
	}
}

package git

import (
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// long is set by VIZIER_LONG, which asks for everything.
var long = os.Getenv("VIZIER_LONG") != ""

// damages are what a power failure, a prune elsewhere or a person may do to git's files of a worktree,
// and what Damage says of it.
var damages = map[string]struct {
	do   func(o *owned) error
	says string
}{
	"empty index":     {func(o *owned) error { return os.Truncate(o.path(".git/worktrees/draft-1/index"), 0) }, "its index is damaged"},
	"torn index":      {func(o *owned) error { return os.Truncate(o.path(".git/worktrees/draft-1/index"), 100) }, "its index is damaged"},
	"garbage in HEAD": {func(o *owned) error { return put(o.path(".git/worktrees/draft-1/HEAD"), "garbage\n") }, "what it has checked out is damaged"},
	"empty HEAD":      {func(o *owned) error { return put(o.path(".git/worktrees/draft-1/HEAD"), "") }, "what it has checked out is damaged"},
	"no HEAD, no reflog": {func(o *owned) error {
		return errors.Join(os.Remove(o.path(".git/worktrees/draft-1/HEAD")), os.RemoveAll(o.path(".git/worktrees/draft-1/logs")))
	}, "what it has checked out is damaged"},
	"no commondir":    {func(o *owned) error { return os.Remove(o.path(".git/worktrees/draft-1/commondir")) }, "the repository that it belongs to is damaged"},
	"empty commondir": {func(o *owned) error { return put(o.path(".git/worktrees/draft-1/commondir"), "") }, "the repository that it belongs to is damaged"},
	"no .git":         {func(o *owned) error { return os.Remove(o.tree.path(".git")) }, "its file .git is missing"},
	"garbage in .git": {func(o *owned) error { return put(o.tree.path(".git"), "garbage") }, "its file .git is missing, or leads elsewhere"},
	"a pipe in .git": {func(o *owned) error {
		return errors.Join(os.Remove(o.tree.path(".git")), unix.Mkfifo(o.tree.path(".git"), 0o600))
	}, "its file .git is missing, or leads elsewhere"},
	"pruned": {func(o *owned) error { return os.RemoveAll(o.path(".git/worktrees/draft-1")) }, "git does not know it any more"},
	"all at once": {func(o *owned) error {
		return errors.Join(put(o.path(".git/worktrees/draft-1/HEAD"), ""), put(o.path(".git/worktrees/draft-1/commondir"), ""), put(o.path(".git/worktrees/draft-1/index"), ""))
	}, "is damaged"},
}

func put(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

// A damaged worktree is named. Whether it is removed, or made anew, its files are parked first, and
// nothing is done to the main working tree.
// With core.preferSymlinkRefs, git makes a link of a symbolic ref, which leads nowhere. No worktree is damaged by that.
func TestRefsThatAreLinks(t *testing.T) {
	f := newFixture(t)
	f.commit("file", "x")
	f.git("branch", "draft/a")
	f.git("config", "core.preferSymlinkRefs", "true")
	f.git("switch", "--quiet", "--create", "other")
	f.git("symbolic-ref", "refs/heads/alias", "refs/heads/draft/a")
	r := Open(f.root())
	c, err := r.EnsureWorktree(t.Context(), "job", "place", "draft/a", "")
	if err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(f.path(".git/worktrees/job/HEAD")); err != nil || to != "refs/heads/draft/a" {
		t.Fatalf("HEAD is no link: %q, %v", to, err)
	}
	f.in(f.path(c.Worktree)).write("work", "mine")
	if why, _, err := r.Damage(c); why != "" || err != nil {
		t.Errorf("damaged: %q, %v", why, err)
	}
	if found, err := r.OwnedWorktree("job"); found != c || err != nil || c.Branch != "draft/a" {
		t.Errorf("found %+v, %v, want %+v", found, err, c)
	}
	if again, err := r.EnsureWorktree(t.Context(), "job", "place", "draft/a", ""); again != c || err != nil || f.content(c.Worktree+"/work") != "mine" {
		t.Errorf("again %+v, %v, want %+v", again, err, c)
	}
	if on, obstacle, err := r.Standing(t.Context(), "draft/a"); len(on) != 1 || on[0] != f.path(c.Worktree) || obstacle != "" || err != nil {
		t.Errorf("standing on it are %q, %q, %v", on, obstacle, err)
	}
	if head, err := r.Head(t.Context()); head != "other" || err != nil {
		t.Errorf("the head is %q, %v", head, err)
	}
	if to, err := r.symbolic(t.Context(), "refs/heads/alias"); to != "refs/heads/draft/a" || err != nil {
		t.Errorf("the alias stands for %q, %v", to, err)
	}
}

func TestDamagedWorktrees(t *testing.T) {
	for name, c := range damages {
		if strings.HasPrefix(name, "empty") && !long { // much like those that are torn, or missing
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, again := range []bool{false, true} {
				o := newOwned(t, Open)
				main := o.git("symbolic-ref", "HEAD")
				o.tree.write("file", "mine")
				o.tree.write("new", "mine, too")
				if why, _, err := o.repo.Damage(o.ctx); why != "" || err != nil {
					t.Fatalf("sound: %q, %v", why, err)
				}
				if err := c.do(o); err != nil {
					t.Fatal(err)
				}
				if why, _, err := o.repo.Damage(o.ctx); !strings.Contains(why, c.says) || !strings.HasSuffix(why, anew) || err != nil {
					t.Errorf("damaged: %q, %v", why, err)
				}
				if again {
					if own, err := o.repo.OwnedWorktree("draft-1"); own.Worktree != "" || err != nil {
						t.Errorf("owned: %+v, %v", own, err)
					}
					c, err := o.repo.EnsureWorktree(t.Context(), "draft-1", "draft-1", "draft/a", "")
					if err != nil || c != o.ctx {
						t.Fatalf("%+v, %v", c, err)
					}
					o.kept()
					if status := o.tree.git("status", "--porcelain"); status != "" {
						t.Errorf("it has %s", status)
					}
				} else {
					o.remove(kernel.CleanupDone)
					o.gone()
				}
				p := o.saved()
				if o.git("show", p.Ref+":file") != "mine" || o.git("show", p.Ref+":new") != "mine, too" || o.git("show", p.Ref+"^:file") != "x" {
					t.Errorf("parked: %s", o.git("show", p.Ref))
				}
				if o.git("symbolic-ref", "HEAD") != main || o.git("status", "--porcelain") != "" {
					t.Error("the main working tree has changed")
				}
			}
		})
	}
}

// Something else in the place of a worktree is left for a person to move.
func TestSomethingInThePlaceOfAWorktree(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for name, c := range map[string]struct {
		do   func(o *owned, moved string) error
		says string
	}{
		"a file": {func(o *owned, moved string) error {
			return errors.Join(os.Rename(o.tree.dir, moved), put(o.tree.dir, "x"))
		}, "a file is in the place of the worktree: move DIR away"},
		"a link": {func(o *owned, moved string) error {
			return errors.Join(os.Rename(o.tree.dir, moved), os.Symlink(moved, o.tree.dir))
		}, "a symbolic link is in the place of the worktree: move DIR away"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwned(t, Open)
			o.tree.write("file", "mine")
			moved := filepath.Join(t.TempDir(), "moved")
			if err := c.do(o, moved); err != nil {
				t.Fatal(err)
			}
			says := strings.ReplaceAll(c.says, "DIR", o.tree.dir)
			why, stays, err := o.repo.Damage(o.ctx)
			if !strings.Contains(why, says) || stays || err != nil {
				t.Errorf("%q, %v, %v", why, stays, err)
			}
			if _, err := o.repo.OwnedWorktree("draft-1"); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("owned: %v", err)
			}
			if _, err := o.repo.EnsureWorktree(t.Context(), "draft-1", "draft-1", "draft/a", ""); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("made: %v", err)
			}
			if why := o.remove(kernel.CleanupFailed); !strings.Contains(why, says) {
				t.Error(why)
			}
			if b, err := os.ReadFile(filepath.Join(moved, "file")); string(b) != "mine" {
				t.Errorf("the work: %q, %v", b, err)
			}
		})
	}
}

// A worktree of the user's that its mode keeps them from is let them into where it is needed, and removed like any other.
func TestAWorktreeThatIsShut(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for name, mode := range map[string]os.FileMode{"closed": 0, "only to read": 0o555, "only to write": 0o300} {
		t.Run(name, func(t *testing.T) {
			o := newOwned(t, Open)
			o.tree.write("file", "mine")
			shut := func() {
				if err := os.Chmod(o.tree.dir, mode); err != nil {
					t.Fatal(err)
				}
			}
			shut()
			want := "you may not work in the worktree: `chmod u+rwx " + o.tree.dir + "`, as its owner, then retry"
			if why, stays, err := o.repo.Damage(o.ctx); why != want || !stays || err != nil {
				t.Errorf("%q, stays %v, %v", why, stays, err)
			}
			if !o.repo.InPlace(o.ctx) {
				t.Error("it is not in its place")
			}
			if c, err := o.repo.OwnedWorktree("draft-1"); c != o.ctx || err != nil {
				t.Errorf("owned: %+v, %v", c, err)
			}
			shut()
			if c, err := o.repo.EnsureWorktree(t.Context(), "draft-1", "draft-1", "draft/a", ""); c != o.ctx || err != nil {
				t.Errorf("made: %+v, %v", c, err)
			}
			if got := o.tree.content("file"); got != "mine" {
				t.Errorf("it has %q", got)
			}
			shut()
			o.remove(kernel.CleanupDone)
			o.gone()
			if got := o.git("show", o.saved().Ref+":file"); got != "mine" {
				t.Errorf("parked %q", got)
			}
		})
	}
}

// In a job's worktree without .git, git would look further up and work on the main working tree.
func TestNoGitWorksOnTheMainTreeInstead(t *testing.T) {
	o := newOwned(t, Open)
	ctx, r, dir := t.Context(), o.repo, o.tree.dir
	if err := os.MkdirAll(o.tree.path("sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(o.tree.path(".git")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.tree.path(".git"), 0o700); err != nil { // which git ignores
		t.Fatal(err)
	}
	o.write("file", "the user's")
	before := o.git("rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
	for name, do := range map[string]func(dir string) error{
		"HeadBranch":  func(dir string) error { _, err := r.HeadBranch(ctx, dir); return err },
		"HeadCommit":  func(dir string) error { _, err := r.HeadCommit(ctx, dir); return err },
		"Stage":       func(dir string) error { return r.Stage(ctx, dir, nil, nil) },
		"Commit":      func(dir string) error { _, err := r.Commit(ctx, dir, "x"); return err },
		"Detach":      func(dir string) error { return r.Detach(ctx, dir, o.rev("HEAD")) },
		"Uncommitted": func(dir string) error { _, err := r.Uncommitted(ctx, dir); return err },
	} {
		for _, at := range []string{dir, filepath.Join(dir, "sub")} {
			if err := do(at); err == nil || !strings.Contains(err.Error(), "worktree "+dir+" has no file .git that leads to the repository") {
				t.Errorf("%s in %s: %v", name, at, err)
			}
		}
	}
	if err := r.Release(ctx, dir); err != nil {
		t.Error(err)
	}
	if on, o, err := r.Standing(ctx, "draft/a"); err != nil || o != "" || len(on) != 0 {
		t.Errorf("on the branch after Release: %q, obstacle %q, %v", on, o, err)
	}
	if after := o.git("rev-parse", "HEAD", "--symbolic-full-name", "HEAD"); after != before || o.git("status", "--porcelain") != "M file" {
		t.Errorf("the main working tree is at %s, was at %s; %s", after, before, o.git("status"))
	}
}

// An index is sound as git writes it, and with nothing in it, and damaged if a byte differs or is missing.
func TestASoundIndex(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		f := newFixture(t, "--object-format="+format)
		index := f.path(".git/index")
		is := func(what string, want bool) {
			t.Helper()
			if sound, err := soundIndex(index); sound != want || err != nil {
				t.Errorf("%s, %s: sound %v, %v", format, what, sound, err)
			}
		}
		is("missing", true)
		f.write("file", "x")
		for what, makes := range map[string][]string{"empty": {"read-tree", "--empty"}, "with a file": {"add", "file"}} {
			f.git(makes...)
			is(what, true)
			whole := f.content(".git/index")
			for n := range len(whole) {
				f.write(".git/index", whole[:n])
				is(fmt.Sprintf("%s, the first %d bytes", what, n), false)
				f.write(".git/index", whole[:n]+string([]byte{whole[n] ^ 1})+whole[n+1:])
				is(fmt.Sprintf("%s, byte %d changed", what, n), false)
			}
			f.write(".git/index", whole)
		}
		shortest := "DIRC\x00\x00\x00\x02\x00\x00\x00\x00"
		if sum := sha1.Sum([]byte(shortest)); format == "sha1" {
			shortest += string(sum[:])
		} else {
			sum := sha256.Sum256([]byte(shortest))
			shortest += string(sum[:])
		}
		f.write(".git/index", shortest)
		f.git("ls-files", "--stage") // git takes it, too
		is("the shortest", true)
		f.git("-c", "index.skipHash=true", "add", "file")
		is("without a checksum", true)
		f.write(".git/index", "no index, but long enough for one, with or without the longer checksum")
		is("something else", false)
	}
}

// Work in a worktree of which git knows nothing any more is parked on top of its branch.
func TestAForgottenWorktreeIsParkedOnItsBranch(t *testing.T) {
	ctx, o := t.Context(), newOwned(t, Open)
	o.commit("later", "1") // on the main branch only
	o.tree.write("file", "changed")
	if err := os.RemoveAll(o.path(".git/worktrees/draft-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := o.repo.EnsureWorktree(ctx, "draft-1", "draft-1", "draft/a", ""); err != nil {
		t.Fatal(err)
	}
	if len(o.parked) != 1 || o.rev(string(o.parked[0].Commit)+"^") != o.rev("draft/a") || o.git("show", string(o.parked[0].Commit)+":file") != "changed" {
		t.Errorf("parked %+v", o.parked)
	}
}

// Why git commits nothing is told, also where it says so as an answer.
func TestWhyNothingIsCommitted(t *testing.T) {
	o := newOwned(t, Open)
	if id, err := o.repo.Commit(t.Context(), o.tree.dir, "nothing"); id != "" || err == nil || !strings.Contains(err.Error(), "nothing to commit") {
		t.Errorf("%q, %v", id, err)
	}
}

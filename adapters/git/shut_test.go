package git

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// What may not be read or changed is told by who needs it, and nothing is taken for done.
func TestWhatMayNotBeReadOrChanged(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	ctx, later := t.Context(), time.Now().Add(time.Hour)
	const entry = "100644 old 0\tdir/file\x00"
	follows := func(s *scripted) *following {
		f := s.on("main")
		f.from, f.to, f.diff = "from", "to", []changedFile{{"dir/file", fileEntry{"100644", "old"}, fileEntry{"100644", "new"}}}
		return f
	}
	for name, c := range map[string]struct {
		put     string // a file, relative to the git directory
		shut    string // what is shut after that, and how
		mode    os.FileMode
		answers []string
		ask     func(s *scripted, shut func()) []any
	}{
		"a lock of a ref": {"refs/vizier/x.lock", "refs/vizier", 0o500, nil, func(s *scripted, shut func()) []any {
			s.dated("refs/vizier/x.lock")
			shut()
			return all(s.DropStaleRefLocks(nil, later))
		}},
		"locks of refs": {"refs/vizier/x", "refs/vizier", 0, nil, func(s *scripted, shut func()) []any { shut(); return all(s.DropStaleRefLocks(nil, later)) }},
		"all locks": {"some/x", "some", 0, nil, func(s *scripted, shut func()) []any {
			shut()
			_, _, err := s.StaleLocks(later)
			return all(err)
		}},
		"locks of a worktree": {"worktrees/t/some/x", "worktrees/t/some", 0, nil, func(s *scripted, shut func()) []any {
			dir := s.linked("t", id("a"), "")
			shut()
			return all(s.DropStaleLocks(dir, later))
		}},
		"the lock of an index": {"x", ".", 0o500, nil, func(s *scripted, shut func()) []any {
			f := s.on("main")
			if err := os.Symlink(followNote, f.path("index.lock")); err != nil {
				t.Fatal(err)
			}
			shut()
			return all(f.done())
		}},
		"the lock of a head": {"x", ".", 0o500, nil, func(s *scripted, shut func()) []any {
			f := s.on("main")
			s.put("HEAD.lock", "")
			s.dated(followNote)
			s.dated("HEAD.lock")
			shut()
			return all(f.dropRefLocks(ctx))
		}},
		"a place for copies": {"../dir/file", ".", 0o500, []string{"check-attr dir/file\x00filter\x00lfs\x00"}, func(s *scripted, shut func()) []any {
			f := follows(s)
			shut()
			return all(f.preserve(ctx))
		}},
		"what is to be copied": {"../dir/file", "../dir/file", 0, []string{"check-attr dir/file\x00filter\x00lfs\x00"}, func(s *scripted, shut func()) []any {
			f := follows(s)
			shut()
			return all(f.preserve(ctx))
		}},
		"what may be as its copy": {"../dir/file", "../dir/file", 0, nil, func(s *scripted, shut func()) []any {
			s.put(followOld+"/0", "x")
			f := follows(s)
			shut()
			return all(f.isOld(0))
		}},
		"what is to go": {"../dir/file", "../dir", 0o500, []string{"--deleted ", "ls-files " + entry}, func(s *scripted, shut func()) []any {
			s.put(followOld+"/0", "x")
			f := follows(s)
			f.diff[0].old.blob = "former"
			shut()
			return all(f.bring(ctx, f.path("none")))
		}},
		"what is to come back": {"../dir/other", "../dir", 0o500, []string{"--deleted ", "ls-files " + entry}, func(s *scripted, shut func()) []any {
			s.put(followOld+"/0", "x")
			f := follows(s)
			shut()
			return all(f.bring(ctx, f.path("none")))
		}},
		"a lock of a worktree": {"worktrees/t/some/x.lock", "worktrees/t/some", 0o500, nil, func(s *scripted, shut func()) []any {
			dir := s.linked("t", id("a"), "")
			shut()
			return all(s.DropStaleLocks(dir, later))
		}},
		"a worktree to separate": {"worktrees/t/x", "worktrees/t", 0o500, nil, func(s *scripted, shut func()) []any {
			s.moved("t", "ref: refs/heads/x")
			s.moved("u", "ref: refs/heads/x") // this one can be
			shut()
			return all(s.SeparateWorktrees())
		}},
		"a merge that may have its commit": {"worktrees/x", "worktrees", 0o300, []string{"HEAD^{commit} " + id("a")}, func(s *scripted, shut func()) []any {
			shut()
			return all(s.save(ctx, Worktree{Name: "t", gitDir: s.root.Dir}, false, removed))
		}},
		"a worktree to repair": {"worktrees/t/x", "worktrees/t", 0o500, nil, func(s *scripted, shut func()) []any {
			s.moved("t", "ref: refs/heads/x")
			shut()
			return all(s.RepairWorktree(ctx, kernel.Context{Name: "t"}))
		}},
		"a worktree to find again": {"worktrees/t/x", "worktrees/t", 0o500, nil, func(s *scripted, shut func()) []any {
			s.moved("t", "ref: refs/heads/x")
			shut()
			return all(s.worktreesOn(ctx, "x"))
		}},
		"a torn index": {"worktrees/t/index", "worktrees/t", 0o500, nil, func(s *scripted, shut func()) []any {
			s.linked("t", id("a"), "")
			s.put("worktrees/t/commondir", "../..\n")
			s.put("objects/x", "")
			s.put("refs/x", "")
			shut()
			_, err := s.mend(ctx, s.worktree("t"), "")
			return all(err)
		}},
		"a submodule that may have files": {"../sub/x", "../sub", 0o600, nil, func(s *scripted, shut func()) []any {
			shut()
			return all(s.cli.unseen(ctx, command{}, s.root.Dir, []string{"sub"}))
		}},
		"whose a submodule is": {"../sub/.git", "../sub/.git", 0, nil, func(s *scripted, shut func()) []any {
			shut()
			return all(ownSubmodule(filepath.Join(s.root.Dir, "sub"), s.root.CommonDir))
		}},
		"the repositories of submodules": {"modules/m/HEAD", "modules", 0o600, nil, func(s *scripted, shut func()) []any { shut(); return all(s.cli.modules(ctx, s.tree().w)) }},
		"what was set aside": {"../" + worktreeHome + "/" + leftPrefix + "t/x", "../" + worktreeHome, 0o500, nil, func(s *scripted, shut func()) []any {
			dir := s.linked("t", id("a"), "")
			shut()
			return all(s.detach(ctx, s.worktree("t"), dir, filepath.Join(filepath.Dir(dir), leftPrefix+"t"), true))
		}},
	} {
		s := newScripted(t, c.answers...)
		s.put(c.put, "x")
		path := filepath.Join(s.root.CommonDir, c.shut)
		answer := c.ask(s, func() {
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
		})
		if err := os.Chmod(path, 0o700); err != nil {
			t.Error(err)
		}
		noAnswer(t, name, answer)
	}
}

// moved makes a linked worktree that git looks for elsewhere.
func (s *scripted) moved(name, head string) {
	s.Helper()
	s.linked(name, head, "")
	s.put("worktrees/"+name+"/gitdir", "/elsewhere/"+name+"/.git\n")
}

// dated makes a file as old as can be, so that no git at work may hold it.
func (s *scripted) dated(path string) {
	s.Helper()
	if err := os.Chtimes(filepath.Join(s.root.CommonDir, path), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		s.Fatal(err)
	}
}

// A worktree whose home cannot be made anew is not removed.
func TestAWorktreeWithoutAHome(t *testing.T) {
	s := newScripted(t)
	s.linked("t", id("a"), "")
	if err := os.RemoveAll(filepath.Join(s.root.Dir, ".vizier")); err != nil {
		t.Fatal(err)
	}
	s.put("../.vizier", "a file")
	if gone := s.RemoveWorktree(t.Context(), kernel.Context{Owned: true, Worktree: worktreeHome + "/t", Name: "t"}); gone.Status != kernel.CleanupFailed || !s.there("worktrees/t") {
		t.Errorf("%+v, there %t", gone, s.there("worktrees/t"))
	}
}

package git

import (
	"os"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// hook makes a hook that fails and prints nothing.
func (f fixture) hook(name string) {
	f.Helper()
	f.write(".git/hooks/"+name, "#!/bin/sh\nexit 1\n")
	if err := os.Chmod(f.path(".git/hooks/"+name), 0o755); err != nil {
		f.Fatal(err)
	}
}

// A hook that fails without a word is named as far as git tells, and a worktree by its place, not by the id of its job.
func TestAHookThatFailsSilently(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	prepare := func(f fixture, r *Repo) error {
		_, err := r.EnsureWorktree(f.Context(), "draft-a-"+id, "draft-a", "main", "")
		return err
	}
	for name, c := range map[string]struct {
		hook, want string
		do         func(f fixture, r *Repo) error
	}{
		"commit": {"pre-commit", "git commit printed nothing (exit 1): a hook, such as pre-commit, may have refused", func(f fixture, r *Repo) error {
			f.write("file", "y")
			f.git("add", "file")
			_, err := r.Commit(f.Context(), f.dir, "m")
			return err
		}},
		"message": {"commit-msg", "git commit printed nothing (exit 1): a hook, such as pre-commit, may have refused", func(f fixture, r *Repo) error {
			_, err := r.Amend(f.Context(), f.dir, "m")
			return err
		}},
		"checkout": {"post-checkout", "git checkout printed nothing (exit 1): the hook post-checkout may have failed", func(f fixture, r *Repo) error {
			return r.Detach(f.Context(), f.dir, kernel.CommitID(f.git("rev-parse", "HEAD")))
		}},
		"worktree": {"post-checkout", "add worktree draft-a: git hook run post-checkout printed nothing (exit 1)", prepare},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("file", "x")
			f.hook(c.hook)
			if err := c.do(f, Open(f.root())); err == nil || err.Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	t.Run("filter", func(t *testing.T) {
		f := newFixture(t)
		f.commit(".gitattributes", "file filter=bad\n")
		f.commit("file", "x")
		f.git("config", "filter.bad.smudge", "false")
		f.git("config", "filter.bad.required", "true")
		if err := prepare(f, Open(f.root())); err == nil || !strings.HasPrefix(err.Error(), "add worktree draft-a: git reset: ") || strings.Contains(err.Error(), id) {
			t.Error(err)
		}
	})
}

// A hook that is in the way of every merge is named, and not git's advice to move files away in a worktree that is made anew each time.
func TestAHookThatIsInTheWayOfAMerge(t *testing.T) {
	for _, does := range []string{"echo x >new", "echo x >>file"} {
		o := newOwned(t, Open)
		main := o.rev("HEAD")
		o.tree.write("new", "x")
		o.tree.git("add", "new")
		theirs := o.tree.commit("file", "theirs")
		o.write(".git/hooks/post-checkout", "#!/bin/sh\n"+does+"\n")
		if err := os.Chmod(o.path(".git/hooks/post-checkout"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := o.repo.Detach(t.Context(), o.tree.dir, main); err != nil {
			t.Fatal(err)
		}
		for _, squash := range []bool{true, false} {
			file := does[strings.LastIndexByte(does, '>')+1:]
			want := "git merge: what is merged would overwrite " + file + ": the hook post-checkout may have made or changed that"
			if err := o.repo.Merge(t.Context(), o.tree.dir, theirs, squash); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v", does, err)
			}
		}
	}
}

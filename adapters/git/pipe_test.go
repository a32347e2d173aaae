package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A job may put what it likes in the place of its worktree's .git. What is no file leads nowhere, and nobody waits for it.
func TestAPipeInThePlaceOfALink(t *testing.T) {
	ctx := t.Context()
	f := newFixture(t)
	f.commit("a.txt", "1\n")
	dir, fake := f.path(".vizier/tmp-worktrees/draft-1"), f.path("../fake")
	f.git("worktree", "add", "--quiet", "--detach", dir)
	r := Open(f.root())
	w, err := worktreeAt(r.root.CommonDir, dir)
	if err != nil || w.Name == "" {
		t.Fatal(w, err)
	}
	link := filepath.Join(dir, ".git")
	pipe := func(path string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), unix.Mkfifo(path, 0o600))
	}
	for _, c := range []struct {
		name string
		put  func() error
	}{
		{"a pipe", func() error { return pipe(link) }},
		{"a link to a pipe", func() error { return errors.Join(pipe(f.path("../pipe")), os.Symlink(f.path("../pipe"), link)) }},
		{"a link to a device", func() error { return os.Symlink("/dev/zero", link) }},
		{"a link to a pipe's repository", func() error {
			return errors.Join(pipe(filepath.Join(fake, "commondir")), os.WriteFile(filepath.Join(fake, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600), os.WriteFile(link, []byte("gitdir: "+fake+"\n"), 0o600))
		}},
	} {
		if err := errors.Join(os.Remove(link), c.put()); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if name, to := NameAt(dir), leadsTo(dir); name != "" || to == resolved(w.gitDir) {
				t.Errorf("%s: it is the worktree %q, which leads to %q", c.name, name, to)
			}
			if branch, commit, ok := head(dir); ok && commit != "" {
				t.Errorf("%s: it is at %s %s", c.name, branch, commit)
			}
			if why, _, err := r.Damage(kernel.Context{Root: ".vizier/tmp-worktrees/draft-1", Worktree: ".vizier/tmp-worktrees/draft-1", Name: w.Name}); why != "its file .git is missing, or leads elsewhere"+anew || err != nil {
				t.Errorf("%s: damage %q, %v", c.name, why, err)
			}
			root, err := FindRoot(dir)
			if strings.Contains(c.name, "repository") {
				if err == nil {
					t.Errorf("%s: the repository is %+v", c.name, root)
				}
				return // git itself says what is wrong there
			}
			if root != f.root() || err != nil {
				t.Errorf("%s: the repository is %+v, %v", c.name, root, err)
			}
			if at, err := gitDirOf(dir); at != "" || err != nil {
				t.Errorf("%s: the git directory is %q, %v", c.name, at, err)
			}
			if there, unfit, err := fitness(w); !there || !strings.Contains(unfit, "whose .git leads nowhere") || err != nil {
				t.Errorf("%s: %t, %q, %v", c.name, there, unfit, err)
			}
			if _, _, _, err := r.MergeState(ctx, dir); err == nil || !strings.Contains(err.Error(), "has no file .git that leads to the repository") {
				t.Errorf("%s: the merge there: %v", c.name, err)
			}
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it is waited for", c.name)
		}
	}
}

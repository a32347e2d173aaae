package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// closed makes a directory with a changed and a new file in f, and closes it to everybody until the test ends.
func (f fixture) closed(dir string, mode os.FileMode) {
	f.Helper()
	f.write(dir+"/new", "new")
	if err := os.Chmod(f.path(dir), mode); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = os.Chmod(f.path(dir), 0o755) })
}

// What git cannot read it takes for empty or unchanged. Whoever asks learns which directory that is, and a
// worktree with one stays, with its files, until it can be parked.
func TestADirectoryThatCannotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for name, mode := range map[string]os.FileMode{"closed": 0, "only to pass through": 0o100, "only to write": 0o300} {
		for _, dir := range []string{"known", "made"} {
			t.Run(name+"/"+dir, func(t *testing.T) {
				o := newOwned(t, Open)
				o.tree.commit("known/sub/file", "x")
				o.tree.commit("known/file", "x")
				o.tree.commit("other/file", "x")
				o.tree.write("known/file", "changed")
				o.tree.closed(dir, mode)
				ctx, at, head := t.Context(), o.tree.dir, o.tree.rev("HEAD")
				for what, ask := range map[string]func() error{
					"stage all":   func() error { return o.repo.Stage(ctx, at, nil, nil) },
					"stage it":    func() error { return o.repo.Stage(ctx, at, []string{dir}, nil) },
					"from below":  func() error { return o.repo.Stage(ctx, filepath.Join(at, "other"), []string{"../" + dir}, nil) },
					"uncommitted": func() error { _, err := o.repo.Uncommitted(ctx, at); return err },
					"untracked":   func() error { _, err := o.repo.Untracked(ctx, at); return err },
					"unstaged":    func() error { _, _, err := o.repo.Unstaged(ctx, at); return err },
					"remember":    func() error { return o.repo.Remember(ctx, at, false) },
				} {
					var unread *UnreadError
					if err := ask(); !errors.As(err, &unread) || unread.Tree != at || !slices.Equal(unread.Paths, []string{dir}) {
						t.Errorf("%s: %v", what, err)
					}
				}
				if err := o.repo.Stage(ctx, at, []string{"other"}, nil); err != nil {
					t.Errorf("another directory: %v", err)
				}
				if why := o.remove(kernel.CleanupFailed); !strings.Contains(why, "cannot read "+dir+" in "+at) {
					t.Error(why)
				}
				if err := os.Chmod(o.tree.path(dir), 0o755); err != nil {
					t.Fatal(err)
				}
				if got := o.tree.rev("HEAD"); got != head {
					t.Errorf("committed as %s", got)
				}
				o.remove(kernel.CleanupDone)
				ref := o.saved().Ref
				if got := o.git("show", ref+":known/file", ref+":"+dir+"/new"); got != "changednew" {
					t.Errorf("parked %q", got)
				}
			})
		}
	}
}

// Tracked files that cannot be looked at are neither unchanged nor deleted.
func TestTrackedFilesThatCannotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	f := newFixture(t)
	f.commit("known/file", "x")
	f.closed("known", 0)
	r := Open(f.root())
	for what, ask := range map[string]func() error{
		"patch":         func() error { _, err := r.Patch(t.Context(), f.dir); return err },
		"stage tracked": func() error { return r.StageTracked(t.Context(), f.dir) },
	} {
		var unread *UnreadError
		if err := ask(); !errors.As(err, &unread) || !slices.Equal(unread.Paths, []string{"known"}) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A working tree of which a part cannot be read is not known to be clean. Of directories without tracked files
// libgit2 does not tell.
func TestCleanIsUnknownIfADirectoryCannotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	ask := func(t *testing.T, dir string, clean func(Root) (bool, error)) {
		f := newFixture(t)
		f.commit("known/file", "x")
		f.closed(dir, 0)
		var unread *UnreadError
		if yes, err := clean(f.root()); yes || !errors.As(err, &unread) || !slices.Equal(unread.Paths, []string{dir}) {
			t.Errorf("%s: %v, %v", dir, yes, err)
		}
	}
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		ask(t, "known", func(r Root) (bool, error) { return open(r).Clean(t.Context()) })
	})
	ask(t, "made", func(r Root) (bool, error) { return newCLI(r).Clean(t.Context()) })
}

// Nothing is said of what is ignored, of Vizier's own files, of what is gone, and of what programs that git runs say.
func TestWhatNeedNotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	f := newFixture(t)
	f.commit(".gitignore", "ignored\n")
	f.commit(".gitattributes", "file filter=loud\n")
	f.git("config", "filter.loud.clean", "echo 'file: Permission denied' >&2; echo 'gone: Permission denied' >&2; echo '../outside/new: Permission denied' >&2; printf 'a\\0b: Permission denied\\n' >&2; echo \"warning: could not open directory 'gone/': x\" >&2; cat")
	f.in(f.path("..")).closed("outside", 0)
	f.closed("ignored", 0)
	f.closed(".vizier/tmp/x", 0)
	f.write("file", "x")
	r := Open(f.root())
	if err := r.Stage(t.Context(), f.dir, nil, nil); err != nil {
		t.Error(err)
	}
	if files, err := r.Uncommitted(context.Background(), f.dir); err != nil || !slices.Equal(files, []string{"file"}) {
		t.Errorf("%q, %v", files, err)
	}
}

// Each directory is named once, and none within another one.
func TestUnreadDirectoriesAreNamedOnce(t *testing.T) {
	f := newFixture(t)
	for _, dir := range []string{"b-c", "b/sub", "a", ".vizier/jobs"} {
		f.mkdir(dir)
	}
	var said strings.Builder
	for _, dir := range []string{"b-c", "b/sub", "b", ".vizier/jobs", "a", "b", "gone"} {
		said.WriteString("warning: could not open directory '" + dir + "/': Permission denied\n")
	}
	for _, k := range []command{{}, {dir: f.path("b/sub")}, {dir: f.path("b/gone"), env: []string{"X=y", "GIT_WORK_TREE=" + f.dir}}} {
		var unread *UnreadError
		err := newCLI(f.root()).unread(k, said.String())
		if !errors.As(err, &unread) || unread.Tree != f.dir || !slices.Equal(unread.Paths, []string{"a", "b", "b-c"}) {
			t.Errorf("%v: %v", k, err)
		}
		if err := newCLI(f.root()).unread(k, "warning: something else: a\n: x\n"); err != nil {
			t.Errorf("%v: %v", k, err)
		}
	}
	alone := t.TempDir()
	if got := newCLI(f.root()).topOf(command{dir: alone}); got != alone {
		t.Errorf("without a repository above it is %s", got)
	}
}

// At a file that cannot be read git fails. Whoever asks learns which file that is, and a worktree with one stays, with
// its files, until it can be parked.
func TestAFileThatCannotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for _, name := range []string{"known/a file", "known/new"} {
		t.Run(name, func(t *testing.T) {
			o := newOwned(t, Open)
			o.tree.commit("known/a file", "x")
			o.tree.commit("other/file", "x")
			o.tree.write(name, "changed")
			if err := os.Chmod(o.tree.path(name), 0); err != nil {
				t.Fatal(err)
			}
			ctx, at := t.Context(), o.tree.dir
			for what, ask := range map[string]func() error{
				"stage all":   func() error { return o.repo.Stage(ctx, at, nil, nil) },
				"from below":  func() error { return o.repo.Stage(ctx, filepath.Join(at, "other"), []string{"../known"}, nil) },
				"stage paths": func() error { return o.repo.cli.stagePaths(ctx, command{dir: at}, []string{name}) },
				"remember":    func() error { return o.repo.Remember(ctx, at, false) },
			} {
				var unread *UnreadError
				if err := ask(); !errors.As(err, &unread) || unread.Tree != at || !slices.Equal(unread.Paths, []string{name}) || exitCode(err) != 128 {
					t.Errorf("%s: %v", what, err)
				}
			}
			if why := o.remove(kernel.CleanupFailed); !strings.HasSuffix(why, "cannot read "+name+" in "+at+": make it readable, as its owner's `chmod -R u+rwX` does, or remove it") {
				t.Error(why)
			}
			if err := os.Chmod(o.tree.path(name), 0o644); err != nil {
				t.Fatal(err)
			}
			o.remove(kernel.CleanupDone)
			if got := o.git("show", o.saved().Ref+":"+name); got != "changed" {
				t.Errorf("parked %q", got)
			}
		})
	}
}

// deep makes a file in f that is so far below dir that no path leads to it.
func (f fixture) deep(dir string) {
	f.Helper()
	f.mkdir(dir)
	at, err := os.OpenRoot(f.path(dir))
	for range 30 {
		if err != nil {
			f.Fatal(err)
		}
		name := strings.Repeat("n", 200)
		err = at.Mkdir(name, 0o755)
		below, opened := at.OpenRoot(name)
		at.Close()
		at, err = below, errors.Join(err, opened)
	}
	if err == nil {
		err = at.WriteFile("file", []byte("x"), 0o644)
	}
	if err != nil {
		f.Fatal(err)
	}
	at.Close()
}

// Files with paths that are longer than the system takes git leaves out, with a warning that it cuts off. Whoever asks learns
// below which directory they are, and a worktree with some stays.
func TestPathsThatAreTooLong(t *testing.T) {
	o := newOwned(t, Open)
	o.tree.commit("other/file", "x")
	o.tree.write("src/new", "new")
	o.tree.deep("src/made")
	ctx, at, head := t.Context(), o.tree.dir, o.tree.rev("HEAD")
	dir := "src/made/" + strings.Repeat("n", 200)
	says := filepath.Join(at, dir) + " cannot be read as a whole, since paths below it are longer than the system takes: move these to shorter ones, remove them, or have git ignore them"
	for what, ask := range map[string]func() error{
		"stage all":   func() error { return o.repo.Stage(ctx, at, nil, nil) },
		"stage it":    func() error { return o.repo.Stage(ctx, at, []string{"src"}, nil) },
		"uncommitted": func() error { _, err := o.repo.Uncommitted(ctx, at); return err },
		"unstaged":    func() error { _, _, err := o.repo.Unstaged(ctx, at); return err },
		"remember":    func() error { return o.repo.Remember(ctx, at, false) },
	} {
		var unread *UnreadError
		if err := ask(); !errors.As(err, &unread) || unread.Tree != at || !slices.Equal(unread.Deep, []string{dir}) || len(unread.Paths) > 0 || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if why := o.remove(kernel.CleanupFailed); !strings.Contains(why, says) {
		t.Error(why)
	}
	if got := o.tree.rev("HEAD"); got != head {
		t.Errorf("committed as %s", got)
	}
	o.tree.write(".gitignore", "/src/made\n")
	if err := o.repo.Stage(ctx, at, nil, nil); err != nil {
		t.Errorf("after the advice: %v", err)
	}
	if got := o.tree.git("diff", "--cached", "--name-only"); got != ".gitignore\nsrc/new" {
		t.Errorf("staged %q", got)
	}
}

// A directory that a checkout has in the way of a file is not taken for empty either.
func TestACheckoutWithPathsThatAreTooLong(t *testing.T) {
	f := newFixture(t)
	f.commit("a", "1\n")
	from, to := fork(f, func() { f.write("d", "2\n") })
	f.deep("d")
	var unread *UnreadError
	if yes, err := newCLI(f.root()).Clean(t.Context()); yes || !errors.As(err, &unread) || len(unread.Deep) != 1 {
		t.Errorf("clean: %v, %v", yes, err)
	}
	says := "main is checked out in " + f.dir + ", but " + f.path("d/"+strings.Repeat("n", 200)) + " cannot be read as a whole,"
	if o, moved, err := Open(f.root()).Advance(t.Context(), "main", from, to); !strings.HasPrefix(o, says) || moved || err != nil {
		t.Errorf("obstacle %q, moved %v, %v", o, moved, err)
	}
}

// What can be read, what cannot, and what is too deep are told apart.
func TestShutAndDeepDirectoriesTogether(t *testing.T) {
	f := newFixture(t)
	f.mkdir("a")
	long := strings.Repeat("x/", 2100)
	said := "warning: could not open directory '" + long + "\nwarning: could not open directory 'a/': Permission denied\nwarning: could not open directory '.vizier/tmp/" + long + "\n"
	err := newCLI(f.root()).unread(command{}, said)
	deep := f.path(long[:61]) + " cannot be read as a whole, since paths below it are longer than the system takes: move these to shorter ones, remove them, or have git ignore them"
	if want := deep + "; cannot read a in " + f.dir + ": make it readable, as its owner's `chmod -R u+rwX` does, remove it, or have git ignore it"; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

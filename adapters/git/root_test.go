package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

func TestFindRoot(t *testing.T) {
	f := newFixture(t)
	f.commit("a b/file", "x")
	f.git("worktree", "add", "--quiet", "../linked tree", "-b", "linked")
	linked := f.path("../linked tree")
	f.in(linked).mkdir("below/it")
	f.git("clone", "--quiet", ".", "../library")
	f.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../library", "sub")
	f.in(f.path("sub")).git("worktree", "add", "--quiet", f.path("../sub linked"), "-b", "other")
	f.git("init", "--quiet", f.path("inner"))
	f.mkdir("fake/.git/objects")
	f.mkdir("fake/.git/refs")
	if err := os.Symlink(f.path("a b"), f.path("../link")); err != nil {
		t.Fatal(err)
	}
	f.git("clone", "--quiet", "--separate-git-dir", f.path("../elsewhere.git"), ".", f.path("../separate"))
	f.git("clone", "--quiet", "--no-checkout", ".", "../apart")
	f.in(f.path("../apart")).git("config", "core.worktree", f.path("../the tree"))
	f.write("../the tree/.git", "gitdir: "+f.path("../apart/.git")+"\n")

	git := f.path(".git")
	main := Root{Dir: f.dir, Tree: f.dir, GitDir: git, CommonDir: git}
	fromLinked := Root{Dir: f.dir, Tree: linked, GitDir: filepath.Join(git, "worktrees/linked-tree"), CommonDir: git, Linked: true}
	module := filepath.Join(git, "modules/sub")
	apart := Root{Dir: f.path("../the tree"), Tree: f.path("../the tree"), GitDir: f.path("../apart/.git"), CommonDir: f.path("../apart/.git")}
	for _, c := range []struct {
		name, dir string
		want      Root
	}{
		{"top", "", main},
		{"below", "a b", main},
		{"within the git directory", ".git/refs", main},
		{"through a symbolic link", "../link", main},
		{"a .git directory that is none is passed over", "fake", main},
		{"linked worktree", "../linked tree", fromLinked},
		{"below a linked worktree", "../linked tree/below/it", fromLinked},
		{"submodule", "sub", Root{Dir: f.path("sub"), Tree: f.path("sub"), GitDir: module, CommonDir: module}},
		{"worktree of a submodule", "../sub linked",
			Root{Dir: f.path("sub"), Tree: f.path("../sub linked"), GitDir: filepath.Join(module, "worktrees/sub-linked"), CommonDir: module, Linked: true}},
		{"nested repository", "inner", Root{Dir: f.path("inner"), Tree: f.path("inner"), GitDir: f.path("inner/.git"), CommonDir: f.path("inner/.git")}},
		{"git directory elsewhere", "../separate",
			Root{Dir: f.path("../separate"), Tree: f.path("../separate"), GitDir: f.path("../elsewhere.git"), CommonDir: f.path("../elsewhere.git")}},
		{"a working tree apart", "../the tree", apart},
		{"beside a working tree apart", "../apart", apart},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := FindRoot(f.path(c.dir))
			if err != nil || got != c.want {
				t.Errorf("FindRoot(%s)\n got %+v, %v\nwant %+v", c.dir, got, err, c.want)
			}
		})
	}
	t.Run("relative", func(t *testing.T) {
		t.Chdir(f.path("a b"))
		if got, err := FindRoot("."); err != nil || got != main {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestFindRootRefuses(t *testing.T) {
	f := newFixture(t)
	f.commit("file", "x")
	f.git("clone", "--quiet", "--bare", ".", "../bare.git")
	bare := f.in(f.path("../bare.git"))
	bare.git("worktree", "add", "--quiet", f.path("../of bare"), "-b", "w")
	f.git("clone", "--quiet", "--separate-git-dir", f.path("../elsewhere.git"), ".", f.path("../separate"))
	f.in(f.path("../separate")).git("worktree", "add", "--quiet", f.path("../of separate"), "-b", "w")
	f.write("../dangling/.git", "gitdir: ../nowhere\n")
	f.write("../garbage/.git", "hello\n")
	f.git("clone", "--quiet", ".", "../orphaned")
	f.in(f.path("../orphaned")).git("worktree", "add", "--quiet", f.path("../orphan"), "-b", "w")
	f.git("clone", "--quiet", ".", "../pointed")
	f.in(f.path("../pointed")).git("config", "core.worktree", f.path("../garbage"))
	f.git("clone", "--quiet", ".", "../thief")
	f.in(f.path("../thief")).git("config", "core.worktree", f.dir)
	f.git("clone", "--quiet", ".", "../marked")
	f.in(f.path("../marked")).git("config", "core.bare", "true")
	if err := os.Rename(f.path("../orphaned"), f.path("../renamed")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dir, want string }{
		{"no repository", "..", "vizier cannot be used outside a git repository: " + filepath.Dir(f.dir)},
		{"no directory", "../missing", "no such file or directory"},
		{"bare", "../bare.git", "is a git directory without a working tree"},
		{"within a bare one", "../bare.git/refs", "is a git directory without a working tree"},
		{"worktree of a bare one", "../of bare", "bare.git is a bare repository"},
		{"a checkout that is marked as bare", "../marked", "if " + f.path("../marked") + " is that, run `git --git-dir=" + f.path("../marked/.git") + " config core.bare false`"},
		{"worktree of one that does not tell", "../of separate", "does not say where its main working tree is"},
		{"dangling", "../dangling", "nowhere, which is no git directory"},
		{"garbage", "../garbage", "does not begin with `gitdir:`"},
		{"worktree of one that moved", "../orphan", "git worktree repair"},
		{"working tree elsewhere", "../pointed", "main working tree cannot be used"},
		{"working tree of another", "../thief", "main working tree cannot be used"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := FindRoot(f.path(c.dir))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want an error with %q", got, err, c.want)
			}
			if is := errors.Is(err, ErrNotRepository); is != (c.name == "no repository") {
				t.Errorf("errors.Is(%v, ErrNotRepository) = %t", err, is)
			}
		})
	}
}

func TestReadCore(t *testing.T) {
	for _, c := range []struct {
		name, config, perWorktree string
		want                      coreConfig
	}{
		{"none", "", "", coreConfig{}},
		{"plain", "[core]\n\tbare = true\n", "", coreConfig{bare: true}},
		{"no value is true", "[core]\nbare\n", "", coreConfig{bare: true}},
		{"case", "[CORE] BARE=Yes ; really\n", "", coreConfig{bare: true}},
		{"last wins", "[core]\nbare = 1\n[core]\nbare = false\n", "", coreConfig{}},
		{"other section", "[remote \"core\"]\nbare = true\nworktree = x\n", "", coreConfig{}},
		{"comment", "[core]\n# bare = true\nworktree = ../a b # c\n", "", coreConfig{worktree: "../a b"}},
		{"quotes", "[core]\nworktree = \"../a # \\\"b\\\" \"\n", "", coreConfig{worktree: "../a # \"b\" "}},
		{"config.worktree unused", "[core]\nbare = false\n", "[core]\nbare = true\n", coreConfig{}},
		{"config.worktree used", "[extensions]\nworktreeConfig = true\n", "[core]\nbare = true\n", coreConfig{bare: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"config": c.config, "config.worktree": c.perWorktree} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := readCore(dir); err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// A git directory that may not be read may well be one: what is above it is not the repository, and `git init` is no help.
func TestAGitDirectoryThatMayNotBeRead(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, ".git")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	disktest.Owned(t, dir)
	if err := os.Chmod(at, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(at, 0o700)
	if _, err := FindRoot(dir); !errors.Is(err, os.ErrPermission) || errors.Is(err, ErrNotRepository) {
		t.Error(err)
	}
}

package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

const nowhere = kernel.CommitID("0123456789012345678901234567890123456789")

func TestHeads(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func(Root) engine) {
		f := newFixture(t)
		e := open(f.root())
		want := map[string]kernel.CommitID{"main": ""}
		if got, err := e.Heads(t.Context(), []string{"main"}); err != nil || !maps.Equal(got, want) {
			t.Errorf("unborn: got %v, %v", got, err)
		}
		first := f.commit("file", "1")
		second := f.commit("file", "2")
		for _, name := range []string{"draft/a", "draft/ä-名", "it's $(odd)", "a.b", "tagged"} {
			name = strings.ReplaceAll(name, " ", "-")
			f.git("branch", name, string(first))
			if want[name] = first; name == "tagged" {
				f.git("tag", name, string(second))
			}
		}
		f.git("update-ref", "refs/heads/-rf", string(first))
		f.git("symbolic-ref", "refs/heads/alias", "refs/heads/draft/a")
		f.git("tag", "only-a-tag")
		f.git("tag", "refs/heads/disguised")
		f.git("pack-refs", "--all")
		want["main"], want["alias"] = second, first
		for _, absent := range []string{"draft", "missing", "only-a-tag", "disguised", "HEAD", "main~1", "main^{tree}", "@{-1}", "-rf",
			"--help", "a b", "dra*", "", ".", "a..b", "x.lock", "a//b", "line\nbreak", "refs/heads/main", "main:file"} {
			want[absent] = ""
		}
		f.git("branch", "loose", string(first))
		want["loose"] = first
		for range 2 { // the second time round, too many to look up one by one
			got, err := e.Heads(t.Context(), slices.Collect(maps.Keys(want)))
			if err != nil || len(got) != len(want) {
				t.Fatalf("%d of %d answers, %v", len(got), len(want), err)
			}
			for name, id := range want {
				if got[name] != id {
					t.Errorf("%q: got %q, want %q", name, got[name], id)
				}
			}
			for i := range 2 * fewBranches {
				want[fmt.Sprint("missing-", i)] = ""
			}
		}
	})
}

func TestFiles(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func(Root) engine) {
		f := newFixture(t)
		e := open(f.root())
		contents := map[string]string{"plain": "x", "dir/with space": "two\nlines\n", "line\nbreak": "y", "-option": "", "ä/名": "z",
			"binary": "\x00\xff missing\n"}
		for p, content := range contents {
			f.commit(p, content)
		}
		at := f.rev("HEAD")
		want := map[File]bool{}
		for p, content := range contents {
			want[File{at, p}] = true
			if got, err := e.ReadFile(t.Context(), File{at, p}); err != nil || string(got) != content {
				t.Errorf("ReadFile %q: %q, %v", p, got, err)
			}
		}
		for _, p := range []string{"dir", "dir/", "missing", "plain missing", "", ".", "..", "../plain", "./plain", "/plain", "dir/../plain", "plain/x", "nul\x00"} {
			want[File{at, p}] = false
			if got, err := e.ReadFile(t.Context(), File{at, p}); !errors.Is(err, iofs.ErrNotExist) {
				t.Errorf("ReadFile %q: %q, %v", p, got, err)
			}
		}
		for _, c := range []kernel.CommitID{nowhere, "main", "HEAD", "", "-x"} {
			want[File{c, "plain"}] = false
		}
		got, err := e.Files(t.Context(), slices.Collect(maps.Keys(want)))
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("got %v, %v\nwant %v", got, err, want)
		}
	})
}

func TestHead(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func(Root) engine) {
		f := newFixture(t)
		e := open(f.root())
		head := func(want string) {
			t.Helper()
			if got, err := e.Head(t.Context()); err != nil || got != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		}
		head("main")
		f.commit("file", "x")
		f.git("switch", "--quiet", "--create", "draft/ä")
		head("draft/ä")
		f.git("worktree", "add", "--quiet", "--detach", "../w")
		w := f.in(f.path("../w"))
		if got, err := open(w.root()).Head(t.Context()); err != nil || got != "draft/ä" {
			t.Errorf("seen from a linked worktree: %q, %v", got, err)
		}
		f.git("switch", "--quiet", "--detach")
		head("")
	})
}

func TestClean(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(f fixture)
		want bool
	}{
		{"nothing", func(fixture) {}, true},
		{"untracked", func(f fixture) { f.write("new", "x") }, false},
		{"untracked with odd name", func(f fixture) { f.write("line\nbreak", "x") }, false},
		{"modified", func(f fixture) { f.write("file", "changed") }, false},
		{"staged", func(f fixture) { f.write("new", "x"); f.git("add", "new") }, false},
		{"deleted", func(f fixture) { f.git("rm", "--quiet", "--cached", "file"); f.git("commit", "-qm", "x") }, false},
		{"removed", func(f fixture) { os.Remove(f.path("file")) }, false},
		{"ignored", func(f fixture) { f.write("out/x", "x") }, true},
		{"vizier's own", func(f fixture) {
			for _, dir := range scratch {
				f.write(dir+"/deep/x", "x")
			}
		}, true},
		{"vizier's own, tracked", func(f fixture) { f.commit(".vizier/tmp/x", "1"); f.write(".vizier/tmp/x", "2") }, true},
		{"vizier's config", func(f fixture) { f.write(".vizier/jobs/x", "x"); f.write(".vizier/config.toml", "x") }, false},
		{"similar name", func(f fixture) { f.write(".vizier/jobsite", "x") }, false},
		{"plan document", func(f fixture) { f.write(".vizier/implementation-plans/a.md", "x") }, false},
		{"not at the top", func(f fixture) { f.write("below/.vizier/jobs/x", "x") }, false},
		{"submodule", func(f fixture) { f.write("sub/file", "changed"); f.write("sub/new", "x") }, true},
		{"submodule at another commit", func(f fixture) { f.in(f.path("sub")).commit("new", "x") }, true},
		{"unborn", func(f fixture) { f.git("switch", "--quiet", "--orphan", "empty"); os.RemoveAll(f.path("sub")) }, true},
		{"status set to hide", func(f fixture) { f.git("config", "status.showUntrackedFiles", "no"); f.write("new", "x") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("file", "x")
			f.git("clone", "--quiet", ".", "../library")
			f.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../library", "sub")
			f.commit(".gitignore", "out/\n")
			c.do(f)
			eachEngine(t, func(t *testing.T, open func(Root) engine) {
				if got, err := open(f.root()).Clean(t.Context()); err != nil || got != c.want {
					t.Errorf("got %t, %v; want %t\n%s", got, err, c.want, f.git("status", "--short"))
				}
			})
		})
	}
}

func TestAncestry(t *testing.T) {
	f := newFixture(t)
	base := f.commit("file", "1")
	left := f.commit("left", "x")
	f.git("switch", "--quiet", "--create", "side", string(base))
	right := f.commit("right", "x")
	f.git("switch", "--quiet", "--orphan", "island")
	island := f.commit("island", "x")
	eachEngine(t, func(t *testing.T, open func(Root) engine) {
		e := open(f.root())
		for _, c := range []struct {
			a, b     kernel.CommitID
			ancestor bool
		}{
			{base, left, true}, {left, base, false}, {left, right, false}, {left, left, true}, {left, island, false},
		} {
			yes, err := e.IsAncestor(t.Context(), c.a, c.b)
			if err != nil || yes != c.ancestor {
				t.Errorf("IsAncestor(%s, %s) = %t, %v; want %t", c.a, c.b, yes, err, c.ancestor)
			}
		}
		for _, bad := range []kernel.CommitID{nowhere, "main", "--all", ""} {
			if got, err := e.IsAncestor(t.Context(), bad, base); err == nil {
				t.Errorf("IsAncestor with %q = %t", bad, got)
			}
		}
	})
}

func TestEngineFailures(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func(Root) engine) {
		f := newFixture(t)
		f.commit("file", "x")
		e := open(f.root())
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.Heads(cancelled, []string{"main"}); !errors.Is(err, context.Canceled) && !errors.Is(err, errBroken) {
			t.Errorf("cancelled: %v", err)
		}
		if err := os.Rename(f.path(".git"), f.path("../gone")); err != nil {
			t.Fatal(err)
		}
		if heads, err := e.Heads(t.Context(), []string{"main"}); err == nil {
			t.Errorf("no repository any more: %v", heads)
		}
		if clean, err := e.Clean(t.Context()); err == nil || clean {
			t.Errorf("no repository any more: %t, %v", clean, err)
		}
	})
}

func TestForeignEnvironment(t *testing.T) {
	other := newFixture(t)
	eachEngine(t, func(t *testing.T, open func(Root) engine) {
		f := newFixture(t)
		tip := f.commit("file", "x")
		e := open(f.root())
		t.Setenv("GIT_DIR", other.path(".git"))
		t.Setenv("GIT_WORK_TREE", other.dir)
		t.Setenv("GIT_INDEX_FILE", other.path("index"))
		t.Setenv("GIT_LITERAL_PATHSPECS", "1")
		if heads, err := e.Heads(t.Context(), []string{"main"}); err != nil || heads["main"] != tip {
			t.Errorf("heads %v, %v; want %s", heads, err, tip)
		}
		if clean, err := e.Clean(t.Context()); err != nil || !clean {
			t.Errorf("clean %t, %v", clean, err)
		}
	})
}

func TestNoGit(t *testing.T) {
	f := newFixture(t)
	c := newCLI(f.root())
	t.Setenv("PATH", t.TempDir())
	_, err := c.Clean(t.Context())
	if err == nil || !strings.Contains(err.Error(), "git is not in PATH: install git") {
		t.Errorf("got %v", err)
	}
}

func TestVersion(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func(Root) engine) {
		got, err := open(Root{}).Version(t.Context())
		if err != nil || !strings.HasPrefix(got, "git CLI ") && !strings.HasPrefix(got, "libgit2 ") {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestFallbackRemembers(t *testing.T) {
	f := newFixture(t)
	tip := f.commit("file", "x")
	fb := &fallback{Backend: newCLI(f.root()), first: broken{}}
	for range 2 {
		if heads, err := fb.Heads(t.Context(), []string{"main"}); err != nil || heads["main"] != tip {
			t.Errorf("heads %v, %v", heads, err)
		}
	}
	if err := fb.PruneWorktree(t.Context(), Worktree{}); !errors.Is(err, errBroken) { // which the other backend is not asked for
		t.Errorf("PruneWorktree: %v", err)
	}
	if n, reason := fb.degraded(); n != 3 || reason != errBroken.Error() {
		t.Errorf("degraded() = %d, %q", n, reason)
	}
	fb.first = newCLI(f.root())
	if _, err := fb.ReadFile(t.Context(), File{tip, "missing"}); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("ReadFile: %v", err)
	}
	if n, _ := fb.degraded(); n != 3 {
		t.Errorf("an answer was counted as a failure")
	}
}

// A filter that only git runs must not make the working tree look dirty for
// good: git has the last word.
func TestCleanUnderFilter(t *testing.T) {
	if _, err := exec.LookPath("tr"); err != nil {
		t.Skip("needs tr")
	}
	f := newFixture(t)
	f.git("config", "filter.shout.clean", "tr a-z A-Z")
	f.git("config", "filter.shout.smudge", "tr A-Z a-z")
	f.commit(".gitattributes", "*.txt filter=shout\n")
	f.commit("a.txt", "hello\n")
	f.write("a.txt", "hello\n") // new time stamp, same content
	if clean, err := Open(f.root()).Clean(t.Context()); err != nil || !clean {
		t.Errorf("got %t, %v", clean, err)
	}
	if got := f.git("cat-file", "-p", "HEAD:a.txt"); got != "HELLO" {
		t.Fatalf("the filter did not run: %q", got)
	}
}

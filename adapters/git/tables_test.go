package git

import (
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where refs are in reftables, git says which branch a linked working tree is on, what became of its head, and what is
// in progress there.
func TestReftables(t *testing.T) {
	for name, c := range map[string]struct {
		head, log, pick string // what git does when it is asked
		branch, op      string
		lines           string
		released        bool
	}{
		"on a branch": {"echo refs/heads/draft/foo", `printf 'b2 HEAD@{200 +0100}\tcheckout: moving from main to draft/foo\na1 HEAD@{100 +0000}\tcommit: x } y\n'`, "exit 1",
			"draft/foo", "", "0 a1 100 +0000\tcommit: x } y\na1 b2 200 +0100\tcheckout: moving from main to draft/foo", false},
		"detached": {"exit 1", `printf 'a1 HEAD@{100 +0000}\t` + releasedMessage + `\n'`, "exit 1", "", "", "0 a1 100 +0000\t" + releasedMessage, true},
		"reverts":  {"exit 1", `printf 'a1 HEAD@{100 +0000}\tcommit: x\n'`, "case $* in *REVERT_HEAD*) echo a1 ;; *) exit 1 ;; esac", "", "revert", "0 a1 100 +0000\tcommit: x", false},
		"damaged":  {"exit 128", "exit 128", "exit 128", "", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("a.txt", "a")
			f.git("worktree", "add", "--quiet", "--detach", filepath.Join(f.dir, "w"))
			gitDir := filepath.Join(f.dir, ".git", "worktrees", "w")
			f.write(".git/reftable/tables.list", "")
			programs := t.TempDir()
			for file, text := range map[string]string{
				filepath.Join(gitDir, "HEAD"): "ref: refs/heads/.invalid\n",
				filepath.Join(programs, "git"): "#!/bin/sh\ncase $* in\n*--git-dir=" + gitDir + "*symbolic-ref*) " + c.head + " ;;\n*--git-dir=" + gitDir + "*walk-reflogs*) " + c.log +
					" ;;\n*--git-dir=" + gitDir + "*rev-parse*) " + c.pick + " ;;\nesac\n",
			} {
				if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
			r := Open(f.root())
			if all, err := r.Worktrees(); err != nil || len(all) != 1 || all[0].Branch != c.branch {
				t.Errorf("%+v, %v", all, err)
			}
			log, err := r.headLog("w")
			if got := strings.Join(log, "\n"); got != c.lines || errors.Is(err, iofs.ErrNotExist) != (c.lines == "") || r.released("w") != c.released {
				t.Errorf("%q, %v, released %t", got, err, r.released("w"))
			}
			if op, err := operation(gitDir); op != c.op || err != nil {
				t.Errorf("%q, %v", op, err)
			}
		})
	}
}

// However many linked working trees there are, one git says on which branches they are; of one that it does not list, it
// is asked alone.
func TestManyWorktreesWithReftables(t *testing.T) {
	f := newFixture(t)
	f.commit("a.txt", "a")
	programs, list := t.TempDir(), ""
	for _, name := range []string{"a", "b c", "detached", "moved"} {
		dir := filepath.Join(f.dir, name)
		f.git("worktree", "add", "--quiet", "--detach", dir)
		switch name {
		case "detached":
			list += "worktree " + dir + "\\0HEAD 1\\0detached\\0\\0"
		case "a", "b c":
			list += "worktree " + dir + "\\0HEAD 1\\0branch refs/heads/draft/" + name[:1] + "\\0\\0"
		}
	}
	all, err := worktrees(filepath.Join(f.dir, ".git"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{filepath.Join(programs, "git"): "#!/bin/sh\necho x >>" + programs + "/asked\ncase $* in\n*'--git-dir=" + filepath.Join(f.dir, ".git") +
		" worktree list --porcelain -z') printf '" + list + "' ;;\n*symbolic-ref*) echo refs/heads/draft/m ;;\nesac\n"}
	for _, w := range all {
		texts[filepath.Join(w.gitDir, "HEAD")] = "ref: refs/heads/.invalid\n"
	}
	for file, text := range texts {
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	got := ""
	all, err = worktrees(filepath.Join(f.dir, ".git"))
	for _, w := range all {
		got += filepath.Base(w.Path) + "=" + w.Branch + " "
	}
	if err != nil || got != "a=draft/a b c=draft/b detached= moved=draft/m " {
		t.Errorf("%q, %v", got, err)
	}
	asked, err := os.ReadFile(filepath.Join(programs, "asked"))
	if n := strings.Count(string(asked), "x"); n != 2 || err != nil {
		t.Errorf("git was asked %d times, %v", n, err)
	}
}

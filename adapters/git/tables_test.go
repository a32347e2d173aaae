package git

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Where refs are in reftables, git says which branch a linked working tree is on, and what became of its head.
func TestReftables(t *testing.T) {
	for _, c := range []struct {
		name, says, branch string
		fails, released    bool
	}{
		{"on a branch", "echo refs/heads/draft/foo", "draft/foo", false, false},
		{"detached", "exit 1", "", false, true},
		{"unknown", "exit 128", "", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("a.txt", "a")
			f.git("worktree", "add", "--quiet", "--detach", filepath.Join(f.dir, "w"))
			gitDir := filepath.Join(f.dir, ".git", "worktrees", "w")
			what := "checkout: moving from main to draft/foo"
			if c.released {
				what = releasedMessage
			}
			programs := t.TempDir()
			for file, text := range map[string]string{
				filepath.Join(gitDir, "HEAD"):                      "ref: refs/heads/.invalid\n",
				filepath.Join(f.dir, ".git", "reftable", "tables"): "",
				filepath.Join(programs, "git"): "#!/bin/sh\ncase \"$*\" in\n*--git-dir=" + gitDir + "*symbolic-ref*) " + c.says + " ;;\n" +
					"*--git-dir=" + gitDir + "*walk-reflogs*) printf 'b2 HEAD@{200 +0100}\\t" + what + "\\na1 HEAD@{100 +0000}\\tcommit: x } y\\n' ;;\nesac\n",
			} {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
			r := Open(f.root())
			all, err := r.Worktrees()
			if (err != nil) != c.fails || !c.fails && (len(all) != 1 || all[0].Branch != c.branch) {
				t.Errorf("%+v, %v", all, err)
			}
			log, err := r.headLog("w")
			if want := []string{"0 a1 100 +0000\tcommit: x } y", "a1 b2 200 +0100\t" + what}; !slices.Equal(log, want) || err != nil || r.released("w") != c.released {
				t.Errorf("%q, %v, released %t", log, err, r.released("w"))
			}
		})
	}
}

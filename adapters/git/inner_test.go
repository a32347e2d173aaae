package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Git runs what the configuration of a submodule says. One that an agent left in its
// working tree has nothing run when its work is committed, in whichever way it is
// connected.
func TestNoRepositoryOfAnAgentsIsLookedInto(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T, sub fixture){
		"a directory": func(*testing.T, fixture) {},
		"a file that leads out": func(t *testing.T, sub fixture) {
			if err := os.Rename(sub.path(".git"), sub.path("../hidden")); err != nil {
				t.Fatal(err)
			}
			sub.write(".git", "gitdir: ../hidden\n")
		},
		"a link": func(t *testing.T, sub fixture) {
			if err := os.Rename(sub.path(".git"), sub.path("../hidden")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../hidden", sub.path(".git")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("a", "a")
			tree := f.path("../tree")
			f.git("worktree", "add", "--quiet", "-b", "work", tree)
			sub := f.in(filepath.Join(tree, "sub"))
			sub.mkdir("")
			sub.git("init", "--quiet")
			sub.commit("f", "a")
			f.in(tree).git("add", "sub")
			f.in(tree).git("commit", "--quiet", "-m", "a link")
			ran := f.path("../ran")
			sub.git("config", "core.fsmonitor", "touch '"+ran+"'; :")
			sub.git("config", "filter.x.clean", "touch '"+ran+"'; cat")
			sub.write(".gitattributes", "f filter=x\n")
			sub.write("f", "b")
			connect(t, sub)
			f.in(tree).write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = x\n\tignore = none\n")
			os.Remove(ran) // by the fixture itself

			r := Open(f.root())
			for what, err := range map[string]error{
				"stage":         r.Stage(t.Context(), tree, nil, nil),
				"stage tracked": r.StageTracked(t.Context(), tree),
			} {
				if err == nil || !strings.Contains(err.Error(), "sub is a repository within") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := r.Commit(t.Context(), tree, "work"); err == nil {
				t.Error("it was committed")
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("git ran what the agent's repository says")
			}
		})
	}
}

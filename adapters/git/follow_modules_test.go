package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// planned returns the commit after branch that change makes, in a worktree of its own.
func (f fixture) planned(branch string, change func(fixture)) kernel.CommitID {
	f.Helper()
	plan := f.in(filepath.Join(f.TempDir(), "plan"))
	f.git("worktree", "add", "--quiet", "--detach", plan.dir, branch)
	change(plan)
	plan.git("add", "--all", "--force")
	plan.git("commit", "--quiet", "-m", "next")
	to := plan.rev("HEAD")
	f.git("worktree", "remove", "--force", plan.dir)
	return to
}

// A submodule with files makes way only once somebody has said so: git would delete what is only in it.
func TestASubmoduleThatIsToMakeWay(t *testing.T) {
	t.Setenv("GIT_ALLOW_PROTOCOL", "file")
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "advice.addEmbeddedRepo")
	t.Setenv("GIT_CONFIG_VALUE_0", "false")
	sub := newFixture(t)
	sub.commit(".gitignore", "*.o\n")
	sub.commit("s", "1\n")
	const deinit = "save what it has not committed, ignored files too, then run `git -C DIR submodule deinit -- PATH`, which keeps its commits"
	const move = "move all that is in DIR/PATH away, its .git too, and leave the directory"
	file := func(in fixture) {
		in.git("rm", "--quiet", "lib/sub")
		in.write("lib/sub", "new\n")
	}
	for name, c := range map[string]struct {
		linked, whole, unknown bool // it is in a linked worktree; its repository is within it; .gitmodules does not have it
		plan                   func(fixture)
		mine                   func(in fixture) // what is only in it
		says                   string           // "": it follows
	}{
		"clean":               {plan: file, says: deinit},
		"an untracked file":   {plan: file, says: deinit, mine: func(in fixture) { in.write("mine", "1") }},
		"an ignored file":     {plan: file, says: deinit, mine: func(in fixture) { in.write("mine.o", "1") }},
		"in a linked one":     {plan: file, says: deinit, linked: true, mine: func(in fixture) { in.write("mine.o", "1") }},
		"a change":            {plan: file, says: deinit, mine: func(in fixture) { in.write("s", "mine") }},
		"a commit of its own": {plan: file, says: deinit, whole: true, mine: func(in fixture) { in.git("branch", "wip", in.git("commit-tree", "-m", "wip", "HEAD^{tree}")) }},
		"a link": {says: deinit, plan: func(in fixture) {
			in.git("rm", "--quiet", "lib/sub")
			if err := os.Symlink("keep", in.path("lib/sub")); err != nil {
				t.Fatal(err)
			}
		}},
		"a file in the place of its directory": {says: deinit, plan: func(in fixture) {
			in.git("rm", "--quiet", "-r", "lib")
			_ = os.Remove(in.path("lib"))
			in.write("lib", "new\n")
		}},
		"another file of its own": {says: deinit, plan: func(in fixture) {
			in.git("rm", "--quiet", "lib/sub")
			in.write("lib/sub/s", "new\n")
		}},
		"another file below": {says: deinit, mine: func(in fixture) { in.write("new/mine", "1") }, plan: func(in fixture) {
			in.git("rm", "--quiet", "lib/sub")
			in.write("lib/sub/new", "new\n")
		}},
		"unknown to .gitmodules": {plan: file, says: move, unknown: true, mine: func(in fixture) { in.write("mine", "1") }},
		"not initialised": {plan: file, says: move, mine: func(in fixture) {
			in.in(filepath.Dir(in.dir)).git("submodule", "--quiet", "deinit", "--", "sub")
			in.write("mine", "1")
		}},
		"removed": {mine: func(in fixture) { in.write("mine", "1") }, plan: func(in fixture) {
			in.git("rm", "--quiet", "lib/sub")
			for _, name := range []string{"lib/su", "lib/sub2", "lib/SUB", "lib/sub-/x", "li"} {
				in.write(name, "new\n")
			}
		}},
		"moved": {mine: func(in fixture) { in.write("mine", "1") }, plan: func(in fixture) { in.git("mv", "lib/sub", "sub") }},
		"its directory is a submodule": {mine: func(in fixture) { in.write("mine", "1") }, plan: func(in fixture) {
			in.git("rm", "--quiet", "-r", "lib")
			in.git("clone", "--quiet", sub.dir, "lib")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.TB = t
			f.commit("lib/keep", "1\n")
			if c.whole || c.unknown {
				f.git("clone", "--quiet", sub.dir, "lib/sub")
			}
			if c.unknown {
				f.git("add", "lib/sub")
			} else {
				f.git("submodule", "--quiet", "add", sub.dir, "lib/sub")
			}
			f.git("commit", "--quiet", "-m", "sub")
			j := journey{f, f.rev("main"), f.planned("main", c.plan)}
			if c.linked {
				f.git("switch", "--quiet", "--create", "side")
				j.fixture = f.in(f.path("../linked"))
				f.git("worktree", "add", "--quiet", j.dir, "main")
				j.git("submodule", "--quiet", "update", "--init")
			}
			in := j.in(j.path("lib/sub"))
			if c.mine != nil {
				c.mine(in)
			}
			before, r := j.standing(), Open(f.root())
			if c.says == "" {
				if o, moved, err := r.Advance(t.Context(), "main", j.from, j.to); o != "" || !moved || err != nil || in.content("mine")+in.content("s") != "11\n" {
					t.Errorf("obstacle %q, moved %v, %v", o, moved, err)
				}
				return
			}
			j.refuses(t.Context(), r, "main is checked out in "+j.dir+", where the submodule lib/sub is to make way for something else: "+strings.NewReplacer("DIR", j.dir, "PATH", "lib/sub").Replace(c.says))
			if j.standing() != before {
				t.Errorf("it has now\n%s\nand had\n%s", j.standing(), before)
			}
			if c.says == move {
				for _, name := range []string{".git", ".gitignore", "s", "mine"} {
					_ = os.RemoveAll(in.path(name))
				}
			} else {
				had := in.git("for-each-ref")
				in.git("clean", "--quiet", "-fdx")
				in.git("reset", "--quiet", "--hard")
				j.git("submodule", "--quiet", "deinit", "--", "lib/sub")
				if got := j.git("--git-dir="+j.git("rev-parse", "--git-path", "modules/lib/sub"), "for-each-ref"); got != had {
					t.Errorf("it has now\n%s\nand had\n%s", got, had)
				}
			}
			if o, moved, err := r.Advance(t.Context(), "main", j.from, j.to); o != "" || !moved || err != nil || j.git("status", "--porcelain") != "" {
				t.Errorf("after the advice: obstacle %q, moved %v, %v; status %q", o, moved, err, j.git("status", "--porcelain"))
			}
		})
	}
}

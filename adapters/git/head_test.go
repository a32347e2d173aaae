package git

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// HEAD is read as git reads it, however a repository keeps it; and without git where it is a plain file.
func TestHeadIsWhatGitSays(t *testing.T) {
	t.Parallel()
	in := func(dir string, args ...string) func(fixture) string {
		return func(f fixture) string {
			if len(args) > 0 {
				f.git(args...)
			}
			return dir
		}
	}
	for name, c := range map[string]struct {
		make   func(fixture) (dir string)
		branch string
		asks   int64 // git processes, for the branch and the commit
		unborn bool
	}{
		"a branch":         {in(""), "main", 0, false},
		"a name in parts":  {in("", "checkout", "--quiet", "-b", "a/b"), "a/b", 0, false},
		"detached":         {in("", "checkout", "--quiet", "--detach"), "", 0, false},
		"linked":           {in("sub", "worktree", "add", "--quiet", "-b", "side", "sub"), "side", 0, false},
		"linked, detached": {in("sub", "worktree", "add", "--quiet", "--detach", "sub"), "", 0, false},
		"packed":           {in("", "pack-refs", "--all"), "main", 1, false},
		"unborn":           {in("", "checkout", "--quiet", "--orphan", "new"), "new", 1, true},
		"another ref":      {in("", "symbolic-ref", "HEAD", "refs/remotes/origin/main"), "refs/remotes/origin/main", 2, true},
		"a link as HEAD":   {in("", "-c", "core.preferSymlinkRefs=true", "symbolic-ref", "HEAD", "refs/heads/main"), "main", 2, false},
		"below the top":    {func(f fixture) string { f.mkdir("deep"); return "deep" }, "main", 2, false},
		"an alias": {func(f fixture) string {
			f.git("symbolic-ref", "refs/heads/other", "refs/heads/main")
			f.write(".git/HEAD", "ref: refs/heads/other\n")
			return ""
		}, "main", 2, false},
		"an empty directory in the ref's place": {func(f fixture) string {
			f.git("pack-refs", "--all")
			f.mkdir(".git/refs/heads/main")
			return ""
		}, "main", 2, false},
		"a submodule": {func(f fixture) string {
			inner := newFixture(f.TB)
			inner.git("checkout", "--quiet", "-b", "within")
			inner.commit("x", "x")
			f.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.dir, "sub")
			return "sub"
		}, "within", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.commit("file", "1")
			at := f.in(f.path(c.make(f)))
			var want kernel.CommitID
			if !c.unborn {
				want = at.rev("HEAD")
			}
			r := Open(f.root())
			count := counting(r.cli)
			if branch, err := r.HeadBranch(t.Context(), at.dir); branch != c.branch || err != nil {
				t.Errorf("branch %q, %v", branch, err)
			}
			if commit, err := r.HeadCommit(t.Context(), at.dir); commit != want || err != nil {
				t.Errorf("commit %s, %v; want %s", commit, err, want)
			}
			if n := count.Load(); n != c.asks {
				t.Errorf("%d git processes, want %d", n, c.asks)
			}
		})
	}
}

package git

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// answering makes each git process of r that has a word among its arguments print this instead.
func answering(r *Repo, word, text string) {
	r.cli.exec = func(cmd *exec.Cmd) error {
		if !slices.Contains(cmd.Args, word) {
			return cmd.Run()
		}
		_, err := io.WriteString(cmd.Stdout, text)
		return err
	}
}

// What git prints and nobody expects is an error, and no answer.
func TestAnswersOfGitThatAreNone(t *testing.T) {
	ctx, o := t.Context(), newBrittle(t)
	r, main := o.repo, o.rev("main")
	file := func() []any { return all(r.cli.ReadFile(ctx, File{main, "file"})) }
	for name, c := range map[string]struct {
		word, prints string
		ask          func() []any
		says         string
	}{
		"a file":           {"cat-file", "garbage\n", file, `git cat-file: unexpected answer "garbage" for file in commit ` + string(main)},
		"half a file":      {"cat-file", "blob 5\nabcd\n", file, "git cat-file: answer for file in commit " + string(main) + " is cut short"},
		"a blob":           {"cat-file", "x blob many\n", func() []any { return all(r.cli.blobs(ctx, "", []string{"x"})) }, `git cat-file: unexpected answer "x blob many"`},
		"half a blob":      {"cat-file", "x blob 5\nabcd\n", func() []any { return all(r.cli.blobs(ctx, "", []string{"x"})) }, `git cat-file: unexpected answer "x blob 5"`},
		"what to do again": {"show", "nothing", func() []any { return all(r.Replay(ctx, main, main, main)) }, "replay: git show has no answer for " + string(main)},
	} {
		answering(r, c.word, c.prints)
		answer := c.ask()
		if noAnswer(t, name, answer); fmt.Sprint(answer[len(answer)-1]) != c.says {
			t.Errorf("%s: %v", name, answer)
		}
	}
	answering(r, "cat-file", "blob 4\nabcd\n")
	if got, err := r.cli.ReadFile(ctx, File{main, "file"}); string(got) != "abcd" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	answering(r, "cat-file", "y missing\nx blob 4\nabcd\n")
	if got, err := r.cli.blobs(ctx, "", []string{"y", "x"}); fmt.Sprint(got) != "map[x:[97 98 99 100]]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	r.cli.exec = func(cmd *exec.Cmd) error {
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "kill -TERM $$"}
		return cmd.Run()
	}
	if err := second(r.Tags(ctx, main)); err == nil || !strings.Contains(err.Error(), "git for-each-ref: signal: terminated (exit -1)") {
		t.Error(err)
	}
}

// Whether a branch has moved is asked of git once more if it says that it did not move it.
func TestABranchThatMovesAllTheSame(t *testing.T) {
	ctx, o := t.Context(), newBrittle(t)
	from, to := o.rev("main"), o.rev("ahead")
	note, err := os.Create(filepath.Join(t.TempDir(), "note"))
	if err != nil {
		t.Fatal(err)
	}
	defer note.Close()
	on := []*following{{repo: o.repo, w: Worktree{Path: o.dir}, note: note}}
	for name, c := range map[string]struct {
		exec     func(cmd *exec.Cmd) error
		moved    bool
		obstacle string
		fails    bool
	}{
		"and says not": {func(cmd *exec.Cmd) error {
			if slices.Contains(cmd.Args, "update-ref") {
				cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `"$@"; echo no >&2; exit 1`, "sh", "git", "update-ref", "refs/heads/main", string(to)}
			}
			return cmd.Run()
		}, true, "", false},
		"it does not": {func(cmd *exec.Cmd) error {
			if slices.Contains(cmd.Args, "update-ref") {
				cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "echo no >&2; exit 1"}
			}
			return cmd.Run()
		}, false, "git does not move main (git update-ref: no (exit 1)): have what refuses that allow it, such as a hook", false},
		"another git holds it": {func(cmd *exec.Cmd) error {
			if slices.Contains(cmd.Args, "update-ref") {
				cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `: >.git/refs/heads/main.lock; "$@"; exit=$?; rm .git/refs/heads/main.lock; exit $exit`, "sh", "git", "update-ref", "refs/heads/main", string(to)}
			}
			return cmd.Run()
		}, false, "another git is moving main: wait for it or, if there is none, remove " + o.path(".git/refs/heads/main.lock"), false},
		"nobody knows": {func(cmd *exec.Cmd) error {
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "echo no >&2; exit 128"}
			return cmd.Run()
		}, false, "", true},
	} {
		o.repo.cli.exec = c.exec
		obstacle, moved, err := o.repo.moveWith(ctx, on, "main", from, to)
		if moved != c.moved || obstacle != c.obstacle || (err != nil) != c.fails {
			t.Errorf("%s: %q, %t, %v", name, obstacle, moved, err)
		}
		if c.fails && (!strings.Contains(err.Error(), "git update-ref: no") || strings.Count(err.Error(), ": no (exit 128)") != 2) {
			t.Errorf("%s: it says %v", name, err)
		}
		o.git("update-ref", "refs/heads/main", string(from))
	}
}

// What is configured is told without the end of its line; "" if nothing is.
func TestSettingsOfTheUser(t *testing.T) {
	t.Chdir(t.TempDir())
	if name, pager := UserName(t.Context()), Pager(t.Context()); name != "" || pager != "" {
		t.Errorf("%q, %q", name, pager)
	}
	for name, value := range map[string]string{"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Ann B", "GIT_CONFIG_KEY_1": "core.pager", "GIT_CONFIG_VALUE_1": "more -s"} {
		t.Setenv(name, value)
	}
	if name, pager := UserName(t.Context()), Pager(t.Context()); name != "Ann B" || pager != "more -s" {
		t.Errorf("%q, %q", name, pager)
	}
}

// Where refs are in tables, git says which of them refers to another.
func TestASymbolicRefInTables(t *testing.T) {
	ctx, f := t.Context(), newFixture(t)
	f.commit("file", "x")
	f.git("symbolic-ref", "refs/heads/trunk", "refs/heads/main")
	f.mkdir(".git/reftable")
	r := Open(f.root())
	for ref, want := range map[string]string{"refs/heads/trunk": "refs/heads/main", "refs/heads/main": "", "refs/heads/none": ""} {
		if got, err := r.symbolic(ctx, ref); got != want || err != nil {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
	brittle(r, 1)
	if got, err := r.symbolic(ctx, "refs/heads/main"); got != "" || err == nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Only a linked worktree that was finished has the state of a merge.
func TestWhatHasTheStateOfAMerge(t *testing.T) {
	ctx, o := t.Context(), newOwned(t, Open)
	main := o.rev("main")
	for _, f := range []fixture{o.fixture, o.tree} {
		f.git("update-ref", mergeRefs+"source", string(main))
	}
	if source, target, merged, err := o.repo.MergeState(ctx, o.tree.dir); source != main || target != "" || merged != "" || err != nil {
		t.Errorf("%s %s %s %v", source, target, merged, err)
	}
	if source, _, _, err := o.repo.MergeState(ctx, o.dir); source != "" || err != nil {
		t.Errorf("the main working tree: %s %v", source, err)
	}
	o.git("worktree", "lock", "--reason", initializing, o.tree.dir)
	if source, _, _, err := o.repo.MergeState(ctx, o.tree.dir); source != "" || err != nil {
		t.Errorf("one that is being made: %s %v", source, err)
	}
}

// Parked work is told with what gets it back, which is another command for a submodule's.
func TestParkedWorkOfASubmodule(t *testing.T) {
	ctx, o := t.Context(), newOwned(t, Open)
	main := o.rev("main")
	p := Parked{Module: "sub", Worktree: "tree", Ref: "refs/x", Repo: "/repo"}
	const want = "work in submodule sub of worktree tree that none of its remotes has is kept as refs/x: see it with `git show refs/x`, " +
		"get it back in another clone of the submodule with `git fetch /repo refs/x:refs/heads/NAME`"
	if got := p.String(); got != want {
		t.Error(got)
	}
	plain, module := parkedRefs+"draft-7-"+string(main[:7]), parkedRefs+"draft-7-sub-"+string(main[:7])
	for _, ref := range []string{plain, module} {
		o.git("update-ref", ref, string(main))
	}
	got, err := o.repo.ParkedOf(ctx, func() ([]kernel.JobID, error) { return []kernel.JobID{"7"}, nil })
	lines := []string{
		fmt.Sprintf("what was only in draft is kept as %[1]s: see it with `git show %[1]s`, get it back with `git switch --create NAME %[1]s`", plain),
		fmt.Sprintf("what was only in draft, in its submodule sub is kept as %[1]s: see it with `git show %[1]s`, get it back in another clone of the submodule with `git fetch %[2]s %[1]s:refs/heads/NAME`", module, o.repo.root.Dir),
	}
	if slices.Sort(got); err != nil || !slices.Equal(got, lines) {
		t.Errorf("%v\n%s", err, strings.Join(got, "\n"))
	}
}

// What is in the way of a worktree is named, with what to do.
func TestWhatIsInTheWayOfAWorktree(t *testing.T) {
	ctx, o := t.Context(), newOwned(t, Open)
	r, main := o.repo, o.rev("main")
	at, err := r.treeAt(o.tree.dir)
	if err != nil {
		t.Fatal(err)
	}
	o.write("a-file", "x")
	elsewhere := filepath.Join(filepath.Dir(o.dir), "job-1")
	o.git("worktree", "add", "--quiet", "--detach", elsewhere)
	long := "/" + strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		ask  func() []any
		says string
	}{
		"a file in its place": {func() []any { _, err := r.sound(ctx, Worktree{Name: "x", Path: o.path("a-file")}, ""); return all(err) }, "a file is in the place of the worktree: move " + o.path("a-file") + " away, then retry"},
		"a path for a name":   {func() []any { return all(r.EnsureWorktree(ctx, "job-1/x", "here", "main", "")) }, "add worktree here: job-1/x is no directory for a worktree of a job: it is not a name"},
		"one of that name":    {func() []any { return all(r.EnsureWorktree(ctx, "job-1", "here", "main", "")) }, "add worktree here: the worktree job-1 was moved to " + elsewhere + ": `" + kernel.MoveWorktree(elsewhere, worktreeHome+"/job-1") + "`, then retry"},
		"no files to move": {func() []any {
			_, err := r.moveToPlace(Worktree{Name: "x", Path: o.path("none")}, o.path(worktreeHome+"/x"))
			return all(err)
		}, "rename " + o.path("none")},
		"no files to detach": {func() []any {
			return all(r.detach(ctx, Worktree{Name: "x", gitDir: o.path("none")}, o.path("none"), o.path("aside"), true))
		}, "rename " + o.path("none")},
		"a long path":        {func() []any { return all(fitness(Worktree{Path: long})) }, "lstat " + long},
		"no git directory":   {func() []any { _, err := r.mend(ctx, Worktree{gitDir: o.path("a-file/x")}, ""); return all(err) }, "mkdir " + o.path("a-file")},
		"settings":           {func() []any { return all((&coreConfig{}).read(o.dir)) }, "open " + o.dir},
		"a name of a branch": {func() []any { return all(r.cli.DeleteBranch(ctx, "-x", main)) }, `delete branch "-x": git does not allow this name`},
	} {
		answer := c.ask()
		noAnswer(t, name, answer)
		err, _ := answer[len(answer)-1].(error)
		if err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v", name, answer)
		}
	}
	if is, err := (&coreConfig{}).read(o.path("none")); is || err != nil {
		t.Errorf("no settings: %t, %v", is, err)
	}
	undo := looped(t, o.path(worktreeHome+"/here"))
	if _, err := r.moveToPlace(at.w, o.path(worktreeHome+"/here/x")); err == nil {
		t.Error("it was moved through a loop")
	}
	undo()
	if err := os.WriteFile(filepath.Join(at.w.gitDir, "gitdir"), []byte(long+"/.git\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Obstacle(ctx, "draft/a"); got != "" || err == nil {
		t.Errorf("on a branch of a worktree that cannot be looked for: %q, %v", got, err)
	}
	for _, branch := range []string{"main", "draft"} { // the one asked about, and that of a worktree
		undo := looped(t, o.path(".git/refs/heads/"+branch))
		if got, err := r.Obstacle(ctx, "main"); got != "" || err == nil {
			t.Errorf("%s cannot be looked at: %q, %v", branch, got, err)
		}
		undo()
	}
}

// What git could not read is told only if it cannot be read now. A path that is too long is, by its beginning.
func TestWhatGitCouldNotRead(t *testing.T) {
	f := newFixture(t)
	f.commit("file", "x")
	r := Open(f.root())
	failed := &Error{Op: "add", Code: 128, Stderr: "error: open(\"file\"): Permission denied\nfatal: adding files failed\n"}
	if err := r.cli.failed(command{}, failed); err != failed { //nolint:errorlint // it is to be this very one
		t.Errorf("%v", err)
	}
	long := strings.Repeat("x", 300)
	err := r.cli.unread(command{}, unlisted+long+"/': File name too long\n")
	var unread *UnreadError
	if !errors.As(err, &unread) || len(unread.Paths) > 0 || !slices.Equal(unread.Deep, []string{long}) || unread.Tree != f.dir {
		t.Errorf("%v", err)
	}
	if !disktest.AsUser(t) {
		return
	}
	f.closed("shut", 0)
	failed.Stderr = "error: open(\"shut/new\"): Permission denied\n"
	if err := r.cli.failed(command{}, failed); !errors.As(err, &unread) || !slices.Equal(unread.Paths, []string{"shut/new"}) || !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

// A worktree whose repository is elsewhere, or is none, is told how it is repaired.
func TestAWorktreeOfWhatIsNoRepository(t *testing.T) {
	o := newOwned(t, Open)
	common, none := o.path(".git/worktrees/draft-1/commondir"), o.path("none")
	if err := os.WriteFile(common, []byte(none+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says := ": worktree " + o.tree.dir + " belongs to " + none + ", which is no git directory: if the repository was moved, run `git worktree repair` in it"
	if _, err := FindRoot(o.tree.dir); err == nil || !strings.HasSuffix(err.Error(), says) {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(common), os.Mkdir(common, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := FindRoot(o.tree.dir); !errors.Is(err, sys.ErrNotRegular) {
		t.Errorf("what cannot be read: %v", err)
	}
	f := newFixture(t)
	f.git("config", "core.worktree", "/no/such/tree")
	if _, err := FindRoot(f.dir); err == nil || !strings.Contains(err.Error(), ": main working tree: lstat /no") {
		t.Error(err)
	}
	if err := os.RemoveAll(f.path(".git/refs")); err != nil {
		t.Fatal(err)
	}
	if isGitDir(f.path(".git")) {
		t.Error("without refs it is a git directory")
	}
	f.write("sub/.git", "elsewhere\n")
	if own, err := ownSubmodule(f.path("sub"), f.path(".git")); own || err != nil {
		t.Errorf("what leads nowhere is a submodule of the repository: %t, %v", own, err)
	}
	undo := looped(t, f.path("sub"))
	defer undo()
	if err := (&Repo{}).checkLinks(f.dir, []string{"sub"}); err == nil {
		t.Error("a submodule that cannot be looked at is sound")
	}
}

// What is staged and git has no object of cannot be noted: the paths are named.
func TestWhatIsStagedAndGone(t *testing.T) {
	ctx, o := t.Context(), newOwned(t, Open)
	at, err := o.repo.treeAt(o.tree.dir)
	if err != nil {
		t.Fatal(err)
	}
	o.tree.write("lost", "lost")
	o.tree.git("add", "lost")
	id := o.tree.git("rev-parse", ":lost")
	if err := os.Remove(o.path(".git/objects/" + id[:2] + "/" + id[2:])); err != nil {
		t.Fatal(err)
	}
	if _, err := at.holding(ctx, o.rev("main")); err == nil || err.Error() != "git has no object any more for what is staged of lost: stage that again with `git add`" {
		t.Error(err)
	}
	inner := o.tree.path("inner")
	o.tree.git("reset", "--quiet")
	o.git("init", "--quiet", inner)
	const says = ": it contains another repository, inner/: move that away, then try again"
	if err := o.repo.Remember(ctx, o.tree.dir, true); err == nil || !strings.HasSuffix(err.Error(), says) {
		t.Error(err)
	}
}

// Whoever signs commits has those of the program signed, or none made.
func TestACommitThatIsToBeSigned(t *testing.T) {
	ctx, o := t.Context(), newOwned(t, Open)
	main := o.rev("main")
	o.git("config", "gpg.program", "false")
	if err := second(o.repo.EmptyCommit(ctx, main, "nothing")); err != nil {
		t.Error(err)
	}
	o.git("config", "commit.gpgSign", "true")
	if id, err := o.repo.EmptyCommit(ctx, main, "nothing"); id != "" || err == nil || !strings.Contains(err.Error(), "gpg failed to sign") {
		t.Errorf("%s, %v", id, err)
	}
}

// Whether a release that has begun is there is known by its branch and its tag.
func TestWhetherAReleaseIsThere(t *testing.T) {
	ctx, o := t.Context(), newBrittle(t)
	main, ahead := o.rev("main"), o.rev("ahead")
	for name, c := range map[string]struct {
		b    Begun
		want bool
	}{
		"its commit": {Begun{Branch: "ahead", From: main, Commit: ahead, Tag: "v2"}, true},
		"its tag":    {Begun{Branch: "main", From: main, Commit: main, Tag: "v1"}, true},
		"neither":    {Begun{Branch: "main", From: main, Commit: ahead, Tag: "v1"}, false},
	} {
		if got, err := o.repo.Undoes(ctx, c.b); got != c.want || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	if got, err := o.repo.Undoes(ctx, Begun{Branch: "ahead", From: o.rev("main~1"), Commit: main, Tag: "v1"}); got || !errors.Is(err, ErrMoved) {
		t.Errorf("a branch that has moved on: %t, %v", got, err)
	}
}

// Where git fails, a worktree is neither given up nor taken for one that is as it should be.
func TestAWorktreeThatCannotBeMadeAnew(t *testing.T) {
	ctx, o := t.Context(), newBrittle(t)
	r, dir, main := o.repo, o.tree.dir, o.rev("main")
	for name, c := range map[string]struct {
		words []string
		ask   func() error
	}{
		"to another branch": {[]string{"commit-tree"}, func() error { return second(r.EnsureWorktree(ctx, "draft-1", "draft-1", "main", "")) }},
		"to stage":          {[]string{"--force"}, func() error { return r.Stage(ctx, dir, nil, []string{"new"}) }},
		"to release":        {[]string{"rev-parse"}, func() error { return r.Release(ctx, dir) }},
	} {
		brittleAt(r, c.words...)
		if err := c.ask(); err == nil || !strings.Contains(err.Error(), "disk on fire") {
			t.Errorf("%s: %v", name, err)
		}
		brittleAt(r)
		if text, err := os.ReadFile(o.tree.path("new")); string(text) != "x" || err != nil || o.tree.git("symbolic-ref", "HEAD") != "refs/heads/draft/a" {
			t.Errorf("%s: its work is %q, %v", name, text, err)
		}
	}
	o.tree.git("rm", "--quiet", "--cached", "file")
	if err := os.Remove(o.tree.path(".gitignore")); err != nil {
		t.Fatal(err)
	}
	brittleAt(r, "checkout-index")
	if n, err := r.RestoreMissing(ctx, dir); err == nil {
		t.Errorf("%d files are restored", n)
	}
	brittleAt(r, "ls-files")
	if n, err := r.RestoreMissing(ctx, dir); n != 0 || err == nil {
		t.Errorf("%d files are restored, %v", n, err)
	}
	staged := parkedRefs + "draft-1-1-" + string(main[:7]) + stagedSuffix
	o.git("update-ref", staged, string(main))
	brittleAt(r, "update-ref")
	if err := r.DropStaged(ctx, time.Now().Add(time.Hour)); err == nil || !strings.HasPrefix(err.Error(), "remove refs of what was staged long ago: ") {
		t.Errorf("%v", err)
	}
	brittleAt(r)
	if err := r.DropStaged(ctx, time.Now().Add(time.Hour)); err != nil || o.git("for-each-ref", staged) != "" {
		t.Errorf("%v", err)
	}
	head := o.path(".git/worktrees/draft-1/HEAD")
	if err := os.WriteFile(head, []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	brittleAt(r, "commit-tree")
	if c, err := r.OwnedWorktree("draft-1"); c != (kernel.Context{}) || err == nil {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := os.Stat(o.tree.path("new")); err != nil {
		t.Errorf("its work is gone: %v", err)
	}
	fresh := newFixture(t)
	f := Open(fresh.root())
	if never, err := f.neverInConflict(""); !never || err != nil {
		t.Errorf("without an index: %t, %v", never, err)
	}
	gone := &following{repo: r, w: Worktree{Path: o.path("gone"), gitDir: o.path("gone/.git")}, from: main, to: main, note: shutFile(t, o.path("note"))}
	if err := gone.comeBack(ctx); err == nil || err.Error() != "bring "+o.path("gone")+" back, which is half way: where its files are not, or not any more" {
		t.Errorf("%v", err)
	}
	if op, err := r.Operation(); op != "" || err != nil {
		t.Errorf("%q, %v", op, err)
	}
	o.write(".git/MERGE_HEAD", string(main)+"\n")
	if op, err := r.Operation(); op != "merge" || err != nil {
		t.Errorf("%q, %v", op, err)
	}
}

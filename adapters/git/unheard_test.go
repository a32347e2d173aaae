package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// there reports whether something is at a path, relative to the git directory.
func (s *scripted) there(path string) bool {
	s.Helper()
	there, err := exists(filepath.Join(s.root.CommonDir, path))
	if err != nil {
		s.Fatal(err)
	}
	return there
}

// worktree is the linked worktree that linked has made.
func (s *scripted) worktree(name string) Worktree {
	return Worktree{Name: name, Path: filepath.Join(s.root.Dir, worktreeHome, name), gitDir: filepath.Join(s.root.CommonDir, "worktrees", name)}
}

// askedFor reports whether git was asked something with a word.
func (s *scripted) askedFor(word string) bool {
	return slices.ContainsFunc(s.asked, func(asked string) bool { return slices.Contains(strings.Fields(asked), word) })
}

// What Remember notes is about linked worktrees whose files are there, and Forget leaves nothing of it.
func TestOfWhichTreesSomethingIsNoted(t *testing.T) {
	s := newScripted(t)
	if err := s.Remember(t.Context(), s.root.Dir, true); err != nil || len(s.asked) > 0 || s.there(besideIndex) {
		t.Errorf("the main one: %v, asked %q", err, s.asked)
	}
	dir := s.linked("t", "x", "")
	s.put("worktrees/t/"+besideIndex+"/index", "x")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if changed, err := s.PutBack(t.Context(), dir); changed || err != nil || len(s.asked) > 0 || !s.there("worktrees/t/"+besideIndex+"/index") {
		t.Errorf("one without files: %t, %v, asked %q", changed, err, s.asked)
	}
	dir = s.linked("t", "x", "")
	if err := s.Forget(t.Context(), dir); err != nil || s.there("worktrees/t/"+besideIndex) {
		t.Errorf("forgotten: %v, there %t", err, s.there("worktrees/t/"+besideIndex))
	}
}

// Of what is not in conflict, what is not as at Remember is staged; where nothing is noted that is none.
func TestWhatIsStagedSinceRemember(t *testing.T) {
	before, differs := mergeRefs+"before ", "diff-tree other\x00file\x00"
	for name, c := range map[string]struct {
		answers []string
		want    string
	}{
		"some":                {[]string{before + id("1"), differs}, "[file] <nil>"},
		"none":                {[]string{before + id("1"), "diff-tree x\x00"}, "[] <nil>"},
		"nothing noted":       {[]string{before + no, differs}, "[] <nil>"},
		"git cannot stage it": {[]string{before + id("1"), "write-tree " + fails, differs}, "[] git write-tree: " + onFire + " (exit 128)"},
		"nor tell what":       {[]string{before + fails, differs}, "[] git rev-parse: " + onFire + " (exit 128)"},
	} {
		s := newScripted(t, c.answers...)
		got, err := s.tree().sinceRemember(t.Context(), []string{"file", "same"})
		if got := fmt.Sprint(got, " ", err); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	s := newScripted(t, before+id("1"), "--stage 100644 a 0\tone\x00", "cat-file a missing\n")
	if at, err := s.tree().whole(t.Context(), false); string(at) != id("1") || err != nil {
		t.Errorf("without an index: %s, %v", at, err)
	}
	s.put(besideIndex+"/index", "x")
	if _, err := s.tree().whole(t.Context(), false); err == nil || !strings.Contains(err.Error(), "what was staged of one") {
		t.Errorf("with what is lost: %v", err)
	}
}

// A worktree that is as it was at Remember is not changed by PutBack, wherever its head is if only a person can have moved that.
func TestWhatPutBackChanges(t *testing.T) {
	for name, c := range map[string]struct {
		confined      bool
		then, now, at string // the files then and now, and the commit then
		changed       bool
	}{
		"nothing":               {false, "7", "7", "c", false},
		"nothing, confined":     {true, "7", "7", "c", false},
		"its head":              {false, "7", "7", "b", true},
		"its head, by a person": {true, "7", "7", "b", false},
		"its files":             {false, "8", "7", "c", true},
		"its files, confined":   {true, "8", "7", "c", true},
	} {
		s := newScripted(t, mergeRefs+"before "+id("a"), mergeRefs+"settled "+no, "HEAD^{commit} "+id("c")+"\n", "write-tree "+id("7")+"\n", "commit-tree "+id("9")+"\n",
			id("a")+"^ "+id(c.then)+"\n"+id(c.now)+"\n"+id(c.at)+"\n")
		dir := s.linked("t", id("c"), "")
		s.put("worktrees/t/"+besideIndex+"/MERGE_MSG", "then")
		if c.confined {
			s.put("worktrees/t/"+besideIndex+"/"+confinedNote, "")
		}
		changed, err := s.PutBack(t.Context(), dir)
		if changed != c.changed || err != nil || s.askedFor("--reset") != c.changed || s.there("worktrees/t/"+besideIndex) || s.there("worktrees/t/MERGE_MSG") == c.confined {
			t.Errorf("%s: %t, %v; asked %q", name, changed, err, s.asked)
		}
	}
}

// A copy that fails is none: not the one of a file that cannot be read, and not where there is no place for it.
func TestACopyThatFails(t *testing.T) {
	s := newScripted(t)
	to := filepath.Join(s.root.CommonDir, "to")
	if _, err := os.Lstat("/proc/self/mem"); err == nil { // nothing can be read of its beginning
		for _, durable := range []bool{true, false} {
			if err := copyNew("/proc/self/mem", to, durable); err == nil || s.there("to") {
				t.Errorf("durable %t: %v, there %t", durable, err, s.there("to"))
			}
		}
	}
	f := &following{repo: s.Repo, w: Worktree{Path: filepath.Join(s.root.Dir, "link"), gitDir: s.root.CommonDir},
		diff: []changedFile{{"dir/file", fileEntry{"100644", "a"}, fileEntry{"100644", "b"}}}}
	s.put(followOld+"/0", "x")
	if err := os.Symlink("nowhere", f.w.Path); err != nil {
		t.Fatal(err)
	}
	if err := f.giveBack(0); !errors.Is(err, iofs.ErrExist) && !strings.Contains(fmt.Sprint(err), "not a directory") {
		t.Errorf("given back to nowhere: %v", err)
	}
	f.w.Path, f.w.gitDir = s.root.Dir, filepath.Join(s.root.CommonDir, "loop")
	undo := looped(t, f.w.gitDir)
	defer undo()
	if err := f.preserve(t.Context()); err == nil {
		t.Error("copies that cannot be removed: no error")
	}
}

// What a submodule's repository has is looked for from its head, and what cannot be kept of it is told with where it is.
func TestWhatASubmoduleHas(t *testing.T) {
	for present, at := range map[bool]string{true: "files", false: "git"} {
		s := newScripted(t, "HEAD^{commit} "+id("c")+"\n")
		s.put("../files/.git", "gitdir: x\n")
		m := module{name: "sub", gitDir: filepath.Join(s.root.Dir, "git"), dir: filepath.Join(s.root.Dir, "files"), present: present}
		if err := s.saveModules(t.Context(), Worktree{Name: "t"}, []module{m}); err != nil {
			t.Error(err)
		}
		if last := s.asked[len(s.asked)-1]; last != "rev-list --ignore-missing --parents --branches --reflog "+id("c")+" --not --remotes" {
			t.Errorf("present %t: last asked %q", present, last)
		}
		s.answers = []string{"rev-list " + fails}
		err := s.saveModules(t.Context(), Worktree{Name: "t"}, []module{m})
		if want := ": commit and push it from " + filepath.Join(s.root.Dir, at) + ", then try again"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("present %t: %v", present, err)
		}
	}
}

// A worktree is in its place if it is the one that is meant, and Release has not taken it off its branch.
func TestWhetherAWorktreeIsInPlace(t *testing.T) {
	s := newScripted(t)
	dir := s.linked("t", "x", "a b c\tcommit: x\n")
	gone := s.linked("r", "x", "a b c\t"+releasedMessage+"\n")
	for c, want := range map[[2]string]bool{{dir, "t"}: true, {dir, ""}: true, {dir, "other"}: false, {gone, "r"}: false, {gone, ""}: false, {dir + "x", "t"}: false, {dir + "x", ""}: false} {
		if s.InPlace(kernel.Context{Worktree: c[0], Name: c[1]}) != want {
			t.Errorf("%q: %t", c, !want)
		}
	}
}

// Without a tag, a release that has begun has its commit at most.
func TestAReleaseWithoutItsTag(t *testing.T) {
	for at, want := range map[string]bool{id("1"): true, id("2"): false} {
		s := newScripted(t, "refs/heads/b "+at+" refs/heads/b\n", "rev-parse "+fails)
		if undoes, err := s.Undoes(t.Context(), Begun{Branch: "b", Tag: "v1", Commit: kernel.CommitID(id("1")), From: kernel.CommitID(id("2"))}); undoes != want || err != nil {
			t.Errorf("%s: %t, %v", at, undoes, err)
		}
	}
}

// The links of what is there of a path count.
func TestAPathOfWhichAPartIsThere(t *testing.T) {
	dir := resolved(t.TempDir())
	if err := errors.Join(os.Mkdir(dir+"/real", 0o700), os.Symlink("real", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/link": "/real", "/link/a": "/real/a", "/link/a/b": "/real/a/b", "/none/a": "/none/a"} {
		if got := resolved(dir + path); got != dir+want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// That git has a repository by GIT_DIR is said where Vizier has none, and nowhere else.
func TestARepositoryThatGitDirNames(t *testing.T) {
	f := newFixture(t)
	git, other := f.path(".git"), errors.New("other")
	for name, c := range map[string]struct {
		err    error
		gitDir string
		says   bool
	}{
		"named":        {ErrNotRepository, git, true},
		"no variable":  {ErrNotRepository, "", false},
		"no directory": {ErrNotRepository, git + "x", false},
		"other":        {other, git, false},
	} {
		if err := Named(c.err, c.gitDir); !errors.Is(err, c.err) || errors.Is(err, ErrNamed) != c.says || strings.HasSuffix(err.Error(), "("+git+")") != c.says {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The worktrees of a job are those of that job, among the worktrees of jobs; another's links keep a place from a new one.
func TestWhoseWorktreesAreWhere(t *testing.T) {
	s := newScripted(t)
	s.linked("draft-1", "x", "")
	s.linked("draft-2", "x", "")
	s.put("worktrees/away-1/gitdir", s.root.Dir+"/away/.git\n")
	of, err := s.WorktreesOf([]kernel.JobID{"1"})
	if got := of["1"]; len(of) != 1 || len(got) != 1 || got[0].Name != "draft-1" || err != nil {
		t.Errorf("%v, %v", of, err)
	}
	home := filepath.Join(s.root.Dir, worktreeHome)
	from, place := s.linked("t", "x", ""), filepath.Join(home, "place")
	s.put("worktrees/other/gitdir", home+"/link/.git\n") // which leads to the place as soon as that is there
	if err := os.Symlink("place", home+"/link"); err != nil {
		t.Fatal(err)
	}
	w, err := s.moveToPlace(Worktree{Name: "t", Path: from, gitDir: s.worktree("t").gitDir}, place)
	if w.Path != place+"-2" || err != nil || NameAt(place+"-2") != "t" || NameAt(place) != "" {
		t.Errorf("%+v, %v; at %q and %q", w, err, NameAt(place), NameAt(place+"-2"))
	}
}

// A worktree whose sparse checkout cannot be ended is not given to a job, and an index that cannot be read is left alone.
func TestAWorktreeThatCannotBeMadeWhole(t *testing.T) {
	s := newScripted(t)
	run := s.run
	s.cli.exec = func(cmd *exec.Cmd) error {
		s.linked("t", id("1"), "")
		s.put("worktrees/t/info/sparse-checkout/x", "")
		return run(cmd)
	}
	if c, err := s.EnsureWorktree(t.Context(), "t", "t", "", kernel.CommitID(id("1"))); err == nil || c.Worktree != "" {
		t.Errorf("%+v, %v", c, err)
	}
	for name, gone := range map[string]bool{"without files": true, "without a head": false} {
		s := newScripted(t, "rev-parse "+fails)
		run := s.run
		s.cli.exec = func(cmd *exec.Cmd) error {
			if dir := s.linked("t", "odd", ""); gone {
				_ = os.RemoveAll(dir)
			}
			return run(cmd)
		}
		if c, err := s.EnsureWorktree(t.Context(), "t", map[bool]string{true: "place", false: "t"}[gone], "", kernel.CommitID(id("1"))); err == nil || c.Worktree != "" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if err := os.Mkdir(filepath.Join(s.worktree("t").gitDir, "index"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.mend(t.Context(), s.worktree("t"), ""); err == nil || !s.there("worktrees/t/index") {
		t.Errorf("mended: %v", err)
	}
}

// on is the main working tree, on its way on a branch.
func (s *scripted) on(branch string) *following {
	s.Helper()
	f, _, err := s.take(Worktree{Path: s.root.Dir, Branch: branch, gitDir: s.root.CommonDir}, true)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(f.release)
	return f
}

// A tree that has left its branch does not begin, and one of which git does not tell does not end.
func TestATreeThatMayNotBeOnItsWay(t *testing.T) {
	for name, c := range map[string]struct{ head, answer, says string }{
		"on another branch": {"ref: refs/heads/other\n", no, "<nil>"},
		"nobody knows":      {"odd", fails, "git symbolic-ref: " + onFire + " (exit 128)"},
	} {
		s := newScripted(t, "symbolic-ref "+c.answer)
		s.put("HEAD", c.head)
		s.put("../.git/refs/heads/other", id("1")+"\n")
		_, obstacle, err := s.begin(t.Context(), Worktree{Path: s.root.Dir, Branch: "main", gitDir: s.root.CommonDir}, kernel.CommitID(id("a")), kernel.CommitID(id("b")))
		if obstacle == "" || fmt.Sprint(err) != c.says || s.there(followNote) {
			t.Errorf("%s: %q, %v, note %t", name, obstacle, err, s.there(followNote))
		}
	}
	s := newScripted(t, "rev-parse "+fails)
	f := s.on("main")
	f.from, f.to = kernel.CommitID(id("a")), kernel.CommitID(id("b"))
	if obstacle, err := f.end(t.Context()); obstacle != "" || err == nil || !s.there(followNote) {
		t.Errorf("%q, %v, note %t", obstacle, err, s.there(followNote))
	}
	s = newScripted(t, "symbolic-ref "+fails)
	s.put("HEAD", "odd")
	f = s.on("main")
	if obstacle, err := f.dropRefLocks(t.Context()); obstacle != "" || err == nil {
		t.Errorf("%q, %v", obstacle, err)
	}
	s.put("../a/x", "")
	if err := os.Remove(s.root.Dir + "/a/x"); err != nil {
		t.Fatal(err)
	}
	if err := f.prune(changedFile{path: "a/" + strings.Repeat("x", 300)}); err == nil || !s.there("../a") {
		t.Errorf("a name that is too long: %v", err)
	}
}

// Of what is in the git directory, the old locks are those that a killed git left, and only the one that is asked for goes.
func TestTheStaleLocksOfARepository(t *testing.T) {
	if !tellsWhere {
		t.Skip("any git of this machine counts here: see TestGitsAtWork")
	}
	s, now := newScripted(t), time.Now()
	for _, name := range []string{"HEAD.lock", "refs/heads/a.lock", "worktrees/t/index.lock", "objects/x.lock", "hooks/x.lock", "lfs/x.lock", "annex/x.lock", "modules/m/x.lock",
		"worktrees/t/modules/m/x.lock", "d.lock/file", "young.lock"} {
		s.put(name, "")
		at := now.Add(-time.Hour)
		if name == "young.lock" {
			at = now.Add(time.Hour)
		}
		if err := os.Chtimes(filepath.Join(s.root.CommonDir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	paths, drop, err := s.StaleLocks(now)
	for i, path := range paths {
		paths[i], _ = filepath.Rel(s.root.CommonDir, path)
	}
	if fmt.Sprint(paths, err) != "[HEAD.lock refs/heads/a.lock worktrees/t/index.lock] <nil>" {
		t.Fatal(paths, err)
	}
	if err := drop(filepath.Join(s.root.CommonDir, "HEAD.lock")); err != nil || s.there("HEAD.lock") || !s.there("refs/heads/a.lock") {
		t.Errorf("dropped: %v, there %t and %t", err, s.there("HEAD.lock"), s.there("refs/heads/a.lock"))
	}
	if err := drop(filepath.Join(s.root.CommonDir, "young.lock")); err != nil || !s.there("young.lock") {
		t.Errorf("a young one: %v, there %t", err, s.there("young.lock"))
	}
}

// The index of the main working tree is known by its stamp, and by its lock while a git writes it.
func TestTheIndexOfTheMainWorkingTree(t *testing.T) {
	s := newScripted(t)
	lock := filepath.Join(s.root.CommonDir, "index.lock")
	if file, locked := s.IndexLock(); s.IndexStamp() != "none" || file != lock || locked {
		t.Errorf("without an index: %s, %s, %t", s.IndexStamp(), file, locked)
	}
	s.put("index", "x")
	first := s.IndexStamp()
	s.put("index", "xy")
	s.put("index.lock", "")
	if file, locked := s.IndexLock(); first == "none" || s.IndexStamp() == first || file != lock || !locked {
		t.Errorf("with one: %s, %s, %s, %t", first, s.IndexStamp(), file, locked)
	}
}

// A submodule in conflict, at which there is nothing, is no part of a commit of the files. One that is there is.
func TestASubmoduleInConflictIsCommitted(t *testing.T) {
	for there, want := range map[string]string{"": "[sub]", "sub/.git": "[]"} {
		s := newScripted(t, "ls-files M 160000 a 1\tsub\x00M 160000 b 2\tsub\x00M 100644 c 1\tfile\x00", "write-tree "+id("7")+"\n", "commit-tree "+id("9")+"\n")
		if there != "" {
			s.put("../"+there, "")
		}
		at, err := s.tree().commit(t.Context(), "", nil)
		dropped := []string{}
		for _, asked := range s.asked {
			if name, is := strings.CutPrefix(asked, "update-index --force-remove -- "); is {
				dropped = append(dropped, name)
			}
		}
		if string(at) != id("9") || err != nil || fmt.Sprint(dropped) != want {
			t.Errorf("%q is there: %s, %v; dropped %q", there, at, err, dropped)
		}
	}
	s := newScripted(t, "ls-files M 160000 a 1\tsub\x00")
	defer looped(t, filepath.Join(s.root.Dir, "sub"))()
	noAnswer(t, "one that cannot be looked at", all(s.tree().commit(t.Context(), "", nil)))
}

// What is asked of git in a worktree, and fails, is told by who needs it.
func TestWhatAWorktreeCannotTell(t *testing.T) {
	ctx := t.Context()
	for name, c := range map[string]struct {
		answers []string
		loop    string // what cannot be looked at, below the git directory
		ask     func(s *scripted) []any
	}{
		"what it hides":               {[]string{"ls-files S 100644 a 0\tfile\x00"}, "info", func(s *scripted) []any { _, err := s.tree().status(ctx, nil); return all(err) }},
		"what it hides, copied":       {[]string{"ls-files h 100644 a 0\tfile\x00"}, "index", func(s *scripted) []any { _, err := s.tree().status(ctx, nil); return all(err) }},
		"whether it is sparse":        {[]string{"config true\n"}, "x", func(s *scripted) []any { return all(s.Sparse(ctx, filepath.Join(s.root.CommonDir, "x"))) }},
		"a patch of no commit":        {[]string{"rev-parse " + no, "hash-object " + fails}, "", func(s *scripted) []any { return all(s.Patch(ctx, s.root.Dir)) }},
		"what steers":                 {[]string{"refs/heads/x " + id("a") + " refs/heads/x\n", "diff " + fails}, "", func(s *scripted) []any { return all(s.Steering(ctx, "x", "")) }},
		"whether its commit is there": {[]string{"write-tree " + id("7"), "commit-tree " + id("9"), mergeRefs + " " + id("a") + " " + mergeRefs + "source\n", id("a") + "^{commit} " + fails}, "", func(s *scripted) []any { return all(s.Remember(ctx, s.linked("t", id("c"), ""), false)) }},
		"whether a squash is in progress": {nil, "worktrees", func(s *scripted) []any {
			s.put("../own/"+besideIndex+"/"+settledNote, "x")
			return all(s.endSettle(ctx, tree{cli: s.cli, w: Worktree{gitDir: filepath.Join(s.root.Dir, "own")}, dir: s.root.Dir}, false))
		}},
		"its modules": {nil, "x", func(s *scripted) []any {
			return all(s.contents(ctx, tree{cli: s.cli, w: Worktree{gitDir: filepath.Join(s.root.CommonDir, "x")}}))
		}},
		"commits that it left": {[]string{mergeRefs + "source " + id("a"), "rev-list " + fails}, "", func(s *scripted) []any {
			s.linked("t", id("c"), id("b")+" "+id("c")+" A <a> 1 +0\tcommit: x\n")
			return all(s.saveLogged(ctx, s.worktree("t")))
		}},
		"what is staged with conflicts": {[]string{"ls-files " + fails}, "", func(s *scripted) []any { s.put("index", "REUC"); return all(s.checkLeftover(ctx, s.root.Dir)) }},
		"what is within":                {[]string{"ls-files " + fails}, "", func(s *scripted) []any { return all(s.checkInner(ctx, s.linked("t", id("a"), ""))) }},
		"what is to be unstaged":        {[]string{"reset " + fails}, "", func(s *scripted) []any { return all(s.cli.unstage(ctx, s.root.Dir, index{scratch: true})) }},
		"a repository in a submodule": {[]string{"ls-files H 160000 a 0\tx\x00"}, "x", func(s *scripted) []any {
			_, err := tree{cli: s.cli, w: Worktree{Path: s.root.CommonDir, gitDir: s.root.CommonDir}}.status(ctx, nil)
			return all(err)
		}},
		"a branch that is not deleted": {[]string{"refs/heads/x " + id("a") + " refs/heads/x\n", "update-ref " + fails}, "", func(s *scripted) []any { return all(s.DropBranch(ctx, "x")) }},
		"what may be given up": {nil, "", func(s *scripted) []any {
			return all((&following{repo: s.Repo, w: s.tree().w}).given(ctx, changedFile{path: "none"}, fileEntry{"100644", "c"}))
		}},
		"a worktree of no name of a branch": {nil, "", func(s *scripted) []any {
			return all(s.addWorktree(ctx, filepath.Join(s.root.Dir, worktreeHome, "t"), "-x", ""))
		}},
		"a move to no commit": {nil, "", func(s *scripted) []any { return all(s.Advance(ctx, "x", "none", kernel.CommitID(id("b")))) }},
		"whether a release is in a branch": {[]string{"refs/heads/b " + id("3") + " refs/heads/b\n", "merge-base " + fails}, "", func(s *scripted) []any {
			return all(s.Undoes(ctx, Begun{Branch: "b", Tag: "v1", Commit: kernel.CommitID(id("1")), From: kernel.CommitID(id("2"))}))
		}},
		"a damaged worktree": {nil, "", func(s *scripted) []any {
			s.put("worktrees/t/gitdir/x", "")
			_, err := s.mend(ctx, s.worktree("t"), "")
			return all(err)
		}},
		"the place of a copy": {nil, "", func(s *scripted) []any {
			s.put(followOld+"/0", "copy")
			return all((&following{repo: s.Repo, w: s.tree().w, diff: []changedFile{{path: strings.Repeat("x", 300)}}}).giveBack(0))
		}},
		"what is to be committed": {[]string{"--resolve-undo " + fails}, "", func(s *scripted) []any { s.put("index", "REUC"); return all(s.commit(ctx, s.root.Dir, "x")) }},
		"where a branch is": {[]string{"refs/heads/x " + id("a") + " refs/heads/x\n", "symbolic-ref " + fails}, "", func(s *scripted) []any {
			s.put("HEAD", "odd")
			_, _, err := s.BranchAt(ctx, "x")
			return all(err)
		}},
		"what was only staged": {[]string{"diff " + no}, "worktrees", func(s *scripted) []any { return all(s.keepStaged(ctx, filepath.Join(s.root.Dir, worktreeHome, "t"))) }},
		"commits that cannot be parked": {[]string{mergeRefs + "source " + id("a"), "rev-list " + id("c") + " " + id("b") + "\n", "update-ref " + fails}, "", func(s *scripted) []any {
			s.linked("t", id("c"), id("b")+" "+id("c")+" A <a> 1 +0\tcommit: x\n")
			return all(s.saveLogged(ctx, s.worktree("t")))
		}},
		"whether a submodule is behind": {[]string{"HEAD^{commit} " + id("a"), "HEAD:sub " + fails}, "", func(s *scripted) []any {
			s.put("../sub/.git", "x")
			return all(s.cli.leftBehind(ctx, s.root.Dir, "sub"))
		}},
		"whether a way has an end": {nil, "", func(s *scripted) []any {
			f := s.on("main")
			f.to, f.w = "x", Worktree{Path: "/" + strings.Repeat("x", 300)}
			return all(f.end(ctx))
		}},
		"a note that is none": {nil, "", func(s *scripted) []any { s.put(followNote+"/x", ""); return all(s.take(s.tree().w, false)) }},
		"an index for its files": {[]string{"ls-files 100644 a 0\tfile\x00"}, "index", func(s *scripted) []any {
			f := &following{repo: s.Repo, w: s.tree().w}
			return all(f.bring(ctx, filepath.Join(s.root.CommonDir, "index")))
		}},
	} {
		s := newScripted(t, c.answers...)
		undo := func() {}
		if c.loop != "" {
			undo = looped(t, filepath.Join(s.root.CommonDir, c.loop))
		}
		noAnswer(t, name, c.ask(s))
		undo()
	}
}

// A commit is kept by what keeps it already, or else by a ref of its own.
func TestACommitThatIsKept(t *testing.T) {
	for refs, want := range map[string]bool{"refs/heads/x\n": false, "": true} {
		s := newScripted(t, "refs/heads/ "+refs)
		if err := s.Keep(t.Context(), kernel.CommitID(id("a"))); err != nil || s.askedFor("update-ref") != want {
			t.Errorf("%q has it: %v, asked %q", refs, err, s.asked)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if clean, err := (&fallback{Backend: newScripted(t).cli, first: broken{}}).Clean(ctx); err == nil {
		t.Errorf("once it is of no interest, a tree is clean: %t", clean)
	}
}

// Work at the commit of another worktree's merge is not parked.
func TestAMergeKeepsItsCommit(t *testing.T) {
	for merged, want := range map[string]bool{id("a"): false, id("b"): true} {
		s := newScripted(t, "HEAD^{commit} "+id("a")+"\n", mergeRefs+" "+merged+" "+mergeRefs+"merged\n")
		s.linked("other", id("a"), "")
		if err := s.save(t.Context(), Worktree{Name: "t", gitDir: s.root.CommonDir}, false, removed); err != nil || s.askedFor("update-ref") != want {
			t.Errorf("merged %s: %v, asked %q", merged, err, s.asked)
		}
	}
}

// A settle that has begun is over once the merge has ended otherwise, and nothing of it is left.
func TestASettleWhoseMergeHasEnded(t *testing.T) {
	for _, squashing := range []bool{false, true} {
		s := newScripted(t, "ls-files "+fails)
		dir := s.linked("t", id("c"), "")
		s.put("worktrees/t/"+besideIndex+"/"+settledNote, "x")
		if squashing {
			s.put("worktrees/t/SQUASH_MSG", "")
		}
		settled, err := s.endSettle(t.Context(), tree{cli: s.cli, w: s.worktree("t"), dir: dir}, false)
		if settled == squashing || (err == nil) == squashing || s.there("worktrees/t/"+besideIndex) != squashing {
			t.Errorf("squashing %t: %t, %v, there %t", squashing, settled, err, s.there("worktrees/t/"+besideIndex))
		}
	}
}

// Only with resolutions of all that is in conflict is everything staged that is not as the index has it.
func TestWhatIsStagedBesidesAResolution(t *testing.T) {
	for resolved, want := range map[string]string{"left": "[left file new]", "none": "[none file]"} {
		s := newScripted(t, "--unmerged 100644 a 1\tleft\x00", "status UU left\x00 M file\x00?? new\x00?? inner/\x00", mergeRefs+"before "+id("1"), "diff-tree file\x00")
		got, err := s.toStage(t.Context(), s.tree(), []string{resolved})
		if fmt.Sprint(got) != want || err != nil {
			t.Errorf("%s resolved: %q, %v", resolved, got, err)
		}
	}
}

// A worktree has the name of git's files for it, whether it rebases is in these, and so is what it has resolved.
func TestWhatALinkedWorktreeHas(t *testing.T) {
	s := newScripted(t)
	dir, gone := s.linked("t", id("a"), ""), s.linked("gone", id("a"), "")
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	s.moved("other", id("a"))
	for name, want := range map[string]string{"t": dir, "gone": "", "none": ""} {
		if got, err := s.WorktreeNamed(name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if stray, err := s.StrayWorktrees(func(kernel.Context) bool { return false }); len(stray) != 2 || stray[0].Name != "gone" || stray[1].Name != "t" || err != nil {
		t.Errorf("strays: %+v, %v", stray, err)
	}
	s.put("worktrees/t/index", "REUC")
	for top, want := range map[string]bool{dir: false, gone: true, "": true} {
		if never, err := s.neverInConflict(top); never != want || err != nil {
			t.Errorf("%q: never in conflict %t, %v", top, never, err)
		}
	}
	s.put("worktrees/t/rebase-merge/x", "")
	s.put("rebase-merge/x", "")
	s.put("worktrees/gone/x", "")
	for dir, want := range map[string]bool{dir: true, gone: false, s.root.Dir: false} {
		if is, err := s.Rebasing(t.Context(), dir); is != want || err != nil {
			t.Errorf("%s: rebasing %t, %v", dir, is, err)
		}
	}
	defer looped(t, filepath.Join(s.root.CommonDir, "worktrees/gone/sequencer"))()
	noAnswer(t, "whether it rebases", all(s.Rebasing(t.Context(), gone)))
}

// A tree is half way if its note says so or it has locked its index. A way that cannot end gives up the note.
func TestWhatIsHalfWay(t *testing.T) {
	s := newScripted(t)
	s.put(followNote, "")
	if dirs, err := s.HalfWay(); len(dirs) > 0 || err != nil {
		t.Errorf("with an empty note: %q, %v", dirs, err)
	}
	if err := os.Symlink(followNote, filepath.Join(s.root.CommonDir, "index.lock")); err != nil {
		t.Fatal(err)
	}
	if dirs, err := s.HalfWay(); len(dirs) != 1 || err != nil {
		t.Errorf("with a lock: %q, %v", dirs, err)
	}
	if err := s.on("main").arrive(); err == nil {
		t.Error("it arrives without an index")
	}
	f, busy, err := s.take(s.tree().w, false)
	if f == nil || busy || err != nil {
		t.Fatalf("%v, busy %t, %v", f, busy, err)
	}
	f.release()
}

// A copy is not given back where something is, or the path leads through a file.
func TestACopyIsInNobodysWay(t *testing.T) {
	for _, there := range []string{"dir/file", "dir/file/below", "dir"} {
		s := newScripted(t)
		s.put(followOld+"/0", "copy")
		s.put("../"+there, "mine")
		f := &following{repo: s.Repo, w: s.tree().w, diff: []changedFile{{path: "dir/file"}}}
		if err := f.giveBack(0); err != nil {
			t.Errorf("%s: %v", there, err)
		}
		if text, err := os.ReadFile(filepath.Join(s.root.Dir, there)); string(text) != "mine" || err != nil {
			t.Errorf("%s: %q, %v", there, text, err)
		}
	}
}

// Files below a submodule that is not initialised count, and a repository among them is one within.
func TestWhatIsBelowASubmoduleCounts(t *testing.T) {
	for below, want := range map[string]string{"sub/file\x00": "{inner: dirty:true unseen:[sub]}", "sub/in/\x00": "{inner:sub/in/ dirty:true unseen:[sub]}", "": "{inner: dirty:false unseen:[]}"} {
		s := newScripted(t, "--others "+below, "ls-files H 160000 a 0\tsub\x00")
		s.put("../sub/x", "")
		got, err := s.tree().status(t.Context(), nil)
		if fmt.Sprintf("%+v", got) != want || err != nil {
			t.Errorf("%q: %+v, %v", below, got, err)
		}
	}
}

// A settle that was killed after it had staged everything is over, and nothing of it is left.
func TestASettleThatWasKilledAtItsEnd(t *testing.T) {
	s := newScripted(t)
	dir := s.linked("t", id("c"), "")
	s.put("worktrees/t/"+besideIndex+"/"+settledNote, id("a")+"\x00file\x00")
	s.put("worktrees/t/"+besideIndex+"/"+settledIndex, "x")
	staged := "then"
	s.cli.exec = func(cmd *exec.Cmd) error {
		switch noted := slices.ContainsFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "GIT_INDEX_FILE=") }); {
		case slices.Contains(cmd.Args, "reset"):
			staged = "now"
		case slices.Contains(cmd.Args, "ls-files") && noted:
			s.answers = []string{"ls-files 100644 " + staged + " 0\tfile\x00"}
		case slices.Contains(cmd.Args, "ls-files"):
			s.answers = []string{"ls-files 100644 now 0\tfile\x00"}
		}
		return s.run(cmd)
	}
	settled, err := s.endSettle(t.Context(), tree{cli: s.cli, w: s.worktree("t"), dir: dir}, true)
	if !settled || err != nil || s.there("worktrees/t/"+besideIndex) || s.askedFor("write-tree") {
		t.Errorf("%t, %v; asked %q", settled, err, s.asked)
	}
}

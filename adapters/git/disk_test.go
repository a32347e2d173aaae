package git

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// brittleAt makes each git process of r fail whose arguments contain all these words.
func brittleAt(r *Repo, words ...string) {
	run := (*exec.Cmd).Run
	r.cli.exec = func(cmd *exec.Cmd) error {
		if len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(cmd.Args, w) }) {
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "echo " + onFire + " >&2; exit 128"}
		}
		return run(cmd)
	}
}

// looped puts a link to itself in the place of what is at path: whatever looks there fails. It returns what undoes that.
func looped(t testing.TB, path string) (undo func()) {
	t.Helper()
	aside := path + ".aside"
	was := os.Rename(path, aside)
	if was != nil && !errors.Is(was, iofs.ErrNotExist) {
		t.Fatal(was)
	}
	if err := os.Symlink(filepath.Base(path), path); err != nil {
		t.Fatal(err)
	}
	return func() {
		err := os.Remove(path)
		if was == nil {
			err = errors.Join(err, os.Rename(aside, path))
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// noAnswer reports an answer without an error, or with a part of one.
func noAnswer(t *testing.T, name string, answer []any) {
	t.Helper()
	err, _ := answer[len(answer)-1].(error)
	if err == nil {
		t.Errorf("%s: %v, and no error", name, answer)
	}
	for _, part := range answer[:len(answer)-1] {
		if v := reflect.ValueOf(part); v.IsValid() && !v.IsZero() && (v.Kind() != reflect.Map && v.Kind() != reflect.Slice || v.Len() > 0) {
			t.Errorf("%s: %v, with an answer", name, answer)
		}
	}
}

func all(parts ...any) []any { return parts }

// Where the list of worktrees cannot be read, nobody takes a worktree for the main one, or for none.
func TestTheListOfWorktreesCannotBeRead(t *testing.T) {
	ctx, o := t.Context(), newBrittle(t)
	r, dir, main := o.repo, o.tree.dir, o.rev("main")
	own := func(kernel.Context) bool { return false }
	asks := map[string]func() []any{
		"remember":        func() []any { return all(r.Remember(ctx, dir, false)) },
		"settle":          func() []any { return all(r.Settle(ctx, dir, nil)) },
		"put back":        func() []any { return all(r.PutBack(ctx, dir)) },
		"forget":          func() []any { return all(r.Forget(ctx, dir)) },
		"a merge":         func() []any { return all(r.MergeState(ctx, dir)) },
		"set a merge":     func() []any { return all(r.SetMergeState(ctx, dir, main, main, main)) },
		"squashing":       func() []any { return all(r.Squashing(ctx, dir)) },
		"rebasing":        func() []any { return all(r.Rebasing(ctx, dir)) },
		"merging":         func() []any { return all(r.Merging(ctx, dir)) },
		"strays":          func() []any { return all(r.StrayWorktrees(own)) },
		"its name":        func() []any { return all(r.WorktreeNamed("draft-1")) },
		"repair":          func() []any { return all(r.RepairWorktree(ctx, o.ctx)) },
		"half way":        func() []any { return all(r.HalfWay()) },
		"end half way":    func() []any { return all(r.EndHalfWay(ctx, dir)) },
		"who stands":      func() []any { return all(r.Standing(ctx, "draft/a")) },
		"ensure":          func() []any { return all(r.EnsureWorktree(ctx, "draft-1", "draft-1", "draft/a", "")) },
		"owned":           func() []any { return all(r.OwnedWorktree("draft-1")) },
		"unstaged":        func() []any { return all(r.Unstaged(ctx, dir)) },
		"commit":          func() []any { return all(r.Commit(ctx, dir, "work")) },
		"stage":           func() []any { return all(r.Stage(ctx, dir, []string{"new"}, nil)) },
		"a patch":         func() []any { return all(r.Patch(ctx, dir)) },
		"left over":       func() []any { return all(r.Leftover(ctx, dir)) },
		"no conflict":     func() []any { return all(r.neverInConflict(dir)) },
		"who has it out":  func() []any { return all(r.cli.checkedOut(ctx, "draft/a")) },
		"an obstacle":     func() []any { return all(r.Obstacle(ctx, "draft/a")) },
		"end an advance":  func() []any { return all(r.EndAdvance(ctx, "draft/a")) },
		"drop its locks":  func() []any { return all(r.DropStaleLocks(dir, time.Now())) },
		"remove":          func() []any { return all(r.removeWorktree(ctx, dir, "draft-1", "draft/a", removed)) },
		"what is held":    func() []any { return all(r.Unheld(ctx)) },
		"delete a branch": func() []any { return all(r.DeleteBranch(ctx, "draft/a", o.rev("draft/a"))) },
		"release":         func() []any { return all(r.Release(ctx, dir)) },
		"what is within":  func() []any { return all(r.checkInner(ctx, dir)) },
		"damage":          func() []any { return all(r.Damage(o.ctx)) },
		"what is in it":   func() []any { return all(r.brokenAt(dir, o.ctx)) },
		"keep staged":     func() []any { return all(r.keepStaged(ctx, dir)) },
	}
	o.git("update-ref", heldRefs+"gone/before", string(main))
	before := o.stands()
	undo := looped(t, o.path(".git/worktrees"))
	for name, ask := range asks {
		noAnswer(t, name, ask())
	}
	undo()
	if after := o.stands(); after != before {
		t.Errorf("it stands\n%s\nand not\n%s", after, before)
	}
	if dir, err := r.WorktreeNamed("draft-1"); dir != o.tree.dir || err != nil {
		t.Errorf("%s, %v", dir, err)
	}
	if dir, err := r.WorktreeNamed("draft-2"); dir != "" || err != nil {
		t.Errorf("%s, %v", dir, err)
	}
}

// What cannot be looked at, or made, is told by who needs it, and no answer comes of a part.
func TestWhatCannotBeLookedAt(t *testing.T) {
	ctx, o := t.Context(), newBrittle(t)
	r, dir, main := o.repo, o.tree.dir, o.rev("main")
	if err := r.Remember(ctx, dir, false); err != nil {
		t.Fatal(err)
	}
	at, err := r.treeAt(dir)
	if err != nil {
		t.Fatal(err)
	}
	git, notes := at.w.gitDir, filepath.Join(at.w.gitDir, besideIndex)
	index, common := filepath.Join(git, "index"), r.root.CommonDir
	i, err := at.cli.index(ctx, command{dir: dir, env: at.env()})
	if err != nil || len(i.links) > 0 {
		t.Fatal(i, err)
	}
	if err := at.noteSettled("", nil); err != nil {
		t.Fatal(err)
	}
	undo := looped(t, filepath.Join(git, "MERGE_HEAD"))
	noAnswer(t, "what was being settled", all(r.endSettle(ctx, at, false)))
	undo()
	for name, answer := range map[string][]any{
		"a long name, to restore": all(restore("/"+strings.Repeat("x", 300), o.path("copy"))),
		"a directory, to copy":    all(copyIndex(o.dir, o.path("copy"))),
	} {
		noAnswer(t, name, answer)
	}
	begun := Begun{Branch: "main", From: main, Commit: o.rev("ahead"), Tag: "v1"}
	for name, c := range map[string]struct {
		at  string
		ask func() []any
	}{
		"copies of a merge":        {filepath.Join(git, "MERGE_MSG"), func() []any { return all(r.Remember(ctx, dir, false)) }},
		"the notes":                {notes, func() []any { return all(r.PutBack(ctx, dir)) }},
		"the note of a settle":     {filepath.Join(notes, settledNote), func() []any { return all(r.endSettle(ctx, at, false)) }},
		"the index, to stage":      {index, func() []any { return all(at.staging(ctx, []string{"new"})) }},
		"the index, to note":       {index, func() []any { return all(at.noteSettled(main, nil)) }},
		"the new note":             {filepath.Join(notes, settledNote+".new"), func() []any { return all(at.noteSettled(main, nil)) }},
		"the index that was noted": {filepath.Join(notes, settledIndex), func() []any { return all(at.sinceSettle(ctx, main, nil)) }},
		"the index, to copy":       {index, func() []any { return all(at.commit(ctx, main, nil)) }},
		"what is staged":           {index, func() []any { return all(at.staged(ctx, main, main, false)) }},
		"an index":                 {index, func() []any { return all(copyIndex(index, o.path("copy"))) }},
		"what was copied":          {index, func() []any { return all(restore(index, o.path("copy"))) }},
		"where it goes":            {o.path("copy.vizier"), func() []any { return all(restore(filepath.Join(common, "index"), o.path("copy"))) }},
		"a merge of all":           {filepath.Join(common, "MERGE_HEAD"), func() []any { return all(r.Operation()) }},
		"who has it out":           {filepath.Join(common, "HEAD"), func() []any { return all(r.cli.checkedOut(ctx, "draft/a")) }},
		"its branch":               {o.path(".git/refs/heads/draft"), func() []any { return all((&following{repo: r, w: Worktree{Path: dir, Branch: "main"}}).stays(ctx)) }},
		"locks of its branch": {o.path(".git/refs/heads/draft"), func() []any {
			return all((&following{repo: r, w: Worktree{Path: dir, Branch: "main"}}).dropRefLocks(ctx))
		}},
		"what is in progress":       {filepath.Join(git, "MERGE_HEAD"), func() []any { return all(operation(git)) }},
		"picks in progress":         {filepath.Join(git, "sequencer"), func() []any { return all(operation(git)) }},
		"an obstacle in progress":   {filepath.Join(git, "MERGE_HEAD"), func() []any { return all(r.Obstacle(ctx, "draft/a")) }},
		"tables of refs":            {common, func() []any { return all(r.symbolic(ctx, "refs/heads/main")) }},
		"refs of notes":             {common, func() []any { return all(r.Unheld(ctx)) }},
		"what is parked":            {filepath.Join(common, "packed-refs"), func() []any { return all(r.ParkedOf(ctx, nil)) }},
		"what is parked long since": {filepath.Join(common, "packed-refs"), func() []any { return all(r.DropStaged(ctx, time.Now())) }},
		"the release":               {filepath.Join(common, releasingFile), func() []any { return all(r.BeginReleasing()) }},
		"the release that was left": {filepath.Join(common, releasingFile), func() []any { return all(r.LeftRelease()) }},
		"the configuration":         {filepath.Join(common, "config"), func() []any { return all(FindRoot(o.dir)) }},
		"left files":                {o.path(worktreeHome), func() []any { return all(r.LeftFiles()) }},
		"stray worktrees":           {o.path(worktreeHome), func() []any { return all(r.StrayWorktrees(func(kernel.Context) bool { return true })) }},
		"a repository within":       {filepath.Join(dir, ".git"), func() []any { return all(gitDirOf(dir)) }},
		"the reflog":                {filepath.Join(git, "logs"), func() []any { return all(r.saveLogged(ctx, at.w)) }},
		"a place, made":             {o.path(worktreeHome), func() []any { return all(usable(dir)) }},
		"a place, taken":            {o.path(worktreeHome + "/here"), func() []any { return all(r.inUse(o.path(worktreeHome+"/here/x"), "")) }},
		"a submodule's link":        {o.path("sub"), func() []any { return all(ownSubmodule(o.path("sub"), common)) }},
		"a module":                  {o.path("sub"), func() []any { return all(r.cli.leftBehind(ctx, o.dir, "sub")) }},
		"where it was moved":        {filepath.Join(git, "gitdir.new"), func() []any { return all(r.repoint(at.w)) }},
		"where it is":               {filepath.Join(git, "gitdir"), func() []any { return all(r.repoint(at.w)) }},
		"what stages":               {o.path("sub"), func() []any { return all(r.cli.stagePaths(ctx, command{dir: o.dir}, []string{"sub/x"})) }},
		"a worktree to put back":    {o.path(worktreeHome), func() []any { return all(r.PutBack(ctx, dir)) }},
		"whether it is whole":       {index, func() []any { return all(soundIndex(index)) }},
		"where a branch is":         {filepath.Join(common, "HEAD"), func() []any { _, _, err := r.BranchAt(ctx, "draft/a"); return all(err) }},
		"damage":                    {o.path(worktreeHome), func() []any { return all(r.Damage(o.ctx)) }},
		"a damaged one":             {index, func() []any { return all(r.Release(ctx, dir)) }},
		"a state of a merge":        {o.path(worktreeHome), func() []any { return all(r.MergeState(ctx, dir)) }},
		"contents":                  {filepath.Join(common, "worktrees"), func() []any { return all(r.contents(ctx, at)) }},
		"a branch of the list":      {filepath.Join(common, "refs/heads/draft"), func() []any { return all(r.worktreesOn(ctx, "main")) }},
		"the release, looked at":    {filepath.Join(common, "refs"), func() []any { return all(r.Undoes(ctx, begun)) }},
	} {
		undo := looped(t, c.at)
		noAnswer(t, name, c.ask())
		undo()
	}
}

// Where no temporary directory can be made, nothing is answered that takes one.
func TestNoTemporaryDirectoryCanBeMade(t *testing.T) {
	ctx, o := t.Context(), newBrittle(t)
	r, dir, main := o.repo, o.tree.dir, o.rev("main")
	if err := r.Remember(ctx, dir, true); err != nil {
		t.Fatal(err)
	}
	o.tree.git("add", "new")
	at, err := r.treeAt(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := o.stands()
	t.Setenv("TMPDIR", o.path("none"))
	f := &following{repo: r, w: at.w, from: main, to: main}
	for name, ask := range map[string]func() []any{
		"stage":              func() []any { return all(at.staging(ctx, []string{"new"})) },
		"stage what is new":  func() []any { return all(at.sinceRemember(ctx, []string{"new"})) },
		"what was settled":   func() []any { return all(at.sinceSettle(ctx, main, nil)) },
		"what is staged now": func() []any { return all(at.withStaged(ctx, main, main)) },
		"put back":           func() []any { return all(r.PutBack(ctx, dir)) },
		"become":             func() []any { return all(at.becomes(ctx, string(main), string(main))) },
		"its status": func() []any {
			o.tree.git("update-index", "--assume-unchanged", ".gitignore")
			return all(at.status(ctx, nil))
		},
		"a commit":       func() []any { return all(at.commit(ctx, main, nil)) },
		"what is staged": func() []any { return all(at.staged(ctx, main, main, false)) },
		"remember":       func() []any { return all(r.Remember(ctx, dir, true)) },
		"settle":         func() []any { return all(r.Settle(ctx, dir, nil)) },
		"follow":         func() []any { return all(f.forward(ctx)) },
		"come back":      func() []any { return all(f.bring(ctx, filepath.Join(at.w.gitDir, "index"))) },
	} {
		noAnswer(t, name, ask())
	}
	if after := o.stands(); after != before {
		t.Errorf("it stands\n%s\nand not\n%s", after, before)
	}
}

// Whichever git process fails, nothing is said of a worktree that is as Remember noted it.
func TestWhicheverGitFailsNothingIsSaidOfARememberedWorktree(t *testing.T) {
	ctx, o := t.Context(), newResolved(t, true)
	r, dir, main := o.repo, o.tree.dir, o.rev("main")
	o.tree.write("staged", "x")
	o.tree.git("add", "staged")
	o.tree.git("update-index", "--assume-unchanged", ".gitignore")
	at, err := r.treeAt(dir)
	if err != nil {
		t.Fatal(err)
	}
	before, err := at.noted(ctx, "before")
	if err != nil || before == "" {
		t.Fatal(before, err)
	}
	if err := at.noteSettled("", []string{"file"}); err != nil {
		t.Fatal(err)
	}
	brittleAt(r, "write-tree")
	noAnswer(t, "a resolution that was begun", all(r.endSettle(ctx, at, true)))
	brittleAt(r)
	if err := at.noteSettled(main, []string{"file"}); err != nil {
		t.Fatal(err)
	}
	for k := 1; ; k++ { // until none fails: then it is not what is to be settled
		calls := brittle(r, k)
		answer := all(r.endSettle(ctx, at, true))
		if *calls < k {
			if answer[0] != false || answer[1] != nil {
				t.Errorf("to end a settle: %v", answer)
			}
			break
		}
		noAnswer(t, fmt.Sprintf("to end a settle, process %d fails", k), answer)
	}
	brittle(r, 0)
	o.tree.git("add", "lib")
	for _, c := range []struct {
		name string
		ask  func() []any
	}{ // in this order: what is remembered anew is staged no more
		{"its contents", func() []any { now, _, err := r.contents(ctx, at); return all(now, err) }},
		{"what to hold", func() []any { return all(second(at.holding(ctx, main))) }},
		{"what is settled", func() []any { return all(at.sinceSettle(ctx, main, []string{"file"})) }},
		{"what was staged", func() []any { return all(at.withStaged(ctx, before, main)) }},
		{"what to stage", func() []any { return all(second(r.toStage(ctx, at, nil))) }},
		{"becomes", func() []any { return all(at.becomes(ctx, string(before), string(before))) }},
		{"look again", func() []any {
			return all(r.lookAgain(ctx, at, filepath.Join(at.w.gitDir, "index"), string(before)+"^{tree}", string(main)+"^{tree}"))
		}},
		{"staged", func() []any { return all(at.staged(ctx, main, before, true)) }},
		{"all of it", func() []any { return all(second(at.whole(ctx, false))) }},
		{"remember", func() []any { return all(r.Remember(ctx, dir, true)) }},
	} {
		name, ask := c.name, c.ask
		answer := ask()
		if err := answer[len(answer)-1]; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		calls := brittle(r, 0)
		ask() // after the first time, no change is hidden from git any more
		for k, n := 1, *calls; k <= n; k++ {
			brittle(r, k)
			noAnswer(t, fmt.Sprintf("%s, process %d of %d fails", name, k, n), ask())
		}
	}
	brittle(r, 0)
}

// Whatever git does not do, a worktree that is put back is put back at the next try.
func TestPutBackGoesOn(t *testing.T) {
	ctx := t.Context()
	for _, confined := range []bool{true, false} {
		o := newResolved(t, confined)
		r, dir := o.repo, o.tree.dir
		o.tree.git("add", "lib")
		before := o.tree.git("rev-parse", beforeRef) + "^"
		for _, words := range [][]string{{"commit-tree"}, {"ls-files", "--stage"}, {"rev-parse"}, {"rev-parse", before}, {"diff-tree"}, {"read-tree"}, {"read-tree", "--reset"}, {"update-ref"}} {
			brittleAt(r, words...)
			changed, err := r.PutBack(ctx, dir)
			if confined && words[0] == "update-ref" { // it is put back, and not forgotten
				changed = !changed
			}
			noAnswer(t, fmt.Sprintf("confined %t, %q fails", confined, words), all(changed, err))
			if slices.Contains(words, "--reset") && !confined {
				brittleAt(r)
				undo := looped(t, o.path(".git/worktrees/draft-1/SQUASH_MSG.vizier"))
				noAnswer(t, "a file cannot be put back", all(r.PutBack(ctx, dir)))
				undo()
			}
		}
		brittleAt(r)
		if _, err := r.PutBack(ctx, dir); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(o.tree.path("file"))
		if err != nil || !strings.Contains(string(text), "=======") {
			t.Errorf("confined %t: %q, %v", confined, text, err)
		}
		if _, err := os.Lstat(o.tree.path("lib/helper")); (err == nil) != confined { // what somebody has staged stays
			t.Errorf("confined %t: %v", confined, err)
		}
		if had, err := r.PutBack(ctx, dir); had || err != nil {
			t.Errorf("it is not forgotten: %t, %v", had, err)
		}
	}
}

// shut returns a file that is closed.
func shutFile(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The steps of a working tree that follows its branch say what keeps them from their work.
func TestAFollowingTreeWithoutItsFiles(t *testing.T) {
	ctx, o := t.Context(), newBrittle(t)
	r, dir := o.repo, t.TempDir()
	at, err := r.treeAt(o.tree.dir)
	if err != nil {
		t.Fatal(err)
	}
	from, to := o.rev("main"), o.rev("ahead")
	index, file := filepath.Join(at.w.gitDir, "index"), filepath.Join(dir, "file")
	on := func(gitDir string, diff ...changedFile) *following {
		w := at.w
		w.gitDir = gitDir
		return &following{repo: r, w: w, note: shutFile(t, file), from: from, to: to, diff: diff}
	}
	lies := func(names ...string) *following {
		gitDir := t.TempDir()
		for _, name := range names {
			if err := os.MkdirAll(filepath.Join(gitDir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		return on(gitDir, changedFile{path: "file", old: fileEntry{"100644", "x"}})
	}
	long := changedFile{path: strings.Repeat("x", 300), old: fileEntry{"100644", "x"}, new: fileEntry{"100644", "y"}}
	comes := long
	comes.old.mode = noMode
	if f := on(at.w.gitDir); f.current(file) {
		t.Error("a note that is shut is the one that is there")
	}
	for name, ask := range map[string]func() []any{
		"a note below a file":      func() []any { return all(r.take(Worktree{gitDir: file}, false)) },
		"begin below a file":       func() []any { return all(r.begin(ctx, on(file).w, from, to)) },
		"to read the note":         func() []any { return all(on(at.w.gitDir).read()) },
		"to write the note":        func() []any { return all(on(at.w.gitDir).write()) },
		"to end":                   func() []any { return all(on(at.w.gitDir).done()) },
		"a lock below a file":      func() []any { return all(on(file).lockIndex(ctx)) },
		"what is locked":           func() []any { return all(on(at.w.gitDir).dropRefLocks(ctx)) },
		"to arrive":                func() []any { return all(on(dir).arrive()) },
		"a long path":              func() []any { return all(on(at.w.gitDir, long).blocked(ctx)) },
		"a long path in the way":   func() []any { return all(on(at.w.gitDir, comes).inTheWay(ctx)) },
		"a long path to keep":      func() []any { return all(on(at.w.gitDir, long).preserve(ctx)) },
		"a long path to come":      func() []any { return all(on(at.w.gitDir, long).bring(ctx, index)) },
		"a copy that is none":      func() []any { return all(lies(followOld + "/0").isOld(0)) },
		"to bring what has a copy": func() []any { f := lies(followOld + "/0"); return all(f.bring(ctx, index)) },
		"an index that is none":    func() []any { return all(lies(followIndex + "/x").copyIndex()) },
		"to go forward":            func() []any { return all(lies(followIndex + "/x").forward(ctx)) },
		"to copy what is gone":     func() []any { return all(copyNew(dir+"/gone", dir+"/copy", false)) },
		"to copy to what is there": func() []any { return all(copyNew(file, file, false)) },
	} {
		noAnswer(t, name, ask())
	}
	f := lies(followIndex + "/x")
	if f.note, err = os.Create(filepath.Join(f.w.gitDir, followNote)); err != nil {
		t.Fatal(err)
	}
	if err := f.done(); err == nil {
		t.Error("it is done, and its index is left")
	}
	if _, err := f.note.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its note is still held: %v", err)
	}
	f = lies()
	if f.note, err = os.Create(filepath.Join(f.w.gitDir, followNote)); err != nil {
		t.Fatal(err)
	}
	f.w.gitDir = dir + "/gone"
	if err := f.write(); err == nil {
		t.Error("a note in a directory that is gone is durable")
	}
	for name, ask := range map[string]func(*following) []any{
		"where it stands":  func(f *following) []any { return all(f.stays(ctx)) },
		"what is locked":   func(f *following) []any { return all(f.dropRefLocks(ctx)) },
		"a refusal":        func(f *following) []any { return all(f.refusal(ctx, iofs.ErrInvalid)) },
		"what to keep":     func(f *following) []any { return all(f.keep(ctx)) },
		"what to preserve": func(f *following) []any { return all(f.preserve(ctx)) },
		"what is in it":    func(f *following) []any { return all(f.entries(ctx, index)) },
		"to go forward":    func(f *following) []any { return all(f.forward(ctx)) },
		"to come back":     func(f *following) []any { return all(f.bring(ctx, index)) },
	} {
		again := func() *following {
			f := on(at.w.gitDir, changedFile{path: "file", old: fileEntry{"100644", "x"}, new: fileEntry{"100644", "y"}})
			if f.note, err = os.Open(file); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.note.Close() })
			f.kept, f.w.Branch = []string{"file"}, "main"
			return f
		}
		calls := brittle(r, 0)
		ask(again())
		for k, n := 1, *calls; k <= n; k++ {
			brittle(r, k)
			noAnswer(t, fmt.Sprintf("%s, process %d of %d fails", name, k, n), ask(again()))
		}
		brittle(r, 0)
	}
	shut := &UnreadError{Tree: "/t", Paths: []string{"x"}}
	if got, err := on(at.w.gitDir).refusal(ctx, shut); got != "but "+cannotRead("/t/x") || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if is, err := on(at.w.gitDir).given(ctx, changedFile{path: "file"}, fileEntry{"120000", "x"}); is || err != nil {
		t.Errorf("a link: %t, %v", is, err)
	}
}

// A file is as its copy if it has the same content, however long, and may be executed alike.
func TestWhichFilesAreTheSame(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode iofs.FileMode) *os.File {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	long := strings.Repeat("x", 1<<17)
	for name, c := range map[string]struct {
		text string
		mode iofs.FileMode
		is   bool
	}{
		"the same":          {long + "y", 0o600, true},
		"executed by all":   {long + "y", 0o644, true},
		"to be executed":    {long + "y", 0o700, false},
		"shorter":           {long, 0o600, false},
		"another end":       {long + "z", 0o600, false},
		"another beginning": {"z" + long, 0o600, false},
	} {
		if is, err := same(file("a", long+"y", 0o600), file(name, c.text, c.mode)); is != c.is || err != nil {
			t.Errorf("%s: %t, %v", name, is, err)
		}
	}
	for _, text := range []string{"", strings.Repeat("x", 1<<16)} {
		if is, err := same(file("b", text, 0o600), file("c", text, 0o600)); !is || err != nil {
			t.Errorf("%d bytes: %t, %v", len(text), is, err)
		}
	}
	shut := shutFile(t, filepath.Join(dir, "shut"))
	if is, err := same(file("d", "", 0o600), shut); is || err == nil {
		t.Errorf("one that is shut: %t, %v", is, err)
	}
	written, err := os.OpenFile(filepath.Join(dir, "a"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	if is, err := same(written, written); is || err == nil {
		t.Errorf("one that is only written to: %t, %v", is, err)
	}
}

// A copy is given back where links do not lead, on another file system, and not at all if there is no room for it.
func TestACopyIsGivenBackOnAnotherFileSystem(t *testing.T) {
	gitDir, tree := t.TempDir(), disktest.Small(t, 1<<20)
	if err := os.Mkdir(filepath.Join(gitDir, followOld), 0o700); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(gitDir, followOld, "0")
	f := &following{w: Worktree{Path: tree, gitDir: gitDir}, diff: []changedFile{{path: "sub/file"}}}
	for text, fits := range map[string]bool{"as it was": true, strings.Repeat("x", 2<<20): false} {
		if err := os.WriteFile(copied, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := f.giveBack(0); (err == nil) != fits || err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%.9s: %v", text, err)
		}
		path := filepath.Join(tree, "sub/file")
		if got, err := os.ReadFile(path); (err == nil) != fits || fits && string(got) != text {
			t.Errorf("%.9s: %.9q, %v", text, got, err)
		}
		if st, err := os.Stat(path); fits && (err != nil || st.Mode().Perm() != 0o755) {
			t.Errorf("%v, %v", st, err)
		}
		_ = os.Remove(path)
	}
}

// A tree that somebody has changed elsewhere follows all the same; one that is on its way already is left to who brings it there.
func TestATreeThatIsChangedElsewhereFollows(t *testing.T) {
	ctx, f := t.Context(), newFixture(t)
	f.commit("other", "x")
	from := f.commit("file", "1")
	f.git("switch", "--quiet", "--create", "ahead")
	to := f.commit("file", "2")
	f.git("switch", "--quiet", "main")
	f.write("other", "mine")
	r := Open(f.root())
	w := Worktree{Path: f.dir, Branch: "main", gitDir: f.path(".git")}
	way, obstacle, err := r.begin(ctx, w, from, to)
	if way == nil || obstacle != "" || err != nil {
		t.Fatalf("%v, %q, %v", way, obstacle, err)
	}
	if got, err := os.ReadFile(f.path("file")); string(got) != "2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	way.release() // as if it was killed
	if again, obstacle, err := r.begin(ctx, w, from, to); again != nil || obstacle != isFollowing || err != nil {
		t.Errorf("once more: %v, %q, %v", again, obstacle, err)
	}
	if dirs, err := r.HalfWay(); fmt.Sprint(dirs) != "["+f.dir+"]" || err != nil {
		t.Errorf("half way: %v, %v", dirs, err)
	}
	if err := r.EndHalfWay(ctx, f.path("elsewhere")); err != nil {
		t.Error(err)
	}
	if dirs, err := r.HalfWay(); fmt.Sprint(dirs) != "["+f.dir+"]" || err != nil {
		t.Errorf("still half way: %v, %v", dirs, err)
	}
	if err := r.EndHalfWay(ctx, f.dir); err != nil {
		t.Error(err)
	}
	if dirs, err := r.HalfWay(); len(dirs) > 0 || err != nil {
		t.Errorf("half way: %v, %v", dirs, err)
	}
	file, _ := os.ReadFile(f.path("file"))
	other, _ := os.ReadFile(f.path("other"))
	if string(file) != "1" || string(other) != "mine" || f.git("status", "--porcelain") != "M other" {
		t.Errorf("file %q, other %q: %s", file, other, f.git("status", "--porcelain"))
	}
}

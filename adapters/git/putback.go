package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// beforeRef is the ref of a linked worktree that keeps what its files were at Remember.
const beforeRef = mergeRefs + "before"

// besideIndex is the directory, in a worktree's git directory, with the copies that Remember makes of
// inProgress.
const besideIndex = "vizier-before"

// inProgress are the files of a worktree's git directory that say how far a merge is.
var inProgress = [...]string{"index", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG"}

// confinedNote is the file beside these copies that says that what works in the worktree cannot write to its index.
const confinedNote = "confined"

// settledNote is the file beside these copies that says that what worked in the worktree has ended well. It has a commit of
// what that left (the ref settled below mergeRefs keeps it), or nothing if git could not make it, and the paths to stage of it, without a commit
// those that were resolved. Each of these ends with a NUL.
const settledNote = "settled"

// settledIndex is the copy of the index that settledNote is about.
const settledIndex = "index.settled"

// Remember notes the state of the linked worktree at dir, in which a merge is in progress, for PutBack: its
// commit, its files and its index. confined says that the program that is to work there cannot write to the
// index. It fails if the worktree contains another repository. It does nothing in
// the main working tree.
func (r *Repo) Remember(ctx context.Context, dir string, confined bool) error {
	t, err := r.treeAt(dir)
	if err != nil || t.w.Name == "" {
		return err
	}
	now, _, err := r.contents(ctx, t)
	if err != nil {
		return fmt.Errorf("note how worktree %s is: %w", dir, err)
	}
	notes := filepath.Join(t.w.gitDir, besideIndex)
	err = sys.RemoveTree(notes)
	if err == nil {
		err = os.Mkdir(notes, 0o700)
	}
	for _, name := range inProgress {
		if err == nil {
			err = copyIndex(filepath.Join(t.w.gitDir, name), filepath.Join(notes, name))
		}
	}
	if err == nil && confined {
		err = os.WriteFile(filepath.Join(notes, confinedNote), nil, 0o600)
	}
	if err != nil {
		return err
	}
	keep, err := t.holding(ctx, now)
	if err != nil {
		return fmt.Errorf("note how worktree %s is: %w", dir, err)
	}
	source, target, merged, err := r.MergeState(ctx, dir)
	if err != nil {
		return err
	}
	holds := []hold{{"before", now, keep}}
	for _, h := range []hold{{"source", source, source}, {"target", target, target}, {"merged", merged, merged}} { // an earlier version did not hold these
		if h.commit == "" {
			continue
		}
		has, err := r.Has(ctx, h.commit)
		if err != nil {
			return err
		}
		if has {
			holds = append(holds, h)
		}
	}
	return t.hold(ctx, holds...)
}

// Settle stages what was resolved in the linked worktree at dir since Remember by a program that has ended well: the
// paths resolved, relative to dir, and all else that was changed or made and is not in conflict: if others are, what is as it was
// at Remember stays as it is. Then it forgets that.
// If it fails or is killed, PutBack ends it. What is staged is what the program left, all of it at once.
func (r *Repo) Settle(ctx context.Context, dir string, resolved []string) error {
	t, err := r.treeAt(dir)
	if err != nil {
		return err
	}
	if t.w.Name == "" {
		paths, err := r.toStage(ctx, t, resolved)
		if err != nil {
			return err
		}
		return r.cli.stagePaths(ctx, command{dir: dir}, paths)
	}
	files, paths, err := r.resolution(ctx, t, resolved)
	if err != nil {
		return errors.Join(err, t.noteSettled("", resolved))
	}
	return r.settle(ctx, t, files, paths)
}

// settle stages the paths as the commit files has them, and ends with that what Settle has begun.
func (r *Repo) settle(ctx context.Context, t tree, files kernel.CommitID, paths []string) error {
	if err := t.reset(ctx, nil, files, paths); err != nil {
		return fmt.Errorf("stage what was changed: %w", err)
	}
	return r.Forget(ctx, t.dir)
}

// resolution returns the paths in t that Settle is to stage, and a commit that has their files, and notes both.
func (r *Repo) resolution(ctx context.Context, t tree, resolved []string) (files kernel.CommitID, paths []string, err error) {
	paths, err = r.toStage(ctx, t, resolved)
	var content string
	if err == nil {
		content, err = t.staging(ctx, paths)
	}
	var head kernel.CommitID
	if err == nil {
		head, err = t.head(ctx)
	}
	if err == nil {
		files, err = t.keep(ctx, head, content, "Resolution")
	}
	if err == nil {
		err = t.hold(ctx, hold{"settled", files, files})
	}
	if err != nil {
		return "", nil, fmt.Errorf("stage what was changed: %w", err)
	}
	return files, paths, t.noteSettled(files, paths)
}

// staging returns a tree of what t's index would have if paths were staged, without what is in conflict.
func (t tree) staging(ctx context.Context, paths []string) (string, error) {
	tmp, err := os.MkdirTemp("", "vizier-settle-")
	if err != nil {
		return "", err
	}
	defer sys.RemoveTree(tmp)
	index := filepath.Join(tmp, "index")
	if err := copyIndex(filepath.Join(t.w.gitDir, "index"), index); err != nil {
		return "", err
	}
	env := []string{"GIT_INDEX_FILE=" + index}
	at := command{dir: t.dir, env: append(t.env(), env...), quiet: true}
	if err := t.cli.stagePaths(ctx, at, paths); err != nil {
		return "", err
	}
	i, err := t.cli.index(ctx, at)
	if err == nil {
		err = t.cli.updateIndex(ctx, at, i.unmerged, "--force-remove") // else there is no tree
	}
	if err != nil {
		return "", err
	}
	return t.git(ctx, env, "write-tree")
}

// toStage returns the paths that Settle is to stage in t. Other repositories are not among them.
func (r *Repo) toStage(ctx context.Context, t tree, resolved []string) ([]string, error) {
	left, err := r.Unmerged(ctx, t.dir)
	if err != nil {
		return nil, err
	}
	changed, made, err := r.Unstaged(ctx, t.dir)
	if err != nil {
		return nil, err
	}
	repository := func(path string) bool { return strings.HasSuffix(path, "/") }
	inConflict := func(path string) bool { return slices.Contains(left, path) }
	others := slices.DeleteFunc(slices.DeleteFunc(slices.Concat(changed, made), repository), inConflict)
	if !slices.ContainsFunc(left, func(path string) bool { return !slices.Contains(resolved, path) }) {
		return slices.Concat(resolved, others), nil
	}
	others, err = t.sinceRemember(ctx, others)
	return slices.Concat(resolved, others), err
}

// sinceRemember returns those of paths, none of which is in conflict, that are not what they were at Remember. Where nothing is
// noted that is none.
func (t tree) sinceRemember(ctx context.Context, paths []string) ([]string, error) {
	before, err := t.noted(ctx, "before")
	if err != nil || before == "" || len(paths) == 0 {
		return nil, err
	}
	now, err := t.staging(ctx, paths)
	if err != nil {
		return nil, err
	}
	out, err := t.git(ctx, nil, "diff-tree", "-r", "-z", "--name-only", "--no-renames", string(before), now)
	differ := strings.Split(out, "\x00")
	return slices.DeleteFunc(paths, func(path string) bool { return !slices.Contains(differ, path) }), err
}

// noteSettled writes t's settledNote.
func (t tree) noteSettled(files kernel.CommitID, paths []string) error {
	notes := filepath.Join(t.w.gitDir, besideIndex)
	if err := copyIndex(filepath.Join(t.w.gitDir, "index"), filepath.Join(notes, settledIndex)); err != nil {
		return err
	}
	note := filepath.Join(notes, settledNote)
	if err := os.WriteFile(note+".new", []byte(strings.Join(slices.Concat([]string{string(files)}, paths, []string{""}), "\x00")), 0o600); err != nil {
		return err
	}
	return os.Rename(note+".new", note)
}

// PutBack makes the linked worktree at dir what it was at Remember, and forgets that. What has changed since is
// parked; changed reports whether there was anything. If only a person can have staged anything, the index stays as it is,
// and with it the files that were staged since. It does nothing if nothing is noted, and fails, and changes nothing, if git does
// not have all that is noted. If Settle has begun, and nobody has staged
// anything since, PutBack ends that instead.
func (r *Repo) PutBack(ctx context.Context, dir string) (changed bool, err error) {
	if present, err := exists(dir); err != nil || !present {
		return false, err
	}
	t, err := r.treeAt(dir)
	if err != nil || t.w.Name == "" {
		return false, err
	}
	confined, err := exists(filepath.Join(t.w.gitDir, besideIndex, confinedNote))
	if err != nil {
		return false, err
	}
	before, err := t.whole(ctx, confined)
	if err != nil || before == "" {
		return false, err
	}
	if settled, err := r.endSettle(ctx, t, confined); settled || err != nil {
		return false, err
	}
	now, head, err := r.contents(ctx, t)
	if err != nil {
		return false, fmt.Errorf("put worktree %s back: %w", dir, err)
	}
	files := string(before) + "^{tree}" // as they are to be
	if confined {
		if files, err = t.withStaged(ctx, before, now); err != nil {
			return false, err
		}
	}
	out, err := t.git(ctx, nil, "rev-parse", files, string(now)+"^{tree}", string(before)+"^")
	if err != nil {
		return false, err
	}
	is := strings.Fields(out) // the files as they are to be, the files now, the commit then
	if changed = is[0] != is[1] || !confined && is[2] != string(head); changed {
		becomes, index := putBack, filepath.Join(t.w.gitDir, besideIndex, "index")
		if confined {
			becomes, index = untouched, filepath.Join(t.w.gitDir, "index")
		}
		if err := r.save(ctx, t.w, true, becomes); err != nil {
			return false, err
		}
		if err := r.lookAgain(ctx, t, index, is[1], is[0]); err != nil {
			return false, err
		}
		if err := t.becomes(ctx, is[1], is[0]); err != nil {
			return false, err
		}
	}
	if confined {
		return changed, r.Forget(ctx, dir)
	}
	if _, err := t.git(ctx, []string{}, "update-ref", "--no-deref", "HEAD", is[2]); err != nil {
		return false, err
	}
	for _, name := range inProgress {
		if err := restore(filepath.Join(t.w.gitDir, besideIndex, name), filepath.Join(t.w.gitDir, name)); err != nil {
			return false, err
		}
	}
	return changed, r.Forget(ctx, dir)
}

// whole returns the commit that Remember has noted of t, "" if there is none. It fails if git does not have all that is noted
// there. Of what was staged it needs nothing if confined.
func (t tree) whole(ctx context.Context, confined bool) (before kernel.CommitID, err error) {
	if before, err = t.noted(ctx, "before"); err != nil || before == "" {
		return "", err
	}
	if _, err := t.noted(ctx, "settled"); err != nil {
		return "", err
	}
	index := filepath.Join(t.w.gitDir, besideIndex, "index")
	if there, err := exists(index); err != nil || !there || confined {
		return before, err
	}
	_, missing, err := t.besides(ctx, []string{"GIT_INDEX_FILE=" + index}, before)
	if err == nil && len(missing) > 0 {
		err = t.lost("what was staged of "+strings.Join(missing, ", "), nil)
	}
	return before, err
}

// endSettle ends the Settle in t that was cut off. It reports false if none was, or if somebody has staged something since, or
// changed what is to be staged: then what the program left is not taken. Where the program may have staged something itself,
// a merge that has ended otherwise is somebody's.
func (r *Repo) endSettle(ctx context.Context, t tree, confined bool) (settled bool, err error) {
	notes := filepath.Join(t.w.gitDir, besideIndex)
	note, err := os.ReadFile(filepath.Join(notes, settledNote))
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !confined {
		merging, err := operation(t.w.gitDir)
		if err != nil {
			return false, err
		}
		squashing, err := r.Squashing(ctx, t.dir)
		if err != nil {
			return false, err
		}
		if merging == "" && !squashing {
			return true, r.Forget(ctx, t.dir)
		}
	}
	words := strings.Split(strings.TrimSuffix(string(note), "\x00"), "\x00")
	noted, err := exists(filepath.Join(notes, settledIndex))
	if err != nil {
		return false, err
	}
	if !noted { // an earlier version noted only the paths resolved, and may have staged a part
		words = append([]string{""}, words...)
	}
	files, paths := kernel.CommitID(words[0]), slices.DeleteFunc(words[1:], func(path string) bool { return path == "" })
	same, after := true, false
	if noted {
		if same, after, err = t.sinceSettle(ctx, files, paths); err != nil {
			return false, err
		}
	}
	switch {
	case after:
		return true, r.Forget(ctx, t.dir)
	case !same:
		return false, nil
	case files == "":
		if files, paths, err = r.resolution(ctx, t, paths); err != nil {
			return false, err
		}
		return true, r.settle(ctx, t, files, paths)
	}
	content, err := t.staging(ctx, paths)
	if err != nil {
		return false, fmt.Errorf("stage what was changed: %w", err)
	}
	was, err := t.git(ctx, nil, "rev-parse", string(files)+"^{tree}")
	if err != nil || content != was {
		return false, err
	}
	return true, r.settle(ctx, t, files, paths)
}

// sinceSettle reports whether t's index is the same as when settledNote was written, or as after the staging of that note.
func (t tree) sinceSettle(ctx context.Context, files kernel.CommitID, paths []string) (same, after bool, err error) {
	tmp, err := os.MkdirTemp("", "vizier-settle-")
	if err != nil {
		return false, false, err
	}
	defer sys.RemoveTree(tmp)
	index := filepath.Join(tmp, "index")
	if err := copyIndex(filepath.Join(t.w.gitDir, besideIndex, settledIndex), index); err != nil {
		return false, false, err
	}
	env := []string{"GIT_INDEX_FILE=" + index}
	now, err := t.entries(ctx, nil)
	if err != nil {
		return false, false, err
	}
	then, err := t.entries(ctx, env)
	if err != nil || now == then || files == "" {
		return now == then, false, err
	}
	if err := t.reset(ctx, env, files, paths); err != nil {
		return false, false, err
	}
	then, err = t.entries(ctx, env)
	return false, now == then, err
}

// entries returns what t's index has, or the one that env names.
func (t tree) entries(ctx context.Context, env []string) (string, error) {
	return t.git(ctx, env, "ls-files", "--stage", "-z", "--", ":(top)")
}

// stagedSince returns the paths at which t's index, or the one that env names, is not what it was at Remember.
func (t tree) stagedSince(ctx context.Context, env []string) (paths []string, err error) {
	differ := map[string]int{} // entries of the index, then or now; both have the others
	for i, env := range [][]string{{"GIT_INDEX_FILE=" + filepath.Join(t.w.gitDir, besideIndex, "index")}, env} {
		out, err := t.entries(ctx, env)
		if err != nil {
			return nil, err
		}
		for entry := range strings.SplitSeq(out, "\x00") {
			if differ[entry]++; i > 0 && differ[entry] > 1 {
				delete(differ, entry)
			}
		}
	}
	for entry := range differ {
		_, path, _ := strings.Cut(entry, "\t")
		paths = append(paths, path)
	}
	return paths, nil
}

// withStaged returns a tree with the files of the commit before, but those of now that were staged since Remember.
func (t tree) withStaged(ctx context.Context, before, now kernel.CommitID) (string, error) {
	paths, err := t.stagedSince(ctx, nil)
	if err != nil {
		return "", err
	}
	if len(paths) == 0 {
		return string(before) + "^{tree}", nil
	}
	tmp, err := os.MkdirTemp("", "vizier-put-back-")
	if err != nil {
		return "", err
	}
	defer sys.RemoveTree(tmp)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(tmp, "index")}
	if _, err := t.git(ctx, env, "read-tree", string(before)); err != nil {
		return "", err
	}
	if err := t.reset(ctx, env, now, paths); err != nil {
		return "", err
	}
	return t.git(ctx, env, "write-tree")
}

// Forget drops what Remember noted.
func (r *Repo) Forget(ctx context.Context, dir string) error {
	t, err := r.treeAt(dir)
	if err != nil || t.w.Name == "" {
		return err
	}
	if err := t.hold(ctx, hold{name: "before"}, hold{name: "settled"}); err != nil {
		return err
	}
	return sys.RemoveTree(filepath.Join(t.w.gitDir, besideIndex))
}

// treeAt returns the linked worktree at dir. It has no name if there is none.
func (r *Repo) treeAt(dir string) (tree, error) {
	w, err := worktreeAt(r.root.CommonDir, dir)
	return tree{cli: r.cli, w: w, dir: dir}, err
}

// contents returns a commit of t's files on top of its head, and that. It fails if t contains another repository.
func (r *Repo) contents(ctx context.Context, t tree) (now, head kernel.CommitID, err error) {
	modules, err := r.cli.modules(ctx, t.w)
	if err != nil {
		return "", "", err
	}
	s, err := t.status(ctx, modules)
	if err != nil {
		return "", "", err
	}
	if s.inner != "" {
		return "", "", fmt.Errorf("it contains another repository, %s: move that away, then try again", s.inner)
	}
	if head, err = t.head(ctx); err != nil {
		return "", "", err
	}
	now, err = t.commit(ctx, head, s.unseen)
	return now, head, err
}

// becomes changes t's files from those of a tree to those of another, and leaves alone what both have, also where a sparse
// checkout leaves it out. t's index stays as it is.
func (t tree) becomes(ctx context.Context, from, to string) error {
	tmp, err := os.MkdirTemp("", "vizier-put-back-")
	if err != nil {
		return err
	}
	defer sys.RemoveTree(tmp)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(tmp, "index")}
	if _, err := t.git(ctx, env, "read-tree", "--no-sparse-checkout", from); err != nil {
		return err
	}
	if _, err := t.git(ctx, env, "update-index", "-q", "--refresh"); err != nil {
		return err
	}
	_, err = t.git(ctx, env, "read-tree", "--no-sparse-checkout", "--reset", "-u", from, to)
	return err
}

// lookAgain has git compare the files of t that becomes is to write with what an index has of them. Where they get another size
// than they had when they were staged, such as by the ends of their lines, git would take them for changed without that.
func (r *Repo) lookAgain(ctx context.Context, t tree, index, from, to string) error {
	written, err := r.diff(ctx, kernel.CommitID(from), kernel.CommitID(to))
	if err != nil {
		return err
	}
	env := []string{"GIT_INDEX_FILE=" + index}
	has, err := t.entries(ctx, env)
	if err != nil {
		return err
	}
	staged := map[string]bool{}
	for entry := range strings.SplitSeq(has, "\x00") {
		staged[entry] = true
	}
	var in strings.Builder
	for _, c := range written {
		if entry := c.new.mode + " " + c.new.blob + " 0\t" + c.path; c.new.regular() && staged[entry] {
			in.WriteString(entry + "\x00")
		}
	}
	if in.Len() == 0 {
		return nil
	}
	_, err = r.cli.run(ctx, command{dir: t.dir, env: append(t.env(), env...), writes: true, quiet: true, stdin: []byte(in.String()),
		args: []string{"update-index", "-z", "--index-info"}}) // with nothing of the file's size and time
	return err
}

// restore puts a copy in the place of a file, at once. Without a copy there was no file.
func restore(copied, to string) error {
	if there, err := exists(copied); err != nil || !there {
		if err == nil {
			err = os.Remove(to)
		}
		if errors.Is(err, iofs.ErrNotExist) {
			return nil
		}
		return err
	}
	part := to + ".vizier"
	if err := copyIndex(copied, part); err != nil {
		return err
	}
	return os.Rename(part, to)
}

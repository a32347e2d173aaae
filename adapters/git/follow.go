package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A working tree follows its branch in five steps:
//
//  1. A note in its git directory, durable before anything else happens, names both
//     commits. Its flock is held, by every git below too, as long as any of them runs.
//  2. index.lock, a symbolic link to the note, keeps other gits from the index.
//  3. The files change, with a copy of the index. Those that a filter has made are copied before.
//  4. The branch moves. That decides.
//  5. The copy becomes the index, and the lock and the note go.
//
// What was killed in between ends when somebody looks at the note (end). If the branch
// has moved, the tree goes forward, else back to its index, which nothing has changed.

// Files in a working tree's git directory.
const (
	followNote  = "vizier-follow"       // both commits and the paths in kept, each ended by a NUL; empty: nothing is to be done
	followIndex = "vizier-follow-index" // the copy of the index
)

// following is a working tree on its way from one commit to another.
type following struct {
	repo     *Repo
	w        Worktree
	note     *os.File // its flock is held
	from, to kernel.CommitID
	kept     []string // files that were there before, and as the new commit has them
	diff     []changedFile
}

// changedFile is a path at which two commits differ. A mode of 000000 means that the commit has nothing there.
type changedFile struct {
	path     string
	old, new fileEntry
}

// fileEntry is what git has at a path.
type fileEntry struct{ mode, blob string }

// regular reports whether it is a file, and no link or submodule.
func (e fileEntry) regular() bool { return strings.HasPrefix(e.mode, "100") }

const (
	noMode     = "000000"
	moduleMode = "160000"
)

// take opens and locks the note of w, and reads it. It returns nil if there is none, unless it is to be
// created. busy reports that another process holds it.
func (r *Repo) take(w Worktree, create bool) (f *following, busy bool, err error) {
	path, flags := filepath.Join(w.gitDir, followNote), os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	for {
		note, err := sys.OpenRegular(path, flags)
		switch {
		case errors.Is(err, iofs.ErrNotExist) && !create:
			return nil, false, nil
		case errors.Is(err, sys.ErrNotRegular):
			return nil, false, fmt.Errorf("%s is in the place of a note of Vizier: move it away: %w", path, err)
		case err != nil:
			return nil, false, err
		}
		free, err := sys.TryLock(note)
		if err != nil || !free {
			return nil, err == nil, errors.Join(err, note.Close())
		}
		f := &following{repo: r, w: w, note: note}
		if !f.current(path) { // its owner has removed it meanwhile
			f.release()
			continue
		}
		if err := f.read(); err != nil {
			f.release()
			return nil, false, err
		}
		return f, false, nil
	}
}

// current reports whether f's note is the file at path.
func (f *following) current(path string) bool {
	held, err := f.note.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(held, now)
}

// read reads the note. One that was cut off has been written before anything else happened.
func (f *following) read() error {
	b, err := io.ReadAll(f.note)
	if err != nil {
		return err
	}
	parts := strings.Split(string(b), "\x00")
	if len(parts) < 4 || parts[len(parts)-2] != "" || commits(kernel.CommitID(parts[0]), kernel.CommitID(parts[1])) != nil {
		return nil
	}
	f.from, f.to, f.kept = kernel.CommitID(parts[0]), kernel.CommitID(parts[1]), parts[2:len(parts)-2]
	return nil
}

// write makes the note durable. It ends with an empty path.
func (f *following) write() error {
	text := strings.Join(append([]string{string(f.from), string(f.to)}, f.kept...), "\x00") + "\x00\x00"
	err := f.note.Truncate(0) // one that was cut off may be longer
	if err == nil {
		_, err = f.note.WriteAt([]byte(text), 0)
	}
	if err == nil {
		err = f.note.Sync()
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(f.w.gitDir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// release gives up the note and leaves it as it is.
func (f *following) release() {
	_ = sys.Unlock(f.note)
	_ = f.note.Close()
}

// done removes the lock and the note. The note is emptied first: a note that says what to do goes with a lock.
func (f *following) done() error {
	defer f.release()
	if err := f.note.Truncate(0); err != nil {
		return err
	}
	if err := errors.Join(f.dropCopy(), f.dropOld()); err != nil {
		return err
	}
	if f.holdsIndex() {
		if err := os.Remove(f.path("index.lock")); err != nil {
			return err
		}
	}
	return os.Remove(f.path(followNote))
}

func (f *following) path(name string) string { return filepath.Join(f.w.gitDir, name) }

// holdsIndex reports whether the lock of the index is that of the note.
func (f *following) holdsIndex() bool {
	to, err := os.Readlink(f.path("index.lock"))
	return err == nil && to == followNote
}

// lockIndex takes the lock of the index, for which it waits a second. obstacle says that another git has it.
func (f *following) lockIndex(ctx context.Context) (obstacle string, err error) {
	const tries, pause = 10, 100 * time.Millisecond
	for n := 0; !f.holdsIndex(); n++ {
		err := os.Symlink(followNote, f.path("index.lock"))
		if err == nil {
			break
		}
		if !errors.Is(err, iofs.ErrExist) {
			return "", err
		}
		if n == tries {
			return fmt.Sprintf("where another git is at work: wait for it or, if there is none, remove %s", f.path("index.lock")), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
	}
	return "", nil
}

// git runs a command.
func (f *following) git(ctx context.Context, index string, stdin []byte, args ...string) ([]byte, error) {
	return f.repo.cli.run(ctx, f.command(index, stdin, args...))
}

// command is a git in the tree, with the index at a path, that holds the note's flock as long as it runs.
func (f *following) command(index string, stdin []byte, args ...string) command {
	return command{dir: f.w.Path, args: args, stdin: stdin, env: []string{"GIT_INDEX_FILE=" + index},
		writes: true, hooks: true, held: []*os.File{f.note}}
}

// dropCopy removes the copy of the index, and the lock that a git which was killed left for it.
func (f *following) dropCopy() error {
	for _, name := range []string{followIndex + ".lock", followIndex} {
		if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// copyIndex makes the copy of the index.
func (f *following) copyIndex() error {
	if err := f.dropCopy(); err != nil {
		return err
	}
	return copyIndex(f.path("index"), f.path(followIndex))
}

// begin changes the files of w from those of one commit to those of another, beside its index.
// obstacle, unless "", says why they cannot follow; then, and after an error, they are as before.
func (r *Repo) begin(ctx context.Context, w Worktree, from, to kernel.CommitID) (f *following, obstacle string, err error) {
	f, busy, err := r.take(w, true)
	switch {
	case err != nil:
		return nil, "", err
	case busy || f.to != "": // it has been killed since obstacle looked
		if f != nil {
			f.release()
		}
		return nil, isFollowing, nil
	}
	f.from, f.to = from, to
	if f.diff, err = r.diff(ctx, from, to); err == nil {
		obstacle, err = f.blocked(ctx)
	}
	if shut := denied(err); shut != "" {
		obstacle, err = "but "+shut, nil
	}
	if err != nil || obstacle != "" {
		return nil, obstacle, errors.Join(err, f.done())
	}
	if err = f.write(); err == nil {
		obstacle, err = f.lockIndex(ctx)
	}
	if err == nil && obstacle == "" {
		var stays bool
		if stays, err = f.stays(ctx); !stays {
			obstacle = "which somebody has since put on another branch: try again"
		}
	}
	if err != nil || obstacle != "" {
		return nil, obstacle, errors.Join(err, f.done())
	}
	if err = f.copyIndex(); err == nil {
		_, err = f.git(ctx, f.path(followIndex), nil, "update-index", "-q", "--refresh", "--ignore-submodules") // of changed files, the next git says more
	}
	if err == nil {
		err = f.preserve(ctx)
	}
	var way string
	if err == nil {
		way, err = f.keep(ctx)
	}
	if err == nil && way == "" {
		_, err = f.git(ctx, f.path(followIndex), nil, f.readTree()...)
	}
	if err == nil && way == "" {
		return f, "", nil
	}
	if obstacle = untracked(way); exitCode(err) > 0 {
		obstacle, err = f.refusal(ctx, err)
	}
	return nil, obstacle, errors.Join(err, f.comeBack(ctx))
}

// refusal says why git does not bring the tree up to date, and what to do about it. What a flag in the index hides from
// git status, nothing has shown before.
func (f *following) refusal(ctx context.Context, failed error) (string, error) {
	if shut := denied(failed); shut != "" {
		return "but " + shut, nil
	}
	out, err := f.git(ctx, f.path("index"), nil, "ls-files", "-v", "--full-name", "-z", "--", ":(top)")
	if err != nil {
		return "", err
	}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		tag, path, _ := strings.Cut(entry, " ")
		var flags, commands []string
		for _, flag := range []struct {
			name string
			set  bool
		}{{"assume-unchanged", tag != strings.ToUpper(tag)}, {"skip-worktree", strings.EqualFold(tag, "s")}} {
			if flag.set {
				flags = append(flags, flag.name)
				commands = append(commands, gitIn(f.w.Path, "update-index", "--no-"+flag.name, "--", path))
			}
		}
		if len(flags) > 0 && strings.Contains(failed.Error(), "Entry '"+path+"' not uptodate") {
			return fmt.Sprintf("where %s is changed, which git status does not show, since it is marked %s (see `git ls-files -v`): run %s, then commit or stash the change",
				path, strings.Join(flags, " and "), strings.Join(commands, " and ")), nil
		}
	}
	return fmt.Sprintf("which git cannot bring up to date (%v): see to what that names", failed), nil
}

// stays reports whether the tree is still on the branch that it was on. The lock of the index does not keep
// `git checkout -b` from leaving it.
func (f *following) stays(ctx context.Context) (bool, error) {
	now, err := f.repo.HeadBranch(ctx, f.w.Path)
	if err != nil || now == f.w.Branch {
		return err == nil, err
	}
	if now, err = f.repo.real(ctx, now); err != nil {
		return false, err
	}
	was, err := f.repo.real(ctx, f.w.Branch)
	return now == was, err
}

// isFollowing says that a tree is on its way.
const isFollowing = "which another process is bringing up to date: wait for that"

// untracked says that a path is in the way.
func untracked(path string) string {
	if path == "" {
		return ""
	}
	return fmt.Sprintf("where %s, which git does not track, is in the way of what is to come there: move it away", path)
}

// diff returns the paths at which two commits differ.
func (r *Repo) diff(ctx context.Context, from, to kernel.CommitID) ([]changedFile, error) {
	out, err := r.cli.read(ctx, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", string(from), string(to))
	var all []changedFile
	entries := strings.Split(string(out), "\x00") // each file's change, then its name
	for i := 0; i+1 < len(entries); i += 2 {
		if f := strings.Fields(strings.TrimPrefix(entries[i], ":")); len(f) == 5 {
			all = append(all, changedFile{entries[i+1], fileEntry{f[0], f[2]}, fileEntry{f[1], f[3]}})
		}
	}
	return all, err
}

// blocked says why the files of the tree cannot become those of the new commit, or "".
func (f *following) blocked(ctx context.Context) (string, error) {
	for _, c := range f.diff {
		if c.path == home && c.new.mode != noMode && f.w.gitDir == f.repo.root.CommonDir {
			return "where Vizier keeps its own files in the directory " + home + ", for which what is to come has something else: make it a directory again there", nil
		}
	}
	for _, c := range f.diff { // what cannot be looked at could be neither changed nor put back
		if _, _, err := f.reach(c.path); err != nil {
			return "", err
		}
	}
	if module, err := f.replacedModule(); err != nil {
		return "", err
	} else if module != "" {
		return f.makeWay(ctx, module)
	}
	way, err := f.inTheWay(ctx)
	return untracked(way), err
}

// inTheWay returns a path that git does not track, ignored or not, at which the new commit has something, or "". It
// notes the files in f.kept that may be as that has them.
func (f *following) inTheWay(ctx context.Context) (string, error) {
	goes := map[string]string{}
	for _, c := range f.diff {
		if c.new.mode == noMode {
			goes[c.path], goes[strings.ToLower(c.path)] = c.path, c.path
		}
	}
	for _, c := range f.diff {
		if c.old.mode != noMode {
			continue
		}
		at, info, err := f.reach(c.path)
		switch {
		case err != nil:
			return "", err
		case info == nil || goes[at] == at || f.isAt(goes[strings.ToLower(at)], info): // a file system may take two cases of a name for one
		case at != c.path:
			return at, nil
		case !info.IsDir():
			own, err := f.isOwn(c.path)
			if err != nil {
				return "", err
			}
			if !own { // which git replaces, since it is ignored
				f.kept = append(f.kept, c.path)
			}
		case c.new.mode != moduleMode:
			others := f.command(f.path("index"), nil, "ls-files", "--others", "-z", "--", ":(top,literal)"+c.path)
			others.whole = true
			out, err := f.repo.cli.run(ctx, others)
			if first, _, _ := strings.Cut(string(out), "\x00"); err != nil || first != "" {
				return first, err
			}
		}
	}
	return "", nil
}

// own returns what Vizier itself makes at path in this tree, or "" if it makes nothing there.
func (f *following) own(path string) string {
	if f.w.gitDir != f.repo.root.CommonDir {
		return ""
	}
	return f.repo.Own[path]
}

// isOwn reports whether the file at path is as Vizier makes it there.
func (f *following) isOwn(path string) (bool, error) {
	own := f.own(path)
	if own == "" {
		return false, nil
	}
	file, err := sys.OpenRegular(filepath.Join(f.w.Path, path), os.O_RDONLY)
	if errors.Is(err, sys.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, int64(len(own))+1))
	return string(text) == own, err
}

// makeOwn makes what Vizier itself makes at path, if nothing is there.
func (f *following) makeOwn(path string) error {
	own := f.own(path)
	if own == "" {
		return nil
	}
	at, info, err := f.reach(path)
	if err != nil || info != nil || at != path { // without its directory nobody misses it
		return err
	}
	file, err := os.OpenFile(filepath.Join(f.w.Path, path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if errors.Is(err, iofs.ErrExist) { // another process has made it
			return nil
		}
		return err
	}
	_, err = file.WriteString(own)
	return errors.Join(err, file.Close())
}

// isAt reports whether a file is also at path.
func (f *following) isAt(path string, info iofs.FileInfo) bool {
	if path == "" {
		return false
	}
	other, err := os.Lstat(filepath.Join(f.w.Path, path))
	return err == nil && os.SameFile(info, other)
}

// reach returns what is at path, or at the part of it that is no directory, or nil if there is nothing.
func (f *following) reach(path string) (at string, info iofs.FileInfo, err error) {
	for end := 0; end < len(path); {
		next := strings.IndexByte(path[end:], '/')
		if end += next; next < 0 {
			end = len(path)
		}
		at = path[:end]
		info, err = os.Lstat(filepath.Join(f.w.Path, at))
		if errors.Is(err, iofs.ErrNotExist) {
			return at, nil, nil
		}
		if err != nil || !info.IsDir() {
			return at, info, err
		}
		end++
	}
	return at, info, nil
}

// keep adds f.kept to the copy of the index, so that git leaves these files as they are. It returns the first that is
// not as the new commit has it, or "".
func (f *following) keep(ctx context.Context) (string, error) {
	now, err := f.hashed(ctx, f.path(followIndex), f.kept)
	if err != nil {
		return "", err
	}
	for _, c := range f.diff {
		if has, there := now[c.path]; there && has != c.new {
			return c.path, nil
		}
	}
	return "", nil
}

// hashed adds files to an index, and returns what it has of them then.
func (f *following) hashed(ctx context.Context, index string, paths []string) (map[string]fileEntry, error) {
	now := map[string]fileEntry{}
	if len(paths) == 0 {
		return now, nil
	}
	list := []byte(strings.Join(paths, "\x00") + "\x00")
	if _, err := f.git(ctx, index, list, "update-index", "--add", "--replace", "--info-only", "-z", "--stdin"); err != nil {
		return nil, err
	}
	all, err := f.entries(ctx, index)
	for _, p := range paths {
		if e, there := all[p]; there {
			now[p] = e
		}
	}
	return now, err
}

// entries returns what an index has.
func (f *following) entries(ctx context.Context, index string) (map[string]fileEntry, error) {
	out, err := f.git(ctx, index, nil, "ls-files", "--stage", "--full-name", "-z", "--", ":(top)")
	all := map[string]fileEntry{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		info, path, _ := strings.Cut(entry, "\t")
		if e := strings.Fields(info); len(e) == 3 { // mode, blob, stage
			all[path] = fileEntry{e[0], e[1]}
		}
	}
	return all, err
}

// arrive ends the way of a tree whose branch has moved.
func (f *following) arrive() error {
	if err := f.install(); err != nil {
		f.release()
		return err
	}
	return f.done()
}

// comeBack ends the way of a tree whose branch does not move.
func (f *following) comeBack(ctx context.Context) error {
	obstacle, err := f.end(context.WithoutCancel(ctx))
	if err == nil && obstacle != "" {
		err = errors.New(obstacle)
	}
	if err != nil {
		return fmt.Errorf("bring %s back, which is half way: %w", f.w.Path, err)
	}
	return nil
}

// end ends the way of a tree, wherever it is: if the branch has moved, the tree goes forward, else back to
// its index. A file that neither commit has so is left alone. obstacle says that another git is at work there. With one, and
// after an error, the note remains.
func (f *following) end(ctx context.Context) (obstacle string, err error) {
	if f.to == "" { // it was killed before the note was written, or after all was done
		return "", f.done()
	}
	if unfit, err := f.unfit(); err != nil || unfit != "" {
		f.release()
		return unfit, err
	}
	had := f.holdsIndex()
	head, err := f.repo.HeadCommit(ctx, f.w.Path)
	if err == nil && !had && head != f.from && head != f.to { // whoever has removed the lock has gone on since
		return "", f.done()
	}
	if err == nil {
		obstacle, err = f.lockIndex(ctx)
	}
	if err == nil && obstacle == "" {
		obstacle, err = f.dropRefLocks(ctx)
	}
	if err == nil && obstacle == "" {
		err = f.arriveOrReturn(ctx, head)
	}
	if err == nil && obstacle == "" {
		return "", f.done()
	}
	if !had && f.holdsIndex() { // whoever has removed it may have to change the index
		err = errors.Join(err, os.Remove(f.path("index.lock")))
	}
	f.release()
	return obstacle, err
}

// unfit says why git cannot work in the tree, or would work on another repository from there; "": it can.
func (f *following) unfit() (string, error) {
	if f.w.gitDir == f.repo.root.CommonDir {
		return "", nil
	}
	there, unfit, err := fitness(f.w)
	if err == nil && !there {
		unfit = "where its files are not, or not any more"
	}
	return unfit, err
}

// arriveOrReturn makes index and files of the tree, whose head is a commit, those of one of the two commits.
func (f *following) arriveOrReturn(ctx context.Context, head kernel.CommitID) (err error) {
	if f.diff, err = f.repo.diff(ctx, f.from, f.to); err != nil {
		return err
	}
	moved := false
	if head != "" && head != f.from {
		if moved, err = f.repo.IsAncestor(ctx, f.to, head); err != nil {
			return err
		}
	}
	if !moved {
		return f.bring(ctx, f.path("index"))
	}
	if err := f.forward(ctx); err != nil {
		return err
	}
	if err := f.bring(ctx, f.path(followIndex)); err != nil {
		return err
	}
	return f.install()
}

// install makes the copy of the index the index.
func (f *following) install() error { return os.Rename(f.path(followIndex), f.path("index")) }

// forward makes the copy of the index anew, with what the new commit has. The copy that is there may be damaged.
// Only with files does git heed a sparse checkout, so it gets a directory for them.
func (f *following) forward(ctx context.Context) error {
	files, err := os.MkdirTemp("", "vizier-follow-")
	if err != nil {
		return err
	}
	defer sys.RemoveTree(files)
	if err := f.copyIndex(); err != nil {
		return err
	}
	_, err = f.repo.cli.run(ctx, command{dir: f.w.Path, args: f.readTree(), writes: true, hooks: true, held: []*os.File{f.note},
		env: []string{"GIT_DIR=" + f.w.gitDir, "GIT_WORK_TREE=" + files, "GIT_INDEX_FILE=" + f.path(followIndex)}})
	return err
}

// readTree returns the arguments of the git that changes files and index.
func (f *following) readTree() []string {
	return []string{"read-tree", "-m", "-u", "--no-recurse-submodules", string(f.from), string(f.to)}
}

// dropRefLocks removes the locks that a git which was to move the branch left. obstacle says that one may be
// another git's.
func (f *following) dropRefLocks(ctx context.Context) (obstacle string, err error) {
	branch, err := f.repo.HeadBranch(ctx, f.w.Path)
	if err == nil {
		branch, err = f.repo.real(ctx, branch)
	}
	if err != nil {
		return "", err
	}
	begun, err := f.note.Stat()
	if err != nil {
		return "", err
	}
	since := func(at time.Time) bool { return !at.Before(begun.ModTime()) }
	common := f.repo.root.CommonDir
	own := f.path(tablesLock) // of the tables that a linked working tree has for its HEAD
	for _, p := range []string{f.path("HEAD.lock"), filepath.Join(common, "refs", "heads", branch+".lock"), filepath.Join(common, tablesLock), own} {
		if err := f.repo.dropStale(p, since); err != nil {
			return "", err
		}
		if info, err := os.Lstat(p); err == nil && since(info.ModTime()) {
			return fmt.Sprintf("where another git may be at work: wait for it or, if there is none, remove %s", p), nil
		}
	}
	return "", nil
}

// bring makes the files at which the commits differ what an index has there: those that are missing, and those that
// are as one of the commits has them or the beginning of that, as a killed git leaves it. So whatever it
// removes git still has.
func (f *following) bring(ctx context.Context, index string) error {
	want, err := f.entries(ctx, index)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "vizier-follow-")
	if err != nil {
		return err
	}
	defer sys.RemoveTree(tmp)
	scratch := filepath.Join(tmp, "index")
	if err := copyIndex(index, scratch); err != nil {
		return err
	}
	var files []string
	old := map[string]fileEntry{}
	for i, c := range f.diff {
		at, info, err := f.reach(c.path)
		if err != nil {
			return err
		}
		if info == nil || at != c.path || info.IsDir() || slices.Contains(f.kept, at) {
			continue
		}
		is, err := f.isOld(i)
		if err != nil {
			return err
		}
		if is {
			old[at] = c.old
		} else {
			files = append(files, at)
		}
	}
	now, err := f.hashed(ctx, scratch, files)
	if err != nil {
		return err
	}
	maps.Copy(now, old)
	var goes []string // decided before anything changes, since .gitattributes may be among them
	for _, c := range f.diff {
		if has, there := now[c.path]; there && has != want[c.path] {
			given, err := f.given(ctx, c, has)
			if err != nil {
				return err
			}
			if given {
				goes = append(goes, c.path)
			}
		}
	}
	for _, path := range goes {
		if err := os.Remove(filepath.Join(f.w.Path, path)); err != nil {
			return err
		}
	}
	for _, c := range f.diff {
		if _, wanted := want[c.path]; !wanted {
			if err := errors.Join(f.makeOwn(c.path), f.prune(c)); err != nil {
				return err
			}
		}
	}
	missing := map[string]bool{}
	for i, c := range f.diff {
		if wanted := want[c.path]; wanted == c.old {
			if err := f.giveBack(i); err != nil {
				return err
			}
		}
		missing[c.path] = want[c.path] != fileEntry{}
	}
	return f.restore(ctx, index, missing)
}

// given reports whether the file of c, which is hashed as has, is as one of the commits has it or the beginning of that,
// or as Vizier itself makes it.
func (f *following) given(ctx context.Context, c changedFile, has fileEntry) (bool, error) {
	if own, err := f.isOwn(c.path); own || err != nil {
		return own, err
	}
	sides := map[kernel.CommitID]fileEntry{f.from: c.old, f.to: c.new}
	for _, side := range sides {
		if has == side {
			return true, nil
		}
	}
	if !has.regular() {
		return false, nil
	}
	text, err := os.ReadFile(filepath.Join(f.w.Path, c.path))
	if err != nil || len(text) == 0 {
		return err == nil, err
	}
	for commit, side := range sides {
		if side.mode != has.mode {
			continue
		}
		whole, err := f.git(ctx, f.path("index"), nil, "cat-file", "--filters", string(commit)+":"+c.path)
		if err == nil && bytes.HasPrefix(whole, text) {
			return true, nil
		}
		if err != nil && exitCode(err) < 0 { // else a filter failed, so the file stays
			return false, err
		}
	}
	return false, nil
}

// prune removes the empty directories that are left at the path of c, at which nothing is wanted.
func (f *following) prune(c changedFile) error {
	at, info, err := f.reach(c.path)
	if err != nil || info != nil && !info.IsDir() {
		return err
	}
	if info == nil {
		at = filepath.Dir(at)
	}
	for ; at != "."; at = filepath.Dir(at) {
		if os.Remove(filepath.Join(f.w.Path, at)+string(filepath.Separator)) != nil { // only removes an empty directory
			break
		}
	}
	return nil
}

// restore makes missing files anew as an index has them. It changes no file that is there.
func (f *following) restore(ctx context.Context, index string, missing map[string]bool) error {
	out, err := f.git(ctx, index, nil, "ls-files", "--deleted", "--full-name", "-z", "--", ":(top)")
	if err != nil {
		return err
	}
	var list []byte
	for path := range strings.SplitSeq(string(out), "\x00") {
		if missing[path] {
			list = append(append(list, path...), 0)
		}
	}
	if len(list) == 0 {
		return nil
	}
	_, err = f.git(ctx, index, list, "checkout-index", "-z", "--stdin")
	return err
}

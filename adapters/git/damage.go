package git

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // git's checksum
	"crypto/sha256"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Damage returns why nobody can work in the worktree of c, and what to do; "": it is sound, or gone. stays reports that
// it can be used again as it is, once that is done.
func (r *Repo) Damage(c kernel.Context) (why string, stays bool, err error) {
	dir := absolute(r.root.Dir, c.Worktree)
	if there, err := exists(dir); err != nil || !there {
		return "", false, err
	}
	if err := usable(dir); err != nil {
		return err.Error(), errors.Is(err, errShut), nil
	}
	why, err = r.brokenAt(dir, c)
	return why, false, err
}

// brokenAt is Damage of the directory dir, as far as it is about what is in it.
func (r *Repo) brokenAt(dir string, c kernel.Context) (string, error) {
	all, err := r.Worktrees()
	for _, w := range all {
		switch {
		case w.Name != c.Name:
		case w.Reason == initializing || r.movedTo(w) != "":
			return "", nil
		default:
			why, err := r.damage(w)
			if why != "" {
				why += anew
			}
			return why, err
		}
	}
	switch other := NameAt(dir); {
	case err != nil || c.Name == "":
		return "", err
	case other == c.Name:
		return "git does not know it any more" + anew, nil
	case other == "":
		return "its file .git is missing, and git does not know it any more: a retry of the job that made it makes another one, and leaves this as it is", nil
	}
	return "", nil
}

// anew says what becomes of a damaged worktree.
const anew = ": a retry of the job that made it parks what is in it, and makes it anew"

// errShut says that the user may not work in a working tree.
var errShut = errors.New("you may not work in the worktree")

// usable returns an error if something else is in the place of a working tree, or errShut if the user may not
// work there. A missing one is no error.
func usable(dir string) error {
	st, err := os.Lstat(dir)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode()&iofs.ModeSymlink != 0:
		return fmt.Errorf("a symbolic link is in the place of the worktree: move %s away, then retry", dir)
	case !st.IsDir():
		return fmt.Errorf("a file is in the place of the worktree: move %s away, then retry", dir)
	case unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK) != nil:
		return fmt.Errorf("%w: `%s`, as its owner, then retry", errShut, kernel.CommandLine("chmod", "u+rwx", dir))
	}
	return nil
}

// damage is Damage of a worktree that git lists, as far as it is about git's files.
func (r *Repo) damage(w Worktree) (string, error) {
	switch sound, err := soundIndex(filepath.Join(w.gitDir, "index")); {
	case leadsTo(w.Path) != resolved(w.gitDir):
		return "its file .git is missing, or leads elsewhere", nil
	case !soundHead(w.gitDir):
		return "git's record of what it has checked out is damaged", nil
	case !r.soundCommon(w.gitDir):
		return "git's record of the repository that it belongs to is damaged", nil
	case err != nil:
		return "", err
	case !sound:
		return "its index is damaged", nil
	}
	return "", nil
}

// soundHead reports whether the HEAD of a git directory is a ref or a commit. One that may not be read
// counts as sound: git says what is wrong with it.
func soundHead(gitDir string) bool {
	text, err := refText(filepath.Join(gitDir, "HEAD"))
	if err != nil {
		return !errors.Is(err, iofs.ErrNotExist)
	}
	ref, symbolic := strings.CutPrefix(text, "ref:")
	return symbolic && strings.HasPrefix(strings.TrimSpace(ref), "refs/") || validCommit(kernel.CommitID(text))
}

// soundCommon reports whether a worktree's git directory leads to the repository.
func (r *Repo) soundCommon(gitDir string) bool {
	common, err := os.ReadFile(filepath.Join(gitDir, "commondir"))
	if err != nil {
		return !errors.Is(err, iofs.ErrNotExist)
	}
	return resolved(absolute(gitDir, strings.TrimSpace(string(common)))) == r.root.CommonDir
}

// soundIndex reports whether an index is whole, by its checksum. There need be none.
func soundIndex(path string) (bool, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	const header = 12
	ends := func(sum []byte) bool {
		rest, found := bytes.CutSuffix(b, sum)
		return found && len(rest) >= header
	}
	if !bytes.HasPrefix(b, []byte("DIRC")) || len(b) < header+sha1.Size {
		return false, nil
	}
	short := sha1.Sum(b[:len(b)-sha1.Size])              //nolint:gosec // git's checksum
	if ends(short[:]) || ends(make([]byte, sha1.Size)) { // index.skipHash leaves zeros
		return true, nil
	}
	if len(b) < header+sha256.Size {
		return false, nil
	}
	long := sha256.Sum256(b[:len(b)-sha256.Size])
	return ends(long[:]), nil
}

// unlisted returns the worktree called name whose files are at dir, if git does not list it, or the
// zero value.
func (r *Repo) unlisted(dir, name string) Worktree {
	if name == "" || NameAt(dir) != name || strings.HasPrefix(filepath.Base(dir), leftPrefix) {
		return Worktree{}
	}
	w := Worktree{Name: name, Path: dir, gitDir: filepath.Join(r.root.CommonDir, "worktrees", name)}
	w.readLock()
	return w
}

// mend makes git's files of w whole, so far as w can be parked and removed. It is detached at the last
// commit that its reflog has, or else at branch's or the repository's. What was staged only there is
// lost, and no file.
func (r *Repo) mend(ctx context.Context, w Worktree, branch string) (Worktree, error) {
	if err := os.MkdirAll(w.gitDir, 0o777); err != nil {
		return w, err
	}
	put := func(name, text string) error {
		return os.WriteFile(filepath.Join(w.gitDir, name), []byte(text+"\n"), 0o666)
	}
	err := put("gitdir", filepath.Join(w.Path, ".git"))
	if err == nil && !r.soundCommon(w.gitDir) {
		err = put("commondir", "../..")
	}
	if err == nil && !soundHead(w.gitDir) {
		var at kernel.CommitID
		if at, err = r.lastHead(ctx, w.Name, branch); err == nil {
			err = put("HEAD", string(at))
		}
		w.Branch = ""
	}
	if err != nil {
		return w, err
	}
	index := filepath.Join(w.gitDir, "index")
	sound, err := soundIndex(index)
	there, again := exists(index)
	if err = errors.Join(err, again); err != nil || sound && there {
		return w, err
	}
	if err := os.Remove(index); err != nil && there {
		return w, err
	}
	t := tree{cli: r.cli, w: w}
	head, err := t.head(ctx)
	if err == nil && head != "" {
		_, err = t.git(ctx, identity, "read-tree", string(head))
	}
	return w, err
}

// lastHead returns the commit that a worktree was at last, as far as that is known.
func (r *Repo) lastHead(ctx context.Context, name, branch string) (kernel.CommitID, error) {
	log, _ := r.headLog(name) // it may be gone, too
	if f := strings.Fields(log[len(log)-1]); len(f) > 1 && validCommit(kernel.CommitID(f[1])) {
		return kernel.CommitID(f[1]), nil
	}
	return r.cli.resolve(ctx, "", cmp.Or(branch, "HEAD"))
}

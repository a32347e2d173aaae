package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// releasingFile is the file in the git directory that a process holds (flock) while it makes a release. It has
// the Begun release until that has ended. It is never unlinked, and its existence means nothing.
const releasingFile = "vizier-release"

// Begun is a release that has begun: what is to be undone if it does not end.
type Begun struct {
	Branch string          `json:"branch"`
	From   kernel.CommitID `json:"from"`   // where Branch was
	Commit kernel.CommitID `json:"commit"` // the release's
	Tag    string          `json:"tag"`
}

// ErrReleasing says that another process makes a release.
var ErrReleasing = errors.New("another process is making a release of this repository")

// Releasing is the right to make a release.
type Releasing struct{ file *os.File }

// LeftRelease returns the release that has begun and not ended, or the zero value. Unless the caller has the right
// to make one, that may be at work.
func (r *Repo) LeftRelease() (left Begun, err error) {
	text, err := os.ReadFile(filepath.Join(r.root.CommonDir, releasingFile))
	if errors.Is(err, iofs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		_ = json.Unmarshal(text, &left) // it cannot be if it was killed while it noted this, before it made anything
	}
	return left, err
}

// BeginReleasing returns the right to make a release. It fails with ErrReleasing if another process has it.
func (r *Repo) BeginReleasing() (*Releasing, error) {
	f, err := os.OpenFile(filepath.Join(r.root.CommonDir, releasingFile), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	got, err := sys.TryLock(f)
	if err == nil && !got {
		err = ErrReleasing
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Releasing{f}, nil
}

// Note notes durably what is about to be made.
func (l *Releasing) Note(b Begun) error {
	text, err := json.Marshal(b)
	if err == nil {
		err = l.Forget()
	}
	if err == nil {
		_, err = l.file.WriteAt(append(text, '\n'), 0)
	}
	if err == nil {
		err = l.file.Sync()
	}
	return err
}

// Forget drops what is noted.
func (l *Releasing) Forget() error { return l.file.Truncate(0) }

// End gives up the right. What is noted stays.
func (l *Releasing) End() error { return errors.Join(sys.Unlock(l.file), l.file.Close()) }

// begun is what is there of a release that has begun.
type begun struct {
	tag kernel.CommitID // the tag's object; "": there is none
	tip bool            // the branch is at the commit
}

// look returns what is there of b. It fails with ErrMoved if b's branch has moved on from its commit.
func (r *Repo) look(ctx context.Context, b Begun) (is begun, err error) {
	tip, err := r.cli.refAt(ctx, "refs/heads/"+b.Branch)
	if err != nil {
		return is, err
	}
	if is.tip = tip == b.Commit; tip != "" && !is.tip && tip != b.From { // where it was, the commit need not be there any more
		on, err := r.IsAncestor(ctx, b.Commit, tip)
		if err != nil {
			return is, err
		}
		if on {
			return is, fmt.Errorf("%s has moved on: %w", b.Branch, ErrMoved)
		}
	}
	tag, err := r.cli.refAt(ctx, "refs/tags/"+b.Tag)
	if err != nil || tag == "" {
		return is, err
	}
	of, err := r.cli.resolve(ctx, "", "refs/tags/"+b.Tag)
	if err == nil && of == b.Commit {
		is.tag = tag
	}
	return is, err
}

// Undoes reports whether UndoBegun would take back anything, and fails as that would.
func (r *Repo) Undoes(ctx context.Context, b Begun) (bool, error) {
	is, err := r.look(ctx, b)
	return is != begun{}, err
}

// UndoBegun takes back the tag and the commit of a release that has begun, as far as they are there, and reports whether
// they were. It fails with ErrMoved, and changes nothing, if its branch has moved on from the commit.
func (r *Repo) UndoBegun(ctx context.Context, b Begun) (undone bool, err error) {
	is, err := r.look(ctx, b)
	if err == nil && is.tag != "" {
		err = r.DeleteTag(ctx, b.Tag, string(is.tag))
	}
	if err == nil && is.tip {
		err = r.UpdateRef(ctx, "refs/heads/"+b.Branch, b.From, b.Commit)
	}
	return is != begun{}, err
}

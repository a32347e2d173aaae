package fs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// ErrForeign says that the store may be somebody else's: git tracks it, others can
// write to it, or it was copied here. Vizier reads it and does not act on it.
var ErrForeign = errors.New("the store is not acted on")

// ForeignError is an ErrForeign that says why.
type ForeignError struct {
	Why   string
	Adopt bool // whether Adopt is the next step; without it, what Why says comes before
}

func (e *ForeignError) Error() string { return ErrForeign.Error() + ": " + e.Why }
func (e *ForeignError) Unwrap() error { return ErrForeign }

// maxHomes bounds the places on record where a store is. Each host that shares it may
// have a path and inode numbers of its own.
const maxHomes = 16

// home is where a store is: the inode of its directory, and the path of the
// repository. A repository that is renamed keeps the inode; a backup that is restored
// in its place keeps the path; a copy has neither.
type home struct {
	Inode uint64   `json:"inode"`
	Path  sys.Path `json:"path"`
}

// homeRecord is the content of homeFile: where the store is.
type homeRecord struct {
	Version int    `json:"version"`
	Index   string `json:"index"` // git's index as it was when it tracked nothing of the store
	Homes   []home `json:"homes"`
}

// Tracking tells what git tracks.
type Tracking interface {
	// IndexStamp changes whenever git's index of the main working tree does.
	IndexStamp() string
	// Tracked returns a file below these paths that is in the index; "": there is none.
	Tracked(ctx context.Context, below ...string) (string, error)
}

// own returns the directories of the store that only Vizier writes to.
func own() []string {
	return []string{".vizier/jobs", ".vizier/sessions", ".vizier/state", ".vizier/tmp"}
}

// Foreign returns an error that says why the store is not acted on, and what to do: an ErrForeign or, of this user's, that
// changes of it cannot be read or that it is not known whose it is. It is nil if the store is acted on, or there is none. It changes nothing.
func (s *Store) Foreign(ctx context.Context) error {
	if _, err := s.athome(ctx, s.opts.Tracking); err != nil {
		return err
	}
	return s.Held()
}

// untracked says that git tracks nothing of the store. It is for callers that only read:
// asking git would start a process.
type untracked struct{}

func (untracked) IndexStamp() string                                 { return "" }
func (untracked) Tracked(context.Context, ...string) (string, error) { return "", nil }

// elsewhere is Foreign without a look at what git tracks.
func (s *Store) elsewhere(ctx context.Context) bool {
	if s.opts.Tracking == nil {
		return false
	}
	_, err := s.athome(ctx, untracked{})
	return errors.Is(err, ErrForeign)
}

// athome returns what homeFile must say now; nil: it says that already. The error is
// ErrForeign if the store may be somebody else's.
func (s *Store) athome(ctx context.Context, t Tracking) (*homeRecord, error) {
	if t == nil {
		return nil, nil
	}
	if err := s.open(false); err != nil {
		return nil, ignoreMissing(err)
	}
	at, err := s.here()
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil // it is about to be made
	}
	if err != nil {
		return nil, err
	}
	have, err := s.homes()
	if err != nil {
		return nil, err
	}
	want := *have
	if want.Index = t.IndexStamp(); want.Index != have.Index || len(have.Homes) == 0 {
		switch file, err := t.Tracked(ctx, own()...); {
		case err != nil:
			return nil, err
		case file != "":
			return nil, &ForeignError{Why: fmt.Sprintf("git tracks %s: what a clone or a pull brings is not what you queued. Look at it, have git forget it "+
				"(`%s`), and then run `vizier doctor --adopt`", file, kernel.CommandLine(append([]string{"git", "rm", "-r", "--cached", "--ignore-unmatch"}, own()...)...))}
		}
	}
	known := slices.IndexFunc(have.Homes, func(h home) bool { return h.Inode == at.Inode || h.Path == at.Path })
	switch {
	case known >= 0 && have.Homes[known] == at && want.Index == have.Index:
		return nil, nil
	case known >= 0:
		want.Homes = slices.Clone(have.Homes)
		want.Homes[known] = at
	case len(have.Homes) > 0:
		return nil, &ForeignError{fmt.Sprintf("it was made at %s and is at %s: it was copied, or moved from another file system. "+
			"Look at it (`vizier ls --all`); if it is yours: `vizier doctor --adopt`", have.Homes[0].Path, at.Path), true}
	default:
		want.Homes = []home{at}
	}
	return &want, nil
}

// mayMake returns git's error if the store is about to be made and git refuses to work here, as
// in a repository of another user. A store that is made there would lock its owner out.
func (s *Store) mayMake(ctx context.Context) error {
	if s.opts.Tracking == nil || s.made {
		return nil
	}
	if _, err := os.Lstat(s.abs(jobsDir)); !errors.Is(err, iofs.ErrNotExist) {
		return nil // it is made; other errors are told when it is opened
	}
	_, err := s.opts.Tracking.Tracked(ctx, own()...)
	return err
}

// Adopt makes the store count as this user's, in its present place.
func (s *Store) Adopt(ctx context.Context) error {
	if err := s.open(false); err != nil {
		return err
	}
	jobs, err := s.base.open(jobsDir)
	if err != nil {
		return err
	}
	defer jobs.close()
	var st unix.Stat_t
	if err := unix.Fstat(jobs.fd, &st); err != nil {
		return err
	}
	if int(st.Uid) == os.Geteuid() {
		if err := unix.Fchmod(jobs.fd, dirMode); err != nil {
			return err
		}
	}
	at, err := s.here()
	if err != nil {
		return err
	}
	if s.base.inPlaceOf(homeFile) != "" {
		if err := s.setAside(homeFile); err != nil {
			return err
		}
	}
	have, err := s.homes()
	if err != nil {
		return err
	}
	have.Homes = slices.DeleteFunc(have.Homes, func(h home) bool { return h.Inode == at.Inode || h.Path == at.Path })
	have.Homes = append(have.Homes[max(0, len(have.Homes)-maxHomes+1):], at)
	have.Index = "" // so git is asked again whether it tracks the store
	before, err := s.base.exists(homeFile)
	if err != nil {
		return err
	}
	journal, err := s.base.make(journalDir)
	if err != nil {
		return err
	}
	journal.close()
	was, err := s.base.read(homeFile, maxRecord)
	if ignoreMissing(err) != nil {
		return err
	}
	if err := s.writeHomes(have); err != nil {
		return err
	}
	if err := s.Foreign(ctx); err != nil { // put the file back as it was
		if !before {
			return errors.Join(err, s.base.remove(homeFile))
		}
		return errors.Join(err, s.base.write(homeFile, was, false))
	}
	return nil
}

// here returns where the store is. It is ErrForeign if the directory is another user's
// or others may write to it.
func (s *Store) here() (home, error) {
	jobs, err := s.base.open(jobsDir)
	if err != nil {
		return home{}, err
	}
	defer jobs.close()
	var st unix.Stat_t
	if err := unix.Fstat(jobs.fd, &st); err != nil {
		return home{}, failed("stat", jobsDir, err)
	}
	switch dir := filepath.Join(s.Layout.root, vizierDir, jobsDir); {
	case int(st.Uid) != os.Geteuid():
		return home{}, &ForeignError{Why: dir + " " + belongsTo(int(st.Uid))}
	case st.Mode&0o077 != 0:
		return home{}, &ForeignError{fmt.Sprintf("%s has mode %04o, so others may have written to it. Look at it; if it is yours: `vizier doctor --adopt`", dir, st.Mode&0o7777), true}
	}
	return home{st.Ino, sys.Path(s.Layout.root)}, nil
}

// homes reads homeFile. A damaged file counts as missing: a power failure may leave
// one, and git is then asked again what it tracks.
func (s *Store) homes() (*homeRecord, error) {
	b, err := s.base.read(homeFile, maxRecord)
	if errors.Is(err, iofs.ErrNotExist) {
		return &homeRecord{Version: 1}, nil
	}
	if err != nil {
		return nil, err
	}
	var r homeRecord
	if json.Unmarshal(b, &r) != nil || r.Version != 1 {
		return &homeRecord{Version: 1}, nil
	}
	return &r, nil
}

// writeHomes writes homeFile.
func (s *Store) writeHomes(r *homeRecord) error {
	r.Version = 1
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.base.write(homeFile, append(b, '\n'), false)
}

// belongsTo says that something is another user's, and what to do.
func belongsTo(owner int) string {
	return fmt.Sprintf("belongs to user %d, and you are %d: work as its owner, or in a clone of your own", owner, os.Geteuid())
}

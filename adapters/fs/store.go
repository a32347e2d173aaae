package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// maxRecord bounds job.json: larger is not a record.
const maxRecord = 16 << 20

// Options of a store. The zero value is relaxed durability and no retention.
type Options struct {
	Durable  bool   // every commit is on the disk before it is reported
	KeepLogs int    // logs of earlier attempts kept per job; 0: all
	Boot     string // id of this boot: what an earlier one left in memory is gone
	Who      string // names this process to those who wait for the lock
	Now      func() time.Time
}

// Store keeps one repository's records. Its methods may be called from one
// goroutine at a time.
type Store struct {
	Layout
	opts Options
	root *os.Root // .vizier
	lock *schedulerLock
	log  *journal
	warm index
}

// NewStore is the store of the repository whose main working tree is dir. It
// touches nothing until it is used.
func NewStore(dir string, opts Options) *Store { return &Store{Layout: NewLayout(dir), opts: opts} }

// open makes the store's directories, if create, and opens it.
func (s *Store) open(create bool) error {
	if s.root != nil {
		return nil
	}
	dir := filepath.Join(s.Layout.root, vizierDir)
	info, err := os.Lstat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("open store: %s is not a directory (a symbolic link is not followed): move it away", dir)
	case errors.Is(err, iofs.ErrNotExist) && create:
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, iofs.ErrExist) {
			return fmt.Errorf("create store: %w", err)
		}
	case err != nil:
		return fmt.Errorf("open store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	for _, d := range []string{jobsDir, journalDir} {
		if !create {
			break
		}
		if err := mkdirAll(root, d); err != nil {
			return errors.Join(fmt.Errorf("create store: %w", err), root.Close())
		}
	}
	s.root, s.lock = root, newSchedulerLock(s.abs(lockFile))
	return nil
}

// Close releases what the store holds open.
func (s *Store) Close() error {
	if s.root == nil {
		return nil
	}
	err := s.root.Close()
	if s.log != nil {
		err = errors.Join(err, s.log.close())
	}
	s.root, s.log = nil, nil
	return err
}

// Begin takes the scheduler lock and completes the writes that a crash cut
// short. A lock that is not free before ctx ends is a *BusyError.
func (s *Store) Begin(ctx context.Context) (*Tx, error) {
	if err := s.open(true); err != nil {
		return nil, err
	}
	if err := s.lock.exclusive(ctx); err != nil {
		return nil, err
	}
	s.lock.sign(s.opts.Who)
	tx := &Tx{s: s}
	if err := tx.recover(); err != nil {
		return nil, errors.Join(err, s.lock.unlock())
	}
	return tx, nil
}

// Read is a consistent read that changes nothing, unless a crash left writes
// to complete. A store that cannot be locked, on a read-only file system, is
// read as it is.
func (s *Store) Read(ctx context.Context, scope kernel.Scope) (kernel.Records, error) {
	if err := s.open(false); err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			return kernel.Records{}, nil
		}
		return kernel.Records{}, err
	}
	for range 2 {
		if err := s.lock.shared(ctx); err != nil {
			if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, iofs.ErrPermission) || isReadOnly(err) {
				return s.load(scope)
			}
			return kernel.Records{}, err
		}
		behind, err := s.behind()
		if err == nil && !behind {
			rec, err := s.load(scope)
			return rec, errors.Join(err, s.lock.unlock())
		}
		if err := s.lock.unlock(); err != nil {
			return kernel.Records{}, err
		}
		tx, err := s.Begin(ctx)
		if err != nil {
			return kernel.Records{}, err
		}
		if err := tx.Close(); err != nil {
			return kernel.Records{}, err
		}
	}
	return s.load(scope)
}

// behind reports whether the journal holds writes that were not applied.
func (s *Store) behind() (bool, error) {
	if err := s.openJournal(); err != nil {
		return false, err
	}
	p, _, err := s.log.position()
	if err != nil {
		return false, err
	}
	size, err := s.log.size()
	return size > p.end, err
}

func (s *Store) openJournal() error {
	if s.log != nil {
		return nil
	}
	log, err := openJournal(s.root, s.opts.Boot, s.opts.Durable)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	s.log = log
	return nil
}

// readRecord reads the record of one job. A job without one is ErrNotExist.
func (s *Store) readRecord(id kernel.JobID) (kernel.Job, *foreign, error) {
	name := jobPath(id, recordName)
	b, err := readFile(s.root, name, maxRecord)
	if errors.Is(err, iofs.ErrNotExist) {
		if _, link := s.root.Lstat(name); link == nil {
			err = fmt.Errorf("%s is a symbolic link that leads nowhere", filepath.Join(vizierDir, name))
		}
	}
	if err != nil {
		return kernel.Job{}, nil, err
	}
	j, f, err := decodeRecord(id, b)
	if err != nil {
		return kernel.Job{}, nil, fmt.Errorf("%s: %w", filepath.Join(vizierDir, name), err)
	}
	return j, f, nil
}

// jobIDs lists the directories of jobs that are named like jobs, in order.
func (s *Store) jobIDs() ([]kernel.JobID, error) {
	entries, err := iofs.ReadDir(s.root.FS(), jobsDir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	ids := make([]kernel.JobID, 0, len(entries))
	for _, e := range entries {
		if kernel.ValidJobID(e.Name()) {
			ids = append(ids, kernel.JobID(e.Name()))
		}
	}
	return ids, nil
}

func describeUnreadable(err error) string {
	return strings.TrimPrefix(err.Error(), "openat ")
}

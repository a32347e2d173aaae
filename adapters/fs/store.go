package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// maxRecord bounds job.json: larger is not a record.
const maxRecord = 16 << 20

// Options of a store. The zero value is relaxed durability and no retention.
type Options struct {
	Durable      bool          // every commit is on the disk before it is reported
	KeepLogs     int           // logs of earlier attempts kept per job; 0: all
	Boot         string        // id of this boot: what an earlier boot left only in memory is gone
	EventBytes   int64         // size of the event log before it is moved away; 0: it never is
	EventFiles   int           // files of the event log, the current one included
	HistoryBytes int64         // how much of the sealed history is kept; 0: no bound
	HistoryAge   time.Duration // how long it is kept; 0: no bound
	Who          string        // the command of this process, for those who wait for the lock
	Now          func() time.Time
	Program      string   // the version of the program, for the history
	Tracking     Tracking // tells what git tracks; nil: no store counts as foreign

	// Admit takes this host's turn to write, and waits for it until the context ends. It returns an error if another
	// host schedules whose locks may not hold here. The store calls it with the lock held, before it writes anything;
	// looks says that the caller only reads. nil: no other host schedules.
	Admit func(ctx context.Context, looks bool) (Turn, error)
}

// Turn is a host's permission to write. Leave ends it.
type Turn interface {
	Holds() error // returns why the turn is over: another host took this one for dead
	Leave()
}

// Store keeps one repository's records. Its methods may be called from any
// goroutine; Close comes last. A goroutine that has begun a transaction must not
// call Begin or Read until it is closed: it would wait for itself.
type Store struct {
	Layout
	opts Options
	disk disk
	runs runningJobs
	lock *schedulerLock

	copies unpackedFiles

	opening sync.Mutex // guards base and made
	base    *dir       // .vizier
	made    bool       // its directories exist

	patience time.Duration             // how long a look waits for the lock before it does without
	passed   atomic.Pointer[BusyError] // the lock that the last look did without

	// The fields below belong to the goroutine that has the lock.

	log        *journal
	cache      *cache                  // of the records; nil: to be opened
	tx         *Tx                     // the transaction under way, if one is
	patrolled  time.Time               // when this process last checked records for edits by hand
	pause      time.Duration           // how long it leaves between two such checks
	quarantine []quarantinedGroup      // as of when the lock was taken last
	few        int                     // fewFacts, or what a test sets
	found      map[kernel.JobID][]byte // records that others had changed, not on record yet; empty: gone
}

// NewStore returns the store of the repository whose main working tree is dir.
// It touches no file until it is used.
func NewStore(dir string, opts Options) *Store {
	layout := NewLayout(dir)
	return &Store{Layout: layout, opts: opts, disk: machine{}, lock: newSchedulerLock(layout.abs(lockFile), opts.Who), patience: time.Second, pause: patrolPause, few: fewFacts}
}

// Keep changes how much is kept from now on. It is for the goroutine that has the
// lock.
func (s *Store) Keep(logs int, eventBytes int64, eventFiles int) {
	s.opts.KeepLogs, s.opts.EventBytes, s.opts.EventFiles = logs, eventBytes, eventFiles
}

// open opens the store. If create is set, it makes the directories that are missing.
func (s *Store) open(create bool) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.base == nil {
		if err := s.openBase(create); err != nil {
			return err
		}
	}
	if !create || s.made {
		return nil
	}
	journal, err := s.base.make(journalDir)
	if err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	journal.close()
	s.ignore()
	s.made = true
	return nil
}

// ignore writes .vizier/.gitignore where there is none, so that `git add` does not
// take records, logs and environments along when `vizier init` was never run. It
// ignores errors: the store works without the file.
func (s *Store) ignore() {
	if there, err := s.base.exists(ignoreName); err == nil && !there {
		_ = s.base.writeNew(ignoreName, []byte(Ignored), false)
	}
}

func (s *Store) openBase(create bool) error {
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
	base, err := openRoot(dir, s.disk)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	// The lock is opened by its whole path, so this directory is no link either.
	jobs, err := base.open(jobsDir)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		base.close()
		advice := ""
		switch st, bad := os.Lstat(filepath.Join(dir, jobsDir)); {
		case errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP):
			advice = " (a symbolic link is not followed): move it away"
		case errors.Is(err, iofs.ErrPermission) && bad == nil:
			if owner := int(st.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() {
				advice = ": it " + belongsTo(owner)
			}
		}
		return fmt.Errorf("open store: %s: %w%s", filepath.Join(dir, jobsDir), err, advice)
	}
	if err == nil {
		jobs.close()
	}
	s.base = &base
	return nil
}

// Close releases what the store holds open.
func (s *Store) Close() error {
	if s.base == nil {
		return nil
	}
	s.base.close()
	err := errors.Join(s.lock.close(), s.copies.close())
	if s.log != nil {
		err = errors.Join(err, s.log.close())
	}
	s.dropCache()
	s.base, s.log, s.made = nil, nil, false
	return err
}

// Forget frees the cache, once no goroutine uses it.
func (s *Store) Forget() {
	leave, _ := s.lock.alone(context.Background()) // which never ends
	defer leave()
	s.dropCache()
}

// Begin takes the scheduler lock and completes the writes that a crash cut
// short. A lock that is not free before ctx ends is a *BusyError.
func (s *Store) Begin(ctx context.Context) (*Tx, error) {
	tx, err := s.begin(ctx, lockExclusive, nil, false)
	return tx, s.obstruction(s.unwritable(err))
}

// unwritable returns err with what to do about it, if it says that the store is read-only or its file system full, or that it has reached the limit on the size of files.
func (s *Store) unwritable(err error) error {
	switch {
	case s.base == nil:
	case isReadOnly(err):
		return fmt.Errorf("the store %s is read-only for you, so nothing can be changed here: make it writable (%w)", s.abs(""), err)
	case TooLarge(err):
		return fmt.Errorf("the store %s has a file as large as this process may write, so nothing can be changed here: "+
			"use a shell without that limit, `ulimit -f` (%w)", s.abs(""), err)
	case NoRoom(err):
		return fmt.Errorf("the file system of the store %s is full, so nothing can be changed here: make room on it (%w)", s.abs(""), err)
	}
	return err
}

// BeginSettling is Begin for a transaction that settles r's attempt. It does not
// wait: where the lock is taken it is a *BusyError. Its commit records r together
// with the job's new state, with one sync, so that Conclude need not be called
// before.
func (s *Store) BeginSettling(ctx context.Context, r kernel.Result) (*Tx, error) {
	return s.begin(ctx, lockAtOnce, &r, false)
}

func (s *Store) begin(ctx context.Context, get getLock, settles *kernel.Result, looks bool) (*Tx, error) {
	if err := s.Foreign(ctx); err != nil {
		return nil, errors.Join(s.moved(), err)
	}
	if err := s.mayMake(ctx); err != nil {
		return nil, err
	}
	if err := s.open(true); err != nil {
		return nil, err
	}
	unlock, err := s.take(ctx, get)
	if err != nil {
		return nil, err
	}
	tx := &Tx{s: s, unlock: unlock, settling: settles}
	begun := false
	defer func() { // a panic must not keep the lock
		if !begun {
			_ = unlock() // what went wrong before says more
		}
	}()
	if s.opts.Admit != nil {
		within, stop := context.WithCancel(ctx)
		if settles != nil { // it does not wait
			stop()
		}
		tx.turn, err = s.opts.Admit(within, looks)
		if stop(); err != nil {
			return nil, &notAdmittedError{err}
		}
		free := unlock
		unlock = func() error {
			tx.turn.Leave()
			return free()
		}
		tx.unlock = unlock
	}
	// Else a plan would be committed that cannot be written out.
	if err = s.base.disk.mayWrite(s.base.fd, jobsDir); err != nil {
		return nil, failed("write", jobsDir, err)
	}
	home, err := s.athome(ctx, s.opts.Tracking)
	if err == nil && home != nil {
		err = s.writeHomes(home)
	}
	if err != nil {
		return nil, err
	}
	if err = tx.recover(); err != nil {
		return nil, err
	}
	s.tx, begun = tx, true
	return tx, nil
}

// take takes the scheduler lock of the open store. The lock is opened by its path,
// the store is a descriptor: if the repository was moved, another repository may be
// at that path, whose lock protects nothing here. The error is then
// kernel.ErrMoved.
func (s *Store) take(ctx context.Context, get getLock) (release, error) {
	unlock, err := s.lock.take(ctx, get)
	if err != nil {
		return nil, errors.Join(s.moved(), err)
	}
	if moved := s.moved(); moved != nil {
		return nil, errors.Join(moved, unlock())
	}
	return unlock, nil
}

// moved returns kernel.ErrMoved if the open store still exists, but not at its
// path.
func (s *Store) moved() error {
	if err := s.displaced(); errors.Is(err, kernel.ErrMoved) {
		return err
	}
	return nil // a store that was removed fails at its next use
}

// InPlace returns an error if the open store is not at its path any more:
// kernel.ErrMoved, or fs.ErrNotExist if it was removed. A store that was not
// made yet is in its place.
func (s *Store) InPlace() error {
	if err := s.open(false); err != nil {
		return ignoreMissing(err)
	}
	return s.displaced()
}

// displaced is InPlace for a store that may not be open.
func (s *Store) displaced() error {
	if s.base == nil {
		return nil
	}
	var open, there unix.Stat_t
	if err := unix.Fstat(s.base.fd, &open); err != nil {
		return nil //nolint:nilerr // whoever uses it is told
	}
	err := unix.Lstat(filepath.Join(s.Layout.root, vizierDir), &there)
	switch {
	case err == nil && there.Dev == open.Dev && there.Ino == open.Ino, err != nil && !errors.Is(err, unix.ENOENT):
		return nil
	case open.Nlink == 0:
		return fmt.Errorf("%s was removed while this process had it open: %w; run the command again", filepath.Join(s.Layout.root, vizierDir), iofs.ErrNotExist)
	}
	return fmt.Errorf("%s: %w", s.Layout.root, kernel.ErrMoved)
}

// notAdmittedError is an error of Options.Admit.
type notAdmittedError struct{ error }

func (e *notAdmittedError) Unwrap() error { return e.error }

// complete writes the files of plans that a crash left only in the journal; looks says
// that the caller only reads.
func (s *Store) complete(ctx context.Context, looks bool) error {
	tx, err := s.begin(ctx, lockExclusive, nil, looks)
	if err != nil {
		return err
	}
	return tx.Close()
}

// errBehind says that the journal has changes that the files lack, or that quarantined
// changes should be tried again.
var errBehind = errors.New("the journal holds changes that are to be written first")

// Read is a consistent read that changes nothing, unless a crash left writes
// to complete. A store that cannot be locked, on a read-only file system, is
// read as it is.
func (s *Store) Read(ctx context.Context, scope kernel.Scope) (kernel.Records, error) {
	rec, err := s.read(ctx, scope)
	return rec, s.obstruction(err)
}

func (s *Store) read(ctx context.Context, scope kernel.Scope) (kernel.Records, error) {
	if err := s.open(false); err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			return kernel.Records{}, nil
		}
		return kernel.Records{}, err
	}
	if s.elsewhere(ctx) {
		return s.readAsItIs(ctx, scope)
	}
	rec, err := s.readShared(ctx, scope, true)
	if !errors.Is(err, errBehind) {
		return rec, err
	}
	var refused *notAdmittedError
	if err := s.complete(ctx, true); NoRoom(err) || errors.Is(err, ErrNewer) || errors.Is(err, ErrForeign) || errors.Is(err, errHeld) || isReadOnly(err) || errors.As(err, &refused) {
		return s.readAhead(ctx, scope)
	} else if err != nil {
		return kernel.Records{}, err
	}
	if rec, err = s.readShared(ctx, scope, false); errors.Is(err, errBehind) {
		return s.readAsItIs(ctx, scope)
	}
	return rec, err
}

// readShared reads the files under a shared lock. It returns errBehind if the journal has
// more; quarantined changes count only if try is true.
func (s *Store) readShared(ctx context.Context, scope kernel.Scope, try bool) (rec kernel.Records, err error) {
	unlock, err := s.takeShared(ctx, func(error) (err error) {
		if err = s.lookAtQuarantine(); err == nil {
			rec, err = s.ahead(scope)
		}
		return err
	})
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, kernel.ErrMoved) || isReadOnly(err) {
		return s.readAsItIs(ctx, scope)
	}
	if err != nil || unlock == nil {
		return rec, err
	}
	due := false
	defer func() {
		err = errors.Join(err, unlock())
		if err == nil && due {
			s.refreshCache(ctx)
		}
	}()
	pos, behind, err := s.behind()
	if errors.Is(err, iofs.ErrNotExist) || isReadOnly(err) {
		return s.loadUnlocked(scope)
	}
	if err != nil {
		return rec, err
	}
	if err := s.lookAtQuarantine(); err != nil {
		return rec, err
	}
	if behind || len(s.quarantine) > 0 && try {
		return rec, errBehind
	}
	rec, err = s.load(pos, scope)
	due = err == nil && s.cache.due()
	return rec, err
}

// readAsItIs reads every record without locking other processes out.
func (s *Store) readAsItIs(ctx context.Context, scope kernel.Scope) (kernel.Records, error) {
	leave, err := s.lock.alone(ctx)
	if err != nil {
		return kernel.Records{}, err
	}
	defer leave()
	return s.loadUnlocked(scope)
}

// readAhead reads the records with the changes that only the journal has, because the
// disk is full, the store is read-only, or only a newer version can write them.
func (s *Store) readAhead(ctx context.Context, scope kernel.Scope) (rec kernel.Records, err error) {
	unlock, err := s.take(ctx, lockShared)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return s.ahead(scope)
}

// ahead is readAhead for a caller that keeps others from writing, or notices that they did.
func (s *Store) ahead(scope kernel.Scope) (kernel.Records, error) {
	defer s.dropCache() // the cache is ahead of the files
	pos, _, err := s.behind()
	if err == nil {
		err = s.catchUp(pos)
	}
	for at := pos.end; err == nil; {
		var e entry
		e, at, err = s.log.read(at)
		for _, g := range e.groups {
			err = errors.Join(err, s.followGroup(g))
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) { // the end of the journal
		return s.records(scope)
	}
	return kernel.Records{}, err
}

// takeShared takes the lock for a look. If its holder does not let go for a while, it calls look
// without the lock, with the error that names the holder, and there is no lock to give back (nil).
// If the look before did without, that has been waited for already.
func (s *Store) takeShared(ctx context.Context, look func(held error) error) (release, error) {
	wait := s.patience
	if s.passed.Load() != nil {
		wait /= 100
	}
	within, stop := context.WithTimeout(ctx, wait)
	unlock, err := s.take(within, lockShared)
	stop()
	busy, held := errors.AsType[*BusyError](err)
	if !held || ctx.Err() != nil {
		s.passed.Store(nil)
		return unlock, err
	}
	s.passed.Store(busy)
	if err := s.beside(ctx, func() error { return look(busy) }); !errors.Is(err, errBehind) {
		return nil, err
	}
	s.passed.Store(nil)
	return s.take(ctx, lockShared)
}

// beside calls f, which reads, while another process has the lock and does not let go: it is
// stopped, or its disk hangs. What it has committed counts. Whoever writes begins with the journal, so
// if that stays as it is, all does. Otherwise the error is errBehind, and what f read is worth nothing.
func (s *Store) beside(ctx context.Context, f func() error) (err error) {
	leave, err := s.lock.alone(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	if err := s.moved(); err != nil {
		return err
	}
	s.dropCache()
	before, size, err := s.journalEnd()
	if err != nil {
		return err
	}
	read := f()
	after, now, err := s.journalEnd()
	if err != nil {
		return err
	}
	if after != before || now != size {
		return errBehind
	}
	return read
}

// Passed returns the lock that the last look did without, since its holder did not let go, or nil.
func (s *Store) Passed() *BusyError { return s.passed.Load() }

// refreshCache writes the cache if the lock is free. It drops errors: a cache costs
// only time.
func (s *Store) refreshCache(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_ = s.complete(ctx, true)
}

// behind returns the position up to which the journal was applied, and whether it has
// more after that.
func (s *Store) behind() (position, bool, error) {
	p, size, err := s.journalEnd()
	return p, size > p.end, err
}

// journalEnd returns the position up to which the journal was applied, and its size.
func (s *Store) journalEnd() (p position, size int64, err error) {
	if err := s.openJournal(); err != nil {
		return p, 0, err
	}
	if p, _, err = s.log.position(); err != nil {
		return p, 0, err
	}
	size, err = s.log.size()
	return p, size, err
}

// load reads the records of scope, for a caller that holds the lock.
func (s *Store) load(pos position, scope kernel.Scope) (kernel.Records, error) {
	if err := s.catchUp(pos); err != nil {
		return kernel.Records{}, err
	}
	rec, err := s.records(scope)
	if errors.Is(err, errCache) { // it is damaged: make it anew
		if err := s.rebuildCache(journalOffset{pos.epoch, pos.end}); err != nil {
			return kernel.Records{}, err
		}
		return s.records(scope)
	}
	return rec, err
}

// loadUnlocked reads every record as it is, for a caller that has the turn.
func (s *Store) loadUnlocked(scope kernel.Scope) (kernel.Records, error) {
	if err := s.lookAtQuarantine(); err != nil {
		return kernel.Records{}, err
	}
	defer s.dropCache()
	if err := s.rebuildCache(journalOffset{}); err != nil {
		return kernel.Records{}, err
	}
	return s.records(scope)
}

func (s *Store) openJournal() error {
	if s.log != nil {
		return nil
	}
	log, err := openJournal(*s.base, s.opts.Boot, s.opts.Durable)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	s.log = log
	return nil
}

// readRecord reads the record of one job. A job without one is ErrNotExist.
func (s *Store) readRecord(id kernel.JobID) (kernel.Job, *foreign, error) {
	b, err := s.readRecordFile(id)
	if err != nil {
		return kernel.Job{}, nil, err
	}
	return s.decodeRecordFile(id, b)
}

func (s *Store) readRecordFile(id kernel.JobID) ([]byte, error) {
	b, err := s.readJobFile(id, recordName, maxRecord)
	if unread(err) { // those who run after a job whose record cannot be read are blocked, until somebody retries them: not for one read
		b, err = s.readJobFile(id, recordName, maxRecord)
	}
	if errors.Is(err, syscall.ENOTDIR) { // it is not missing: something else is there, perhaps a link
		err = fmt.Errorf("%s: not a directory", path.Join(vizierDir, jobPath(id, "")))
	}
	return b, err
}

func (s *Store) decodeRecordFile(id kernel.JobID, b []byte) (kernel.Job, *foreign, error) {
	j, f, err := decodeRecord(id, b)
	if err != nil {
		return kernel.Job{}, nil, fmt.Errorf("%s: %w", filepath.Join(vizierDir, s.fileOf(id, recordName)), err)
	}
	return j, f, nil
}

// IDs returns the ids of all jobs, in no order. It reads no record. An abbreviated id is
// resolved against them.
func (s *Store) IDs() ([]kernel.JobID, error) {
	if err := s.open(false); err != nil {
		return nil, ignoreMissing(err)
	}
	return s.jobIDs()
}

// jobIDs returns the ids of all jobs with a directory or a pack, each once, in no
// order.
func (s *Store) jobIDs() ([]kernel.JobID, error) {
	names, err := s.base.names(jobsDir)
	ids := make([]kernel.JobID, 0, len(names))
	packed := 0
	for _, name := range names {
		id, is := strings.CutSuffix(name, packSuffix)
		if kernel.ValidJobID(id) {
			ids = append(ids, kernel.JobID(id))
		}
		if is {
			packed++
		}
	}
	if packed > 0 { // a job that is being packed has both
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	return ids, err
}

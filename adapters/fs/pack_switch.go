package fs

import (
	"compress/gzip"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Pack packs jobs that ended before a time, at most most of them, in the order of
// their ends. It reports whether there may be more, and the next call gets on with
// that. It does nothing if an earlier transaction must be completed first.
//
// The packs are durable before the journal says that they count, also in a store
// that is not durable: the files that they replace have been on the disk for long.
func (t *Tx) Pack(ended time.Time, most int) (more bool, err error) {
	defer func() {
		if err != nil {
			t.s.dropCache()
		}
		if errors.Is(err, errCache) {
			err = nil // the next transaction has another cache
		}
	}()
	if err := t.s.catchUp(t.pos); err != nil {
		return false, err
	}
	keys, err := t.s.cache.endedBefore(ended, most)
	if err != nil || len(keys) == 0 || len(t.unfinished) > 0 || !t.pos.done {
		return false, err
	}
	seen, err := t.pack(keys)
	if err != nil {
		return false, fmt.Errorf("pack jobs: %w", err)
	}
	return seen == most, nil
}

// pack packs the jobs of these keys if they can be packed. It returns for how many
// keys nothing is left to do, as far as the disk tells the next transaction.
func (t *Tx) pack(keys []string) (seen int, err error) {
	s := t.s
	var e entry
	z := gzip.NewWriter(nil)
	before := s.jobsStamp()
	for _, key := range keys {
		id := idIn(key)
		if held, err := s.base.exists(jobPath(id, lockName)); err != nil || held && s.locked(jobPath(id, lockName)) {
			continue // its runner has not left yet
		}
		seen++
		s.cache.set(key, nil) // whether or not it can be packed: that does not change before the job does
		written, err := s.writePack(z, id)
		if err != nil {
			return seen, err
		}
		if written {
			e.groups = append(e.groups, group{job: id, ops: []fileOp{{kind: opPack}}})
		}
	}
	if len(e.groups) > 0 {
		if err := s.base.syncAll(); err != nil { // to sync each takes ten times as long
			return seen, err
		}
		t.agree(before)
		first := !t.pos.packs
		t.pos.packs = true
		if err := t.write(e, first || s.log.full(t.pos)); err != nil {
			return seen, err
		}
		if err := s.followEntry(e); err != nil {
			return seen, err
		}
	}
	err = s.cache.log(journalOffset{t.pos.epoch, t.pos.end})
	if len(e.groups) == 0 && (s.cache.rebuilt || s.cache.long) {
		return 0, err // only the cache knows it, and perhaps cannot be saved
	}
	return seen, err
}

// writePack writes the pack of a job if it can be packed, and reports whether it
// could. It is not durable yet.
func (s *Store) writePack(z *gzip.Writer, id kernel.JobID) (written bool, err error) {
	if there, err := s.base.exists(jobPath(id, "")); !there || err != nil {
		return false, err
	}
	if k, err := s.lookup(id); err != nil || k == nil || endedAt(k.job).IsZero() {
		return false, err
	}
	files, err := s.packable(id)
	if err != nil || len(files) == 0 {
		return false, nil // a job that cannot be read stays as it is
	}
	data, err := encodePack(z, files)
	if err != nil {
		return false, err
	}
	return true, s.base.write(packFile(id), data, false)
}

// completePack removes the directory of a job that has a pack, and reports whether
// it has.
func (s *Store) completePack(id kernel.JobID) (packed bool, err error) {
	if id == "" {
		return false, nil
	}
	if _, err := s.readPack(id); err != nil {
		return false, ignoreMissing(err)
	}
	return true, s.removeTree(string(id))
}

// neverCounted reports that err is about a pack that a power failure left before it was
// durable: the job's directory still exists, and is removed only after the pack is durable.
// The record may be missing there; the journal has it.
func (s *Store) neverCounted(id kernel.JobID, err error) bool {
	if !errors.Is(err, errPack) {
		return false
	}
	there, err := s.base.exists(jobPath(id, ""))
	return there && err == nil
}

// unpack puts the files of a job back into its directory, durably, and removes the
// pack.
func (s *Store) unpack(id kernel.JobID) error {
	files, err := s.readPack(id)
	if errors.Is(err, iofs.ErrNotExist) || s.neverCounted(id, err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		d, err := s.base.make(path.Dir(jobPath(id, f.name)))
		if err != nil {
			return err
		}
		err = d.write(path.Base(f.name), f.data, true)
		d.close()
		if err != nil {
			return below(path.Dir(jobPath(id, f.name)), err)
		}
	}
	if err := s.base.remove(packFile(id)); err != nil {
		return err
	}
	return s.base.in(packFile(id), func(d dir, _ string) error { return d.sync(packFile(id), true) })
}

package fs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// cache has the records and their indices, by key, as of an offset in the
// journal; later changes are read from there. Deleting its files costs only time,
// and the records on disk win over it (docs/formats/cache.md).
type cache struct {
	kv       *kv
	offset   journalOffset // up to which the cache has the journal
	logged   journalOffset // up to which its log has it
	unlogged []keyValue    // the changes in between
	long     bool          // the log would be too long for these: they go into a table, and unlogged has none
	rebuilt  bool          // made from every record: its log has none of it
	dir      int64         // the stamp of the jobs directory that it agrees with; 0: not known

	told map[kernel.Near]string // what the tick judged by whose jobs are being put; see Tx.JudgedBy
}

// journalOffset is a place in the journal.
type journalOffset struct {
	epoch uint64
	end   int64
}

const cacheVersion = "vizier cache 11"

// cacheHead is the head of a cache that this boot and this version of the program
// may use.
func cacheHead(boot string, at journalOffset) []byte {
	b := putBytes(nil, []byte(cacheVersion))
	b = putBytes(b, []byte(boot))
	b = binary.AppendUvarint(b, jobFingerprint())
	return appendOffset(b, at)
}

func appendOffset(b []byte, p journalOffset) []byte {
	return binary.AppendVarint(binary.AppendUvarint(b, p.epoch), p.end)
}

func (r *reader) offset() journalOffset { return journalOffset{r.uint(), r.int()} }

// openCache opens the cache on the disk. It is errCache if it is of another boot
// or version.
func openCache(base dir, boot string) (*cache, error) {
	k, head, err := openKV(base)
	if err != nil {
		return nil, err
	}
	r := &reader{b: head}
	if version, on, print := string(r.bytes()), string(r.bytes()), r.uint(); version != cacheVersion || on != boot || print != jobFingerprint() {
		k.close()
		return nil, errCache
	}
	c := &cache{kv: k, logged: r.offset()}
	if c.offset = c.logged; r.err != nil {
		k.close()
		return nil, errCache
	}
	return c, nil
}

// readLog reads what other processes wrote to the log.
func (c *cache) readLog() error {
	return c.kv.readLog(func(note []byte) bool {
		r := &reader{b: note}
		from, to := r.offset(), r.offset()
		if r.err != nil || from != c.offset || len(c.unlogged) > 0 || c.long {
			return false
		}
		c.offset, c.logged = to, to
		return true
	})
}

// catchUp brings the cache to pos in the cheapest way that is right: from its log,
// from the journal, or from every record. If something else than a commit changed the
// jobs directory, it looks at that too.
func (s *Store) catchUp(pos position) (err error) {
	if t := s.tx; t != nil {
		if s.cache != nil && s.cache == t.caught && s.cache.offset == (journalOffset{pos.epoch, pos.end}) {
			return nil
		}
		defer func() {
			if t.caught = nil; err == nil {
				t.caught = s.cache
			}
		}()
	}
	dir := s.jobsStamp()
	for old := true; old; {
		old = s.cache != nil
		err := s.advance(pos)
		if err == nil && pos.dir != dir && s.cache.dir != dir {
			err = s.reconcile()
		}
		if err == nil {
			s.cache.dir = dir
			return nil
		}
		s.dropCache()
	}
	if err := s.rebuildCache(journalOffset{pos.epoch, pos.end}); err != nil {
		return err
	}
	s.cache.dir = dir
	return nil
}

// reconcile reads the records of jobs that came into the jobs directory or left it without
// a commit, and those that changed. Most changes of the directory are of no job: a lock's
// file that was made, or one of a host that was replaced. A change of a job that succeeded
// is noticed when it is read.
func (s *Store) reconcile() error {
	ids, err := s.jobIDs()
	if err != nil {
		return err
	}
	there := make(map[kernel.JobID]bool, len(ids))
	for _, id := range ids {
		there[id] = true
	}
	var changed []kernel.JobID
	succeeded := statusKey(kernel.Succeeded)
	err = s.cache.kv.each(keyStatus, func(key string, value []byte) bool {
		id := idIn(key)
		if !there[id] || !strings.HasPrefix(key, succeeded) && s.stampOf(id) != (&reader{b: value}).stamp() {
			changed = append(changed, id)
		}
		delete(there, id)
		return true
	})
	if err != nil {
		return err
	}
	for _, id := range slices.Concat(changed, slices.Sorted(maps.Keys(there))) {
		was, err := s.cache.kv.get(keyEntry + string(id))
		if err != nil {
			return err
		}
		if now, err := s.recheck(id, was); err != nil {
			return err
		} else if now == nil && was != nil {
			s.cache.set(keyDirty+string(id), []byte{}) // so that its dependents are judged again
		}
	}
	return nil
}

// advance brings the cache to pos from its log and the journal. It is errCache if
// they do not lead there.
func (s *Store) advance(pos position) (err error) {
	if s.cache == nil {
		if s.cache, err = openCache(*s.base, s.opts.Boot); err != nil {
			return err
		}
	}
	c := s.cache
	if !c.rebuilt {
		if !c.kv.current() {
			return errCache
		}
		if err := c.readLog(); err != nil {
			return err
		}
	}
	if c.offset.epoch != pos.epoch || c.offset.end > pos.end {
		return errCache
	}
	return s.followJournal(pos.end)
}

// followJournal applies the journal up to an offset. It marks the jobs dirty: the
// journal does not say whether a tick has judged them.
func (s *Store) followJournal(end int64) error {
	for c := s.cache; c.offset.end < end; {
		e, next, err := s.log.read(c.offset.end)
		if err != nil {
			return err
		}
		if err := s.followEntry(e); err != nil {
			return err
		}
		c.offset.end = next
	}
	return nil
}

func (s *Store) followEntry(e entry) error {
	for _, g := range e.groups {
		if err := s.followGroup(g); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) followGroup(g group) error {
	switch {
	case g.does(opRemoveJob):
		return s.cache.remove(g.job)
	case g.does(opPack):
		return s.cache.packed(g.job, s.stampOf(g.job))
	case g.record != nil:
		j, f, err := decodeRecord(g.job, g.record)
		if err != nil {
			return err
		}
		k := cachedJob{job: &j, foreign: f, file: s.stampOf(g.job)}
		if s.editedAfter(g) {
			k.file = fileStamp{} // so that whoever reads it next notices
		}
		return s.cache.put(k, true)
	}
	return nil
}

// editedAfter reports whether g's record was changed by hand since g was written to it. One that still
// has an earlier revision was not: it lacks what the journal has.
func (s *Store) editedAfter(g group) bool {
	if s.base == nil {
		return false
	}
	b, err := s.readRecordFile(g.job)
	if err != nil || bytes.Equal(b, g.record) {
		return ignoreMissing(err) != nil
	}
	j, _, err := decodeRecord(g.job, b)
	return err != nil || j.Rev >= g.rev
}

func (s *Store) dropCache() {
	if s.cache != nil {
		s.cache.kv.close()
		s.cache = nil
	}
}

// rebuildCache makes the cache from every record, and marks every job dirty.
func (s *Store) rebuildCache(at journalOffset) error {
	s.dropCache()
	ids, err := s.jobIDs()
	if err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	s.cache = &cache{kv: &kv{base: *s.base}, offset: at, rebuilt: true}
	s.cache.set(keyBlind, []byte{})
	for _, id := range ids {
		if err := s.reread(id); err != nil {
			s.dropCache() // nobody must save a part of it
			return err
		}
	}
	return nil
}

// reread reads the record of id from the disk into the cache.
func (s *Store) reread(id kernel.JobID) error {
	file := s.stampOf(id)
	j, f, err := s.readRecord(id)
	switch {
	case err == nil:
		err = s.cache.put(cachedJob{&j, f, file, false}, true)
		if err == nil && !endedAt(&j).IsZero() && file == s.base.stamp(packFile(id)) {
			err = s.cache.clear(endedKey(&j)) // it is packed
		}
		return err
	case ignoreMissing(err) == nil:
		return s.cache.remove(id)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM): // this process's fault, and not the record's
		return err
	}
	why := err.Error()
	if have, err := s.cache.kv.get(keyUnread + string(id)); err != nil || string(have) == why {
		return err
	}
	if err := s.cache.remove(id); err != nil {
		return err
	}
	s.cache.set(keyUnread+string(id), []byte(why))
	s.cache.set(keyDirty+string(id), []byte{}) // so that its dependents are judged again
	return nil
}

// maxPatrol is how many records a patrol checks for edits by hand, besides those that
// the transaction reads. In turn it reaches all jobs that have not succeeded.
const maxPatrol = 64

// patrolPause is how long a process leaves between two patrols: a runner commits
// hundreds of times a second, and people edit more slowly.
const patrolPause = 50 * time.Millisecond

// patrol checks the records of the next maxPatrol jobs.
func (s *Store) patrol() error {
	c := s.cache
	from, err := c.kv.get(keyPatrol)
	if err != nil {
		return err
	}
	var keys []string
	var known []fileStamp
	for _, st := range kernel.Statuses() {
		if st == kernel.Succeeded || len(keys) > maxPatrol {
			continue
		}
		prefix := statusKey(st)
		err = c.kv.eachFrom(max(prefix, string(from)), prefix, func(key string, value []byte) bool {
			keys, known = append(keys, key), append(known, (&reader{b: value}).stamp())
			return len(keys) <= maxPatrol
		})
		if err != nil {
			return err
		}
	}
	for i, key := range keys[:min(len(keys), maxPatrol)] {
		if id := idIn(key); s.stampOf(id) != known[i] {
			if _, err := s.fresh(id); err != nil {
				return err
			}
		}
	}
	switch {
	case len(keys) > maxPatrol:
		c.set(keyPatrol, []byte(keys[maxPatrol]))
	case len(from) > 0: // these were the last: the next look begins anew
		c.set(keyPatrol, nil)
	}
	return nil
}

// fresh is the entry of a job; nil: it has no record, or an unreadable one. If the
// record was edited by hand since it was cached, fresh reads it again and marks the
// job dirty.
func (s *Store) fresh(id kernel.JobID) ([]byte, error) {
	b, err := s.cache.kv.get(keyEntry + string(id))
	if b == nil || err != nil {
		return nil, err
	}
	if (&reader{b: b}).stamp() == s.stampOf(id) {
		return b, nil
	}
	return s.recheck(id, b)
}

// recheck reads a record again whose entry was was, and returns the new entry. What others have changed goes on record,
// and the next tick judges all jobs: those that depended on what the record said may not depend on it any more.
func (s *Store) recheck(id kernel.JobID, was []byte) (now []byte, err error) {
	if err = s.reread(id); err != nil {
		return nil, err
	}
	if now, err = s.cache.kv.get(keyEntry + string(id)); err != nil {
		return nil, err
	}
	if !saysElse(was, now) {
		return now, nil
	}
	if s.note(id); was != nil {
		s.cache.set(keyJudged, []byte{})
		if s.tx != nil {
			s.tx.edited = true
		}
	}
	return now, nil
}

// saysElse reports whether the entry of a job, which was made anew, says something else. It
// does not have the fields that the kernel does not know, so these count as edited.
func saysElse(was, now []byte) bool {
	a, b := &reader{b: was}, &reader{b: now}
	a.stamp()
	b.stamp()
	return len(b.b) > 0 && b.b[0] == 1 || !bytes.Equal(a.b, b.b)
}

// stampOf is the stamp of the file that has a job's record.
func (s *Store) stampOf(id kernel.JobID) fileStamp {
	if s.base == nil { // it is a copy in memory
		return fileStamp{}
	}
	if own := s.base.stamp(jobPath(id, recordName)); own != (fileStamp{}) {
		return own
	}
	return s.base.stamp(packFile(id))
}

func (s *Store) jobsStamp() int64 {
	return s.base.modified(jobsDir)
}

// log writes the changes to the log. The caller holds the lock.
func (c *cache) log(to journalOffset) error {
	c.offset = to
	if c.rebuilt || c.long || len(c.unlogged) == 0 && c.offset == c.logged {
		return nil
	}
	if err := c.kv.add(appendOffset(appendOffset(nil, c.logged), c.offset), c.unlogged); err != nil {
		return err
	}
	c.logged, c.unlogged = c.offset, nil
	return nil
}

// due reports that the cache should be saved: its log is long, or a read noticed a
// record that was edited by hand.
func (c *cache) due() bool {
	return c.rebuilt || c.long || c.kv.logEnd > maxLog || len(c.unlogged) > 0
}

// saveCache writes the log, and tables if it has grown too long.
func (s *Store) saveCache() error {
	c := s.cache
	if c.rebuilt {
		return errors.Join(s.removeCache(), s.compact())
	}
	if err := c.log(c.offset); err != nil {
		return err
	}
	if c.kv.logEnd <= maxLog && !c.long {
		return nil
	}
	return s.compact()
}

func (s *Store) compact() error {
	c := s.cache
	next, err := c.kv.compact(cacheHead(s.opts.Boot, c.offset))
	if err != nil {
		return err
	}
	s.cache = &cache{kv: next, offset: c.offset, logged: c.offset}
	return nil
}

// removeCache removes the files of the old cache, and those that earlier versions
// of the program kept instead.
func (s *Store) removeCache() error {
	names, err := s.base.names(journalDir)
	for _, name := range names {
		if name == "index" || name == "archive" || name == cacheName || len(name) > len(cacheName) && name[:len(cacheName)+1] == cacheName+"." {
			err = errors.Join(err, s.base.remove(journalDir+"/"+name))
		}
	}
	return err
}

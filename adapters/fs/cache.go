package fs

import (
	"encoding/binary"
	"errors"
	"fmt"

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
	rebuilt  bool          // made from every record: its log has none of it
}

// journalOffset is a place in the journal.
type journalOffset struct {
	epoch uint64
	end   int64
}

const cacheVersion = "vizier cache 1"

// cacheHead is the head of a cache that this boot and this version of the program
// may use.
func cacheHead(boot string, at journalOffset) []byte {
	b := putBytes(nil, []byte(cacheVersion))
	b = putBytes(b, []byte(boot))
	b = binary.AppendUvarint(b, jobFingerprint)
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
	if version, on, print := string(r.bytes()), string(r.bytes()), r.uint(); version != cacheVersion || on != boot || print != jobFingerprint {
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
	err := c.kv.readLog(func(note []byte) bool {
		r := &reader{b: note}
		from, to := r.offset(), r.offset()
		if r.err != nil || from != c.offset || len(c.unlogged) > 0 {
			return false
		}
		c.offset, c.logged = to, to
		return true
	})
	return err
}

// catchUp brings the cache to pos in the cheapest way that is right: from its log,
// from the journal, or from every record.
func (s *Store) catchUp(pos position) error {
	dir := s.jobsStamp()
	for pos.dir == dir {
		old := s.cache != nil
		if err := s.advance(pos); err == nil {
			return nil
		}
		s.dropCache()
		if !old {
			break
		}
	}
	return s.rebuildCache(journalOffset{pos.epoch, pos.end})
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
	case g.record != nil:
		j, f, err := decodeRecord(g.job, g.record)
		if err != nil {
			return err
		}
		return s.cache.put(cachedJob{job: &j, foreign: f, file: s.stampOf(g.job)}, true)
	}
	return nil
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
	for _, id := range ids {
		if err := s.reread(id); err != nil {
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
		return s.cache.put(cachedJob{&j, f, file, false}, true)
	case ignoreMissing(err) == nil:
		return s.cache.remove(id)
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

// maxPatrol is how many records each transaction checks for edits by hand besides
// those it reads. In turn it reaches all jobs that have not succeeded.
const maxPatrol = 64

// patrol checks the records of the next maxPatrol jobs.
func (s *Store) patrol() error {
	c := s.cache
	from, err := c.kv.get(keyPatrol)
	if err != nil {
		return err
	}
	var keys []string
	for _, at := range []string{max(keyStatus, string(from)), keyStatus} {
		err := c.kv.eachFrom(at, keyStatus, func(key string, _ []byte) bool {
			if kernel.Status(key[len(keyStatus)]) != kernel.Succeeded {
				keys = append(keys, key)
			}
			return len(keys) <= maxPatrol
		})
		if err != nil {
			return err
		}
		if len(keys) > maxPatrol || at == keyStatus {
			break
		}
		keys = keys[:0] // few are left: begin again at the first
		from = nil
	}
	for _, key := range keys[:min(len(keys), maxPatrol)] {
		if _, err := s.lookup(idIn(key)); err != nil {
			return err
		}
	}
	switch {
	case len(keys) > maxPatrol:
		c.set(keyPatrol, []byte(keys[maxPatrol]))
	case len(from) > 0:
		c.set(keyPatrol, nil)
	}
	return nil
}

func (s *Store) stampOf(id kernel.JobID) fileStamp { return s.base.stamp(jobPath(id, recordName)) }

func (s *Store) jobsStamp() int64 {
	return s.base.modified(jobsDir)
}

// set changes a key, for the next piece of the log.
func (c *cache) set(key string, value []byte) {
	e := keyValue{key, value}
	c.kv.memtable.put(e)
	if !c.rebuilt {
		c.unlogged = append(c.unlogged, e)
	}
}

// entry is the cached job; nil: it has no record, or an unreadable one.
func (c *cache) entry(id kernel.JobID) (*cachedJob, error) {
	b, err := c.kv.get(keyEntry + string(id))
	if b == nil || err != nil {
		return nil, err
	}
	k, err := decodeCachedJob(b)
	return &k, err
}

// put caches k. Dirty says that no tick has judged it.
func (c *cache) put(k cachedJob, dirty bool) error {
	was, err := c.entry(k.job.ID)
	if err != nil {
		return err
	}
	return c.replace(was, &k, dirty)
}

// remove forgets a job.
func (c *cache) remove(id kernel.JobID) error {
	was, err := c.entry(id)
	if err != nil {
		return err
	}
	if was != nil {
		return c.replace(was, nil, false)
	}
	return c.clear(keyUnread + string(id))
}

// clear removes a key, if it is there.
func (c *cache) clear(key string) error {
	b, err := c.kv.get(key)
	if b != nil {
		c.set(key, nil)
	}
	return err
}

func (c *cache) replace(was, now *cachedJob, dirty bool) error {
	var id kernel.JobID
	var old, keys []string
	if was != nil {
		id, old = was.job.ID, keysOf(was.job)
	}
	if now != nil {
		id, keys = now.job.ID, keysOf(now.job)
		if err := c.clear(keyUnread + string(id)); err != nil {
			return err
		}
		c.set(keyEntry+string(id), encodeCachedJob(*now))
	} else {
		c.set(keyEntry+string(id), nil)
	}
	for _, key := range difference(old, keys) {
		c.set(key, nil)
	}
	for _, key := range difference(keys, old) {
		c.set(key, []byte{})
	}
	if dirty && now != nil {
		c.set(keyDirty+string(id), []byte{})
	} else if err := c.clear(keyDirty + string(id)); err != nil {
		return err
	}
	if err := c.count(was, now); err != nil {
		return err
	}
	return c.consumers(was, now)
}

func (c *cache) count(was, now *cachedJob) error {
	if was != nil && now != nil && was.job.State.Status == now.job.State.Status {
		return nil
	}
	for delta, k := range map[int]*cachedJob{-1: was, 1: now} {
		if k == nil {
			continue
		}
		st := k.job.State.Status
		n, err := c.counted(st)
		if err != nil {
			return err
		}
		c.set(countKey(st), binary.AppendVarint(nil, int64(n+delta)))
	}
	return nil
}

func countKey(st kernel.Status) string { return keyCount + string([]byte{byte(st)}) }

// counted is how many jobs have a status.
func (c *cache) counted(st kernel.Status) (int, error) {
	b, err := c.kv.get(countKey(st))
	if b == nil || err != nil {
		return 0, err
	}
	r := &reader{b: b}
	return int(r.int()), r.err
}

// consumers updates the keys of needed artifacts. They depend on other jobs:
// keyNeeds is for a consumer whose run has a producer of its own, keyOutside for
// the others.
func (c *cache) consumers(was, now *cachedJob) error {
	var old, next *kernel.Job
	if was != nil {
		old = was.job
	}
	if now != nil {
		next = now.job
	}
	if old != nil && old.Consumes() && (next == nil || !next.Consumes()) {
		for _, a := range old.Spec.Needs {
			c.set(scheduleKey(needKey(keyNeeds, a, old), old), nil)
			c.set(scheduleKey(needKey(keyOutside, a, old), old), nil)
		}
	}
	if (old == nil) != (next == nil) { // a producer came or went
		j := orJob(next, old)
		for _, a := range j.Spec.Produces {
			if err := c.sortConsumers(a, j); err != nil {
				return err
			}
		}
	}
	if next != nil && next.Consumes() && (old == nil || !old.Consumes()) {
		for _, a := range next.Spec.Needs {
			own, err := c.ownProducer(a, next)
			if err != nil {
				return err
			}
			c.set(scheduleKey(needKey(needKind(own), a, next), next), []byte{})
		}
	}
	return nil
}

func orJob(a, b *kernel.Job) *kernel.Job {
	if a != nil {
		return a
	}
	return b
}

func needKind(own bool) string {
	if own {
		return keyNeeds
	}
	return keyOutside
}

func needKey(kind string, a kernel.Artifact, j *kernel.Job) string {
	return keyOf(kind, labelOf(a), string(j.Spec.Origin.Run))
}

// sortConsumers moves the consumers of a in the run of j between keyNeeds and
// keyOutside.
func (c *cache) sortConsumers(a kernel.Artifact, j *kernel.Job) error {
	if j.Spec.Origin.Run == "" {
		return nil
	}
	for _, kind := range []string{keyNeeds, keyOutside} {
		prefix := needKey(kind, a, j)
		keys, err := c.keys(prefix)
		if err != nil {
			return err
		}
		for _, key := range keys {
			k := kernel.Job{ID: idIn(key)}
			k.Spec.Origin.Run = j.Spec.Origin.Run
			own, err := c.ownProducer(a, &k)
			if err != nil {
				return err
			}
			if now := needKind(own); now != kind {
				c.set(key, nil)
				c.set(needKey(now, a, j)+key[len(prefix):], []byte{})
			}
		}
	}
	return nil
}

// ownProducer reports that another job of the run of j makes a.
func (c *cache) ownProducer(a kernel.Artifact, j *kernel.Job) (yes bool, err error) {
	if j.Spec.Origin.Run == "" {
		return false, nil
	}
	err = c.kv.each(needKey(keyProduces, a, j), func(key string, _ []byte) bool {
		yes = idIn(key) != j.ID
		return !yes
	})
	return yes, err
}

// keys are the keys that begin with prefix.
func (c *cache) keys(prefix string) (out []string, err error) {
	err = c.kv.each(prefix, func(key string, _ []byte) bool {
		out = append(out, key)
		return true
	})
	return out, err
}

// judge records what a tick judged by, and that no job is dirty any more.
func (c *cache) judge(by string) error {
	dirty, err := c.keys(keyDirty)
	if err != nil {
		return err
	}
	for _, key := range dirty {
		c.set(key, nil)
	}
	have, err := c.kv.get(keyJudged)
	if string(have) != by {
		c.set(keyJudged, []byte(by))
	}
	return err
}

// log writes the changes to the log. The caller holds the lock.
func (c *cache) log(to journalOffset) error {
	c.offset = to
	if c.rebuilt || len(c.unlogged) == 0 && c.offset == c.logged {
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
func (c *cache) due() bool { return c.rebuilt || c.kv.logEnd > maxLog || len(c.unlogged) > 0 }

// saveCache writes the log, and tables if it has grown too long.
func (s *Store) saveCache() error {
	c := s.cache
	if c.rebuilt {
		return errors.Join(s.removeCache(), s.compact())
	}
	if err := c.log(c.offset); err != nil {
		return err
	}
	if c.kv.logEnd <= maxLog {
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

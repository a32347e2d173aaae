package fs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
)

// cache is what the store knows of the records, by key. It stands for the journal
// at a position, and what comes after that is taken from there. It is a cache:
// deleting its files changes nothing but time, and the records on disk win over
// it (docs/formats/cache.md).
type cache struct {
	kv       *kv
	at       place     // of the journal, which it stands for
	logged   place     // which its log stands for
	unlogged []setting // in between
	anew     bool      // made of every record: its log has nothing of it
}

// place is one in the journal.
type place struct {
	epoch uint64
	end   int64
}

const cacheVersion = "vizier cache 1"

// headOf is what a cache must begin with to be this boot's and this program's.
func headOf(boot string, at place) []byte {
	b := putBytes(nil, []byte(cacheVersion))
	b = putBytes(b, []byte(boot))
	b = binary.AppendUvarint(b, jobFingerprint)
	return appendPlace(b, at)
}

func appendPlace(b []byte, p place) []byte {
	return binary.AppendVarint(binary.AppendUvarint(b, p.epoch), p.end)
}

func (r *reader) place() place { return place{r.uint(), r.int()} }

// openCache opens the cache that there is.
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
	c := &cache{kv: k, logged: r.place()}
	if c.at = c.logged; r.err != nil {
		k.close()
		return nil, errCache
	}
	return c, nil
}

// take takes over what others wrote to the log.
func (c *cache) take() error {
	err := c.kv.follow(func(note []byte) bool {
		r := &reader{b: note}
		from, to := r.place(), r.place()
		if r.err != nil || from != c.at || len(c.unlogged) > 0 {
			return false
		}
		c.at, c.logged = to, to
		return true
	})
	return err
}

// catchUp makes the cache stand for the store at pos, by the cheapest way that is
// right: what others wrote to it since, the journal since, or every record.
func (s *Store) catchUp(pos position) error {
	dir := s.jobsStamp()
	for pos.dir == dir {
		old := s.cache != nil
		if err := s.goOn(pos); err == nil {
			return nil
		}
		s.dropCache()
		if !old {
			break
		}
	}
	return s.scan(place{pos.epoch, pos.end})
}

// goOn brings what is known to pos.
func (s *Store) goOn(pos position) (err error) {
	if s.cache == nil {
		if s.cache, err = openCache(*s.base, s.opts.Boot); err != nil {
			return err
		}
	}
	c := s.cache
	if !c.anew {
		if !c.kv.current() {
			return errCache
		}
		if err := c.take(); err != nil {
			return err
		}
	}
	if c.at.epoch != pos.epoch || c.at.end > pos.end {
		return errCache
	}
	return s.follow(pos.end)
}

// follow takes over what is in the journal up to an offset. Nobody says whether
// a tick has judged it.
func (s *Store) follow(end int64) error {
	for c := s.cache; c.at.end < end; {
		e, next, err := s.log.read(c.at.end)
		if err != nil {
			return err
		}
		if err := s.followEntry(e); err != nil {
			return err
		}
		c.at.end = next
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
		return s.cache.put(known{job: &j, foreign: f, file: s.stampOf(g.job)}, true)
	}
	return nil
}

func (s *Store) dropCache() {
	if s.cache != nil {
		s.cache.kv.close()
		s.cache = nil
	}
}

// scan makes the cache of every record. No tick is known to have judged them.
func (s *Store) scan(at place) error {
	s.dropCache()
	ids, err := s.jobIDs()
	if err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	s.cache = &cache{kv: &kv{base: *s.base}, at: at, anew: true}
	for _, id := range ids {
		if err := s.reread(id); err != nil {
			return err
		}
	}
	return nil
}

// reread takes the record of id from the disk.
func (s *Store) reread(id kernel.JobID) error {
	file := s.stampOf(id)
	j, f, err := s.readRecord(id)
	switch {
	case err == nil:
		return s.cache.put(known{&j, f, file, false}, true)
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
	s.cache.set(keyDirty+string(id), []byte{}) // who depends on it is to be told
	return nil
}

// patrolMost is how many records each transaction looks at for edits by hand, of
// jobs that it has nothing to do with: in turn all of those that have not
// succeeded.
const patrolMost = 64

// patrol looks at the records of the next few jobs.
func (s *Store) patrol() error {
	c := s.cache
	from, err := c.kv.get(keyPatrol)
	if err != nil {
		return err
	}
	var keys []string
	err = c.kv.eachFrom(max(keyStatus, string(from)), keyStatus, func(key string, _ []byte) bool {
		if kernel.Status(key[len(keyStatus)]) != kernel.Succeeded {
			keys = append(keys, key)
		}
		return len(keys) <= patrolMost
	})
	if err != nil {
		return err
	}
	for _, key := range keys[:min(len(keys), patrolMost)] {
		if _, err := s.touch(idIn(key)); err != nil {
			return err
		}
	}
	switch {
	case len(keys) > patrolMost:
		c.set(keyPatrol, []byte(keys[patrolMost]))
	case len(from) > 0: // these were the last: the next look begins anew
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
	e := setting{key, value}
	c.kv.recent.put(e)
	if !c.anew {
		c.unlogged = append(c.unlogged, e)
	}
}

// entry is what is known of a job; nil: it has no record, or one that makes no
// sense.
func (c *cache) entry(id kernel.JobID) (*known, error) {
	b, err := c.kv.get(keyEntry + string(id))
	if b == nil || err != nil {
		return nil, err
	}
	k, err := decodeKnown(b)
	return &k, err
}

// put makes k what is known of its job. dirty says that no tick has judged it.
func (c *cache) put(k known, dirty bool) error {
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

func (c *cache) replace(was, now *known, dirty bool) error {
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
		c.set(keyEntry+string(id), encodeKnown(*now))
	} else {
		c.set(keyEntry+string(id), nil)
	}
	for _, key := range without(old, keys) {
		c.set(key, nil)
	}
	for _, key := range without(keys, old) {
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

func (c *cache) count(was, now *known) error {
	if was != nil && now != nil && was.job.State.Status == now.job.State.Status {
		return nil
	}
	for delta, k := range map[int]*known{-1: was, 1: now} {
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

// consumers keeps who needs what: for whom a producer counts is a matter of who
// else is in its run.
func (c *cache) consumers(was, now *known) error {
	var old, next *kernel.Job
	if was != nil {
		old = was.job
	}
	if now != nil {
		next = now.job
	}
	if old != nil && old.Consumes() && (next == nil || !next.Consumes()) {
		for _, a := range old.Spec.Needs {
			c.set(placed(needKey(keyNeeds, a, old), old), nil)
			c.set(placed(needKey(keyOutside, a, old), old), nil)
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
			c.set(placed(needKey(kindOf(own), a, next), next), []byte{})
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

func kindOf(own bool) string {
	if own {
		return keyNeeds
	}
	return keyOutside
}

func needKey(kind string, a kernel.Artifact, j *kernel.Job) string {
	return keyOf(kind, labelOf(a), string(j.Spec.Origin.Run))
}

// sortConsumers puts the consumers of a in the run of j where they belong.
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
			if now := kindOf(own); now != kind {
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

// keys are those that begin with prefix.
func (c *cache) keys(prefix string) (out []string, err error) {
	err = c.kv.each(prefix, func(key string, _ []byte) bool {
		out = append(out, key)
		return true
	})
	return out, err
}

// judge notes what a tick judged by, and that it judged what was dirty.
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

// log writes what changed since to the log, for a caller that has the lock.
func (c *cache) log(to place) error {
	c.at = to
	if c.anew || len(c.unlogged) == 0 && c.at == c.logged {
		return nil
	}
	if err := c.kv.add(appendPlace(appendPlace(nil, c.logged), c.at), c.unlogged); err != nil {
		return err
	}
	c.logged, c.unlogged = c.at, nil
	return nil
}

// due reports that something is to be written: a new process would have too far to
// go, or a record that was edited by hand was noticed.
func (c *cache) due() bool { return c.anew || c.kv.at > logMost || len(c.unlogged) > 0 }

// save writes the cache to its tables, if that is due.
func (s *Store) saveCache() error {
	c := s.cache
	if c.anew {
		return errors.Join(s.removeCache(), s.compact())
	}
	if err := c.log(c.at); err != nil {
		return err
	}
	if c.kv.at <= logMost {
		return nil
	}
	return s.compact()
}

func (s *Store) compact() error {
	c := s.cache
	next, err := c.kv.compact(headOf(s.opts.Boot, c.at))
	if err != nil {
		return err
	}
	s.cache = &cache{kv: next, at: c.at, logged: c.at}
	return nil
}

// removeCache removes the files of another cache, and what earlier versions of
// the program kept in its place.
func (s *Store) removeCache() error {
	names, err := s.base.names(journalDir)
	for _, name := range names {
		if name == "index" || name == "archive" || name == cacheName || len(name) > len(cacheName) && name[:len(cacheName)+1] == cacheName+"." {
			err = errors.Join(err, s.base.remove(journalDir+"/"+name))
		}
	}
	return err
}

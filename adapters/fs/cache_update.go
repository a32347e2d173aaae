package fs

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// set changes a key, for the next piece of the log.
func (c *cache) set(key string, value []byte) {
	e := keyValue{key, value}
	if value == nil && c.kv.alone {
		c.kv.memtable.remove(key)
		return
	}
	c.kv.memtable.put(e)
	switch {
	case c.rebuilt || c.long:
	case c.kv.memtable.size > maxLog:
		c.long, c.unlogged = true, nil
	default:
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
	for _, key := range difference(keys, old) {
		if err := c.beginsToRead(key); err != nil {
			return err
		}
		c.set(key, []byte{})
	}
	for _, key := range difference(old, keys) {
		c.set(key, nil)
		if err := c.endsToRead(key); err != nil {
			return err
		}
	}
	if was != nil && (now == nil || statusOf(was.job) != statusOf(now.job)) {
		c.set(statusOf(was.job), nil)
	}
	if now != nil {
		c.set(statusOf(now.job), putStamp(nil, now.file))
	}
	if was != nil && !endedAt(was.job).IsZero() {
		if err := c.clear(endedKey(was.job)); err != nil {
			return err
		}
	}
	if now != nil && !endedAt(now.job).IsZero() {
		c.set(endedKey(now.job), []byte{})
	}
	if dirty && now != nil {
		c.set(keyDirty+string(id), []byte{})
	} else if err := c.clear(keyDirty + string(id)); err != nil {
		return err
	}
	if err := errors.Join(c.count(was, now), c.recount(was, now)); err != nil {
		return err
	}
	return c.consumers(was, now)
}

// endedKey is not among keysOf a job: a change of a job that has ended unpacks it.
func endedKey(j *kernel.Job) string { return keyEnded + bigEndian(endedAt(j)) + string(j.ID) }

// endedBefore are the keys of the first jobs that ended before a time.
func (c *cache) endedBefore(at time.Time, most int) (keys []string, err error) {
	until := keyEnded + bigEndian(at)
	err = c.kv.each(keyEnded, func(key string, _ []byte) bool {
		if key >= until || len(keys) == most {
			return false
		}
		keys = append(keys, key)
		return true
	})
	return keys, err
}

// packed notes that the files of a job are in its pack now.
func (c *cache) packed(id kernel.JobID, pack fileStamp) error {
	k, err := c.entry(id)
	if err != nil || k == nil {
		return err
	}
	k.file = pack
	c.set(keyEntry+string(id), encodeCachedJob(*k))
	c.set(statusOf(k.job), putStamp(nil, pack))
	return c.clear(endedKey(k.job))
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

// counted returns how many jobs have a status.
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

// judge records the limits and facts that a tick judged by, and that no job is dirty any
// more.
func (c *cache) judge(by string, facts map[kernel.Near]string) error {
	dirty, err := c.keys(keyDirty)
	if err != nil {
		return err
	}
	for _, key := range dirty {
		c.set(key, nil)
	}
	have, err := c.kv.get(keyJudged)
	if err != nil {
		return err
	}
	if string(have) != by {
		c.set(keyJudged, []byte(by))
	}
	return c.judgeFacts(facts)
}

package fs

import (
	"encoding/binary"
	"errors"
	"iter"
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
	for delta, k := range both(was, now) {
		st := k.job.State.Status
		n, err := c.counted(st)
		if err != nil {
			return err
		}
		c.set(countKey(st), binary.AppendVarint(nil, int64(n+delta)))
	}
	return nil
}

// both yields -1 with was and 1 with now, without what is nil, and always in this order: it is the order in the log.
func both[T any](was, now *T) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		if (was == nil || yield(-1, was)) && now != nil {
			yield(1, now)
		}
	}
}

func countKey(st kernel.Status) string { return keyCount + string([]byte{byte(st)}) }

// counted returns how many jobs have a status.
func (c *cache) counted(st kernel.Status) (int, error) {
	b, err := c.kv.get(countKey(st))
	if b == nil || err != nil {
		return 0, err
	}
	r := &reader{b: b}
	if n := int(r.int()); r.err == nil {
		return n, nil
	}
	return 0, errCache
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

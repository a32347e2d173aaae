package fs

import (
	"encoding/binary"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// share is what one job adds to the tally of those that share its number.
type share struct {
	key    string
	status kernel.Status
	stuck  int
	routes int
}

// shareOf is nil for a job that has a number of its own.
func shareOf(k *cachedJob) *share {
	if k == nil || k.job.Part == "" {
		return nil
	}
	var one kernel.Tally
	one.Add(k.job)
	return &share{tallyKey(k.job.Number) + bigEndian(k.job.Created), k.job.State.Status, one.Stuck, one.Routes}
}

func tallyKey(n kernel.Number) string { return keyOf(keyTally, n.String()) }

func lastKey(n kernel.Number) string { return keyOf(keyLast, n.String()) }

// inverted returns bytes that sort in the opposite order.
func inverted(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = ^b[i]
	}
	return string(b)
}

// recount updates the counts of the jobs that share a number.
func (c *cache) recount(was, now *cachedJob) error {
	old, next := shareOf(was), shareOf(now)
	if old != nil && next != nil && *old == *next {
		return nil
	}
	for delta, k := range both(old, next) {
		b, err := c.kv.get(k.key)
		if err != nil {
			return err
		}
		t, err := decodeTally(b)
		if err != nil {
			return err
		}
		t.Statuses[k.status] += delta
		t.Stuck += delta * k.stuck
		t.Routes += delta * k.routes
		c.set(k.key, encodeTally(t))
	}
	return nil
}

// encodeTally is nil if there are no jobs.
func encodeTally(t kernel.Tally) []byte {
	b, any := make([]byte, 0, len(t.Statuses)+4), false
	for _, n := range t.Statuses {
		b, any = binary.AppendVarint(b, int64(n)), any || n != 0
	}
	if !any {
		return nil
	}
	return binary.AppendVarint(binary.AppendVarint(b, int64(t.Stuck)), int64(t.Routes))
}

// decodeTally reads counts; nil means no jobs.
func decodeTally(b []byte) (t kernel.Tally, err error) {
	if b == nil {
		return t, nil
	}
	r := &reader{b: b}
	for st := range t.Statuses {
		t.Statuses[st] = int(r.int())
	}
	t.Stuck, t.Routes = int(r.int()), int(r.int())
	return t, r.err
}

// tally returns the counts of the jobs that share a number.
func (c *cache) tally(n kernel.Number) (all kernel.Tally, err error) {
	var failed error
	err = c.kv.each(tallyKey(n), func(key string, b []byte) bool {
		var t kernel.Tally
		if t, failed = decodeTally(b); failed != nil {
			return false
		}
		if all.Created.IsZero() {
			all.Created = timeIn(key[len(tallyKey(n)):])
		}
		for st, k := range t.Statuses {
			all.Statuses[st] += k
		}
		all.Stuck, all.Routes = all.Stuck+t.Stuck, all.Routes+t.Routes
		return true
	})
	if err != nil || failed != nil {
		return all, errCache
	}
	return all, c.kv.each(lastKey(n), func(key string, _ []byte) bool {
		all.Finished = timeIn(inverted(key[len(lastKey(n)):][:8]))
		return false
	})
}

// timeIn is the time that s begins with: see bigEndian.
func timeIn(s string) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(s[:8])) ^ 1<<63)).UTC()
}

// addTallies adds the tallies of numbers to the answer.
func (r *cacheQuery) addTallies(numbers []kernel.Number) (err error) {
	if len(numbers) > 0 {
		r.rec.Tallies = make(map[kernel.Number]kernel.Tally, len(numbers))
	}
	for _, n := range numbers {
		if r.rec.Tallies[n], err = r.s.cache.tally(n); err != nil {
			return err
		}
	}
	return nil
}

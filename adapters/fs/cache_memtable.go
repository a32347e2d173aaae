package fs

import (
	"slices"
	"sort"
)

// memtable holds what the log holds: values by key, and the sorted keys in chunks,
// so that inserting one moves few others.
type memtable struct {
	values   map[string][]byte
	chunks   [][]string
	unsorted []string // keys that are in no chunk yet
	size     int64
}

const maxChunk = 512

func (r *memtable) put(c keyValue) {
	if r.values == nil {
		r.values = map[string][]byte{}
	}
	was, have := r.values[c.key]
	r.values[c.key] = c.value
	r.size += int64(len(c.value) - len(was))
	if !have {
		r.size += int64(len(c.key))
		r.unsorted = append(r.unsorted, c.key)
	}
}

// sort puts the keys in their place that came since the last iteration: one by
// one, or all at once where there were none, as in a process that has just read the log.
func (r *memtable) sort() {
	if len(r.chunks) == 0 {
		slices.Sort(r.unsorted)
		for chunk := range slices.Chunk(r.unsorted, maxChunk) {
			r.chunks = append(r.chunks, slices.Clip(chunk))
		}
	} else {
		for _, key := range r.unsorted {
			r.insert(key)
		}
	}
	r.unsorted = nil
}

func (r *memtable) insert(key string) {
	i := max(0, r.chunk(key))
	at, _ := slices.BinarySearch(r.chunks[i], key)
	p := slices.Insert(r.chunks[i], at, key)
	if r.chunks[i] = p; len(p) > maxChunk {
		half := len(p) / 2
		if at == len(p)-1 { // in order: leave them full
			half = len(p) - 1
		}
		r.chunks[i] = p[:half:half]
		r.chunks = slices.Insert(r.chunks, i+1, slices.Clone(p[half:]))
	}
}

// remove forgets a key that no table has.
func (r *memtable) remove(key string) {
	if _, have := r.values[key]; !have {
		return
	}
	r.sort()
	delete(r.values, key)
	i := r.chunk(key)
	at, _ := slices.BinarySearch(r.chunks[i], key)
	if r.chunks[i] = slices.Delete(r.chunks[i], at, at+1); len(r.chunks[i]) == 0 {
		r.chunks = slices.Delete(r.chunks, i, i+1)
	}
}

// chunk is the index of the last chunk that begins at or below key; -1: none does.
func (r *memtable) chunk(key string) int {
	return sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i][0] > key }) - 1
}

// seek is a cursor at the first key that is not below from.
func (r *memtable) seek(from string) *memtableCursor {
	r.sort()
	c := &memtableCursor{r: r, chunk: max(0, r.chunk(from))}
	if c.chunk < len(r.chunks) {
		c.at, _ = slices.BinarySearch(r.chunks[c.chunk], from)
		c.skipToChunk()
	}
	return c
}

type memtableCursor struct {
	r         *memtable
	chunk, at int
}

func (c *memtableCursor) skipToChunk() {
	if c.chunk < len(c.r.chunks) && c.at == len(c.r.chunks[c.chunk]) {
		c.chunk, c.at = c.chunk+1, 0
	}
}

func (c *memtableCursor) key() string {
	if c.chunk >= len(c.r.chunks) {
		return ""
	}
	return c.r.chunks[c.chunk][c.at]
}
func (c *memtableCursor) value() []byte  { return c.r.values[c.key()] }
func (c *memtableCursor) forward() error { c.at++; c.skipToChunk(); return nil }

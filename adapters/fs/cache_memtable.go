package fs

import (
	"slices"
	"sort"
)

// memtable holds what the log holds: values by key, and the sorted keys in chunks,
// so that inserting one moves few others.
type memtable struct {
	values map[string][]byte
	chunks [][]string
	size   int64
}

const maxChunk = 512

func (r *memtable) put(c keyValue) {
	if r.values == nil {
		r.values = map[string][]byte{}
	}
	was, have := r.values[c.key]
	r.values[c.key] = c.value
	r.size += int64(len(c.value) - len(was))
	if have {
		return
	}
	r.size += int64(len(c.key))
	i := r.chunk(c.key)
	if i < 0 {
		if i = 0; len(r.chunks) == 0 {
			r.chunks = append(r.chunks, nil)
		}
	}
	at, _ := slices.BinarySearch(r.chunks[i], c.key)
	p := slices.Insert(r.chunks[i], at, c.key)
	if r.chunks[i] = p; len(p) > maxChunk {
		half := len(p) / 2
		if at == len(p)-1 { // in order: leave them full
			half = len(p) - 1
		}
		r.chunks[i] = p[:half:half]
		r.chunks = slices.Insert(r.chunks, i+1, slices.Clone(p[half:]))
	}
}

// remove forgets a key, of which no table below has anything.
func (r *memtable) remove(key string) {
	if _, have := r.values[key]; !have {
		return
	}
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

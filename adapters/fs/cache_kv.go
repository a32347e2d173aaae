package fs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// kv is a sorted map on the disk, written as a log-structured merge tree: a log
// of the latest changes, which every process also has in memory, and sorted
// tables that are never changed once written. It is disposable: nothing is
// synced. A read that finds a wrong checksum is an error, and the caller then
// throws the map away (docs/formats/cache.md).
type kv struct {
	base     dir
	log      *os.File
	logEnd   int64    // up to which the memtable has the log
	tables   []*table // oldest first
	next     uint64   // the number of the next table
	memtable memtable
	size     int64 // of all tables
}

// keyValue is a key and its new value; nil: it is deleted.
type keyValue struct {
	key   string
	value []byte
}

const (
	cacheName = "cache" // of the log; tables have a number after it
	cacheFile = journalDir + "/" + cacheName
	// maxLog is how long the log grows, in bytes, before its content becomes a
	// table: every process that starts reads all of it.
	maxLog = 192 << 10
	// blockSize is about how much of a table is read to find a key.
	blockSize = 4 << 10
	// mergeRatio is how many times larger a table is than the next younger one.
	mergeRatio = 4
)

var errCache = errors.New("the cache is damaged or of another state") // the cache is then rebuilt

// castagnoli is the polynomial that processors compute by themselves. Its table
// takes longer to make than a whole small store to read.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// checksum is the CRC-32C of b.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

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

// openKV opens the map and returns what head was given when its tables were
// written last.
func openKV(base dir) (k *kv, head []byte, err error) {
	log, err := base.file(cacheFile, os.O_RDWR)
	if isReadOnly(err) {
		log, err = base.file(cacheFile, os.O_RDONLY)
	}
	if err != nil {
		return nil, nil, err
	}
	k = &kv{base: base, log: log}
	if head, err = k.readHead(); err != nil {
		k.close()
		return nil, nil, err
	}
	return k, head, nil
}

func (k *kv) readHead() ([]byte, error) {
	b, next, err := k.frame(0)
	if err != nil {
		return nil, err
	}
	r := &reader{b: b}
	head := r.bytes()
	k.next = r.uint()
	for n := r.count(); n > 0 && r.err == nil; n-- {
		t, err := openTable(k.base, r.uint(), r.int(), uint32(r.uint()))
		if err != nil {
			return nil, err
		}
		k.tables = append(k.tables, t)
		k.size += t.size
	}
	k.logEnd = next
	return head, r.err
}

// current reports that the log is still the one that counts: a new one takes its
// name when tables are written.
func (k *kv) current() bool {
	var open unix.Stat_t
	return unix.Fstat(int(k.log.Fd()), &open) == nil && k.base.stamp(cacheFile).inode == open.Ino
}

func (k *kv) close() {
	if k == nil {
		return
	}
	if k.log != nil {
		_ = k.log.Close()
	}
	for _, t := range k.tables {
		_ = t.file.Close()
	}
}

// frame is the content of the frame at an offset of the log, and where it ends.
func (k *kv) frame(at int64) ([]byte, int64, error) {
	var head [8]byte
	if n, err := k.log.ReadAt(head[:], at); err != nil {
		if n == 0 && errors.Is(err, io.EOF) {
			return nil, at, io.EOF
		}
		return nil, at, errCache
	}
	size := int64(binary.LittleEndian.Uint32(head[:4]))
	info, err := k.log.Stat()
	if err != nil || size == 0 || at+8+size > info.Size() {
		return nil, at, errCache
	}
	b := make([]byte, size)
	if _, err := k.log.ReadAt(b, at+8); err != nil || checksum(b) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, at, errCache
	}
	return b, at + 8 + size, nil
}

func framed(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[:4], uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:8], checksum(b[8:]))
	return b
}

// readLog reads what other processes added to the log. It asks accept whether the
// note of each frame continues from what is in memory.
func (k *kv) readLog(accept func(note []byte) bool) error {
	for {
		b, next, err := k.frame(k.logEnd)
		if err != nil {
			return nil // the end; a torn frame never counted
		}
		r := &reader{b: b}
		if !accept(r.bytes()) {
			return errCache
		}
		changes := make([]keyValue, 0, r.count())
		for len(changes) < cap(changes) && r.err == nil {
			changes = append(changes, keyValue{string(r.bytes()), r.value()})
		}
		if r.err != nil {
			return errCache
		}
		for _, c := range changes {
			k.memtable.put(c)
		}
		k.logEnd = next
	}
}

// value is a value that may be missing.
func (r *reader) value() []byte {
	if r.byte() == 0 {
		return nil
	}
	return r.bytes()
}

func putValue(b, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	return putBytes(append(b, 1), v)
}

// add writes changes, which the memtable has already, to the log. The caller is
// the only one who changes the map.
func (k *kv) add(note []byte, changes []keyValue) error {
	b := putBytes(make([]byte, 8, 1024), note)
	b = binary.AppendUvarint(b, uint64(len(changes)))
	for _, c := range changes {
		b = putValue(putBytes(b, []byte(c.key)), c.value)
	}
	if err := k.base.disk.writeAt(int(k.log.Fd()), framed(b), k.logEnd); err != nil {
		return err
	}
	k.logEnd += int64(len(b))
	return nil
}

// get is the value of a key, nil if it has none.
func (k *kv) get(key string) ([]byte, error) {
	if v, ok := k.memtable.values[key]; ok {
		return v, nil
	}
	for _, t := range slices.Backward(k.tables) {
		v, found, err := t.get(key)
		if found || err != nil {
			return v, err
		}
	}
	return nil, nil
}

// each calls f with the keys of a prefix and their values, in order, until it
// returns false.
func (k *kv) each(prefix string, f func(key string, value []byte) bool) error {
	return k.eachFrom(prefix, prefix, f)
}

// eachFrom is each from a key on.
func (k *kv) eachFrom(from, prefix string, f func(key string, value []byte) bool) error {
	m := k.iterate(from)
	for {
		key, value, err := m.next()
		if err != nil || key == "" || !strings.HasPrefix(key, prefix) {
			return err
		}
		if value != nil && !f(key, value) {
			return nil
		}
	}
}

// mergeIterator iterates over several sorted sources at once. Of one key the value
// of the latest source counts.
type mergeIterator struct{ sources []source }

// source yields keys in order; "" is the end.
type source interface {
	key() string
	value() []byte
	forward() error
}

func (k *kv) iterate(from string) *mergeIterator {
	m := &mergeIterator{}
	for _, t := range k.tables {
		m.sources = append(m.sources, t.seek(from))
	}
	m.sources = append(m.sources, k.memtable.seek(from))
	return m
}

func (m *mergeIterator) next() (string, []byte, error) {
	least := ""
	var value []byte
	for _, s := range m.sources {
		if c, ok := s.(*tableCursor); ok && c.err != nil {
			return "", nil, c.err
		}
		if key := s.key(); key != "" && (least == "" || key <= least) {
			least, value = key, s.value()
		}
	}
	if least == "" {
		return "", nil, nil
	}
	for _, s := range m.sources {
		if s.key() == least {
			if err := s.forward(); err != nil {
				return "", nil, err
			}
		}
	}
	return least, value, nil
}

// compact merges the memtable and the younger tables that are not much larger
// into one table, and starts a new log with a head. k may have no log and no
// tables yet.
func (k *kv) compact(head []byte) (*kv, error) {
	keep, size := len(k.tables), k.memtable.size
	for keep > 0 && k.tables[keep-1].size < mergeRatio*size {
		keep--
		size += k.tables[keep].size
	}
	m := &mergeIterator{}
	for _, t := range k.tables[keep:] {
		m.sources = append(m.sources, t.seek(""))
	}
	m.sources = append(m.sources, k.memtable.seek(""))
	made, err := writeTable(k.base, k.next, m, keep == 0)
	if err != nil {
		return nil, err
	}
	b := putBytes(make([]byte, 8, 256), head)
	b = binary.AppendUvarint(b, k.next+1)
	b = binary.AppendUvarint(b, uint64(keep+1))
	for _, t := range append(k.tables[:keep:keep], made) {
		b = binary.AppendUvarint(b, t.number)
		b = binary.AppendVarint(b, t.size)
		b = binary.AppendUvarint(b, uint64(t.sum))
	}
	_ = made.file.Close()
	made.file = nil
	if err := k.base.write(cacheFile, framed(b), false); err != nil {
		return nil, err
	}
	for _, t := range k.tables[keep:] {
		_ = k.base.remove(tableFile(t.number))
	}
	k.close()
	next, _, err := openKV(k.base)
	return next, err
}

// table is a sorted file: blocks of keys and values, then where each block
// begins and with which key.
type table struct {
	file     *os.File
	number   uint64
	size     int64
	sum      uint32 // of the list of blocks
	blocks   []block
	lastRead int // the block that was read last
	buf      []byte
}

type block struct {
	first string
	at    int64
	size  int
}

func tableFile(number uint64) string { return cacheFile + "." + strconv.FormatUint(number, 10) }

func openTable(base dir, number uint64, size int64, sum uint32) (*table, error) {
	f, err := base.file(tableFile(number), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	t := &table{file: f, number: number, size: size, sum: sum, lastRead: -1}
	if err := t.readBlocks(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return t, nil
}

func (t *table) readBlocks() error {
	info, err := t.file.Stat()
	if err != nil || info.Size() != t.size || t.size < 8 {
		return errCache
	}
	var tail [8]byte
	if _, err := t.file.ReadAt(tail[:], t.size-8); err != nil {
		return err
	}
	at := int64(binary.LittleEndian.Uint64(tail[:]))
	if at < 0 || at > t.size-8 {
		return errCache
	}
	b := make([]byte, t.size-8-at)
	if _, err := t.file.ReadAt(b, at); err != nil {
		return err
	}
	if checksum(b) != t.sum {
		return errCache
	}
	r := &reader{b: b}
	t.blocks = make([]block, r.count())
	var begin int64
	for i := range t.blocks {
		t.blocks[i] = block{string(r.bytes()), begin, int(r.uint())}
		begin += int64(t.blocks[i].size)
	}
	if r.err != nil || begin != at {
		return errCache
	}
	return nil
}

// read is a block's entries.
func (t *table) read(i int) ([]byte, error) {
	if t.lastRead == i {
		return t.buf[4:], nil
	}
	t.lastRead = -1
	size := t.blocks[i].size
	if cap(t.buf) < size || cap(t.buf) > 16*blockSize {
		t.buf = make([]byte, size, max(size, 2*blockSize))
	}
	t.buf = t.buf[:size]
	if _, err := t.file.ReadAt(t.buf, t.blocks[i].at); err != nil {
		return nil, errors.Join(errCache, err)
	}
	if size < 4 || checksum(t.buf[4:]) != binary.LittleEndian.Uint32(t.buf) {
		return nil, errCache
	}
	t.lastRead = i
	return t.buf[4:], nil
}

// block is the index of the block that key would be in; -1: none.
func (t *table) block(key string) int {
	return sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].first > key }) - 1
}

func (t *table) get(key string) (value []byte, found bool, err error) {
	i := t.block(key)
	if i < 0 {
		return nil, false, nil
	}
	b, err := t.read(i)
	if err != nil {
		return nil, false, err
	}
	for r := (&reader{b: b}); len(r.b) > 0; {
		k, v := r.bytes(), r.value()
		if r.err != nil {
			return nil, false, errCache
		}
		if c := strings.Compare(string(k), key); c == 0 {
			return bytes.Clone(v), true, nil
		} else if c > 0 {
			break
		}
	}
	return nil, false, nil
}

// tableCursor iterates over a table. It has a buffer of its own.
type tableCursor struct {
	t    *table
	next int
	r    reader
	k    string
	v    []byte
	err  error
}

// seek is a cursor at the first key that is not below from.
func (t *table) seek(from string) *tableCursor {
	c := &tableCursor{t: t, next: max(0, t.block(from))}
	for c.err = c.forward(); c.err == nil && c.k != "" && c.k < from; {
		c.err = c.forward()
	}
	return c
}

func (c *tableCursor) key() string   { return c.k }
func (c *tableCursor) value() []byte { return c.v }

func (c *tableCursor) forward() error {
	for len(c.r.b) == 0 {
		if c.next == len(c.t.blocks) {
			c.k = ""
			return nil
		}
		b, err := c.t.read(c.next)
		if err != nil {
			return err
		}
		c.next++
		c.r = reader{b: bytes.Clone(b)}
	}
	c.k, c.v = string(c.r.bytes()), c.r.value()
	if c.r.err != nil || c.k == "" {
		return errCache
	}
	return nil
}

// diskWriter is a file to write to from its beginning.
type diskWriter struct {
	disk disk
	fd   int
}

func (o diskWriter) Write(b []byte) (int, error) {
	if err := o.disk.write(o.fd, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// writeTable writes what m yields. The oldest table needs no entries for deleted
// keys.
func writeTable(base dir, number uint64, m *mergeIterator, oldest bool) (*table, error) {
	f, err := base.file(tableFile(number), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	t := &table{file: f, number: number}
	if err := t.fill(base.disk, m, oldest); err != nil {
		return nil, errors.Join(err, f.Close(), base.remove(tableFile(number)))
	}
	return t, nil
}

func (t *table) fill(on disk, m *mergeIterator, oldest bool) error {
	w := bufio.NewWriterSize(diskWriter{on, int(t.file.Fd())}, 64<<10)
	list, count := []byte(nil), uint64(0)
	buf, first := make([]byte, 4, 2*blockSize), ""
	end := func() error {
		binary.LittleEndian.PutUint32(buf, checksum(buf[4:]))
		list = binary.AppendUvarint(putBytes(list, []byte(first)), uint64(len(buf)))
		count++
		t.size += int64(len(buf))
		_, err := w.Write(buf)
		buf, first = buf[:4], ""
		return err
	}
	for {
		key, value, err := m.next()
		if err != nil {
			return err
		}
		if key == "" {
			break
		}
		if value == nil && oldest {
			continue
		}
		if first == "" {
			first = key
		}
		if buf = putValue(putBytes(buf, []byte(key)), value); len(buf) >= blockSize {
			if err := end(); err != nil {
				return err
			}
		}
	}
	if len(buf) > 4 {
		if err := end(); err != nil {
			return err
		}
	}
	list = append(binary.AppendUvarint(nil, count), list...)
	t.sum = checksum(list)
	at := t.size
	t.size += int64(len(list)) + 8
	_, err := w.Write(binary.LittleEndian.AppendUint64(list, uint64(at)))
	return errors.Join(err, w.Flush())
}

package fs

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

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
	alone    bool  // the memtable is all there is, and is never written
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
	maxLog = 64 << 10
	// blockSize is about how much of a table is read to find a key.
	blockSize = 4 << 10
	// mergeRatio is how many times larger a table is than the next younger one.
	mergeRatio = 4
)

var errCache = errors.New("the cache is damaged or of another state") // the cache is then rebuilt

// checksum is the IEEE CRC-32 of b. Another polynomial is as fast to compute, but
// making its tables takes longer than reading a whole small store.
func checksum(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// openKV opens the map and returns the head that it was given when its tables
// were last written.
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
	if n, err := k.base.disk.readAt(k.log, head[:], at); err != nil {
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
	if _, err := k.base.disk.readAt(k.log, b, at+8); err != nil || checksum(b) != binary.LittleEndian.Uint32(head[4:]) {
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
		return failed("write", cacheFile, err)
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
	m := k.iterate(from, prefix)
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
		m.sources = append(m.sources, t.seek("", ""))
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

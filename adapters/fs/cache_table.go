package fs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
)

// table is a sorted file: blocks of keys and values, then where each block
// begins and with which key.
type table struct {
	disk   disk
	file   *os.File
	number uint64
	size   int64
	sum    uint32 // of the list of blocks
	blocks []block
	recent [32]recentBlock // those read last
	turn   int             // index in recent of the block that is replaced next
	packed bool            // blocks are compressed
}

// recentBlock has the entries of a block, which are never changed.
type recentBlock struct {
	index   int
	entries []byte
}

type block struct {
	first string // not above its first key, and above all keys before that
	at    int64
	size  int
}

func tableFile(number uint64) string { return cacheFile + "." + strconv.FormatUint(number, 10) }

func openTable(base dir, number uint64, size int64, sum uint32) (*table, error) {
	f, err := base.file(tableFile(number), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	t := &table{disk: base.disk, file: f, number: number, size: size, sum: sum}
	if err := t.readBlocks(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return t, nil
}

func (t *table) readBlocks() error {
	if t.size < 8 {
		return errCache
	}
	var tail [8]byte
	if _, err := t.disk.readAt(t.file, tail[:], t.size-8); err != nil {
		return err
	}
	at := int64(binary.LittleEndian.Uint64(tail[:]))
	if at < 0 || at > t.size-8 {
		return errCache
	}
	b := make([]byte, t.size-8-at)
	if _, err := t.disk.readAt(t.file, b, at); err != nil {
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

// whole returns errCache if a block is damaged.
func (t *table) whole() error {
	for _, one := range t.blocks {
		b := make([]byte, one.size)
		if _, err := t.disk.readAt(t.file, b, one.at); err != nil {
			return errors.Join(errCache, err)
		}
		if len(b) < 4 || checksum(b[4:]) != binary.LittleEndian.Uint32(b) {
			return errCache
		}
	}
	return nil
}

// read is a block's entries. Nobody changes them.
func (t *table) read(i int) ([]byte, error) {
	for _, r := range t.recent {
		if r.index == i && r.entries != nil {
			return r.entries, nil
		}
	}
	b := make([]byte, t.blocks[i].size)
	if _, err := t.disk.readAt(t.file, b, t.blocks[i].at); err != nil {
		return nil, errors.Join(errCache, err)
	}
	if len(b) < 4 || checksum(b[4:]) != binary.LittleEndian.Uint32(b) {
		return nil, errCache
	}
	b = b[4:]
	if t.packed {
		var err error
		if b, err = unpack(b); err != nil {
			return nil, err
		}
	}
	if len(b) <= 4*blockSize || t.packed {
		t.recent[t.turn] = recentBlock{i, b}
		t.turn = (t.turn + 1) % len(t.recent)
	}
	return b, nil
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
		if string(k) == key {
			return v, true, nil
		}
		if string(k) > key {
			break
		}
	}
	return nil, false, nil
}

// tableCursor iterates over a table.
type tableCursor struct {
	t      *table
	prefix string
	next   int
	r      reader
	k      string
	v      []byte
	err    error
}

// seek is a cursor at the first key that is not below from. It may end behind the
// keys of prefix, which from is one of.
func (t *table) seek(from, prefix string) *tableCursor {
	c := &tableCursor{t: t, prefix: prefix, next: max(0, t.block(from))}
	if c.err = c.fill(); c.err != nil {
		return c
	}
	for r := c.r; len(r.b) > 0 && (string(r.bytes()) < from || r.err != nil); c.r = r {
		if r.value(); r.err != nil {
			c.err = errCache
			return c
		}
	}
	c.err = c.forward()
	return c
}

func (c *tableCursor) key() string   { return c.k }
func (c *tableCursor) value() []byte { return c.v }

func (c *tableCursor) forward() error {
	if err := c.fill(); err != nil {
		return err
	}
	if len(c.r.b) == 0 {
		c.k = ""
		return nil
	}
	c.k, c.v = string(c.r.bytes()), c.r.value()
	if c.r.err != nil || c.k == "" {
		return errCache
	}
	return nil
}

// fill takes the next block when the last is used up.
func (c *tableCursor) fill() error {
	for len(c.r.b) == 0 && c.next < len(c.t.blocks) {
		if first := c.t.blocks[c.next].first; first > c.prefix && !strings.HasPrefix(first, c.prefix) {
			return nil // nothing from here on has the prefix
		}
		b, err := c.t.read(c.next)
		if err != nil {
			return err
		}
		c.next++
		c.r = reader{b: b}
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
	t := &table{disk: base.disk, file: f, number: number}
	if err := t.fill(diskWriter{base.disk, int(f.Fd())}, m, oldest); err != nil {
		return nil, errors.Join(err, f.Close(), base.remove(tableFile(number)))
	}
	return t, nil
}

// fill writes what m yields to the table's file, which it need not have open.
func (t *table) fill(file io.Writer, m *mergeIterator, oldest bool) error {
	w := bufio.NewWriterSize(file, 64<<10)
	full := blockSize
	var z packer
	if t.packed {
		full = packedBlock
	}
	list, count := []byte(nil), uint64(0)
	buf, first := make([]byte, 4, 2*blockSize), ""
	end := func() error {
		block := buf
		if t.packed {
			block = z.pack(buf)
		}
		binary.LittleEndian.PutUint32(block, checksum(block[4:]))
		list = binary.AppendUvarint(putBytes(list, []byte(first)), uint64(len(block)))
		count++
		t.size += int64(len(block))
		_, err := w.Write(block)
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
		large := len(value) > full // it gets a block of its own, so that nobody reads it who looks for another key
		if large && len(buf) > 4 {
			if err := end(); err != nil {
				return err
			}
		}
		if first == "" {
			first = key
		}
		if buf = putValue(putBytes(buf, []byte(key)), value); len(buf) >= full {
			if err := end(); err != nil {
				return err
			}
		}
		if large {
			first = key + "\x00" // no key is between the two
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

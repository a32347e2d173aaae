package fs

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/vizier-scheduler/vizier/kernel"
)

// read returns the entry at offset at and where it ends. Where the journal ends, it fails
// with io.ErrUnexpectedEOF. A torn entry counts as the end: it was never durable and so
// never happened.
func (j *journal) read(at int64) (entry, int64, error) {
	var groups []group
	r, next, err := j.body(at, nil)
	if err != nil {
		return entry{}, at, err
	}
	e, err := r.entry(func(g group) error { groups = append(groups, g); return nil })
	if err != nil {
		return entry{}, at, fmt.Errorf("journal entry at %d: %w", at, err)
	}
	e.groups, e.account = groups, r.account(e)
	return e, next, r.err
}

// each calls f with the groups of the entry at offset at, as they come, and returns where
// it ends; the errors are those of read, and of f.
func (j *journal) each(at int64, f func(group) error) (int64, error) {
	r, next, err := j.body(at, nil)
	if err == nil {
		_, err = r.entry(f)
	}
	return next, err
}

// body checks the body of the entry at offset at, writes all of it to digest, and returns
// a reader of it and where it ends. Its errors are those of read.
func (j *journal) body(at int64, digest hash.Hash) (*reader, int64, error) {
	if _, err := j.size(); err != nil { // it makes the reads see what another host wrote
		return nil, at, err
	}
	var head [headSize]byte
	if _, err := j.ReadAt(head[:], at); err != nil {
		return nil, at, withinEntry(err)
	}
	length := int64(binary.LittleEndian.Uint32(head[:4]))
	at += headSize
	// A length of zero is what a power failure leaves of a file that had grown.
	if length == 0 {
		return nil, at, io.ErrUnexpectedEOF
	}
	b := make([]byte, min(length, pieceSize))
	var sum uint32
	for done := int64(0); done < length; {
		b = b[:min(length-done, int64(len(b)))]
		if _, err := j.ReadAt(b, at+done); err != nil {
			return nil, at, withinEntry(err)
		}
		sum = crc32.Update(sum, crc32.IEEETable, b)
		if digest != nil {
			digest.Write(b)
		}
		done += int64(len(b))
	}
	if sum != binary.LittleEndian.Uint32(head[4:]) {
		return nil, at, io.ErrUnexpectedEOF
	}
	if int64(len(b)) == length {
		return &reader{b: b}, at + length, nil
	}
	return j.section(at, length), at + length, nil
}

// withinEntry turns the end of the file, before or within an entry, into io.ErrUnexpectedEOF.
func withinEntry(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ReadAt makes j an io.ReaderAt.
func (j *journal) ReadAt(b []byte, at int64) (int, error) {
	n, err := j.base.disk.readAt(j.file, b, at)
	if err != nil && !errors.Is(err, io.EOF) {
		err = failed("read", plansFile, err)
	}
	return n, err
}

// section reads a body that is not in memory.
func (j *journal) section(at, length int64) *reader {
	return &reader{from: io.NewSectionReader(j, at, length), left: uint64(length)}
}

func decodeEntry(b []byte) (entry, error) {
	var groups []group
	r := &reader{b: b}
	e, _ := r.entry(func(g group) error { groups = append(groups, g); return nil })
	e.groups, e.account = groups, r.account(e)
	return e, r.err
}

// entry reads an entry up to its account, if it has one. It calls f with the groups, as
// they come, and returns the rest.
func (r *reader) entry(f func(group) error) (e entry, err error) {
	world := r.bytes()
	for n := r.count(); n > 0 && r.err == nil; n-- {
		if g := r.group(); r.err == nil {
			r.err = f(g)
		}
	}
	if r.fill(1); r.err == nil && len(r.b) > 0 {
		e.number, e.before = r.uint(), r.digest()
	}
	if r.err == nil && len(world) > 0 {
		r.err = json.Unmarshal(world, &e.world)
	}
	return e, r.err
}

// account is the account of e, which was read up to it; nil: it has none.
func (r *reader) account(e entry) []byte {
	if r.err != nil || e.number == 0 {
		return nil
	}
	return r.bytes()
}

// beginning returns the first piece of the account, which says when the entry was written.
func (r *reader) beginning() []byte {
	n := min(r.count(), pieceSize)
	r.fill(n)
	return r.b[:min(n, uint64(len(r.b)))]
}

func (r *reader) group() group {
	g := group{job: kernel.JobID(r.bytes()), rev: kernel.Revision(r.uint()), record: r.bytes(), state: string(r.bytes())}
	if len(g.record) == 0 {
		g.record = nil
	}
	for m := r.count(); m > 0 && r.err == nil; m-- {
		g.ops = append(g.ops, fileOp{opKind(r.byte()), string(r.bytes()), string(r.bytes()), r.bytes()})
	}
	return g
}

// reader takes values off a buffer. After the first error it yields zeros.
type reader struct {
	b    []byte
	from io.Reader // of what comes after b
	left uint64    // how much that is
	text string    // ends with the bytes of b; strings are cut from it. "": each string is a copy
	err  error
}

var errShort = errors.New("too short")

// fill makes b hold n bytes, if there are as many. Slices that were taken from b stay valid.
func (r *reader) fill(n uint64) {
	if r.left > 0 && uint64(len(r.b)) < n {
		r.more(n)
	}
}

func (r *reader) more(n uint64) {
	have := uint64(len(r.b))
	b := make([]byte, min(have+r.left, max(n, pieceSize)))
	copy(b, r.b)
	if _, err := io.ReadFull(r.from, b[have:]); err != nil {
		r.fails(err)
		return
	}
	r.b, r.left = b, r.left-uint64(len(b))+have
}

// fails ends the reading. Only the first error counts: values that are missing after a read that failed are no damage.
func (r *reader) fails(err error) { r.b, r.left, r.err = nil, 0, cmp.Or(r.err, err) }

func (r *reader) uint() uint64 {
	r.fill(binary.MaxVarintLen64)
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fails(errShort)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a length, which must not exceed what is left.
func (r *reader) count() uint64 {
	v := r.uint()
	if v > uint64(len(r.b))+r.left {
		r.fails(errShort)
		return 0
	}
	return v
}

func (r *reader) bytes() []byte {
	n := r.count()
	r.fill(n)
	n = min(n, uint64(len(r.b)))
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// string is bytes as a string.
func (r *reader) string() string {
	v := r.bytes()
	if end := len(r.text) - len(r.b); end > 0 {
		return r.text[end-len(v) : end]
	}
	return string(v)
}

func (r *reader) byte() byte {
	r.fill(1)
	if len(r.b) == 0 {
		r.fails(errShort)
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

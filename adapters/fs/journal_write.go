package fs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"

	jsonv2 "github.com/go-json-experiment/json"
)

// A batch of ten thousand jobs makes an entry of tens of megabytes. So an entry is written
// and read in pieces: a longer one is never in memory as a whole, and a record is encoded
// when its turn comes.

// pieceSize is about how much of an entry is in memory at once, in bytes.
const pieceSize = 64 << 10

// headSize is the size of an entry's head: the length and the checksum of its body.
const headSize = 8

// append makes e durable at offset at and returns where it ends, and its body. An entry of
// several pieces gets its head last: until then its length is zero and it counts as torn.
func (j *journal) append(e entry, at int64) (end int64, body *reader, err error) {
	w := entryWriter{digest: sha256.New(), hand: func(b []byte, offset int64) error {
		return failed("write", plansFile, j.base.disk.writeAt(int(j.file.Fd()), b, at+offset))
	}}
	err = w.write(e)
	if err == nil && j.sync {
		err = failed("sync", plansFile, j.base.disk.syncData(int(j.file.Fd())))
	}
	if err != nil {
		if stays := j.cut(at); stays != nil {
			err = fmt.Errorf("%w, and it is not certain that it is undone: the next command may find it on record, and complete it (%w)", err, stays)
		}
		return at, nil, err
	}
	j.last = knownTip{journalOffset{end: at + w.size()}, e.number, digest(w.digest.Sum(nil))} // the caller knows the epoch
	if w.done == 0 {
		return at + w.size(), &reader{b: w.b[headSize:]}, nil
	}
	return at + w.size(), j.section(at+headSize, w.size()-headSize), nil
}

// encode returns e in one piece.
func (e entry) encode() ([]byte, error) {
	w := entryWriter{}
	err := w.write(e)
	return w.b, err
}

// entryWriter writes one entry.
type entryWriter struct {
	hand   func(b []byte, offset int64) error // writes b at an offset of the entry; nil: the entry stays in b
	digest hash.Hash                          // of the body written so far; nil: not needed
	sum    uint32                             // of the same
	b      []byte                             // the piece under way; the first begins with room for the head
	done   int64                              // how much was written
	record recordEncoder
}

func (w *entryWriter) size() int64 { return w.done + int64(len(w.b)) }

func (w *entryWriter) write(e entry) error {
	var world []byte
	if len(e.world) > 0 {
		var err error
		if world, err = json.Marshal(e.world); err != nil {
			return err
		}
	}
	w.b = putBytes(make([]byte, headSize, 8<<10), world)
	w.b = binary.AppendUvarint(w.b, uint64(len(e.groups)))
	for _, g := range e.groups {
		if g.is != nil {
			var err error
			if g.record, err = w.record.encode(g.is.job, g.is.foreign, e.now); err != nil {
				return err
			}
		}
		w.b = g.append(w.b)
		if err := w.full(); err != nil {
			return err
		}
	}
	if e.number > 0 {
		w.b = binary.AppendUvarint(w.b, e.number)
		w.b = append(w.b, e.before[:]...)
		if err := w.account(e); err != nil {
			return err
		}
	}
	return w.end()
}

func (w *entryWriter) account(e entry) error {
	if e.tells == nil {
		w.b = putBytes(w.b, e.account)
		return nil
	}
	var text pieces
	if err := jsonv2.MarshalWrite(&text, e.tells, line); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	w.b = binary.AppendUvarint(w.b, uint64(text.size))
	for _, p := range text.all {
		w.b = append(w.b, p...)
		if err := w.full(); err != nil {
			return err
		}
	}
	return nil
}

// full writes b if it has grown to a piece.
func (w *entryWriter) full() error {
	if w.hand == nil || len(w.b) < pieceSize {
		return nil
	}
	w.count()
	err := w.hand(w.b, w.done)
	w.done += int64(len(w.b))
	w.b = w.b[:0]
	return err
}

// count adds b to the sums.
func (w *entryWriter) count() {
	body := w.b
	if w.done == 0 {
		body = body[headSize:]
	}
	w.sum = crc32.Update(w.sum, crc32.IEEETable, body)
	if w.digest != nil {
		w.digest.Write(body)
	}
}

// end writes the rest, and the head with it or, if there are several pieces, after it.
func (w *entryWriter) end() error {
	w.count()
	var head [headSize]byte
	binary.LittleEndian.PutUint32(head[:4], uint32(w.size()-headSize))
	binary.LittleEndian.PutUint32(head[4:], w.sum)
	if w.done == 0 {
		copy(w.b, head[:])
	}
	if w.hand == nil {
		return nil
	}
	err := w.hand(w.b, w.done)
	if err == nil && w.done > 0 {
		err = w.hand(head[:], 0)
	}
	return err
}

func (g group) append(b []byte) []byte {
	b = putBytes(b, []byte(g.job))
	b = binary.AppendUvarint(b, uint64(g.rev))
	b = putBytes(b, g.record)
	b = putBytes(b, []byte(g.state))
	b = binary.AppendUvarint(b, uint64(len(g.ops)))
	for _, op := range g.ops {
		b = append(b, byte(op.kind))
		b = putBytes(b, []byte(op.path))
		b = putBytes(b, []byte(op.to))
		b = putBytes(b, op.data)
	}
	return b
}

func putBytes(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

// pieces is a text that grows without being moved.
type pieces struct {
	all  [][]byte
	size int
}

func (p *pieces) Write(b []byte) (int, error) {
	last := len(p.all) - 1
	if last < 0 || len(p.all[last])+len(b) > cap(p.all[last]) {
		p.all = append(p.all, make([]byte, 0, max(len(b), 2<<10, min(p.size, pieceSize))))
		last++
	}
	p.all[last] = append(p.all[last], b...)
	p.size += len(b)
	return len(b), nil
}

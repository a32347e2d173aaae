package joblog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
)

// File reads a log while it is being written. A file that is rotated away is
// read to its end, and its successor from the beginning. If the beginning of a
// log is cut while it is read, reading continues at the same byte.
type File struct {
	opens func() (*os.File, error)
	file  source
	at    int64 // offset in the output, including dropped bytes, of the next byte
	lost  bool  // bytes are missing between the last ones read and those before
	buf   []byte

	met []os.FileInfo // the files that were opened

	again  []byte // what was read is read again: see next
	tail   []byte // the last bytes that were read, at most as many as a mark has
	tailAt int64  // at after they were read
}

// source is what File reads: an *os.File, except in tests.
type source interface {
	io.ReaderAt
	io.Closer
	Stat() (os.FileInfo, error)
	Fd() uintptr
}

// NewFile returns the reader of the log that opens opens. It calls opens now,
// and whenever it checks whether the file was replaced. The file need not exist
// yet.
func NewFile(opens func() (*os.File, error)) *File { return &File{opens: opens} }

// CopyTo writes what is new to out and reports whether there was anything.
func (f *File) CopyTo(ctx context.Context, out io.Writer) (any bool, err error) {
	for {
		if there, err := f.open(); err != nil || !there {
			return any, err
		}
		replaced, err := f.replaced() // checked before reading, so that the rest includes everything written until then
		if err != nil {
			return any, err
		}
		for {
			b, err := f.next(math.MaxInt64)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return any, err
			}
			if len(b) == 0 {
				break
			}
			any = true
			if _, err := out.Write(b); err != nil {
				return any, err
			}
		}
		if !replaced {
			return any, nil
		}
		f.Close()
	}
}

// Met reports whether f reads the file that log is, or has read it. One that was replaced before f looked it has not.
func (f *File) Met(log *os.File) (bool, error) {
	info, err := log.Stat()
	return err == nil && slices.ContainsFunc(f.met, func(have os.FileInfo) bool { return os.SameFile(have, info) }), err
}

// Close closes the file.
func (f *File) Close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file, f.at, f.tail, f.tailAt = nil, 0, f.tail[:0], 0
	}
}

// open opens the file unless it is open, and reports whether it exists.
func (f *File) open() (bool, error) {
	if f.file != nil {
		return true, nil
	}
	file, err := f.opens()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := file.Stat()
	if err != nil {
		return false, errors.Join(err, file.Close())
	}
	f.file, f.at, f.met = file, 0, append(f.met, info)
	return true, nil
}

// replaced reports whether there is another file at the path now.
func (f *File) replaced() (bool, error) {
	now, err := f.opens()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // between the two steps of a rotation
	}
	if err != nil {
		return false, err
	}
	defer now.Close()
	there, err := now.Stat()
	if err != nil {
		return false, err
	}
	read, err := f.file.Stat()
	return err == nil && !os.SameFile(read, there), err
}

// bufferSize is how much is read at once, in bytes.
const bufferSize = 32 << 10

// end returns the current length of the output.
func (f *File) end() (int64, error) {
	for {
		h, err := begin(f.file)
		if err != nil {
			return 0, err
		}
		info, err := f.file.Stat()
		if err != nil {
			return 0, err
		}
		if again, err := begin(f.file); err != nil || again == h {
			return info.Size() - h.Start + h.Dropped, err
		}
	}
}

// next returns the next bytes, up to end, or nothing if there are no more.
// Bytes that were read while the log was being cut may come from anywhere, and so may
// those that were read while a mark was being written: they are read again. If a mark
// has been written over the last bytes that were read, reading continues at its beginning.
func (f *File) next(end int64) ([]byte, error) {
	if f.buf == nil {
		f.buf, f.again = make([]byte, bufferSize), make([]byte, markSize+bufferSize+markSize)
	}
	h, err := begin(f.file)
	over := false // a mark begins where reading continues
	for err == nil {
		info, err := f.file.Stat()
		if err != nil {
			return nil, err
		}
		at := f.at
		lost := over || at < h.Dropped+h.Mark || at > h.Dropped+info.Size()-h.Start // the next bytes are gone, or somebody emptied the file
		if lost && !over {
			at = h.Dropped
		}
		if end <= at {
			return nil, nil
		}
		var before []byte
		if !lost && f.tailAt == at {
			before = f.tail[max(0, int64(len(f.tail))-(at-h.Dropped-h.Mark)):]
		}
		from := at - h.Dropped + h.Start
		n, failed := f.file.ReadAt(f.buf[:min(end-at, bufferSize)], from)
		m, _ := f.file.ReadAt(f.again[:len(before)+n+markSize], from-int64(len(before)))
		was := h
		if h, err = begin(f.file); err != nil {
			return nil, err
		}
		if h != was {
			over = false
			continue
		}
		if failed != nil && !errors.Is(failed, io.EOF) {
			return nil, failed
		}
		if m < len(before)+n || !bytes.Equal(f.again[len(before):len(before)+n], f.buf[:n]) {
			continue
		}
		if k := straddles(f.again[:m], before); k > 0 {
			f.at, over = at-int64(k), true
			continue
		}
		f.lost = lost
		if n > 0 {
			f.at = at + int64(n)
			f.tail = append(f.tail[:0], f.buf[max(0, n-markSize):n]...)
			f.tailAt = f.at
		}
		return f.buf[:n], nil
	}
	return nil, err
}

// straddles returns how far before the end of what was read before a mark begins that has been
// written over it and goes on behind it; 0: there is none. now is what is there now, and behind it.
func straddles(now, before []byte) int {
	for k := len(before); k > 0; k-- {
		i := len(before) - k
		if dropped, ok := parseMark(now[i:min(len(now), i+markSize)]); ok && len(mark(dropped)) > k && !bytes.Equal(now[i:len(before)], before[i:]) {
			return k
		}
	}
	return 0
}

// skip continues at the nth line from the end, or where the output begins if it
// has fewer. It reads from the end, so that it costs what these lines do.
func (f *File) skip(n int) error {
	to, err := f.end()
	for begun := false; err == nil && !begun && to > 0; {
		f.at = max(0, to-bufferSize)
		var b []byte
		b, err = f.next(to)
		to, begun = f.at-int64(len(b)), f.lost || len(b) == 0
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] != '\n' {
				continue
			}
			if n--; n < 0 { // the first one found ends the last line
				f.at = to + int64(i) + 1
				return nil
			}
		}
	}
	f.at = 0
	return err
}

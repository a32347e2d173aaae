package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/kernel"
)

// stream reads a log file as it is written. A file that is rotated away is
// read to its end, and the one that takes its place from its beginning. Where
// the beginning of a log is cut while it is read, reading goes on where it was.
type stream struct {
	open   func() (*os.File, error)
	prefix string // before each line; "" : bytes as they come
	file   *os.File
	at     int64  // the next byte of the output, those counted that are dropped
	rest   []byte // the beginning of a line that has no end yet
	buf    []byte
}

// stream reads a log of a job, each line with prefix before it.
func (r *repo) stream(id kernel.JobID, name, prefix string) *stream {
	return &stream{open: func() (*os.File, error) { return r.Logs.OpenLog(id, name) }, prefix: plainLine(prefix)}
}

// copyTo writes what is new to out and reports whether there was anything. A
// file that does not exist yet is no error.
func (s *stream) copyTo(ctx context.Context, out io.Writer) (bool, error) {
	any := false
	for {
		if s.file == nil {
			f, err := s.open()
			if errors.Is(err, fs.ErrNotExist) {
				return any, nil
			}
			if err != nil {
				return any, err
			}
			s.file, s.at = f, 0
		}
		replaced, err := s.replaced()
		if err != nil {
			return any, err
		}
		n, err := s.drain(ctx, out)
		any = any || n > 0
		if err != nil {
			return any, err
		}
		if !replaced {
			return any, nil
		}
		s.close()
	}
}

// replaced reports that another file stands at the path now. It is asked
// before the old file is read to its end, so that nothing written before the
// rotation is missed.
func (s *stream) replaced() (bool, error) {
	now, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // between the two halves of a rotation
	}
	if err != nil {
		return false, err
	}
	defer now.Close()
	there, err := now.Stat()
	if err != nil {
		return false, err
	}
	read, err := s.file.Stat()
	return err == nil && !os.SameFile(read, there), err
}

func (s *stream) drain(ctx context.Context, out io.Writer) (int, error) {
	if s.buf == nil {
		s.buf = make([]byte, 32<<10)
	}
	total := 0
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := s.next()
		total += n
		if n > 0 {
			if err := s.emit(out, s.buf[:n]); err != nil {
				return total, err
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// next reads on at s.at. What was read while the log was being cut may be of
// anywhere, so it is read again.
func (s *stream) next() (int, error) {
	h, err := joblog.Begin(s.file)
	for err == nil {
		info, err := s.file.Stat()
		if err != nil {
			return 0, err
		}
		at := s.at
		lost := at < h.Dropped+h.Mark || at > h.Dropped+info.Size()-h.Start // what came next is gone, or somebody emptied the file
		if lost {
			at = h.Dropped
		}
		n, failed := s.file.ReadAt(s.buf, at-h.Dropped+h.Start)
		was := h
		if h, err = joblog.Begin(s.file); err != nil {
			return 0, err
		}
		if h != was {
			continue
		}
		if lost {
			s.rest = nil
		}
		s.at = at + int64(n)
		return n, failed
	}
	return 0, err
}

func (s *stream) emit(out io.Writer, p []byte) error {
	if s.prefix == "" {
		_, err := out.Write(p)
		return err
	}
	var b bytes.Buffer
	for {
		line, more, found := bytes.Cut(p, []byte("\n"))
		if !found {
			s.rest = append(s.rest, p...)
			break
		}
		b.WriteString(s.prefix)
		b.Write(s.rest)
		b.Write(line)
		b.WriteByte('\n')
		s.rest, p = s.rest[:0], more
	}
	_, err := out.Write(b.Bytes())
	return err
}

// end writes the last line, if it has no end.
func (s *stream) end(out io.Writer) error {
	s.close()
	if len(s.rest) == 0 {
		return nil
	}
	_, err := io.WriteString(out, s.prefix+string(s.rest)+"\n")
	s.rest = nil
	return err
}

func (s *stream) close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// pace is how long to wait before looking again: briefly after progress, then
// ever longer.
type pace struct{ idle int }

var paces = [...]time.Duration{15 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 160 * time.Millisecond, 240 * time.Millisecond}

// wait waits. Its error is that of the context.
func (p *pace) wait(ctx context.Context, progress bool) error {
	if progress {
		p.idle = 0
	}
	d := paces[min(p.idle, len(paces)-1)]
	p.idle++
	return pause(ctx, d)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

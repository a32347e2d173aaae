package joblog

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"time"
)

// Line is a line of a command's output without its end.
type Line struct {
	Stream int       // Stdout or Stderr
	At     time.Time // when its end was written; zero: nobody recorded it
	Text   []byte
}

// Lines reads both logs of a command line by line, in the order in which they
// were written as far as that was recorded; of what was not, standard output
// comes first. A line whose end is not written yet is not there yet.
type Lines struct {
	logs  [streams]*File
	rest  [streams][]byte // the beginning of a line
	until [streams]int64  // what is not recorded is read up to here
	seen  [streams]int64  // how far the logs were when last looked at

	record  *File
	growth  []Growth // read from the record and not yet followed
	partial []byte   // the beginning of a line of the record

}

// NewLines reads the files that opens opens: "stdout" and "stderr", which need not
// exist yet, and "order", the record of the order in which they were written.
func NewLines(opens func(name string) (*os.File, error)) *Lines {
	file := func(name string) *File { return NewFile(func() (*os.File, error) { return opens(name) }) }
	return &Lines{logs: [streams]*File{file("stdout"), file("stderr")}, record: file("order")}
}

// Read hands what is new to f and reports whether there was anything. The record
// is a little later than the logs: what it does not tell of is left for the
// next call, unless all is asked for.
func (l *Lines) Read(ctx context.Context, all bool, f func(Line) error) (any bool, err error) {
	for {
		rotated, err := l.look(all)
		if err != nil {
			return any, err
		}
		more, err := l.drain(ctx, f)
		any = any || more
		if err != nil || !rotated {
			return any, err
		}
		if err := l.End(f); err != nil {
			return any, err
		}
		l.growth, l.partial = nil, nil
	}
}

// End hands out the lines that have no end, and lets go of the files.
func (l *Lines) End(f func(Line) error) error {
	for s, rest := range l.rest {
		l.rest[s] = nil
		if len(rest) > 0 {
			if err := f(Line{Stream: s, Text: rest}); err != nil {
				return err
			}
		}
	}
	for _, log := range l.logs {
		log.Close()
	}
	l.record.Close()
	l.until, l.seen = [streams]int64{}, [streams]int64{}
	return nil
}

// look opens what there is and sees how far it is. It reports whether all of it was
// rotated away: then it is read to its end.
func (l *Lines) look(all bool) (rotated bool, err error) {
	open, replaced := 0, 0
	for s, log := range l.logs {
		there, err := log.open()
		if err != nil {
			return false, err
		}
		l.until[s] = l.seen[s]
		if !there {
			continue
		}
		open++
		gone, err := log.replaced()
		if err != nil {
			return false, err
		}
		if gone {
			replaced++
		}
		if l.seen[s], err = log.end(); err != nil {
			return false, err
		}
		if l.seen[s] < log.at { // somebody emptied it
			log.at, l.rest[s] = 0, nil
		}
	}
	if _, err := l.record.open(); err != nil {
		return false, err
	}
	if rotated = open > 0 && open == replaced; rotated || all {
		l.until = l.seen
	}
	return rotated, nil
}

func (l *Lines) drain(ctx context.Context, f func(Line) error) (any bool, err error) {
	for {
		for len(l.growth) > 0 {
			g := l.growth[0]
			l.growth = l.growth[1:]
			more, err := l.follow(ctx, g, f)
			any = any || more
			if err != nil {
				return any, err
			}
		}
		if err := l.readRecord(); err != nil {
			return any, err
		}
		if len(l.growth) == 0 {
			break
		}
	}
	for s := range l.logs {
		more, err := l.follow(ctx, Growth{Stream: s, End: l.until[s]}, f)
		any = any || more
		if err != nil {
			return any, err
		}
	}
	return any, nil
}

// follow reads the log of a stream as far as g says.
func (l *Lines) follow(ctx context.Context, g Growth, f func(Line) error) (any bool, err error) {
	log := l.logs[g.Stream]
	if log.file == nil {
		return false, nil
	}
	for log.at < g.End {
		if err := ctx.Err(); err != nil {
			return any, err
		}
		b, err := log.next(g.End)
		if err != nil || len(b) == 0 {
			return any, err
		}
		any = true
		if log.lost {
			l.rest[g.Stream] = nil
		}
		for {
			line, more, whole := bytes.Cut(b, []byte("\n"))
			if !whole {
				l.rest[g.Stream] = append(l.rest[g.Stream], b...)
				break
			}
			b = more
			text := append(l.rest[g.Stream], line...)
			l.rest[g.Stream] = nil
			if err := f(Line{g.Stream, g.At, text}); err != nil {
				return any, err
			}
		}
	}
	return any, nil
}

// readRecord reads what the record has more.
func (l *Lines) readRecord() error {
	if l.record.file == nil {
		return nil
	}
	b, err := l.record.next(math.MaxInt64)
	if err != nil {
		return err
	}
	if l.record.lost {
		l.partial = nil
	}
	b = append(l.partial, b...)
	for {
		line, more, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			l.partial = bytes.Clone(b)
			return nil
		}
		if g, ok := parseGrowth(line); ok {
			l.growth = append(l.growth, g)
		}
		b = more
	}
}

var _ io.Closer = (*Lines)(nil)

// Close lets go of the files.
func (l *Lines) Close() error { return l.End(func(Line) error { return nil }) }

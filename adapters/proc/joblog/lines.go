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
	At     time.Time // when its end was written; zero: not recorded
	Text   []byte
}

// Lines reads both logs of a command line by line, in the order in which they
// were written as far as that was recorded. For the rest, standard output comes
// first. A line is only returned once its end is written. Of the line whose beginning was
// cut with what stood before it nothing is returned, unless it is the last and has no end.
type Lines struct {
	logs  [streams]*File
	rest  [streams][]byte // the beginning of a line
	mark  [streams]bool   // the next line may be a mark
	torn  [streams]bool   // the next line lacks its beginning, which was cut
	until [streams]int64  // what is not recorded is read up to here
	seen  [streams]int64  // length of the logs at the last look

	record  *File
	growth  []Growth // read from the record and not yet processed
	partial []byte   // an incomplete line of the record

	last int // how many lines of each log the first Read begins with, from the end; 0: all
}

// NewLines returns the reader of the files that opens opens: "stdout" and
// "stderr", which need not exist yet, and "order", the record of the order in
// which they were written.
func NewLines(opens func(name string) (*os.File, error)) *Lines {
	file := func(name string) *File { return NewFile(func() (*os.File, error) { return opens(name) }) }
	return &Lines{logs: [streams]*File{file("stdout"), file("stderr")}, record: file("order")}
}

// Last makes the first Read begin at the nth line from the end of each log.
func (l *Lines) Last(n int) { l.last = n }

// Await waits until the record covers what the logs have now, at most for the time d: Read then knows the order of all
// of it. It is for a caller that knows that the command writes no more.
func (l *Lines) Await(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ctx.Err() == nil && time.Now().Before(end); time.Sleep(notedWithin) {
		if _, err := l.look(false); err != nil {
			return err
		}
		if err := l.readRecord(); err != nil {
			return err
		}
		var noted [streams]int64
		for _, g := range l.growth {
			noted[g.Stream] = max(noted[g.Stream], g.End)
		}
		if noted[Stdout] >= l.seen[Stdout] && noted[Stderr] >= l.seen[Stderr] {
			return nil
		}
	}
	return ctx.Err()
}

// notedWithin is how long a write mostly waits to be recorded.
const notedWithin = 5 * time.Millisecond

// Read calls f with what is new, and reports whether there was anything. The
// record lags a little behind the logs: what it does not cover yet is left for
// the next call, unless all is set.
func (l *Lines) Read(ctx context.Context, all bool, f func(Line) error) (any bool, err error) {
	if l.last > 0 {
		if err := l.skip(); err != nil {
			return false, err
		}
	}
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

// skip leaves out what stands before the last lines of each log.
func (l *Lines) skip() error {
	for _, log := range l.logs {
		there, err := log.open()
		if err == nil && there {
			err = log.skip(l.last)
		}
		if err != nil {
			return err
		}
	}
	l.last = 0
	return nil
}

// Met is File.Met of the standard output.
func (l *Lines) Met(log *os.File) (bool, error) { return l.logs[Stdout].Met(log) }

// Unended returns what Read has read of the lines whose ends are not written yet, at most one
// of each log. Read returns it with the rest of its line.
func (l *Lines) Unended() (out []Line) {
	for s, rest := range l.rest {
		if len(rest) > 0 {
			out = append(out, Line{Stream: s, Text: rest})
		}
	}
	return out
}

// End calls f with the unterminated lines, and closes the files.
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
	l.mark, l.torn = [streams]bool{}, [streams]bool{}
	l.until, l.seen = [streams]int64{}, [streams]int64{}
	return nil
}

// look opens the files that exist and notes their lengths. It reports whether
// all of them were rotated away; then they are read to their ends.
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
		if l.seen[s] < log.at { // somebody emptied the file
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

// follow reads the log of a stream up to where g says.
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
			l.rest[g.Stream], l.mark[g.Stream], l.torn[g.Stream] = nil, true, false
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
			if l.torn[g.Stream] {
				l.torn[g.Stream] = false
				continue
			}
			if l.mark[g.Stream] {
				l.mark[g.Stream] = false
				_, l.torn[g.Stream] = parseMark(append(bytes.Clone(text), '\n'))
			}
			if err := f(Line{g.Stream, g.At, text}); err != nil {
				return any, err
			}
		}
	}
	return any, nil
}

// readRecord reads the new lines of the record.
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

// Close closes the files.
func (l *Lines) Close() error { return l.End(func(Line) error { return nil }) }

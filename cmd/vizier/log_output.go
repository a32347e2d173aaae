package main

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/app/answer"
)

// logs returns the writer for the output of jobs. For a file or a pipe it is
// unfiltered. For a terminal, only colours pass, and not even these if colours
// are off.
func (u *ui) logs() io.Writer {
	if !u.outTTY && !u.strip {
		return u.out
	}
	if u.filter == nil {
		u.filter = &logFilter{out: u.out, strip: u.strip}
	}
	return u.filter
}

// close writes what the filter holds back.
func (u *ui) close() error {
	if u.filter == nil {
		return nil
	}
	return u.filter.Close()
}

// logFilter makes output of jobs harmless to a terminal. It makes other sequences
// than colours visible, as plain does, or leaves them out if strip is set.
type logFilter struct {
	out   io.Writer
	strip bool
	held  []byte // the beginning of an incomplete sequence
	tint  bool   // a colour is on
	last  rune   // the character before; 0: there is none on the line
}

// longestSequence is the maximum length of an escape sequence, in bytes.
const longestSequence = 4 << 10

func (f *logFilter) Write(p []byte) (int, error) {
	rest := append(f.held, p...)
	var b bytes.Buffer
	for len(rest) > 0 {
		n := f.next(&b, rest)
		if n == 0 {
			break
		}
		rest = rest[n:]
	}
	f.held = bytes.Clone(rest)
	if _, err := f.out.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what remained incomplete, and resets the colour.
func (f *logFilter) Close() error {
	var b bytes.Buffer
	if !f.strip {
		b.WriteString(visible(string(f.held), "\n\t"))
	}
	f.held = nil
	f.plainAgain(&b)
	_, err := f.out.Write(b.Bytes())
	return err
}

// next writes the first character or sequence in p and returns its length, or 0
// if it is incomplete.
func (f *logFilter) next(b *bytes.Buffer, p []byte) int {
	switch {
	case p[0] == '\n':
		f.last = 0
		f.plainAgain(b)
		b.WriteByte('\n')
		return 1
	case p[0] == '\r' && len(p) == 1:
		return 0
	case p[0] == '\r' && p[1] == '\n':
		return 1
	case p[0] == 0x1b:
		f.last = 0
		return f.sequence(b, p)
	case !utf8.FullRune(p):
		return 0
	}
	r, n := utf8.DecodeRune(p)
	if n > 1 && answer.Unseen(r) && !utf8.FullRune(p[n:]) && !answer.Joined(f.last, r, utf8.RuneError) {
		return 0
	}
	after, _ := utf8.DecodeRune(p[n:])
	if answer.Joined(f.last, r, after) {
		f.last = r
		b.Write(p[:n])
		return n
	}
	text := visible(string(p[:n]), "\t")
	if f.last = r; text != string(p[:n]) {
		f.last = 0 // an escape joins nothing
	}
	if !f.strip || f.last != 0 {
		b.WriteString(text)
	}
	return n
}

// sequence is next for an escape sequence.
func (f *logFilter) sequence(b *bytes.Buffer, p []byte) int {
	n, colour := joblog.Sequence(p)
	switch {
	case n == 0 && len(p) < longestSequence:
		return 0
	case f.strip:
		return max(n, 1)
	case colour:
		f.tint = true
		b.Write(p[:n])
		return n
	}
	b.WriteString(`\x1b`)
	return 1
}

func (f *logFilter) plainAgain(b *bytes.Buffer) {
	if f.tint {
		b.WriteString("\x1b[0m")
		f.tint = false
	}
}

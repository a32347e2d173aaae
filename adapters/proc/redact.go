package proc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

// redactor passes on what is written to it, with each of its texts replaced by
// a mark, even if a text arrives in pieces. A possible beginning of a text is
// held back until more is written or the output ends.
type redactor struct {
	out   io.Writer
	texts []hiddenText

	pending []byte
	done    int // how many bytes of pending are covered by a mark that is already written
}

// hiddenText is a text that must not pass, and its mark.
type hiddenText struct{ text, mark []byte }

// hiddenTexts returns the texts to hide for secrets: each value without the
// newlines at its end and, since logs are indented and cut at lines, each of
// its lines.
func hiddenTexts(values []secretValue) []hiddenText {
	var out []hiddenText
	for _, v := range values {
		mark := []byte("[secret " + v.name + "]")
		whole := bytes.TrimRight(v.value, "\r\n")
		texts := [][]byte{whole}
		if lines := bytes.Split(whole, []byte("\n")); len(lines) > 1 {
			texts = append(texts, lines...)
		}
		for _, text := range texts {
			if text = bytes.TrimSpace(text); len(text) >= leastSecret {
				out = append(out, hiddenText{text, mark})
			}
		}
	}
	return out
}

// redact returns text with each of texts replaced by its mark.
func redact(text string, texts []hiddenText) string {
	var b bytes.Buffer
	r := redactor{out: &b, texts: texts}
	_, _ = r.Write([]byte(text))
	_ = r.flush()
	return b.String()
}

func (r *redactor) Write(b []byte) (int, error) {
	r.pending = append(r.pending, b...)
	return len(b), r.write(r.undecided())
}

// flush writes what is held back.
func (r *redactor) flush() error { return r.write(len(r.pending)) }

// undecided returns the index in pending at which the first text may begin that
// is not complete yet.
func (r *redactor) undecided() int {
	at := len(r.pending)
	for _, h := range r.texts {
		for n := min(len(h.text)-1, len(r.pending)); n > len(r.pending)-at; n-- {
			if bytes.HasSuffix(r.pending, h.text[:n]) {
				at = len(r.pending) - n
				break
			}
		}
	}
	return at
}

// write writes pending up to end. Overlapping texts share one mark.
func (r *redactor) write(end int) error {
	type stretch struct {
		from, to int
		mark     []byte
	}
	var found []stretch
	for _, h := range r.texts {
		for at := 0; ; at++ {
			n := bytes.Index(r.pending[at:], h.text)
			if n < 0 {
				break
			}
			at += n
			found = append(found, stretch{at, at + len(h.text), h.mark})
		}
	}
	slices.SortStableFunc(found, func(a, b stretch) int { return a.from - b.from })
	var out []byte
	at := r.done // how far pending is written
	for _, s := range found {
		if s.from >= end && s.from >= at {
			break
		}
		if s.from >= at {
			out = append(append(out, r.pending[at:s.from]...), s.mark...)
		}
		at = max(at, s.to)
	}
	if at < end {
		out, at = append(out, r.pending[at:end]...), end
	}
	r.done = at - end
	r.pending = append(r.pending[:0], r.pending[end:]...)
	if len(out) == 0 {
		return nil
	}
	_, err := r.out.Write(out)
	return err
}

// drainPatience is how long the output is still read if a process keeps the
// pipe open after everything of the attempt was ended.
const drainPatience = 5 * time.Second

// filter is a pipe to a log that removes texts.
type filter struct {
	write, read *os.File
	ended       chan struct{}
}

// newFilter returns a pipe whose output goes to log.
func newFilter(log io.Writer, texts []hiddenText) (*filter, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(int(write.Fd()), false); err != nil { // a command does not expect EAGAIN
		return nil, errors.Join(err, read.Close(), write.Close())
	}
	f := &filter{write, read, make(chan struct{})}
	go func() {
		defer close(f.ended)
		r := &redactor{out: log, texts: texts}
		buf := make([]byte, 32<<10)
		for {
			n, err := read.Read(buf)
			if n > 0 {
				_, _ = r.Write(buf[:n]) // a full disk loses output, as it does for a command that writes its log itself
			}
			if err != nil {
				_ = r.flush()
				return
			}
		}
	}()
	return f, nil
}

// started closes the writing end, which the command has inherited.
func (f *filter) started() { _ = f.write.Close() }

// drain waits until everything that was written to the pipe is in the log.
func (f *filter) drain() {
	_ = f.write.Close()
	_ = f.read.SetReadDeadline(time.Now().Add(drainPatience))
	<-f.ended
	_ = f.read.Close()
}

package joblog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// written is a command's logs while it writes them.
type written struct {
	t       *testing.T
	dir     string
	logs    [streams]*os.File
	watcher *Watcher
}

func write(t *testing.T, dir string, most int64) *written {
	t.Helper()
	w := &written{t: t, dir: dir}
	var own [streams]*os.File
	for s, name := range []string{"stdout", "stderr"} {
		for _, f := range []*[streams]*os.File{&w.logs, &own} {
			var err error
			if f[s], err = Append(w.path(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.watcher = WatchBoth(most, own[Stdout], own[Stderr], w.path("order"))
	t.Cleanup(func() { _, _ = w.logs[Stdout].Close(), w.logs[Stderr].Close() })
	return w
}

func (w *written) path(name string) string { return filepath.Join(w.dir, name+".log") }

func (w *written) write(stream int, text string) {
	w.t.Helper()
	if _, err := io.WriteString(w.logs[stream], text); err != nil {
		w.t.Fatal(err)
	}
}

func (w *written) lines() *Lines {
	return NewLines(func(name string) (*os.File, error) { return sys.OpenRegular(w.path(name), os.O_RDONLY) })
}

// text returns what l reads, each line with the number of its stream in front.
func text(t *testing.T, l *Lines, all bool) string {
	t.Helper()
	var b strings.Builder
	if _, err := l.Read(t.Context(), all, func(l Line) error { fmt.Fprintf(&b, "%d %s\n", l.Stream+1, l.Text); return nil }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What nobody recorded is there all the same: at once for who reads everything,
// at the next look for who follows.
func TestLogsWithoutARecord(t *testing.T) {
	w := write(t, t.TempDir(), 0)
	w.watcher.Close()
	w.write(Stderr, "e\n")
	w.write(Stdout, "o\nlast")
	if err := os.Remove(w.path("order")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if got := text(t, w.lines(), true); got != "1 o\n2 e\n" {
		t.Errorf("read %q", got)
	}
	l := w.lines()
	if got := text(t, l, false) + "|" + text(t, l, false); got != "|1 o\n2 e\n" {
		t.Errorf("followed %q", got)
	}
	end := ""
	if err := l.End(func(l Line) error { end += string(l.Text); return nil }); err != nil || end != "last" {
		t.Errorf("ends with %q: %v", end, err)
	}
	if err := os.WriteFile(w.path("order"), []byte("1 2 3\nnonsense\n9 9 9\n2 99999 5\n1 -4 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := text(t, w.lines(), true); got != "1 o\n2 e\n" {
		t.Errorf("with a record that makes no sense: %q", got)
	}
}

// A line of the record that is read in two parts counts as one.
func TestALineOfTheRecordInTwoParts(t *testing.T) {
	w := write(t, t.TempDir(), 0)
	w.watcher.Close()
	w.write(Stdout, "a\nc\n")
	w.write(Stderr, "b\n")
	l := w.lines()
	defer l.Close()
	var got []string
	record := ""
	for _, part := range []string{"1 2 1", "0\n2 2 20\n1 ", "", "4 30\n"} {
		record += part
		if err := os.WriteFile(w.path("order"), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		l.until, l.seen = [streams]int64{}, [streams]int64{} // what is not recorded yet is waited for
		if _, err := l.Read(t.Context(), false, func(l Line) error { got = append(got, fmt.Sprint(string(l.Text), l.At.UnixMicro())); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a10", "b20", "c30"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Only a line that has begun has no end.
func TestUnendedLines(t *testing.T) {
	for text, want := range map[string]string{"": "", "one\n": "", "one\ntwo": "two", "two": "two"} {
		w := write(t, t.TempDir(), 0)
		w.watcher.Close()
		w.write(Stderr, text)
		l := w.lines()
		if _, err := l.Read(t.Context(), true, func(Line) error { return nil }); err != nil {
			t.Fatal(err)
		}
		left := l.Unended()
		if (len(left) > 0) != (want != "") || len(left) > 0 && (string(left[0].Text) != want || left[0].Stream != Stderr) {
			t.Errorf("%q: %+v", text, left)
		}
		if err := l.End(func(l Line) error {
			if string(l.Text) != want {
				t.Errorf("%q ends with %q", text, l.Text)
			}
			want = ""
			return nil
		}); err != nil || want != "" {
			t.Errorf("%q: %v, not told of %q", text, err, want)
		}
	}
}

// A log or a record that cannot be read is an error, and not one without lines.
func TestLogsThatCannotBeRead(t *testing.T) {
	w := write(t, t.TempDir(), 0)
	w.watcher.Close()
	w.write(Stdout, "o\n")
	for _, bad := range []string{"stdout", "stderr", "order"} {
		l := NewLines(func(name string) (*os.File, error) {
			if name == bad {
				return Append(w.path(name)) // for writing only
			}
			return sys.OpenRegular(w.path(name), os.O_RDONLY)
		})
		if _, err := l.Read(t.Context(), true, func(Line) error { return nil }); !errors.Is(err, syscall.EBADF) {
			t.Errorf("%s is read: %v", bad, err)
		}
		_ = l.Close()
	}
}

// A look that finds nothing new writes no record.
func TestNothingIsRecordedOfNothing(t *testing.T) {
	o := order{path: filepath.Join(t.TempDir(), "order")}
	o.note(time.UnixMicro(7), true)
	if _, err := os.Stat(o.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a record: %v", err)
	}
}

// Reading reports that there was something where the last part of it was nothing.
func TestReadingReportsThatThereWasSomething(t *testing.T) {
	for _, stream := range []int{Stdout, Stderr} {
		w := write(t, t.TempDir(), 0)
		w.watcher.Close()
		l := w.lines()
		defer l.Close()
		ignore := func(Line) error { return nil }
		if more, err := l.Read(t.Context(), true, ignore); more || err != nil {
			t.Errorf("stream %d is empty: %v, %v", stream, more, err)
		}
		w.write(stream, "text\n")
		if more, err := l.Read(t.Context(), true, ignore); !more || err != nil {
			t.Errorf("stream %d has a line: %v, %v", stream, more, err)
		}
		w.write(stream, "more\n") // all of which the record has
		if err := os.WriteFile(w.path("order"), Growth{Stream: stream, End: 10, At: time.Unix(7, 0)}.append(nil), 0o600); err != nil {
			t.Fatal(err)
		}
		if more, err := l.Read(t.Context(), true, ignore); !more || err != nil {
			t.Errorf("stream %d has a recorded line: %v, %v", stream, more, err)
		}
		if more, err := l.Read(t.Context(), true, ignore); more || err != nil {
			t.Errorf("stream %d has no other: %v, %v", stream, more, err)
		}
	}
}

// Where one stream alone grew it is recorded at once, though there may have been writes
// that nobody reported.
func TestOneStreamAloneIsRecordedAtOnce(t *testing.T) {
	for s := range streams {
		o := order{path: filepath.Join(t.TempDir(), "order")}
		o.now[s] = 5
		o.note(time.UnixMicro(7), false)
		if o.out == nil {
			t.Errorf("stream %d is not recorded", s)
			continue
		}
		if err := o.out.log.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(o.path); err != nil || string(b) != fmt.Sprintf("%d 5 7\n", s+1) {
			t.Errorf("stream %d: %q, %v", s, b, err)
		}
	}
}

// Who wants the last lines gets those in their order, and of each log not one
// that stands before them: however long lines are, where the log was cut, and
// with a line that has no end yet.
func TestLastLines(t *testing.T) {
	for _, most := range []int64{0, 16 << 10} {
		w := write(t, t.TempDir(), most)
		for n := range 400 {
			w.write(n%3%2, line(n*n%1500))
			if n%50 == 0 {
				w.write(Stderr, strings.Repeat("y", 3*bufferSize/2)+"\n")
			}
		}
		w.watcher.Close()
		w.write(Stdout, "no end")
		read := func(n int) (lines []string, of [streams]int) {
			l := w.lines()
			l.Last(n)
			add := func(l Line) error {
				lines, of[l.Stream] = append(lines, fmt.Sprintf("%d %v %s", l.Stream, l.At, l.Text)), of[l.Stream]+1
				return nil
			}
			if _, err := l.Read(t.Context(), true, add); err != nil {
				t.Fatal(err)
			}
			if err := l.End(add); err != nil {
				t.Fatal(err)
			}
			return lines, of
		}
		all, has := read(0)
		for _, n := range []int{1, 2, 7, 100, 250, 1000} {
			got, of := read(n)
			if want := all[max(0, len(all)-n):]; len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
				t.Errorf("bound %d: the last %d are %q", most, n, got[max(0, len(got)-n):])
			}
			for s := range of {
				if of[s] > n+1 || of[s] < min(n, has[s]) { // one more where the last has no end
					t.Errorf("bound %d: for the last %d of %v, %v were read", most, n, has, of)
				}
			}
		}
	}
}

package joblog

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

var errOpen, errStop = errors.New("disk on fire"), errors.New("enough")

// faults are the ways in which a file can fail: it cannot be opened, not be read, or not be looked at.
func faults(path string) map[string]func() (*os.File, error) {
	return map[string]func() (*os.File, error){
		"open": func() (*os.File, error) { return nil, errOpen },
		"read": func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY, 0) },
		"stat": func() (*os.File, error) {
			f, err := os.Open(path)
			return f, errors.Join(err, f.Close())
		},
	}
}

// Whichever file fails, and however it does, a reader of lines says so or reads them all.
func TestWhicheverFileFailsAReaderSaysSo(t *testing.T) {
	w := write(t, t.TempDir(), 0)
	w.write(Stdout, "1\n2\n")
	w.write(Stderr, "3\n")
	w.write(Stdout, "4\nthe rest")
	w.watcher.Close()
	read := func(l *Lines, await bool) (string, error) {
		var all strings.Builder
		say := func(line Line) error { _, err := all.WriteString(string(line.Text) + "\n"); return err }
		l.Last(9)
		var err error
		if await {
			err = l.Await(t.Context(), time.Minute)
		}
		if err == nil {
			_, err = l.Read(t.Context(), true, say)
		}
		for _, line := range l.Unended() {
			all.WriteString("(" + string(line.Text) + ") ")
		}
		err = errors.Join(err, l.End(say))
		return all.String(), err
	}
	for _, how := range []string{"open", "read", "stat"} {
		calls := 0
		open := func(at int) func(string) (*os.File, error) {
			calls = 0
			return func(name string) (*os.File, error) {
				if calls++; calls == at {
					return faults(w.path(name))[how]()
				}
				return sys.OpenRegular(w.path(name), os.O_RDONLY)
			}
		}
		for _, await := range []bool{true, false} {
			want, err := read(NewLines(open(0)), await)
			n := calls
			if err != nil || strings.Count(want, "\n") != 5 || !strings.Contains(want, "(the rest)") || n < 3 {
				t.Fatalf("%q, %v after %d calls", want, err, n)
			}
			for k := 1; k <= n; k++ {
				if got, err := read(NewLines(open(k)), await); err == nil && got != want {
					t.Errorf("%s of file %d of %d fails: %q, want %q", how, k, n, got, want)
				}
			}
		}
		copied := func(at int) (string, error) {
			var out strings.Builder
			of := open(at)
			_, err := NewFile(func() (*os.File, error) { return of("stdout") }).CopyTo(t.Context(), &out)
			return out.String(), err
		}
		want, err := copied(0)
		n := calls
		if err != nil || want != "1\n2\n4\nthe rest" {
			t.Fatalf("%q, %v", want, err)
		}
		for k := 1; k <= n; k++ {
			if got, err := copied(k); err == nil && got != want {
				t.Errorf("%s of file %d of %d fails: %q is copied", how, k, n, got)
			}
		}
	}
}

// full is a file system without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errStop }

// Reading ends where whoever is told of the lines has had enough, or where it is called off.
func TestReadingEndsWhereItIsToEnd(t *testing.T) {
	w := write(t, t.TempDir(), 0)
	w.write(Stdout, "1\n2\n")
	w.write(Stderr, "3\n4")
	w.watcher.Close()
	const lines = 4
	for n := 1; n <= lines; n++ {
		told, l := 0, w.lines()
		until := func(Line) error {
			if told++; told == n {
				return errStop
			}
			return nil
		}
		_, err := l.Read(t.Context(), true, until)
		if err == nil {
			err = l.End(until)
		}
		if !errors.Is(err, errStop) || told != n {
			t.Errorf("after %d of %d lines: %v, of %d lines was told", n, lines, err, told)
		}
		l.Close()
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	l := w.lines()
	defer l.Close()
	if _, err := l.Read(gone, true, func(Line) error { t.Error("told of a line"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
	file := func() *File { return NewFile(func() (*os.File, error) { return os.Open(w.path("stdout")) }) }
	if _, err := file().CopyTo(gone, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("a copy that is called off: %v", err)
	}
	if _, err := file().CopyTo(t.Context(), full{}); !errors.Is(err, errStop) {
		t.Errorf("a copy to where no room is: %v", err)
	}
}

package joblog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// watchOnly is WatchBoth for any logs, without the record of their order.
func watchOnly(most int64, logs ...*os.File) *Watcher {
	w := &Watcher{most: most}
	for _, f := range logs {
		w.logs = append(w.logs, &boundedLog{log: f})
	}
	w.begin()
	return w
}

// places are directories on the file systems at hand: one may be able to cut
// the beginning of a file out, another only to leave a hole.
func places(t *testing.T) map[string]string {
	out := map[string]string{"disk": t.TempDir()}
	if shm, err := os.MkdirTemp("/dev/shm", "joblog"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(shm) })
		out["memory"] = shm
	}
	return out
}

// openBoth opens a log as its command has it, and to cut.
func openBoth(t *testing.T, dir string) (log, file *os.File) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	file, err = Reopen(log)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return log, file
}

func line(n int) string { return fmt.Sprintf("line %d %s\n", n, strings.Repeat("x", n%90)) }

// check asserts that the log is the end of what lines up to last were written:
// a mark that says exactly what is missing, and then every byte.
func check(t *testing.T, f *os.File, last int) {
	t.Helper()
	h, err := begin(f)
	start, dropped := h.Start, h.Dropped
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, start, info.Size()-start))
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for n := range last + 1 {
		all.WriteString(line(n))
	}
	if dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	want := all.Bytes()[dropped:]
	if len(b) != len(want) {
		t.Fatalf("%d bytes are left of %d after %d were dropped", len(b), all.Len(), dropped)
	}
	m := len(mark(dropped))
	if !bytes.Equal(b[m:], want[m:]) || string(b[:m]) != string(mark(dropped)) {
		t.Fatalf("the log begins with %q", b[:min(len(b), 200)])
	}
}

// Nothing is lost that is appended while the beginning is cut, and a mark says
// how much was cut.
func TestCapLosesNothingButTheOldest(t *testing.T) {
	for name, dir := range places(t) {
		t.Run(name, func(t *testing.T) {
			log, file := openBoth(t, dir)
			const most, last = 64 << 10, 60_000
			done := make(chan error)
			go func() {
				var err error
				for n := 0; n <= last && err == nil; n++ {
					_, err = io.WriteString(log, line(n))
				}
				done <- err
			}()
			for writing := true; writing; {
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
					writing = false
				default:
				}
				left, err := Cap(file, most)
				if err != nil {
					t.Fatal(err)
				}
				if !writing && left > most {
					t.Errorf("%d bytes are left", left)
				}
			}
			check(t, file, last)
			info, err := file.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if room := info.Sys().(*syscall.Stat_t).Blocks * 512; room > 3*most {
				t.Errorf("the log takes %d bytes of the disk", room)
			}
		})
	}
}

// However small the bound and the log, the end stays.
func TestCapOfSmallLogs(t *testing.T) {
	for name, dir := range places(t) {
		t.Run(name, func(t *testing.T) {
			log, file := openBoth(t, dir)
			size, text := 0, ""
			for n := range 400 {
				if _, err := io.WriteString(log, line(n)); err != nil {
					t.Fatal(err)
				}
				size, text = size+len(line(n)), line(n)
				left, err := Cap(file, 1)
				if err != nil || left > 16<<10 {
					t.Fatalf("%d bytes are left: %v", left, err)
				}
				h, err := begin(file)
				start, dropped := h.Start, h.Dropped
				info, _ := file.Stat()
				if err != nil || dropped+info.Size()-start != int64(size) {
					t.Fatalf("after line %d: begins at %d, %d dropped, of %d in %d bytes: %v", n, start, dropped, size, info.Size(), err)
				}
				end := make([]byte, len(text))
				if _, err := file.ReadAt(end, info.Size()-int64(len(text))); err != nil || string(end) != text {
					t.Fatalf("the log ends with %q: %v", end, err)
				}
			}
			check(t, file, 399)
		})
	}
}

// What stands before the beginning of a log does not count as what it holds: a log
// that was cut is left alone until it has grown again.
func TestCapCutsNoMoreThanItHasTo(t *testing.T) {
	for name, dir := range places(t) {
		t.Run(name, func(t *testing.T) {
			log, file := openBoth(t, dir)
			if _, err := io.WriteString(log, strings.Repeat(line(1), 20_000)); err != nil {
				t.Fatal(err)
			}
			const most = 64 << 10
			left, err := Cap(file, most)
			if err != nil || left > most {
				t.Fatalf("%d bytes are left: %v", left, err)
			}
			was, err := begin(file)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Cap(file, left) // less than the length of a file with a hole
			if now, failed := begin(file); err != nil || failed != nil || again != left || now != was {
				t.Errorf("%d bytes of %d are left, %+v after %+v: %v, %v", again, left, now, was, err, failed)
			}
		})
	}
}

// A reader that has come to the byte where the mark begins now misses what the mark stands on.
func TestAReaderAtTheMark(t *testing.T) {
	log, file := openBoth(t, t.TempDir())
	if _, err := io.WriteString(log, strings.Repeat(line(1), 20_000)); err != nil {
		t.Fatal(err)
	}
	f := NewFile(func() (*os.File, error) { return os.Open(log.Name()) })
	defer f.Close()
	if there, err := f.open(); !there || err != nil {
		t.Fatal(there, err)
	}
	if _, err := Cap(file, 64<<10); err != nil {
		t.Fatal(err)
	}
	h, err := begin(file)
	if err != nil {
		t.Fatal(err)
	}
	for at, lost := range map[int64]bool{h.Dropped - 1: true, h.Dropped: true, h.Dropped + h.Mark - 1: true, h.Dropped + h.Mark: false} {
		f.at = at
		if b, err := f.next(h.Dropped + h.Mark + 10); err != nil || f.lost != lost || strings.HasPrefix(string(b), markBegin) != lost {
			t.Errorf("at %d of %+v: lost %v, %q, %v", at, h, f.lost, b, err)
		}
	}
}

// A log that is no larger than it may be is left alone, and so is one without
// a bound.
func TestWatcherLeavesSmallLogsAlone(t *testing.T) {
	for most, size := range map[int64]int{0: 1 << 20, 1 << 20: 1 << 20} {
		log, _ := openBoth(t, t.TempDir())
		text := strings.Repeat("y", size)
		if _, err := io.WriteString(log, text); err != nil {
			t.Fatal(err)
		}
		watchOnly(most, log).Close()
		b, err := os.ReadFile(log.Name())
		if err != nil || string(b) != text {
			t.Errorf("bound %d: %d bytes of %d: %v", most, len(b), size, err)
		}
	}
}

// Output that looks like a mark is only taken for one at the beginning of a
// log, and even then reading finds everything.
func TestMarksOfOthers(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "[vizier: ": 0, "[vizier: 12": 0, "plain\n": 0, "[vizier: -5" + markEnd: 0, "[vizier: 99999999999999999999" + markEnd: 0,
		string(mark(7)): 7, string(mark(1<<62)) + "more": 1 << 62, "x" + string(mark(7)): 0,
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := begin(f); h.Start != 0 || h.Dropped != want || err != nil {
			t.Errorf("%q: begins with %+v: %v", text, h, err)
		}
		_ = f.Close()
	}
}

// A watcher tells whether there was no room for the logs, at its end or before.
func TestWatcherOnAFullDisk(t *testing.T) {
	dir := disktest.Small(t, 64<<10)
	watch := func() (*os.File, *Watcher) {
		log, err := Append(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		return log, watchOnly(1<<20, log)
	}
	if _, w := watch(); w.Close() {
		t.Error("an empty disk is full")
	}
	for _, later := range []bool{false, true} {
		log, w := watch()
		if _, err := log.Write(make([]byte, 1<<20)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if later {
			w.turn()
			if err := os.Truncate(log.Name(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if !w.Close() {
			t.Errorf("room was made: %v; it was not seen that there was none", later)
		}
	}
}

//go:build !portable

package joblog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"golang.org/x/sys/unix"
)

// burst has f write while nobody looks, and what it wrote told of in one go.
func (w *written) burst(f func()) {
	w.t.Helper()
	if !w.watcher.notified {
		w.t.Fatal("nobody tells of writes")
	}
	n := theNotifier()
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	n.drain()
}

// Lines that two streams write in turns, as fast as they can, are read in that
// order, and so are writes of more lines than one, and of less.
func TestOrderOfTwoStreams(t *testing.T) {
	random := drawtest.Of(t)
	for _, most := range []int64{0, 1 << 20} {
		w := write(t, t.TempDir(), most)
		var want strings.Builder
		line := func(s, n int) string {
			text := fmt.Sprintf("line %d %s\n", n, strings.Repeat("x", random.IntN(100)))
			fmt.Fprintf(&want, "%d %s", s+1, text)
			return text
		}
		for burst := range 5 {
			w.burst(func() {
				for n := range 100 {
					s := random.IntN(streams)
					switch text := line(s, n); burst {
					case 1:
						w.write(s, text+line(s, n)+line(s, n))
					case 2:
						w.write(s, text[:4])
						w.write(s, text[4:])
					default:
						w.write(s, text)
					}
				}
			})
		}
		w.burst(func() { w.write(Stderr, line(Stderr, 0)+line(Stderr, 1)) })
		w.watcher.Close()
		if got := text(t, w.lines(), true); got != want.String() {
			t.Errorf("read\n%s\nwritten\n%s", got, want.String())
		}
	}
}

// Whoever stops looking after its logs leaves those of others watched, and nothing of its own.
func TestOneOfTwoWatchersCloses(t *testing.T) {
	first, second := write(t, t.TempDir(), 0), write(t, t.TempDir(), 0)
	first.watcher.Close()
	second.burst(func() { second.write(Stderr, "b\n"); second.write(Stdout, "a\n"); second.write(Stderr, "c\n") })
	n := theNotifier()
	n.mu.Lock()
	watched := map[*Watcher]int{}
	for _, at := range n.watched {
		watched[at.w]++
	}
	n.mu.Unlock()
	second.watcher.Close()
	if got, want := text(t, second.lines(), true), "2 b\n1 a\n2 c\n"; got != want || watched[first.watcher] != 0 || watched[second.watcher] != streams+1 {
		t.Errorf("%q, want %q; watches: %d and %d", got, want, watched[first.watcher], watched[second.watcher])
	}
}

// More writes than the system remembers leave their order unknown, and that of
// later ones is known again; not a line is lost or read twice.
func TestMoreWritesThanAreTold(t *testing.T) {
	w := write(t, t.TempDir(), 0)
	const flood = 20_000
	w.burst(func() {
		for n := range flood {
			w.write(n%2, "flood\n")
		}
	})
	for range 10 { // what the system remembers is read bit by bit
		w.burst(func() {})
	}
	w.burst(func() { w.write(Stderr, "b\n"); w.write(Stdout, "a\n"); w.write(Stderr, "c\n") })
	w.watcher.Close()
	got := text(t, w.lines(), true)
	if !strings.HasSuffix(got, " flood\n2 b\n1 a\n2 c\n") || strings.Count(got, "1 flood\n") != flood/2 || strings.Count(got, "2 flood\n") != flood/2 {
		t.Errorf("%d lines, the last are %q", strings.Count(got, "\n"), got[max(0, len(got)-60):])
	}
}

// A follower sees the same order as a later reader, and no line before its end
// is written.
func TestFollowersSeeTheOrder(t *testing.T) {
	w := write(t, t.TempDir(), 0)
	follower := w.lines()
	var got, want strings.Builder
	for n := range 20 {
		w.burst(func() {
			w.write(n%2, fmt.Sprintf("%d, ", n))
			w.write((n+1)%2, "whole\n")
		})
		got.WriteString(text(t, follower, false))
		w.burst(func() { w.write(n%2, "and the rest\n") })
		got.WriteString(text(t, follower, false))
		fmt.Fprintf(&want, "%d whole\n%d %d, and the rest\n", (n+1)%2+1, n%2+1, n)
	}
	w.watcher.Close()
	if afterwards := text(t, w.lines(), true); got.String() != want.String() || afterwards != want.String() {
		t.Errorf("followed\n%s\nread afterwards\n%s", got.String(), afterwards)
	}
}

// A retry's logs take the place of an attempt's, all three, while somebody
// follows.
func TestFollowingOverARotation(t *testing.T) {
	dir := t.TempDir()
	first := write(t, dir, 0)
	l := first.lines()
	first.burst(func() { first.write(Stdout, "a\n") })
	got := text(t, l, false)
	first.burst(func() { first.write(Stderr, "b\n"); first.write(Stdout, "c\n") })
	first.watcher.Close()
	for _, name := range []string{"stdout", "stderr", "order"} {
		if err := os.Rename(first.path(name), first.path(name+".1")); err != nil {
			t.Fatal(err)
		}
		if name == "stdout" {
			got += text(t, l, false)
		}
	}
	second := write(t, dir, 0)
	second.burst(func() { second.write(Stderr, "d\n"); second.write(Stdout, "e\n") })
	second.watcher.Close()
	got += text(t, l, false)
	if want := "1 a\n2 b\n1 c\n2 d\n1 e\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The record is bounded as the logs are, and readers find what is left of it.
func TestTheRecordIsBounded(t *testing.T) {
	const most, last = 16 << 10, 20_000
	w := write(t, t.TempDir(), most)
	for n := range last {
		w.write(n%2, fmt.Sprintf("%d\n", n))
	}
	w.burst(func() {})
	w.watcher.turn() // a cut is told of as writes are: none may come among those that follow
	w.burst(func() { w.write(Stderr, "b\n"); w.write(Stdout, "a\n") })
	w.watcher.Close()
	info, err := os.Stat(w.path("order"))
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(w.path("order"), &st); err != nil || st.Blocks*512 > 3*most {
		t.Errorf("the record takes %d bytes of the disk, of %d: %v", st.Blocks*512, info.Size(), err)
	}
	end := text(t, w.lines(), true)
	if !strings.HasSuffix(end, "2 b\n1 a\n") {
		t.Errorf("ends with %q", end[max(0, len(end)-60):])
	}
}

// What a command writes after the look that a record is about belongs to the next look.
func TestLinesWrittenAfterTheLook(t *testing.T) {
	w := write(t, t.TempDir(), 0)
	w.watcher.Close()
	b := &boundedLog{log: w.logs[Stdout]}
	defer func() { _ = b.file.Close() }()
	o := order{logs: [streams]*boundedLog{Stdout: b}}
	w.write(Stdout, "1\n22\n")
	o.noted[Stdout], o.now[Stdout] = 2, 5
	w.write(Stdout, "333\n4\n")
	if got := o.lineEnds(Stdout); !slices.Equal(got, []int64{5}) {
		t.Errorf("lines end at %v", got)
	}
}

// Whoever waits for the record reads the order of all that was written.
func TestAwait(t *testing.T) {
	w := write(t, t.TempDir(), 0)
	l := w.lines()
	l.Last(9)
	w.write(Stderr, "1\n")
	w.write(Stdout, "2\n")
	w.write(Stderr, "3\n")
	w.write(Stdout, "4\n")
	if err := l.Await(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, want := text(t, l, true), "2 1\n1 2\n2 3\n1 4\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := w.lines().Await(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// A record that goes on with logs of before counts what was cut from them.
func TestTheRecordCountsWhatWasCutBefore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "stdout.log")
	before := strings.Repeat("a line that will be cut\n", 5_000)
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, err := Cap(f, 16<<10); err != nil || left >= int64(len(before)) {
		t.Fatalf("%d bytes are left: %v", left, err)
	}
	w := write(t, dir, 0)
	w.write(Stdout, "last\n")
	w.watcher.Close()
	b, err := os.ReadFile(w.path("order"))
	if g, ok := parseGrowth([]byte(strings.TrimSuffix(string(b), "\n"))); err != nil || !ok || g.Stream != Stdout || g.End != int64(len(before)+5) {
		t.Errorf("%q, %v; want the end at %d", b, err, len(before)+5)
	}
}

// The line whose beginning was cut is not taken for a line, whether the last lines are asked for or all; if it is
// all that is left, it is.
func TestTheTornLineAfterAMark(t *testing.T) {
	for text, want := range map[string][]string{
		strings.Repeat("0123456789 a whole line\n", 5_000): {"", "0123456789 a whole line"},
		strings.Repeat("z", 200_000):                       {"", strings.Repeat("z", 10)},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "stdout")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Cap(f, 16<<10)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		h, _ := os.Open(path)
		head, err := begin(h)
		if err := errors.Join(err, h.Close()); err != nil {
			t.Fatal(err)
		}
		want[0] = strings.TrimSuffix(string(mark(head.Dropped)), "\n")
		for _, last := range []int{0, 1_000_000} {
			l := NewLines(func(name string) (*os.File, error) { return os.Open(filepath.Join(dir, name)) })
			l.Last(last)
			var got []string
			add := func(l Line) error {
				got = append(got, string(l.Text))
				return nil
			}
			_, err := l.Read(t.Context(), true, add)
			if err := errors.Join(err, l.End(add)); err != nil {
				t.Fatal(err)
			}
			if len(got) < 2 || got[0] != want[0] || !strings.HasPrefix(got[1], want[1]) {
				t.Errorf("%.60q", got[:min(len(got), 2)])
			}
			for _, line := range got[2:] {
				if line != want[1] {
					t.Errorf("%q", line)
				}
			}
		}
	}
}

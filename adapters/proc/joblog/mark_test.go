package joblog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A mark that is written over what a reader has read in part is read from its beginning,
// whether the log is cut already or not yet; text that only looks like a mark is text.
func TestReaderInTheMiddleOfAMark(t *testing.T) {
	t.Parallel()
	const block = 4096
	for _, c := range []struct {
		name string
		read int64 // how much was read before
		cut  bool
		want string
	}{
		{"before the mark", block, false, string(mark(block))},
		{"behind its first bytes", block + 9, false, string(mark(block))},
		{"before its last byte", block + int64(len(mark(block))) - 1, false, string(mark(block))},
		{"behind it", block + int64(len(mark(block))), false, ""},
		{"cut", block + 9, true, string(mark(block))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(strings.Repeat("x", block)+strings.Repeat("y", block)), 0o600); err != nil {
				t.Fatal(err)
			}
			log, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			f := NewFile(func() (*os.File, error) { return os.Open(path) })
			defer f.Close()
			if _, err := f.open(); err != nil {
				t.Fatal(err)
			}
			for f.at < c.read {
				if _, err := f.next(c.read); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := log.WriteAt(mark(block), block); err != nil {
				t.Fatal(err)
			}
			if c.cut {
				if err := drop(log, block); err != nil {
					t.Skip(err)
				}
			}
			b, err := f.next(f.at + 20) // less than a mark
			if want := c.want + strings.Repeat("y", block); err != nil || len(b) == 0 || !strings.HasPrefix(want, string(b)) {
				t.Errorf("%q, %v, want the beginning of %.80q", b, err, want)
			}
		})
	}
}

// What a command writes that looks like a mark is read as it stands.
func TestTextThatLooksLikeAMark(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	text := "a\n" + string(mark(5)) + "b\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := NewFile(func() (*os.File, error) { return os.Open(path) })
	defer f.Close()
	if _, err := f.open(); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for end := int64(7); len(got) < len(text); end += 7 {
		b, err := f.next(end)
		if err != nil || len(b) == 0 || f.lost {
			t.Fatalf("%q, then %q, %v", got, b, err)
		}
		got = append(got, b...)
	}
	if string(got) != text {
		t.Errorf("%q", got)
	}
}

// unsteady is a file to which something happens at one of its reads: before it, or to what it reads.
type unsteady struct {
	*os.File
	at     int // the number of the read
	before func()
	torn   func(p []byte, off int64)
}

func (u *unsteady) ReadAt(p []byte, off int64) (int, error) {
	u.at--
	if u.at == 0 && u.before != nil {
		u.before()
	}
	n, err := u.File.ReadAt(p, off)
	if u.at == 0 && u.torn != nil {
		u.torn(p[:n], off)
	}
	return n, err
}

// Whatever happens to a log between two reads of it, what is read is what stood there before, or
// stands there afterwards. A mark that was read half written is read again.
func TestALogThatChangesBetweenTwoReads(t *testing.T) {
	t.Parallel()
	const block = 4096
	first, second := mark(block), mark(2*block)
	x, y, z := strings.Repeat("x", block), strings.Repeat("y", block), strings.Repeat("z", block)
	markedY, markedZ := string(first)+y[len(first):], string(second)+z[len(second):]
	for _, c := range []struct {
		name  string
		begun int64 // what was read before
		file  func(path string, u *unsteady)
		want  []string // one of them is read then
	}{
		{"a mark is written", 0, func(path string, u *unsteady) { u.before = func() { overwrite(t, path, first, block) } },
			[]string{x + y + z, x + markedY + z}},
		{"it is cut", 0, func(path string, u *unsteady) {
			u.before = func() { overwrite(t, path, first, block); cutAt(t, path, block) }
		}, []string{x + y + z, x + markedY + z, markedY + z}},
		{"a mark is read half written", 0, func(path string, u *unsteady) {
			overwrite(t, path, first, block)
			u.torn = func(p []byte, off int64) {
				if from := block + 10 - off; from >= 0 && from < int64(len(p)) {
					copy(p[from:], y[:len(first)-10])
				}
			}
		}, []string{x + markedY + z}},
		{"it is cut further than to the mark that the reader is in", block + 9, func(path string, u *unsteady) {
			overwrite(t, path, first, block)
			u.before = func() { overwrite(t, path, second, 2*block); cutAt(t, path, 2*block) }
		}, []string{markedY + z, markedY + markedZ, markedZ}},
		{"it is emptied", 0, func(path string, u *unsteady) { u.before = func() { overwrite(t, path, nil, 0) } },
			[]string{x + y + z, ""}},
	} {
		for read := 1; ; read++ {
			path := filepath.Join(t.TempDir(), "log")
			overwrite(t, path, []byte(x+y+z), 0)
			f := NewFile(func() (*os.File, error) { return os.Open(path) })
			_, err := f.open()
			if err == nil && c.begun > 0 {
				_, err = f.next(c.begun)
			}
			if err != nil {
				t.Fatal(err)
			}
			u := &unsteady{File: f.file.(*os.File), at: read}
			c.file(path, u)
			f.file = u
			var got strings.Builder
			_, err = f.CopyTo(t.Context(), &got)
			f.Close()
			if err != nil || !slices.Contains(c.want, got.String()) {
				t.Errorf("%s at read %d: %v, %q", c.name, read, err, got.String())
			}
			if u.at > 0 { // there are fewer reads
				break
			}
		}
	}
}

// overwrite writes b into the file at an offset. Nothing is what empties it.
func overwrite(t *testing.T, path string, b []byte, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil && b == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(b, at)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func cutAt(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := drop(f, at); err != nil {
		t.Skip(err)
	}
}

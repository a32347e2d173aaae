package joblog

import (
	"os"
	"path/filepath"
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

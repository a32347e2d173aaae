package fs

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// If a process may only open few files, a look fails with an error or answers as always.
func TestWhereFewFilesMayBeOpenALookSaysSo(t *testing.T) {
	oneGoroutine(t)
	dir := fullStore(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for name, look := range looks() {
		ask := func(most uint64) (any, error) {
			few := limit
			few.Cur = most
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
					t.Fatal(err)
				}
			}()
			s := NewStore(dir, options())
			v, err := look(t.Context(), s)
			return v, errors.Join(err, s.Close())
		}
		want, err := ask(limit.Cur)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		refused := 0
		for most := range uint64(40) {
			v, err := ask(most)
			if err == nil && !answers(v, want) {
				t.Errorf("with %d files open: %s\n%.400s\nwant\n%.400s", most, name, fmt.Sprintf("%+v", v), fmt.Sprintf("%+v", want))
			}
			if errors.Is(err, unix.EMFILE) {
				refused++
			}
		}
		if refused == 0 {
			t.Errorf("%s: it was never refused a file", name)
		}
	}
}

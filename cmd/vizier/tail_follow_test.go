package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
)

// A follower of a log that is being cut prints every line once and in order, or
// says where some are missing.
func TestFollowOfALogThatIsCut(t *testing.T) {
	dirs := map[string]string{"disk": t.TempDir()}
	if shm, err := os.MkdirTemp("/dev/shm", "follow"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(shm) })
		dirs["memory"] = shm
	}
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "stdout.log")
			log, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			file, err := joblog.Reopen(log)
			if err != nil {
				t.Skip(err)
			}
			defer file.Close()
			const last = 100_000
			done := make(chan error)
			go func() {
				var err error
				for n := 1; n <= last && err == nil; n++ {
					if _, err = fmt.Fprintf(log, "line %06d\n", n); err == nil && n%10 == 0 {
						_, err = joblog.Cap(file, 16<<10)
					}
				}
				done <- err
			}()
			var got bytes.Buffer
			s := joblog.NewFile(func() (*os.File, error) { return os.Open(path) })
			for writing := true; writing; {
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
					writing = false
				default:
				}
				if _, err := s.CopyTo(t.Context(), &got); err != nil {
					t.Fatal(err)
				}
			}
			s.Close()
			followed(t, got.String(), last)
			got.Reset()
			s = joblog.NewFile(func() (*os.File, error) { return os.Open(path) })
			if _, err := s.CopyTo(t.Context(), &got); err != nil {
				t.Fatal(err)
			}
			s.Close()
			if !strings.HasPrefix(got.String(), "[vizier: ") {
				t.Errorf("who reads it afterwards sees %.60q first", got.String())
			}
			followed(t, got.String(), last)
		})
	}
}

// followed asserts that text has the lines up to last: no line twice, none out
// of order, and none missing but after a mark.
func followed(t *testing.T, text string, last int) {
	t.Helper()
	at, marked, marks := 0, false, 0
	for l := range strings.Lines(text) {
		if _, mark, ok := strings.Cut(l, "[vizier: "); ok && strings.HasSuffix(mark, "dropped here]\n") {
			marked, marks = true, marks+1
			continue
		}
		var n int
		if _, err := fmt.Sscanf(l, "line %06d\n", &n); err != nil || len(l) != len("line 000000\n") {
			if marked {
				continue // the rest of a line that the mark stands in
			}
			t.Fatalf("after line %d: %q", at, l)
		}
		if n != at+1 && (!marked || n <= at) {
			t.Fatalf("line %d comes after line %d", n, at)
		}
		at, marked = n, false
	}
	if at != last {
		t.Fatalf("ends with line %d of %d", at, last)
	}
	t.Logf("%d marks", marks)
}

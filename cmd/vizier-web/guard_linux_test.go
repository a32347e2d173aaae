package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Other processes of the user cannot read the memory of a process with keys.
func TestMemoryIsClosed(t *testing.T) {
	t.Cleanup(func() {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			t.Error(err)
		}
	})
	if err := guard(); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || n != 0 {
		t.Errorf("it is dumpable: %d %v", n, err)
	}
}

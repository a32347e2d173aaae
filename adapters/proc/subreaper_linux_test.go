//go:build !portable

package proc

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noSubreaper has orphans of this test go to the system's first process, though an earlier
// one ran a job in this process, as a runner does.
func noSubreaper(t *testing.T) {
	var was int32
	must(t, unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&was)), 0, 0, 0))
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0))
	t.Cleanup(func() { must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(was), 0, 0, 0)) })
}

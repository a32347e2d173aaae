//go:build !portable

package sys

import "golang.org/x/sys/unix"

// OpenBelow opens the file of that path below the open directory at. It looks up all of the
// path in one call, and follows no link. A sandbox or an old system may refuse the call.
func OpenBelow(at int, path string, flags int) (int, error) {
	return unix.Openat2(at, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
}

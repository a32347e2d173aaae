//go:build !portable

package sys

import "golang.org/x/sys/unix"

// Look queries the file system for the file called path in the directory at or,
// if path is "", for at itself. Without it, this host's cached attributes may
// be seconds old if other hosts write, and a read ends at the cached size; Look
// updates the cache. If the system does not support such a query, as in an old
// sandbox, it returns the cached attributes.
func Look(at int, path string) (Looked, error) {
	flags := unix.AT_STATX_FORCE_SYNC | unix.AT_SYMLINK_NOFOLLOW
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var st unix.Statx_t
	if err := unix.Statx(at, path, flags, unix.STATX_TYPE|unix.STATX_SIZE|unix.STATX_MTIME|unix.STATX_INO, &st); err != nil {
		return lookHere(at, path)
	}
	return Looked{uint32(st.Mode), int64(st.Size), st.Mtime.Sec*1e9 + int64(st.Mtime.Nsec), st.Ino}, nil
}

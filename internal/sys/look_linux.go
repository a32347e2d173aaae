//go:build !portable

package sys

import "golang.org/x/sys/unix"

// Look asks the file system itself for what the name in the directory at stands for, or
// for what at is where path is "". This host's memory of it may be seconds old where
// other hosts write, and a read ends at the size in that memory, which Look mends. Where
// there is no such question, as in an old sandbox, it tells what this host knows.
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

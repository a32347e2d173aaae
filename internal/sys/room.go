package sys

import "golang.org/x/sys/unix"

// leastRoom is how many bytes a few small files need.
const leastRoom = 64 << 10

// Full reports that the file system of dir has no room for another few small files, of bytes
// or of inodes. What cannot be told is not full.
func Full(dir string) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Blocks == 0 {
		return false
	}
	return int64(st.Bavail)*int64(st.Bsize) < leastRoom || st.Files > 0 && st.Ffree == 0 //nolint:unconvert // the types differ between systems
}

package sys

import "golang.org/x/sys/unix"

// Looked is the result of Look. For a symbolic link it is about the link
// itself.
type Looked struct {
	mode     uint32
	Size     int64
	Modified int64 // in nanoseconds since 1970
	Inode    uint64
}

// Regular reports whether it is a regular file.
func (l Looked) Regular() bool { return l.mode&unix.S_IFMT == unix.S_IFREG }

func lookHere(at int, path string) (Looked, error) {
	var st unix.Stat_t
	var err error
	if path == "" {
		err = unix.Fstat(at, &st)
	} else {
		err = unix.Fstatat(at, path, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return Looked{uint32(st.Mode), st.Size, st.Mtim.Nano(), st.Ino}, err
}

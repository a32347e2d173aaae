package sys

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular says that a link, a pipe, a device or a directory is in the
// place of a file.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens the regular file at path without blocking. It fails with
// ErrNotRegular for anything else, including a symbolic link. A file that flags
// create can only be accessed by the user.
func OpenRegular(path string, flags int) (*os.File, error) {
	return openRegular(path, flags|unix.O_NOFOLLOW)
}

// ReadRegular reads a file opened with OpenRegular. It fails if the file has
// more than limit bytes.
func ReadRegular(path string, limit int64) ([]byte, error) {
	return read(path, unix.O_NOFOLLOW, limit)
}

// ReadLinked is ReadRegular, but follows symbolic links. It is for files that
// people arrange as they like, such as a configuration.
func ReadLinked(path string, limit int64) ([]byte, error) { return read(path, 0, limit) }

func read(path string, flags int, limit int64) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY|flags)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return b, err
}

func openRegular(path string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		switch {
		case err == nil:
			if err := Regular(fd); err != nil {
				return nil, errors.Join(&os.PathError{Op: "open", Path: path, Err: err}, unix.Close(fd))
			}
			return os.NewFile(uintptr(fd), path), nil
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR): // a link, a pipe without a reader, a directory opened for writing
			return nil, &os.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: %w", ErrNotRegular, err)}
		case !errors.Is(err, unix.EINTR):
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// Regular returns ErrNotRegular unless fd is a regular file. It makes a
// descriptor that was opened without blocking an ordinary one.
func Regular(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotRegular
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_NONBLOCK != 0 {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&^unix.O_NONBLOCK)
	}
	return err
}

//go:build !portable

package joblog

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Reopen opens the file of log, which was opened for appending only, so that it
// can be cut.
func Reopen(log *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", log.Fd()), os.O_RDWR, 0)
}

// firstData returns the offset of the first byte of f that uses disk space.
func firstData(f source) (int64, error) {
	at, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EINVAL) { // no data, or not supported
		return 0, nil
	}
	return at, err
}

func blockSize(f *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, fmt.Errorf("log %s: %w", f.Name(), err)
	}
	return max(int64(st.Bsize), 4096), nil
}

// drop removes what is before offset at from f. It shortens the file if the
// file system can do that (ext4, xfs), and otherwise leaves a hole that uses no
// space (btrfs, tmpfs). Both are atomic for readers and appenders.
func drop(f *os.File, at int64) error {
	err := fallocate(f, unix.FALLOC_FL_COLLAPSE_RANGE, at)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = fallocate(f, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at)
	}
	if err != nil {
		return fmt.Errorf("cut log %s: %w", f.Name(), err)
	}
	return nil
}

func fallocate(f *os.File, mode uint32, length int64) error {
	for {
		if err := unix.Fallocate(int(f.Fd()), mode, 0, length); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

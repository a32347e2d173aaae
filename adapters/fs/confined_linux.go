package fs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNew renames a file unless the new name is taken.
func renameNew(d disk, from int, old string, to int, name string) error {
	err := unix.Renameat2(from, old, to, name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return linkNew(d, from, old, to, name)
	}
	return err
}

//go:build !portable

package sys

import "golang.org/x/sys/unix"

// RenameNew renames a file, relative to two open directories (unix.AT_FDCWD:
// the working directory). It fails with EEXIST if the new name is taken, and
// with errors.ErrUnsupported if the system or the file system has no such call.
func RenameNew(from int, old string, to int, name string) error {
	return unsupported(unix.Renameat2(from, old, to, name, unix.RENAME_NOREPLACE))
}

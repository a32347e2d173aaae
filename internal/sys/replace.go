package sys

import (
	"errors"
	"os"
	"path/filepath"
)

// ReplaceFile atomically replaces a file, with mode 0600: readers see the old
// content or the new. It is not synced, so after a power failure the file may
// be empty.
func ReplaceFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

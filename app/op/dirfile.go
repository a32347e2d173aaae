package op

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"syscall"
)

// writeIn writes a file below dir atomically, and through no symbolic link there. It waits for room on the disk.
func writeIn(ctx context.Context, dir, name string, data []byte, perm os.FileMode) error {
	return UntilRoom(ctx, func() error { return writeOnce(dir, name, data, perm) })
}

func writeOnce(dir, name string, data []byte, perm os.FileMode) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer root.Close()
	for end, char := range name {
		if at := name[:end]; char == '/' {
			if info, err := root.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
				return fmt.Errorf("write %s: %s is a symbolic link, and Vizier writes through none there: remove it, and bring back what git has with %s", name, path.Join(dir, at), gitIn(dir, "checkout", "HEAD", "--", at))
			}
		}
	}
	if err := root.MkdirAll(path.Dir(name), perm|perm>>2&0o111); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	aside := path.Join(path.Dir(name), "."+path.Base(name)+".tmp")
	f, err := root.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, perm) // no pipe without a reader
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if again := f.Close(); err == nil {
		err = again
	}
	if err == nil {
		err = root.Rename(aside, name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// readIn reads a regular file of a bounded size below dir. Symbolic links cannot lead it out of dir, and it does not block on a
// named pipe: a job may have made what is there.
func readIn(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", name), err)
	}
	const most = 1 << 30
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(b) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return b, err
}

// present reports whether name exists below dir.
func present(dir, name string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(name)
	return err == nil
}

// writeJSON writes v as an indented JSON document.
func writeJSON(ctx context.Context, dir, name string, v any, perm os.FileMode) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return writeIn(ctx, dir, name, append(data, '\n'), perm)
}

package op

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
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
	f, err := root.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
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

// readIn reads a file below dir. Symbolic links cannot lead it out of dir.
func readIn(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer root.Close()
	return root.ReadFile(name)
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

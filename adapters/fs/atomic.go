package fs

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Modes of everything below .vizier/jobs, whatever the umask (semantics 2,
// decision 15).
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// tempCount makes temporary names unique within the process.
var tempCount atomic.Uint64 //nolint:gochecknoglobals // a counter of the process

// tempName is a name in the directory of name that no reader looks at.
func tempName(name string) string {
	return path.Join(path.Dir(name), "."+path.Base(name)+"."+strconv.Itoa(os.Getpid())+"."+
		strconv.FormatUint(tempCount.Add(1), 36)+".tmp")
}

// writeFile replaces name whole: a reader sees the old content or the new. If
// durable, the content and the name are on the disk when it returns.
func writeFile(root *os.Root, name string, data []byte, durable bool) error {
	temp, f, err := createTemp(root, name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(root.Remove(temp)))
	}
	if durable {
		return syncDir(root, path.Dir(name))
	}
	return nil
}

// createTemp makes a new file beside name. One that is there already was left
// by a process of the same pid that was killed.
func createTemp(root *os.Root, name string) (temp string, f *os.File, err error) {
	for range 1000 {
		temp = tempName(name)
		f, err = root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if !errors.Is(err, iofs.ErrExist) {
			break
		}
	}
	return temp, f, err
}

func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readFile reads a regular file of at most limit bytes. It does not wait on a
// pipe that stands in a record's place.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that make sense", name, info.Size(), limit)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, err
	}
	return data, nil
}

// mkdirAll makes name and its parents with the mode of the store, whatever the
// umask.
func mkdirAll(root *os.Root, name string) error {
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := root.MkdirAll(name, dirMode); err != nil {
		return err
	}
	return root.Chmod(name, dirMode)
}

func ignoreMissing(err error) error {
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

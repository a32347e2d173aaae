package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// followOld is the directory, in a working tree's git directory, with copies of the files that a filter has made and that are
// to change, each under its index in diff: the filter may not be able to make them again. While it is written, it has another
// name.
const followOld = "vizier-follow-old"

// preserve makes the copies.
func (f *following) preserve(ctx context.Context) error {
	var list []byte
	for _, c := range f.diff {
		if c.old.regular() {
			list = append(append(list, c.path...), 0)
		}
	}
	if len(list) == 0 {
		return nil
	}
	out, err := f.git(ctx, f.path(followIndex), list, "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return err
	}
	filtered := map[string]bool{}
	words := strings.Split(string(out), "\x00") // path, attribute, value
	for i := 0; i+2 < len(words); i += 3 {
		filtered[words[i]] = words[i+2] != "unspecified" && words[i+2] != "unset"
	}
	if err := f.dropOld(); err != nil {
		return err
	}
	dir := f.path(followOld + ".new")
	for i, c := range f.diff {
		at, info, err := f.reach(c.path)
		if err != nil {
			return err
		}
		if !c.old.regular() || !filtered[c.path] || at != c.path || info == nil || !info.Mode().IsRegular() {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := copyNew(filepath.Join(f.w.Path, at), filepath.Join(dir, strconv.Itoa(i)), true); err != nil {
			return err
		}
	}
	if err := os.Rename(dir, f.path(followOld)); err != nil && !errors.Is(err, iofs.ErrNotExist) { // else there are none
		return err
	}
	return nil
}

// dropOld removes the copies.
func (f *following) dropOld() error {
	return errors.Join(sys.RemoveTree(f.path(followOld+".new")), sys.RemoveTree(f.path(followOld)))
}

// isOld reports whether the file of diff's entry i is as its copy.
func (f *following) isOld(i int) (bool, error) {
	was, err := sys.OpenRegular(f.path(filepath.Join(followOld, strconv.Itoa(i))), os.O_RDONLY)
	if err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	defer was.Close()
	is, err := sys.OpenRegular(filepath.Join(f.w.Path, f.diff[i].path), os.O_RDONLY)
	if errors.Is(err, sys.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer is.Close()
	return same(was, is)
}

// same reports whether two files have the same content, and may be executed alike.
func same(a, b *os.File) (bool, error) {
	var size [2]int64
	var mode [2]iofs.FileMode
	for i, f := range []*os.File{a, b} {
		info, err := f.Stat()
		if err != nil {
			return false, err
		}
		size[i], mode[i] = info.Size(), info.Mode()&0o100
	}
	if size[0] != size[1] || mode[0] != mode[1] {
		return false, nil
	}
	var part [2][1 << 16]byte
	for {
		n, err := io.ReadFull(a, part[0][:])
		m, also := io.ReadFull(b, part[1][:])
		if n != m || !bytes.Equal(part[0][:n], part[1][:m]) {
			return false, nil
		}
		for _, err := range []error{err, also} {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
}

// giveBack puts the copy of diff's entry i where nothing is, if there is one.
func (f *following) giveBack(i int) error {
	copied, path := f.path(filepath.Join(followOld, strconv.Itoa(i))), f.diff[i].path
	if there, err := exists(copied); err != nil || !there {
		return err
	}
	at, info, err := f.reach(path)
	if err != nil || info != nil && (at == path || !info.IsDir()) {
		return err
	}
	to := filepath.Join(f.w.Path, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	if os.Link(copied, to) == nil { // unless it is on another file system
		return nil
	}
	return copyNew(copied, to, false)
}

// copyNew copies a file to a path at which there is none. durable writes it to the disk.
func copyNew(from, to string, durable bool) error {
	src, err := sys.OpenRegular(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err == nil {
		err = dst.Chmod(info.Mode().Perm())
	}
	if err == nil && durable {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		err = errors.Join(err, os.Remove(to))
	}
	return err
}

package template

import (
	"bytes"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/kernel"
)

// maxSpec bounds a specification, in bytes.
const maxSpec = 1 << 20

// Spec reads a specification. A relative path is relative to the working
// directory if that is in the working tree and has the file, and otherwise to
// the tree's root.
func Spec(tree, path string) (string, error) {
	at := resolvePath(tree, path)
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxSpec:
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxSpec)
	}
	data, err := os.ReadFile(at)
	if err == nil && (!utf8.Valid(data) || bytes.ContainsRune(data, 0)) {
		return "", fmt.Errorf("%s is not UTF-8 text", path)
	}
	return string(data), err
}

// resolvePath returns the absolute path of a file that a person names. A relative
// path is relative to the working directory if that is in root and has the
// file, and otherwise to root.
func resolvePath(root, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if here, err := os.Getwd(); err == nil {
		if _, in := within(root, here); in {
			if at := filepath.Join(here, path); exists(at) {
				return at
			}
		}
	}
	return filepath.Join(root, path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// SpecFile is a file with a specification.
type SpecFile struct {
	File string // path relative to the working tree, with slashes
	Stem string // path relative to the directory asked for, without the extension
}

// Specs returns the Markdown files below a directory of the working tree, which is found as Spec finds a file,
// sorted by path. A symbolic link is an error, since it may lead anywhere.
func Specs(tree, dir string) ([]SpecFile, error) {
	at := resolvePath(tree, dir)
	if rel, err := filepath.Rel(tree, at); err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("outside the repository: %w", kernel.ErrInvalid)
	}
	if info, err := os.Stat(at); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("it is no directory: %w", kernel.ErrInvalid)
	}
	var out []SpecFile
	err := filepath.WalkDir(at, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, _ := filepath.Rel(tree, path) // it is below tree, and below at
		ext := filepath.Ext(path)
		switch {
		case d.Type()&iofs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link", filepath.ToSlash(file))
		case !d.Type().IsRegular() || !strings.EqualFold(ext, ".md"):
			return nil
		}
		stem, _ := filepath.Rel(at, strings.TrimSuffix(path, ext))
		out = append(out, SpecFile{filepath.ToSlash(file), stem})
		return nil
	})
	if err == nil && len(out) == 0 {
		err = errors.New("no .md file is in it")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, kernel.ErrInvalid)
	}
	slices.SortFunc(out, func(a, b SpecFile) int { return strings.Compare(a.File, b.File) })
	return out, nil
}

package fs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// asideDir is where a repair puts what stood in the place of a file. Nothing there is ever read.
const asideDir = "jobs/aside"

// fixedFile is a file that every command needs if it is there.
type fixedFile struct {
	path string
	next string // what to do about something else in its place; "": it can be moved aside, since the file can be made anew
	link bool   // a symbolic link there is in order
}

func fixedFiles() []fixedFile {
	const only = "no other file has what it held: put the file back there"
	return []fixedFile{
		{path: homeFile, next: "it says whose the store is: look at the store, and if it is yours run `vizier doctor --adopt`, which moves that aside"},
		{path: plansFile, next: only}, {path: quarantineFile, next: only},
		{path: lockFile}, {path: markFile}, {path: numberFile}, {path: hostFile, link: true}, {path: turnFile, link: true},
	}
}

var errMisplaced = errors.New("is in the place of the file")

const setAsideNext = "run `vizier doctor --fix`, which moves it aside"

// inPlaceOf returns what is in the place of the file at path; "": the file, or nothing.
func (d dir) inPlaceOf(path string) (what string) {
	_ = d.in(path, func(d dir, name string) error {
		st, err := d.disk.stat(d.fd, name)
		if err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
		case unix.S_IFDIR:
			what = "a directory"
		case unix.S_IFLNK:
			what = "a symbolic link, which Vizier does not follow,"
		default:
			what = "a pipe or a device"
		}
		return nil
	})
	return what
}

// inPlaceOfFixed returns what is in the place of f; "": f, or nothing.
func (d dir) inPlaceOfFixed(f fixedFile) string {
	if f.link && d.isLink(f.path) {
		return ""
	}
	return d.inPlaceOf(f.path)
}

// InPlaceOfResidentFile returns, in words, that something else is in the place of the resident scheduler's lock, so that
// none can start; "": nothing is.
func (s *Store) InPlaceOfResidentFile() string {
	if s.open(false) != nil {
		return ""
	}
	what := s.base.inPlaceOf(residentFile)
	if what != "" {
		what += " " + errMisplaced.Error() + " " + vizierDir + "/" + residentFile
	}
	return what
}

// obstruction returns err, with what is in the place of a file that every command needs, if
// something is.
func (s *Store) obstruction(err error) error {
	if err == nil || s.base == nil || errors.Is(err, errMisplaced) {
		return err
	}
	for _, f := range fixedFiles() {
		if what := s.base.inPlaceOfFixed(f); what != "" {
			next := f.next
			if next == "" {
				next = setAsideNext
			}
			return fmt.Errorf("%s: %s %w: %s (%w)", s.abs(f.path), what, errMisplaced, next, err)
		}
	}
	return err
}

// Misplaced reports what is in the place of files that every command needs. It takes no lock,
// since the lock's file may be one of them.
func (s *Store) Misplaced(ctx context.Context) (out []Oddity) {
	if s.open(false) != nil {
		return nil // there is no store, or whoever opens it is told
	}
	for _, f := range fixedFiles() {
		what := s.base.inPlaceOfFixed(f)
		if what == "" {
			continue
		}
		odd := Oddity{Path: vizierDir + "/" + f.path, Text: what + " " + errMisplaced.Error() + ", and stops every command", Next: f.next}
		if f.next == "" {
			odd.Fix = func() error { return s.clearPlace(ctx, f) }
		}
		out = append(out, odd)
	}
	return out
}

// clearPlace moves aside what is in the place of f. It leaves a store alone that may
// be somebody else's.
func (s *Store) clearPlace(ctx context.Context, f fixedFile) error {
	if err := s.Foreign(ctx); err != nil {
		return err
	}
	if f.path != lockFile {
		unlock, err := s.take(ctx, lockExclusive)
		if err != nil {
			return err
		}
		defer func() { _ = unlock() }()
	}
	if s.base.inPlaceOfFixed(f) == "" { // another process was first
		return nil
	}
	return s.setAside(f.path)
}

// setAside moves what is at name into asideDir. It follows no link and removes nothing.
func (s *Store) setAside(name string) error {
	aside, err := s.base.make(asideDir)
	if err != nil {
		return err
	}
	defer aside.close()
	stem := strings.ReplaceAll(strings.TrimPrefix(name, jobsDir+"/"), "/", ".")
	for n := 1; ; n++ {
		to := stem + "." + strconv.Itoa(n)
		if taken, err := aside.exists(to); err != nil {
			return err
		} else if taken {
			continue
		}
		return s.base.in(name, func(d dir, last string) error {
			return failed("move aside", filepath.Join(vizierDir, name), d.disk.rename(d.fd, last, aside.fd, to))
		})
	}
}

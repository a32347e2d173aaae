package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The age from which a temporary file is stale: if its writer is gone, and in any
// case. The writer may seem to be gone because it is in a container that shares
// the store, so that alone is not enough.
const (
	staleOfTheDead = time.Minute
	stale          = time.Hour
)

// DropTemporary removes the temporary files that killed processes left: those
// older than a minute whose writers are gone, and all that are older than an hour.
// What a job keeps for its next attempt stays, whatever its name. It returns how many
// there were.
func (s *Store) DropTemporary() (int, error) {
	if err := s.open(false); err != nil {
		return 0, ignoreMissing(err)
	}
	dropped := 0
	for _, name := range []string{jobsDir, planStatesDir, sentinelsDir} {
		d, err := s.base.open(name)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = d.sweep(&dropped)
			d.close()
		}
		if err != nil {
			return dropped, fmt.Errorf("remove temporary files: %s: %w", s.abs(name), err)
		}
	}
	return dropped, nil
}

// sweep removes the stale temporary files in d and below it.
func (d dir) sweep(dropped *int) error {
	f, err := d.file(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.IsDir() && e.Name() == checkpointDir: // a job's own: Vizier writes no file there
		case e.IsDir():
			below, err := d.open(e.Name())
			if ignoreMissing(err) == nil && err != nil {
				continue // it was removed meanwhile
			}
			if err == nil {
				err = below.sweep(dropped)
				below.close()
			}
			if err != nil {
				return err
			}
		case e.Type().IsRegular() && d.stale(e.Name()):
			if err := d.remove(e.Name()); err != nil {
				return err
			}
			*dropped++
		}
	}
	return nil
}

// stale reports that name is a temporary file that nobody is going to rename.
func (d dir) stale(name string) bool {
	inner, ok := strings.CutSuffix(name, ".tmp")
	if !ok || !strings.HasPrefix(name, ".") {
		return false
	}
	st, err := d.disk.stat(d.fd, name)
	if err != nil {
		return false
	}
	age := time.Since(time.Unix(st.Mtim.Unix()))
	parts := strings.Split(inner, ".") // "", the name's parts, pid, number
	if len(parts) < 4 {
		return age > stale
	}
	writer, err := strconv.Atoi(parts[len(parts)-2])
	gone := err == nil && writer > 0 && errors.Is(unix.Kill(writer, 0), unix.ESRCH)
	return age > stale || gone && age > staleOfTheDead
}

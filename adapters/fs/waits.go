package fs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// HoldWait notes that a command in the running job id waits for the ends of others, until the result is closed or the process
// has ended. It is an error if the job has such a note already.
func (s *Store) HoldWait(id kernel.JobID, others []kernel.JobID) (io.Closer, error) {
	if err := s.open(false); err != nil {
		return nil, err
	}
	name := jobPath(id, waitName)
	f, err := s.base.file(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("note what job %s waits for: %w", id, err)
	}
	var text strings.Builder
	for _, o := range others {
		text.WriteString(string(o) + "\n")
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(text.String()), 0)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("note what job %s waits for: %w", id, errors.Join(err, f.Close()))
	}
	return waiting{f, func() error { return s.base.remove(name) }}, nil
}

type waiting struct {
	*os.File
	remove func() error
}

// Close ends the note.
func (w waiting) Close() error { return errors.Join(w.remove(), w.File.Close()) }

// WaitsOf returns the jobs whose ends a command in the running job id waits for, as far as is noted.
func (s *Store) WaitsOf(id kernel.JobID) ([]kernel.JobID, error) {
	if err := s.open(false); err != nil {
		return nil, ignoreMissing(err)
	}
	f, err := s.base.file(jobPath(id, waitName), os.O_RDONLY)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, err // nobody holds it any more
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecord))
	var others []kernel.JobID
	for word := range strings.FieldsSeq(string(text)) {
		if id := kernel.JobID(word); kernel.ValidJobID(word) {
			others = append(others, id)
		}
	}
	return others, err
}

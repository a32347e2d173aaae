package fs

import (
	"errors"
	iofs "io/fs"
	"os"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// TracesFailed returns why and when the last export of spans failed; a zero time: it did not.
func (s *Store) TracesFailed() (why string, at time.Time) {
	info, err := os.Lstat(s.abs(tracesFile))
	if err != nil {
		return "", time.Time{}
	}
	b, _ := sys.ReadRegular(s.abs(tracesFile), maxRecord)
	return string(b), info.ModTime()
}

// NoteTraces records for TracesFailed how the last export failed; nil: it did not.
func (s *Store) NoteTraces(err error) error {
	if err != nil {
		return sys.ReplaceFile(s.abs(tracesFile), []byte(err.Error()))
	}
	if err := os.Remove(s.abs(tracesFile)); !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	return nil
}

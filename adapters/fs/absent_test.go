package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Where there is no store, looking for one makes none.
func TestLookingMakesNoStore(t *testing.T) {
	tok := custom("t", "k")
	for name, look := range map[string]func(*Store) error{
		"a job":      func(s *Store) error { _, err := s.Job(id(1)); return err },
		"jobs":       func(s *Store) error { _, err := s.Read(context.Background(), kernel.Scope{All: true}); return err },
		"ids":        func(s *Store) error { _, err := s.IDs(); return err },
		"an outcome": func(s *Store) error { return s.Conclude(someResult(id(1))) },
		"a payload":  func(s *Store) error { _, err := s.Payload(id(1), tok); return err },
		"a run":      func(s *Store) error { _, err := s.Run(kernel.RunID("run_" + id(1))); return err },
		"hooks":      func(s *Store) error { _, err := s.Pending(); return err },
		"producers":  func(s *Store) error { _, err := s.Producers(&kernel.Job{}, tok); return err },
		"temporary":  func(s *Store) error { _, err := s.DropTemporary(); return err },
		"attempts":   func(s *Store) error { _, err := s.Attempts(id(1)); return err },
		"an effect":  func(s *Store) error { _, err := s.Effects(id(1)); return err },
	} {
		dir := t.TempDir()
		err := look(newStore(t, dir))
		if err != nil && !errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, kernel.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%s: there is %v, %v", name, entries, err)
		}
	}
	dir := t.TempDir()
	if newStore(t, dir).HooksPending() || newStore(t, dir).Followed(kernel.RunID("run_"+id(1))) {
		t.Error("of no store")
	}
	if err := os.WriteFile(filepath.Join(dir, vizierDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newStore(t, dir).Begin(soon(t)); err == nil {
		t.Error("a file is no store")
	}
}

package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// A directory that may not be searched is what to open, not a file in it that may not exist.
func TestAConfigurationBehindAClosedDirectory(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, ".vizier")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	disktest.Owned(t, dir)
	if err := os.Chmod(at, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(at, 0o700)
	_, err := os.Open(filepath.Join(at, "config.toml"))
	if !errors.Is(err, os.ErrPermission) {
		t.Fatal(err)
	}
	e := &config.UnreadableError{Path: filepath.Join(at, "config.toml"), Err: err}
	if next := e.Next(); !strings.HasPrefix(next, "make "+at+" a directory") {
		t.Error(next)
	}
}

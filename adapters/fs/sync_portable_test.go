//go:build !linux || portable

package fs

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Before a checkpoint every file of the store is synced, and nothing else that lies there.
func TestEveryFileIsHandedOver(t *testing.T) {
	base := t.TempDir()
	want := []string{"jobs", "jobs/a", "jobs/a/attempts", "jobs/a/attempts/1.outcome.json", "jobs/a/job.json", "jobs/journal"}
	err := errors.Join(os.MkdirAll(filepath.Join(base, "jobs/a/attempts"), 0o700), os.Mkdir(filepath.Join(base, "jobs/journal"), 0o700),
		os.WriteFile(filepath.Join(base, "jobs/a/job.json"), nil, 0o600),
		os.WriteFile(filepath.Join(base, "jobs/a/attempts/1.outcome.json"), nil, 0o600),
		os.Symlink("/nowhere", filepath.Join(base, "jobs/a/link")), os.Symlink(base, filepath.Join(base, "jobs/loop")),
		syscall.Mkfifo(filepath.Join(base, "jobs/a/pipe"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	names := map[uint64]string{}
	for _, name := range want {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(base, name), &st); err != nil {
			t.Fatal(err)
		}
		names[uint64(st.Ino)] = name
	}
	root, err := openRoot(base, machine{})
	if err != nil {
		t.Fatal(err)
	}
	defer root.close()
	got := map[string]bool{}
	err = handOver(root, jobsDir, func(fd int) error {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		got[names[uint64(st.Ino)]] = true
		return err
	})
	if have := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(have, want) {
		t.Errorf("handed over: %q, %v; want %q", have, err, want)
	}
	if err := handOver(root, jobsDir, func(int) error { return unix.EIO }); !errors.Is(err, unix.EIO) {
		t.Errorf("a device that fails: %v", err)
	}
	if err := root.disk.syncAll(root.fd); err != nil { // there is no state
		t.Error(err)
	}
}

package disktest

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Owned makes the calling goroutine subject to the permissions of files until the test
// ends, also if the tests run as root: as the owner of everything at and below dir,
// which t.TempDir made.
func Owned(t testing.TB, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	if err := filepath.WalkDir(filepath.Dir(dir), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	}); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	if _, err := unix.SetfsuidRetUid(nobody); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := unix.SetfsuidRetUid(0); err != nil {
			t.Error(err) // and the thread ends with its goroutine
			return
		}
		runtime.UnlockOSThread()
	})
	if _, err := os.ReadDir(dir); err != nil {
		t.Skipf("a directory above is closed to others: %v", err)
	}
}

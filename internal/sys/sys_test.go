package sys

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A group that is gone has ended, and is no failure to end it.
func TestSignalGroup(t *testing.T) {
	cmd := exec.Command("sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := SignalGroup(cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := SignalGroup(cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v", err)
	}
}

// flock of two open files excludes them from each other, in one process too.
func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b := open(t, path), open(t, path)
	try := func(f *os.File, want bool) {
		t.Helper()
		if got, err := TryLock(f); got != want || err != nil {
			t.Errorf("%v %v, want %v", got, err, want)
		}
	}
	try(a, true)
	try(b, false)
	try(a, true) // it has it
	if err := Unlock(a); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(a.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if got, err := TryLock(b); got || err == nil {
		t.Errorf("while somebody looks for ever: %v %v", got, err)
	}
	unlocked := make(chan error)
	go func() { unlocked <- Unlock(a) }()
	try(b, true)
	if err := <-unlocked; err != nil {
		t.Error(err)
	}
	_ = b.Close()
	if _, err := TryLock(b); err == nil {
		t.Error("no error of a file that is closed")
	}
}

func TestTouch(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := Touch(path); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chtimes(path, long, long), os.Symlink("file", link), Touch(link)); err != nil {
		t.Fatal(err)
	}
	age := func() time.Duration {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return time.Since(info.ModTime())
	}
	if age() < time.Minute {
		t.Error("it follows a link")
	}
	if err := Touch(path); err != nil || age() > time.Minute {
		t.Errorf("%v, %s old", err, age())
	}
	if err := Touch(filepath.Join(dir, "no/file")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestRenameNew(t *testing.T) {
	dir := t.TempDir()
	old, name := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	if err := errors.Join(Touch(old), Touch(name)); err != nil {
		t.Fatal(err)
	}
	err := RenameNew(unix.AT_FDCWD, old, unix.AT_FDCWD, name)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the system has no such call")
	}
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto another: %v", err)
	}
	if err := errors.Join(os.Remove(name), RenameNew(unix.AT_FDCWD, old, unix.AT_FDCWD, name)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old name: %v", err)
	}
	if err := RenameNew(unix.AT_FDCWD, old, unix.AT_FDCWD, name+"2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
}

// Anything but a regular file is not opened, and opening does not block:
// otherwise this test hangs.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), []byte("text"), 0o600), os.Symlink("file", at("link")), os.Symlink("nothing", at("broken")),
		unix.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("directory"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{at("link"), at("broken"), at("pipe"), at("directory"), "/dev/zero"} {
		for _, flags := range []int{os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREATE} {
			if f, err := OpenRegular(name, flags); !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s, flags %x: %v %v", name, flags, f, err)
			}
		}
		if _, err := ReadRegular(name, 100); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(at("nothing")); err == nil {
		t.Error("a file was made where a link leads")
	}
	f, err := OpenRegular(at("file"), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %x %v: who inherits the file is not to find it so", flags, err)
	}
	if b, err := ReadLinked(at("link"), 4); err != nil || string(b) != "text" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := ReadRegular(at("file"), 3); err == nil {
		t.Error("a file that is too long was read")
	}
	if _, err := OpenRegular(at("missing"), os.O_RDONLY); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// The holder of a flock is a living process, by its id or by the file.
func TestFlocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := open(t, path)
	if ok, err := TryLock(f); !ok || err != nil {
		t.Fatal(ok, err)
	}
	own, dead := os.Getpid(), exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	if got := Flocked(path, own); got != own {
		t.Errorf("%d, want %d", got, own)
	}
	if got := Flocked(path, dead.Process.Pid); got != own && got != 0 { // 0: this system does not tell
		t.Errorf("%d, want %d", got, own)
	}
	if err := Unlock(f); err != nil {
		t.Fatal(err)
	}
	if got := Flocked(path, dead.Process.Pid); got != 0 {
		t.Errorf("%d holds a free lock", got)
	}
}

// A lock that was handed on by a process that has ended has a holder without a name.
func TestFlockedByTheDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := open(t, path)
	taker := exec.Command("flock", "3")
	taker.ExtraFiles = []*os.File{f}
	if err := taker.Run(); err != nil {
		t.Skip(err)
	}
	if ok, err := TryLock(open(t, path)); ok || err != nil {
		t.Fatal(ok, err)
	}
	if got := Flocked(path, taker.Process.Pid); got != 0 {
		t.Errorf("%d is said to hold it", got)
	}
}

//go:build !portable

package proc

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Of a resident scheduler that may open too few files, that is said.
func TestAProcessOfFewFiles(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read -r line")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	for most, want := range map[uint64]string{256: "", 255: fmt.Sprintf("the resident scheduler (pid %d) may open 255 files (`ulimit -n`), and needs 256 to start jobs", pid)} {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: 256}, nil); err != nil {
			t.Fatal(err)
		}
		if got := TightLimitOf(pid); got != want {
			t.Errorf("of %d: %q", most, got)
		}
	}
	was := heldToProcesses
	defer func() { heldToProcesses = was }()
	heldToProcesses = func(int) bool { return true }
	for most, want := range map[uint64]string{256: "", 255: fmt.Sprintf("the resident scheduler (pid %d) may have 255 processes (`ulimit -u`), and needs 256 to start jobs", pid)} {
		files, processes := unix.Rlimit{Cur: 256, Max: 256}, unix.Rlimit{Cur: most, Max: 256}
		if err := errors.Join(unix.Prlimit(pid, unix.RLIMIT_NOFILE, &files, nil), unix.Prlimit(pid, unix.RLIMIT_NPROC, &processes, nil)); err != nil {
			t.Fatal(err)
		}
		if got := TightLimitOf(pid); got != want {
			t.Errorf("of %d processes: %q", most, got)
		}
	}
	_ = in.Close()
	_ = cmd.Wait()
	if got := TightLimitOf(pid); got != "" {
		t.Errorf("of a process that has ended: %q", got)
	}
}

// What keeps a process from its work is seen from outside: too low a limit of open files, and a signal that stopped it.
func TestWhatKeepsAProcessFromItsWork(t *testing.T) {
	if why := TightLimitOf(os.Getpid()); why != "" {
		t.Skip(why)
	}
	cmd := exec.Command("/bin/sh", "-c", "ulimit -n 255 && echo && read -r line")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	defer in.Close()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	want := fmt.Sprintf("the resident scheduler (pid %d) may open 255 files (`ulimit -n`), and needs 256 to start jobs", pid)
	if got := TightLimitOf(pid); got != want {
		t.Errorf("%q", got)
	}
	if Stopped(pid) || Stopped(0) {
		t.Error("it counts as stopped")
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, %v", status, err)
	}
	if !Stopped(pid) {
		t.Error("it does not count as stopped")
	}
}

//go:build !portable

package proc

import (
	"bufio"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What this process started itself is no leftover of a command, as long as it has not forgotten it.
func TestWhatWasStartedHereIsNoLeftover(t *testing.T) {
	w := setup(t)
	cmd := exec.Command(as("bystander")[0], "bystander")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	must(t, err)
	pid, err := w.start(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	must(t, err)
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	found := func() bool {
		left, _ := w.leftoversOf(w.job.Attempt(), Identity{}).find(false)
		return slices.ContainsFunc(left, func(p process) bool { return p.pid == pid })
	}
	if found() {
		t.Error("what was started here is a leftover")
	}
	if w.forget(pid); !found() {
		t.Error("what nobody here knows of is none")
	}
}

// noSubreaper has orphans of this test go to the system's first process, though an earlier
// one ran a job in this process, as a runner does.
func noSubreaper(t *testing.T) {
	var was int32
	must(t, unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&was)), 0, 0, 0))
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0))
	t.Cleanup(func() { must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(was), 0, 0, 0)) })
}

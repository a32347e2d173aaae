//go:build !portable

package proc

import (
	"fmt"
	"os/exec"
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
		if got := FewFilesOf(pid); got != want {
			t.Errorf("of %d: %q", most, got)
		}
	}
	_ = in.Close()
	_ = cmd.Wait()
	if got := FewFilesOf(pid); got != "" {
		t.Errorf("of a process that has ended: %q", got)
	}
}

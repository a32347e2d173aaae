package sys

import (
	"errors"
	"os"
	"syscall"
)

// SignalGroup sends sig to the process group of pid. If the group is gone, it
// fails with os.ErrProcessDone, which os/exec takes for a successful end.
func SignalGroup(pid int, sig syscall.Signal) error {
	err := syscall.Kill(-pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

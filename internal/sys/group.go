package sys

import (
	"errors"
	"os"
	"syscall"
)

// SignalGroup sends sig to the process group of pid. A group that is gone is
// os.ErrProcessDone, which os/exec takes for the end that was asked for.
func SignalGroup(pid int, sig syscall.Signal) error {
	err := syscall.Kill(-pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

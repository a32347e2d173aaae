package proc

import (
	"fmt"
	"os"
	"syscall"
)

// ResidentFD is where a resident scheduler finds the lock it was started with.
const ResidentFD = inheritedFD

// StartResident starts this program as `__resident`, in a session of its own,
// with lock as descriptor ResidentFD. It is no part of the job that the caller
// may run in: what ends the leftovers of a job leaves it alone, as it does
// runners.
func (l *Local) StartResident(lock *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("start the resident scheduler: %w", err)
	}
	defer null.Close()
	var p *os.Process
	_, err = l.start(func() (int, error) {
		p, err = os.StartProcess(l.Exe, append(l.program(), "__resident"), &os.ProcAttr{
			Dir:   l.Root,
			Env:   environment([]string{envRunner + "=resident"}, os.Environ()...),
			Files: []*os.File{null, null, null, lock},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			return 0, err
		}
		return p.Pid, nil
	})
	if err != nil {
		return fmt.Errorf("start the resident scheduler: %w", err)
	}
	go func() {
		_, _ = p.Wait()
		l.forget(p.Pid)
	}()
	return nil
}

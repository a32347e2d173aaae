package proc

import (
	"errors"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A command that the system cannot start for now is started again; one that it will never start has failed.
func TestWhatASystemRefuses(t *testing.T) {
	c := command{args: []string{"make"}}
	for errno, want := range map[syscall.Errno]bool{
		syscall.EAGAIN: true, syscall.ENOMEM: true, syscall.EMFILE: true, syscall.ENFILE: true,
		syscall.ENOENT: false, syscall.EINVAL: false, syscall.EACCES: false, syscall.ENOEXEC: false, syscall.E2BIG: false,
	} {
		r := notStarted(c.execError(errno))
		if r.Refused != want || r.Exit != 126 || r.Class != kernel.LaunchFailure {
			t.Errorf("%s: %+v", errno, r)
		}
	}
	if r := notStarted(errors.Join(errors.New("log"), syscall.EMFILE)); !r.Refused {
		t.Errorf("%+v", r)
	}
}

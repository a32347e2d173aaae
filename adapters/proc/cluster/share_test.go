package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What a file system lacks is said in words, before there is a job that would need it.
func TestAFileSystemThatWillNotDo(t *testing.T) {
	no := func(errno syscall.Errno) func(string, string) error {
		return func(from, _ string) error { return &os.PathError{Op: "link", Path: from, Err: errno} }
	}
	for want, change := range map[string]func(*share){
		"has no hard links (link ":           func(s *share) { s.makeOnce = no(syscall.ENOSYS) },
		"is given to a second file (<nil>)":  func(s *share) { s.makeOnce = os.Rename },
		"does not replace a file by rename:": func(s *share) { s.replace = no(syscall.EPERM) },
		"flock does not work on the file system of ": func(s *share) {
			s.lock = func(string) (*os.File, error) { return nil, syscall.ENOLCK }
		},
	} {
		own := ownShare
		change(&ownShare)
		f := newFakeCluster(t, takes("7"))
		err := f.Accepts(nil)
		ownShare = own
		if !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), "executor c cannot be used here: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	f := newFakeCluster(t, takes("7"))
	if err := f.Accepts(nil); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(f.Files.ClusterDir() + "/try-*"); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	defer func(own share) { ownShare = own }(ownShare)
	ownShare.makeOnce = no(syscall.ENOSYS)
	if err := f.Accepts(nil); err != nil {
		t.Errorf("it is tried again: %v", err)
	}
}

package fs

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Each way to sync asks the system, which has nothing to sync where no file is open. The tests of power cuts have
// a disk of their own in its place.
func TestSyncsReachTheSystem(t *testing.T) {
	t.Parallel()
	for name, sync := range map[string]func(int) error{"sync": machine{}.sync, "syncData": machine{}.syncData, "syncAll": machine{}.syncAll} {
		if err := sync(-1); !errors.Is(err, unix.EBADF) {
			t.Errorf("%s of no file: %v", name, err)
		}
	}
}

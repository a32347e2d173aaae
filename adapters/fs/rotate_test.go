package fs

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Logs of so many attempts are kept, and the one before them is removed.
func TestOldLogsAreRemoved(t *testing.T) {
	for _, c := range []struct{ attempt, keep, gone int }{{1, 2, 0}, {2, 2, 0}, {3, 2, 1}, {5, 2, 3}, {5, 0, 0}} {
		o := options()
		o.KeepLogs = c.keep
		removed := map[string]bool{}
		for _, op := range newStoreWith(t, t.TempDir(), o).rotate(kernel.AttemptID{Job: id(1), N: c.attempt}) {
			if op.kind == opRemove {
				removed[op.path] = true
			}
		}
		if c.gone == 0 && len(removed) == 0 {
			continue
		}
		if len(removed) != 3 || !removed[rotatedLog(id(1), "stdout", c.gone)] {
			t.Errorf("attempt %d, %d kept: removes %v", c.attempt, c.keep, removed)
		}
	}
}

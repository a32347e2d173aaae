package fs

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A process follows what others changed only where a Load would not bring or
// leave out other jobs: not after a removal, and not after the rewind of a job
// that had ended, since what that refers to may be in the archive.
func TestChangesOfOtherProcesses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change kernel.Action
		told   bool
	}{
		{"an open job", put(plain(1), func(st *kernel.State) { st.Reason = "changed" }), true},
		{"an open job ends", put(plain(1), func(st *kernel.State) { st.Status = kernel.Failed }), true},
		{"an ended job is rewound", put(plain(2), func(st *kernel.State) { st.Status = kernel.Queued }), false},
		{"an ended job is removed", kernel.RemoveJob{Job: id(2)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			open, ended := plain(1), plain(2)
			ended.State.Status = kernel.Failed
			s := newStore(t, dir)
			commit(t, s, kernel.CreateJob{Job: open}, kernel.CreateJob{Job: ended})
			tx := begin(t, s)
			load(t, tx)
			closeTx(t, tx)
			commit(t, newStore(t, dir), c.change)
			tx = begin(t, s)
			defer closeTx(t, tx)
			changes, ok := tx.Changes()
			if ok != c.told {
				t.Fatalf("told %v, want %v", ok, c.told)
			}
			if ok && (len(changes.Jobs) != 1 || changes.Jobs[0].Rev != 2) {
				t.Errorf("changes are %+v", changes.Jobs)
			}
		})
	}
}

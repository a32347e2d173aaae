//go:build linux && !portable

package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A worktree in which something is mounted stays as it is, until it is not mounted any more.
func TestRemoveWorktreeWithAMount(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		o.tree.write("ignored/x", "")
		from, undo := disktest.Bind(t, o.tree.path("ignored"))
		if why := o.remove(kernel.CleanupFailed); !strings.Contains(why, o.tree.path("ignored")+" is mounted there and would be emptied: `umount` it, then try again") {
			t.Error(why)
		}
		o.kept()
		undo()
		o.remove(kernel.CleanupDone)
		o.gone()
		if _, err := os.Stat(filepath.Join(from, "gold")); err != nil {
			t.Error(err)
		}
	})
}

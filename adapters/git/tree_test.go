package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A change in the second in which git last looked at the file, which leaves its size as it was,
// is parked like any other. Git knows of such a change only by the time of the index.
func TestAChangeAtOnceIsParked(t *testing.T) {
	o := newOwned(t, Open)
	run := o.repo.cli.exec
	o.repo.cli.exec = func(cmd *exec.Cmd) error { // the test cannot set that time
		if at := slices.Index(cmd.Args, "core.trustctime=true"); at > 0 {
			cmd.Args[at] = "core.trustctime=false"
		}
		return run(cmd)
	}
	o.tree.write("file", "first")
	o.tree.git("commit", "--quiet", "--all", "-m", "first")
	gitDir := o.tree.git("rev-parse", "--absolute-git-dir")
	then := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(path string) {
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	at(o.tree.path("file"))
	o.tree.git("-c", "core.trustctime=false", "update-index", "--refresh")
	o.tree.write("file", "after")
	at(o.tree.path("file"))
	at(filepath.Join(gitDir, "index"))
	o.remove(kernel.CleanupDone)
	if got := o.git("show", o.saved().Ref+":file"); got != "after" {
		t.Errorf("parked %q", got)
	}
}

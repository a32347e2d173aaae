package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A link that an earlier command in the sandbox may have made is not followed
// when a path is opened. Links of the user's, outside of what jobs can write
// to, are.
func TestNoLinkOpensASandbox(t *testing.T) {
	w := setup(t, "true")
	home, disk := t.TempDir(), t.TempDir()
	cache := filepath.Join(t.TempDir(), "cache")
	for link, to := range map[string]string{filepath.Join(w.root, "out"): home, filepath.Join(disk, "sub"): home, cache: disk, filepath.Join(w.root, "in"): "jobs"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		write []string
		want  string // "": it is refused
	}{
		{[]string{"out"}, ""},
		{[]string{filepath.Join(w.root, "out")}, ""},
		{[]string{disk, filepath.Join(disk, "sub")}, ""},
		{[]string{"in"}, filepath.Join(w.root, "jobs")},
		{[]string{cache}, disk},
	} {
		w.job.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox, Write: c.write}
		p, err := w.Confine(&w.job, w.root)
		switch {
		case c.want == "" && (err == nil || !strings.Contains(err.Error(), "leads out of")):
			t.Errorf("%v: %+v, %v", c.write, p, err)
		case c.want != "" && (err != nil || !slices.Contains(p.Write, c.want)):
			t.Errorf("%v: %+v, %v", c.write, p, err)
		}
	}
}

// The programs that run outside of sandboxes are written to in none.
func TestThisProgramIsGuarded(t *testing.T) {
	w := setup(t, "true")
	w.file("vizier", "", 0o700)
	w.Exe = filepath.Join(w.root, "vizier")
	w.job.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox}
	p, err := w.Confine(&w.job, w.root)
	if err != nil || !slices.Contains(p.Guarded, w.Exe) {
		t.Errorf("%+v, %v", p, err)
	}
}

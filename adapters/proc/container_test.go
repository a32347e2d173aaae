package proc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A container sees the working tree, and what is made for the attempt before it starts; no
// path that is not there.
func TestWhatAContainerSees(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, tree := newLocal(filepath.Join(top, "root")), filepath.Join(top, "tree")
	if err := os.MkdirAll(filepath.Join(tree, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	j := &kernel.Job{ID: "0123456789abcdef0123456789abcdef", State: kernel.State{Attempt: 1}}
	j.Spec.Resumable = true
	checkpoints, tmp := l.Files.CheckpointDir(j.ID), filepath.Join(top, "tmp")
	said := filepath.Dir(l.saysIn(j).result)
	got, err := l.mounts(j, tree, tmp)
	if want := []string{said + ":" + said, tmp + ":" + tmp, tree + ":" + tree}; err != nil || !slices.Equal(got, want) {
		t.Errorf("before anything is made: %q, %v; want %q", got, err, want)
	}
	if err := os.MkdirAll(checkpoints, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err = l.mounts(j, tree, tmp); err != nil || !slices.Contains(got, checkpoints+":"+checkpoints) {
		t.Errorf("with checkpoints: %q, %v", got, err)
	}
}

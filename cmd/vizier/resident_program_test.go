package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTheResidentProgramIsItsOwn has a program of that name stand beside vizier,
// which notes that it was started and goes on as vizier.
func TestTheResidentProgramIsItsOwn(t *testing.T) {
	vizier, err := exec.LookPath("vizier")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Link(vizier, filepath.Join(bin, "vizier")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	g := newGround(t, "")
	g.write("stays", "#!/bin/sh\necho \"$@\" >>'"+g.dir+"/started'\nexec '"+bin+"/vizier' \"$@\"\n")
	stays := filepath.Join(bin, "vizier-resident")
	if err := os.Rename(filepath.Join(g.dir, "stays"), stays); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(stays, 0o755); err != nil {
		t.Fatal(err)
	}
	job := g.submit("--require", "branch_exists=there", "--", "sh", "-c", "readlink /proc/$PPID/exe")
	g.looksAfter()
	g.git("branch", "there")
	g.becomes(job, "succeeded")
	if got, err := os.ReadFile(filepath.Join(g.dir, "started")); err != nil || string(got) != "__resident\n" {
		t.Errorf("started for %q, %v; want __resident alone", got, err)
	}
	if got, err := os.ReadFile(g.layout().LogFile(job, "stdout")); err != nil || string(got) != filepath.Join(bin, "vizier")+"\n" {
		t.Errorf("the runner is %q, %v", got, err)
	}
}

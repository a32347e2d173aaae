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

// TestAnUpgradeThatRemovesTheOldProgram removes the program under a runner and the resident
// scheduler: nothing fails, and the next program's commands go on.
func TestAnUpgradeThatRemovesTheOldProgram(t *testing.T) {
	vizier, err := exec.LookPath("vizier")
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(t.TempDir(), "old")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(vizier, filepath.Join(old, "vizier")); err != nil {
		t.Fatal(err)
	}
	g := newGround(t, "")
	g.write("t.toml", `id = "t"
version = "v1"
[[nodes]]
id = "a"
kind = "shell"
uses = "cap.env.shell.command.run"
args = { script = "until test -e go; do sleep 0.05; done" }
[[nodes]]
id = "b"
kind = "shell"
uses = "cap.env.shell.command.run"
after = [{ node_id = "a" }]
args = { script = "true" }
`)
	run := g.must(filepath.Join(old, "vizier"), "run", "-q", "./t.toml")
	a, b := g.node(run, "a"), g.node(run, "b")
	g.runner(a, 1)
	later := g.submit("--require", "branch_exists=there", "--", "true")
	g.looksAfter()
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	g.eventually("the old resident scheduler is gone", func() bool { return g.resident() == 0 })
	g.write("go", "")
	g.eventually("the old runner is gone", func() bool { return len(g.processes("__shim")) == 0 })
	g.stands(a, "succeeded")
	g.stands(b, "queued")
	g.git("branch", "there")
	g.vizier("wait", string(later), string(b))
}

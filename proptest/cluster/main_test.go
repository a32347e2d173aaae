// Package cluster runs the real program against a real Slurm cluster of several
// nodes, which it starts on this machine. It kills and disturbs parts of both.
// Every test checks how the jobs end.
package cluster

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	bin    string // the program under test, with its runner beside it
	lab    string // the cluster's directory
	script string // the script that starts and stops it

	examples string     // the directory of the shipped commands for Slurm
	server   *sshServer // nil: there is none here
)

// long asks for the long form of the tests.
var long = os.Getenv("VIZIER_LONG") != ""

// atLength skips a test that waits for the cluster's time limits or time-outs, unless
// long is set.
func atLength(t *testing.T) {
	t.Helper()
	if !long {
		t.Skip("half a minute of waiting: VIZIER_LONG=1 runs it")
	}
}

// TestMain builds the program and starts the cluster. If Slurm cannot be
// installed, it says so and runs no test.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "vizier-cluster-")
	built := make(chan error, 1)
	go func() { built <- buildProgram(dir) }() // while the cluster starts
	if err == nil {
		script, err = filepath.Abs("../../scripts/slurm-cluster.sh")
	}
	if err == nil {
		examples, err = filepath.Abs("../../examples/executors/slurm")
	}
	if err == nil {
		server, err = newSSHServer(filepath.Join(dir, "ssh"))
	}
	config = slurms + engines(examples, filepath.Join(dir, "ssh")) + general
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out, err := exec.Command(script, "install").CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 3 {
		fmt.Printf("skipped: no Slurm: %s", out)
		if server != nil {
			_ = server.stop()
		}
		return
	}
	lab = filepath.Join(dir, "lab")
	if err == nil {
		out, err = exec.Command(script, "up", lab, "3").CombinedOutput()
	}
	if err = errors.Join(err, <-built); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		os.Exit(1)
	}
	os.Setenv("SLURM_CONF", filepath.Join(lab, "slurm.conf"))
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // tests wait most of the time
	code := m.Run()
	if server != nil {
		_ = server.stop()
	}
	_ = exec.Command(script, "down", lab).Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func buildProgram(dir string) error {
	bin = filepath.Join(dir, "bin", "vizier")
	build := exec.Command("go", "build", "-o", bin, "github.com/vizier-scheduler/vizier/cmd/vizier")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build vizier: %w\n%s", err, out)
	}
	return os.Link(bin, filepath.Join(dir, "bin", "vizier-runner"))
}

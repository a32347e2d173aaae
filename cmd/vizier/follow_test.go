package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// output is what a process has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// TestCtrlCDetachesFromARun interrupts the process group of `vizier run
// --follow`, as a terminal does: the command says that it lets go and how to go
// on, exits 130, and the run ends as if nothing had happened.
func TestCtrlCDetachesFromARun(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		g := newGround(t, "")
		g.write("flow.toml", `id = "flow"
version = "v1"
[[nodes]]
id = "first"
kind = "shell"
uses = "cap.env.shell.command.run"
args = { script = "touch begun; until test -e go; do sleep 0.05; done" }
on = { succeeded = ["second"] }
[[nodes]]
id = "second"
kind = "shell"
uses = "cap.env.shell.command.run"
args = { script = "touch ended" }
`)
		var out, msg output
		cmd := exec.Command("vizier", "run", "./flow.toml", "--follow", "--format", format)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = g.dir, g.env, &out, &msg
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		g.eventually("the first job runs", func() bool {
			_, err := os.Stat(g.dir + "/begun")
			return err == nil && (format == "json" || strings.Contains(out.String(), "=> running (first)"))
		})
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 130 {
			t.Fatalf("%v, want exit 130; stderr %q", err, msg.String())
		}
		has(t, msg.String(), "detached: run ", "continues", "`vizier wait ")
		if format == "json" && out.String() != "" {
			t.Errorf("half a document: %q", out.String())
		}
		_, rest, _ := strings.Cut(msg.String(), "detached: run ")
		run, _, _ := strings.Cut(rest, " ")
		first, second := g.node(run, "first"), g.node(run, "second")
		g.stands(first, "running")
		g.write("go", "")
		g.becomes(second, "succeeded")
		if _, n := g.seen(first); n != 1 {
			t.Errorf("the first job ran %d times", n)
		}
	}
}

// node returns the job of a run's node.
func (g *ground) node(run, name string) kernel.JobID {
	g.t.Helper()
	for _, line := range strings.Split(g.vizier("jobs", "show", run+"/"+name, "--fields", "job"), "\n") {
		if _, id, ok := strings.Cut(line, ":"); ok {
			return kernel.JobID(strings.TrimSpace(id))
		}
	}
	g.t.Fatalf("no job of %s/%s", run, name)
	return ""
}

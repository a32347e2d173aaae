//go:build !portable

package proc_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc"
)

// Of two processes that compute on one core, each waits for it; one that sleeps does not.
func TestWaitedForCore(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this system does not count waits: ", err)
	}
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	var one unix.CPUSet
	for i := range len(all) * 64 {
		if all.IsSet(i) {
			one.Set(i)
			break
		}
	}
	start := func(script string, pin bool) int {
		c := exec.Command("sh", "-c", script)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		if pin {
			if err := unix.SchedSetaffinity(c.Process.Pid, &one); err != nil {
				t.Fatal(err)
			}
		}
		return c.Process.Pid
	}
	const loop = "while :; do :; done"
	busy, sleeps := start(loop, true), start("exec sleep 600", false)
	start(loop, true)
	// The third may wait for a core until it sleeps, on a machine with much to do.
	asleep := false
	for begun := time.Now(); !asleep; {
		before, slept := proc.WaitedForCore(busy), proc.WaitedForCore(sleeps)
		for proc.WaitedForCore(busy)-before < 50*time.Millisecond {
			if time.Since(begun) > time.Minute {
				t.Fatalf("after a minute the one that computes has waited %s, the one that sleeps %s", proc.WaitedForCore(busy), proc.WaitedForCore(sleeps))
			}
			time.Sleep(10 * time.Millisecond)
		}
		asleep = proc.WaitedForCore(sleeps) == slept
	}
	if waited := proc.WaitedForCore(1 << 30); waited != 0 {
		t.Errorf("no process has waited %s", waited)
	}
}

func TestProgramGone(t *testing.T) {
	file := t.TempDir() + "/sleep"
	if out, err := exec.Command("cp", "/bin/sleep", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(file, "60")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	if got := proc.ProgramGone(cmd.Process.Pid); got != "" {
		t.Errorf("%s is gone", got)
	}
	must(os.WriteFile(file+".new", nil, 0o600))
	must(os.Rename(file+".new", file))
	if got := proc.ProgramGone(cmd.Process.Pid); got != "" {
		t.Errorf("%s is gone, where another one is", got)
	}
	must(os.Remove(file))
	if got := proc.ProgramGone(cmd.Process.Pid); got != file {
		t.Errorf("%q is gone, not its program", got)
	}
}

package torture

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A runner that is stopped for longer than every limit is not lost: its job stays
// running, is shown as stalled, is not started again, and ends as usual once the
// runner goes on.
func TestAStoppedRunnerIsNotLost(t *testing.T) {
	t.Parallel()
	r := newRepo(t, pairBin, leases)
	job := r.submit("--idempotent", "--lock", "db", "--", "sh", "-c", hold)
	other := r.submit("--lock", "db", "--", "true")
	r.held(1)
	p, ok := r.runnerOf(job)
	if !ok || !r.signal(p, syscall.SIGSTOP) {
		t.Fatal("no runner to stop")
	}
	r.write("release", "") // the command ends, and nobody reaps it
	r.exits(124, "jobs", "wait", "--timeout", "2500ms", job)
	if rec := r.is(job, "running", ""); rec.Attempt != 1 {
		t.Errorf("attempt %d", rec.Attempt)
	}
	for _, args := range [][]string{{"jobs", "list"}, {"jobs", "show", job}, {"jobs", "why", job}} {
		if out := r.ok(args...); !strings.Contains(out, "stalled: not heard of") {
			t.Errorf("%v does not say so:\n%s", args, out)
		}
	}
	r.is(other, "waiting_on_locks", "")
	if !r.signal(p, syscall.SIGCONT) {
		t.Fatal("the runner is gone")
	}
	r.wait(job, other)
	r.is(job, "succeeded", "")
	r.is(other, "succeeded", "")
	if got := len(r.lines("held")); got != 1 {
		t.Errorf("%d executions", got)
	}
	r.coherent()
}

// A cancel reaches a command that ignores TERM, whatever its runner's state.
func TestCancelOfWhatDoesNotWantToEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		stop bool
	}{{"the command ignores TERM", false}, {"its runner is stopped as well", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, plainBin, "[jobs]\ngrace = \"2s\"\n") // long enough for a shell on a busy machine to handle TERM
			job := r.submit("--lock", "db", "--", "sh", "-c", `trap "echo TERM >> heard" TERM; (trap "" TERM; while :; do sleep 0.05; done) & `+hold)
			r.held(1)
			if p, ok := r.runnerOf(job); c.stop && (!ok || !r.signal(p, syscall.SIGSTOP)) {
				t.Fatal("no runner to stop")
			}
			res := r.exits(0, "jobs", "cancel", job)
			if !strings.Contains(res.out, " cancelled") {
				t.Errorf("cancel says %q", res.out)
			}
			rec := r.is(job, "cancelled", "")
			if rec.ExitCode == nil || *rec.ExitCode != 143 {
				t.Errorf("exit code %v, want 143", rec.ExitCode)
			}
			if r.read(r.path("heard")) == "" {
				t.Error("the command was never asked to end")
			}
			next := r.submit("--lock", "db", "--", "true")
			r.wait(next)
			r.is(next, "succeeded", "")
			r.coherent()
		})
	}
}

// Ctrl-C ends the command that waits in the foreground, and no job.
func TestInterruptLeavesJobsRunning(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"wait", "attach"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, plainBin, "")
			// The job is submitted in the group that gets the signal, as from a shell.
			script := exec.Command("sh", "-c", `trap : INT; id=$("$0" jobs submit -- sh -c "$1") && echo $id > id && "$0" jobs `+word+` $id; echo $? > code`, r.bin, "trap 'echo hit >> hit' INT; "+hold)
			script.Dir, script.Env = r.dir, r.environ()
			script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := script.Start(); err != nil {
				t.Fatal(err)
			}
			r.held(1)
			waiting := func() bool { // the waiting command is there and catches the signal
				out, _ := exec.Command("pgrep", "-x", "-g", strconv.Itoa(script.Process.Pid), "vizier").Output()
				pid := strings.TrimSpace(string(out))
				args, _ := os.ReadFile("/proc/" + pid + "/cmdline")
				return strings.Contains(string(args), "jobs\x00"+word) && listens(pid, syscall.SIGINT)
			}
			until(t, "the command waits", waiting)
			job := r.records()[0].ID
			if err := syscall.Kill(-script.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			_ = script.Wait()
			if code := strings.TrimSpace(r.read(r.path("code"))); code != "130" {
				t.Errorf("exit %s, want 130", code)
			}
			r.is(job, "running", "")
			r.write("release", "")
			r.wait(job)
			if rec := r.is(job, "succeeded", ""); rec.Attempt != 1 || exists(r.path("hit")) {
				t.Errorf("the interrupt reached the job (attempt %d)", rec.Attempt)
			}
			r.coherent()
		})
	}
}

// listens reports whether a process catches sig.
func listens(pid string, sig syscall.Signal) bool {
	text, _ := os.ReadFile("/proc/" + pid + "/status")
	_, rest, _ := strings.Cut(string(text), "SigCgt:\t")
	word, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(word, 16, 64)
	return err == nil && mask&(1<<(uint(sig)-1)) != 0
}

// A job ends when its command does: a daemon that the command leaves behind,
// in a session of its own and with its output open, holds up nothing.
func TestADaemonIsNotLeftBehind(t *testing.T) {
	t.Parallel()
	r := newRepo(t, pairBin, "[jobs]\ngrace = \"300ms\"\n")
	job := r.submit("--lock", "db", "--", "sh", "-c",
		`setsid sh -c 'trap "" TERM; echo $$ > daemon; while :; do sleep 1; done' & until test -s daemon; do sleep 0.01; done`)
	next := r.submit("--lock", "db", "--after", job, "--", "sh", "-c", deadDaemon)
	r.wait(job, next)
	r.is(job, "succeeded", "")
	r.is(next, "succeeded", "")
	r.coherent()
}

// The same holds if a job's runner and command are both killed: a process that is in
// a session of its own is found, and ended before another job gets the lock.
func TestADaemonOfTheDeadIsSwept(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	job := r.submit("--lock", "db", "--", "sh", "-c", `setsid sh -c 'trap "" TERM; echo $$ > daemon; exec sleep 600' & `+hold)
	next := r.submit("--lock", "db", "--", "sh", "-c", deadDaemon)
	r.held(1)
	until(t, "the daemon is up", func() bool { return exists(r.path("daemon")) && r.read(r.path("daemon")) != "" })
	r.killRunner(job)
	r.wait(job, next)
	r.is(job, "failed", "worker_lost")
	r.is(next, "succeeded", "") // it found the daemon dead
	r.coherent()
}

// deadDaemon is a command that succeeds if the daemon is dead, even as a zombie.
const deadDaemon = `! readlink /proc/$(cat daemon)/exe`

package torture

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/proctest"
)

// hold is a shell command that notes its attempt, and runs until the file release
// exists.
const hold = `echo "$VIZIER_ATTEMPT $$" >> held; until test -e release; do sleep 0.02; done`

// held waits until the n-th execution of hold is under way and returns its pid.
func (r *repo) held(n int) int {
	r.t.Helper()
	var line string
	until(r.t, "execution "+strconv.Itoa(n), func() bool {
		b, _ := os.ReadFile(r.path("held"))
		all := strings.Split(string(b), "\n")
		if len(all) > n {
			line = all[n-1]
		}
		return len(all) > n
	})
	pid, _ := strconv.Atoi(strings.Fields(line)[1])
	return pid
}

// killRunner kills the runner of a job and returns when it is gone.
func (r *repo) killRunner(id string) {
	r.t.Helper()
	p, ok := r.runnerOf(id)
	if !ok || !r.signal(p, syscall.SIGKILL) {
		r.t.Fatalf("job %s has no runner to kill", id)
	}
	until(r.t, "the runner is dead", func() bool { _, alive := r.process(proctest.Look(p.pid)); return !alive })
	until(r.t, "its lock is free", func() bool { return !r.locked(id) })
}

// locked reports whether a process holds the lock of a job. The system frees the
// locks of a process a moment after it has stopped showing the process.
func (r *repo) locked(id string) bool {
	r.t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(r.jobPath(id, "job.lock"), &st); err != nil {
		r.t.Fatal(err)
	}
	held, err := os.ReadFile("/proc/locks")
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Contains(string(held), ":"+strconv.FormatUint(st.Ino, 10)+" ")
}

// A runner that is killed takes its command with it. While the job's budget lasts,
// the next command reclaims it, even one that only reads, and dependents wait. After
// that, the job has failed.
func TestALostRunnerIsReclaimedWithinItsBudget(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	job := r.submit("--idempotent", "--", "sh", "-c", hold)
	next := r.submit("--after", job, "--", "true")
	for n := 1; n <= 1+reclaims; n++ {
		r.held(n)
		r.is(next, "waiting_on_deps", "")
		r.killRunner(job)
		until(t, "whoever looks settles it", func() bool { // its last thread may take a moment to end
			r.ok("jobs", "schedule")
			rec := r.record(job)
			return rec.Attempt > n || rec.Status == "failed"
		})
	}
	if code := r.wait(job, next); code != 1 {
		t.Errorf("jobs wait: exit %d, want 1", code)
	}
	rec := r.is(job, "failed", "worker_lost")
	if rec.Attempt != 1+reclaims || rec.Reclaims != reclaims {
		t.Errorf("attempt %d after %d reclaims", rec.Attempt, rec.Reclaims)
	}
	blocked := r.is(next, "blocked_by_dependency", "")
	if want := "dependency failed for job " + job + " (failed)"; blocked.Schedule.Wait.Detail != want {
		t.Errorf("blocked: %q, want %q", blocked.Schedule.Wait.Detail, want)
	}
	if got := len(r.lines("held")); got != 1+reclaims {
		t.Errorf("%d executions, want %d", got, 1+reclaims)
	}
	r.coherent()
}

// A job is not executed a second time unless it says that this does no harm.
func TestALostJobThatMayNotRunTwice(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	job := r.submit("--lock", "db", "--", "sh", "-c", hold)
	other := r.submit("--lock", "db", "--", "true")
	r.held(1)
	r.killRunner(job)
	r.wait(job, other)
	r.is(job, "failed", "worker_lost")
	r.is(other, "succeeded", "") // the dead hold no lock
	if got := len(r.lines("held")); got != 1 {
		t.Errorf("%d executions, want 1", got)
	}
	r.coherent()
}

// A runner that dies between recording the outcome and settling the job loses
// nothing, and the job does not run again.
func TestAnOutcomeOnRecordCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ command, status string }{{"exit 0", "succeeded"}, {"exit 3", "failed"}} {
		t.Run(c.status, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, plainBin, "")
			job := r.submit("--idempotent", "--produce", "custom:a:b", "--", "sh", "-c", hold+"; "+c.command)
			next := r.submit("--need", "custom:a:b", "--", "true")
			r.held(1)
			free := r.holdLock()
			r.write("release", "")
			until(t, "the outcome is on record", func() bool { return exists(r.jobPath(job, "outcome.json")) })
			r.is(job, "running", "")
			r.killRunner(job)
			free()
			r.wait(job, next)
			if rec := r.record(job); rec.Status != c.status || rec.Attempt != 1 || len(r.lines("held")) != 1 {
				t.Errorf("%s in attempt %d after %d executions", rec.Status, rec.Attempt, len(r.lines("held")))
			}
			want := map[string]string{"succeeded": "succeeded", "failed": "blocked_by_dependency"}[c.status]
			r.is(next, want, "")
			r.coherent()
		})
	}
}

// holdLock takes the scheduler lock as another process would.
func (r *repo) holdLock() (free func()) {
	r.t.Helper()
	f, err := os.OpenFile(r.path(".vizier/jobs/scheduler.lock"), os.O_RDWR, 0)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = f.Close() })
	return func() { _ = f.Close() }
}

// A command that is killed in the middle of its transaction leaves nothing
// that the next one has to wait for.
func TestTheLockOfTheDeadIsFree(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "[scheduler]\nlock_timeout = \"1h\"\n")
	job := r.submit("--", "true")
	r.wait(job)
	free := r.holdLock()
	waiting := r.command("jobs", "submit", "--name", "waits", "--", "true")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	busy := r.command("jobs", "submit", "--", "true")
	busy.Env = append(busy.Env, "VIZIER_SCHEDULER_LOCK_TIMEOUT=50ms")
	if res := r.finish(busy); res.code != 1 || !strings.Contains(res.err, "scheduler is busy") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
	if err := waiting.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = waiting.Wait()
	free()
	last := r.submit("--", "true")
	r.wait(last)
	if all := r.records(); len(all) != 2 {
		t.Errorf("%d jobs, want 2: a command that never had the lock left a record", len(all))
	}
	r.coherent()
}

// If the pid in an attempt's claim belongs to another process by now, the attempt is
// dead, and Vizier does not signal that process.
func TestAPidThatWasUsedAgain(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	job := r.submit("--", "sh", "-c", hold)
	child := r.held(1)
	bystander := r.command()
	bystander.Path, bystander.Args = "/bin/sleep", []string{"sleep", "600"}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	runner, _ := r.runnerOf(job)
	r.killRunner(job)
	path := r.jobPath(job, "attempts/1.json")
	text := r.read(path)
	for _, pid := range []int{runner.pid, child} {
		text = strings.ReplaceAll(text, `"pid":`+strconv.Itoa(pid), `"pid":`+strconv.Itoa(bystander.Process.Pid))
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.ok("jobs", "cancel", job)
	r.is(job, "cancelled", "")
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil || stopped(bystander.Process.Pid) {
		t.Errorf("the bystander was signalled: %v", err)
	}
	r.coherent()
}

// After a reboot, no attempt runs any more. Recorded results count, attempts without
// one are lost, and no earlier pid is trusted.
func TestAReboot(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "[scheduler]\nmax_running = 4\n")
	lost := r.submit("--", "sh", "-c", hold)
	r.held(1)
	again := r.submit("--idempotent", "--after", r.submit("--", "true"), "--", "sh", "-c", hold)
	r.held(2)
	done := r.submit("--", "sh", "-c", hold)
	r.held(3)
	for _, id := range []string{lost, again, done} {
		r.killRunner(id)
	}
	outcome := `{"version": 1, "id": "` + done + `", "attempt": 1, "outcome": "succeeded", "exit_code": 0, "produced": [], "finished_at": "2026-01-01T00:00:00Z"}`
	r.write(".vizier/jobs/"+done+"/outcome.json", outcome)
	boot := strings.TrimSpace(r.read("/proc/sys/kernel/random/boot_id"))
	files, _ := filepath.Glob(r.jobPath("*", "attempts/[0-9].json"))
	for _, path := range append(files, r.path(".vizier/jobs/journal/mark")) {
		text := r.read(path)
		if !strings.Contains(text, boot) {
			t.Fatalf("%s names no boot: %s", path, text)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, boot, "00000000-0000-4000-8000-000000000000")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.write("release", "")
	r.wait(lost, again, done)
	r.is(lost, "failed", "worker_lost")
	if rec := r.is(again, "succeeded", ""); rec.Attempt != 2 {
		t.Errorf("attempt %d, want 2", rec.Attempt)
	}
	r.is(done, "succeeded", "")
	r.coherent()
}

// Files that a crash leaves beside the records are not taken for records.
func TestLeftoverFiles(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	job := r.submit("--", "true")
	r.wait(job)
	for _, name := range []string{job + "/.job.json.123.tmp", job + "/attempts/.1.json.99.tmp", ".scheduler.tmp", "journal/.index.5.tmp", "0123"} {
		r.write(".vizier/jobs/"+name, "{")
	}
	if err := os.Mkdir(r.path(".vizier/jobs/"+strings.Repeat("0", 32)), 0o700); err != nil { // a submission that was cut short
		t.Fatal(err)
	}
	next := r.submit("--after", job, "--", "true")
	if code := r.wait(next); code != 0 {
		t.Errorf("jobs wait: exit %d", code)
	}
	r.coherent()
}

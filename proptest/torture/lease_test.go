package torture

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

const leases = "[leases]\nttl = \"4s\"\nheartbeat = \"200ms\"\nstalled = \"1s\"\n[jobs]\ngrace = \"300ms\"\n"

// on returns the repository as another host sees it that shares its files.
func (r *repo) on(host string) *repo {
	other := *r
	other.env = append([]string{"VIZIER_HOST=" + host + "/boot-of-" + host}, r.env...)
	return &other
}

// U06: a runner on another host keeps its job while its heartbeats come. Without
// them, the job is taken from it. If the runner comes back then, it finds out, ends
// its command and writes nothing.
func TestAnotherHostTakesOver(t *testing.T) {
	t.Parallel()
	r := newRepo(t, pairBin, leases)
	near, far := r.on("near"), r.on("far")
	job := far.submit("--idempotent", "--", "sh", "-c", hold)
	r.held(1)
	near.exits(124, "jobs", "wait", "--timeout", "6s", job) // longer than a lease
	if rec := r.is(job, "running", ""); rec.Attempt != 1 || rec.Reclaims != 0 {
		t.Fatalf("taken from a runner that lives: %+v", rec)
	}
	p, ok := r.runnerOf(job)
	if !ok || !r.signal(p, syscall.SIGSTOP) {
		t.Fatal("no runner to stop")
	}
	until(t, "the job is taken over", func() bool {
		near.run("jobs", "wait", "--timeout", "100ms", job)
		return r.record(job).Reclaims == 1
	})
	// Here both hosts see one kernel's locks, so the next attempt cannot begin
	// beside the paused one.
	if got := len(r.lines("held")); got != 1 {
		t.Fatalf("%d executions at once", got)
	}
	if !r.signal(p, syscall.SIGCONT) {
		t.Fatal("the runner is gone")
	}
	until(t, "the command of the late attempt is ended", func() bool {
		for _, q := range r.processes() {
			if q.job == job+"/1" || q.runner == job+"/1" {
				return false
			}
		}
		return true
	})
	until(t, "a further attempt", func() bool {
		near.run("jobs", "wait", "--timeout", "100ms", job)
		return len(r.lines("held")) == 2
	})
	r.write("release", "")
	near.wait(job)
	rec := r.is(job, "succeeded", "")
	var last struct{ Attempt int }
	if err := json.Unmarshal([]byte(r.read(r.jobPath(job, "outcome.json"))), &last); err != nil || last.Attempt != rec.Attempt || rec.Attempt < 2 {
		t.Errorf("attempt %d, the outcome is of %d: %v", rec.Attempt, last.Attempt, err)
	}
	if got := len(r.lines("held")); got != 2 {
		t.Errorf("%d executions, want the lost one and one more", got)
	}
	near.coherent()
}

// A cancel given on one host reaches the runner on another with its next
// heartbeat.
func TestCancelFromAnotherHost(t *testing.T) {
	t.Parallel()
	r := newRepo(t, pairBin, leases)
	near, far := r.on("near"), r.on("far")
	job := far.submit("--", "sh", "-c", hold)
	r.held(1)
	res := near.exits(0, "jobs", "cancel", job)
	if strings.Contains(res.err, "error") {
		t.Error(res.err)
	}
	near.wait(job)
	if rec := r.is(job, "cancelled", ""); rec.ExitCode == nil || *rec.ExitCode != 143 {
		t.Errorf("exit code %v", rec.ExitCode)
	}
	near.coherent()
}

// A job that waits is not reclaimed, however long ago its last attempt was (U10).
func TestWaitingJobsAreNotReclaimed(t *testing.T) {
	t.Parallel()
	r := newRepo(t, pairBin, leases)
	near, far := r.on("near"), r.on("far")
	job := far.submit("--approval", "--", "true")
	far.ok("jobs", "approve", job)
	far.wait(job)
	far.ok("jobs", "retry", job)
	for range 3 {
		near.run("jobs", "wait", "--timeout", "1s", job)
	}
	if rec := r.is(job, "waiting_on_approval", ""); rec.Attempt != 1 || rec.Reclaims != 0 {
		t.Errorf("%+v", rec)
	}
	near.ok("jobs", "approve", job)
	near.wait(job)
	if rec := r.is(job, "succeeded", ""); rec.Attempt != 2 {
		t.Errorf("%+v", rec)
	}
	near.coherent()
}

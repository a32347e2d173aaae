package torture

import (
	"fmt"
	"sync"
	"testing"
)

// A job that waits for an approval is not reclaimed, whatever attempt of an earlier
// generation it has on record.
func TestApprovalAfterARewindIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	job := r.submit("--approval", "--idempotent", "--", "sh", "-c", hold)
	r.ok("jobs", "approve", job)
	r.held(1)
	r.killRunner(job)
	r.ok("jobs", "cancel", job)
	r.is(job, "cancelled", "")
	r.ok("jobs", "retry", job)
	r.env = []string{"VIZIER_NOW=2100-01-01T00:00:00Z"} // much later
	r.wait(r.submit("--", "true"))
	r.env = nil
	rec := r.is(job, "waiting_on_approval", "")
	if rec.Attempt != 1 || rec.Reclaims != 0 {
		t.Errorf("attempt %d, reclaims %d", rec.Attempt, rec.Reclaims)
	}
	r.write("release", "")
	r.ok("jobs", "approve", job)
	r.wait(job)
	if rec := r.is(job, "succeeded", ""); rec.Attempt != 2 {
		t.Errorf("attempt %d, want 2", rec.Attempt)
	}
	r.coherent()
}

// A stream of shared requests does not starve an exclusive one, and a job that waits
// for a pool holds up no job that does not need the pool.
func TestLocksAreGrantedInOrder(t *testing.T) {
	t.Parallel()
	r := newRepo(t, pairBin, "[scheduler]\nmax_running = 4\n[pools]\ngpu = 1\n")
	const note = `echo "$VIZIER_JOB_ID" >> order; `
	first := r.submit("--lock", "db:shared", "--pool", "gpu", "--", "sh", "-c", hold)
	r.held(1)
	exclusive := r.submit("--lock", "db", "--", "sh", "-c", note)
	var shared []string
	for range 6 {
		shared = append(shared, r.submit("--lock", "db:shared", "--", "sh", "-c", note))
	}
	gpu := r.submit("--pool", "gpu", "--", "true")
	free := r.submit("--", "true")
	if code := r.wait(free); code != 0 {
		t.Errorf("an unrelated job: exit %d", code)
	}
	rec := r.is(gpu, "waiting_on_locks", "")
	if want := "waiting on pool gpu (needs 1 of 1)"; rec.Schedule.Wait.Detail != want {
		t.Errorf("gpu waits: %q, want %q", rec.Schedule.Wait.Detail, want)
	}
	r.write("release", "")
	r.wait(append(shared, first, exclusive, gpu)...)
	if order := r.lines("order"); len(order) != 7 || order[0] != exclusive {
		t.Errorf("the exclusive request was granted after %v", order)
	}
	r.is(gpu, "succeeded", "")
	r.coherent()
}

// A rewind includes jobs downstream that have succeeded: the numbers of attempts go
// on, the earlier logs are kept, and the current ones begin empty.
func TestRewindOfASuccess(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	a := r.submit("--produce", "custom:a:a", "--", "sh", "-c", `echo a$VIZIER_ATTEMPT`)
	b := r.submit("--need", "custom:a:a", "--approval", "--", "sh", "-c", `echo b$VIZIER_ATTEMPT`)
	r.ok("jobs", "approve", b)
	r.wait(a, b)
	r.ok("jobs", "retry", a)
	r.wait(a)
	rec := r.is(b, "waiting_on_approval", "")
	if rec.Attempt != 1 || rec.Generation != 1 {
		t.Errorf("attempt %d of generation %d, want 1 of 1", rec.Attempt, rec.Generation)
	}
	if log := r.read(r.jobPath(b, "stdout.log")); log != "" {
		t.Errorf("the log of a rewound job is %q", log)
	}
	if old := r.read(r.jobPath(b, "stdout.1.log")); old != "b1\n" {
		t.Errorf("the earlier log is %q", old)
	}
	r.ok("jobs", "approve", b)
	r.wait(b)
	for id, want := range map[string]string{a: "a2\n", b: "b2\n"} {
		if rec := r.is(id, "succeeded", ""); rec.Attempt != 2 || rec.Generation != 1 || r.read(r.jobPath(id, "stdout.log")) != want {
			t.Errorf("%s: attempt %d of generation %d, log %q", id, rec.Attempt, rec.Generation, r.read(r.jobPath(id, "stdout.log")))
		}
	}
	r.coherent()
}

// A clock that steps back changes nothing in the order of existing jobs, and loses or
// holds up no job.
func TestAClockThatStepsBack(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "[scheduler]\nmax_running = 1\n")
	base := r.submit("--", "sh", "-c", hold)
	r.held(1)
	var all []string
	for day := 9; day > 0; day-- {
		r.env = []string{fmt.Sprintf("VIZIER_NOW=2020-01-%02dT00:00:00Z", day)}
		all = append(all, r.submit("--after", base, "--idempotent", "--", "sh", "-c", `echo $VIZIER_JOB_ID >> order`))
	}
	r.env = nil
	r.write("release", "")
	if code := r.wait(append(all, base)...); code != 0 {
		t.Errorf("jobs wait: exit %d", code)
	}
	order := r.lines("order") // by created_at, so the last was first
	for i, id := range order {
		if want := all[len(all)-1-i]; id != want {
			t.Errorf("place %d: %s, want %s", i, id, want)
		}
	}
	// Ids that are made while the clock is back are unique too.
	r.env = []string{"VIZIER_NOW=1999-01-01T00:00:00Z"}
	old := r.submit("--", "true")
	r.wait(old)
	r.env = nil
	r.is(old, "succeeded", "")
	r.coherent()
}

// Any number of commands may tick at once.
func TestManySchedulersAtOnce(t *testing.T) {
	t.Parallel()
	r := newRepo(t, pairBin, "[scheduler]\nmax_running = 3\n")
	root := r.submit("--", "sh", "-c", hold)
	r.held(1)
	var mu sync.Mutex
	var commands sync.WaitGroup
	made := []string{root}
	for k := range 20 {
		commands.Add(1)
		go func() {
			defer commands.Done()
			var res result
			switch k % 4 {
			case 0:
				res = r.run("jobs", "schedule")
			case 1:
				res = r.run("jobs", "wait", "--timeout", patience.String(), root)
			default:
				res = r.run("jobs", "submit", "--format", "json", "--after", root, "--", "sh", "-c", `echo "$VIZIER_JOB_ID" >> ran`)
				mu.Lock()
				made = append(made, submitted(t, res.out))
				if len(made) == 6 {
					r.write("release", "")
				}
				mu.Unlock()
			}
			if res.code != 0 {
				t.Errorf("command %d: exit %d\n%s", k, res.code, res.err)
			}
		}()
	}
	commands.Wait()
	if code := r.wait(made...); code != 0 {
		t.Errorf("jobs wait: exit %d", code)
	}
	times := map[string]int{}
	for _, id := range r.lines("ran") {
		times[id]++
	}
	for _, id := range made[1:] {
		if times[id] != 1 {
			t.Errorf("%s ran %d times", id, times[id])
		}
	}
	r.coherent()
}

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
)

// A node dies with its jobs. The daemon of another node dies while its jobs continue.
// The cluster says the same of both nodes, but only the first one's jobs are lost.
func TestNodesFail(t *testing.T) {
	atLength(t)
	r := newRepo(t)
	defer r.healthy()
	wait := "while [ ! -e $VIZIER_ROOT/go ]; do sleep 0.1; done;"
	on := func(executor, node, name string, flags ...string) string {
		return r.submit(executor, effect(name, wait), append([]string{"--option=--nodelist=" + node}, flags...)...)
	}
	lost, lostLease := on("lab", "n2", "lost"), on("leases", "n2", "lostlease")
	lives, livesLease := on("lab", "n3", "lives"), on("leases", "n3", "liveslease")
	for _, name := range []string{"lost", "lostlease", "lives", "liveslease"} {
		r.eventually(func() string {
			if r.read("effects/"+name) == "" {
				return name + " has not begun"
			}
			return ""
		})
	}
	r.slurm("orphan", "n3")
	r.slurm("lose", "n2")
	for _, id := range []string{lost, lostLease} {
		job := r.becomes(id, "failed")
		if job["failure_class"] != "worker_lost" || !strings.Contains(job["reason"], "ended without a result") {
			t.Errorf("%v", job)
		}
	}
	r.eventually(func() string { // the cluster has given n3 up as well
		if out := r.sh(`sinfo -h -n n3 -N -p main -o %T`); !strings.HasPrefix(out, "down") {
			return "n3 is " + out
		}
		return ""
	})
	for id, want := range map[string]string{lives: "but its runner lives", livesLease: "but its runner was heard of "} {
		if job := r.becomes(id, "running"); !strings.Contains(job["remark"], want) {
			t.Errorf("what show says of a runner that was given up: %q", job["remark"])
		}
	}
	r.write("go", "")
	for _, id := range []string{lives, livesLease} {
		r.becomes(id, "succeeded")
	}
	r.happened("lives")
	r.happened("liveslease")
}

// A node with a network of its own is cut off, and joined again. The cluster gives it up. Its jobs
// continue, as the files show, and their results count. Jobs for the node wait, and run once.
func TestANodeIsCutOff(t *testing.T) {
	atLength(t)
	dir, err := os.MkdirTemp("", "vizier-apart-") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	slurm := func(command string, more ...string) ([]byte, error) {
		cmd := exec.Command(script, append([]string{command, dir}, more...)...)
		cmd.Env = append(os.Environ(), "SLURM_CLUSTER_APART=n2")
		return cmd.CombinedOutput()
	}
	defer func() { _, _ = slurm("down") }()
	out, err := slurm("up", "2")
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skipf("no network for a node here: %s", out)
	}
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	r := newRepo(t)
	r.env = append(r.env, "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))
	lives := r.submit("lab", effect("lives", untilGo), "--option=--nodelist=n2")
	leased := r.submit("leases", effect("leased", untilGo), "--option=--nodelist=n2")
	r.begun("lives")
	r.begun("leased")
	if out, err := slurm("cut"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	waits := r.submit("lab", effect("waits", ""), "--option=--nodelist=n2")
	r.eventually(func() string {
		if out := r.sh(`sinfo -h -n n2 -N -p main -o %T`); !strings.HasPrefix(out, "down") {
			return "n2 is " + out
		}
		return ""
	})
	for _, id := range []string{lives, leased} {
		if job := r.job(id); job["status"] != "running" {
			t.Errorf("it is given up though it runs: %v", job)
		}
	}
	r.write("go", "")
	r.becomes(lives, "succeeded")
	r.becomes(leased, "succeeded")
	if job := r.job(waits); job["status"] != "submitted" {
		t.Errorf("%v", job)
	}
	if out, err := slurm("join"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	r.becomes(waits, "succeeded")
	for _, name := range []string{"lives", "leased", "waits"} {
		r.happened(name)
	}
}

// The controller dies and comes back while jobs are being submitted: jobs that it
// has forgotten are submitted again, and nothing runs twice.
func TestControllerDies(t *testing.T) {
	atLength(t)
	r := newRepo(t)
	defer r.slurm("head")
	const jobs = 40
	var ids []string
	for i := range jobs {
		switch i {
		case 10, 25:
			r.slurm("headless")
		case 14, 30:
			r.slurm("head")
		}
		ids = append(ids, r.submit("lab", effect(fmt.Sprint("c", i), "sleep 0.1;")))
		if i == 12 {
			r.eventually(func() string {
				if why := r.v("jobs", "why", ids[12]); !strings.Contains(why, "it cannot be asked") {
					return why
				}
				return ""
			})
		}
	}
	for i, id := range ids {
		r.becomes(id, "succeeded")
		r.happened(fmt.Sprint("c", i))
	}
}

// The sender dies just before and just after the cluster accepts an attempt.
func TestSenderDiesAroundTheSubmission(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			real, fake := r.sh("command -v sbatch"), t.TempDir()
			script := "#!/bin/sh\n>" + fake + "/killed\nkill -9 $PPID\n"
			if when == "after" {
				script = "#!/bin/sh\n" + real + " \"$@\" >" + fake + "/killed\nkill -9 $PPID\n"
			}
			if err := os.WriteFile(filepath.Join(fake, "sbatch"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			sane := r.env
			r.env = append(append([]string{}, sane...), "PATH="+fake+":"+filepath.Dir(bin)+":"+os.Getenv("PATH"))
			r.v("--no-resident", "jobs", "submit", "--executor", "lab", "--name", "x", "--", "sh", "-c", effect("x", ""))
			r.eventually(func() string {
				if _, err := os.Stat(fake + "/killed"); err != nil {
					return "nobody sends"
				}
				return ""
			})
			r.env = sane
			id := r.job("@last")["job"]
			_, _, _ = r.try("", "jobs", "wait", id)
			if job := r.becomes(id, "succeeded"); job["attempt"] != "1" {
				t.Errorf("%v", job)
			}
			r.happened("x")
			accepted := r.sh(`squeue -h -t all -o %j | grep -c ` + id)
			if accepted != "1" {
				t.Errorf("the cluster was given %s batch jobs for one attempt", accepted)
			}
		})
	}
}

// Every process that ticks is killed at random moments.
func TestSchedulerIsKilled(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	random := drawtest.Of(t)
	rounds, each := 4, 4
	if long {
		rounds = 40
	}
	for round := range rounds {
		var lines strings.Builder
		for k := range each {
			name := fmt.Sprintf("k%d-%d", round, k)
			fmt.Fprintf(&lines, `{"ref": %q, "name": %q, "executor": %q, "command": ["sh", "-c", %q]`, name, name, []string{"lab", "local", "leases", "lab"}[k], effect(name, ""))
			if k > 0 {
				fmt.Fprintf(&lines, `, "after": ["k%d-%d"]`, round, random.IntN(k))
			}
			lines.WriteString("}\n")
		}
		cmd := r.command(bin, "jobs", "submit", "--batch")
		cmd.Stdin = strings.NewReader(lines.String())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		r.killResident()
	}
	var ids []string
	r.eventually(func() string {
		_, _, _ = r.try("", "jobs", "submit", "--executor", "local", "--", "true") // something that ticks
		out := r.v("jobs", "list", "--all", "--format", "json", "--fields", "job,status,name")
		ids = nil
		for _, j := range parseList(t, out) {
			if j["status"] != "succeeded" {
				return "not yet: " + fmt.Sprint(j) + r.files(j["job"])
			}
			if strings.HasPrefix(j["name"], "k") {
				ids = append(ids, j["name"])
			}
		}
		return ""
	})
	t.Logf("%d of %d jobs were accepted", len(ids), rounds*each)
	for _, name := range ids {
		r.happened(name)
	}
	entries, _ := os.ReadDir(filepath.Join(r.dir, "effects"))
	if len(entries) != len(ids) {
		t.Errorf("%d effects of %d jobs", len(entries), len(ids))
	}
}

// Everything fails in random order while jobs of each kind run: nodes, their daemons, the controller,
// pilots and the resident scheduler. Each job ends, and nothing happens twice in one attempt.
func TestEverythingFails(t *testing.T) {
	atLength(t)
	r := newRepo(t)
	resume := func(node string) { r.sh("scontrol update nodename=" + node + " state=resume || true") } // fails if it is not drained
	defer func() {
		r.slurm("head")
		for _, node := range []string{"n1", "n2", "n3"} {
			resume(node)
		}
		r.healthy()
	}()
	random := drawtest.Of(t)
	var names []string
	var lines strings.Builder
	for i := range 150 {
		name := fmt.Sprint("e", i)
		names = append(names, name)
		fmt.Fprintf(&lines, "{\"ref\": %q, \"executor\": %q, \"command\": [\"sh\", \"-c\", %q], \"idempotent\": true, \"max_reclaims\": 99", name,
			[]string{"lab", "packed", "leases", "packed", "local"}[random.IntN(5)], effect(name, "sleep 0.2;"))
		if i > 10 {
			fmt.Fprintf(&lines, ", \"after\": [\"e%d\"]", i-1-random.IntN(10))
		}
		lines.WriteString("}\n")
	}
	if _, errs, err := r.try(lines.String(), "submit", "--batch"); err != nil {
		t.Fatal(err, errs)
	}
	for range 15 {
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		node := fmt.Sprint("n", 1+random.IntN(3))
		switch random.IntN(6) {
		case 0:
			r.slurm("lose", node)
			r.slurm("node", node)
		case 1:
			r.slurm("orphan", node)
			r.slurm("node", node)
		case 2:
			r.slurm("headless")
			time.Sleep(time.Duration(random.IntN(5)) * time.Second)
			r.slurm("head")
		case 3:
			r.sh("scontrol update nodename=" + node + " state=drain reason=test")
			time.Sleep(2 * time.Second)
			resume(node)
		case 4:
			if running := r.pilots("running"); len(running) > 0 {
				r.killBatchJob(running[random.IntN(len(running))])
			}
		default:
			r.killResident()
		}
	}
	r.allSucceed(len(names))
	r.onceInEach(names)
	r.v("history", "verify")
}

// If the program is not on the nodes, each batch job ends before its attempt begins. The attempt is
// submitted a few times, and then the job fails and says so. With pilots, it says so while it waits.
func TestTheProgramIsNotThere(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	id, packed := r.submit("nowhere", "true"), r.submit("packednowhere", "true")
	r.eventually(func() string {
		if job := r.job(packed); !strings.Contains(job["remark"], "ended its pilots before they looked for anything to run (job ") || !strings.Contains(job["remark"], "of 5 times)") {
			return fmt.Sprint(job)
		}
		return ""
	})
	r.becomes(id, "failed")
	if out := r.v("why", id); !strings.Contains(out, "ended it before it began (job ") {
		t.Errorf("why: %s", out)
	}
	if n := len(r.pilots("all")); n > 4 {
		t.Errorf("%d pilots in a few seconds", n)
	}
	r.v("cancel", packed)
	r.becomes(packed, "cancelled")
}

// A retry starts although the resident scheduler was killed: a reading command starts another scheduler.
func TestARetryGoesOnAfterALook(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	id := r.submit("lab", "test $VIZIER_ATTEMPT = 2", "--retries=1")
	r.becomes(id, "failed_retryable")
	r.killResident()
	r.eventually(func() string {
		r.v("ls")
		if job := r.job(id); job["status"] != "succeeded" {
			return fmt.Sprint(job)
		}
		return ""
	})
}

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
)

// pilots returns the numbers of the batch jobs of this repository's pilots that are in one of
// states.
func (r *repo) pilots(states string) []string {
	r.Helper()
	orders, _ := filepath.Glob(filepath.Join(r.dir, ".vizier/jobs/*/attempts/*.order.json"))
	if len(orders) == 0 {
		return nil
	}
	name := r.sh(`sed -n '1s/.*"name":"\(vizier-[0-9a-f]*-\).*/\1/p' ` + orders[0])
	return strings.Fields(r.sh(`squeue -h --me -t ` + states + ` -o '%i %j' | grep ' ` + name + `pilot-' | cut -d' ' -f1 || true`))
}

// killBatchJob kills at once all of Vizier's processes in the cluster's job of that number. It stops them
// first, or a worker could report its command's death. Slurm itself would ask the job to end before it
// kills it.
func (r *repo) killBatchJob(number string) {
	r.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		r.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, path := range all {
			env, _ := os.ReadFile(path) // it may have ended
			exe, _ := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if filepath.Dir(exe) == filepath.Dir(bin) && strings.Contains("\x00"+string(env), "\x00SLURM_JOB_ID="+number+"\x00") {
				_ = syscall.Kill(pid, sig) // it may have ended
			}
		}
	}
}

// batch submits jobs each of which makes an effect, and returns the names of the effects.
func (r *repo) batch(executor string, jobs int, between, more string) (names []string) {
	r.Helper()
	var lines strings.Builder
	for i := range jobs {
		name := fmt.Sprint("p", i)
		names = append(names, name)
		fmt.Fprintf(&lines, "{\"executor\": %q, \"command\": [\"sh\", \"-c\", %q]%s}\n", executor, effect(name, between), more)
	}
	if _, errs, err := r.try(lines.String(), "jobs", "submit", "--batch"); err != nil {
		r.Fatal(err, errs)
	}
	return names
}

// allSucceed waits until no job is open, and fails unless each succeeded.
func (r *repo) allSucceed(jobs int) {
	r.Helper()
	r.eventually(func() string {
		counts := map[string]int{}
		for _, j := range parseList(r.TB.(*testing.T), r.v("jobs", "list", "--all", "--format", "json", "--fields", "job,status")) {
			if counts[j["status"]]++; j["status"] == "failed" || j["status"] == "cancelled" {
				r.Fatal(j, r.files(j["job"]))
			}
		}
		if counts["succeeded"] != jobs {
			return fmt.Sprint(counts)
		}
		return ""
	})
}

// Many small jobs share few submissions, and each runs once. A job with options of its own is
// a batch job of its own.
func TestPacked(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	const jobs = 120
	names := r.batch("packed", jobs, "", "")
	own := r.submit("packed", effect("own", ""), "--option", "cpus=1")
	r.allSucceed(jobs + 1)
	for _, name := range append(names, "own") {
		r.happened(name)
	}
	if n := len(r.pilots("all")); n < 1 || n > 6 {
		t.Errorf("%d jobs took %d submissions", jobs, n)
	}
	if log := r.read(".vizier/jobs/" + own + "/attempts/1.order.json"); strings.Contains(log, "pilot") {
		t.Errorf("what asks for something of its own went to a pilot: %s", log)
	}
	r.eventually(func() string { // pilots end when they have nothing to do
		if left := r.pilots("running,pending"); len(left) > 0 {
			return fmt.Sprint("pilots stay: ", left)
		}
		return ""
	})
}

// The jobs of a chain run one after the other in a pilot, and a cancel ends only its own attempt.
func TestAPilotGoesOn(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	stays := r.submit("packed", effect("stays", untilGo))
	goes := r.submit("packed", "echo >$VIZIER_ROOT/effects/goes; exec sleep 600")
	after := []string{}
	for i := range 8 {
		id := r.submit("packed", effect(fmt.Sprint("c", i), ""), after...)
		after = []string{"--after", id}
	}
	r.begun("stays")
	r.begun("goes")
	r.v("jobs", "cancel", goes)
	r.becomes(goes, "cancelled")
	r.becomes(after[1], "succeeded")
	r.write("go", "")
	r.becomes(stays, "succeeded")
	for i := range 8 {
		r.happened(fmt.Sprint("c", i))
	}
	r.happened("stays")
	if n := len(r.pilots("all")); n > 4 { // on a busy machine, pilots end and new ones begin
		t.Errorf("they took %d pilots", n)
	}
}

// A pilot keeps its cores as long as one of them is busy. So it runs new jobs on the others,
// however long these were idle.
func TestAPilotsIdleCoresAreUsed(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	stays := r.submit("packed", effect("stays", untilGo))
	r.begun("stays")
	pilot := r.pilots("running")
	r.eventually(func() string { // the workers of the other cores end
		if n := r.workersOf(pilot[0]); n != 1 {
			return fmt.Sprint(n, " workers")
		}
		return ""
	})
	for i := range 3 {
		id := r.submit("packed", effect(fmt.Sprint("late", i), ""))
		r.becomes(id, "succeeded")
		r.happened(fmt.Sprint("late", i))
	}
	if all := r.pilots("all"); len(all) != 1 {
		t.Errorf("they took the pilots %v", all)
	}
	r.write("go", "")
	r.becomes(stays, "succeeded")
}

// workersOf returns how many workers the pilot with that batch job has.
func (r *repo) workersOf(number string) (workers int) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		r.Fatal(err)
	}
	for _, path := range all {
		env, _ := os.ReadFile(path) // it may have ended
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if strings.Contains("\x00"+string(env), "\x00SLURM_JOB_ID="+number+"\x00") && strings.Contains(string(args), "\x00__worker\x00") {
			workers++
		}
	}
	return workers
}

// Pilots are killed again and again. Attempts that they had claimed are lost and the jobs run
// again, others go to the next pilot, and nothing happens twice.
func TestPilotsAreKilled(t *testing.T) {
	if !long { // the long form takes down nodes that parallel tests would use
		t.Parallel()
	}
	r := newRepo(t)
	random := drawtest.Of(t)
	jobs, kills := 60, 3
	if long {
		jobs, kills = 300, 20
	}
	names := r.batch("packed", jobs, "sleep 0.1;", `, "idempotent": true, "max_reclaims": 99`)
	for range kills {
		var running []string
		r.eventually(func() string {
			if running = r.pilots("running"); len(running) == 0 {
				if marks, _ := os.ReadDir(filepath.Join(r.dir, "effects")); len(marks) < jobs {
					return "no pilot runs"
				}
			}
			return ""
		})
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		switch node := fmt.Sprint("n", 1+random.IntN(3)); {
		case long && random.IntN(4) == 0:
			r.slurm("lose", node)
			r.slurm("node", node)
		case len(running) > 0:
			r.killBatchJob(running[random.IntN(len(running))])
		}
	}
	r.allSucceed(jobs)
	r.onceInEach(names)
}

// Jobs per second from the submission to the last end: with plain sbatch, with an array of Slurm's, with
// Vizier and a batch job for each, and packed. Most of the time to the first end, Slurm looks for a node.
func BenchmarkPacked(b *testing.B) {
	for how, script := range map[string]string{
		"sbatch": "for i in $(seq %d); do sbatch --parsable --output=/dev/null --wrap true; done | paste -sd,",
		"array":  "sbatch --parsable --array=1-%d --output=/dev/null --wrap true",
	} {
		b.Run(how, func(b *testing.B) {
			const jobs = 100
			for b.Loop() {
				r := benchRepo(b)
				begin := time.Now()
				ids := r.sh(fmt.Sprintf(script, jobs))
				submitted := time.Since(begin)
				r.eventually(func() string { return r.sh("squeue -h -j " + ids + " -t pending,configuring,running,completing -o %i") })
				b.ReportMetric(jobs/time.Since(begin).Seconds(), "jobs/s")
				b.ReportMetric(float64(submitted.Milliseconds()), "ms-to-submit")
			}
		})
	}
	for _, how := range []string{"lab", "packed"} {
		b.Run(how, func(b *testing.B) {
			jobs := 500
			if how == "lab" {
				jobs = 100
			}
			random := drawtest.Of(b)
			for b.Loop() {
				r := benchRepo(b)
				time.Sleep(time.Duration(random.Int64N(int64(time.Second)))) // Slurm starts jobs once a second
				begin := time.Now()
				lines := strings.Repeat(`{"command": ["true"], "executor": "`+how+`"}`+"\n", jobs)
				if _, errs, err := r.try(lines, "submit", "--batch"); err != nil {
					b.Fatal(err, errs)
				}
				submitted := time.Since(begin)
				r.v("wait", "1")
				b.ReportMetric(float64(jobs)/time.Since(begin).Seconds(), "jobs/s")
				b.ReportMetric(float64(r.firstEnd().Sub(begin).Milliseconds()), "ms-to-first-end")
				b.ReportMetric(float64(submitted.Milliseconds()), "ms-to-submit")
				b.ReportMetric(float64(len(r.pilots("all"))), "pilots")
				r.emptyQueue()
			}
		})
	}
}

// firstEnd returns when the first attempt ended.
func (r *repo) firstEnd() (first time.Time) {
	outcomes, _ := filepath.Glob(filepath.Join(r.dir, ".vizier/jobs/*/attempts/*.outcome.json"))
	for _, path := range outcomes {
		if info, err := os.Stat(path); err == nil && (first.IsZero() || info.ModTime().Before(first)) {
			first = info.ModTime()
		}
	}
	return first
}

// If Slurm preempts a pilot, each of its attempts ends as preempted: resumable jobs continue in the
// next pilot, and the others fail with that reason.
func TestAPilotIsPreempted(t *testing.T) {
	t.Parallel()
	atLength(t)
	r := newRepo(t)
	r.write(".vizier/config.toml", config+"\n[executors.spare]\nkind = \"slurm\"\npoll = \"500ms\"\nlease = \"5s\"\ncpus = 2\npack = \"auto\"\noptions = [\"--partition=spare\", \"--mem=3000M\"]\n")
	again := r.submit("spare", `test -e "$VIZIER_CHECKPOINT_DIR/begun" && exit 0; touch "$VIZIER_CHECKPOINT_DIR/begun"; echo >$VIZIER_ROOT/effects/again; sleep 100`, "--resumable")
	plain := r.submit("spare", `echo >$VIZIER_ROOT/effects/plain; exec sleep 100`)
	r.begun("again")
	r.begun("plain")
	r.sh("sbatch --parsable -p urgent --mem=3000M --output=/dev/null --wrap 'sleep 2'")
	r.becomes(plain, "failed")
	r.becomes(again, "succeeded")
	if got := r.job(plain); got["failure_class"] != "preempted" || !strings.Contains(got["reason"], "preempted on cluster spare") {
		t.Errorf("what may not be executed again: %v", got)
	}
	if got := r.v("show", again); !strings.Contains(got, "1 failed (preempted)") || !strings.Contains(got, "| 2 succeeded") {
		t.Errorf("the attempts are\n%s", got)
	}
	r.v("history", "verify")
}

// A pilot's time limit ends a job that has none of its own, and the job says so. A job with a
// timeout waits for a pilot that has enough time left.
func TestAPilotsTimeLimit(t *testing.T) {
	t.Parallel()
	atLength(t)
	r := newRepo(t)
	r.write(".vizier/config.toml", config+"\n[executors.minute]\nkind = \"slurm\"\npoll = \"500ms\"\nlease = \"5s\"\ncpus = 2\npack = \"auto\"\noptions = [\"time=1m\"]\n")
	cut := r.submit("minute", effect("cut", "sleep 600;"))
	r.begun("cut")
	first := r.pilots("running")
	r.sh("sleep 10") // the pilot is not fresh any more
	limited := r.submit("minute", effect("limited", "sleep 5;"), "--timeout", "50s")
	r.becomes(limited, "succeeded")
	r.happened("limited")
	if all := r.pilots("all"); len(first) != 1 || len(all) != 2 {
		t.Errorf("the first pilot was %v, all were %v", first, all)
	}
	r.becomes(cut, "failed")
	if got := r.job(cut); got["failure_class"] != "timeout" || got["reason"] != "ended by the time limit of its pilot on cluster minute: with a timeout of its own it begins only where that much is left" {
		t.Errorf("%v", got)
	}
}

package cluster

import (
	"encoding/json"
	"strings"
	"testing"
)

// A resumable job that Slurm preempts continues from its checkpoint once there is room
// again, without a retry.
func TestPreempted(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	const script = `
		if test -e "$VIZIER_CHECKPOINT_DIR/begun"; then exit 0; fi
		touch "$VIZIER_CHECKPOINT_DIR/begun"
		sleep 100`
	place := []string{"--option", "partition=spare", "--option", "memory=3000M"}
	id := r.submit("lab", script, append(place, "--resumable", "--retries", "0")...)
	plain := r.submit("lab", "sleep 100", append(place, "--retries", "0", "--after", id+":any")...)
	r.becomes(id, "running")
	r.eventually(func() string {
		return r.sh("test -e .vizier/jobs/" + id + "/checkpoint/begun || echo it has not begun")
	})
	urgent := func() { r.sh("sbatch --parsable -p urgent --mem=3000M --output=/dev/null --wrap 'sleep 2'") }
	urgent()
	r.becomes(id, "succeeded")
	if got := r.v("jobs", "show", id); !strings.Contains(got, "1 failed (preempted)") || !strings.Contains(got, "| 2 succeeded") {
		t.Errorf("the attempts are\n%s", got)
	}
	r.becomes(plain, "running")
	urgent()
	r.becomes(plain, "failed")
	if got := r.job(plain)["failure_class"]; got != "preempted" {
		t.Errorf("what may not be executed again: class %q: %v", got, r.job(plain))
	}
	r.v("history", "verify")
}

// A job that ran out of memory, and then of time, is submitted again with more of it.
// The resources that each attempt used are on record, as on this machine.
func TestResourcesGrow(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	const script = `
		echo "$SLURM_MEM_PER_NODE $(squeue -h -j $SLURM_JOB_ID -o %l)" >>asked
		case $(wc -l <asked) in
		1) class=oom ;;
		2) class=timeout ;;
		*) exit 0 ;;
		esac
		echo "{\"class\": \"$class\"}" >"$VIZIER_RESULT_FILE"
		exit 1`
	id := r.submit("lab", script, "--option", "memory=50M,100M", "--option", "time=10m,1h,2h", "--retries", "1", "--resumable")
	r.becomes(id, "succeeded")
	if got, want := r.read("asked"), "50 10:00\n100 10:00\n100 1:00:00\n"; got != want {
		t.Errorf("asked for\n%s, want\n%s", got, want)
	}
	if got := r.v("why", id); !strings.Contains(got, "Resources: memory 100M (step 2 of 2); time 1h (step 2 of 3)") {
		t.Errorf("why says\n%s", got)
	}
	if got, want := r.job(id)["resources"], "memory 100M (step 2 of 2); time 1h (step 2 of 3)"; got != want {
		t.Errorf("resources %q, want %q", got, want)
	}
	var shown struct {
		Job struct {
			Attempts []struct {
				CPU    float64 `json:"cpu_seconds"`
				Memory int64   `json:"peak_memory_bytes"`
			} `json:"attempts"`
		} `json:"job"`
	}
	if err := json.Unmarshal([]byte(r.v("jobs", "show", "--raw", "--format", "json", id)), &shown); err != nil || len(shown.Job.Attempts) != 3 {
		t.Fatal(err, shown)
	}
	for n, a := range shown.Job.Attempts {
		if a.CPU <= 0 || a.Memory <= 0 {
			t.Errorf("attempt %d used %+v", n+1, a)
		}
	}
	r.v("history", "verify") // decides it all again
	if _, errs, err := r.try("", "jobs", "submit", "--executor", "lab", "--option", "memory=100M,50M", "--", "true"); err == nil || !strings.Contains(errs, "not more than the step before it") {
		t.Errorf("steps that shrink: %v\n%s", err, errs)
	}
}

// The configuration may have the options of jobs, or those of sbatch. The options of a job take
// precedence over both.
func TestOptionsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write(".vizier/config.toml", config+"\n[executors.asks]\nkind = \"slurm\"\npoll = \"500ms\"\noptions = [\"memory=50M\", \"time=90m\", \"--time=45\"]\n")
	const script = `echo "$SLURM_MEM_PER_NODE $(squeue -h -j $SLURM_JOB_ID -o %l)" >>asked`
	r.becomes(r.submit("asks", script), "succeeded")
	r.becomes(r.submit("asks", script, "--option", "time=2h"), "succeeded")
	if got, want := r.read("asked"), "50 45:00\n50 2:00:00\n"; got != want {
		t.Errorf("asked for\n%s, want\n%s", got, want)
	}
}

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

func parseList(t *testing.T, out string) []map[string]string {
	t.Helper()
	var doc struct{ Jobs []map[string]string }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err, out)
	}
	return doc.Jobs
}

// A bad request is refused before there is a job.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for want, args := range map[string][]string{
		"there is no executor named moon in the configuration, which has few, fewpacked, lab, leases, nowhere, own, packed, packednowhere, local": {"--executor", "moon"},
		`option "partiton=x" of a cluster: expected KEY=VALUE, KEY one of account, cpus`:                                                          {"--executor", "lab", "--option", "partiton=x"},
		"option cpus=many of a cluster: expected a positive number":                                                                               {"--executor", "lab", "--option", "cpus=many"},
		"option --requeue of sbatch is not free":                                                                                                  {"--executor", "lab", "--option=--requeue"},
		"executor local has no options: leave out cpus=4":                                                                                         {"--option", "cpus=4"},
	} {
		if _, errs, err := r.try("", append(append([]string{"jobs", "submit"}, args...), "--", "true")...); err == nil || !strings.Contains(errs, want) {
			t.Errorf("%v: %v\n%s", args, err, errs)
		}
	}
	if jobs := parseList(t, r.v("jobs", "list", "--all", "--format", "json")); len(jobs) > 0 {
		t.Errorf("there are jobs: %v", jobs)
	}
}

// A request that the cluster will never accept fails the job, with the cluster's own words.
func TestHopelessRequests(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for want, option := range map[string]string{
		"nvalid partition":        "partition=moon",
		"emory":                   "memory=9T",
		"nvalid generic resource": "gres=gpu:9",
		"unrecognized option":     "--no-such-option",
	} {
		job := r.becomes(r.submit("lab", "true", "--option="+option), "failed")
		if !strings.Contains(job["reason"], "cluster lab refuses it: ") || !strings.Contains(job["reason"], want) {
			t.Errorf("%s: %q", option, job["reason"])
		}
	}
}

// Without Slurm's client programs, jobs wait and say why. With them, they run.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	tools := t.TempDir()
	for _, name := range []string{"git", "sh", "echo"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(tools, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sane := r.env
	r.env = append(append([]string{}, sane...), "PATH="+tools)
	id := r.submit("lab", effect("a", ""))
	if why := r.v("jobs", "why", id); !strings.Contains(why, "squeue is not on PATH here") {
		t.Error(why)
	}
	r.env = sane
	r.eventually(func() string { // kill the resident scheduler, which has the PATH without Slurm
		if !r.killResident() {
			return "no resident scheduler"
		}
		return ""
	})
	r.v("jobs", "submit", "--", "true")
	r.becomes(id, "succeeded")
	r.happened("a")
}

func TestRemovedBehindOurBack(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	waits := r.submit("lab", effect("w", ""), "--option=--begin=now+1hour")
	runs := r.submit("lab", "echo begin >>$VIZIER_ROOT/effects/r; exec sleep 600") // without exec, the shell might succeed before the signal reaches it
	r.eventually(func() string {
		if r.read("effects/r") == "" {
			return "it has not begun"
		}
		return ""
	})
	r.sh(`scancel $(squeue -h -o '%i %j' | grep -e ` + waits + ` -e ` + runs + ` | cut -d' ' -f1)`)
	if job := r.becomes(waits, "cancelled"); !strings.Contains(job["reason"], "taken off cluster lab by its owner or an administrator before it began") {
		t.Errorf("%v", job)
	}
	if job := r.becomes(runs, "failed"); !strings.Contains(job["reason"], "cluster lab asked it to end (SIGTERM): it was cancelled there") {
		t.Errorf("%v", job)
	}
}

// why, list and show say what holds a job up on the cluster. A job that waits there has not
// started; it starts when its node begins to run it.
func TestPendingReasons(t *testing.T) {
	r := newRepo(t)
	r.sh("scontrol update nodename=n2 state=drain reason=broom")
	defer r.sh("scontrol update nodename=n2 state=resume")
	drained := r.submit("lab", effect("d", "while [ ! -e go ]; do sleep 0.2; done;"), "--option=--nodelist=n2")
	r.eventually(func() string {
		job, why := r.job(drained), r.v("jobs", "why", drained)
		if !strings.Contains(job["remark"], "pending on cluster lab: ReqNodeNotAvail") || !strings.Contains(why, job["remark"]) ||
			job["status"] != "submitted" || job["started"] != "" || !strings.Contains(why, ": submitted") {
			return fmt.Sprint(job, why)
		}
		for _, j := range parseList(t, r.v("jobs", "list", "--format", "json")) {
			if j["remark"] != job["remark"] || j["status"] != "submitted" {
				return fmt.Sprint(j)
			}
		}
		return ""
	})
	r.sh("scontrol update nodename=n2 state=resume")
	started := r.becomes(drained, "running")["started"]
	r.write("go", "")
	if job := r.becomes(drained, "succeeded"); started == "" || job["started"] != started {
		t.Errorf("while it ran it had started at %q, and afterwards at %q", started, job["started"])
	}
	r.happened("d")
	r.sh("scontrol update nodename=n2 state=drain reason=broom")
}

// Vizier reports a job that the cluster accepted but will never start; so does the doctor.
func TestPendingForGood(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write(".vizier/config.toml", "[executors.lab]\nkind = \"slurm\"\npoll = \"500ms\"\n") // only one executor: the doctor takes long over those that cannot work
	id := r.submit("lab", "true", "--option", "partition=short", "--option", "time=2h")
	r.eventually(func() string {
		job := r.job(id)
		if job["status"] != "submitted" || !strings.Contains(job["remark"], "PartitionTimeLimit") || !strings.Contains(job["remark"], "which does not pass by itself") {
			return fmt.Sprint(job)
		}
		return ""
	})
	if out, _, err := r.try("", "doctor"); err == nil || !strings.Contains(out, "PartitionTimeLimit") {
		t.Errorf("the doctor: %v\n%s", err, out)
	}
	r.v("jobs", "cancel", id)
}

// The cluster's own time limit ends the command early enough for the runner to record why.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	atLength(t)
	r := newRepo(t)
	job := r.becomes(r.submit("lab", "sleep 600", "--option", "time=1m"), "failed")
	if job["failure_class"] != "timeout" || job["exit_code"] != "124" || job["reason"] != "ended by the time limit of its job on cluster lab" {
		t.Errorf("%v", job)
	}
}

// If a job fills the shared disk, its runner keeps the result until there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := disktest.Small(t, 8<<20)
	r := repoAt(t, dir)
	id := r.submit("lab", `echo up; while [ ! -e go ]; do sleep 0.2; done; dd if=/dev/zero of="$VIZIER_ROOT/filler" bs=64k 2>/dev/null; exit 5`)
	r.eventually(func() string {
		if r.read(".vizier/jobs/"+id+"/stdout.log") == "" {
			return "it has not begun"
		}
		return ""
	})
	r.write("go", "")
	r.eventually(func() string {
		if out, _ := r.command("pgrep", "-f", "of="+dir+"/filler").Output(); r.read("filler") == "" || len(out) > 0 {
			return "the disk is not full"
		}
		return ""
	})
	if job := r.job(id); job["status"] != "running" {
		t.Errorf("with no room for its result the job is %v", job)
	}
	r.sh("rm filler")
	if job := r.becomes(id, "failed"); job["exit_code"] != "5" {
		t.Errorf("%v", job)
	}
}

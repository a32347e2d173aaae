package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every engine passes the doctor's trial.
func TestEnginesKeepTheContract(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lab", "own", "few"} {
		t.Run(name, func(t *testing.T) {
			needs(t, name)
			t.Parallel()
			r := newRepo(t)
			out, errs, err := r.try("", "doctor", "--executor", name, "--format", "json")
			var doc struct {
				Outcome  string
				Contract []struct {
					Clause string
					Kept   bool
				}
			}
			if failed := json.Unmarshal([]byte(out), &doc); err != nil || failed != nil || doc.Outcome != "healthy" || len(doc.Contract) != 13 {
				t.Errorf("%v %s\n%s", err, errs, out)
			}
			if left := r.sh(`squeue -h --me -t running,pending -o '%j' | grep -e -probe- || true`); name != "few" && strings.Contains(left, r.dir) {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// breaks replaces one command of the engine own by a broken one.
func (r *repo) breaks(script, text string) {
	r.Helper()
	r.write(script, "#!/bin/sh\n"+text)
	r.sh("chmod 755 " + script)
	key := strings.TrimSuffix(script, ".sh")
	r.write(".vizier/config.toml", strings.Replace(config, key+` = ["`+examples+"/"+script, key+` = ["`+r.dir+"/"+script, 1))
}

// The doctor says which promise an engine breaks.
func TestEnginesThatBreakTheContract(t *testing.T) {
	t.Parallel()
	needs(t, "own")
	for name, c := range map[string]struct{ script, text, want string }{
		"forgets":  {"list.sh", "cat >/dev/null; echo '{\"jobs\": []}'", "the next list has the job, by its name and with its id: there is no job named"},
		"mixes up": {"list.sh", examples + "/list.sh | sed 's/\"id\": \"/&9/'", "and submit said"},
		"says so":  {"submit.sh", "echo 'the moon is full' >&2; exit 1", "the probe of a node was refused: cluster own: %s/submit.sh: the moon is full"},
		"is away":  {"list.sh", "echo '{\"away\": \"no token\"}'", "cluster own: it cannot be asked: no token"},
		"is odd":   {"list.sh", "echo '{\"jobs\": [{\"id\": \"1\", \"name\": \"vizier-x\", \"state\": \"happy\"}]}'", "expected an id, a name and a state of"},
		"is wrong": {"list.sh", examples + "/list.sh | sed 's/\"state\"/\"cpu_seconds\": -1, &/'", "expected seconds, cpu_seconds and peak_memory_bytes"},
		"deaf":     {"cancel.sh", "echo '{\"away\": \"no answer\"}'", "cancel has a job that runs get SIGTERM: cluster own: it cannot be asked: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			r.breaks(c.script, c.text)
			want := strings.ReplaceAll(c.want, "%s", r.dir)
			out, errs, err := r.try("", "doctor", "--executor", "own")
			if joined := strings.Join(strings.Fields(out), " "); err == nil || !strings.Contains(joined, want) || !strings.Contains(out, "next: ") {
				t.Errorf("%v %s\n%s\ndoes not say %q", err, errs, out, want)
			}
		})
	}
}

// The answer of a submission is lost: the job is found by its name, and not submitted again.
func TestALostAnswer(t *testing.T) {
	needs(t, "own")
	t.Parallel()
	r := newRepo(t)
	r.breaks("submit.sh", "echo once >>$(dirname $0)/submitted; "+examples+"/submit.sh >/dev/null; exit 1")
	id := r.submit("own", effect("x", ""))
	if job := r.becomes(id, "succeeded"); job["attempt"] != "1" {
		t.Errorf("%v", job)
	}
	r.happened("x")
	if n := strings.Count(r.read("submitted"), "once"); n != 1 {
		t.Errorf("it was submitted %d times", n)
	}
}

// People read what the user's commands say of a job.
func TestWordsOfACommand(t *testing.T) {
	needs(t, "own")
	t.Parallel()
	r := newRepo(t)
	refused := r.becomes(r.submit("own", "true", "--option=--partition=moon"), "failed")
	if refused["failure_class"] != "rejected" || !strings.HasPrefix(refused["reason"], "cluster own refuses it: invalid partition specified: moon") {
		t.Errorf("%v", refused)
	}
	waits := r.submit("own", "true", "--option=--begin=now+1hour")
	r.eventually(func() string {
		if job := r.job(waits); job["status"] != "submitted" || !strings.Contains(job["remark"], "pending on cluster own: BeginTime") {
			return fmt.Sprint(job)
		}
		return ""
	})
	r.breaks("submit.sh", `echo '{"full": "the queue has 1000 jobs"}'`)
	full := r.submit("own", "true")
	r.eventually(func() string {
		if job := r.job(full); !strings.Contains(job["remark"], "cluster own takes no more jobs now: the queue has 1000 jobs") {
			return fmt.Sprint(job)
		}
		return ""
	})
	r.v("cancel", "--all", "--yes")
	r.becomes(waits, "cancelled")
	r.becomes(full, "cancelled")
}

// Hosts run as many jobs as they have slots, and the others say what they wait for.
func TestHostsHaveSlots(t *testing.T) {
	needsHosts(t)
	t.Parallel()
	r := newRepo(t)
	var ids []string
	for i := range 5 {
		ids = append(ids, r.submit("few", effect(fmt.Sprint("s", i), untilGo)))
	}
	r.eventually(func() string {
		begun, _ := os.ReadDir(filepath.Join(r.dir, "effects"))
		waiting := 0
		for _, j := range parseList(t, r.v("jobs", "list", "--format", "json")) {
			if j["remark"] == "cluster few has 3 jobs on 3 slots" {
				waiting++
			}
		}
		if len(begun) != 3 || waiting != 2 {
			return fmt.Sprintf("%d run, %d wait: %s", len(begun), waiting, r.v("jobs", "list"))
		}
		return ""
	})
	r.write("go", "")
	for i, id := range ids {
		r.becomes(id, "succeeded")
		r.happened(fmt.Sprint("s", i))
	}
}

// A pilot on one host runs many jobs, though another host does not answer.
func TestPackedOnHosts(t *testing.T) {
	needsHosts(t)
	t.Parallel()
	r := newRepo(t)
	const jobs = 30
	names := r.batch("fewpacked", jobs, "", "")
	r.allSucceed(jobs)
	for _, name := range names {
		r.happened(name)
	}
	if pilots, _ := filepath.Glob(filepath.Join(r.dir, ".vizier/jobs/cluster/fewpacked.hosts/*/*-pilot-*.json")); len(pilots) < 1 || len(pilots) > 3 {
		t.Errorf("%d pilots", len(pilots))
	}
}

// The hosts cannot be reached: running jobs continue, and those that wait for a host say
// why. Once the hosts can be reached again, these run too.
func TestHostsThatCannotBeAsked(t *testing.T) {
	needsHosts(t)
	t.Parallel()
	r := newRepo(t)
	dir, err := os.MkdirTemp("", "ssh-") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := newSSHServer(filepath.Join(dir, "ssh"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.stop() }()
	r.write(".vizier/config.toml", slurms+engines(examples, server.dir)+general)
	away := r.submit("fewpacked", "true", "--option=host=away")
	r.eventually(func() string {
		if job := r.job(away); job["status"] != "submitted" || !strings.Contains(job["remark"], "host away cannot be asked: ssh: connect to host") {
			return fmt.Sprint(job)
		}
		return ""
	})
	first := r.submit("few", effect("first", untilGo))
	r.begun("first")
	if err := server.stop(); err != nil {
		t.Fatal(err)
	}
	second := r.submit("few", effect("second", ""))
	r.eventually(func() string {
		if job := r.job(second); job["status"] != "submitted" || !strings.Contains(job["remark"], "it cannot be asked: host a cannot be asked") {
			return fmt.Sprint(job)
		}
		return ""
	})
	if job := r.job(first); job["status"] != "running" {
		t.Errorf("what runs there is %v", job)
	}
	r.write("go", "")
	r.becomes(first, "succeeded")
	if err := server.start(); err != nil {
		t.Fatal(err)
	}
	r.sh("rm -f .vizier/jobs/cluster/few.hosts/*/away") // half a minute passes
	r.becomes(second, "succeeded")
	r.happened("first")
	r.happened("second")
	r.v("cancel", away)
	r.becomes(away, "cancelled")
}

// A host dies with the job that it was running. This is told apart from a host that does not answer.
func TestAHostDies(t *testing.T) {
	needsHosts(t)
	t.Parallel()
	r := newRepo(t)
	id := r.submit("few", effect("dies", "exec sleep 600;"))
	r.begun("dies")
	r.sh(`kill -9 $(sed 's/.*"pid":\([0-9]*\).*/\1/' .vizier/jobs/cluster/few.hosts/*/*-` + id + `-1.json)`)
	if job := r.becomes(id, "failed"); job["failure_class"] != "worker_lost" || !strings.Contains(job["reason"], "ended without a result") {
		t.Errorf("%v", job)
	}
}

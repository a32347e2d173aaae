package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster/command"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster/slurm"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster/ssh"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Every implementation keeps the contract of app.Executor: this machine, the cluster
// with locks that hold between hosts, the same by the user's commands, hosts by ssh,
// and the cluster with leases instead of locks.
func TestContract(t *testing.T) {
	t.Parallel()
	names := []string{"local", "lab", "own", "few"}
	if long {
		names = append(names, "leases")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			needs(t, name)
			t.Parallel()
			for what, holds := range map[string]func(*testing.T, string){"ends": endsAsTheProgramDoes, "once": startsOnce, "stop": stopsWithGrace, "orphan": survivesTheScheduler} {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					holds(t, name)
				})
			}
		})
	}
}

func endsAsTheProgramDoes(t *testing.T, on string) {
	r := newRepo(t)
	left := fmt.Sprintf("sleep 611.%09d", rand.IntN(1e9))
	leaves := r.submit(on, "(setsid "+left+" &) ; echo left")
	missing := r.v("jobs", "submit", "--executor", on, "--", "no-such-tool-x")
	slow := r.submit(on, "sleep 600", "--timeout", "1s")
	ends := map[string][3]string{
		"exit 0":              {"succeeded", "0", ""},
		"exit 3":              {"failed", "3", "exit"},
		"kill -SEGV $$":       {"failed", "139", "signal"},
		"exec no-such-tool-x": {"failed", "127", "exit"},
	}
	ids := map[string]string{}
	for script := range ends {
		ids[script] = r.submit(on, script)
	}
	for script, want := range ends {
		job := r.becomes(ids[script], want[0])
		if job["exit_code"] != want[1] || job["failure_class"] != want[2] {
			t.Errorf("%s: exit code %s, class %q, want %s, %q", script, job["exit_code"], job["failure_class"], want[1], want[2])
		}
	}
	if job := r.becomes(missing, "failed"); job["exit_code"] != "127" || job["failure_class"] != "launch" || job["reason"] != "command not found: no-such-tool-x" {
		t.Errorf("%v", job)
	}
	if job := r.becomes(slow, "failed"); job["exit_code"] != "124" || job["failure_class"] != "timeout" {
		t.Errorf("%v", job)
	}
	r.becomes(leaves, "succeeded")
	if out, _ := r.command("pgrep", "-x", "-f", left).Output(); len(out) > 0 {
		t.Errorf("the job's end left a process: %s", out)
	}
}

// executor returns the executor of that name, and its store. Each call makes new
// ones, like those of another process.
func (r *repo) executor(name string) (app.Executor, *fs.Store) {
	store := fs.NewStore(r.dir, fs.Options{Boot: proc.Self().Boot, Now: time.Now})
	local := &proc.Local{Exe: filepath.Join(filepath.Dir(bin), "vizier-runner"), Root: r.dir, Files: store}
	if name == "local" {
		return local, store
	}
	kind, engine := slurm.Kind, cluster.Engine(slurm.Settings{Dir: r.dir})
	switch name {
	case "own":
		kind = command.Kind
		engine = command.Engine{Settings: command.Settings{Submit: []string{examples + "/submit.sh"}, List: []string{examples + "/list.sh"}, Cancel: []string{examples + "/cancel.sh"}, Dir: r.dir}}
	case "few":
		kind = ssh.Kind
		engine = &ssh.Engine{Hosts: []ssh.Host{{Name: "a", Slots: 1}, {Name: "b", Slots: 2}}, Client: []string{"ssh", "-F", server.dir + "/config"},
			Program: local.Exe, Dir: r.dir + "/.vizier/jobs/cluster/few.hosts"}
	}
	return &cluster.Cluster{Name: name, Kind: kind, Root: r.dir, Files: store, Local: local, Conclude: store.ConcludeOnce, Engine: engine,
		Settings: cluster.Settings{NoLocks: name == "leases", Lease: 5 * time.Second}}, store
}

func startsOnce(t *testing.T, on string) {
	r := newRepo(t)
	id := r.submit(on, effect("once", "while [ ! -e go ]; do sleep 0.2; done;"))
	a := kernel.AttemptID{Job: kernel.JobID(r.job(id)["job"]), N: 1}
	again := func() {
		t.Helper()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				e, _ := r.executor(on)
				if err := e.Start(context.Background(), a); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	again()
	r.eventually(func() string {
		if !strings.HasPrefix(r.read("effects/once"), "begin 1\n") {
			return "the job has not begun"
		}
		return ""
	})
	again()
	e, _ := r.executor(on)
	if f := e.Alive(context.Background(), []kernel.AttemptID{a})[a]; f.Value.Liveness != kernel.Alive {
		t.Errorf("while it runs: %+v", f)
	}
	switch on { // by hand, as if the engine had requeued it or another process had submitted it
	case "local":
	case "few":
		r.sh(filepath.Dir(bin) + "/vizier-runner __node --attempt " + id + "/1")
	default:
		r.sh("sbatch --output=/dev/null --job-name=$(sed 's/.*\"name\":\"\\([^\"]*\\).*/\\1/' .vizier/jobs/" + id + "/attempts/1.order.json) --wrap '" +
			filepath.Dir(bin) + "/vizier-runner __node --attempt " + id + "/1' --chdir " + r.dir + " --wait")
	}
	r.write("go", "")
	r.becomes(id, "succeeded")
	again()
	r.happened("once")
	e, store := r.executor(on)
	r.eventually(func() string { // its runner records the end before it ends itself
		if f := e.Alive(context.Background(), []kernel.AttemptID{a})[a]; !f.Known || f.Value.Liveness != kernel.Dead {
			return fmt.Sprintf("once it ended: %+v", f)
		}
		return ""
	})
	facts := kernel.NewFacts()
	store.Observe(context.Background(), kernel.Probes{Attempts: []kernel.AttemptID{a}}, &facts)
	if got := facts.Results[a]; got.Value == nil || got.Value.Outcome != kernel.OutcomeSucceeded || got.Value.Attempt != a {
		t.Errorf("its result is %+v", got)
	}
	if err := e.Sweep(context.Background(), a); err != nil {
		t.Error(err)
	}
	if err := e.Stop(context.Background(), a); err != nil {
		t.Error(err)
	}
}

func stopsWithGrace(t *testing.T, on string) {
	r := newRepo(t)
	polite := r.submit(on, `trap 'echo "asked" ; exit 0' TERM; echo up; while :; do sleep 0.2; done`)
	deaf := r.submit(on, `trap '' TERM; echo up; while :; do sleep 0.2; done`)
	for _, id := range []string{polite, deaf} {
		log := ".vizier/jobs/" + id + "/stdout.log"
		r.eventually(func() string { // its output can be read while it runs
			if r.read(log) != "up\n" {
				return "no output of " + id
			}
			return ""
		})
		r.v("jobs", "cancel", id)
	}
	for _, id := range []string{polite, deaf} {
		job := r.becomes(id, "cancelled")
		if job["exit_code"] != "143" || job["reason"] != "cancelled by ann" {
			t.Errorf("%v", job)
		}
	}
	if got := r.read(".vizier/jobs/" + polite + "/stdout.log"); got != "up\nasked\n" {
		t.Errorf("it printed %q", got)
	}
}

func survivesTheScheduler(t *testing.T, on string) {
	r := newRepo(t)
	id := r.submit(on, effect("alone", "while [ ! -e go ]; do sleep 0.2; done;")+"; exit 7")
	next := r.submit(on, effect("next", ""), "--after", id)
	r.eventually(func() string {
		if r.read("effects/alone") == "" {
			return "the job has not begun"
		}
		return ""
	})
	for range 5 {
		r.killResident()
		time.Sleep(20 * time.Millisecond)
	}
	r.write("go", "")
	r.eventually(func() string {
		if strings.Count(r.read("effects/alone"), "\n") < 2 {
			return "the job has not ended"
		}
		return ""
	})
	_, _, _ = r.try("", "jobs", "wait", id) // any command that ticks, since nothing else does
	if job := r.becomes(id, "failed"); job["exit_code"] != "7" {
		t.Errorf("%v", job)
	}
	r.happened("alone")
	if job := r.job(next); job["status"] != "blocked_by_dependency" || r.read("effects/next") != "" {
		t.Errorf("what depends on it: %v", job)
	}
}

// One call is enough to list all attempts, and few calls are enough to end them.
func TestOneCallForAll(t *testing.T) {
	r := newRepo(t)
	counter := t.TempDir()
	real := r.sh("command -v squeue")
	if err := os.WriteFile(filepath.Join(counter, "squeue"), []byte("#!/bin/sh\necho x >>"+counter+"/calls\nexec "+real+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range 40 {
		lines.WriteString(`{"command": ["sleep", "1"], "executor": "lab", "options": ["--begin=now+1hour"], "name": "j` + strconv.Itoa(i) + "\"}\n")
	}
	out, errs, err := r.try(lines.String(), "jobs", "submit", "--batch")
	if err != nil {
		t.Fatal(err, errs)
	}
	var attempts []kernel.AttemptID
	for _, id := range strings.Fields(out) {
		attempts = append(attempts, kernel.AttemptID{Job: kernel.JobID(r.job(id)["job"]), N: 1})
	}
	r.noResident()
	r.eventually(func() string {
		if left, _ := filepath.Glob(r.dir + "/.vizier/jobs/cluster/lab.outbox/*"); len(left) > 0 {
			return fmt.Sprint(len(left), " are not submitted")
		}
		return ""
	})
	if err := os.Remove(r.dir + "/.vizier/jobs/cluster/lab.list"); err != nil {
		t.Error(err)
	}
	t.Setenv("PATH", counter+":"+os.Getenv("PATH"))
	e, _ := r.executor("lab")
	if err := e.(*cluster.Cluster).Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	for a, f := range e.Alive(context.Background(), attempts) {
		if f.Value.Liveness != kernel.Alive || !strings.Contains(f.Value.Remark, "pending on cluster lab: BeginTime") {
			t.Errorf("%v: %+v", a, f)
		}
	}
	calls, _ := os.ReadFile(counter + "/calls")
	if string(calls) != "x\n" {
		t.Errorf("%d attempts took %d calls", len(attempts), strings.Count(string(calls), "x"))
	}
	r.sh("printf '#!/bin/sh\necho y >>" + counter + "/ends\nexec " + r.sh("command -v scancel") + " \"$@\"\n' >" + counter + "/scancel && chmod +x " + counter + "/scancel")
	r.env = append(r.env, "PATH="+counter+":"+os.Getenv("PATH"))
	r.v("jobs", "cancel", "--all", "--yes")
	for _, id := range strings.Fields(out) {
		r.becomes(id, "cancelled")
	}
	r.eventually(func() string {
		if left := r.sh(`squeue -h --me -t pending -o '%j' | grep -c ` + string(attempts[0].Job[:24]) + ` || true`); left != "0" {
			return "cancelled jobs are still in the queue: " + left
		}
		return ""
	})
	if ends, _ := os.ReadFile(counter + "/ends"); strings.Count(string(ends), "y") > 2 { // a second sender may end the rest
		t.Errorf("%d attempts took %d calls to end", len(attempts), strings.Count(string(ends), "y"))
	}
}

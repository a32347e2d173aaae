package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/internal/proctest"
)

// patience is far more than anything here takes.
const patience = 2 * time.Minute

// config configures executors of the one cluster, such as with locks that hold
// between hosts, without them, and with pilots; and those of engines.
var config string

const slurms = `
[executors.lab]
kind = "slurm"
poll = "500ms"
lease = "5s"

timeout = "5s"

[executors.leases]
kind = "slurm"
locks = false
poll = "500ms"
lease = "5s"

[executors.nowhere]
kind = "slurm"
program = "/nowhere/vizier"
poll = "500ms"

[executors.packednowhere]
kind = "slurm"
program = "/nowhere/vizier"
poll = "500ms"
pack = 4

[executors.packed]
kind = "slurm"
poll = "500ms"
lease = "5s"
cpus = 4
pack = "auto"
`

const general = `
[jobs]
grace = "2s"
`

// repo is a scratch repository.
type repo struct {
	testing.TB
	dir  string
	env  []string
	home string // HOME, which no other test has
	far  string // where this host's view of the files is mounted; "": in dir
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return repoAt(t, dir)
}

func repoAt(t testing.TB, dir string) *repo {
	t.Helper()
	r := &repo{TB: t, dir: dir, home: t.TempDir()}
	r.env = append(os.Environ(), "USER=ann", "HOME="+r.home, "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"),
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=a@b")
	r.sh("git init -q -b main . && git commit -q --allow-empty -m start && mkdir .vizier effects")
	r.write(".vizier/config.toml", config)
	t.Cleanup(r.leave)
	return r
}

// leave ends the resident scheduler and the remaining processes of jobs. A job that a test has seen to be
// nearly done, such as a merge that has moved its branch, may still write into the repository.
func (r *repo) leave() {
	r.killResident()
	records, _ := filepath.Glob(filepath.Join(r.dir, ".vizier/jobs/cluster/*.hosts/*/*.json"))
	for _, path := range records { // nothing else ends the jobs on ssh hosts
		var started struct{ Process proc.Identity }
		if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &started) == nil && started.Process.Running() {
			_ = syscall.Kill(started.Process.PID, syscall.SIGKILL)
		}
	}
	_ = os.RemoveAll(filepath.Join(r.dir, ".vizier"))
	r.killResident()
	for more := true; more; {
		more = false
		for _, p := range proctest.All() {
			if slices.Contains(p.Environ, "HOME="+r.home) {
				more = true
				_ = syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
	}
}

// killResident kills the resident scheduler, and reports whether there was one. It asks for the lock's holder:
// the number in the file may be that of an ended process, which another process may have by now.
func (r *repo) killResident() bool {
	path := filepath.Join(r.dir, ".vizier/jobs/resident.lock")
	if pid := watch.PID(path); pid <= 1 || syscall.Kill(pid, syscall.SIGKILL) != nil {
		return false
	}
	for range 1000 { // it holds the lock until its last thread has ended
		if held, err := proc.Locked(path); err != nil || !held {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

func (r *repo) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

func (r *repo) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(r.dir, name))
	return string(b)
}

func (r *repo) command(name string, args ...string) *exec.Cmd {
	dir := r.dir
	if r.far != "" {
		args = append([]string{"-m", "sh", "-c", `mount --bind "$0" "$1" && cd "$1" && shift && exec "$@"`, r.far, r.dir, name}, args...)
		name, dir = "unshare", "/"
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, r.env, 10*time.Second
	return cmd
}

func (r *repo) sh(script string) string {
	r.Helper()
	out, err := r.command("sh", "-c", script).CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// v runs the program, which must succeed, and returns what it prints.
func (r *repo) v(args ...string) string {
	r.Helper()
	out, errs, err := r.try("", args...)
	if err != nil {
		r.Fatalf("vizier %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
	return out
}

func (r *repo) try(stdin string, args ...string) (out, errs string, err error) {
	cmd := r.command(bin, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return strings.TrimSpace(o.String()), e.String(), err
}

// submit enqueues a shell command for an executor and returns its id.
func (r *repo) submit(executor, script string, flags ...string) string {
	r.Helper()
	args := append([]string{"jobs", "submit", "--executor", executor}, flags...)
	return r.job(r.v(append(args, "--", "sh", "-c", script)...))["job"]
}

// job returns what `jobs show` says of a job.
func (r *repo) job(id string) map[string]string {
	r.Helper()
	out := map[string]string{}
	if err := json.Unmarshal([]byte(r.v("jobs", "show", id, "--format", "json")), &out); err != nil {
		r.Fatal(err)
	}
	return out
}

// becomes waits until a job has a status and returns what is known of it.
func (r *repo) becomes(id, status string) map[string]string {
	r.Helper()
	var job map[string]string
	r.eventually(func() string {
		job = r.job(id)
		if job["status"] == status {
			return ""
		}
		if final := job["status"]; final == "succeeded" || final == "failed" || final == "cancelled" {
			r.Fatalf("job %s ended %s, want %s: %v\n%s", id, final, status, job, r.files(id))
		}
		return fmt.Sprintf("job %s is %s, want %s: %v", id, job["status"], status, job)
	})
	return job
}

// files returns the ends of a job's files and of the cluster's queue, for diagnosis.
func (r *repo) files(id string) string {
	out, _ := r.command("sh", "-c", "cd .vizier/jobs/"+id+" && tail -n 20 attempts/* *.log; squeue -t all | tail -5").CombinedOutput()
	return string(out)
}

// eventually waits until is returns "": nothing is missing. The longer it waits, the less often
// it asks, since each call starts processes, and all tests share the processors.
func (r *repo) eventually(is func() string) {
	r.Helper()
	var missing string
	pause := 50 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); pause = min(pause*5/4, 300*time.Millisecond) {
		if missing = is(); missing == "" {
			return
		}
		time.Sleep(pause)
	}
	out, _ := r.command("sh", "-c", `vizier why --all; vizier list --all; vizier history; tail -n 20 effects/* .vizier/jobs/*/attempts/* .vizier/jobs/*/*.log; squeue -t all | tail -30`).CombinedOutput()
	r.Fatalf("%s\n%s", missing, out)
}

// slurm runs a command of the cluster's script.
func (r *repo) slurm(args ...string) {
	r.Helper()
	out, err := exec.Command(script, append([]string{args[0], lab}, args[1:]...)...).CombinedOutput()
	if err != nil {
		r.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// healthy waits until all nodes are up again.
func (r *repo) healthy() {
	r.Helper()
	for _, n := range []string{"n1", "n2", "n3"} {
		r.slurm("node", n)
	}
	r.eventually(func() string {
		out := r.sh(`sinfo -h -N -p main -o '%N %T'`)
		if n := strings.Count(out, " idle") + strings.Count(out, " mixed") + strings.Count(out, " allocated"); n != 3 {
			return "nodes are not up: " + out
		}
		return ""
	})
}

// effect returns a shell command that writes a line when it begins and one when it ends.
func effect(name, between string) string {
	return fmt.Sprintf(`echo "begin $VIZIER_ATTEMPT" >>%s/effects/%s; %s echo "end $VIZIER_ATTEMPT" >>%s/effects/%s`, "$VIZIER_ROOT", name, between, "$VIZIER_ROOT", name)
}

// onceInEach fails the test unless each effect happened at most once in each attempt, and completely in
// the last one.
func (r *repo) onceInEach(names []string) {
	r.Helper()
	for _, name := range names {
		seen := map[string]int{}
		lines := strings.Split(strings.TrimSpace(r.read("effects/"+name)), "\n")
		for _, line := range lines {
			if seen[line]++; seen[line] > 1 {
				r.Errorf("effect %s happened twice in one attempt: %q", name, lines)
			}
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "end ") {
			r.Errorf("effect %s: %q", name, lines)
		}
	}
}

// happened fails the test unless the effect happened once, from begin to end.
func (r *repo) happened(name string) {
	r.Helper()
	lines := strings.Fields(r.read("effects/" + name))
	if len(lines) != 4 || lines[0] != "begin" || lines[2] != "end" || lines[1] != lines[3] {
		out, _ := r.command(bin, "history", "--format", "json").CombinedOutput() // how it was decided
		r.Errorf("effect %s: %q\n%s", name, lines, out)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/internal/proctest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// ground is a real repository in which the real program runs. Nothing that a
// test waits for goes through a command: looking at files is all it does.
type ground struct {
	t    testing.TB
	dir  string
	env  []string
	mark string
	raze bool // in the end the records go, instead of being cancelled one by one
}

func newGround(t testing.TB, config string) *ground {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{t: t, dir: dir, mark: "VIZIER_TEST_MARK=" + dir}
	g.env = append(os.Environ(), "USER=ann", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir, g.mark,
		"GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=a@b", "GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=a@b")
	g.git("init", "-q", "-b", "main")
	g.git("commit", "-q", "--allow-empty", "-m", "start")
	g.write(".vizier/config.toml", "[scheduler]\nresident_linger = \"200ms\"\nmax_running = 8\n"+config)
	g.write(".git/info/exclude", ".vizier/\n")
	t.Cleanup(g.leave)
	return g
}

func (g *ground) write(name, text string) {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *ground) run(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = g.dir, g.env
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, msg.String())
	}
	return strings.TrimSpace(out.String()), nil
}

func (g *ground) git(args ...string) string { return g.must("git", args...) }

func (g *ground) vizier(args ...string) string { return g.must("vizier", args...) }

func (g *ground) must(program string, args ...string) string {
	g.t.Helper()
	out, err := g.run(program, args...)
	if err != nil {
		g.t.Fatal(err)
	}
	return out
}

func (g *ground) submit(args ...string) kernel.JobID {
	g.t.Helper()
	var doc submission
	decode(g.t, g.vizier(append([]string{"jobs", "submit", "--format", "json"}, args...)...), &doc)
	return doc.Jobs[0].Job
}

func (g *ground) layout() fs.Layout { return fs.NewLayout(g.dir) }

// resident returns the process of the resident scheduler; 0: none.
func (g *ground) resident() int { return watch.PID(g.layout().ResidentFile()) }

// seen returns the status in a job's record.
func (g *ground) seen(id kernel.JobID) (status string, attempt int) {
	var r struct {
		Status  string
		Attempt int
	}
	b, err := os.ReadFile(g.layout().RecordFile(id))
	if err != nil || json.Unmarshal(b, &r) != nil {
		return "", 0
	}
	return r.Status, r.Attempt
}

// eventually waits longer than a resident scheduler that is told of nothing.
func (g *ground) eventually(what string, ok func() bool) {
	g.t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			list, _ := g.run("vizier", "jobs", "list", "--all")
			g.t.Fatalf("never: %s\n%s", what, list)
		}
	}
}

func (g *ground) becomes(id kernel.JobID, status string) {
	g.t.Helper()
	g.eventually(string(id)+" "+status, func() bool { s, _ := g.seen(id); return s == status })
}

func (g *ground) stands(id kernel.JobID, status string) {
	g.t.Helper()
	if got, _ := g.seen(id); got != status {
		g.t.Fatalf("job %s is %s, want %s", id, got, status)
	}
}

// looksAfter waits until a resident scheduler has announced what it looks
// after, and returns its process.
func (g *ground) looksAfter() (pid int) {
	g.t.Helper()
	g.eventually("a resident scheduler that has looked", func() bool {
		b, _ := os.ReadFile(g.layout().ResidentFile())
		lines := strings.Split(string(b), "\n")
		pid = g.resident()
		return pid != 0 && len(lines) > 1 && strings.TrimSpace(lines[1]) != ""
	})
	return pid
}

// runner waits for the runner of an attempt and returns its process.
func (g *ground) runner(id kernel.JobID, n int) int {
	g.t.Helper()
	var claim struct{ PID int }
	g.eventually("a runner of "+string(id), func() bool {
		b, err := os.ReadFile(g.layout().ClaimFile(kernel.AttemptID{Job: id, N: n}))
		return err == nil && json.NewDecoder(bytes.NewReader(b)).Decode(&claim) == nil && bytes.Contains(b, []byte(`"child":{`))
	})
	return claim.PID
}

func (g *ground) kill(pid int) {
	g.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		g.t.Fatal(err)
	}
}

// processes returns the processes that came of this test and have word in their
// command line.
func (g *ground) processes(word string) (pids []int) {
	for _, p := range proctest.All() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if slices.Contains(p.Environ, g.mark) && bytes.Contains(line, []byte(word)) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// leave ends what a test left open, and sees that then nothing is left: the
// resident scheduler goes by itself.
func (g *ground) leave() {
	var doc struct{ Jobs []map[string]string }
	if g.raze {
		_ = os.RemoveAll(filepath.Join(g.dir, ".vizier"))
	} else if out, err := g.run("vizier", "jobs", "list", "--format", "json", "--all", "--fields", "job,status"); err == nil {
		_ = json.Unmarshal([]byte(out), &doc)
	}
	for _, j := range doc.Jobs {
		if s, err := kernel.ParseStatus(j["status"]); err == nil && !s.Terminal() {
			_, _ = g.run("vizier", "jobs", "cancel", j["job"])
		}
	}
	for end := time.Now().Add(time.Minute); len(g.processes("")) > 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			g.t.Errorf("processes are left: %v, the resident scheduler among them: %v", g.processes(""), g.processes("__resident"))
			for _, pid := range g.processes("") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
	}
}

func TestResidentRunsARetryWhenItIsDue(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	a := g.submit("--retries", "1", "--", "sh", "-c", "test -e again || { touch again; exit 1; }")
	b := g.submit("--after", string(a), "--", "true")
	g.becomes(a, "failed_retryable")
	g.becomes(b, "succeeded")
	if _, n := g.seen(a); n != 2 {
		t.Errorf("attempt %d", n)
	}
}

func TestResidentSeesBranches(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	next := g.git("commit-tree", "-m", "next", "-p", "HEAD", "HEAD^{tree}")
	pinned := g.submit("--pinned", "main@"+next, "--", "true")
	exists := g.submit("--require", "branch_exists=team/topic", "--", "true")
	plan := g.submit("--need", "plan_branch:p", "--missing-producer", "wait", "--", "true")
	head := g.submit("--require", "branch_exists", "--after", string(exists), "--", "true")
	g.looksAfter()
	for _, id := range []kernel.JobID{pinned, exists, plan} {
		g.stands(id, "waiting_on_deps")
	}
	g.git("branch", "team/topic")
	g.becomes(exists, "succeeded")
	g.becomes(head, "succeeded")
	g.stands(pinned, "waiting_on_deps")
	g.git("update-ref", "refs/heads/main", next)
	g.becomes(pinned, "succeeded")
	g.git("branch", "draft/p")
	g.becomes(plan, "succeeded")
}

func TestResidentSeesACleanWorkingTree(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	g.write("draft.txt", "text")
	a := g.submit("--require", "clean_worktree", "--", "true")
	g.looksAfter()
	g.stands(a, "waiting_on_deps")
	if err := os.Remove(filepath.Join(g.dir, "draft.txt")); err != nil { // no part of git hears of this
		t.Fatal(err)
	}
	g.becomes(a, "succeeded")
	g.write("draft.txt", "text")
	b := g.submit("--require", "clean_worktree", "--", "true")
	g.git("add", "draft.txt")
	g.git("commit", "-q", "-m", "draft")
	g.becomes(b, "succeeded")
}

func TestResidentServesALaterProducer(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	a := g.submit("--need", "custom:report:x", "--missing-producer", "wait", "--", "true")
	g.looksAfter()
	g.stands(a, "waiting_on_deps")
	g.submit("--produce", "custom:report:x", "--", "true")
	g.becomes(a, "succeeded")
}

func TestResidentNoticesALostRunner(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	a := g.submit("--lock", "k", "--", "sleep", "600")
	after := g.submit("--after", string(a), "--", "true")
	lock := g.submit("--lock", "k", "--", "true")
	again := g.submit("--idempotent", "--", "sh", "-c", "test -e begun || { touch begun; exec sleep 600; }")
	pid, other := g.runner(a, 1), g.runner(again, 1)
	g.looksAfter()
	g.kill(pid)
	g.becomes(a, "failed")
	g.becomes(after, "blocked_by_dependency")
	g.becomes(lock, "succeeded")
	g.eventually("a command that has begun", func() bool { _, err := os.Stat(filepath.Join(g.dir, "begun")); return err == nil })
	g.kill(other)
	g.becomes(again, "succeeded")
	if _, n := g.seen(again); n != 2 {
		t.Errorf("attempt %d", n)
	}
}

// When everything is asked to end, as at a shutdown, nobody starts what waits. The next command does, and runs again what
// was ended, if that may be.
func TestEverythingIsAskedToEnd(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	a := g.submit("--lock", "k", "--idempotent", "--", "sh", "-c", "test -e begun || { touch begun; exec sleep 600; }")
	b := g.submit("--lock", "k", "--", "touch", "ran")
	g.eventually("a command that has begun", func() bool { _, err := os.Stat(filepath.Join(g.dir, "begun")); return err == nil })
	g.runner(a, 1)
	g.looksAfter()
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGCONT} { // all at once
		for _, pid := range g.processes("") {
			_ = syscall.Kill(pid, sig) // it may have ended, as a command after its runner
		}
	}
	g.eventually("that nobody is left", func() bool { return len(g.processes("")) == 0 })
	if _, err := os.Stat(filepath.Join(g.dir, "ran")); err == nil {
		t.Error("the job that waited has run")
	}
	g.vizier("wait", string(a), string(b))
	g.stands(a, "succeeded")
	g.stands(b, "succeeded")
	if _, n := g.seen(a); n != 2 {
		t.Errorf("attempt %d", n)
	}
}

// Jobs that wait for time or for the world outside go on where the repository is moved to, without a command.
func TestAMovedRepositoryHasAResident(t *testing.T) {
	t.Parallel()
	move := func(g *ground) {
		moved := g.dir + "-moved"
		if err := os.Rename(g.dir, moved); err != nil {
			t.Fatal(err)
		}
		g.dir = moved
	}
	outside := newGround(t, "")
	exists := outside.submit("--require", "branch_exists=later", "--", "true")
	outside.looksAfter()
	move(outside)
	outside.git("branch", "later")

	timed := newGround(t, "")
	again := timed.submit("--retries", "1", "--", "sh", "-c", "test $VIZIER_ATTEMPT = 2 || { until test -e go; do sleep 0.01; done; exit 1; }")
	last := timed.submit("--after", string(again)+":any", "--", "true")
	timed.runner(again, 1)
	timed.looksAfter()
	move(timed)
	timed.write("go", "")

	outside.becomes(exists, "succeeded")
	timed.becomes(last, "succeeded")
	if status, n := timed.seen(again); status != "succeeded" || n != 2 {
		t.Errorf("attempt %d has %s", n, status)
	}
}

// However many commands find none, one is started; one too many ends at once.
func TestThereIsOneResident(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	ids := make([]kernel.JobID, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			out, err := g.run("vizier", "jobs", "submit", "--format", "json", "--require", "branch_exists=b"+strconv.Itoa(i), "--", "true")
			var doc submission
			if err = errors.Join(err, json.Unmarshal([]byte(out), &doc)); err != nil {
				t.Error(err)
				return
			}
			ids[i] = doc.Jobs[0].Job
		})
	}
	all.Wait()
	pid := g.looksAfter()
	if got := g.processes("__resident"); len(got) != 1 || got[0] != pid {
		t.Fatalf("resident schedulers %v, the one in place is %d", got, pid)
	}
	g.vizier("__resident")
	if got := g.resident(); got != pid {
		t.Errorf("another took its place: %d", got)
	}
	has(t, g.vizier("jobs", "list", "--format", "block"), fmt.Sprintf("\nScheduler: resident (pid %d)\n", pid))
	for i, id := range ids {
		g.git("branch", "b"+strconv.Itoa(i))
		g.becomes(id, "succeeded")
	}
	g.eventually("its leave", func() bool { return g.resident() == 0 })
}

func TestAKilledResidentIsReplaced(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	a := g.submit("--require", "branch_exists=x", "--", "true")
	b := g.submit("--require", "branch_exists=y", "--", "true")
	first := g.looksAfter()
	g.kill(first)
	g.eventually("its end", func() bool { return g.resident() == 0 })
	g.submit("--", "sh", "-c", "until test -e go; do sleep 0.01; done") // any command that changes something
	second := g.looksAfter()
	g.git("branch", "x")
	g.becomes(a, "succeeded")
	g.eventually("the end of its runner", func() bool { return len(g.processes("__shim")) == 1 })
	g.kill(second)
	g.eventually("its end", func() bool { return g.resident() == 0 })
	g.write("go", "")                                                                                        // and any runner that ends
	g.eventually("a third one", func() bool { third := g.resident(); return third != 0 && third != second }) // the lock is taken before its file says by whom
	g.git("branch", "y")
	g.becomes(b, "succeeded")
}

func TestNoResidentWhereNothingNeedsOne(t *testing.T) {
	t.Parallel()
	never := func(g *ground) {
		t.Helper()
		if _, err := os.Lstat(g.layout().ResidentFile()); !os.IsNotExist(err) {
			t.Errorf("a resident scheduler was started: %v", err)
		}
	}
	plain := newGround(t, "")
	plain.becomes(plain.submit("--", "true"), "succeeded")
	plain.becomes(plain.submit("--", "false"), "failed")
	a := plain.submit("--approval", "--", "true")
	plain.submit("--after", string(a), "--", "true")
	never(plain)
	flag := newGround(t, "")
	waits := flag.submit("--no-resident", "--require", "branch_exists=x", "--", "true")
	if text := flag.vizier("--no-resident", "why", string(waits)); !strings.Contains(text, "(--no-resident starts none)") {
		t.Errorf("%s", text) // the configuration did not turn it off
	}
	flag.becomes(flag.submit("--no-resident", "--", "true"), "succeeded") // its runner ticks as well
	never(flag)
	off := newGround(t, "resident = false\n")
	waits = off.submit("--require", "branch_exists=x", "--", "true")
	if text := off.vizier("why", string(waits)); !strings.Contains(text, "([scheduler] resident is off)") {
		t.Errorf("%s", text)
	}
	never(off)
}

// A cancel of what it waited for sends it home; so does a configuration that
// is not its own any more, and then another comes.
func TestResidentLeaves(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	a := g.submit("--require", "branch_exists=x", "--", "true")
	first := g.looksAfter()
	g.write(".vizier/config.toml", "[scheduler]\nresident_linger = \"100ms\"\n")
	g.submit("--require", "branch_exists=y", "--", "true")
	g.eventually("another", func() bool { pid := g.resident(); return pid != 0 && pid != first })
	g.looksAfter()
	g.git("branch", "y")
	g.vizier("jobs", "cancel", string(a))
	g.eventually("its leave", func() bool { return g.resident() == 0 })
}

// A changed configuration lets jobs start at once: more places while what runs goes on, and a larger
// pool, by the user's own file too, also when there is nothing left to look after.
func TestResidentSeesAChangedConfiguration(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	g.env = append(g.env, "VIZIER_CONFIG_DIR="+filepath.Join(g.dir, "own"))
	places := func(n int, linger string) {
		g.write(".vizier/config.toml", fmt.Sprintf("[scheduler]\nresident_linger = %q\nmax_running = %d\n", linger, n))
	}
	rest := func() { time.Sleep(2 * time.Second) } // until the ticks of what was before are over, which see the file too
	places(1, "50s")
	long := g.submit("--pool", "gpu", "--", "sh", "-c", "until test -e go; do sleep 0.02; done")
	next := g.submit("--", "true")
	g.looksAfter()
	g.stands(next, "waiting_on_locks")
	rest()
	places(8, "50s")
	g.becomes(next, "succeeded")
	second := g.submit("--pool", "gpu", "--", "true")
	g.stands(second, "waiting_on_locks")
	rest()
	g.write("own/vizier/config.toml", "[pools]\ngpu = 2\n")
	g.becomes(second, "succeeded")
	both := g.submit("--pool", "gpu=2", "--", "true")
	g.write("own/vizier/config.toml", "[pools]\ngpu = 1\n")
	g.eventually("its reason", func() bool {
		b, _ := os.ReadFile(g.layout().RecordFile(both))
		return bytes.Contains(b, []byte("more than it has"))
	})
	g.write("go", "")
	g.becomes(long, "succeeded")
	rest()
	g.write("own/vizier/config.toml", "[pools]\ngpu = 2\n")
	g.becomes(both, "succeeded")
	places(8, "100ms")
}

// A job that nothing waits for is watched as soon as it has been running for a
// while, and nobody need type a command for its loss to be told, and its hook to
// be run. Of a node what its command began is gone before that.
func TestAJobThatRunsOnIsWatched(t *testing.T) {
	t.Parallel()
	g := newGround(t, "[hooks.told]\non = [\"failed\"]\ncommand = \"touch told\"\n")
	a := g.submit("--", "sleep", "600")
	pid := g.runner(a, 1)
	g.looksAfter()
	g.kill(pid)
	g.becomes(a, "failed")
	g.eventually("the hook", func() bool { _, err := os.Stat(filepath.Join(g.dir, "told")); return err == nil })
	g.eventually("its leave", func() bool { return g.resident() == 0 })

	g.write("node.toml", "id = \"one\"\nversion = \"v1\"\n[[nodes]]\nid = \"work\"\nkind = \"shell\"\nuses = \"cap.env.shell.command.run\"\nargs = { command = \"sleep 601 & touch begun; wait\" }\n")
	g.vizier("run", "./node.toml")
	node := g.newest()
	pid = g.runner(node, 1)
	g.eventually("a script", func() bool { return len(g.processes("sleep\x00601")) > 0 })
	g.looksAfter()
	g.kill(pid)
	g.becomes(node, "failed")
	if left := g.processes("sleep\x00601"); len(left) > 0 {
		t.Errorf("it is settled, and its script goes on: %v", left)
	}
}

// newest returns the job that was made last.
func (g *ground) newest() kernel.JobID {
	g.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(g.dir, ".vizier/jobs/*/job.json"))
	if err != nil || len(dirs) == 0 {
		g.t.Fatal("no jobs", err)
	}
	return kernel.JobID(filepath.Base(filepath.Dir(dirs[len(dirs)-1])))
}

// A runner that is stopped does not stop its job's time.
func TestAPausedRunnerDoesNotSuspendALimit(t *testing.T) {
	t.Parallel()
	g := newGround(t, "[jobs]\ngrace = \"100ms\"\n")
	a := g.submit("--timeout", "1500ms", "--", "sleep", "602")
	pid := g.runner(a, 1)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g.vizier("jobs", "submit", "--require", "branch_exists=x", "--", "true") // what a resident scheduler is for
	g.becomes(a, "failed")
	has(t, g.vizier("jobs", "show", string(a)), "timed out: its runner, which did not end it, was ended as well", "Failure class: timeout")
	if left := g.processes("sleep\x00602"); len(left) > 0 {
		t.Errorf("its command goes on: %v", left)
	}
	g.git("branch", "x")
}

// killResident kills the resident scheduler, and all that anybody has started besides.
func (g *ground) killResident() {
	g.t.Helper()
	g.looksAfter()
	g.eventually("the end of those who start another", func() bool { return len(g.processes("__shim")) == 0 })
	g.eventually("the end of all that were started", func() bool {
		started := g.processes("__resident")
		for _, pid := range started {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(started) == 0 && g.resident() == 0
	})
}

// With the resident scheduler killed, status and ls say so while jobs wait for something outside, and
// that one could go on once that has come true. An approval that has expired needs nobody.
func TestWhatComesTrueWhileNobodySchedules(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	a := g.submit("--require", "branch_exists=x", "--", "true")
	g.killResident()
	says := func(text string) {
		t.Helper()
		for _, c := range []string{"status", "ls"} {
			has(t, g.must("sh", "-c", "vizier "+c+" 2>&1"), "no scheduler is running (no resident scheduler is alive), and job "+text+": `vizier wait ")
		}
	}
	says("1 waits for something outside")
	g.git("branch", "x")
	says("1 could go on")
	g.git("branch", "-D", "x")
	b := g.submit("--no-resident", "--approval", "--approval-timeout", "2s", "--", "true")
	g.becomes(b, "waiting_on_approval")
	g.eventually("an approval that has expired", func() bool { return !strings.Contains(g.vizier("status"), "needs you") })
	says("2 could go on")
	g.git("branch", "x")
	g.submit("--", "true")
	g.becomes(a, "succeeded")
	g.becomes(b, "blocked_by_approval")
}

// With the resident scheduler killed, and a retry due, everyone who asks is told
// that no scheduler is running, and the command that sets it going; any command that
// changes something does so as well.
func TestWhoIsToldThatNobodySchedules(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	a := g.submit("--retries", "1", "--", "sh", "-c", "test -e again || { touch again; exit 1; }")
	b := g.submit("--after", string(a), "--", "true")
	g.becomes(a, "failed_retryable")
	g.killResident()
	has(t, g.vizier("jobs", "why", string(a)), "But no scheduler is running (no resident scheduler is alive), and job 1 is due at ")
	g.eventually("a retry that is due", func() bool {
		return strings.Contains(g.vizier("jobs", "why", string(a)), "its next attempt is due since ")
	})
	since := "no scheduler is running (no resident scheduler is alive), and job 1 has been due since "
	next := "vizier wait 1"
	for _, id := range []kernel.JobID{a, b} {
		has(t, g.vizier("jobs", "why", string(id)), since, "\n  "+next)
		if text := g.vizier("jobs", "why", string(id)); strings.Contains(text, "It needs nobody") {
			t.Errorf("%s", text)
		}
		has(t, g.must("sh", "-c", "vizier status "+string(id)+" 2>&1"), since, next)
	}
	out, err := g.run("vizier", "doctor")
	if has(t, out, "scheduler: .vizier/jobs/resident.lock", since, "next: "+next); err == nil {
		t.Error("the doctor finds nothing")
	}
	g.submit("--", "true")
	g.becomes(a, "succeeded")
	g.becomes(b, "succeeded")
	if out := g.vizier("jobs", "why", string(b)); strings.Contains(out, "nobody") {
		t.Errorf("%s", out)
	}
}

// A resident scheduler that is stopped lets nothing go on, and it is said which it is
// and how to wake it.
func TestWhoIsToldThatTheSchedulerIsStopped(t *testing.T) {
	t.Parallel()
	g := newGround(t, "")
	a := g.submit("--retries", "1", "--", "sh", "-c", "test -e again || { touch again; exit 1; }")
	g.becomes(a, "failed_retryable")
	pid := g.looksAfter()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g.eventually("a retry that is due", func() bool {
		return strings.Contains(g.vizier("jobs", "why", string(a)), "its next attempt is due since ")
	})
	stopped, next := fmt.Sprintf("the resident scheduler (pid %d) is stopped", pid), fmt.Sprintf("kill -CONT %d", pid)
	text := g.vizier("jobs", "why", string(a))
	has(t, text, "But "+stopped, "and job 1 has been due since ", "To continue:\n  "+next)
	if strings.Contains(text, "No action needed") {
		t.Errorf("%s", text)
	}
	has(t, g.must("sh", "-c", "vizier status "+string(a)+" 2>&1"), stopped, next)
	has(t, g.must("sh", "-c", "vizier status 2>&1"), stopped, "`"+next+"`, and it goes on")
	out, err := g.run("vizier", "doctor")
	if has(t, out, stopped, "next: "+next+": it goes on"); err == nil {
		t.Error("the doctor finds nothing")
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	g.becomes(a, "succeeded")
}

// A shell with few open files starts no scheduler that would launch for everybody
// from then on; the next one without that limit does.
func TestAShellWithFewFilesStartsNoResident(t *testing.T) {
	g := newGround(t, "")
	job := g.submit("--require", "branch_exists=there", "--", "true")
	g.looksAfter()
	g.git("branch", "there")
	g.becomes(job, "succeeded")
	g.eventually("the resident scheduler leaves", func() bool { return g.resident() == 0 })
	g.must("sh", "-c", "ulimit -n 100 && exec vizier jobs submit --require branch_exists=later -- true")
	if watch.Taken(g.layout().ResidentFile()) {
		t.Fatal("a resident scheduler with 100 files")
	}
	g.submit("--require", "branch_exists=later", "--", "true")
	pid := g.looksAfter()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Skip("no /proc")
	}
	if strings.Contains(string(limits), "Max open files            100 ") {
		t.Errorf("%s", limits)
	}
}

package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/vizier-scheduler/vizier/internal/proctest"
)

// process is a live process of a repository's jobs.
type process struct {
	pid    int
	runner string // the attempt it was started to run, "resident", or ""
	job    string // the attempt it belongs to, or ""
}

// processes returns the runners of the repository and all processes of its commands,
// which have the environment variables of the attempt.
func (r *repo) processes() (all []process) {
	for _, live := range proctest.All() {
		if p, ok := r.process(live); ok {
			all = append(all, p)
		}
	}
	return all
}

func (r *repo) process(live proctest.Process) (process, bool) {
	env := map[string]string{}
	for _, kv := range live.Environ {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	p := process{pid: live.PID, runner: env["VIZIER_RUNNER"], job: env["VIZIER_ATTEMPT_ID"]}
	if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.pid)); p.runner != "" && cwd == r.dir {
		return p, true
	}
	return p, p.runner == "" && p.job != "" && env["VIZIER_ROOT"] == r.dir
}

// signal signals a process if it is still the repository's.
func (r *repo) signal(p process, sig syscall.Signal) bool {
	handle, err := os.FindProcess(p.pid) // pins the process, so that the check holds
	if err != nil {
		return false
	}
	defer func() { _ = handle.Release() }()
	now, ok := r.process(proctest.Look(p.pid))
	return ok && now == p && handle.Signal(sig) == nil
}

// runnerOf returns the runner of a job's current attempt, according to the claim: a
// runner also runs other jobs than the one it was started for.
func (r *repo) runnerOf(id string) (process, bool) {
	r.t.Helper()
	var claim struct{ PID int }
	first, _, _ := strings.Cut(r.read(r.jobPath(id, fmt.Sprintf("attempts/%d.json", r.record(id).Attempt))), "\n")
	if err := json.Unmarshal([]byte(first), &claim); err != nil {
		r.t.Fatal(err)
	}
	return r.process(proctest.Look(claim.PID))
}

// noneLeft asserts that no process of the repository's jobs is left. Runners
// that have settled their job may still be about to exit.
func (r *repo) noneLeft() {
	r.t.Helper()
	until(r.t, "all processes of the jobs are gone", func() bool { return len(r.processes()) == 0 })
}

// endAll ends what a failed test left.
func (r *repo) endAll() {
	for range 1000 {
		left := r.processes()
		if len(left) == 0 {
			return
		}
		for _, p := range left {
			r.signal(p, syscall.SIGKILL)
		}
	}
}

func (p process) String() string { return fmt.Sprintf("%d runner=%q job=%q", p.pid, p.runner, p.job) }

// forked reports whether a process was forked by a runner and has not executed its
// command yet. It looks like its runner, but its death counts as the command's.
func forked(pid int) bool {
	var parent int
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, _ = fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %1s %d", new(string), &parent)
	cmdline := func(pid int) []byte {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return b
	}
	own := cmdline(pid)
	return len(own) > 0 && bytes.Equal(own, cmdline(parent))
}

// stopped reports whether a process is stopped by a signal.
func stopped(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(f) > 0 && string(f[0]) == "T"
}

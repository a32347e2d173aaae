package proc

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A directory for temporary files that is gone, or is none, is forgotten; one that is there or is relative is not.
func TestForgetTemporary(t *testing.T) {
	defer func(was string) { temporaryGone = was }(temporaryGone)
	dir := t.TempDir()
	gone, file := filepath.Join(dir, "gone"), filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", gone)
	t.Setenv("TMP", file)
	t.Setenv("TEMP", dir)
	t.Setenv("TEMPDIR", "relative")
	want := "TMPDIR=" + gone + ", TMP=" + file + ": there is no such directory any more, so temporary files are made in /tmp"
	if got := ForgetTemporary(); got != want || temporaryGone != want {
		t.Errorf("%q, kept %q, want %q", got, temporaryGone, want)
	}
	for name, want := range map[string]string{"TMPDIR": "", "TMP": "", "TEMP": dir, "TEMPDIR": "relative"} {
		if got, set := os.LookupEnv(name); got != want || set != (want != "") {
			t.Errorf("%s is %q, set %v", name, got, set)
		}
	}
	if got := ForgetTemporary(); got != "" || temporaryGone != want {
		t.Errorf("again: %q, kept %q", got, temporaryGone)
	}
	w := setup(t, "sh", "-c", "echo own >&2")
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	if got := w.log("stderr"); got != "vizier: "+want+"\nown\n" {
		t.Errorf("a command's log has %q", got)
	}
}

// Where the original limit on the size of files cannot be had, nothing is started.
func TestTheOriginalFileSize(t *testing.T) {
	defer func(was struct {
		changed   bool
		was, with unix.Rlimit
	}) {
		fileSizes = was
	}(fileSizes)
	starts := 0
	start := func() (int, error) { starts++; return 7, errors.ErrUnsupported }
	fileSizes.changed = false
	if pid, err := withOwnFileSize(start); pid != 7 || !errors.Is(err, errors.ErrUnsupported) || starts != 1 {
		t.Errorf("%d, %v, started %d times", pid, err, starts)
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &now); err != nil {
		t.Fatal(err)
	}
	fileSizes.changed, fileSizes.was, fileSizes.with = true, now, now
	if pid, err := withOwnFileSize(start); pid != 7 || !errors.Is(err, errors.ErrUnsupported) || starts != 2 {
		t.Errorf("with the limit of before: %d, %v, started %d times", pid, err, starts)
	}
	starts = 1
	fileSizes.was = unix.Rlimit{Cur: 2, Max: 1}
	if pid, err := withOwnFileSize(start); pid != 0 || !errors.Is(err, unix.EINVAL) || starts != 1 {
		t.Errorf("%d, %v, started %d times", pid, err, starts)
	}
}

// A process is another host's only if it has another name and another boot.
func TestWhichProcessesAreElsewhere(t *testing.T) {
	for _, c := range []struct {
		host, boot string
		want       bool
	}{{"far", "other", true}, {here().Host, "other", false}, {"far", here().Boot, false}, {here().Host, here().Boot, false}, {"far", "", false}} {
		if got := (Identity{Host: c.host, Boot: c.boot}).elsewhere(); got != c.want {
			t.Errorf("%s/%s: %v", c.host, c.boot, got)
		}
	}
}

// What git tells a hook of the commit it runs for is not about what a job
// commits; without a hook it is the user's own setting.
func TestTheCommitOfAHookIsNotTheJobs(t *testing.T) {
	outer := []string{"GIT_AUTHOR_NAME=Zed", "GIT_AUTHOR_DATE=@1 +0000", "GIT_SSH_COMMAND=ssh"}
	if got := environment(nil, outer...); len(got) != 3 {
		t.Errorf("without a hook: %q", got)
	}
	got := environment([]string{"A=b"}, append([]string{"GIT_INDEX_FILE=.git/index"}, outer...)...)
	if !slices.Equal(got, []string{"A=b", "GIT_SSH_COMMAND=ssh"}) {
		t.Errorf("in a hook: %q", got)
	}
	named := append([]string{"GIT_INDEX_FILE=.git/index", "GIT_COMMITTER_NAME=Ann"}, outer...)
	if got := environment(nil, named...); slices.Contains(got, "GIT_AUTHOR_DATE=@1 +0000") || !slices.Contains(got, "GIT_AUTHOR_NAME=Zed") {
		t.Errorf("where the environment says who commits: %q", got)
	}
}

// A raised limit on the size of files is this process's own: what it starts has the one of before.
func TestTheLimitOfFileSizesIsRaised(t *testing.T) {
	exe := as("fileSize")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pid, err := syscall.ForkExec(exe[0], exe, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, w.Fd(), 2}})
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(r)
	if status, _ := wait(pid); err != nil || status != 0 || !slices.Contains([]string{"1024\n1024\n", "2048\n2048\n"}, string(said)) { // in units of 1024 or of 512 bytes
		t.Errorf("%q, %v, status %d", said, err, status)
	}
}

// A command is told what its job is, and where a trace that it belongs to goes on.
func TestWhatACommandIsTold(t *testing.T) {
	w := setup(t)
	j := &w.job
	j.Number, j.Spec.Origin.Node = 7, "n"
	told := func() map[string]string {
		all := map[string]string{}
		for _, v := range w.jobEnv(j, w.saysIn(j)) {
			name, value, _ := strings.Cut(v, "=")
			all[name] = value
		}
		return all
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	for _, name := range []string{envDeadline, envCheckpoint, envRun, envTraceParent} {
		if v, is := told()[name]; is {
			t.Errorf("%s is %q", name, v)
		}
	}
	j.Spec.Resumable, j.Spec.Origin.Run, j.Spec.Origin.TraceParent, j.Spec.Task.Timeout = true, "run_1", parent, time.Hour
	is := told()
	for name, want := range map[string]string{envJob: string(j.ID), envAttempt: strconv.Itoa(j.State.Attempt), envRoot: w.root, envNumber: "7", envRef: j.Ref(), envNode: "n",
		envRun: "run_1", envCheckpoint: w.Files.CheckpointDir(j.ID), envTraceParent: parent} {
		if is[name] != want {
			t.Errorf("%s is %q, want %q", name, is[name], want)
		}
	}
	if at, err := time.Parse(time.RFC3339, is[envDeadline]); err != nil || time.Until(at) > time.Hour || time.Until(at) < 0 {
		t.Errorf("its deadline is %q, %v", is[envDeadline], err)
	}
	j.Spec.Task.Env = []string{envTraceParent + "=own"}
	if v, is := told()[envTraceParent]; is {
		t.Errorf("a job that sets it has %q", v)
	}
}

// A runner whose lock file was replaced, or is seen by another mount, holds no lock that can be seen.
func TestALockThatCannotBeSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now := inodeOf(path)
	for name, c := range map[string]struct {
		lock       inode
		ours, want bool
	}{
		"the same":                 {now, true, false},
		"none":                     {inode{}, true, false},
		"replaced":                 {inode{now.Dev, now.Ino + 1}, true, true},
		"of another repository":    {inode{now.Dev, now.Ino + 1}, false, false},
		"seen by another mount":    {inode{now.Dev + 1, now.Ino}, false, true},
		"of a copy on another one": {inode{now.Dev + 1, now.Ino + 1}, false, false},
	} {
		if got := (claim{Lock: c.lock}).unlockable(c.ours, path); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Without an environment that could say so, a process of this program may be about to become a runner.
func TestWhoMayBecomeARunner(t *testing.T) {
	for name, c := range map[string]struct {
		args      []string
		env       []string
		is, maybe bool
	}{
		"this program":                    {as("sleeper"), []string{}, false, true},
		"this program, with a variable":   {as("sleeper"), []string{"A=b"}, false, false},
		"this program, as a runner":       {as("sleeper"), []string{envRunner + "=x"}, true, false},
		"another program":                 {[]string{"/bin/sh", "-c", "echo; read -r line"}, []string{}, false, false},
		"another program, as if a runner": {[]string{"/bin/sh", "-c", "echo; read -r line"}, []string{envRunner + "=x"}, true, false},
	} {
		cmd := exec.Command(c.args[0], c.args[1:]...) //nolint:gosec // it is one of these
		cmd.Env = c.env
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = out.Read(make([]byte, 1)) // it has begun
		}
		if err != nil {
			t.Fatal(err)
		}
		p := process{pid: cmd.Process.Pid}
		if is, maybe := p.runner(); programOf(p.pid) != "" && (is != c.is || maybe != c.maybe) {
			t.Errorf("%s: is %t, maybe %t", name, is, maybe)
		}
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// terminal is tmux, which draws as a terminal does, with `vizier top` in it.
type terminal struct {
	t      *testing.T
	socket string
	dir    string // the repository
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux, which scripts/setup.sh installs")
	}
	bin, dir := t.TempDir(), disktest.Dir(t)
	for _, name := range []string{"vizier", "vizier-top"} {
		build := exec.Command("go", "build", "-o", filepath.Join(bin, name), "../"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for name, value := range map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "ann", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "ann", "GIT_COMMITTER_EMAIL": "a@b",
		"VIZIER_SCHEDULER_RESIDENT": "false", "VIZIER_SCHEDULER_MAX_RUNNING": "4", "VIZIER_JOB_ID": "", "TERM": "screen", "TMUX": ""} {
		t.Setenv(name, value)
	}
	term := &terminal{t, filepath.Join(bin, "tmux"), dir}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	term.run("git", "init", "-q")
	term.run("git", "commit", "-q", "--allow-empty", "-m", "start")
	return term
}

func (x *terminal) run(args ...string) string {
	x.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = x.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	return x.run(append([]string{"tmux", "-S", x.socket}, args...)...)
}

func (x *terminal) press(keys ...string) {
	x.t.Helper()
	x.tmux(append([]string{"send-keys"}, keys...)...)
}

// until waits until the screen shows all that is wanted, and returns its lines.
func (x *terminal) until(want ...string) []string {
	x.t.Helper()
	end := time.Now().Add(2 * time.Minute)
	for {
		text := x.tmux("capture-pane", "-p")
		missing := ""
		for _, w := range want {
			if !strings.Contains(text, w) {
				missing = w
			}
		}
		if missing == "" {
			return strings.Split(strings.TrimRight(text, "\n"), "\n")
		}
		if time.Now().After(end) {
			x.t.Fatalf("%q is missing in\n%s", missing, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// In a terminal, over a real repository: what people see, do and leave, at two sizes and
// while the store is gone for a moment.
func TestTopInATerminal(t *testing.T) {
	x := newTerminal(t)
	// The terminal is older than the job: where the system does not tell whose child it is, it might be the job's.
	x.tmux("new-session", "-d", "-x", "80", "-y", "12", "until test -e begin; do sleep 0.05; done; vizier top; stty -a | grep -q ' echo ' && echo left as it was; sleep 60")
	x.run("vizier", "submit", "--name", "serve", "--", "sh", "-c", "echo listening; echo trouble >&2; until test -e go; do sleep 0.05; done; echo bye")
	x.run("vizier", "submit", "--name", "deploy", "--approval", "--", "true")
	x.run("touch", "begin")
	lines := x.until("1 needs you, 1 running", "2 deploy", "‖ approval", "1 serve")
	if len(lines) != 12 || !strings.HasPrefix(lines[0], "vizier top") || !strings.HasPrefix(lines[11], "a approve") {
		t.Errorf("80x12:\n%s", strings.Join(lines, "\n"))
	}
	x.press("j")
	x.until("logs of 1 serve", "  listening", "! trouble")
	x.press("k", "a")
	x.until(`command "true"`, "approve 2?  y: yes")
	x.press("y")
	x.until("approve 2: done", "✓ succeeded")
	x.tmux("resize-window", "-x", "200", "-y", "60")
	if lines = x.until("│", "approve 2: done"); !strings.HasPrefix(lines[len(lines)-1], "approve 2") || len(lines) != 60 {
		t.Errorf("200x60: %d lines\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, move := range [][2]string{{".vizier", ".away"}, {".away", ".vizier"}} {
		if err := os.Rename(filepath.Join(x.dir, move[0]), filepath.Join(x.dir, move[1])); err != nil {
			t.Fatal(err)
		}
		if move[0] == ".vizier" {
			x.until("cannot read the store; this is the last state", "1 serve")
		}
	}
	x.until("vizier top  1 running")
	x.run("touch", "go")
	x.press("j")
	x.until("0 running", "  bye")
	x.press("C-z") // no shell could go on with it
	x.press("q")
	x.until("left as it was")
}

// What the screen decides by is the present configuration.
func TestTheStoreFollowsTheConfiguration(t *testing.T) {
	s := newTestStore(t)
	if err := os.WriteFile(filepath.Join(s.r.Root, ".vizier", "config.toml"), []byte("[pools]\ngpu = 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if snap, err := s.Look(t.Context()); err != nil || snap.Limits().Pools["gpu"] != 4 {
		t.Errorf("%+v, %v", snap.Limits(), err)
	}
}

// A store that was removed and made anew is not taken for the one that the screen reads.
func TestTheStoreWasMadeAnew(t *testing.T) {
	s := newTestStore(t)
	if _, err := s.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.r.Root, ".vizier")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(s.r.Store.JobDir(""), 0o700); err != nil {
		t.Fatal(err)
	}
	if snap, err := s.Look(t.Context()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "; run the command again") {
		t.Errorf("it shows %v, %v", snap, err)
	}
}

// What the screen reads and what a person does take turns at the scheduler.
func TestTheStoreTakesTurns(t *testing.T) {
	s := newTestStore(t)
	var busy, both atomic.Bool
	now := s.r.Scheduler.Now
	s.r.Scheduler.Now = func() time.Time {
		if !busy.CompareAndSwap(false, true) {
			both.Store(true)
			return now()
		}
		defer busy.Store(false)
		time.Sleep(time.Millisecond)
		return now()
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if _, err := s.Look(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 20 {
				if err := s.Do(t.Context(), retry, []*kernel.Job{{ID: "gone"}}); !errors.Is(err, kernel.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	if all.Wait(); both.Load() {
		t.Error("two goroutines use the scheduler at a time")
	}
}

// newTestStore returns the source of a scratch repository without jobs.
func newTestStore(t *testing.T) *store {
	t.Helper()
	dir := disktest.Dir(t)
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := vizier.Open(dir, vizier.Options{Environ: os.Environ(), NoResident: true})
	if err == nil {
		err = os.MkdirAll(r.Store.JobDir(""), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return newStore(r, func() string { return "ann" })
}

// A job that waits in its executor's queue has not begun.
func TestWhatAnExecutorHas(t *testing.T) {
	x := newTerminal(t)
	config := "[executors.lab]\nkind = \"command\"\nsubmit = [\"sh\", \"-c\", 'echo {\\\"full\\\": \\\"no room\\\"}']\n" +
		"list = [\"sh\", \"-c\", 'echo {\\\"jobs\\\": []}']\ncancel = [\"true\"]\n"
	x.run("mkdir", ".vizier")
	if err := os.WriteFile(filepath.Join(x.dir, ".vizier/config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VIZIER_SCHEDULER_RESIDENT", "true") // it asks the cluster again if that took too long to answer
	x.run("vizier", "submit", "--executor", "lab", "--name", "far", "--", "true")
	x.tmux("new-session", "-d", "-x", "120", "-y", "12", "vizier top")
	x.until("1 far", "submitted", "cluster lab takes no more jobs now: no room")
	x.press("q")
	x.run("vizier", "cancel", "1")
	for end := time.Now().Add(time.Minute); strings.Contains(x.run("vizier", "status", "--json"), "resident_pid"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the resident scheduler goes on")
		}
	}
}

// Where it cannot begin, it ends as other commands do.
func TestTopThatCannotBegin(t *testing.T) {
	x := newTerminal(t)
	x.run("sh", "-c", "echo 'x = 1' >bad.toml; mkdir $0", filepath.Join(filepath.Dir(x.socket), "outside"))
	x.tmux("new-session", "-d", "-x", "120", "-y", "24", "vizier top 77; echo first $?; vizier -C bad.toml top; echo second $?; cd "+filepath.Dir(x.socket)+"/outside; vizier top; echo third $?; sleep 60")
	x.until("hint: vizier ls --all", "first 1", "second 2", "hint: git init", "third 1")
}

// Stopped from a shell, as other programs are, it goes on where it was.
func TestTopIsStopped(t *testing.T) {
	x := newTerminal(t)
	x.run("vizier", "submit", "--name", "deploy", "--approval", "--", "true")
	x.tmux("new-session", "-d", "-x", "80", "-y", "12", "bash --norc -i")
	x.press("vizier top", "Enter")
	x.until("1 needs you", "1 deploy")
	x.press("C-z")
	x.until("Stopped")
	x.press("fg; echo left $((1+1)) here", "Enter")
	x.until("1 needs you", "1 deploy")
	x.press("q")
	x.until("left 2 here")
}

// gone waits until the process whose id is in a file has ended.
func (x *terminal) gone(file string) {
	x.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(x.run("cat", file)))
	if err != nil {
		x.t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			x.t.Fatalf("process %d of %s is alive", pid, file)
		}
	}
}

// It ends with a signal that it gets, with whoever started it, and with its terminal, also
// where a time limit has put it into the terminal's background.
func TestTopEnds(t *testing.T) {
	x := newTerminal(t)
	x.run("vizier", "submit", "--name", "deploy", "--approval", "--", "true")
	x.run("sh", "-c", "echo 'echo $$ >top; exec vizier top' >start")
	for name, c := range map[string]struct{ start, shows, end string }{
		"a signal":             {"sh ./start", "1 needs you", `kill "$(cat top)"`},
		"an interrupt":         {"sh ./start", "1 needs you", `kill -INT "$(cat top)"`},
		"its parent is gone":   {"sh -c 'echo $$ >parent; sh ./start; true'", "1 needs you", `kill -KILL "$(cat parent)"`},
		"its terminal is gone": {"sh ./start", "1 needs you", `tmux -S "$SOCKET" kill-server`},
		"a time limit": {"sh -c 'echo $$ >limit; exec timeout 600 sh ./start'", "begun",
			`until ps -o stat= -p "$(cat top)" | grep -q T; do sleep 0.02; done; kill "$(cat limit)"`},
	} {
		t.Run(name, func(t *testing.T) {
			x.t, x.socket = t, filepath.Join(t.TempDir(), "tmux")
			t.Setenv("SOCKET", x.socket)
			t.Cleanup(func() { _ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() })
			x.run("rm", "-f", "top")
			x.tmux("new-session", "-d", "-x", "80", "-y", "12", "echo begun; "+c.start+"; sleep 60")
			x.until(c.shows)
			x.run("sh", "-c", "until test -s top; do sleep 0.02; done; "+c.end)
			x.gone("top")
		})
	}
}

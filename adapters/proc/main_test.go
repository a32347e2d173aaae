package proc

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The test binary is the program under test as well: started with one of these
// words it is a runner, or a command with a certain behaviour.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if os.Args[1] == "__shim" {
			os.Exit(runnerMain(os.Args[3]))
		}
		if role, ok := roles[os.Args[1]]; ok {
			os.Exit(role(os.Args[2:]))
		}
	}
	_ = os.Setenv(mark, fmt.Sprint(os.Getpid()))
	code := m.Run()
	if left := strays(); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes left by the tests:", left)
		code = 1
	}
	os.Exit(code)
}

// mark is in the environment of whatever the tests start.
const mark = "PROC_TEST_MARK"

func strays() (pids []int) {
	me, _ := readProcess(os.Getpid())
	for _, p := range processes() {
		if p.pid != me.pid && !p.zombie && p.start >= me.start && p.env(mark) == fmt.Sprint(me.pid) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// runnerMain returns what a runner's main does, in short.
func runnerMain(attempt string) int {
	a, err := ParseAttempt(attempt)
	if err != nil {
		return fail(err)
	}
	root, _ := os.Getwd()
	l := newLocal(root)
	lock, err := l.Inherited(a)
	if err != nil {
		return fail(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() { <-asked; cancel(errors.New("cancelled by tester")) }()
	b, err := os.ReadFile(jobFile(root, a.Job))
	j := kernel.Job{ID: a.Job, State: kernel.State{Status: kernel.Running, Attempt: a.N}}
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(b)).Decode(&j.Spec.Task)
	}
	if err == nil {
		err = l.Provide(ctx, &j)
	}
	if err == nil {
		err = l.Claim(a)
	}
	if err != nil {
		return fail(err)
	}
	return fail(writeGob(outcomeFile(root, a), l.Run(ctx, &j)))
}

func fail(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "runner:", err)
	return 1
}

func writeGob(path string, v any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

type layout string

func (d layout) dir(id kernel.JobID) string               { return filepath.Join(string(d), "jobs", string(id)) }
func (d layout) LockFile(id kernel.JobID) string          { return d.dir(id) + "/job.lock" }
func (d layout) LogFile(id kernel.JobID, s string) string { return d.dir(id) + "/" + s + ".log" }
func (d layout) ClaimFile(a kernel.AttemptID) string {
	return fmt.Sprintf("%s/attempts/%d.json", d.dir(a.Job), a.N)
}
func (d layout) HeartbeatFile(a kernel.AttemptID) string {
	return fmt.Sprintf("%s/attempts/%d.heartbeat", d.dir(a.Job), a.N)
}
func (d layout) ResultFile(a kernel.AttemptID) string {
	return fmt.Sprintf("%s/attempts/%d.result.json", d.dir(a.Job), a.N)
}
func (d layout) CheckpointDir(id kernel.JobID) string { return d.dir(id) + "/checkpoint" }
func (d layout) SubmissionsFile(a kernel.AttemptID) string {
	return fmt.Sprintf("%s/attempts/%d.submissions.jsonl", d.dir(a.Job), a.N)
}
func (d layout) LostFile() string { return string(d) + "/lost" }
func (d layout) ReportFile(a kernel.AttemptID) string {
	return fmt.Sprintf("%s/attempts/%d.report.jsonl", d.dir(a.Job), a.N)
}

func jobFile(root string, id kernel.JobID) string { return layout(root).dir(id) + "/job.gob" }
func outcomeFile(root string, a kernel.AttemptID) string {
	return fmt.Sprintf("%s/outcome.%d.gob", layout(root).dir(a.Job), a.N)
}

func newLocal(root string) *Local {
	exe, _ := os.Executable()
	return &Local{Exe: exe, Root: root, Files: layout(root), Grace: 20 * time.Second, Containers: Engine("podman", nil, nil)}
}

// world is a repository with one job.
type world struct {
	*Local
	t    testing.TB
	root string
	job  kernel.Job
}

var jobNumber int

func setup(t testing.TB, args ...string) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Local: newLocal(root), t: t, root: root}
	jobNumber++ // ids are unique, as a sweep goes by them
	w.job.ID = kernel.JobID(fmt.Sprintf("%016x%016x", time.Now().UnixNano(), jobNumber))
	w.job.Spec.Task.Args = args
	w.job.State = kernel.State{Status: kernel.Running, Attempt: 1}
	if err := os.MkdirAll(layout(root).dir(w.job.ID)+"/attempts", 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// launch starts the runner of the job as it stands.
func (w *world) launch() kernel.AttemptID {
	w.t.Helper()
	a := w.job.Attempt()
	if err := writeGob(jobFile(w.root, a.Job), w.job.Spec.Task); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.Sweep(context.Background(), a) })
	if err := w.Start(context.Background(), a); err != nil {
		w.t.Fatal(err)
	}
	return a
}

// eventually waits for what is going to happen.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never: %s; stderr: %s", what, w.log("stderr"))
		}
	}
}

// outcome waits for the runner's result.
func (w *world) outcome(a kernel.AttemptID) (r kernel.Result) {
	w.t.Helper()
	w.eventually("an outcome", func() bool {
		b, err := os.ReadFile(outcomeFile(w.root, a))
		return err == nil && gob.NewDecoder(bytes.NewReader(b)).Decode(&r) == nil
	})
	return r
}

func (w *world) liveness(a kernel.AttemptID) kernel.Liveness {
	w.t.Helper()
	f := w.Alive(context.Background(), []kernel.AttemptID{a})[a]
	if !f.Known {
		w.t.Fatalf("liveness of %v: %s", a, f.Err)
	}
	return f.Value.Liveness
}

func (w *world) log(stream string) string {
	b, _ := os.ReadFile(layout(w.root).LogFile(w.job.ID, stream))
	return string(b)
}

// said waits until the command has written a line that begins with word, and
// returns the rest of it.
func (w *world) said(word string) (rest string) {
	w.t.Helper()
	w.eventually(word, func() bool {
		for line := range strings.Lines(w.log("stdout")) {
			if after, ok := strings.CutPrefix(line, word); ok && strings.HasSuffix(after, "\n") {
				rest = strings.TrimSpace(after)
				return true
			}
		}
		return false
	})
	return rest
}

// as returns the command line of one of the roles.
func as(role string, args ...string) []string {
	exe, _ := os.Executable()
	return append([]string{exe, role}, args...)
}

func wantResult(t testing.TB, r kernel.Result, o kernel.Outcome, exit int, c kernel.FailureClass, reason string) {
	t.Helper()
	if r.Outcome != o || r.Exit != exit || r.Class != c || r.Reason != reason {
		t.Fatalf("result %s, exit %d, class %q, reason %q; want %s, %d, %q, %q", r.Outcome, r.Exit, r.Class, r.Reason, o, exit, c, reason)
	}
}

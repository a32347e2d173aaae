package ssh

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
)

// A host starts a job once, in a session and a directory of its own, lists it, and ends it when it is asked to.
func TestAJobOnAHost(t *testing.T) {
	dir := t.TempDir()
	q := question{Dir: filepath.Join(dir, "jobs", "a"), Job: record{Name: "j"}, Argv: []string{"sh", "-c", "pwd; echo said >&2; exec sleep 600"}, Cwd: dir, Log: filepath.Join(dir, "log")}
	do := func(what string) reply {
		t.Helper()
		q.Do = what
		a, err := q.answer()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return a
	}
	if got := do(doList); len(got.Jobs) > 0 {
		t.Errorf("before anything was started there are %+v", got)
	}
	first := do(doStart).PID
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = syscall.Kill(first, syscall.SIGKILL)
			_, _ = syscall.Wait4(first, nil, 0, nil)
		}
	})
	if again := do(doStart).PID; first <= 0 || again != first {
		t.Fatalf("it was started as %d, then as %d", first, again)
	}
	if session, err := unix.Getsid(first); err != nil || session != first {
		t.Errorf("its session is %d, %v", session, err)
	}
	for path, want := range map[string]os.FileMode{q.Dir: 0o700, recordFile(q.Dir, "j"): 0o600, q.Log: 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	if err := os.WriteFile(recordFile(q.Dir, "other"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	q.Prefix = "j"
	want := cluster.Job{ID: fmt.Sprint(first), Name: "j", State: cluster.Running}
	if jobs := do(doList).Jobs; len(jobs) != 1 || jobs[0] != want {
		t.Errorf("it is %+v", jobs)
	}
	const said = "said\n"
	for text := ""; !strings.HasSuffix(text, said); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(q.Log)
		if text = string(b); err != nil || text != "" && text != dir+"\n" && text != dir+"\n"+said {
			t.Fatalf("it said %q, %v", text, err)
		}
	}
	q.Names = []string{"none", "other", "j"}
	do(doCancel)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(first, &status, 0, nil); err != nil || status.Signal() != syscall.SIGTERM {
		t.Fatalf("it ended with %v, %v", status, err)
	}
	ended = true
	want.State, want.Word = cluster.Failed, "gone"
	if jobs := do(doList).Jobs; len(jobs) != 1 || jobs[0] != want {
		t.Errorf("once it has ended, it is %+v", jobs)
	}
}

// A host knows for an hour what became of a job, and gives who is to start one a minute. What runs is never forgotten.
func TestWhatAHostRemembers(t *testing.T) {
	self, dir := proc.Self(), t.TempDir()
	q := question{Do: doList, Dir: dir}
	lost := self
	lost.Boot = "another"
	for name, c := range map[string]struct {
		text string
		age  time.Duration
		want *cluster.Job // nil: it is forgotten
	}{
		"runs":     {asJSON(t, record{Process: self}), 2 * kept, &cluster.Job{ID: fmt.Sprint(self.PID), State: cluster.Running}},
		"begins":   {"", starting / 2, &cluster.Job{ID: "0", State: cluster.Running}},
		"set back": {"", -2 * starting, &cluster.Job{ID: "0", State: cluster.Lost, Reason: "who was to start it was cut off"}},
		"cut off":  {"", 2 * starting, &cluster.Job{ID: "0", State: cluster.Lost, Reason: "who was to start it was cut off"}},
		"restart":  {asJSON(t, record{Process: lost}), kept / 2, &cluster.Job{ID: fmt.Sprint(self.PID), State: cluster.Lost, Reason: "its host was started anew"}},
		"long ago": {asJSON(t, record{Process: lost}), 2 * kept, nil},
		"never":    {"", 2 * kept, nil},
	} {
		path, at := recordFile(dir, name), time.Now().Add(-c.age)
		if err := errors.Join(os.WriteFile(path, []byte(c.text), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		q.Prefix = name
		a, err := q.answer()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want == nil {
			if _, err := os.Lstat(path); len(a.Jobs) > 0 || !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %+v, %v", name, a.Jobs, err)
			}
			continue
		}
		if c.want.Name = name; len(a.Jobs) != 1 || a.Jobs[0] != *c.want {
			t.Errorf("%s: %+v", name, a.Jobs)
		}
	}
}

// Who cannot start a job says why, and keeps no record that another host would take for a start.
func TestAJobThatCannotBeStarted(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(q *question) error
		says   string
		leaves bool // something in the place of the record
	}{
		"no program":           {func(q *question) error { q.Argv = []string{"/no/such/program"}; return nil }, "/no/such/program", false},
		"no log":               {func(q *question) error { return os.Mkdir(q.Log, 0o700) }, "log: is a directory", false},
		"no directory":         {func(q *question) error { return os.WriteFile(q.Dir, nil, 0o600) }, "jobs: not a directory", false},
		"no place for records": {func(q *question) error { q.Job.Name = "none/j"; return nil }, "none/j.json: no such file", false},
		"no record":            {func(q *question) error { return os.MkdirAll(recordFile(q.Dir, "j"), 0o700) }, "not a regular file", true},
	} {
		dir := t.TempDir()
		q := question{Do: doStart, Dir: dir + "/jobs", Job: record{Name: "j"}, Argv: []string{"true"}, Cwd: dir, Log: dir + "/log"}
		if err := c.breaks(&q); err != nil {
			t.Fatal(err)
		}
		a, err := q.answer()
		if err == nil || !strings.Contains(err.Error(), c.says) || a.PID != 0 {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if _, err := os.Lstat(recordFile(q.Dir, q.Job.Name)); (err == nil) != c.leaves {
			t.Errorf("%s: a record is left, %t: %v", name, err == nil, err)
		}
	}
	path := filepath.Join(t.TempDir(), "jobs")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (question{Do: doList, Dir: path}).answer(); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a list of what is no directory: %v", err)
	}
}

// What is told of hosts that cannot be used names the client, a host and the program.
func TestWhatToDoAboutHosts(t *testing.T) {
	e := &Engine{Hosts: []Host{{"a", 1}, {"b", 2}}, Client: []string{"sh", "-p", "22"}, Program: "/opt/vizier"}
	if got := e.Missing(); got != nil {
		t.Errorf("a client that is there: %+v", got)
	}
	if got, want := e.Mend(cluster.Listing), "see that `sh -p 22 -o BatchMode=yes a /opt/vizier version` answers without asking for anything"; got != want {
		t.Error(got)
	}
	if got := fmt.Sprint(e.Each()); got != "[[host=a] [host=b]]" {
		t.Error(got)
	}
	e.Client = []string{"no-such-client", "ssh"}
	if got, want := e.Missing(), (cluster.Finding{Problem: "no-such-client is not on PATH here", Next: "install an ssh client on this host"}); got == nil || *got != want {
		t.Errorf("%+v", got)
	}
}

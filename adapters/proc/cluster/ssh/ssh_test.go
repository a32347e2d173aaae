package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/kernel"
)

// TestMain is this program on a host, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Entry {
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// client is an ssh that reaches this host under any name, except those that a file
// down-NAME in dir says are down, or hang-NAME hang.
const client = `dir=$0; shift 3; host=$1; shift
[ ! -e "$dir/hang-$host" ] || exec sleep 600
[ ! -e "$dir/down-$host" ] || { echo "ssh: connect to host $host: No route to host" >&2; exit 255; }
exec sh -c "$*"`

type hosts struct {
	*Engine
	t   *testing.T
	dir string
}

func newHosts(t *testing.T, all ...Host) *hosts {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h := &hosts{t: t, dir: dir}
	h.Engine = h.again(own, all...)
	t.Cleanup(func() {
		hanging, _ := filepath.Glob(dir + "/hang-*")
		for _, path := range hanging {
			_ = os.Remove(path)
		}
		for _, j := range h.list() {
			_ = h.Cancel(t.Context(), []cluster.Job{j})
		}
		records, _ := filepath.Glob(dir + "/jobs/*/*.json")
		for _, path := range records {
			if r, err := readRecord(path); err == nil {
				for r.Process.Running() {
					_ = os.WriteFile(dir+"/go", nil, 0o600)
					time.Sleep(time.Millisecond)
				}
			}
		}
	})
	return h
}

// again is another process's engine.
func (h *hosts) again(program string, all ...Host) *Engine {
	return &Engine{Hosts: all, Client: []string{"sh", "-c", client, h.dir}, Program: program, Dir: filepath.Join(h.dir, "jobs")}
}

func (h *hosts) submit(name string, options ...string) (string, error) {
	return h.Submit(h.t.Context(), cluster.Request{Name: name, Argv: []string{"sh", "-c", "while [ ! -e " + h.dir + "/go ]; do sleep 0.02; done"}, Dir: h.dir,
		Log: filepath.Join(h.dir, name+".log"), Options: options})
}

func (h *hosts) must(name string, options ...string) string {
	h.t.Helper()
	id, err := h.submit(name, options...)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

func (h *hosts) list() []cluster.Job {
	jobs, err := h.List(context.Background(), "j")
	if err != nil {
		h.t.Error(err)
	}
	return jobs
}

// states are the states of jobs, by their names.
func (h *hosts) states() map[string]cluster.State {
	h.t.Helper()
	out := map[string]cluster.State{}
	for _, j := range h.list() {
		out[j.Name] = j.State
	}
	return out
}

func (h *hosts) touch(name string) {
	if err := os.WriteFile(filepath.Join(h.dir, name), nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func host(id string) string { name, _, _ := strings.Cut(id, ":"); return name }

// Jobs go where there is room, and no host has more of them than slots.
func TestSlots(t *testing.T) {
	h := newHosts(t, Host{"a", 1}, Host{"b", 2})
	count := map[string]int{}
	for i := range 3 {
		count[host(h.must("j"+strconv.Itoa(i)))]++
	}
	if count["a"] != 1 || count["b"] != 2 || h.Slots() != 3 {
		t.Errorf("%v on %d slots", count, h.Slots())
	}
	for _, e := range []*Engine{h.Engine, h.again(h.Program, h.Hosts...)} {
		h.Engine = e
		_, err := h.submit("j3")
		if no, is := errors.AsType[*cluster.Refusal](err); !is || no.Kind != cluster.NotThis || !strings.Contains(no.Said, "no slot is free") {
			t.Errorf("a fourth: %v", err)
		}
	}
	h.touch("go")
	for slices.Contains([]cluster.State{h.states()["j0"], h.states()["j1"], h.states()["j2"]}, cluster.Running) {
		time.Sleep(time.Millisecond)
	}
	if s := h.states(); s["j0"] != cluster.Failed {
		t.Errorf("once they have ended: %v", s)
	}
	h.must("j3", "host=a")
}

// Who asks for the same job again is told of the one that there is.
func TestOneStart(t *testing.T) {
	h := newHosts(t, Host{"a", 5})
	if first, second := h.must("j"), h.must("j"); first != second {
		t.Errorf("%s, then %s", first, second)
	}
	if jobs := h.list(); len(jobs) != 1 || jobs[0].ID != h.must("j") || jobs[0].Node != "a" {
		t.Errorf("%+v", jobs)
	}
}

// A host that cannot be asked has lost nothing; others do what it would have done.
func TestAHostThatIsAway(t *testing.T) {
	h := newHosts(t, Host{"a", 2}, Host{"b", 2})
	h.must("j1", "host=a")
	h.must("j2", "host=b")
	h.touch("down-b")
	jobs := h.list()
	slices.SortFunc(jobs, func(a, b cluster.Job) int { return strings.Compare(a.Name, b.Name) })
	if len(jobs) != 2 || jobs[0].State != cluster.Running || jobs[1].State != cluster.Unseen || jobs[1].Reason != "host b cannot be asked: ssh: connect to host b: No route to host" {
		t.Fatalf("%+v", jobs)
	}
	if n := h.Slots(); n != 3 { // one there is taken
		t.Errorf("%d slots", n)
	}
	if id := h.must("j3"); host(id) != "a" {
		t.Errorf("j3 is on %s", id)
	}
	if _, err := h.submit("j4", "host=b"); err == nil || !strings.Contains(err.Error(), "No route to host") {
		t.Errorf("j4 is to be on b: %v", err)
	}
	if err := os.Remove(h.dir + "/down-b"); err != nil {
		t.Fatal(err)
	}
	if s := h.states(); s["j2"] != cluster.Unseen {
		t.Errorf("it is asked again at once: %v", s)
	}
	if err := os.Remove(h.restFile("b")); err != nil { // half a minute passes
		t.Fatal(err)
	}
	if s := h.states(); s["j2"] != cluster.Running || s["j1"] != cluster.Running {
		t.Errorf("%v", s)
	}
}

// patience is how long hosts have to answer: enough for those that do, on a busy machine.
const patience = 5 * time.Second

// One that hangs holds up no other.
func TestAHostThatHangs(t *testing.T) {
	t.Parallel()
	h := newHosts(t, Host{"a", 1}, Host{"b", 1})
	h.must("j1", "host=a")
	h.touch("hang-b")
	ctx, stop := context.WithTimeoutCause(t.Context(), patience, cluster.ErrNoAnswer)
	defer stop()
	if jobs, err := h.List(ctx, "j"); err != nil || len(jobs) != 1 || jobs[0].State != cluster.Running {
		t.Errorf("%v, %v", jobs, err)
	}
}

// Who loses patience, or ends, says nothing of the hosts: the next one asks them again.
func TestAnImpatientAsker(t *testing.T) {
	t.Parallel()
	h := newHosts(t, Host{"a", 1}, Host{"b", 1})
	h.touch("hang-b")
	for name, asker := range map[string]func() (context.Context, context.CancelFunc){
		"impatient": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 300*time.Millisecond)
		},
		"ends": func() (context.Context, context.CancelFunc) {
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(300*time.Millisecond, stop)
			return ctx, stop
		},
	} {
		ctx, stop := asker()
		if jobs, err := h.List(ctx, "j"); err == nil {
			t.Errorf("%s: a list that has nothing of host b: %v", name, jobs)
		}
		stop()
		if _, err := os.Stat(h.restFile("b")); err == nil {
			t.Errorf("%s: host b is left alone", name)
		}
	}
	ctx, stop := context.WithTimeoutCause(t.Context(), patience, cluster.ErrNoAnswer)
	defer stop()
	if _, err := h.List(ctx, "j"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(h.restFile("b")); err != nil {
		t.Error("host b did not answer, and is asked again:", err)
	}
}

func TestNoHostAnswers(t *testing.T) {
	h := newHosts(t, Host{"a", 1})
	h.touch("down-a")
	if _, err := h.List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "host a cannot be asked: ssh: connect") {
		t.Error(err)
	}
	if _, err := h.submit("j"); err == nil || errors.As(err, new(*cluster.Refusal)) {
		t.Errorf("that is no refusal: %v", err)
	}
	_ = os.Remove(h.dir + "/down-a")
	_ = os.Remove(h.restFile("a"))
}

// What a host was doing when it went down is lost, and so is what a host had that is
// not in the configuration any more.
func TestLost(t *testing.T) {
	h := newHosts(t, Host{"a", 3})
	self := proc.Self()
	for name, r := range map[string]record{
		"j1": {Name: "j1", Process: proc.Identity{Host: self.Host, Boot: "another", PID: self.PID, Start: self.Start}},
		"j2": {Name: "j2", Process: proc.Identity{Host: self.Host, Boot: self.Boot, PID: self.PID, Start: self.Start + 1}},
		"j3": {},
	} {
		where := filepath.Join(h.Dir, map[bool]string{true: "gone", false: "a"}[name == "j3"])
		if err := errors.Join(os.MkdirAll(where, 0o700), os.WriteFile(recordFile(where, name), []byte(asJSON(t, r)), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(recordFile(h.Dir+"/a", "j4"), nil, 0o600); err != nil { // about to start
		t.Fatal(err)
	}
	if s := h.states(); s["j1"] != cluster.Lost || s["j2"] != cluster.Failed || s["j3"] != cluster.Lost || s["j4"] != cluster.Running {
		t.Errorf("%v", s)
	}
	long := time.Now().Add(-2 * starting)
	older := time.Now().Add(-2 * kept)
	if err := errors.Join(os.Chtimes(recordFile(h.Dir+"/a", "j4"), long, long), os.Chtimes(recordFile(h.Dir+"/a", "j1"), older, older)); err != nil {
		t.Fatal(err)
	}
	if s := h.states(); s["j1"] != "" || s["j4"] != cluster.Lost {
		t.Errorf("later: %v", s)
	}
}

func TestCancel(t *testing.T) {
	h := newHosts(t, Host{"a", 2})
	id := h.must("j")
	if err := h.Cancel(t.Context(), []cluster.Job{{ID: id, Name: "j"}, {ID: "0", Name: "nobody"}, {ID: "a:1", Name: "nobody"}}); err != nil {
		t.Error(err)
	}
	for h.states()["j"] == cluster.Running {
		time.Sleep(time.Millisecond)
	}
}

func TestAccepts(t *testing.T) {
	h := newHosts(t, Host{"a", 2}, Host{"b", 1})
	for option, want := range map[string]string{"host=b": "", "host=c": "hosts are a, b", "cpus=2": "expected host=NAME"} {
		if err := h.Accepts([]string{option}); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// What cannot be started leaves nothing behind, and says why.
func TestAProgramThatIsNotThere(t *testing.T) {
	h := newHosts(t, Host{"a", 1})
	_, err := h.Submit(t.Context(), cluster.Request{Name: "j", Argv: []string{"/no/such/program"}, Dir: h.dir, Log: h.dir + "/log"})
	if no, is := errors.AsType[*cluster.Refusal](err); !is || no.Kind != cluster.Unclear || !strings.Contains(no.Said, "host a: fork/exec /no/such/program") || len(h.list()) > 0 {
		t.Errorf("%v", err)
	}
	h.Engine = h.again("/no/such/vizier", h.Hosts...)
	if _, err := h.List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "/no/such/vizier") {
		t.Errorf("%v", err)
	}
	h.Engine = h.again(os.Args[0], h.Hosts...)
	_ = os.Remove(h.restFile("a"))
}

// A host answers what it does not know, and what is no question, with an error.
func TestAQuestionThatNoHostKnows(t *testing.T) {
	var out strings.Builder
	if err := Serve(strings.NewReader(`{"do": "dance"}`), &out); err != nil || !strings.Contains(out.String(), `\"dance\" is nothing that this version can do`) {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := Serve(strings.NewReader("dance"), &out); !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

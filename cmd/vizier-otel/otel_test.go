package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel/trace"
)

// programs is where the programs are that tests run.
var programs string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "vizier-otel-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(programs)
	cmd := exec.Command("go", "build", "-o", programs, "../vizier", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(string(out))
	}
	return m.Run()
}

// fake is a collector that keeps what it is told.
type fake struct {
	mu     sync.Mutex
	spans  map[string]*otlp.Span // by id: the last that was told
	wrong  []string
	status int // that it answers with; 0: it takes what it is told
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status != 0 {
		w.WriteHeader(f.status)
		return
	}
	body, err := io.ReadAll(r.Body)
	var told otlp.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &told)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		f.wrong = append(f.wrong, fmt.Sprint(r.URL.Path, " ", err))
	}
	for _, of := range told.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				f.spans[hex.EncodeToString(s.SpanId)] = s
			}
		}
	}
}

func (f *fake) answers(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

// tree returns what it was told, each span below its parent, in the order of
// their names and times.
func (f *fake) tree() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	below := map[string][]*otlp.Span{}
	for _, s := range f.spans {
		parent := hex.EncodeToString(s.ParentSpanId)
		if f.spans[parent] == nil {
			parent = ""
		}
		below[parent] = append(below[parent], s)
	}
	var out strings.Builder
	var tell func(parent, indent string)
	tell = func(parent, indent string) {
		slices.SortFunc(below[parent], func(a, b *otlp.Span) int {
			return strings.Compare(a.Name+fmt.Sprint(a.StartTimeUnixNano), b.Name+fmt.Sprint(b.StartTimeUnixNano))
		})
		for _, s := range below[parent] {
			fmt.Fprint(&out, indent, s.Name)
			if p := f.spans[parent]; p != nil && string(p.TraceId) != string(s.TraceId) {
				fmt.Fprint(&out, " of another trace")
			}
			if s.Status != nil {
				fmt.Fprintf(&out, " %s: %s", s.Status.Code, s.Status.Message)
			}
			fmt.Fprintln(&out)
			tell(hex.EncodeToString(s.SpanId), indent+"  ")
		}
	}
	tell("", "")
	return out.String()
}

// repository is a repository with the program, and a collector for it.
type repository struct {
	t     *testing.T
	dir   string
	bin   string
	env   []string
	spans *fake
	at    *httptest.Server
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t: t, dir: disktest.Dir(t), bin: t.TempDir(), spans: &fake{spans: map[string]*otlp.Span{}}}
	r.at = httptest.NewServer(r.spans)
	t.Cleanup(r.at.Close)
	for _, name := range []string{"vizier", "vizier-otel"} {
		if err := os.Link(filepath.Join(programs, name), filepath.Join(r.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.env = append(os.Environ(), "HOME="+r.dir, "XDG_CONFIG_HOME="+r.dir, "XDG_STATE_HOME="+r.dir, "VIZIER_SCHEDULER_RESIDENT=false",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=a@example.com")
	for _, args := range [][]string{{"init", "-q"}, {"commit", "-q", "--allow-empty", "-m", "start"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = r.dir, r.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	r.configure(r.at.URL)
	return r
}

func (r *repository) configure(endpoint string) {
	r.t.Helper()
	path := filepath.Join(r.dir, ".vizier", "config.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "[otel]\nendpoint = %q\n", endpoint), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// vizier runs the program, which may fail, and returns what it printed.
func (r *repository) vizier(args ...string) string {
	r.t.Helper()
	cmd := exec.Command(filepath.Join(r.bin, "vizier"), args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		r.t.Fatalf("vizier %v: %v", args, err)
	}
	return string(out)
}

// until asks again and again for what becomes so in another process.
func (r *repository) until(what string, so func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not within a minute: %s; the collector knows\n%s\n%s", what, r.spans.tree(), r.vizier("jobs", "events"))
		}
	}
}

func (r *repository) wantTree(want string) {
	r.t.Helper()
	r.until("the tree\n"+want, func() bool { return r.spans.tree() == want })
	if len(r.spans.wrong) > 0 {
		r.t.Errorf("the collector was told what it does not understand: %v", r.spans.wrong)
	}
}

// template is a run of which the second job fails, so that the third never starts.
const template = `id = "check"
version = "v1"
[[nodes]]
id = "lint"
kind = "shell"
uses = "cap.env.shell.command.run"
args = { script = "exit 3" }
after = [{ node_id = "unit", policy = "success" }]
[[nodes]]
id = "ship"
kind = "shell"
uses = "cap.env.shell.command.run"
args = { script = "true" }
after = [{ node_id = "lint", policy = "success" }]
[[nodes]]
id = "unit"
kind = "shell"
uses = "cap.env.shell.command.run"
args = { script = "true" }
`

// The parents and results of spans: for a run with a failing job, for a job
// that fails once, and for jobs that submit others, in or outside of their run,
// with a submitter that is part of a larger trace.
func TestSpansOfWhatRan(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	if err := os.WriteFile(filepath.Join(r.dir, "check.toml"), []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	r.vizier("run", "./check.toml")
	r.vizier("wait", "1")
	r.vizier("submit", "--name", "twice", "--retries", "1", "--retry-on", "exit", "--", "sh", "-c", "test $VIZIER_ATTEMPT = 2")
	r.vizier("wait", "2")
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	r.env = append(r.env, "TRACEPARENT=00-"+trace+"-"+span+"-01", "TRACESTATE=a=b")
	r.vizier("submit", "--name", "parent", "--", "sh", "-c", `echo "$TRACEPARENT $TRACESTATE"; "$0"/vizier submit --name typed -- true
		echo '{"command":["true"],"name":"written"}' >>"$VIZIER_SUBMISSIONS"`, r.bin)
	r.wantTree(`file:check.toml STATUS_CODE_ERROR: 
  lint STATUS_CODE_ERROR: the script failed (exit 3)
    lint attempt STATUS_CODE_ERROR: the script failed (exit 3)
  ship
  unit
    unit attempt
parent
  parent attempt
    typed
      typed attempt
    written
      written attempt
twice
  twice attempt STATUS_CODE_ERROR: exit code 1
  twice attempt
`)
	own := ""
	for id, s := range r.spans.spans {
		if s.Name == "parent attempt" {
			own = "00-" + trace + "-" + id + "-01"
		}
		if s.Name == "parent" && (hex.EncodeToString(s.TraceId) != trace || hex.EncodeToString(s.ParentSpanId) != span) {
			t.Errorf("the submitter's trace was %s and its span %s; got %v", trace, span, s)
		}
		if s.StartTimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("%s ends before it begins", s.Name)
		}
	}
	if got := r.vizier("tail", "3"); !strings.Contains(got, own+" \n") {
		t.Errorf("the job saw %q, want %q and nothing of the submitter's", got, own)
	}
	if found := r.vizier("doctor"); strings.Contains(found, "otel") {
		t.Errorf("the doctor says %s", found)
	}
}

// A retry is a span of its own; a route that takes jobs back leaves none out.
func TestSpansOfARetry(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.vizier("submit", "--name", "a", "--", "sh", "-c", "test -e ok")
	r.vizier("wait", "1")
	if err := os.WriteFile(filepath.Join(r.dir, "ok"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.vizier("retry", "1")
	r.vizier("wait", "1")
	r.wantTree(`a STATUS_CODE_ERROR: exit code 1
  a attempt STATUS_CODE_ERROR: exit code 1
a
  a attempt
`)
}

// A collector that is away costs nothing but the spans; it is said once in the events,
// and by the doctor until it is back.
func TestACollectorThatIsAway(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.spans.answers(http.StatusForbidden)
	failures := func() int { return strings.Count(r.vizier("jobs", "events"), "hook.failed") }
	r.vizier("submit", "--name", "a", "--", "true")
	r.until("the failure is on record", func() bool { return failures() == 1 })
	r.until("the doctor knows", func() bool {
		return strings.Contains(r.vizier("doctor"), "the last spans could not be sent to "+r.at.URL)
	})
	failed := filepath.Join(r.dir, ".vizier/jobs/hooks/traces.failed")
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, at := range []time.Time{past, past.Add(2 * time.Hour)} { // as if the pause were over, or the clock had been set back
		if err := os.Chtimes(failed, at, at); err != nil {
			t.Fatal(err)
		}
		r.vizier("submit", "--name", "b", "--", "true")
		r.until("it was tried again", func() bool { info, err := os.Stat(failed); return err == nil && !info.ModTime().Equal(at) })
	}
	r.spans.answers(0)
	r.vizier("submit", "--name", "c", "--", "true")
	r.vizier("wait", "4")
	r.until("what is pending is gone", func() bool {
		left, err := filepath.Glob(filepath.Join(r.dir, ".vizier/jobs/hooks/pending/*"))
		return err == nil && len(left) == 0
	})
	if got := r.spans.tree(); got != "" {
		t.Errorf("in the pause it was told\n%s", got)
	}
	if err := os.Chtimes(failed, past, past); err != nil {
		t.Fatal(err)
	}
	r.vizier("submit", "--name", "d", "--", "true")
	r.wantTree("d\n  d attempt\n")
	r.until("all is well", func() bool { return !strings.Contains(r.vizier("doctor"), "otel") })
	if n := failures(); n != 1 {
		t.Errorf("%d failures are on record, want the first", n)
	}
}

// A collector takes only UTF-8 text, which the path of a repository need not be.
func TestARepositoryWhosePathIsNotText(t *testing.T) {
	f := &fake{spans: map[string]*otlp.Span{}}
	collector := httptest.NewServer(f)
	defer collector.Close()
	now := time.Now()
	err := new(exporter).export(t.Context(), collector.URL, "/caf\xe9", []trace.Span{{Trace: trace.ID{1}, ID: trace.SpanID{1}, Name: "build", Start: now, End: now}})
	if err != nil || len(f.spans) != 1 || len(f.wrong) > 0 {
		t.Errorf("%v, %v, %v", err, f.spans, f.wrong)
	}
}

// Somebody else's configuration has nobody told of what runs here, before it is trusted.
func TestAForeignCollector(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	for _, args := range [][]string{{"add", "-f", ".vizier/config.toml"}, {"commit", "-q", "-m", "config"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = r.dir, r.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	r.vizier("submit", "--name", "a", "--", "true")
	r.until("what is pending is gone", func() bool {
		ended := strings.Contains(r.vizier("jobs", "events"), "job.succeeded") // told after it is pending, so asked before
		left, err := filepath.Glob(filepath.Join(r.dir, ".vizier/jobs/hooks/pending/*"))
		return err == nil && len(left) == 0 && ended
	})
	if got := r.vizier("status"); !strings.Contains(got, "not trusted here: otel.endpoint of the repository's configuration: nobody is sent spans") {
		t.Errorf("status says %s", got)
	}
	r.vizier("trust", "--yes")
	r.vizier("submit", "--name", "b", "--", "true")
	r.wantTree("b\n  b attempt\n")
}

// If the program is not installed, jobs run, and the doctor reports it.
func TestWithoutTheProgram(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	if err := os.Remove(filepath.Join(r.bin, "vizier-otel")); err != nil {
		t.Fatal(err)
	}
	r.vizier("submit", "--name", "a", "--", "true")
	r.until("it ran", func() bool { return strings.Contains(r.vizier("jobs", "events"), "job.succeeded") })
	if got := r.vizier("doctor"); !strings.Contains(got, "vizier-otel, which sends the spans, is not beside this program") {
		t.Errorf("the doctor says %s", got)
	}
}

// An endpoint that is no address is refused where it stands.
func TestAnEndpointThatIsNone(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	for _, endpoint := range []string{"localhost:4318", "grpc://localhost:4317", "http://", "http://h:1?x=y"} {
		r.configure(endpoint)
		if got := r.vizier("ls"); !strings.Contains(got, ".vizier/config.toml:2") || !strings.Contains(got, "expected an address such as") {
			t.Errorf("%s: %s", endpoint, got)
		}
	}
}

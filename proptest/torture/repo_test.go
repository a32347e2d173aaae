package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// repo is a git repository with one commit, and the program to run in it.
type repo struct {
	t   testing.TB
	dir string
	bin string
	env []string // besides the usual one

	// resident lets a resident scheduler start. Most tests have none, so that they
	// determine themselves when there is a tick.
	resident bool
}

func newRepo(t testing.TB, bin, config string) *repo {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return repoAt(t, dir, bin, config)
}

func repoAt(t testing.TB, dir, bin, config string) *repo {
	t.Helper()
	r := &repo{t: t, dir: dir, bin: bin}
	r.git("init", "-q", "-b", "main")
	r.git("commit", "-q", "--allow-empty", "-m", "start")
	if !strings.Contains(config, "max_running") { // the default is the number of processors
		head, rest, found := strings.Cut(config, "[scheduler]\n")
		if !found {
			head, rest = "", config
		}
		config = head + "[scheduler]\nmax_running = 4\n" + rest
	}
	r.write(".vizier/config.toml", config)
	t.Cleanup(r.endAll)
	return r
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = r.dir, r.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repo) environ() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "TMPDIR=" + os.TempDir(), "USER=ann",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=a@b"}
	if !r.resident {
		env = append(env, "VIZIER_SCHEDULER_RESIDENT=false")
	}
	return append(env, r.env...)
}

func (r *repo) path(rel ...string) string { return filepath.Join(append([]string{r.dir}, rel...)...) }

func (r *repo) jobPath(id, name string) string { return r.path(".vizier", "jobs", id, name) }

func (r *repo) write(rel, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(rel)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.path(rel), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// read reads a file, which may be in a job's pack.
func (r *repo) read(path string) string {
	r.t.Helper()
	b, err := os.ReadFile(path)
	if rel, below := strings.CutPrefix(path, r.path(".vizier", "jobs")+"/"); below && errors.Is(err, fs.ErrNotExist) {
		id, name, _ := strings.Cut(rel, "/")
		packed, failed := exec.CommandContext(r.t.Context(), "tar", "-xzOf", r.path(".vizier", "jobs", id+".tar.gz"), name).Output()
		if failed == nil {
			return string(packed)
		}
		b, err = os.ReadFile(path) // perhaps it has just been unpacked
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// result is how a command ended.
type result struct {
	out, err string
	code     int // -1: by a signal
}

func (r *repo) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.bin, args...)
	cmd.Dir, cmd.Env = r.dir, r.environ()
	return cmd
}

// run runs vizier to its end.
func (r *repo) run(args ...string) result {
	r.t.Helper()
	return r.finish(r.command(args...))
}

func (r *repo) runWith(stdin string, args ...string) result {
	r.t.Helper()
	cmd := r.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	return r.finish(cmd)
}

func (r *repo) finish(cmd *exec.Cmd) result {
	r.t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	guard := time.AfterFunc(patience, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }) // prints where it hangs
	defer guard.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatalf("vizier %s: %v\n%s", strings.Join(cmd.Args[1:], " "), err, errs.String())
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// ok runs vizier, which must succeed, and returns what it printed.
func (r *repo) ok(args ...string) string {
	r.t.Helper()
	return r.exits(0, args...).out
}

// exits runs vizier, which must exit with code.
func (r *repo) exits(code int, args ...string) result {
	r.t.Helper()
	res := r.run(args...)
	if res.code != code {
		r.t.Fatalf("vizier %s: exit %d, want %d\n%s%s", strings.Join(args, " "), res.code, code, res.out, res.err)
	}
	return res
}

// submit enqueues a job and returns its id. args are its flags and its command.
func (r *repo) submit(args ...string) string {
	r.t.Helper()
	return submitted(r.t, r.ok(append([]string{"jobs", "submit", "--format", "json"}, args...)...))
}

// tells reports whether text names a job, by its id or by its number.
func (r *repo) tells(text, id string) bool {
	r.t.Helper()
	var rec struct{ Number int }
	if err := json.Unmarshal([]byte(r.read(r.jobPath(id, "job.json"))), &rec); err != nil {
		r.t.Fatal(err)
	}
	n := strconv.Itoa(rec.Number)
	return strings.Contains(text, id) || regexp.MustCompile(`(?m)(^|^Job |  )`+n+`( |:|$)`).MatchString(text)
}

// submitted returns the id in the document that submit prints of one job.
func submitted(t testing.TB, text string) string {
	t.Helper()
	var doc struct{ Jobs []struct{ Job string } }
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Jobs) != 1 {
		t.Errorf("submit: %v in %s", err, text)
		return ""
	}
	return doc.Jobs[0].Job
}

// wait waits until the jobs are terminal and returns the exit code.
func (r *repo) wait(ids ...string) int {
	r.t.Helper()
	res := r.run(append([]string{"jobs", "wait", "--timeout", patience.String()}, ids...)...)
	if res.code == 124 || res.code < 0 || res.code == 2 {
		r.t.Fatalf("jobs wait: exit %d\n%s%s", res.code, res.out, res.err)
	}
	return res.code
}

// record is what the tests read of a job.json.
type record struct {
	ID         string  `json:"id"`
	Status     string  `json:"status"`
	State      string  `json:"state"`
	Name       string  `json:"name"`
	Attempt    int     `json:"attempt"`
	Generation int     `json:"generation"`
	Reclaims   int     `json:"reclaims"`
	ExitCode   *int    `json:"exit_code"`
	Class      string  `json:"failure_class"`
	Reason     *string `json:"failure_reason"`
	CreatedAt  string  `json:"created_at"`
	Schedule   struct {
		Wait *struct{ Kind, Detail string } `json:"wait_reason"`
	} `json:"schedule"`
}

func (r *repo) record(id string) record {
	r.t.Helper()
	var rec record
	if err := json.Unmarshal([]byte(r.read(r.jobPath(id, "job.json"))), &rec); err != nil {
		r.t.Fatalf("record of %s: %v", id, err)
	}
	return rec
}

// is asserts the status of a job and its failure class; "": none.
func (r *repo) is(id, status, class string) record {
	r.t.Helper()
	rec := r.record(id)
	if rec.Status != status || rec.Class != class {
		r.t.Fatalf("job %s is %s %q, want %s %q", id, rec.Status, rec.Class, status, class)
	}
	return rec
}

// lines returns the lines of a file of the repository.
func (r *repo) lines(rel string) []string {
	r.t.Helper()
	return strings.Split(strings.TrimSpace(r.read(r.path(rel))), "\n")
}

// until waits for a condition. It fails the test if the condition never holds.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gofrs/flock"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// examples returns one error of each class, with its exit code.
func examples() map[string]struct {
	err  error
	exit int
} {
	return map[string]struct {
		err  error
		exit int
	}{
		"usage":            {usageError(errors.New("x")), 2},
		"config":           {fmt.Errorf("open: %w", &config.Error{Findings: []config.Finding{{Place: "f:1", Text: "x"}}}), 2},
		"invalid":          {fmt.Errorf("artifact: %w", kernel.ErrInvalid), 2},
		"not_a_repository": {fmt.Errorf("open: %w", git.ErrNotRepository), 1},
		"not_found":        {fmt.Errorf("job x: %w", kernel.ErrNotFound), 1},
		"conflict":         {fmt.Errorf("job x: %w", kernel.ErrConflict), 1},
		"running":          {fmt.Errorf("job x: %w", kernel.ErrRunning), 1},
		"stale":            {fmt.Errorf("job x: %w", kernel.ErrStale), 1},
		"refused":          {refuse(errors.New("no"), ""), 10},
		"newer":            {fmt.Errorf("journal: %w", fs.ErrNewer), 1},
		"busy":             {fmt.Errorf("submit: %w", app.ErrBusy), 1},
		"timeout":          {fmt.Errorf("wait: %w", context.DeadlineExceeded), 124},
		"interrupted":      {fmt.Errorf("wait: %w", context.Canceled), 130},
		"failed":           {io.ErrUnexpectedEOF, 1},
	}
}

func TestErrorsHaveClassesAndExitCodes(t *testing.T) {
	topic, err := helpPages.ReadFile("help/exit-codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schemas", "error.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	for code, e := range examples() {
		var text, doc bytes.Buffer
		if got := (&ui{err: &text}).fail(e.err, false); got != e.exit {
			t.Errorf("%s: exit %d, want %d", code, got, e.exit)
		}
		if got := (&ui{err: &doc}).fail(e.err, true); got != e.exit {
			t.Errorf("%s: exit %d in JSON, want %d", code, got, e.exit)
		}
		for line := range strings.Lines(text.String()) {
			if !strings.HasPrefix(line, "vizier: ") {
				t.Errorf("%s: %q", code, line)
			}
		}
		has(t, doc.String(), `"code":"`+code+`"`)
		has(t, string(topic), code, fmt.Sprintf("%5d  ", e.exit))
		value, err := jsonschema.UnmarshalJSON(&doc)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestErrorsInJSONGoToStandardError(t *testing.T) {
	w := newFake(t)
	for code, args := range map[string][]string{
		"not_found": {"jobs", "show", "nope", "--format", "json"},
		"usage":     {"jobs", "list", "--format=json", "--nope"},
	} {
		_, out, err := w.run(args...)
		var doc errorDocument
		decode(t, err, &doc)
		if out != "" || doc.Error.Code != code || doc.Error.Message == "" || doc.Error.Hint == "" {
			t.Errorf("%q on standard output; %+v", out, doc)
		}
	}
	_, _, err := w.run("jobs", "submit", "--zzz", "--", "--format", "json")
	has(t, err, "vizier: unknown flag --zzz\nvizier: hint: vizier jobs submit --help\n")
}

func TestBusyAndBrokenOutput(t *testing.T) {
	w := newFake(t)
	w.busy = true
	has(t, w.fails(1, "jobs", "submit", "--", "true"), "scheduler is busy; retry the command", "hint: ")
	_, _, warned := w.run("jobs", "list")
	has(t, warned, "pid 7, vizier submit does not let go of the scheduler lock")
	w.busy = false
	var err bytes.Buffer
	p := program{args: []string{"jobs", "list"}, stdout: brokenWriter{}, stderr: &err, env: w.env, open: w.open}
	if code := p.runWith(t.Context()); code != 1 {
		t.Errorf("exit %d", code)
	}
	has(t, err.String(), "vizier: write output: no space", "only the output is lost", "repeat one that changes something")
}

// An exit code that is an answer stays, and whoever reads it hears that the output is lost.
func TestAnAnswerWhoseOutputIsLost(t *testing.T) {
	w := newFake(t)
	job := string(w.submit("--approval"))
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"what-if", "--cancel", job}, 2}, // 1: something would change
		{[]string{"what-if", "--after", "1s"}, 2}, // 0: nothing would
		{[]string{"status", "--attention"}, 10},
	} {
		var err bytes.Buffer
		p := program{args: c.args, stdout: brokenWriter{}, stderr: &err, env: w.env, open: w.open}
		if code := p.runWith(t.Context()); code != c.want {
			t.Errorf("%q: exit %d, want %d", c.args, code, c.want)
		}
		has(t, err.String(), "vizier: write output: no space")
	}
}

// An interrupt ends the wait for an answer.
func TestInterruptedAnswer(t *testing.T) {
	in, person := io.Pipe()
	defer person.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	c := &call{program: &program{stdin: in}, ctx: ctx}
	interrupt()
	if line, err := c.typed(); line != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", line, err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestOutsideARepository(t *testing.T) {
	w := newFake(t)
	p := program{args: []string{"jobs", "list"}, stdout: io.Discard, stderr: &bytes.Buffer{}, env: w.env,
		open: func(context.Context, environment, globals) (*repo, error) { return nil, git.ErrNotRepository }}
	if code := p.runWith(t.Context()); code != 1 {
		t.Errorf("exit %d", code)
	}
	has(t, p.stderr.(*bytes.Buffer).String(), "vizier cannot be used outside a git repository\n", "hint: git init")
	for _, args := range [][]string{{"help"}, {"version"}, {"--version"}, {"completions", "fish"}, {"__complete", "jobs", "show", ""}} {
		p.args = args
		if code := p.runWith(t.Context()); code != 0 {
			t.Errorf("%q: exit %d", args, code)
		}
	}
}

// An error that consists of several has them one by one, whatever it is about.
func TestErrorsThatConsistOfSeveral(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []finding
	}{
		{errors.New("x"), nil},
		{fmt.Errorf("%w: %w", kernel.ErrInvalid, io.EOF), nil},
		{usageError(errors.Join(fmt.Errorf("--a: %w", kernel.ErrInvalid), errors.Join(errors.New("b"), errors.New("c")))), []finding{{Message: "--a"}, {Message: "b"}, {Message: "c"}}},
		{fmt.Errorf("open: %w", &config.Error{Findings: []config.Finding{{Place: "a:b.toml:12", Text: "x"}, {Place: "f", Text: "y"}, {Place: "env A:1", Text: "z"}}}),
			[]finding{{Message: "x", File: "a:b.toml", Line: 12}, {Message: "y", File: "f"}, {Message: "env A:1: z"}}},
		{&enqueue.BatchError{Lines: []enqueue.LineError{{Line: 3, Text: "x"}}, More: 2}, []finding{{Message: "x", Line: 3}}},
		{&enqueue.InputError{Err: workflow.Diagnostics{{Pos: workflow.Pos{File: "t", Line: 1}, Node: "n", Field: "f", Msg: "m", Hint: "h"}}}, []finding{{"m", "t", 1, "n", "f", "h"}}},
	} {
		if got := findingsOf(c.err); !slices.Equal(got, c.want) {
			t.Errorf("%v: %+v, want %+v", c.err, got, c.want)
		}
	}
}

// An error is one line, also where it quotes a word of the command line or of a
// batch that is more than one; several errors of one line stay several.
func TestErrorsQuoteOnOneLine(t *testing.T) {
	for _, c := range []struct {
		args  []string
		batch string
		says  []string
	}{
		{args: []string{"submit", "--executor=a\nb", "--", "true"}, says: []string{`no executor named a\nb in`, `add [executors.a\nb]`}},
		{args: []string{"config", "show", "a\nb"}, says: []string{`unexpected argument a\nb`}},
		{args: []string{"ls", "--status", "a\nb"}, says: []string{`--status a\nb: expected`}},
		{args: []string{"submit", "--batch"}, batch: `{"command":["true"],"after":["x\ny"]}`, says: []string{`line 1: unknown --after job id: x\ny: no such job`}},
		{args: []string{"submit", "--batch"}, batch: `{"command":["true"],"executor":"a\nb"}`, says: []string{`line 1: there is no executor named a\nb in`}},
		{args: []string{"submit", "--batch"}, batch: `{"command":["true"],"timeout":"a\nb","produce":["x\ny"]}`,
			says: []string{`line 1: --produce: artifact "x\ny"`, `line 1: --timeout "a\nb": expected`}},
		{args: []string{"submit", "--batch"}, batch: `{"command":["true"],"ref":"a\nb","after":["a\nb"]}`, says: []string{`line 1: invalid --after self dependency: a\nb`}},
	} {
		_, _, err := newFake(t).runIn(c.batch, c.args...)
		has(t, err, c.says...)
		for line := range strings.Lines(err) {
			if !strings.HasPrefix(line, "vizier: hint: ") && !slices.ContainsFunc(c.says, func(say string) bool { return strings.Contains(line, say) }) {
				t.Errorf("%q %s: %q is a line of %q", c.args, c.batch, line, err)
			}
		}
	}
}

// fewFiles is a git that cannot be started for lack of file descriptors.
type fewFiles struct{ worktreeGit }

func (fewFiles) ProgramVersion(context.Context) (string, bool, error) {
	return "", false, fmt.Errorf("git version: %w", os.NewSyscallError("pipe2", syscall.EMFILE))
}

// A git that is there and cannot be started is not to be installed.
func TestTheDoctorOfTooFewFiles(t *testing.T) {
	r := &repo{}
	r.Doctor.git = fewFiles{}
	found, err := r.checkGit(t.Context(), nil)
	if err != nil || len(found) != 1 || found[0].Next != "raise the limit of open files (`ulimit -n`)" {
		t.Errorf("%+v, %v", found, err)
	}
}

// Every command says what to do about too many open files.
func TestTooManyOpenFiles(t *testing.T) {
	for _, is := range []error{syscall.EMFILE, syscall.ENFILE} {
		var text bytes.Buffer
		(&ui{err: &text}).fail(fmt.Errorf("open journal: %w", &os.PathError{Op: "open", Path: "plans", Err: is}), false)
		has(t, text.String(), "vizier: hint: raise the limit of open files (`ulimit -n`)\n")
	}
}

// The doctor says who does not let go of the scheduler lock, and what else it can tell without it.
func TestTheDoctorDoesWithoutALockThatIsNotLetGo(t *testing.T) {
	root := t.TempDir()
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "HOME="+t.TempDir(), "VIZIER_SCHEDULER_RESIDENT=false")
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	run("git", "init", "-q")
	run("vizier", "submit", "--approval", "--", "true")
	lock := flock.New(filepath.Join(root, ".vizier", "jobs", "scheduler.lock"))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	out := run("vizier", "doctor")
	has(t, out, "does not let go of the scheduler lock", "if it is stopped, `kill -CONT` lets it continue", "Git:")
	if strings.Contains(out, "vizier submit") {
		t.Errorf("it names a command that has ended: %s", out)
	}
	has(t, run("env", "VIZIER_SCHEDULER_LOCK_TIMEOUT=1s", "vizier", "doctor", "--fix"), "scheduler is busy; retry the command")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if out := run("vizier", "doctor"); strings.Contains(out, "let go") {
		t.Error(out)
	}
}

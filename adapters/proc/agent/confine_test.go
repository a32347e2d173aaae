package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/kernel"
)

var errRefused = errors.New("refused on purpose")

// A script in a container is the command line that runs it there, with that one's environment. Without one it does not run.
func TestAScriptInAContainer(t *testing.T) {
	var got []string
	s := Shell{Contain: func(dir string, args, env []string) ([]string, []string, error) {
		got = append([]string{dir, fmt.Sprint(strings.Contains(strings.Join(env, "\n"), "OWN=1"))}, args...)
		return []string{"/bin/sh", "-c", "echo $BOX $OWN"}, []string{"BOX=in the box"}, nil
	}, Confine: func(string, ...string) (*sandbox.Policy, error) { return nil, errRefused }}
	dir := t.TempDir()
	out, exit, err := s.Output(t.Context(), dir, "exit 5", []string{"OWN=1"}, 100)
	if string(out) != "in the box\n" || exit != 0 || err != nil {
		t.Errorf("%q, %d, %v", out, exit, err)
	}
	if want := []string{dir, "true", "sh", "-c", "exit 5"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("asked for %q", got)
	}
	s.Contain = func(string, []string, []string) ([]string, []string, error) { return nil, nil, errRefused }
	if _, exit, err := s.Output(t.Context(), dir, "touch ran", nil, 100); exit != 0 || err == nil || err.Error() != "start sh: refused on purpose" {
		t.Errorf("without a container: %d, %v", exit, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
		t.Error("it ran outside of one")
	}
}

// A script in a sandbox is started by way of the step into it, and what it left is looked at once it has ended. Where there is no sandbox for
// its directory it runs as it is; if that is not known, it does not run.
func TestAScriptInASandbox(t *testing.T) {
	dir := t.TempDir()
	var policy *sandbox.Policy
	var refused, left error
	var looked []string
	s := Shell{
		Confine: func(dir string, also ...string) (*sandbox.Policy, error) { return policy, refused },
		Step:    []string{"/bin/sh", "-c", `echo "$@"; env | grep OWN=; exit 3`, "step"},
		Ended:   func(dir string) error { looked = append(looked, dir); return left },
	}
	run := func() (string, int, error) {
		t.Helper()
		out, exit, err := s.Output(t.Context(), dir, "echo ran; exit 4", []string{"OWN=1"}, 1000)
		return string(out), exit, err
	}
	if out, exit, err := run(); out != "ran\n" || exit != 4 || err != nil {
		t.Errorf("without one: %q, %d, %v", out, exit, err)
	}
	policy = &sandbox.Policy{Write: []string{"/w"}}
	out, exit, err := run()
	if !strings.HasPrefix(out, sandbox.Entry+" {") || !strings.HasSuffix(out, "/sh sh -c echo ran; exit 4\n_OWN=1\n") || !strings.Contains(out, `"Write":["/w"]`) || exit != 3 || err != nil {
		t.Errorf("%q, %d, %v", out, exit, err)
	}
	if want := []string{dir, dir}; fmt.Sprint(looked) != fmt.Sprint(want) {
		t.Errorf("looked at %q", looked)
	}
	left = errors.New("it left a mess")
	if _, exit, err := run(); exit != 1 || !errors.Is(err, left) {
		t.Errorf("it left a mess: %d, %v", exit, err)
	}
	looked, refused = nil, errRefused
	if out, exit, err := run(); out != "" || exit != 0 || err == nil || err.Error() != "start sh: refused on purpose" || len(looked) > 0 {
		t.Errorf("%q, %d, %v, looked at %q", out, exit, err, looked)
	}
	s.Confine = nil
	if out, exit, err := run(); out != "ran\n" || exit != 4 || err != nil || len(looked) > 0 {
		t.Errorf("without any: %q, %d, %v, looked at %q", out, exit, err, looked)
	}
}

// Captured output that goes on record has no secrets.
func TestCapturedOutputHasNoSecrets(t *testing.T) {
	s := Shell{Hide: func(text []byte) []byte { return []byte(strings.ReplaceAll(string(text), "secret", "***")) }}
	if out, exit, err := s.Output(t.Context(), t.TempDir(), "echo a secret", nil, 100); string(out) != "a ***\n" || exit != 0 || err != nil {
		t.Errorf("%q, %d, %v", out, exit, err)
	}
}

// A script may leave a process behind that holds its output; that is said.
func TestAScriptThatLeavesAProcessBehind(t *testing.T) {
	dir := t.TempDir()
	var said output
	s := Shell{Grace: time.Millisecond, Stderr: &said}
	_, exit, err := s.Output(t.Context(), dir, "sleep 300 & echo $! >left", nil, 100)
	text, unread := os.ReadFile(filepath.Join(dir, "left"))
	left, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if unread != nil || bad != nil {
		t.Fatal(unread, bad)
	}
	_ = syscall.Kill(left, syscall.SIGKILL)
	if want := "warning: sh ended and left a process behind that holds its output\n"; exit != 0 || err != nil || said.String() != want {
		t.Errorf("%d, %v, %q", exit, err, said.String())
	}
	if _, _, err := s.Output(t.Context(), dir+"/gone", "true", nil, 100); err == nil || err.Error() != "working directory "+dir+"/gone does not exist" {
		t.Error(err)
	}
}

// broken takes nothing.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, fs.ErrClosed }

// Whatever keeps an agent from its answer is an error that names the agent.
func TestWhatKeepsAnAgentFromItsAnswer(t *testing.T) {
	x := newTrial(t, Settings{Label: "mine", Command: []string{"echo", "done"}})
	x.Stdout = broken{}
	if _, _, err := x.ask(t, "", 10); !errors.Is(err, fs.ErrClosed) || err.Error() != "agent mine: file already closed" {
		t.Errorf("its output cannot be written: %v", err)
	}
	x, _ = standIn(t, Settings{Label: "codex"}, codexDone)
	x.Stdout = broken{}
	if _, _, err := x.ask(t, "", 10); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("its answer cannot be written: %v", err)
	}
	x.Stdout = &x.out
	x.Confine = func(string, ...string) (*sandbox.Policy, error) { return nil, errRefused }
	x.Select = func(*kernel.Job) (Settings, error) { return Settings{Label: "claude"}, nil }
	if err := os.Rename(filepath.Join(os.Getenv("HOME"), "codex"), filepath.Join(os.Getenv("HOME"), "claude")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.ask(t, "", 10); err == nil || err.Error() != "agent claude: start claude: refused on purpose" {
		t.Errorf("it cannot be started: %v", err)
	}
	x.Select = func(*kernel.Job) (Settings, error) { return Settings{}, errRefused }
	if _, _, err := x.ask(t, "", 10); !errors.Is(err, errRefused) {
		t.Errorf("it cannot be chosen: %v", err)
	}
	x = newTrial(t, Settings{Label: "mine", Command: []string{"echo", "done"}})
	t.Setenv("TMPDIR", x.dir+"/gone")
	if _, _, err := x.ask(t, "", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it cannot have a directory: %v", err)
	}
}

// Codex keeps its commands to a sandbox of its own, which does not work in another one: unless the job asks for that one, it is told that
// there is none, and runs in none.
func TestAnAgentWithASandboxOfItsOwn(t *testing.T) {
	for _, mode := range []kernel.SandboxMode{kernel.BestEffortSandbox, kernel.RequiredSandbox} {
		x, _ := standIn(t, Settings{Label: "codex"}, codexDone)
		var apart []string
		x.Apart = func(program string) { apart = append(apart, program) }
		x.Confine = func(string, ...string) (*sandbox.Policy, error) { return nil, errRefused }
		job := &kernel.Job{}
		job.Spec.Task.Sandbox.Mode = mode
		r, err := x.Run(t.Context(), kernel.AgentRequest{Job: job, Dir: x.dir, Limit: 100})
		if mode == kernel.RequiredSandbox {
			if !errors.Is(err, errRefused) || len(apart) > 0 {
				t.Errorf("required: %v, %q", err, apart)
			}
			continue
		}
		if err != nil || string(r.Text) != "done\n" || fmt.Sprint(apart) != "[codex]" {
			t.Errorf("%q, %v, told of %q", r.Text, err, apart)
		}
		if want := "codex keeps its commands to a sandbox of its own, and is in no other\n"; !strings.Contains(x.err.String(), want) {
			t.Errorf("said %q", x.err.String())
		}
		x.Apart = nil
		if r, err := x.Run(t.Context(), kernel.AgentRequest{Job: job, Dir: x.dir, Limit: 100}); err != nil || string(r.Text) != "done\n" {
			t.Errorf("with nobody to tell: %q, %v", r.Text, err)
		}
	}
}

// A session is continued only by the agent that had it.
func TestASessionOfAnotherAgent(t *testing.T) {
	x := newTrial(t, Settings{Label: "mine", Command: []string{"sh", "-c", `echo "[$VIZIER_AGENT_SESSION]"`}})
	for agent, want := range map[string]string{"mine": "[s1]\n", "other": "[]\n"} {
		job := &kernel.Job{}
		job.State.Agent = &kernel.AgentState{Last: kernel.AgentRun{Agent: agent}}
		r, err := x.Run(t.Context(), kernel.AgentRequest{Job: job, Dir: x.dir, Session: "s1", Limit: 100})
		if string(r.Text) != want || err != nil {
			t.Errorf("of %s: %q, %v", agent, r.Text, err)
		}
	}
}

// The output of a known agent goes through the user's own filter as it is, and the agent has what it needs.
func TestAKnownAgentWithAFilterOfTheUsers(t *testing.T) {
	x, args := standIn(t, Settings{Label: "gemini", Permissions: MayRun, Filter: []string{"tr", "a-z", "A-Z"}}, `echo "it said $GEMINI_CLI_TRUST_WORKSPACE"`)
	r := x.request(t, kernel.AgentRequest{})
	words, err := os.ReadFile(args)
	if err != nil || !strings.Contains(string(words), "stream-json") {
		t.Errorf("asked with %q, %v", words, err)
	}
	if string(r.Text) != "IT SAID TRUE\n" {
		t.Errorf("%q", r.Text)
	}
}

// What is no event is shown as it is, unless it is longer than any event.
func TestWhatIsNoEvent(t *testing.T) {
	for _, p := range programs {
		if got := replay(p, "", []byte("not json\n{}\n"), nil, 0, 100).progress; got != "not json\n{}\n" {
			t.Errorf("%s: %q", p.Name, got)
		}
	}
	long := append(bytes.Repeat([]byte("x"), maxLine+1), '\n')
	if got := replay(codex, "", long, nil, 0, len(long)).progress; got != "warning: a line of more than 16777216 bytes is dropped\n" {
		t.Errorf("%.100q", got)
	}
}

// A report is a file of the agent's own, and no other: else it counts as none, and that is said.
func TestWhatIsNoReport(t *testing.T) {
	x := newTrial(t, Settings{Label: "mine", Command: []string{"sh", "-c", `mkdir "$VIZIER_AGENT_REPORT"; echo done`}})
	if r := x.request(t, kernel.AgentRequest{}); string(r.Text) != "done\n" || !strings.Contains(x.err.String(), "warning: what agent mine told in $VIZIER_AGENT_REPORT is not taken: ") {
		t.Errorf("%q, said %q", r.Text, x.err.String())
	}
}

// Why a program cannot be used is said in its own words, if it has any.
func TestAProgramThatDoesNotAnswerAProbe(t *testing.T) {
	bench(t, map[string]string{"claude": `[ "$1" = --version ] && echo 9.1.0 || exit 3`})
	f := Agents{}.Probe(t.Context(), Settings{Label: "claude"})
	if want := "! claude does not start: `claude --help` fails: exit status 3 -> npm install -g @anthropic-ai/claude-code@"; !strings.HasPrefix(faults(f), want) || f.Version != "9.1.0" {
		t.Errorf("%s, want %s", faults(f), want)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	f = Agents{}.Probe(ctx, Settings{Label: "claude"})
	if want := fmt.Sprintf("! claude does not start: `claude --version` did not answer within %s -> npm install -g @anthropic-ai/claude-code@", probeTime); !strings.HasPrefix(faults(f), want) {
		t.Errorf("%s, want %s", faults(f), want)
	}
}

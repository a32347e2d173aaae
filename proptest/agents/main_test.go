// Package agents runs Claude Code, Codex and Gemini, as they are installed from
// npm, against a stand-in for their models, without a terminal and without cost:
// each by itself, and as the agents of real flows. `make test-agents` installs
// them and says where they are.
package agents

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/agent"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/proptest/agents/model"
)

var (
	programs string // the directory of the programs
	homes    string // the directory of their homes, in which they keep their files
	wrappers string // scripts of the programs' names, which give each trial its environment
	vizier   string // the program under test
)

// TestMain says why nothing is tested if the programs are not installed.
func TestMain(m *testing.M) {
	programs = os.Getenv("VIZIER_TEST_AGENTS")
	if programs == "" {
		fmt.Println("skipped: no agents; make test-agents installs them")
		return
	}
	code, err := prepared(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepared(m *testing.M) (int, error) {
	// Codex does not like its home to be below the temporary directory.
	homes, err := os.MkdirTemp(filepath.Dir(filepath.Dir(programs)), "homes-")
	if err != nil {
		return 1, err
	}
	defer func() {
		for range 50 { // Codex goes on writing for a moment
			if os.RemoveAll(homes) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	if err := prepare(homes); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func prepare(dir string) error {
	homes, wrappers = dir, filepath.Join(dir, "bin")
	vizier = filepath.Join(dir, "vizier", "vizier")
	build := exec.Command("go", "build", "-o", vizier, "github.com/vizier-scheduler/vizier/cmd/vizier")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build vizier: %w\n%s", err, out)
	}
	if err := os.Mkdir(wrappers, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"claude", "codex", "gemini"} {
		script := "#!/bin/sh\nif [ -f ../environment ]; then . ../environment; fi\n" +
			"if [ \"$1\" = exec ]; then shift; set -- exec -c \"model_providers.mock.base_url=\\\"$CODEX_URL\\\"\" \"$@\"; fi\n" +
			"if [ -n \"$RECORD\" ] && [ \"$1\" != --version ]; then\n" +
			"\t" + filepath.Join(programs, name) + " \"$@\" >\"$RECORD.out\" 2>\"$RECORD.err\"; code=$?\n" +
			"\tcat \"$RECORD.out\"; cat \"$RECORD.err\" >&2; echo $code >\"$RECORD.exit\"; exit $code\nfi\n" +
			"exec " + filepath.Join(programs, name) + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(wrappers, name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(os.Setenv("PATH", wrappers+":"+os.Getenv("PATH")),
		os.Setenv("HOME", filepath.Join(dir, "home")), os.Setenv("CODEX_HOME", filepath.Join(dir, "home", ".codex")),
		put(filepath.Join(dir, "home", ".codex", "config.toml"), codexConfig), put(filepath.Join(dir, "home", ".gemini", "settings.json"), geminiSettings))
}

// The configurations of the programs. They share a home, since vizier, which runs
// in this process, looks into it.
const (
	codexConfig = `model_provider = "mock"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.mock]
name = "mock"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
`
	geminiSettings = `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},` +
		`"general":{"maxAttempts":2,"enableAutoUpdate":false,"enableAutoUpdateNotification":false}}`
)

// trial is a repository and a model.
type trial struct {
	*testing.T
	model *model.Server
	base  string // the directory that contains repo and the file environment
	repo  string
	more  []string // more environment variables
}

func newTrial(t *testing.T, name string) *trial {
	t.Helper()
	s := model.New()
	t.Cleanup(s.Close)
	base, err := os.MkdirTemp(homes, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	x := &trial{T: t, model: s, base: base, repo: filepath.Join(base, "repo")}
	x.write("repo/README", "a repository\n")
	x.at(name)
	x.sh("git init -q -b main . && git add -A && git commit -q -m start")
	return x
}

// at makes the model do what the case with this name prescribes.
func (x *trial) at(name string) {
	x.Helper()
	url := x.model.URL + "/" + name
	var b strings.Builder
	for _, v := range append(x.environment(url), x.more...) {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "export %s='%s'\n", name, value)
	}
	x.write("environment", b.String())
}

// environment returns the variables that the programs of a trial need, and those
// that prevent them from sending data to their makers.
func (x *trial) environment(url string) []string {
	return []string{"CODEX_URL=" + url + "/v1",
		"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-test", "OPENAI_API_KEY=sk-test", "GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=test",
		"CLAUDE_CODE_MAX_RETRIES=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
		"GEMINI_TELEMETRY_ENABLED=false",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=ann@example.com",
		"GIT_CONFIG_GLOBAL=/dev/null"}
}

func (x *trial) write(name, text string) {
	x.Helper()
	if err := put(filepath.Join(x.base, name), text); err != nil {
		x.Fatal(err)
	}
}

func put(path, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// read returns a file of the repository; "" when it is not there.
func (x *trial) read(name string) string {
	data, err := os.ReadFile(filepath.Join(x.repo, name))
	if err != nil && !os.IsNotExist(err) {
		x.Fatal(err)
	}
	return string(data)
}

// sh runs a script in the repository, with the trial's environment.
func (x *trial) sh(script string) string {
	x.Helper()
	out, err := x.try(script)
	if err != nil {
		x.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

func (x *trial) try(script string) (string, error) {
	cmd := exec.Command("sh", "-c", ". ../environment\n"+script)
	cmd.Dir = x.repo
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(vizier)+":"+os.Getenv("PATH"), "VIZIER_CONFIG_DIR="+x.base+"/none")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// said collects what an agent writes: its answer or its progress.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// asked is how an agent ended and what it wrote on the way.
type asked struct {
	kernel.AgentAnswer
	progress, stdout string
	took             time.Duration
}

// agents runs the agents of a trial.
func (x *trial) agents(s agent.Settings, progress *said) agent.Agents {
	return agent.Agents{Shell: agent.Shell{Stdout: &said{}, Stderr: progress, Grace: 5 * time.Second}, Root: x.repo, Self: vizier,
		Select: func(*kernel.Job) (agent.Settings, error) { return s, nil }}
}

func (x *trial) ask(s agent.Settings, prompt, session string) asked {
	x.Helper()
	progress := &said{}
	a := x.agents(s, progress)
	start := time.Now()
	r, err := a.Run(x.Context(), kernel.AgentRequest{Job: &kernel.Job{}, Dir: x.repo, Prompt: []byte(prompt), Session: session, Limit: 1 << 20})
	if err != nil {
		x.Fatal(err)
	}
	out := asked{r, progress.String(), a.Stdout.(*said).String(), time.Since(start)}
	x.Logf("%s %s: %+v\nprogress:\n%s", s.Label, s.Model, r.Run, out.progress)
	x.Logf("exit %d %s %q: %q in %s", r.Exit, r.Class, r.Reason, r.Text, out.took.Round(time.Millisecond))
	return out
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// programs are the command line and the server, built once.
var programs string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "vizier-mcp-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"vizier", "vizier-mcp"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "../"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			panic(string(out))
		}
	}
	programs = dir
	return m.Run()
}

// repository returns a scratch one with a configuration that starts nothing
// resident.
func repository(t *testing.T) string {
	t.Helper()
	dir := disktest.Dir(t)
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// vizier runs the command line in dir, as a person would.
func vizier(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "vizier"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil && args[0] != "wait" { // which exits as the job did
		t.Fatalf("vizier %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// connect starts `vizier mcp` in dir and is its client.
func connect(t *testing.T, dir string, args ...string) (*mcp.ClientSession, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "vizier"), append([]string{"mcp"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "a test; \x1b[31m", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, cmd
}

func call(t *testing.T, s *mcp.ClientSession, tool string, in any) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range r.Content {
		text += c.(*mcp.TextContent).Text
	}
	return text, r.IsError
}

type object = map[string]any

// An assistant is told what a person is told.
func TestAnswersAreTheCommandLines(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	vizier(t, dir, "submit", "--name", "broken", "--", "sh", "-c", "echo one; echo two; exit 3")
	vizier(t, dir, "submit", "--name", "after", "--after", "broken", "--", "true")
	vizier(t, dir, "submit", "--name", "held", "--approval", "--", "true")
	vizier(t, dir, "wait", "after")
	s, _ := connect(t, dir)
	for _, c := range []struct {
		tool string
		in   object
		same []string
	}{
		{"show", object{"job": "2"}, nil},
		{"show", object{"job": 2}, nil}, // as some assistants have it
		{"list", object{"status": []string{"failed"}}, []string{"list", "--all", "--fields=" + listFields, "--status=failed", "--most=50", "--json"}},
		{"logs", object{"job": "broken", "lines": 2}, []string{"tail", "broken"}},
		{"what_if", object{"approve": []int{3}}, nil},
		{"why", object{"job": "after"}, nil},
		{"status", object{}, nil},
		{"history", object{"job": "1"}, []string{"history", "list", "--last=30", "1", "--json"}},
		{"simulate", object{"jobs": []string{"3"}, "max_running": 2}, nil},
	} {
		got, failed := call(t, s, c.tool, c.in)
		if failed {
			t.Errorf("%s: %s", c.tool, got)
		}
		if c.same != nil && c.same[0] == "list" {
			c.same = append([]string{"jobs"}, c.same...)
		}
		if c.same != nil && strings.TrimSpace(got) != vizier(t, dir, c.same...) {
			t.Errorf("%s: %s\nbut %v:\n%s", c.tool, got, c.same, vizier(t, dir, c.same...))
		}
	}
	// What people want to see in their lists is not what an assistant gets.
	if err := os.MkdirAll(filepath.Join(dir, ".vizier"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".vizier", "config.toml"), []byte("[display.lists]\njobs.fields = [\"created\"]\njobs_show.fields = [\"status\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]string{"status": "vizier jobs approve 3", "why": "exit code 3", "what_if": `"running"`, "list": `"name": "broken"`, "show": `"wait": "dependencies: dependency failed`} {
		in := object{}
		switch tool {
		case "show":
			in["job"] = "after"
		case "why":
			in["job"] = "after"
		case "what_if":
			in["approve"] = []string{"3"}
		}
		got, _ := call(t, s, tool, in)
		if tool == "status" {
			got = strings.ReplaceAll(strings.Join(strings.Fields(got), ""), `","`, " ")
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s does not say %s: %s", tool, want, got)
		}
	}
	r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "vizier://jobs/1/log/stdout"})
	if err != nil || r.Contents[0].Text != "one\ntwo\n" {
		t.Errorf("the log: %+v, %v", r, err)
	}
}

// Without leave there is no tool that changes anything, and none ever decides.
func TestWhatAnAssistantMayDo(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	for _, c := range []struct {
		allow string
		tools string
	}{
		{"", "history list logs show simulate status what_if why"},
		{"submit,cancel", "cancel history list logs show simulate status submit what_if why"},
		{"submit,run,cancel,retry", "cancel history list logs retry run show simulate status submit what_if why"},
	} {
		var args []string
		if c.allow != "" {
			args = []string{"--allow", c.allow}
		}
		s, _ := connect(t, dir, args...)
		tools, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range tools.Tools {
			names = append(names, tool.Name)
			if changes := slices.Contains([]string{"submit", "run", "cancel", "retry"}, tool.Name); changes == tool.Annotations.ReadOnlyHint {
				t.Errorf("%s says of itself that it only reads: %v", tool.Name, tool.Annotations.ReadOnlyHint)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.tools {
			t.Errorf("--allow %q: %s", c.allow, got)
		}
	}
	s, _ := connect(t, dir)
	for _, tool := range []string{"approve", "reject", "submit"} {
		if text, failed := call(t, s, tool, object{"job": "1", "jobs": []object{{"command": []string{"true"}}}}); !failed {
			t.Errorf("%s: %s", tool, text)
		}
	}
	cmd := exec.Command(filepath.Join(programs, "vizier"), "mcp", "--allow", "approve")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("--allow approve: %s", out)
	}
}

// What it does is on record as its client's, and trying changes nothing.
func TestWhatAnAssistantDoes(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	s, _ := connect(t, dir, "--allow", "submit,run,cancel,retry")
	jobs := []object{{"ref": "a", "name": "first", "command": []string{"sh", "-c", "exit 4"}}, {"ref": "b", "name": "second", "command": []string{"true"}, "after": []string{"a"}}}
	if text, failed := call(t, s, "submit", object{"jobs": jobs, "dry_run": true}); failed || !strings.Contains(text, `"running"`) {
		t.Fatalf("trying: %s", text)
	}
	if got := vizier(t, dir, "jobs", "list", "--all", "-q"); got != "" {
		t.Fatalf("trying left %s", got)
	}
	if text, failed := call(t, s, "submit", object{"jobs": jobs}); failed || !strings.Contains(text, "1/b") {
		t.Fatalf("submit: %s", text)
	}
	vizier(t, dir, "wait", "1/b")
	if got := vizier(t, dir, "show", "1/a"); !strings.Contains(got, "Front end:     mcp:a-test----31m") {
		t.Errorf("who submitted is not on record:\n%s", got)
	}
	if text, failed := call(t, s, "retry", object{"jobs": []string{"1/a"}, "dry_run": true}); failed || !strings.Contains(text, "retry_set") {
		t.Errorf("trying a retry: %s", text)
	}
	if text, failed := call(t, s, "retry", object{"jobs": []string{"1/a"}}); failed {
		t.Errorf("retry: %s", text)
	}
	vizier(t, dir, "wait", "1/b")
	if got := vizier(t, dir, "show", "1/a", "--json"); !strings.Contains(got, `"attempt": "2"`) && !strings.Contains(got, `"attempt": 2`) {
		t.Errorf("it did not run again:\n%s", got)
	}
	if text, failed := call(t, s, "submit", object{"jobs": []object{{"name": "long", "command": []string{"sleep", "600"}}}}); failed {
		t.Fatal(text)
	}
	if text, failed := call(t, s, "cancel", object{"jobs": []string{"long"}, "dry_run": true}); failed || !strings.Contains(text, "cancelled") {
		t.Errorf("trying to cancel: %s", text)
	}
	if text, failed := call(t, s, "cancel", object{"jobs": []string{"long"}}); failed {
		t.Errorf("cancel: %s", text)
	}
	if got := vizier(t, dir, "status", "long"); !strings.Contains(got, "cancelled") {
		t.Errorf("it goes on: %s", got)
	}
	vizier(t, dir, "init")
	if text, failed := call(t, s, "run", object{"flow": "draft", "set": object{"spec_text": "x", "slug": "y"}, "dry_run": true}); failed {
		t.Errorf("trying a run: %s", text)
	}
}

// Arguments are no flags, no paths and not without bounds.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	vizier(t, dir, "submit", "--name", "a", "--", "true")
	vizier(t, dir, "wait", "a")
	s, _ := connect(t, dir, "--allow", "submit,run,cancel,retry")
	many := make([]string, mostRefs+1)
	for i := range many {
		many[i] = "1"
	}
	for _, c := range []struct {
		tool string
		in   object
	}{
		{"show", object{"job": "--config-file=/etc/passwd"}},
		{"show", object{"job": "-C"}},
		{"show", object{"job": "../../etc/passwd"}},
		{"show", object{"job": "1\x00"}},
		{"show", object{"job": strings.Repeat("x", 1<<20)}},
		{"show", object{"job": -1}},
		{"show", object{"job": 1.5}},
		{"show", object{"job": true}},
		{"show", object{"job": nil}},
		{"show", object{}},
		{"show", object{"job": "1", "flag": "x"}},
		{"logs", object{"job": "1", "lines": 1 << 30}},
		{"logs", object{"job": "1", "grep": "("}},
		{"logs", object{"job": "1", "stream": "../x"}},
		{"list", object{"limit": -1}},
		{"cancel", object{"jobs": []string{"--all", "--yes"}}},
		{"cancel", object{"jobs": []string{}}},
		{"cancel", object{"jobs": many}},
		{"run", object{"flow": "--help"}},
		{"run", object{"flow": "../../../etc/passwd"}},
		{"submit", object{"jobs": []object{}}},
		{"submit", object{"jobs": []object{{"command": []string{"x\x00"}}}}},
		{"submit", object{"jobs": []object{{"command": []string{"true"}, "zzz": 1}}}},
		{"submit", object{"jobs": []object{{"command": []string{strings.Repeat("x", 2<<20)}}}}},
		{"what_if", object{}},
		{"what_if", object{"fail": []string{"1"}, "limit": 501}},
		{"what_if", object{"fail": []string{"1:x"}}},
	} {
		if text, failed := call(t, s, c.tool, c.in); !failed {
			in, _ := json.Marshal(c.in)
			t.Errorf("%s %.200s: %.300s", c.tool, in, text)
		}
	}
	for _, uri := range []string{"vizier://jobs/1/log/..%2f..%2fx", "vizier://jobs/-C/log/stdout", "vizier://jobs/1/zzz/x", "vizier://jobs/%/log/both", "file:///etc/passwd", "vizier://jobs/1/artifact/--help"} {
		if r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: %+v", uri, r.Contents[0])
		}
	}
	if got := vizier(t, dir, "jobs", "list", "--all", "-q"); got != "1" {
		t.Errorf("there are jobs that nobody asked for: %s", got)
	}
}

// What no program can be given is refused by its name, not by the system's words.
func TestWordsThatNoProgramCanBeGiven(t *testing.T) {
	t.Parallel()
	s, _ := connect(t, repository(t), "--allow", "run")
	long := strings.Repeat("x", 3<<20)
	for _, c := range []struct {
		tool, want string
		in         object
	}{
		{"list", `"--name=a\x00b" has a NUL character`, object{"name": "a\x00b"}},
		{"logs", `"--stream=\x00" has a NUL character`, object{"job": "1", "stream": "\x00"}},
		{"what_if", `"--pool=a\x00=1" has a NUL character`, object{"pool": object{"a\x00": 1}}},
		{"run", `"--set=spec_text=xxx`, object{"flow": "draft", "set": object{"slug": "y", "spec_text": long}}},
	} {
		if text, failed := call(t, s, c.tool, c.in); !failed || !strings.HasPrefix(text, c.want) || c.tool == "run" && !strings.HasSuffix(text, "put the text into a file and name that, such as by the parameter spec_file") {
			t.Errorf("%s: %.300s", c.tool, text)
		}
	}
}

// No way round leads to an approval: neither by a job that an assistant submits, nor
// by a server that runs in a job.
func TestAnAssistantApprovesNothing(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	program := filepath.Join(programs, "vizier")
	vizier(t, dir, "submit", "--name", "gate", "--approval", "--", "true")
	s, _ := connect(t, dir, "--allow", "submit")
	approve := []string{program, "jobs", "approve", "gate"}
	if text, failed := call(t, s, "submit", object{"jobs": []object{{"name": "outside", "command": approve}}}); failed {
		t.Fatal(text)
	}
	words, err := json.Marshal(approve)
	if err != nil {
		t.Fatal(err)
	}
	request := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"submit","arguments":{"jobs":[{"name":"within","command":` + string(words) + `}]}}}`
	script := "mkfifo in; " + program + " mcp --allow submit <in >answers & exec 3>in; cat >&3 <<'E'\n" + request + "\nE\n" +
		"until grep -q '\"id\":2' answers; do sleep 0.1; done; exec 3>&-; wait"
	vizier(t, dir, "submit", "--name", "agent", "--", "sh", "-c", script)
	for _, name := range []string{"outside", "agent", "within"} {
		vizier(t, dir, "wait", name)
	}
	for _, name := range []string{"outside", "within"} {
		if got := vizier(t, dir, "tail", name); !strings.Contains(got, "cannot approve from inside job") {
			t.Errorf("%s was not refused as a job:\n%s", name, got)
		}
	}
	if got := vizier(t, dir, "status", "gate"); !strings.Contains(got, "waiting_on_approval") {
		t.Errorf("the gate is %s", got)
	}
}

// A client that hangs up leaves no process behind.
func TestAClientThatHangsUp(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	vizier(t, dir, "submit", "--name", "a", "--", "true")
	vizier(t, dir, "wait", "a")
	s, cmd := connect(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, _ = s.CallTool(ctx, &mcp.CallToolParams{Name: "status", Arguments: object{}})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if cmd.ProcessState == nil || !cmd.ProcessState.Exited() {
		t.Errorf("the server goes on: %v", cmd.ProcessState)
	}
	out, _ := exec.Command("pgrep", "-f", dir).Output()
	if len(out) > 0 {
		t.Errorf("left behind: %s", out)
	}
}

// Of long output there is the end, and how to get the rest; a long document is refused.
func TestALongAnswer(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	vizier(t, dir, "submit", "--", "sh", "-c", "echo first; head -c 3000000 /dev/zero | tr '\\0' a; echo last")
	vizier(t, dir, append([]string{"submit", "--approval", "--", "true"}, slices.Repeat([]string{strings.Repeat("x", 100_000)}, 12)...)...)
	vizier(t, dir, "submit", "--", "seq", "300")
	vizier(t, dir, "wait", "1", "3")
	s, _ := connect(t, dir)
	logs, failed := call(t, s, "logs", object{"job": "1"})
	if failed {
		t.Fatalf("%.300s", logs)
	}
	r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "vizier://jobs/1/log/stdout"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"the tool": logs, "the resource": r.Contents[0].Text} {
		if len(text) != mostBytes || !strings.HasPrefix(text, "[the end of 3000") || !strings.HasSuffix(text, "aaalast\n") {
			t.Errorf("%s: %d bytes: %.150s ... %s", name, len(text), text, text[max(0, len(text)-20):])
		}
	}
	left := "[the last of more than %d lines: lines and grep of the tool logs select others; show names the file with everything]\n"
	r, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "vizier://jobs/3/log/stdout"})
	if err != nil {
		t.Fatal(err)
	}
	if text := r.Contents[0].Text; !strings.HasPrefix(text, fmt.Sprintf(left, 200)+"101\n") || strings.Count(text, "\n") != 201 || !strings.HasSuffix(text, "\n300\n") {
		t.Errorf("many lines: %.300s", text)
	}
	for lines, want := range map[int]string{2: fmt.Sprintf(left, 2) + "[stdout] 299\n[stdout] 300\n", 300: vizier(t, dir, "tail", "3") + "\n"} {
		if text, failed := call(t, s, "logs", object{"job": "3", "lines": lines}); failed || text != want {
			t.Errorf("%d lines: %v %.300s", lines, failed, text)
		}
	}
	if text, failed := call(t, s, "show", object{"job": "2"}); !failed || !strings.Contains(text, "ask for less") {
		t.Errorf("a document of %d bytes: %.150s", len(text), text)
	}
	if text, failed := call(t, s, "logs", object{"job": "1", "grep": "first"}); failed || text != "[stdout] first\n" {
		t.Errorf("what was left out: %v %.150s", failed, text)
	}
}

// A command that has changed something is not reported as failed because of its long answer: it would be called again.
func TestALongAnswerToAChange(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "vizier")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexec head -c 2000000 /dev/zero\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := program{file: file, dir: t.TempDir(), busy: make(chan struct{}, 1)}
	jobs := []map[string]any{{"command": []string{"true"}}}
	for _, dry := range []bool{false, true} {
		for name, command := range map[string]func() (asked, error){
			"submit": func() (asked, error) { return submitTool(submitInput{Jobs: jobs, DryRun: dry}) },
			"run":    func() (asked, error) { return runTool(runInput{Flow: "draft", DryRun: dry}) },
			"cancel": func() (asked, error) { return cancelTool(jobsInput{Jobs: []reference{"1"}, DryRun: dry}) },
			"retry":  func() (asked, error) { return retryTool(jobsInput{Jobs: []reference{"1"}, DryRun: dry}) },
		} {
			a, err := command()
			if err != nil {
				t.Fatal(err)
			}
			answer, err := p.ask(t.Context(), "mcp:test", a)
			switch {
			case dry && (err == nil || !strings.Contains(err.Error(), "ask for less")):
				t.Errorf("%s that only looks: %.100q, %v", name, answer, err)
			case !dry && (err != nil || !strings.Contains(string(answer), "`vizier "+name+"` has ended, do not repeat it")):
				t.Errorf("%s: %.100q, %v", name, answer, err)
			}
		}
	}
}

// The URI of an artifact has it as people write it, or with escapes.
func TestTheURIOfAnArtifact(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	flow := filepath.Join(dir, "flow.toml")
	if err := os.WriteFile(flow, []byte(`id = "two"
version = "v1"
[[nodes]]
id = "count"
kind = "shell"
uses = "cap.env.shell.command.run"
args = { script = "echo counted" }
[[nodes]]
id = "read"
kind = "shell"
uses = "cap.env.shell.command.run"
args = { script = "true" }
needs = [{ custom = { type_id = "operation_output", key = "count" } }]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	vizier(t, dir, "run", "file:"+flow)
	vizier(t, dir, "wait", "1")
	s, _ := connect(t, dir)
	for _, artifact := range []string{"custom:operation_output:count", "custom%3Aoperation_output%3Acount"} {
		r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "vizier://jobs/1%2Fcount/artifact/" + artifact})
		if err != nil || !strings.Contains(r.Contents[0].Text, "counted") {
			t.Errorf("%s: %v, %v", artifact, r, err)
		}
	}
	_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "vizier://jobs/1%2Fcount/artifact/custom:operation_output:a/b"})
	if err == nil || !strings.Contains(err.Error(), "operation_output:a/b not found") {
		t.Errorf("one with a slash: %v", err)
	}
	templates, err := s.ListResourceTemplates(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(templates.ResourceTemplates, func(t *mcp.ResourceTemplate) bool {
		return t.URITemplate == "vizier://jobs/{job}/artifact/{+artifact}"
	}) {
		t.Errorf("the templates: %+v, %v", templates, err)
	}
}

// What is refused is named as assistants name it.
func TestErrorsHaveNumbers(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	vizier(t, dir, "submit", "--", "true")
	vizier(t, dir, "wait", "1")
	s, _ := connect(t, dir, "--allow", "cancel")
	if text, failed := call(t, s, "cancel", object{"jobs": []int{1}}); !failed || !strings.Contains(text, `"message":"nothing to cancel: job 1 has ended (succeeded)"`) || len(text) > 200 {
		t.Errorf("%s", text)
	}
}

// Without a repository there is nothing to serve, and no configuration for it.
func TestWithoutARepository(t *testing.T) {
	t.Parallel()
	dir, outside := repository(t), t.TempDir()
	for _, more := range [][]string{nil, {"--print-config", "claude"}} {
		cmd := exec.Command(filepath.Join(programs, "vizier"), append([]string{"mcp", "--dir", outside}, more...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "outside a git repository: "+outside) {
			t.Errorf("%v: %v: %s", more, err, out)
		}
	}
	cmd := exec.Command(filepath.Join(programs, "vizier"), "mcp", "--dir", dir, "--print-config", "claude")
	cmd.Dir = outside
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), dir) {
		t.Errorf("%v: %s", err, out)
	}
}

// Each command reads the configuration file that was asked for, wherever the client starts the server.
func TestTheConfigurationFileOfAServer(t *testing.T) {
	t.Parallel()
	dir, elsewhere := repository(t), t.TempDir()
	file := filepath.Join(elsewhere, "other.toml")
	if err := os.WriteFile(file, []byte("[pools]\nother = 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"claude", "codex", "gemini", "vscode"} {
		cmd := exec.Command(filepath.Join(programs, "vizier"), "-C", "other.toml", "mcp", "--dir", dir, "--print-config", client)
		cmd.Dir = elsewhere
		if out, err := cmd.CombinedOutput(); err != nil || !slices.Contains(strings.Fields(strings.NewReplacer(",", " ", "[", " ", "]", " ").Replace(string(out))), strconv.Quote(file)) {
			t.Errorf("%s: %v: %s", client, err, out)
		}
	}
	cmd := exec.Command(filepath.Join(programs, "vizier"), "-C", "other.toml", "mcp", "--dir", dir)
	cmd.Dir = elsewhere
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if text, failed := call(t, s, "what_if", object{"pool": map[string]int{"other": 2}, "after": "1s"}); failed {
		t.Error(text)
	}
}

// JSON and TOML cannot name a directory whose name is not UTF-8.
func TestTheConfigurationOfAClientIsText(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(repository(t), "caf\xe9")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, client := range []string{"claude", "codex"} {
		cmd := exec.Command(filepath.Join(programs, "vizier"), "mcp", "--print-config", client)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), `caf\xe9" is not UTF-8 text`) {
			t.Errorf("%s: %v: %s", client, err, out)
		}
	}
}

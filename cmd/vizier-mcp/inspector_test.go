package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The inspector from npm is a client that others wrote, in another language. Make
// test-agents installs it, and says by VIZIER_TEST_INSPECTOR where.
func TestTheInspectorOfMCP(t *testing.T) {
	inspector := os.Getenv("VIZIER_TEST_INSPECTOR")
	if _, err := os.Stat(inspector); err != nil {
		t.Skip("needs the inspector from npm: make test-agents")
	}
	dir := repository(t)
	vizier(t, dir, "submit", "--name", "build", "--", "sh", "-c", "echo compiled; exit 3")
	vizier(t, dir, "wait", "1")
	vizier(t, dir, "submit", "--name", "deploy", "--approval", "--", "true")
	ask := func(serve []string, method string, args ...string) (string, error) {
		t.Helper()
		cmd := exec.Command(inspector, append(append([]string{"--cli", filepath.Join(programs, "vizier"), "mcp"}, serve...), append([]string{"--method", method}, args...)...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	call := func(tool string, args ...string) []string {
		all := []string{"--tool-name", tool}
		for _, a := range args {
			all = append(all, "--tool-arg", a)
		}
		return all
	}
	for name, c := range map[string]struct {
		serve  []string
		method string
		args   []string
		says   []string
		fails  bool // by an error of the protocol or of the tool
	}{
		"tools":     {nil, "tools/list", nil, []string{`"name": "why"`, `"name": "what_if"`, `"readOnlyHint": true`}, false},
		"why":       {nil, "tools/call", call("why", "job=build"), []string{`"detail": "exit code 3"`}, false},
		"logs":      {nil, "tools/call", call("logs", "job=build"), []string{"compiled"}, false},
		"resources": {nil, "resources/templates/list", nil, []string{"vizier://jobs/"}, false},
		"a log":     {nil, "resources/read", []string{"--uri", "vizier://jobs/1/log/stdout"}, []string{"compiled"}, false},
		"no job":    {nil, "tools/call", call("why", "job=../../etc/passwd"), []string{`"isError": true`, "no job"}, true},
		"approve":   {[]string{"--allow", "submit,run,cancel,retry"}, "tools/call", call("approve", "job=deploy"), []string{"approve"}, true},
		"cancel":    {nil, "tools/call", call("cancel", "jobs=deploy"), []string{"cancel"}, true},
	} {
		out, err := ask(c.serve, c.method, c.args...)
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %s in\n%s", name, want, out)
			}
		}
		if err != nil && !c.fails || err == nil && c.fails && !strings.Contains(out, `"isError": true`) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if now := vizier(t, dir, "jobs", "status", "2"); !strings.Contains(now, "waiting_on_approval") {
		t.Errorf("what was refused happened: %s", now)
	}
	flows := filepath.Join(dir, ".vizier", "workflows")
	if err := errors.Join(os.MkdirAll(flows, 0o755), os.WriteFile(filepath.Join(flows, "check.toml"), []byte("id = \"check\"\nversion = \"v1\"\n[[nodes]]\nid = \"a\"\nkind = \"shell\"\nuses = \"cap.env.shell.command.run\"\nargs = { script = \"true\" }\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := ask([]string{"--allow", "run"}, "tools/call", call("run", "flow=check")...); err != nil || !strings.Contains(vizier(t, dir, "runs"), "check") {
		t.Errorf("what is allowed does not happen: %v\n%s", err, out)
	}
}

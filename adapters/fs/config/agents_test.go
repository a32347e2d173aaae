package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestTheMoreParticularAgentWins(t *testing.T) {
	c, err := load(layers(t, "agent = \"gemini\"\n[agents.default]\nprogress_filter = \"jq\"\ntimeout = \"1h\"\nmodel = \"pro\"\nflags = [\"--x\"]\nsilence = \"20m\"\n", `
[agents.commands.draft]
command = ["my-agent", "--fast"]
[agents.commands.bare]
command = "bare"
[agents.commands.approve]
model = "flash"
flags = []
permissions = "run"
[agents.templates."template.stage.merge@v2"]
agent = "claude"
timeout = "5m"
flags = ["--effort", "low"]
`, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		alias, selector string
		want            Agent
	}{
		{"", "", Agent{Label: "gemini", Filter: []string{"jq"}, Model: "pro", Flags: []string{"--x"}, Timeout: time.Hour, Silence: 20 * time.Minute}},
		{"approve", "", Agent{Label: "gemini", Filter: []string{"jq"}, Model: "flash", Flags: []string{}, Permissions: "run", Timeout: time.Hour, Silence: 20 * time.Minute}},
		{"bare", "", Agent{Label: "bare", Command: []string{"bare"}, Timeout: time.Hour, Silence: 20 * time.Minute}},
		{"draft", "x", Agent{Label: "my-agent", Command: []string{"my-agent", "--fast"}, Timeout: time.Hour, Silence: 20 * time.Minute}},
		{"approve", "template.stage.merge@v2", Agent{Label: "claude", Flags: []string{"--effort", "low"}, Permissions: "run", Timeout: 5 * time.Minute, Silence: 20 * time.Minute}},
	} {
		if got := c.Agents.For(row.alias, row.selector); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%q %q: got %+v, want %+v", row.alias, row.selector, got, row.want)
		}
	}
	origins := map[string]string{}
	for _, s := range c.Settings() {
		origins[s.Key] = s.Origin
	}
	for key, want := range map[string]string{
		"agents.default.timeout":                             "vizier/config.toml:4",
		"agents.commands.draft.command":                      ".vizier/config.toml:3",
		"agents.default.silence":                             "vizier/config.toml:7",
		"agents.commands.approve.permissions":                ".vizier/config.toml:9",
		`agents.templates."template.stage.merge@v2".agent`:   ".vizier/config.toml:11",
		`agents.templates."template.stage.merge@v2".timeout`: ".vizier/config.toml:12",
	} {
		if !strings.HasSuffix(origins[key], want) {
			t.Errorf("%s comes from %q, want %s", key, origins[key], want)
		}
	}
	if got := (Agents{}).For("", ""); got.Label != DefaultAgent {
		t.Errorf("nothing configured: got %+v", got)
	}
}

func TestBadKeysOfAgents(t *testing.T) {
	for text, want := range map[string]string{
		"permissions = \"root\"": "default.permissions: expected one of \"edit\", \"run\" and \"all\", found \"root\"",
		"permissions = 3":        "default.permissions: expected one of",
		"flags = \"--fast\"":     "default.flags: expected an array of strings",
		"flags = [1]":            "default.flags: expected an array of strings",
		"model = 4":              "default.model: expected",
		"silence = \"0s\"":       "default.silence: expected a duration such as \"30m\"",
		"permission = \"run\"":   "unknown key default.permission (did you mean permissions?)",
	} {
		if _, err := load(layers(t, "", "[agents.default]\n"+text+"\n", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A hook without events or without a command is an error. A hook of the
// repository replaces the user's hook of that name.
// A file whose lines git ended with CR LF means the same: a shell would take the CR for a part of the last word.
func TestLinesMayEndWithCRLF(t *testing.T) {
	text := "[hooks.mail]\non = [\"failed\"]\ncommand = \"\"\"\necho a\necho b\n\"\"\"\n"
	want, err := load(layers(t, "", text, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := load(layers(t, "", strings.ReplaceAll(text, "\n", "\r\n"), nil))
	if err != nil || !reflect.DeepEqual(got.Hooks, want.Hooks) {
		t.Errorf("%+v, %v, want %+v", got.Hooks, err, want.Hooks)
	}
}

func TestHooks(t *testing.T) {
	c, err := load(layers(t, "[hooks.mail]\non = [\"failed\"]\ncommand = \"mail\"\n[hooks.log]\non = [\"blocked\"]\ncommand = \"log\"\ntimeout = \"5s\"\n",
		"[hooks.mail]\non = [\"failed\", \"succeeded\"]\ncommand = \"other\"\n", nil))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Hook{"mail": {[]string{"failed", "succeeded"}, "other", time.Minute}, "log": {[]string{"blocked"}, "log", 5 * time.Second}}
	if !reflect.DeepEqual(c.Hooks, want) {
		t.Errorf("%+v", c.Hooks)
	}
	for text, want := range map[string]string{
		"hooks = 3":                                                  "expected a table",
		"[hooks.x]\ncommand = \"c\"":                                 "on is missing",
		"[hooks.x]\non = [\"failed\"]":                               "command is missing",
		"[hooks.x]\non = [\"fails\"]\ncommand = \"c\"":               "expected one of succeeded, failed, cancelled, blocked, approval.pending, approval.granted, approval.rejected, run.succeeded, run.failed, run.blocked, job.stalled, attention, found \"fails\"",
		"[hooks.x]\non = \"failed\"\ncommand = \"c\"":                "on: expected an array of",
		"[hooks.x]\non = [\"failed\"]\ncommand = \" \"":              "expected a command for the shell",
		"[hooks.x]\non = [\"failed\"]\ncomand = \"c\"":               "unknown key comand (did you mean command?)",
		"[hooks.x]\non = [\"failed\"]\ncommand = \"c\"\ntimeout = 3": "timeout: expected a duration",
		"[hooks.\"a/b\"]\non = [\"failed\"]\ncommand = \"c\"":        "no name of a hook",
	} {
		if _, err := load(layers(t, "", text+"\n", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestTheMoreParticularAgentWins(t *testing.T) {
	c, err := Load(layers(t, "agent = \"gemini\"\n[agents.default]\nprogress_filter = \"jq\"\ntimeout = \"1h\"\n", `
[agents.commands.draft]
command = ["my-agent", "--fast"]
[agents.templates."template.stage.merge@v2"]
agent = "claude"
timeout = "5m"
`, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		alias, selector string
		want            Agent
	}{
		{"", "", Agent{Label: "gemini", Filter: []string{"jq"}, Timeout: time.Hour}},
		{"draft", "x", Agent{Label: "gemini", Command: []string{"my-agent", "--fast"}, Timeout: time.Hour}},
		{"draft", "template.stage.merge@v2", Agent{Label: "claude", Timeout: 5 * time.Minute}},
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
		`agents.templates."template.stage.merge@v2".agent`:   ".vizier/config.toml:5",
		`agents.templates."template.stage.merge@v2".timeout`: ".vizier/config.toml:6",
	} {
		if !strings.HasSuffix(origins[key], want) {
			t.Errorf("%s comes from %q, want %s", key, origins[key], want)
		}
	}
	if got := (Agents{}).For("", ""); got.Label != DefaultAgent {
		t.Errorf("nothing configured: got %+v", got)
	}
}

// A hook says when it runs and what, or it is an error; the repository's hook
// of a name takes the place of the user's.
func TestHooks(t *testing.T) {
	c, err := Load(layers(t, "[hooks.mail]\non = [\"failed\"]\ncommand = \"mail\"\n[hooks.log]\non = [\"blocked\"]\ncommand = \"log\"\ntimeout = \"5s\"\n",
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
		"[hooks.x]\non = [\"fails\"]\ncommand = \"c\"":               "expected one of succeeded, failed, cancelled, blocked, found \"fails\"",
		"[hooks.x]\non = \"failed\"\ncommand = \"c\"":                "on: expected an array of",
		"[hooks.x]\non = [\"failed\"]\ncommand = \" \"":              "expected a command for the shell",
		"[hooks.x]\non = [\"failed\"]\ncomand = \"c\"":               "unknown key comand (did you mean command?)",
		"[hooks.x]\non = [\"failed\"]\ncommand = \"c\"\ntimeout = 3": "timeout: expected a duration",
		"[hooks.\"a/b\"]\non = [\"failed\"]\ncommand = \"c\"":        "no name of a hook",
	} {
		if _, err := Load(layers(t, "", text+"\n", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

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

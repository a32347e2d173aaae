package agent

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestShippedFilters feeds what the agents print to the filters that come with
// them.
func TestShippedFilters(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("the filters need jq")
	}
	for name, row := range map[string]struct {
		agent, in, answer, progress string
		fails                       bool
	}{
		"codex": {"codex", `not an event
{"type":"item.started","item":{"type":"command_execution","command":"make test"}}
{"type":"item.completed","item":{"type":"agent_message","text":"looking"}}
{"type":"item.completed","item":{"type":"agent_message","text":"done:\nall green"}}
`, "done:\nall green\n", "$ make test\n", false},
		"codex without an answer": {"codex", `{"type":"turn.failed","error":{"message":"no quota"}}` + "\n", "", "no quota\n", true},
		"claude": {"claude", `{"type":"system"}
{"type":"assistant","message":{"content":[{"type":"text","text":"hm"},{"type":"tool_use","name":"Edit","input":{"file_path":"a.go"}}]}}
{"type":"result","is_error":false,"result":"done"}
`, "done\n", "Edit a.go\n", false},
		"claude with an error": {"claude", `{"type":"result","is_error":true,"result":"no quota"}` + "\n", "", "", true},
		"gemini":               {"gemini", "Loaded cached credentials.\nfirst\nLoaded cached credentials.\n", "first\nLoaded cached credentials.\n", "Loaded cached credentials.\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(filepath.Join("..", "..", "..", "examples", "agents", row.agent, "filter.sh"))
			var out, errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(row.in), &out, &errs
			if err := cmd.Run(); (err != nil) != row.fails {
				t.Errorf("%v", err)
			}
			if out.String() != row.answer || !strings.HasPrefix(errs.String(), row.progress) {
				t.Errorf("answer %q, progress %q", &out, &errs)
			}
		})
	}
}

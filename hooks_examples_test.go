package vizier_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIn is a program that notes how it was called.
const standIn = `#!/bin/sh
for a in "$@"; do printf '%s\0' "$a"; done >"$NOTES/args"
test -t 0 || cat >"$NOTES/input"
`

// The shipped hooks call what they say, and nothing that a job says of itself
// becomes more than a text on the way.
func TestShippedHooks(t *testing.T) {
	const reason = "approval: say \"yes\" \\ $(touch owned) `touch owned`\x1b[31m\nX-Evil: 1"
	for name, c := range map[string]struct {
		program string
		check   func(t *testing.T, args []string, input string)
	}{
		"desktop": {"notify-send", func(t *testing.T, args []string, _ string) {
			want := []string{"--app-name=vizier", "--urgency=critical", "--", "14/deploy ship\nit: attention", reason + "\nvizier jobs approve 14/deploy"}
			if strings.Join(args, "|") != strings.Join(want, "|") {
				t.Errorf("called with %q", args)
			}
		}},
		"mail": {"sendmail", func(t *testing.T, args []string, input string) {
			head, body, _ := strings.Cut(input, "\n\n")
			want := "To: ann@example.com\nSubject: [vizier] 14/deploy ship it: attention\nContent-Type: text/plain; charset=utf-8"
			if strings.Join(args, " ") != "-t" || head != want || body != reason+"\n\n  vizier jobs approve 14/deploy\n\nin /r\n" {
				t.Errorf("called with %q and %q", args, input)
			}
		}},
		"webhook": {"curl", func(t *testing.T, args []string, input string) {
			var said struct{ Text string }
			if err := json.Unmarshal([]byte(args[len(args)-1]), &said); err != nil {
				t.Fatalf("%q: %v", args[len(args)-1], err)
			}
			want := "14/deploy ship\nit: attention " + strings.ReplaceAll(reason, "\x1b", " ") + "\nvizier jobs approve 14/deploy"
			if said.Text != want || input != "url = \"https://chat.example/hook\"\n" || strings.Contains(strings.Join(args, " "), "chat.example") {
				t.Errorf("said %q to %q", said.Text, input)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			script, err := filepath.Abs("examples/hooks/" + name + ".sh")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.program), []byte(standIn), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", script)
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "NOTES=" + dir, "VIZIER_EVENT=attention", "VIZIER_REF=14/deploy", "VIZIER_JOB_NAME=ship\nit",
				"VIZIER_REASON=" + reason, "VIZIER_NEXT=vizier jobs approve 14/deploy", "VIZIER_ROOT=/r", "VIZIER_MAIL_TO=ann@example.com", "VIZIER_WEBHOOK_URL=https://chat.example/hook"}
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v: %s", err, out)
			}
			args, err := os.ReadFile(filepath.Join(dir, "args"))
			if err != nil {
				t.Fatal(err)
			}
			input, _ := os.ReadFile(filepath.Join(dir, "input"))
			c.check(t, strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00"), string(input))
			if _, err := os.Stat(filepath.Join(dir, "owned")); err == nil {
				t.Error("what the job said was executed")
			}
		})
	}
}

package kernel_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A command can be pasted into a shell, whatever is in the names that it has.
func TestCommandLine(t *testing.T) {
	for word, want := range map[string]string{
		"/a/b-c_d.e+1/\u00e9.md": "/a/b-c_d.e+1/\u00e9.md", "14/node": "14/node", "refs/heads/a..b": "refs/heads/a..b", "@last": "@last", "a=b,c:50%": "a=b,c:50%",
		"": "''", "it's": `'it'\''s'`, "x y; touch PWNED": "'x y; touch PWNED'", "$(id)`id`": "'$(id)`id`'", "~": "'~'", `a\b`: `'a\b'`,
		"a\xffb": `$'a\xffb'`, "a\n\"'\\": `$'a\n\"\'\\'`, "a\u200bb": `$'a\u200bb'`, "\x1b[1m": `$'\x1b[1m'`, "a\u3164\u00e9": `$'a\u3164\u00e9'`, "\xff\"": `$'\xff\"'`,
	} {
		got := kernel.CommandLine("mv", word)
		if got != "mv "+want {
			t.Errorf("%q: %s, want mv %s", word, got, want)
		}
		if bash, err := exec.LookPath("bash"); err == nil {
			c := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+strings.TrimPrefix(got, "mv "))
			c.Dir, c.Env = t.TempDir(), []string{"LC_ALL=C.UTF-8"}
			if out, err := c.Output(); err != nil || string(out) != word {
				t.Errorf("%s is %q for a shell, want %q: %v", got, out, word, err)
			}
		}
	}
}

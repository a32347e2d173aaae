package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// bench returns an empty home, and a PATH of its own with scripts in the place
// of programs.
func bench(t *testing.T, programs map[string]string) (home string) {
	t.Helper()
	home = t.TempDir()
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, body := range programs {
		script(t, filepath.Join(bin, name), "#!/bin/sh\n"+body+"\n", 0o755)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("HOME", home)
	for _, name := range []string{"CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
		"CODEX_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"} {
		t.Setenv(name, "")
	}
	return home
}

func faults(f Found) string {
	var out []string
	for _, x := range f.Faults {
		text := x.Problem + " -> " + x.Next
		if x.Fatal {
			text = "! " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

const (
	claudeHelp = `case $1 in --version) echo "9.1.0 (Claude Code)";; --help) echo "  -p, --print
  --verbose  --output-format <format>
  --permission-mode <mode>  --allowedTools, --allowed-tools <tools...>";; esac`
	codexHelp = `case "$*" in --version) echo codex-cli 0.170.1;; "exec --help") echo "--json --skip-git-repo-check -s, --sandbox <MODE> --add-dir <DIR>";; *) exit 2;; esac`
)

func TestAProgramIsFoundWithoutStartingIt(t *testing.T) {
	home := bench(t, map[string]string{"claude": "touch $HOME/started", "mine": "touch $HOME/started"})
	a := Agents{Root: home}
	for _, c := range []struct {
		s    Settings
		want string
	}{
		{Settings{Label: "claude"}, ""},
		{Settings{Label: "codex", Command: []string{"mine", "-x"}}, ""},
		{Settings{Label: "codex", Command: []string{"bin/mine"}}, ""},
		{Settings{Label: Builtin}, ""},
		{Settings{Label: "codex"}, "! codex is not installed: no such program is in PATH -> npm install -g @openai/codex"},
		{Settings{Label: "codex", Command: []string{"yours"}}, "! yours is not installed: no such program is in PATH -> install it, or name another program"},
		{Settings{Label: "codex", Command: []string{"./bin/none"}}, "/bin/none is no program that can be started -> "},
		{Settings{Label: "nobody"}, "! no agent shim named `nobody` was found"},
	} {
		f := a.Find(c.s)
		if got := faults(f); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s, want %s", c.s, got, c.want)
		}
		if there := f.Program != "" || f.Builtin; there != (c.want == "") {
			t.Errorf("%+v: %+v", c.s, f)
		}
	}
	if regular(filepath.Join(home, "started")) {
		t.Error("something was started")
	}
}

func TestAProgramIsProbed(t *testing.T) {
	home := bench(t, map[string]string{"claude": claudeHelp, "codex": codexHelp, "gemini": `case $1 in --version) echo 0.1.0;; *) echo "--debug --output-format --approval-mode";; esac`})
	a := Agents{}
	for _, c := range []struct {
		s       Settings
		version string
		want    string
	}{
		{Settings{Label: "claude", Permissions: MayRun}, "9.1.0", "no login of claude was found, neither a key in the environment nor one that it keeps in " + home + "/.claude -> start `claude` and give /login"},
		{Settings{Label: "claude", Flags: []string{"--nonsense=1"}}, "9.1.0", "! claude 9.1.0 does not know --nonsense, which it is started with -> npm install"},
		{Settings{Label: "codex"}, "0.170.1", "no login of codex"},
		{Settings{Label: "codex", Flags: []string{"-c", "model_provider=mine"}}, "0.170.1", ""},
		{Settings{Label: "codex", Flags: []string{"--fast"}}, "0.170.1", "! codex 0.170.1 does not know --fast, which it is started with -> look at the key flags"},
		{Settings{Label: "gemini"}, "0.1.0", "gemini 0.1.0 is older than 0.61.0, which this vizier was made for -> npm install -g @google/gemini-cli@0.61.0"},
		{Settings{Label: "gemini", Permissions: MayRun}, "0.1.0", "! gemini 0.1.0 does not know --policy"},
	} {
		f := a.Probe(t.Context(), c.s)
		if got := faults(f); !strings.Contains(got, c.want) || (got == "") != (c.want == "") || f.Version != c.version {
			t.Errorf("%+v: version %s, %s\nwant %s", c.s, f.Version, got, c.want)
		}
	}
}

// Claude Code does nothing as root that it may do without asking, unless it is
// told that it is in a sandbox.
func TestAProgramThatIsNotForRoot(t *testing.T) {
	bench(t, map[string]string{"claude": claudeHelp, "codex": codexHelp})
	t.Setenv("IS_SANDBOX", "")
	told := func(s Settings) bool {
		return strings.Contains(faults(Agents{}.Find(s)), `! claude does not start as root with permissions = "all" -> set permissions = "run"`)
	}
	root := os.Getuid() == 0
	for _, c := range []struct {
		s    Settings
		want bool
	}{
		{Settings{Label: "claude", Permissions: MayAll}, root}, {Settings{Label: "claude", Permissions: MayRun}, false},
		{Settings{Label: "codex", Permissions: MayAll}, false}, {Settings{Label: "claude", Permissions: MayAll, Command: []string{"sh"}}, false},
	} {
		if got := told(c.s); got != c.want {
			t.Errorf("%+v: told %t, want %t", c.s, got, c.want)
		}
	}
	t.Setenv("IS_SANDBOX", "1")
	if told(Settings{Label: "claude", Permissions: MayAll}) {
		t.Error("told in a sandbox")
	}
}

// Of a program that is not there, or is not known, nothing is asked.
func TestWhatIsNotProbed(t *testing.T) {
	bench(t, map[string]string{"wrapper": "echo 9.1.0"})
	for _, s := range []Settings{{Label: "claude"}, {Label: "nobody", Command: []string{"nobody"}}, {Label: "claude", Command: []string{"wrapper"}}} {
		f := Agents{}.Probe(t.Context(), s)
		if g := (Agents{}).Find(s); !reflect.DeepEqual(f, g) {
			t.Errorf("%s: %+v, without a probe %+v", s.Label, f, g)
		}
	}
}

func TestSignsOfALogin(t *testing.T) {
	for _, c := range []struct{ label, env, file, text string }{
		{"claude", "ANTHROPIC_API_KEY", "", ""}, {"claude", "", ".claude/.credentials.json", "{}"}, {"claude", "", ".claude/settings.json", `{"apiKeyHelper": "x"}`},
		{"claude", "", ".claude.json", `{"oauthAccount": {}}`}, {"codex", "CODEX_API_KEY", "", ""}, {"codex", "", ".codex/auth.json", "{}"},
		{"codex", "", ".codex/config.toml", `model_provider = "mine"`}, {"gemini", "GEMINI_API_KEY", "", ""}, {"gemini", "", ".gemini/oauth_creds.json", "{}"},
		{"gemini", "", ".gemini/settings.json", `{"security": {"auth": {"selectedType": "x"}}}`},
	} {
		home := bench(t, nil)
		if loggedIn[c.label](Settings{}) {
			t.Fatalf("%s: a login in an empty home", c.label)
		}
		if c.env != "" {
			t.Setenv(c.env, "key")
		} else {
			path := filepath.Join(home, c.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if !loggedIn[c.label](Settings{}) {
			t.Errorf("%s: %s%s is no sign of a login", c.label, c.env, c.file)
		}
	}
}

func TestAProgramThatDoesNotStart(t *testing.T) {
	bench(t, map[string]string{"claude": "echo no node here >&2; exit 127"})
	f := Agents{}.Probe(t.Context(), Settings{Label: "claude"})
	if want := "! claude does not start: `claude --version` fails: no node here -> npm install -g @anthropic-ai/claude-code@"; !strings.HasPrefix(faults(f), want) || f.Version != "" {
		t.Errorf("%s, want %s", faults(f), want)
	}
}

// Whatever is known has all that a probe needs.
func TestEveryProgramCanBeProbed(t *testing.T) {
	for _, p := range programs {
		if len(helpOf[p.Name]) == 0 || homeOf[p.Name] == nil || loggedIn[p.Name] == nil {
			t.Errorf("%s", p.Name)
		}
	}
}

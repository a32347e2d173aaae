package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Found is what is known about an agent without sending it a prompt.
type Found struct {
	Name    string
	Program string // path of its file; "": not found
	Builtin bool
	Version string // "": not known
	MadeFor string // the version that this program was tested with, of a known program; "": any
	Faults  []Fault
}

// Fault is a problem with an agent.
type Fault struct {
	Problem string
	Next    string
	Fatal   bool // the agent cannot start
}

// Known returns the labels of the known programs.
func Known() []string {
	var names []string
	for _, p := range programs {
		names = append(names, p.Name)
	}
	return names
}

// Find looks for an agent's program without starting anything. The faults it
// returns are those that prevent a start.
func (a Agents) Find(s Settings) Found {
	f := Found{Name: s.Label}
	if len(s.Command) > 0 {
		f.Name = s.Command[0]
	}
	s, err := a.complete(s)
	if err != nil {
		f.Faults = []Fault{{err.Error(), "set agent to one of " + strings.Join(Known(), ", ") + ", or to " + Builtin, true}}
		return f
	}
	p, known := programOf(s.Label)
	program, install := p.Name, "npm install -g "+p.Package
	switch {
	case len(s.Command) > 0:
		program, install = s.Command[0], "install it, or name another program in .vizier/config.toml"
	case s.Label == Builtin:
		f.Builtin = true
		return f
	case known:
		f.MadeFor = p.Made
	}
	if f.Program, err = exec.LookPath(program); err != nil {
		f.Program, f.Faults = "", []Fault{{program + " is not installed: no such program is in PATH", install, true}}
		if strings.Contains(program, "/") {
			f.Faults[0].Problem = program + " is no program that can be started"
		}
	}
	if f.MadeFor != "" && p.rootless && s.Permissions == MayAll && os.Getuid() == 0 && !anySet("IS_SANDBOX") {
		f.Faults = append(f.Faults, Fault{p.Name + ` does not start as root with permissions = "all"`,
			`set permissions = "run", or work as another user; in a container that is a sandbox, set IS_SANDBOX=1`, true})
	}
	return f
}

// probeTime is how long a program may take to print its version or its help.
const probeTime = 30 * time.Second

// Probe is Find, and also starts a known program to ask for its version and its
// help. It checks the login only by files and by the environment.
func (a Agents) Probe(ctx context.Context, s Settings) Found {
	f := a.Find(s)
	p, known := programOf(s.Label)
	if !known || f.MadeFor == "" || f.Program == "" {
		return f
	}
	blame := func(fatal bool, next, format string, args ...any) {
		f.Faults = append(f.Faults, Fault{fmt.Sprintf(format, args...), next, fatal})
	}
	pinned := fmt.Sprintf("npm install -g %s@%s", p.Package, p.Made)
	out, err := probeProgram(ctx, f.Program, "--version")
	if err != nil {
		blame(true, pinned, "%s does not start: `%s --version` %v", p.Name, p.Name, err)
		return f
	}
	if f.Version = versionIn().FindString(out); f.Version != "" && older(f.Version, p.Made) {
		blame(false, pinned, "%s %s is older than %s, which this vizier was made for", p.Name, f.Version, p.Made)
	}
	help, err := probeProgram(ctx, f.Program, helpOf[p.Name]...)
	if err != nil {
		blame(true, pinned, "%s does not start: `%s %s` %v", p.Name, p.Name, strings.Join(helpOf[p.Name], " "), err)
		return f
	}
	if missing := unknownFlags(help, p.flags(s, kernel.AgentRequest{}, os.TempDir())); len(missing) > 0 {
		next := pinned
		if slices.ContainsFunc(missing, func(flag string) bool { return slices.Contains(s.Flags, flag) }) {
			next = "look at the key flags of [agents] in .vizier/config.toml, or " + pinned
		}
		blame(true, next, "%s %s does not know %s, which it is started with", p.Name, f.Version, strings.Join(missing, ", "))
	}
	if !loggedIn[p.Name](s) {
		blame(false, p.Login, "no login of %s was found, neither a key in the environment nor one that it keeps in %s", p.Name, homeOf[p.Name]())
	}
	return f
}

// probeProgram returns a program's output. The error says how it ended.
func probeProgram(ctx context.Context, program string, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, probeTime)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = os.TempDir() // so that no project's settings apply
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("did not answer within %s", probeTime)
	case err != nil && out.Len() > 0:
		return "", fmt.Errorf("fails: %s", lastLine(out.String()))
	case err != nil:
		return "", fmt.Errorf("fails: %w", err)
	}
	return out.String(), nil
}

// helpOf are the arguments with which a program lists the flags that it is
// started with.
var helpOf = map[string][]string{"claude": {"--help"}, "codex": {"exec", "--help"}, "gemini": {"--help"}}

// unknownFlags returns the long flags among args that a help text does not
// contain.
func unknownFlags(help string, args []string) []string {
	var out []string
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(name, "--") || name == "--" || slices.Contains(out, name) {
			continue
		}
		known := slices.ContainsFunc(strings.FieldsFunc(help, func(r rune) bool {
			return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}), func(word string) bool { return word == name })
		if !known {
			out = append(out, name)
		}
	}
	return out
}

// homeOf returns the directory in which a program keeps its user's data.
var homeOf = map[string]func() string{
	"claude": claudeHome, "codex": codexHome, "gemini": func() string { return filepath.Join(geminiHome(), ".gemini") },
}

func claudeHome() string {
	if dir := os.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".claude")
}

// loggedIn reports whether there is a sign of a login. If a login may be stored
// where it cannot be checked, it is assumed.
var loggedIn = map[string]func(Settings) bool{
	"claude": func(Settings) bool {
		home := claudeHome()
		return runtime.GOOS == "darwin" || // it may be in the keychain
			anySet("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY") ||
			regular(filepath.Join(home, ".credentials.json")) || fileMentions(filepath.Join(home, "settings.json"), "apiKeyHelper", `"env"`) ||
			fileMentions(home+".json", "oauthAccount", "primaryApiKey") || fileMentions(filepath.Join(home, ".claude.json"), "oauthAccount", "primaryApiKey")
	},
	"codex": func(s Settings) bool {
		return anySet("CODEX_API_KEY", "OPENAI_API_KEY") || regular(filepath.Join(codexHome(), "auth.json")) ||
			fileMentions(filepath.Join(codexHome(), "config.toml"), "model_provider") ||
			slices.ContainsFunc(s.Flags, func(flag string) bool { return strings.Contains(flag, "model_provider") })
	},
	"gemini": func(Settings) bool {
		home := filepath.Join(geminiHome(), ".gemini")
		return anySet("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS") ||
			regular(filepath.Join(home, "oauth_creds.json")) || regular(filepath.Join(home, "gemini-credentials.json")) ||
			regular(filepath.Join(home, ".env")) || fileMentions(filepath.Join(home, "settings.json"), "selectedType")
	},
}

func anySet(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return os.Getenv(name) != "" })
}

// fileMentions reports whether the file at path contains one of words.
func fileMentions(path string, words ...string) bool {
	data, err := os.ReadFile(path)
	return err == nil && slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(data, []byte(w)) })
}

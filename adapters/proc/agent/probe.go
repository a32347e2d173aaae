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

// Found is what was found out of an agent without asking it anything.
type Found struct {
	Name    string
	Program string // its file; "": there is none
	Builtin bool
	Version string // "": it did not tell
	MadeFor string // the version of a known program that is expected; "": any
	Faults  []Fault
}

// Fault is something about an agent that is not as it should be.
type Fault struct {
	Problem string
	Next    string
	Fatal   bool // it cannot start
}

// Known are the labels of the programs that are known.
func Known() []string {
	var names []string
	for _, p := range programs {
		names = append(names, p.Name)
	}
	return names
}

// Find looks for an agent's program, and starts nothing. Its faults keep the
// agent from starting.
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

// probeTime is how long a program may take to tell its version or its help.
const probeTime = 30 * time.Second

// Probe is Find, and starts a known program for its version and its help. What
// it says of the login is what files and the environment show.
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

// probeProgram is what a program prints. The error says how it ended.
func probeProgram(ctx context.Context, program string, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, probeTime)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = os.TempDir() // no project's own settings
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

// helpOf are the arguments with which a program lists the flags it is started
// with.
var helpOf = map[string][]string{"claude": {"--help"}, "codex": {"exec", "--help"}, "gemini": {"--help"}}

// unknownFlags are the long flags among args that a help does not have.
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

// homeOf is where a program keeps what it knows of its user.
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

// loggedIn reports that there is a sign of a login. Where a login may be kept
// out of sight, it is taken for granted.
var loggedIn = map[string]func(Settings) bool{
	"claude": func(Settings) bool {
		home := claudeHome()
		return runtime.GOOS == "darwin" || // its keychain
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

// fileMentions reports that the file at path has one of words in it.
func fileMentions(path string, words ...string) bool {
	data, err := os.ReadFile(path)
	return err == nil && slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(data, []byte(w)) })
}

package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// shelf is a set of agent programs: the known ones, and those that are installed.
type shelf struct {
	known  []string
	there  []string
	faults map[string]app.AgentFault // found only by a probe
}

func (s shelf) Known() []string { return s.known }

func (s shelf) Find(c app.AgentChoice) app.AgentFinding {
	f := app.AgentFinding{Name: c.Name()}
	switch {
	case c.Label == "builtin" && len(c.Command) == 0:
		f.Builtin = true
	case slices.Contains(s.there, c.Name()):
		f.Program = "/bin/" + c.Name()
	default:
		f.Faults = []app.AgentFault{{Problem: c.Name() + " is not installed", Next: "install " + c.Name(), Fatal: true}}
	}
	return f
}

func (s shelf) Probe(_ context.Context, c app.AgentChoice) app.AgentFinding {
	f := s.Find(c)
	if fault, ok := s.faults[c.Name()]; ok && f.Installed() {
		f.Faults = append(f.Faults, fault)
	}
	return f
}

func names(rows []app.AgentRow) string {
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%s %v %s", r.Name, r.Installed(), strings.Join(r.Flows, "+")))
	}
	return strings.Join(out, ", ")
}

func TestAgentsThatAreListed(t *testing.T) {
	s := shelf{known: []string{"claude", "codex", "gemini"}, there: []string{"claude", "mine"}}
	rows := app.ListAgents(t.Context(), s, []app.AgentChoice{
		{Label: "codex", Unnamed: true, Flows: []string{"draft", "merge"}}, {Label: "codex", Command: []string{"mine", "-x"}, Flows: []string{"approve"}}, {Label: "codex", Command: []string{"bare"}}, {Label: "builtin"}})
	if got, want := names(rows), "bare false , builtin true , claude true , codex false draft+merge, mine true approve"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFaultsOfAgentsThatAreAsked(t *testing.T) {
	s := shelf{known: []string{"claude", "codex"}, there: []string{"claude"}, faults: map[string]app.AgentFault{"claude": {Problem: "not logged in", Next: "log in"}}}
	found := app.CheckAgents(t.Context(), s, []app.AgentChoice{{Label: "claude", Flows: []string{"draft"}}, {Label: "codex", Unnamed: true, Flows: []string{"merge"}}, {Label: "gemini"}})
	if len(found) != 2 || found[0].Path != "claude" || found[0].Problem != "not logged in" || found[0].Next != "log in" ||
		found[1].Problem != "no agent is configured, and the default, codex, cannot be asked: codex is not installed" ||
		found[1].Next != `set agent = "claude" in .vizier/config.toml, which is installed, or install codex` {
		t.Errorf("%+v", found)
	}
	s.faults["claude"] = app.AgentFault{Problem: "too old", Next: "upgrade it", Fatal: true}
	if found := app.CheckAgents(t.Context(), s, []app.AgentChoice{{Label: "claude", Unnamed: true, Flows: []string{"draft"}}}); len(found) != 1 || found[0].Problem != "too old" || found[0].Next != "upgrade it" {
		t.Errorf("one that is there: %+v", found)
	}
	if err := app.MayStart(s, []app.AgentChoice{{Label: "claude"}, {Label: "builtin"}}); err != nil {
		t.Errorf("one that only is not logged in may start: %v", err)
	}
	var no *app.AgentError
	if err := app.MayStart(s, []app.AgentChoice{{Label: "claude"}, {Label: "codex"}}); !errors.As(err, &no) || no.Problem != "codex is not installed" ||
		no.Next != `set agent = "claude" in .vizier/config.toml, which is installed, or install codex` {
		t.Errorf("%v", err)
	}
}

// What to do about an agent that is not there names one that is, or else what the user can configure.
func TestWhatToDoAboutAnAgentThatIsNotThere(t *testing.T) {
	const install = "install claude"
	for name, c := range map[string]struct {
		there         []string
		choice        app.AgentChoice
		problem, next string
	}{
		"another is there":        {[]string{"gemini"}, app.AgentChoice{Label: "claude"}, "claude is not installed", `set agent = "gemini" in .vizier/config.toml, which is installed, or ` + install},
		"none is there":           {nil, app.AgentChoice{Label: "claude"}, "claude is not installed", install},
		"the default, and others": {[]string{"gemini"}, app.AgentChoice{Label: "claude", Unnamed: true}, "no agent is configured, and the default, claude, cannot be asked: claude is not installed", `set agent = "gemini" in .vizier/config.toml, which is installed, or ` + install},
		"the default alone": {nil, app.AgentChoice{Label: "claude", Unnamed: true}, "no agent is configured, and the default, claude, cannot be asked: claude is not installed",
			install + ", or set agent in .vizier/config.toml to another: codex, gemini, or builtin, which needs no model"},
	} {
		s := shelf{known: []string{"claude", "codex", "gemini"}, there: c.there}
		var no *app.AgentError
		if err := app.MayStart(s, []app.AgentChoice{c.choice}); !errors.As(err, &no) || no.Problem != c.problem || no.Next != c.next {
			t.Errorf("%s: %v: %+v", name, err, no)
		}
		c.choice.Flows = []string{"draft"}
		if found := app.CheckAgents(t.Context(), s, []app.AgentChoice{c.choice}); len(found) != 1 || found[0].Problem != c.problem || found[0].Next != c.next {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

func TestPickingAnAgent(t *testing.T) {
	known := []string{"claude", "codex", "gemini"}
	second := func(there []string) (string, error) { return there[1], nil }
	for name, c := range map[string]struct {
		there  []string
		asked  string
		choose func([]string) (string, error)
		want   string
		says   string
	}{
		"none is there":            {nil, "", second, "", "none is installed (looked for claude, codex, gemini)"},
		"one is there":             {[]string{"gemini"}, "", second, "gemini", "gemini, which is installed"},
		"two, and nobody to ask":   {[]string{"codex", "gemini"}, "", nil, "codex", "codex, the first of those installed (codex, gemini)"},
		"two, and somebody to ask": {[]string{"codex", "gemini"}, "", second, "gemini", "gemini"},
		"asked for":                {[]string{"codex"}, "builtin", second, "builtin", "builtin"},
		"asked for, not there":     {[]string{"codex"}, "claude", nil, "claude", "claude, which is not installed yet: install claude"},
	} {
		got, note, err := app.PickAgent(shelf{known: known, there: c.there}, c.asked, c.choose)
		if err != nil || got != c.want || !strings.HasPrefix(note, c.says) {
			t.Errorf("%s: %q, %q, %v", name, got, note, err)
		}
	}
	if _, _, err := app.PickAgent(shelf{known: known}, "clod", nil); !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), `unknown agent "clod" (the agents are claude, codex, gemini`) {
		t.Errorf("%v", err)
	}
	if _, _, err := app.PickAgent(shelf{known: known, there: known}, "", func([]string) (string, error) { return "", nil }); err == nil {
		t.Error("nobody chose, and something was taken")
	}
}

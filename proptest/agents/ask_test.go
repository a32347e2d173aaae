package agents

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/agent"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/proptest/agents/model"
)

// each runs a test for each agent, at the same time.
func each(t *testing.T, name string, test func(x *trial, s agent.Settings)) {
	for _, label := range []string{"claude", "codex", "gemini"} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			s := agent.Settings{Label: label, Timeout: 2 * time.Minute}
			if label == "gemini" {
				s.Model = "gemini-2.5-flash" // otherwise it first asks another model which one to use
			}
			test(newTrial(t, name), s)
		})
	}
}

func TestAPlainAnswer(t *testing.T) {
	t.Parallel()
	each(t, model.Plain, func(x *trial, s agent.Settings) {
		r := x.ask(s, "Make a plan.", "")
		if r.Class != kernel.NoFailure || r.Exit != 0 || r.Reason != "" || string(r.Text) != model.Plan+"\n" || r.stdout != model.Plan+"\n" {
			x.Errorf("it did not answer as the model did")
		}
		want := kernel.Usage{Input: 110, Cached: 10, Output: 20, CostUSD: r.Run.Usage.CostUSD}
		if r.Run.Session == "" || r.Run.Model == "" || r.Run.Version == "" || r.Run.Agent != s.Label || r.Run.Turns != 1 || r.Run.Usage != want {
			x.Errorf("it told %+v", r.Run)
		}
	})
}

func TestAnEditByATool(t *testing.T) {
	t.Parallel()
	each(t, model.Edit, func(x *trial, s agent.Settings) {
		r := x.ask(s, "Write hello.txt.", "")
		if r.Class != kernel.NoFailure || string(r.Text) != model.Done+"\n" {
			x.Errorf("it did not answer as the model did")
		}
		if got := x.read(model.File); got != model.Content {
			x.Errorf("%s has %q", model.File, got)
		}
		if !strings.Contains(r.progress, model.Telling) || !strings.Contains(r.progress, model.File) || len(r.Run.Denied) > 0 || r.Run.Turns != 2 {
			x.Errorf("its progress does not tell of the change")
		}
	})
}

// With the permission "edit", an agent runs no command, or only in a sandbox. With
// "run" it runs them, and they find vizier.
func TestCommands(t *testing.T) {
	t.Parallel()
	each(t, model.Run, func(x *trial, s agent.Settings) {
		x.model.Command = "touch " + x.base + "/outside; command -v vizier >found; echo $VIZIER >>found"
		r := x.ask(s, "Run it.", "")
		if _, err := x.try("test -e ../outside"); err == nil {
			x.Error("it wrote outside of its directory")
		}
		if denied := strings.Join(r.Run.Denied, "\n"); s.Label != "codex" && !strings.Contains(denied, "touch") {
			x.Errorf("it was not denied the command, or did not tell: %q", denied)
		}
		x.sh("rm -f found")
		s.Permissions = agent.MayRun
		r = x.ask(s, "Run it.", "")
		if got := x.read("found"); got != vizier+"\n"+vizier+"\n" || len(r.Run.Denied) > 0 || r.Class != kernel.NoFailure {
			x.Errorf("the command found vizier as %q, denied %q", got, r.Run.Denied)
		}
	})
}

// With the permission "all", an agent is not confined and asks for no permission: it
// edits files, runs commands, and writes outside of its directory.
func TestEverythingIsAllowed(t *testing.T) {
	t.Parallel()
	each(t, model.Run, func(x *trial, s agent.Settings) {
		if s.Label == "claude" && os.Getuid() == 0 {
			s.Permissions = agent.MayAll
			if r := x.ask(s, "Run it.", ""); r.Class != kernel.ExitFailure || !strings.Contains(r.Reason, "root") {
				x.Errorf("as root: class %s, %q", r.Class, r.Reason)
			}
			x.more = []string{"IS_SANDBOX=1"} // claude demands this in a container
			x.at(model.Run)
		}
		s.Permissions = agent.MayAll
		x.model.Command = "touch " + x.base + "/outside && command -v vizier >found"
		if r := x.ask(s, "Run it.", ""); r.Class != kernel.NoFailure || len(r.Run.Denied) > 0 || x.read("found") != vizier+"\n" {
			x.Errorf("class %s, %q; denied %q, found %q", r.Class, r.Reason, r.Run.Denied, x.read("found"))
		}
		x.sh("test -e ../outside")
		x.at(model.Edit)
		if r := x.ask(s, "Write hello.txt.", ""); r.Class != kernel.NoFailure || x.read(model.File) != model.Content {
			x.Errorf("class %s, %q; %s has %q", r.Class, r.Reason, model.File, x.read(model.File))
		}
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		class kernel.FailureClass
		want  string
	}{
		model.Limit:    {kernel.RateLimited, "is at a limit of its provider"},
		model.Key:      {kernel.Unauthorized, "is not logged in, or its key is not accepted"},
		model.Overload: {kernel.Overloaded, "could not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, name, func(x *trial, s agent.Settings) {
				r := x.ask(s, "Make a plan.", "")
				if r.Class != row.class || r.Exit == 0 || !strings.Contains(r.Reason, row.want) || len(r.Text) > 0 || r.stdout != "" {
					x.Errorf("class %s, exit %d, %q, text %q", r.Class, r.Exit, r.Reason, r.Text)
				}
				if in := time.Until(r.Run.Resets); name == model.Limit && s.Label == "codex" && (in < model.LimitFor-2*time.Minute || in > model.LimitFor) {
					x.Errorf("the limit is over in %s, want %s", in, model.LimitFor)
				}
				if strings.Contains(r.progress, "    at ") {
					x.Errorf("its progress has a stack trace")
				}
			})
		})
	}
}

// An agent that asks again by itself says so.
func TestAnAgentAsksAgain(t *testing.T) {
	t.Parallel()
	each(t, model.Busy, func(x *trial, s agent.Settings) {
		r := x.ask(s, "Make a plan.", "")
		if r.Class != kernel.NoFailure || string(r.Text) != model.Plan+"\n" {
			x.Errorf("class %s, %q", r.Class, r.Text)
		}
		if s.Label != "codex" && !strings.Contains(r.progress, s.Label+" asks again, attempt 1") { // codex reports only retries of streams
			x.Errorf("its progress does not tell")
		}
	})
}

// Half an answer does not count as an answer.
func TestACutStream(t *testing.T) {
	t.Parallel()
	each(t, model.Cut, func(x *trial, s agent.Settings) {
		r := x.ask(s, "Make a plan.", "")
		if r.Class != kernel.Overloaded || r.Exit == 0 || len(r.Text) > 0 {
			x.Errorf("class %s, exit %d, %q", r.Class, r.Exit, r.Text)
		}
	})
	t.Run("once", func(t *testing.T) {
		each(t, model.CutOnce, func(x *trial, s agent.Settings) {
			r := x.ask(s, "Make a plan.", "")
			if r.Class != kernel.NoFailure || string(r.Text) != model.Plan+"\n" {
				x.Errorf("class %s, %q", r.Class, r.Text)
			}
		})
	})
}

// A limit ends an agent that waits for its model. How long an agent takes before it
// asks its model depends on the machine, so a limit that was too short is doubled.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		set  func(*agent.Settings, time.Duration)
		want string
	}{
		model.Hang:  {func(s *agent.Settings, d time.Duration) { s.Silence = d }, "said nothing for %s"},
		model.Stall: {func(s *agent.Settings, d time.Duration) { s.Timeout = d }, "did not answer within %s"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, name, func(x *trial, s agent.Settings) {
				s.Timeout = 0
				for limit := 10 * time.Second; limit < 5*time.Minute; limit *= 2 {
					row.set(&s, limit)
					r := x.ask(s, "Make a plan.", "")
					if want := fmt.Sprintf(row.want, limit); r.Class != kernel.Timeout || r.Exit != 124 || !strings.Contains(r.Reason, want) || len(r.Text) > 0 {
						x.Fatalf("class %s, exit %d, %q", r.Class, r.Exit, r.Reason)
					}
					if len(x.model.Requests(name)) > 0 {
						return
					}
				}
				x.Error("it does not ask its model")
			})
		})
	}
}

func TestASessionGoesOn(t *testing.T) {
	t.Parallel()
	each(t, model.Plain, func(x *trial, s agent.Settings) {
		first := x.ask(s, "The word is marzipan.", "")
		x.at(model.Recall)
		again := x.ask(s, "What was the word?", first.Run.Session)
		if string(again.Text) != "You asked first: The word is marzipan.\n" || again.Run.Session != first.Run.Session {
			x.Errorf("session %s: %q", again.Run.Session, again.Text)
		}
		want := kernel.Usage{Input: 110, Cached: 10, Output: 20, CostUSD: again.Run.Usage.CostUSD}
		if again.Run.Usage != want || again.Run.Turns != 1 {
			x.Errorf("it told what the first one used as well: %+v, turns %d", again.Run.Usage, again.Run.Turns)
		}
		gone := x.ask(s, "Is anybody there?", "11111111-2222-4333-8444-555555555555")
		if string(gone.Text) != "You asked first: Is anybody there?\n" || gone.Run.Session == "" || gone.Run.Session == "11111111-2222-4333-8444-555555555555" {
			x.Errorf("it did not begin anew: session %s, %q", gone.Run.Session, gone.Text)
		}
		if !strings.Contains(gone.progress, "does not have session 11111111-2222-4333-8444-555555555555 any more, and begins anew") {
			x.Error("it does not tell that it begins anew")
		}
	})
}

func TestAFlagThatIsRefused(t *testing.T) {
	t.Parallel()
	each(t, model.Plain, func(x *trial, s agent.Settings) {
		s.Flags = []string{"--unheard-of"}
		r := x.ask(s, "Make a plan.", "")
		if r.Class != kernel.ExitFailure || !strings.Contains(r.Reason, "does not take `--unheard-of` of the key flags") {
			x.Errorf("class %s, %q", r.Class, r.Reason)
		}
	})
}

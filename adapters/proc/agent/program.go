package agent

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Permissions is what an agent may do without asking.
type Permissions string

// The permissions. In any case an agent works in a directory of its own;
// keeping to it is the agent's responsibility.
const (
	MayEdit Permissions = "edit" // change files
	MayRun  Permissions = "run"  // run commands as well
	MayAll  Permissions = "all"  // everything, without a sandbox
)

// program is a known agent program: how to start it and what its output means.
type program struct {
	Name    string
	Made    string // the version that this was written for
	Package string // its npm package
	Login   string // how a person logs in

	rootless  bool   // it refuses some things to root
	noSession string // its message for a session that it does not have
	flags     func(s Settings, q kernel.AgentRequest, scratch string) []string
	env       func(scratch string) ([]string, error) // nil: no variables of its own
	sandboxed func(Settings) bool                    // reports whether its own sandbox restricts where its commands write; nil: it never does
	parser    func(*stream) parser
	homes     func() []string // where it keeps settings and sessions, which a sandbox makes writable
}

// programs are the known programs.
var programs = []program{claudeCode, codex, gemini}

func programOf(label string) (program, bool) {
	for _, p := range programs {
		if p.Name == label {
			return p, true
		}
	}
	return program{}, false
}

// Version asks a known agent's program for its version, and returns "" if it
// does not print one.
func Version(ctx context.Context, name string) string {
	cmd := exec.CommandContext(ctx, name, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return versionIn().FindString(string(out))
}

var versionIn = lazyRegexp(`\d+\.\d+\.\d+[-\w.]*`)

// older reports whether version a precedes b. A part that is not a number
// counts as 0.
func older(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		if c := cmp.Compare(number(x, i), number(y, i)); c != 0 {
			return c < 0
		}
	}
	return false
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	digits, _, _ := strings.Cut(parts[i], "-")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// refusal matches the messages with which programs reject a flag or its value.
var refusal = lazyRegexp(`(?i)unknown option|unexpected argument|unknown arguments?:|invalid value|is invalid\. allowed choices|invalid values`)

// classify returns the failure class of how the program ended, and a sentence
// about it that a person can act on. The class is zero if the program answered.
func (p program) classify(s *stream, exit int, set Settings) (kernel.FailureClass, string) {
	f := s.fault
	switch {
	case f.class == kernel.NoFailure && exit == 0 && s.done && len(s.said) > 0:
		return kernel.NoFailure, ""
	case f.class == kernel.NoFailure && exit == 0 && s.done:
		return kernel.ExitFailure, fmt.Sprintf("agent %s ended without an answer", p.Name)
	case f.class == kernel.NoFailure && exit == 0:
		return kernel.ExitFailure, fmt.Sprintf("agent %s stopped in the middle, without a result%s", p.Name, reasonSuffix(s.last))
	case f.class == kernel.NoFailure && s.events == 0 && refusal().MatchString(s.last):
		return kernel.ExitFailure, p.flagsRefused(s, set)
	}
	words := cmp.Or(f.words, s.last)
	switch f.class {
	case kernel.RateLimited:
		until := ""
		if !s.run.Resets.IsZero() {
			until = " until " + s.run.Resets.UTC().Format("2006-01-02 15:04 UTC")
		}
		return f.class, fmt.Sprintf("%s is at a limit of its provider%s%s", p.Name, until, reasonSuffix(words))
	case kernel.Unauthorized:
		return f.class, fmt.Sprintf("%s is not logged in, or its key is not accepted%s; %s", p.Name, reasonSuffix(words), p.Login)
	case kernel.Overloaded:
		return f.class, fmt.Sprintf("the provider of %s could not answer%s", p.Name, reasonSuffix(words))
	default:
		return kernel.ExitFailure, exitText("agent "+p.Name, exit) + reasonSuffix(words)
	}
}

func reasonSuffix(words string) string {
	if words == "" {
		return ""
	}
	return ": " + strings.TrimRight(words, " .")
}

// flagsRefused returns what to do if the program rejects its flags.
func (p program) flagsRefused(s *stream, set Settings) string {
	for _, f := range set.Flags {
		if name, _, _ := strings.Cut(f, "="); strings.HasPrefix(name, "-") && strings.Contains(s.last, strings.TrimLeft(name, "-")) {
			return fmt.Sprintf("%s %s does not take `%s` of the key flags%s", p.Name, s.run.Version, f, reasonSuffix(s.last))
		}
	}
	return fmt.Sprintf("%s %s does not take the flags of %s, which this vizier was made for%s; install that version: npm install -g %s@%s",
		p.Name, s.run.Version, p.Made, reasonSuffix(s.last), p.Package, p.Made)
}

// classOfStatus returns the failure class for an HTTP status.
func classOfStatus(status int) kernel.FailureClass {
	switch { // numbers, because linking net/http for its constants would cost every process a third of a millisecond
	case status == 401 || status == 403:
		return kernel.Unauthorized
	case status == 429 || status == 402:
		return kernel.RateLimited
	case status >= 500 && status < 600:
		return kernel.Overloaded
	}
	return kernel.ExitFailure
}

var (
	statusIn     = lazyRegexp(`(?i)(?:status:? |"code":\s?)([45]\d\d)`)
	limitWords   = lazyRegexp(`(?i)usage limit|rate.?limit|quota|RESOURCE_EXHAUSTED|too many requests`)
	keyWords     = lazyRegexp(`(?i)api.key|unauthenticated|unauthorized|not logged in|log ?in again|authentication`)
	troubleWords = lazyRegexp(`(?i)overloaded|unavailable|at capacity|high demand|stream disconnected|stream ended|terminated|fetch failed|connection|timed? ?out|internal server error`)
)

// classOfWords returns the failure class for an error message.
func classOfWords(words string) kernel.FailureClass {
	if m := statusIn().FindStringSubmatch(words); m != nil {
		status, err := strconv.Atoi(m[1])
		if class := classOfStatus(status); err == nil && class != kernel.ExitFailure {
			return class
		}
	}
	switch {
	case limitWords().MatchString(words):
		return kernel.RateLimited
	case keyWords().MatchString(words):
		return kernel.Unauthorized
	case troubleWords().MatchString(words):
		return kernel.Overloaded
	}
	return kernel.ExitFailure
}

// askVersion sends the version on the channel, once. It does not delay the
// agent: a program that does not answer at once has no version.
func (p program) askVersion(ctx context.Context) <-chan string {
	told := make(chan string, 1)
	go func() {
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		told <- Version(ctx, p.Name)
	}()
	return told
}

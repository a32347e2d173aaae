package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/vizier-scheduler/vizier/kernel"
)

// AgentChoice is the agent that the configuration names, or the default agent
// if it names none.
type AgentChoice struct {
	Label       string   // a known program, a shim, or the agent that is built into Vizier
	Command     []string // a program of the user's own instead; empty: none
	Model       string
	Flags       []string
	Permissions string
	Unnamed     bool     // the configuration names no agent; this is the default
	Flows       []string // the templates whose nodes use it
}

// Name returns the agent's name for people.
func (c AgentChoice) Name() string {
	if len(c.Command) > 0 {
		return c.Command[0]
	}
	return c.Label
}

// Same reports whether c and d are the same agent, started in the same way.
func (c AgentChoice) Same(d AgentChoice) bool {
	return c.Label == d.Label && slices.Equal(c.Command, d.Command) && c.Model == d.Model && slices.Equal(c.Flags, d.Flags) && c.Permissions == d.Permissions
}

// AgentFinding is what is known about an agent without sending it a prompt.
type AgentFinding struct {
	Name    string
	Program string // path of its file; "": not found
	Builtin bool   // it is built into Vizier and has no program
	Version string // "": not known
	MadeFor string // the version that Vizier was tested with; "": any
	Faults  []AgentFault
}

// Installed reports whether there is something to start.
func (f AgentFinding) Installed() bool { return f.Builtin || f.Program != "" }

// AgentFault is a problem with an agent.
type AgentFault struct {
	Problem string
	Next    string // what a person can do about it
	Fatal   bool   // the agent cannot start
}

// AgentPrograms examines the programs of agents.
type AgentPrograms interface {
	// Known returns the labels of the known programs.
	Known() []string

	// Find looks for an agent's program without starting anything. The faults
	// it returns are those that prevent a start.
	Find(AgentChoice) AgentFinding

	// Probe is Find, and also starts the program to ask for its version and its
	// help. It checks flags, trust and login as far as that costs nothing.
	Probe(context.Context, AgentChoice) AgentFinding
}

// AgentRow is one agent of a list.
type AgentRow struct {
	AgentFinding
	Unnamed bool
	Flows   []string
}

// ListAgents returns the chosen agents, installed or not, and the other known
// agents that are installed, sorted by name.
func ListAgents(ctx context.Context, p AgentPrograms, chosen []AgentChoice) []AgentRow {
	all := slices.Clone(chosen)
	for _, label := range p.Known() {
		if !slices.ContainsFunc(chosen, func(c AgentChoice) bool { return c.Name() == label }) {
			all = append(all, AgentChoice{Label: label})
		}
	}
	rows := make([]AgentRow, len(all))
	var probes sync.WaitGroup
	for i, c := range all {
		probes.Go(func() { rows[i] = AgentRow{p.Probe(ctx, c), c.Unnamed, c.Flows} })
	}
	probes.Wait()
	rows = slices.DeleteFunc(rows, func(r AgentRow) bool {
		return !r.Installed() && !slices.ContainsFunc(chosen, func(c AgentChoice) bool { return c.Name() == r.Name })
	})
	slices.SortFunc(rows, func(a, b AgentRow) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

// CheckAgents returns the faults of the agents that templates use.
func CheckAgents(ctx context.Context, p AgentPrograms, chosen []AgentChoice) []Finding {
	var out []Finding
	for _, c := range chosen {
		if len(c.Flows) == 0 {
			continue
		}
		for _, f := range p.Probe(ctx, c).Faults {
			f = c.inView(p, f)
			out = append(out, Finding{Check: "agents", Path: c.Name(), Problem: f.Problem, Next: f.Next})
		}
	}
	return out
}

// MayStart returns an *AgentError if one of the chosen agents cannot start.
func MayStart(p AgentPrograms, chosen []AgentChoice) error {
	for _, c := range chosen {
		for _, f := range p.Find(c).Faults {
			if f.Fatal {
				f = c.inView(p, f)
				return &AgentError{f.Problem, f.Next}
			}
		}
	}
	return nil
}

// AgentError says that an agent cannot start, and what to do about it.
type AgentError struct{ Problem, Next string }

func (e *AgentError) Error() string { return e.Problem }

// inView rewords fault f of agent c if the agent is not installed: it names an
// agent that is. A user who configured no agent is also told that c is the
// default.
func (c AgentChoice) inView(p AgentPrograms, f AgentFault) AgentFault {
	if !f.Fatal || p.Find(c).Installed() {
		return f
	}
	if c.Unnamed {
		f.Problem = "no agent is configured, and the default, " + c.Label + ", cannot be asked: " + f.Problem
	}
	switch there := installedAgents(p); {
	case len(there) > 0:
		f.Next = fmt.Sprintf("set agent = %q in .vizier/config.toml, which is installed, or %s", there[0], f.Next)
	case c.Unnamed:
		f.Next += fmt.Sprintf(", or set agent in .vizier/config.toml to another: %s, or builtin, which needs no model", strings.Join(others(p, c.Label), ", "))
	}
	return f
}

func others(p AgentPrograms, label string) []string {
	return slices.DeleteFunc(slices.Clone(p.Known()), func(l string) bool { return l == label })
}

// installedAgents returns the labels of the known programs that are installed.
func installedAgents(p AgentPrograms) []string {
	var out []string
	for _, label := range p.Known() {
		if p.Find(AgentChoice{Label: label}).Installed() {
			out = append(out, label)
		}
	}
	return out
}

// PickAgent chooses the agent for a new configuration: the given label or else,
// of the installed agents, the one that choose returns, or the first if choose
// is nil. picked is "" if none is installed. note describes the choice in one
// line.
func PickAgent(p AgentPrograms, label string, choose func([]string) (string, error)) (picked, note string, err error) {
	there := installedAgents(p)
	switch {
	case label != "":
		f := p.Find(AgentChoice{Label: label})
		if !f.Installed() && !slices.Contains(p.Known(), label) {
			return "", "", fmt.Errorf("unknown agent %q (the agents are %s, builtin and shims): %w", label, strings.Join(p.Known(), ", "), kernel.ErrInvalid)
		}
		if !f.Installed() {
			return label, label + ", which is not installed yet: " + firstNext(f), nil
		}
		return label, label, nil
	case len(there) == 0:
		return "", "none is installed (looked for " + strings.Join(p.Known(), ", ") + "): install one and name it, `agent = \"NAME\"` in .vizier/config.toml; " +
			"builtin is one without a model", nil
	case len(there) > 1 && choose != nil:
		picked, err = choose(there)
		if err == nil && !slices.Contains(there, picked) {
			err = errors.New("no agent was chosen")
		}
		return picked, picked, err
	case len(there) > 1:
		return there[0], there[0] + ", the first of those installed (" + strings.Join(there, ", ") + "); `agent` in .vizier/config.toml names another", nil
	}
	return there[0], there[0] + ", which is installed", nil
}

func firstNext(f AgentFinding) string {
	for _, fault := range f.Faults {
		return fault.Next
	}
	return "install it"
}

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

// AgentChoice is an agent that the configuration, or the want of one, names.
type AgentChoice struct {
	Label       string   // of a known program, a shim, or the agent that is part of Vizier
	Command     []string // a program of a person's own instead; empty: none
	Model       string
	Flags       []string
	Permissions string
	Unnamed     bool     // nobody configured it: it is what is asked then
	Flows       []string // the templates whose nodes ask it
}

// Name is what people call the agent.
func (c AgentChoice) Name() string {
	if len(c.Command) > 0 {
		return c.Command[0]
	}
	return c.Label
}

// Same reports that c and d are the same agent, started in the same way.
func (c AgentChoice) Same(d AgentChoice) bool {
	return c.Label == d.Label && slices.Equal(c.Command, d.Command) && c.Model == d.Model && slices.Equal(c.Flags, d.Flags) && c.Permissions == d.Permissions
}

// AgentFinding is what was found out of an agent without asking it anything.
type AgentFinding struct {
	Name    string
	Program string // its file; "": there is none
	Builtin bool   // it is part of Vizier and has no program
	Version string // "": it did not tell
	MadeFor string // the version that Vizier was made for; "": any
	Faults  []AgentFault
}

// Installed reports that there is something to start.
func (f AgentFinding) Installed() bool { return f.Builtin || f.Program != "" }

// AgentFault is something about an agent that is not as it should be.
type AgentFault struct {
	Problem string
	Next    string // what a person can do
	Fatal   bool   // it cannot start
}

// AgentPrograms looks at the programs of agents.
type AgentPrograms interface {
	// Known are the labels of the programs that are known.
	Known() []string

	// Find looks for an agent's program and starts nothing: its faults are
	// those that keep it from starting.
	Find(AgentChoice) AgentFinding

	// Probe is Find, and starts the program for its version and its help. It
	// looks at flags, trust and login as far as that costs nothing.
	Probe(context.Context, AgentChoice) AgentFinding
}

// AgentRow is an agent of a list.
type AgentRow struct {
	AgentFinding
	Unnamed bool
	Flows   []string
}

// ListAgents are the agents that are chosen, and those known besides, by name.
// Chosen ones that are not installed are among them, others are not.
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

// CheckAgents are the faults of the agents that flows ask.
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

// MayStart is an error where an agent that is about to be asked cannot start.
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

// AgentError is an agent that cannot start.
type AgentError struct{ Problem, Next string }

func (e *AgentError) Error() string { return e.Problem }

// inView is f of c, in view of what is installed: nobody who configured nothing
// is left with the name of a program that is not there.
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

// installedAgents are the labels of the known programs that are there.
func installedAgents(p AgentPrograms) []string {
	var out []string
	for _, label := range p.Known() {
		if p.Find(AgentChoice{Label: label}).Installed() {
			out = append(out, label)
		}
	}
	return out
}

// PickAgent chooses the agent of a new configuration: the one that is asked
// for; else of those installed the one that choose names, or the first where
// choose is nil. The label is "" where none is installed. note says in a line
// what came of it.
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

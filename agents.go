package vizier

import (
	"context"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/proc/agent"
	"github.com/vizier-scheduler/vizier/app"
)

// AgentChoice converts a configured agent for the use cases.
func AgentChoice(a config.Agent) app.AgentChoice {
	return app.AgentChoice{Label: a.Label, Command: a.Command, Model: a.Model, Flags: a.Flags, Permissions: a.Permissions, Unnamed: a.Unnamed}
}

func agentSettings(a config.Agent) agent.Settings {
	return agent.Settings{Label: a.Label, Command: a.Command, Filter: a.Filter, Model: a.Model, Flags: a.Flags,
		Permissions: agent.Permissions(a.Permissions), Timeout: a.Timeout, Silence: a.Silence}
}

// programsOf implements app.AgentPrograms.
type programsOf struct{ agent.Agents }

func (p programsOf) Known() []string { return agent.Known() }

func (p programsOf) Find(c app.AgentChoice) app.AgentFinding {
	return foundAgent(p.Agents.Find(settingsOf(c)))
}

func (p programsOf) Probe(ctx context.Context, c app.AgentChoice) app.AgentFinding {
	return foundAgent(p.Agents.Probe(ctx, settingsOf(c)))
}

func settingsOf(c app.AgentChoice) agent.Settings {
	return agent.Settings{Label: c.Label, Command: c.Command, Model: c.Model, Flags: c.Flags, Permissions: agent.Permissions(c.Permissions)}
}

func foundAgent(f agent.Found) app.AgentFinding {
	out := app.AgentFinding{Name: f.Name, Program: f.Program, Builtin: f.Builtin, Version: f.Version, MadeFor: f.MadeFor}
	for _, x := range f.Faults {
		out.Faults = append(out.Faults, app.AgentFault(x))
	}
	return out
}

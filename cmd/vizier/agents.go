package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/app"
)

type agentsCmd struct {
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*agentsCmd) Help() string {
	return "Lists the installed agents and those that templates ask, each with its version, its templates and its problems. " +
		"It starts the programs that it knows, only for version and help, and none that a configuration names as `command`. Exits 1 if the agent of a template cannot start."
}

// agentList is `agents --format json`.
type agentList struct {
	Outcome string      `json:"outcome"` // agents
	Agents  []agentItem `json:"agents"`
}

type agentItem struct {
	Agent     string         `json:"agent"`
	Installed bool           `json:"installed"`
	Builtin   bool           `json:"builtin"`
	Program   string         `json:"program,omitempty"`
	Version   string         `json:"version,omitempty"`
	MadeFor   string         `json:"made_for,omitempty"`
	Default   bool           `json:"default"` // used if none is configured
	Flows     []string       `json:"flows"`
	Problems  []agentProblem `json:"problems"`
}

type agentProblem struct {
	Problem string `json:"problem"`
	Next    string `json:"next"`
	Fatal   bool   `json:"fatal"` // the agent cannot start
}

// Run lists the agents.
func (x *agentsCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	doc, stuck := agentList{Outcome: "agents", Agents: []agentItem{}}, false
	for _, row := range app.ListAgents(c.ctx, r.AgentPrograms, c.agentChoices(r)) {
		item := agentItem{row.Name, row.Installed(), row.Builtin, row.Program, row.Version, row.MadeFor, row.Unnamed, listed(row.Flows), []agentProblem{}}
		for _, f := range row.Faults {
			item.Problems = append(item.Problems, agentProblem(f))
			stuck = stuck || f.Fatal && len(row.Flows) > 0
		}
		doc.Agents = append(doc.Agents, item)
	}
	if x.Format == "json" {
		err = c.ui.json(doc)
	} else {
		c.ui.text(c.ui.agents(doc))
	}
	if err == nil && stuck {
		err = exits(1)
	}
	return err
}

func (u *ui) agents(d agentList) string {
	cells := [][]string{{"Agent", "Version", "Program", "Asked by"}}
	problems := ""
	for _, a := range d.Agents {
		program := cmp.Or(a.Program, "not installed")
		if a.Builtin {
			program = "part of vizier"
		}
		name := a.Agent
		if a.Default {
			name += " (default)"
		}
		cells = append(cells, []string{name, cmp.Or(a.Version, "-"), program, cmp.Or(strings.Join(a.Flows, ", "), "-")})
		for _, p := range a.Problems {
			problems += "\n" + a.Agent + ": " + oneLine(p.Problem) + "\n  next: " + oneLine(p.Next) + "\n"
		}
	}
	if len(d.Agents) == 0 {
		return "No agent is installed\n"
	}
	return u.table(cells, -1) + problems
}

// flows returns the templates that have a name.
func (r *repo) flows() []string {
	var names []string
	for _, n := range r.Named() {
		names = append(names, n.Name)
	}
	return slices.Concat(names, slices.Sorted(maps.Keys(r.Config.Commands)))
}

// flowsHere returns one line that lists templates. Their names come from files, so
// they may contain line ends.
func flowsHere(names []string) string { return oneLine("flows here: " + strings.Join(names, ", ")) }

// agentChoices returns the agents of the repository's templates and the default
// one, without duplicates. Templates that cannot be read are skipped.
func (c *call) agentChoices(r *repo) []app.AgentChoice {
	var out []app.AgentChoice
	add := func(a config.Agent, flow string) {
		n := vizier.AgentChoice(a)
		i := slices.IndexFunc(out, func(have app.AgentChoice) bool { return have.Same(n) })
		if i < 0 {
			i, out = len(out), append(out, n)
		}
		if flow != "" && !slices.Contains(out[i].Flows, flow) {
			out[i].Flows = append(out[i].Flows, flow)
		}
	}
	for _, name := range r.flows() {
		if choice, src, err := c.load(r, name); err == nil && src.AsksAgent() {
			add(r.Config.Agents.For(choice.Alias, src.ID.Value+"@"+src.Version.Value, choice.Selector), name)
		}
	}
	add(r.Config.Agents.For(""), "")
	return out
}

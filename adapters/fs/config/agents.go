package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Agents configures the agents of nodes. For each key the most specific entry
// wins: templates over commands over default over the key agent.
type Agents struct {
	Label     string           // the key agent
	Default   Agent            // [agents.default]
	Commands  map[string]Agent // [agents.commands.ALIAS]
	Templates map[string]Agent // [agents.templates."SELECTOR"]
}

// Agent is the configuration of an agent, possibly incomplete: zero fields are
// taken from less specific entries.
type Agent struct {
	Label       string        // name of a known program or a shim, or "builtin"; the program of Command if that has no name
	Command     []string      // the command line, used in place of Label
	Filter      []string      // command that extracts the answer from Command's output
	Model       string        // "": the agent's default
	Flags       []string      // further flags of its program
	Permissions string        // one of AgentPermissions
	Timeout     time.Duration // time limit of one answer
	Silence     time.Duration // time limit without a line of output
	Unnamed     bool          // set by For: no key named an agent, so it is the default
}

// AgentPermissions are the values of permissions: what an agent may do without
// asking. With edit it may change files, with run also run commands, with all
// everything.
var AgentPermissions = []string{"edit", "run", "all"}

// DefaultAgent is the agent if none is configured.
const DefaultAgent = "codex"

// For returns the agent of a job. alias is the command that started the job's
// run, or "", and selectors are the names of its template.
func (a Agents) For(alias string, selectors ...string) Agent {
	out := Agent{Label: DefaultAgent, Unnamed: true}
	layers := []Agent{{Label: a.Label}, a.Default, a.Commands[alias]}
	for _, s := range selectors {
		layers = append(layers, a.Templates[s])
	}
	for _, l := range layers {
		if l.Label != "" || len(l.Command) > 0 { // another agent: options of the earlier one do not apply
			out.Label, out.Command, out.Filter = l.Label, l.Command, nil
			if l.Label == "" { // it has no other name
				out.Label = l.Command[0]
			}
			out.Model, out.Flags, out.Unnamed = "", nil, false
		}
		if len(l.Filter) > 0 {
			out.Filter = l.Filter
		}
		if l.Flags != nil {
			out.Flags = l.Flags
		}
		out.Model = cmp.Or(l.Model, out.Model)
		out.Permissions = cmp.Or(l.Permissions, out.Permissions)
		out.Timeout = cmp.Or(l.Timeout, out.Timeout)
		out.Silence = cmp.Or(l.Silence, out.Silence)
	}
	return out
}

func agents() setting {
	return setting{key: "agents.NAME",
		doc: "The agent of nodes: default, commands.ALIAS or templates.\"SELECTOR\", each with the keys agent, command, " +
			"progress_filter, model, flags, permissions, timeout and silence.",
		get:   func(c *Config) any { return c.Agents.shown() },
		names: func(c *Config) []string { return slices.Sorted(maps.Keys(c.Agents.shown())) },
		put: func(c *Config, name string, v any) error {
			switch name {
			case "default":
				return c.Agents.Default.read(name, v)
			case "commands":
				return readAgents(&c.Agents.Commands, name, v)
			case "templates":
				return readAgents(&c.Agents.Templates, name, v)
			}
			return fmt.Errorf("unknown key%s", hint(Nearest(name, []string{"default", "commands", "templates"})))
		}}
}

func readAgents(to *map[string]Agent, name string, v any) error {
	entries, ok := v.(map[string]any)
	if !ok {
		return mismatch("a table", v)
	}
	if *to == nil {
		*to = map[string]Agent{}
	}
	for key, entry := range entries {
		a := (*to)[key]
		if err := a.read(name+"."+key, entry); err != nil {
			return err
		}
		(*to)[key] = a
	}
	return nil
}

var agentKeys = []string{"agent", "command", "progress_filter", "model", "flags", "permissions", "timeout", "silence"}

// read sets the fields that the table v gives and keeps the others.
func (a *Agent) read(name string, v any) error {
	keys, ok := v.(map[string]any)
	if !ok {
		return mismatch("a table", v)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		var err error
		switch key {
		case "agent":
			a.Label, err = str(keys[key])
		case "command":
			a.Command, err = words(keys[key])
		case "progress_filter":
			a.Filter, err = words(keys[key])
		case "model":
			a.Model, err = str(keys[key])
		case "flags":
			a.Flags, err = flags(keys[key])
		case "permissions":
			if a.Permissions, err = str(keys[key]); err != nil || !slices.Contains(AgentPermissions, a.Permissions) {
				err = mismatch("one of \"edit\", \"run\" and \"all\"", keys[key])
			}
		case "timeout":
			a.Timeout, err = positiveDuration(keys[key])
		case "silence":
			a.Silence, err = positiveDuration(keys[key])
		default:
			return fmt.Errorf("unknown key %s.%s%s", name, key, hint(Nearest(key, agentKeys)))
		}
		if err != nil {
			return fmt.Errorf("%s.%s: %w", name, key, err)
		}
	}
	return nil
}

// positiveDuration parses a positive duration.
func positiveDuration(v any) (time.Duration, error) {
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, mismatch("a duration such as \"30m\"", v)
	}
	return d, nil
}

// flags parses a list of words. An empty list differs from an unset one.
func flags(v any) ([]string, error) {
	list, ok := v.([]any)
	out := []string{}
	for _, e := range list {
		s, word := e.(string)
		ok = ok && word
		out = append(out, s)
	}
	if !ok {
		return nil, mismatch("an array of strings", v)
	}
	return out, nil
}

// words parses a command: a list of words, or a single word.
func words(v any) ([]string, error) {
	want := "a command: an array of strings, or one word"
	if s, ok := v.(string); ok && strings.TrimSpace(s) != "" {
		return []string{s}, nil
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, mismatch(want, v)
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok || i == 0 && out[i] == "" {
			return nil, mismatch(want, v)
		}
	}
	return out, nil
}

// shown returns every value that is set, by its key below agents.
func (a Agents) shown() map[string]string {
	out := map[string]string{}
	add := func(name string, e Agent) {
		for key, v := range map[string]string{"agent": e.Label, "command": shownWords(e.Command), "progress_filter": shownWords(e.Filter),
			"model": e.Model, "flags": shownWords(e.Flags), "permissions": e.Permissions} {
			if v != "" {
				out[name+"."+key] = v
			}
		}
		if e.Timeout > 0 {
			out[name+".timeout"] = e.Timeout.String()
		}
		if e.Silence > 0 {
			out[name+".silence"] = e.Silence.String()
		}
	}
	add("default", a.Default)
	for name, e := range a.Commands {
		add("commands."+name, e)
	}
	for name, e := range a.Templates {
		add("templates.\""+name+"\"", e)
	}
	return out
}

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Hook configures a command that runs after certain events.
type Hook struct {
	On      []string      // the events: values of HookEvents
	Command string        // for sh -c
	Timeout time.Duration // time limit of one call
}

// HookEvents are the values of on: ways in which a job ends, and events.
var HookEvents = []string{"succeeded", "failed", "cancelled", "blocked", "approval.pending", "approval.granted", "approval.rejected",
	"run.succeeded", "run.failed", "run.blocked", "job.stalled", "attention"}

const defaultHookTimeout = time.Minute

func hooks() setting {
	return setting{key: "hooks.NAME",
		doc: "A command that runs when something has happened: on, a list of " + strings.Join(HookEvents, ", ") + "; command, for `sh -c`; " +
			"timeout, one minute by default.",
		get:   func(c *Config) any { return shownHooks(c.Hooks) },
		names: func(c *Config) []string { return slices.Sorted(maps.Keys(shownHooks(c.Hooks))) },
		put: func(c *Config, name string, v any) error {
			if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
				return fmt.Errorf("%q is no name of a hook: expected letters, digits, _ and -", name)
			}
			h := Hook{Timeout: defaultHookTimeout}
			if err := h.read(v); err != nil {
				return err
			}
			c.Hooks[name] = h
			return nil
		}}
}

// read is strict, since nobody would notice a hook that never runs.
func (h *Hook) read(v any) error {
	keys, ok := v.(map[string]any)
	if !ok {
		return mismatch("a table", v)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		var err error
		switch key {
		case "on":
			h.On, err = outcomes(keys[key])
		case "command":
			if h.Command, err = str(keys[key]); err == nil && strings.TrimSpace(h.Command) == "" {
				err = mismatch("a command for the shell", keys[key])
			}
		case "timeout":
			text, _ := keys[key].(string)
			if h.Timeout, err = time.ParseDuration(text); err != nil || h.Timeout <= 0 {
				err = mismatch("a duration such as \"30s\"", keys[key])
			}
		default:
			return fmt.Errorf("unknown key %s%s", key, hint(Nearest(key, []string{"on", "command", "timeout"})))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	switch {
	case len(h.On) == 0:
		return fmt.Errorf("on is missing: a list of %s", strings.Join(HookEvents, ", "))
	case h.Command == "":
		return fmt.Errorf("command is missing")
	}
	return nil
}

func outcomes(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, mismatch("an array of "+strings.Join(HookEvents, ", "), v)
	}
	var out []string
	for _, e := range list {
		s, ok := e.(string)
		if !ok || !slices.Contains(HookEvents, s) {
			return nil, mismatch("one of "+strings.Join(HookEvents, ", "), e)
		}
		out = append(out, s)
	}
	return out, nil
}

func shownHooks(hooks map[string]Hook) map[string]string {
	out := map[string]string{}
	for name, h := range hooks {
		out[name+".on"] = strings.Join(h.On, " ")
		out[name+".command"] = h.Command
		out[name+".timeout"] = h.Timeout.String()
	}
	return out
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

const configPath = ".vizier/config.toml"

// agentLine is the line of a new configuration that names the agent.
const agentLine = "# agent = \"codex\"\n"

// configured returns s, the configuration to be written if it is missing, with
// the chosen agent. note describes the choice, or is "".
func (x *initCmd) configured(c *call, r *repo, s starter, missing bool) (out starter, note string, err error) {
	if !missing {
		if now := r.Config.Agents.For("").Label; x.Agent != "" && now != x.Agent {
			return s, "", fmt.Errorf("%s exists, and its agent is %s: write agent = %q into it: %w", configPath, now, x.Agent, kernel.ErrConflict)
		}
		return s, "", nil
	}
	if r.AgentPrograms == nil {
		return s, "", nil
	}
	choose := c.askWhich
	if in, ok := c.stdin.(*os.File); !ok || !term.IsTerminal(int(in.Fd())) || !c.ui.errTTY {
		choose = nil
	}
	label, note, err := app.PickAgent(r.AgentPrograms, x.Agent, choose)
	if err != nil || label == "" {
		return s, note, err
	}
	s.text = bytes.Replace(s.text, []byte(agentLine), []byte(fmt.Sprintf("agent = %q\n", label)), 1)
	return s, note, nil
}

// askWhich lets the user choose one of labels by its number or its name. An
// empty answer means the first.
func (c *call) askWhich(labels []string) (string, error) {
	fmt.Fprintln(c.ui.err, "Which agent should templates ask?")
	for i, label := range labels {
		fmt.Fprintf(c.ui.err, "  %d  %s\n", i+1, visible(label, ""))
	}
	fmt.Fprint(c.ui.err, "[1] ")
	line, err := c.typed()
	switch line = strings.TrimSpace(line); {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(c.ui.err)
		return "", err
	case err != nil && line == "":
		return "", errors.New("no agent was chosen")
	case line == "":
		return labels[0], nil
	}
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(labels) {
		return labels[n-1], nil
	}
	return line, nil
}

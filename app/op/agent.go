package op

import (
	"context"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// agentInvoke passes the prompt that the node needs to the configured agent.
// The agent's answer becomes the payload of every custom artifact that the node
// produces.
func agentInvoke(ctx context.Context, env *Env, n *Node) (Result, error) {
	prompts, err := n.customNeeds("prompt_text")
	if err != nil {
		return Result{}, err
	}
	if len(prompts) != 1 {
		return Result{}, fmt.Errorf("expected one need custom:prompt_text:*, found %d: %w", len(prompts), kernel.ErrInvalid)
	}
	prompt, err := readText(env, n, prompts[0])
	if err != nil {
		return Result{}, err
	}
	products, err := n.customProducts()
	if err != nil {
		return Result{}, err
	}
	a, by, cut, err := answer(ctx, env, n, prompt, len(products) > 0)
	if err != nil {
		return Result{}, err
	}
	if a.Class != kernel.NoFailure {
		return Result{Outcome: kernel.OutcomeFailed, Exit: max(a.Exit, 1), Class: a.Class, Reason: a.Reason}, nil
	}
	if strings.TrimSpace(string(a.Text)) == "" {
		if missing := n.readLater(products); missing != "" {
			return silent(n, a.Run, missing), nil
		}
	}
	for _, p := range products {
		if err := writeText(env, n, p, string(a.Text), by); err != nil {
			return Result{}, err
		}
	}
	var notes []string
	if len(a.Run.Denied) > 0 {
		notes = append(notes, "warning: "+denied(a.Run))
	}
	if cut {
		notes = append(notes, fmt.Sprintf("warning: the agent's answer was cut at %d bytes", maxText))
	}
	return ok(strings.Join(notes, "; ")), nil
}

// answer asks the agent. If its answer is to be kept, by says how the answer
// came about.
func answer(ctx context.Context, env *Env, n *Node, prompt string, kept bool) (a kernel.AgentAnswer, by *answered, cut bool, err error) {
	if !kept {
		a, cut, err = askAgent(ctx, env, n, n.Dir, prompt)
		return a, nil, cut, err
	}
	began := env.Now()
	if a, cut, err = askAgent(ctx, env, n, n.Dir, prompt); err != nil {
		return a, nil, cut, err
	}
	by = &answered{ExitCode: a.Exit, DurationMS: max(0, env.Now().Sub(began).Milliseconds())}
	by.Stderr, err = errorLines(env, n)
	return a, by, cut, err
}

// readLater returns the first of n's products whose text another node of the
// run works with, or "".
func (n *Node) readLater(products []kernel.Artifact) string {
	for _, p := range products {
		for _, m := range n.Manifest.Nodes {
			if m.Reads(p) {
				return p.String()
			}
		}
	}
	return ""
}

// silent returns the result of an agent that ended well without an answer.
func silent(n *Node, run kernel.AgentRun, missing string) Result {
	why := ""
	if len(run.Denied) > 0 {
		why = "; " + denied(run)
	}
	return Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.MissingOutput,
		Reason: fmt.Sprintf("agent %s ended well and answered nothing, but its answer is to be %s%s; `vizier retry %s` asks again", run.Agent, missing, why, n.Job.ID)}
}

// denied describes what an agent was not allowed to do.
func denied(r kernel.AgentRun) string {
	return fmt.Sprintf("agent %s was not allowed to use %s", r.Agent, shorten(strings.Join(r.Denied, ", ")))
}

// askAgent runs the agent in dir, in the session of the attempt before if the
// job resumes its sessions. The answer is cut at maxText bytes; the rest is in
// no log either.
func askAgent(ctx context.Context, env *Env, n *Node, dir, prompt string) (a kernel.AgentAnswer, cut bool, err error) {
	_, session := n.Job.Session()
	before := env.told
	sum := func(run kernel.AgentRun) *kernel.AgentRun {
		if before != nil {
			run = before.Then(run)
		}
		return &run
	}
	began := func(run kernel.AgentRun) {
		if env.Told == nil {
			return
		}
		if err := env.Told(*sum(run)); err != nil {
			fmt.Fprintln(env.Stderr, "warning: the session of the agent is not on record before it ends:", err)
		}
	}
	a, err = env.Agents.Run(ctx, kernel.AgentRequest{Job: &n.Job, Dir: dir, Prompt: []byte(prompt), Session: session, Limit: maxText, Began: began})
	if err != nil {
		return kernel.AgentAnswer{}, false, err
	}
	env.told = sum(a.Run)
	if cut = len(a.Text) > maxText; cut {
		a.Text = a.Text[:maxText]
		fmt.Fprintf(env.Stderr, "warning: the agent's answer is longer than %d bytes; the rest is dropped\n", maxText)
	}
	return a, cut, ctx.Err()
}

// ended describes the end of a command that did not succeed.
func ended(exit int) string {
	if exit > 128 && exit < 128+65 {
		return fmt.Sprintf("was ended by signal %d (exit %d)", exit-128, exit)
	}
	return fmt.Sprintf("failed (exit %d)", exit)
}

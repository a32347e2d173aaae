package op

import (
	"context"
	"errors"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
)

// agentInvoke gives the prompt that the node needs to the agent that the
// configuration names. What it answers becomes the payload of every custom
// artifact the node produces.
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
	text, cut, exit, err := askAgent(ctx, env, n, n.Dir, prompt)
	if errors.Is(err, context.DeadlineExceeded) {
		return Result{Outcome: kernel.OutcomeFailed, Exit: exitTimeout, Class: kernel.Timeout, Reason: err.Error()}, nil
	}
	if err != nil {
		return Result{}, err
	}
	if exit != 0 {
		why := "the agent " + ended(exit)
		if exit == exitNotFound {
			why = fmt.Sprintf("the agent's program was not found (exit %d): install it, or name another agent in .vizier/config.toml", exit)
		}
		if last := oneLine(text); last != "" {
			why += "; its last line was: " + last
		}
		return failed(exit, "%s", why), nil
	}
	products, err := n.customProducts()
	if err != nil {
		return Result{}, err
	}
	for _, a := range products {
		if err := writeText(env, n, a, text); err != nil {
			return Result{}, err
		}
	}
	if cut {
		return ok(fmt.Sprintf("warning: the agent's answer was cut at %d bytes", maxText)), nil
	}
	return ok(""), nil
}

// exitNotFound is the exit code of a shell that does not find a program.
const exitNotFound = 127

// exitTimeout is the exit code of what a time limit ended.
const exitTimeout = 124

// askAgent runs the agent in dir. Its answer is cut at maxText bytes; what
// came after that is in no log either.
func askAgent(ctx context.Context, env *Env, n *Node, dir, prompt string) (text string, cut bool, exit int, err error) {
	answer, exit, err := env.Agents.Run(ctx, dir, &n.Job, []byte(prompt), maxText)
	if err != nil {
		return "", false, 0, err
	}
	if cut = len(answer) > maxText; cut {
		answer = answer[:maxText]
		fmt.Fprintf(env.Stderr, "warning: the agent's answer is longer than %d bytes; the rest is dropped\n", maxText)
	}
	return string(answer), cut, exit, ctx.Err()
}

// ended says how a command ended that did not succeed.
func ended(exit int) string {
	if exit > 128 && exit < 128+65 {
		return fmt.Sprintf("was ended by signal %d (exit %d)", exit-128, exit)
	}
	return fmt.Sprintf("failed (exit %d)", exit)
}

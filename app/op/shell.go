package op

import (
	"context"
	"strings"
)

// commandRun runs the script of its argument command or script.
func commandRun(ctx context.Context, env *Env, n *Node) (Result, error) {
	script := n.arg("command", "script")
	if script == "" {
		return Result{}, missingInput("no script: set command or script")
	}
	exit, err := runScript(ctx, env, n, n.Dir, script)
	switch {
	case err != nil:
		return Result{}, err
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case exit != 0:
		return failed(exit, "the script %s", ended(exit)), nil
	}
	return ok(""), nil
}

// runScript runs a script in dir and returns its exit code.
func runScript(ctx context.Context, env *Env, n *Node, dir, script string) (int, error) {
	before := logEnds(env, n)
	exit, err := env.Shell.Run(ctx, dir, script, nil)
	env.hears(n, exit, before)
	return exit, err
}

// hears notes what a script said last that ended with exit and before which the logs of n's attempt ended as in before.
func (env *Env) hears(n *Node, exit int, before [2]string) {
	if env.said = ""; exit == 0 {
		return
	}
	for i, end := range logEnds(env, n) {
		if end != before[i] {
			env.said = shorten(strings.TrimSpace(end[strings.LastIndex(end, "\n")+1:]))
			return
		}
	}
}

// logEnds returns the ends of the logs of n's attempt, standard error first. A job with secrets has none: what it prints
// passes a filter, and may not be in its logs yet.
func logEnds(env *Env, n *Node) (ends [2]string) {
	const most = 4 << 10
	if len(n.Job.Spec.Task.Secrets) > 0 {
		return ends
	}
	for i, stream := range []string{"stderr", "stdout"} {
		if text, err := env.Files.LogTail(n.Job.ID, stream, most); err == nil { // the reason is true without it, too
			ends[i] = strings.TrimSpace(strings.ToValidUTF8(string(text), "\ufffd"))
		}
	}
	return ends
}

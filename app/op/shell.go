package op

import (
	"context"
	"maps"
	"slices"
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
	env.hears(ctx, n, exit, before)
	return exit, err
}

// Printed is a line that an attempt has printed, as a terminal shows it in the end: without escape sequences.
type Printed struct {
	Stream, Text string
}

// hears notes what a script said last that ended with exit and before which the logs of n's attempt ended as in before.
// Of what both streams have, that is what was printed last.
func (env *Env) hears(ctx context.Context, n *Node, exit int, before map[string]string) {
	env.said = ""
	after := logEnds(env, n)
	if exit == 0 || env.Printed == nil || maps.Equal(before, after) {
		return
	}
	for _, line := range slices.Backward(env.Printed(ctx, n.Job.ID)) {
		if line.Text != "" && before[line.Stream] != after[line.Stream] {
			env.said = shorten(line.Text)
			return
		}
	}
}

// logEnds returns the ends of the logs of n's attempt. A job with secrets has none: what it prints passes a filter, and
// may not be in its logs yet.
func logEnds(env *Env, n *Node) map[string]string {
	const most = 4 << 10
	ends := map[string]string{}
	if len(n.Job.Spec.Task.Secrets) > 0 {
		return ends
	}
	for _, stream := range []string{"stdout", "stderr"} {
		text, _ := env.Files.LogTail(n.Job.ID, stream, most) // the reason is true without it, too
		ends[stream] = string(text)
	}
	return ends
}

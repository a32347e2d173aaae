package op

import "context"

// commandRun runs the script of its argument command or script.
func commandRun(ctx context.Context, env *Env, n *Node) (Result, error) {
	script := n.arg("command", "script")
	if script == "" {
		return Result{}, missingInput("no script: set command or script")
	}
	exit, err := env.Shell.Run(ctx, n.Dir, script, nil)
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

package op

// registry maps every operation and control policy of the inventory to what
// performs it; a test asserts that they are the same set.
//
//nolint:gochecknoglobals // a table
var registry = map[string]operation{
	"agent.invoke":              gated(agentInvoke),
	"build.materialize_step":    gated(buildMaterializeStep),
	"cicd.run":                  control,
	"command.run":               gated(commandRun),
	"gate.approval":             control,
	"gate.cicd":                 control,
	"gate.conflict_resolution":  control,
	"gate.stop_condition":       control,
	"git.commit":                gated(unlocked(gitCommit)),
	"git.integrate_plan_branch": gitIntegrate, // which looks at its gate before the target moves
	"git.save_worktree_patch":   gated(gitSavePatch),
	"git.stage":                 gated(unlocked(gitStage)),
	"git.stage_commit":          gated(unlocked(gitStageCommit)),
	"merge.sentinel.clear":      gated(sentinelClear),
	"merge.sentinel.write":      gated(sentinelWrite),
	"patch.execute_pipeline":    gated(unlocked(patchExecute)),
	"patch.pipeline_finalize":   gated(patchFinalize),
	"patch.pipeline_prepare":    gated(patchPrepare),
	"plan.persist":              gated(planPersist),
	"prompt.resolve":            gated(promptResolve),
	"terminal":                  control,
	"worktree.cleanup":          gated(worktreeCleanup),
	"worktree.prepare":          gated(worktreePrepare),
}

func lookup(n *Node) (operation, bool) {
	name := n.Operation
	if name == "" {
		name = n.Control
	}
	run, ok := registry[name]
	return run, ok
}

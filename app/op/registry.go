package op

// performer holds the function that performs an operation, and the finder for
// what an earlier attempt has done; without a finder nobody can tell. The zero
// value is that of a control policy.
type performer struct {
	run    operation
	look   finder
	judges bool // it checks its gate itself, before it is done
}

// registry maps every operation and control policy of the inventory to what
// performs it; a test asserts that they are the same set.
//
//nolint:gochecknoglobals // a table
var registry = map[string]performer{
	"agent.invoke":              {run: agentInvoke},
	"build.materialize_step":    {run: buildMaterializeStep, look: repeatable},
	"cicd.run":                  {},
	"command.run":               {run: commandRun},
	"gate.approval":             {},
	"gate.cicd":                 {},
	"gate.conflict_resolution":  {},
	"gate.stop_condition":       {},
	"git.commit":                {run: unlocked(settled(gitCommit)), look: commitMade},
	"git.integrate_plan_branch": {run: gitIntegrate, look: repeatable, judges: true},
	"git.save_worktree_patch":   {run: settled(gitSavePatch), look: repeatable},
	"git.stage":                 {run: unlocked(settled(gitStage)), look: repeatable},
	"git.stage_commit":          {run: unlocked(settled(gitStageCommit)), look: commitMade},
	"merge.sentinel.clear":      {run: sentinelClear, look: repeatable},
	"merge.sentinel.write":      {run: sentinelWrite, look: repeatable},
	"patch.execute_pipeline":    {run: unlocked(settled(patchExecute)), look: repeatable},
	"patch.pipeline_finalize":   {run: settled(patchFinalize), look: repeatable},
	"patch.pipeline_prepare":    {run: patchPrepare, look: repeatable},
	"plan.persist":              {run: planPersist, look: repeatable},
	"prompt.resolve":            {run: promptResolve, look: promptMade},
	"terminal":                  {},
	"worktree.cleanup":          {run: worktreeCleanup, look: repeatable},
	"worktree.prepare":          {run: worktreePrepare, look: repeatable},
}

func lookup(n *Node) (operation, bool) {
	p, ok := registry[n.performs()]
	if p.run == nil {
		return control, ok
	}
	return p.gated, ok
}

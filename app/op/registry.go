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
	"build.materialize_step":    {run: buildMaterializeStep, look: goesOn},
	"cicd.run":                  {},
	"command.run":               {run: commandRun},
	"gate.approval":             {},
	"gate.cicd":                 {},
	"gate.conflict_resolution":  {},
	"gate.stop_condition":       {},
	"git.commit":                {run: unlocked(gitCommit), look: commitMade},
	"git.integrate_plan_branch": {run: gitIntegrate, look: goesOn, judges: true},
	"git.save_worktree_patch":   {run: gitSavePatch, look: goesOn},
	"git.stage":                 {run: unlocked(gitStage), look: goesOn},
	"git.stage_commit":          {run: unlocked(gitStageCommit), look: commitMade},
	"merge.sentinel.clear":      {run: sentinelClear, look: goesOn},
	"merge.sentinel.write":      {run: sentinelWrite, look: goesOn},
	"patch.execute_pipeline":    {run: unlocked(patchExecute), look: goesOn},
	"patch.pipeline_finalize":   {run: patchFinalize, look: goesOn},
	"patch.pipeline_prepare":    {run: patchPrepare, look: goesOn},
	"plan.persist":              {run: planPersist, look: goesOn},
	"prompt.resolve":            {run: promptResolve, look: promptMade},
	"terminal":                  {},
	"worktree.cleanup":          {run: worktreeCleanup, look: goesOn},
	"worktree.prepare":          {run: worktreePrepare, look: goesOn},
}

func lookup(n *Node) (operation, bool) {
	p, ok := registry[n.performs()]
	if p.run == nil {
		return control, ok
	}
	return p.gated, ok
}

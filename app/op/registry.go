package op

// performer is what performs an operation, and what finds that an earlier
// attempt has; without one nobody can tell. The zero value is a control policy.
type performer struct {
	run  operation
	look finder
}

// registry maps every operation and control policy of the inventory to what
// performs it; a test asserts that they are the same set.
//
//nolint:gochecknoglobals // a table
var registry = map[string]performer{
	"agent.invoke":              {agentInvoke, nil},
	"build.materialize_step":    {buildMaterializeStep, goesOn},
	"cicd.run":                  {},
	"command.run":               {commandRun, nil},
	"gate.approval":             {},
	"gate.cicd":                 {},
	"gate.conflict_resolution":  {},
	"gate.stop_condition":       {},
	"git.commit":                {unlocked(gitCommit), commitMade},
	"git.integrate_plan_branch": {gitIntegrate, goesOn},
	"git.save_worktree_patch":   {gitSavePatch, goesOn},
	"git.stage":                 {unlocked(gitStage), goesOn},
	"git.stage_commit":          {unlocked(gitStageCommit), commitMade},
	"merge.sentinel.clear":      {sentinelClear, goesOn},
	"merge.sentinel.write":      {sentinelWrite, goesOn},
	"patch.execute_pipeline":    {unlocked(patchExecute), goesOn},
	"patch.pipeline_finalize":   {patchFinalize, goesOn},
	"patch.pipeline_prepare":    {patchPrepare, goesOn},
	"plan.persist":              {planPersist, goesOn},
	"prompt.resolve":            {promptResolve, promptMade},
	"terminal":                  {},
	"worktree.cleanup":          {worktreeCleanup, goesOn},
	"worktree.prepare":          {worktreePrepare, goesOn},
}

func lookup(n *Node) (operation, bool) {
	p, ok := registry[n.performs()]
	if p.run == nil {
		return control, ok
	}
	return p.gated, ok
}

package op

import (
	"context"
	"errors"

	"github.com/vizier-scheduler/vizier/kernel"
)

// resume reports that the worktree holds a merge to go on with: of the source
// as it is now, with nothing in conflict, and not undone. A conflict that is
// open still is left alone; one that a person dropped by retrying the job is
// parked and the merge begins anew.
func (m *integration) resume(ctx context.Context, source, onto, merged kernel.CommitID) (bool, *Result, error) {
	if source == "" || source != m.tip {
		return false, nil, m.discard(ctx)
	}
	if merged != "" {
		return true, nil, nil
	}
	files, err := m.env.Git.Unmerged(ctx, m.dir)
	if err != nil {
		return false, nil, err
	}
	if len(files) == 0 {
		goOn, err := m.resolved(ctx, onto)
		if err == nil && !goOn {
			err = m.discard(ctx)
		}
		return goOn, nil, err
	}
	open, err := readSentinel(m.env, m.slug)
	if err != nil {
		return false, nil, err
	}
	if open != nil && open.Job == string(m.n.Job.ID) {
		r, err := m.conflict(files)
		return false, r, err
	}
	return false, nil, m.discard(ctx)
}

// resolved reports that a merge without conflicts any more is one to go on
// with. Resolved so that nothing differs from the target, a squash merge looks
// like one that somebody has undone, but for git's note that it is one.
func (m *integration) resolved(ctx context.Context, onto kernel.CommitID) (bool, error) {
	empty, err := m.empty(ctx, onto)
	if err != nil || !empty {
		return err == nil, err
	}
	squashing, err := m.env.Git.Squashing(ctx, m.dir)
	if err != nil || !squashing {
		return false, err
	}
	return true, m.env.Git.SetMergeState(ctx, m.dir, "", "", onto)
}

// empty reports that the worktree holds nothing but the commit onto: the merge
// brings nothing, or somebody has undone it.
func (m *integration) empty(ctx context.Context, onto kernel.CommitID) (bool, error) {
	head, err := m.env.Git.HeadCommit(ctx, m.dir)
	if err != nil || head != onto {
		return false, err
	}
	staged, err := m.env.Git.Staged(ctx, m.dir)
	if err != nil || staged {
		return false, err
	}
	merging, err := m.env.Git.Merging(ctx, m.dir)
	return !merging, err
}

// discard removes the worktree. Work in it that nothing else keeps is parked.
func (m *integration) discard(ctx context.Context) error {
	gone := m.env.Git.RemoveWorktree(ctx, m.tree)
	if gone.Status == kernel.CleanupFailed || gone.Status == kernel.CleanupDegraded {
		return errors.New(gone.Error)
	}
	return nil
}

// deref is what r says, or nothing.
func deref(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}

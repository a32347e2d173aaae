package op

import (
	"context"
	"errors"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
)

// resume reports whether the worktree holds a merge that can be continued: one
// of the current source, without conflicts, and not undone. A conflict that is
// still open is left alone, and so are changes that are not staged. If a person
// dropped the conflict by retrying the job, or undid the merge, what is there is
// parked and the merge starts over.
func (m *integration) resume(ctx context.Context, source, onto, merged kernel.CommitID) (bool, *Result, error) {
	current, err := current(ctx, m.env, m.slug, source, m.tip)
	if err != nil {
		return false, nil, err
	}
	if !current {
		before := m.env.Git.Kept()
		if err := m.discard(ctx); err != nil || source == "" {
			return false, nil, err
		}
		m.since = m.source + " has moved since it was last merged"
		if m.env.Git.Kept() > before {
			m.since += fmt.Sprintf(", and what that merge got to is parked (`vizier tail %s`)", m.n.Job.ID)
		}
		m.since += "; "
		return false, nil, nil
	}
	m.from = source
	if merged != "" {
		return true, nil, nil
	}
	over, changed, err := undone(ctx, m.env, m.dir, onto)
	if err == nil && !over && !m.squash {
		over, err = m.unparented(ctx)
		changed = over
	}
	if err != nil {
		return false, nil, err
	}
	if over {
		if changed {
			m.since = fmt.Sprintf("the merge was undone in its worktree, and what was changed there since is parked (`vizier tail %s`); ", m.n.Job.ID)
		}
		return false, nil, m.discard(ctx)
	}
	open, err := readSentinel(m.env, m.slug)
	if err != nil {
		return false, nil, err
	}
	own := open != nil && open.Job == string(m.n.Job.ID)
	unmerged, err := m.env.Git.Unmerged(ctx, m.dir)
	if err != nil {
		return false, nil, err
	}
	if len(unmerged) > 0 && !own {
		return false, nil, m.discard(ctx)
	}
	var was []string
	if own {
		was = open.Files
	}
	files, _, err := unresolved(ctx, m.env, m.dir, was)
	if err != nil {
		return false, nil, err
	}
	if len(files) > 0 {
		r, err := m.conflict(ctx, files)
		return false, r, err
	}
	if m.putBack {
		r := blocked(unstaged, m.dir, m.n.Job.ID, m.n.Job.ID)
		return false, &r, nil
	}
	empty, err := m.empty(ctx, onto)
	if err == nil && empty { // resolved to exactly what the target has
		err = m.env.Git.SetMergeState(ctx, m.dir, "", "", onto)
	}
	return err == nil, nil, err
}

// undone reports whether somebody has undone the merge in the worktree dir, onto the commit onto, and
// whether tracked files were changed there since. While a merge is in progress, git has a note of
// it, without which a squash merge would look the same.
func undone(ctx context.Context, env *Env, dir string, onto kernel.CommitID) (over, changed bool, err error) {
	head, err := env.Git.HeadCommit(ctx, dir)
	if err != nil || head != onto {
		return false, false, err
	}
	merging, err := env.Git.Merging(ctx, dir)
	if err != nil || merging {
		return false, false, err
	}
	squashing, err := env.Git.Squashing(ctx, dir)
	if err != nil || squashing {
		return false, false, err
	}
	if changed, err = env.Git.Staged(ctx, dir); err != nil || changed {
		return true, changed, err
	}
	edited, _, err := env.Git.Unstaged(ctx, dir)
	return true, len(edited) > 0, err
}

// unparented reports whether a merge that is to have the source as its second parent was undone, and
// something else was committed in its place.
func (m *integration) unparented(ctx context.Context) (bool, error) {
	merging, err := m.env.Git.Merging(ctx, m.dir)
	if err != nil || merging {
		return false, err
	}
	head, err := m.env.Git.HeadCommit(ctx, m.dir)
	if err != nil {
		return false, err
	}
	there, err := m.env.Git.IsAncestor(ctx, m.tip, head)
	return !there, err
}

// empty reports whether the worktree contains nothing but the commit onto: the
// merge changes nothing.
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

// discard removes the worktree. Work in it that is kept nowhere else is parked.
func (m *integration) discard(ctx context.Context) error {
	gone := m.env.Git.RemoveWorktree(ctx, m.tree)
	if gone.Status == kernel.CleanupFailed || gone.Status == kernel.CleanupDegraded {
		return errors.New(gone.Error)
	}
	return nil
}

// deref returns *r, or a zero Result if r is nil.
func deref(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}

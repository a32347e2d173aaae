package op

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// maxMoves is how often the target may move during a merge before the node
// gives up.
const maxMoves = 8

// conclude commits what is merged in the worktree and moves the target to it.
func (m *integration) conclude(ctx context.Context) (Result, error) {
	git := m.env.Git
	source, onto, merged, err := git.MergeState(ctx, m.dir)
	if err != nil {
		return Result{}, err
	}
	if merged == "" {
		r, err := m.commit(ctx, onto)
		if err != nil || r.merged == "" {
			return r.Result, err
		}
		merged = r.merged
		if err := git.SetMergeState(ctx, m.dir, "", "", merged); err != nil {
			return Result{}, err
		}
	}
	for range maxMoves {
		if merged == onto {
			return m.finish(ctx, m.nothing(), source, onto)
		}
		warning, stop, err := m.judge(ctx, merged)
		if err != nil || stop != nil {
			return deref(stop), err
		}
		obstacle, moved, err := git.Advance(ctx, m.target, onto, merged)
		switch {
		case err != nil:
			return Result{}, err
		case obstacle != "":
			return *m.stuck(obstacle), nil
		case moved:
			return m.finish(ctx, fmt.Sprintf("merged %s into %s as %s%s", m.source, m.target, short(merged), warning), source, merged)
		}
		now, err := tipOf(ctx, m.env, m.target)
		switch {
		case err != nil:
			return Result{}, err
		case now == "":
			return *m.stuck(m.noTarget(ctx)), nil
		}
		again, err := git.Replay(ctx, merged, onto, now)
		if err != nil {
			return Result{}, fmt.Errorf("merge again, as %s moved: %w", m.target, err)
		}
		if again == "" {
			return m.collide(ctx, merged, now)
		}
		if err := git.SetMergeState(ctx, m.dir, "", now, again); err != nil {
			return Result{}, err
		}
		onto, merged = now, again
	}
	return failed(1, "branch %s moved %d times while it was being merged into: `vizier retry %s`", m.target, maxMoves, m.n.Job.ID), nil
}

// collide goes on after the target has moved to a commit that conflicts with merged,
// the result so far. A squash keeps what was resolved: its result is merged into the
// new target. A merge with a second parent, or one whose worktree has other changes,
// starts over, and the work so far is parked.
func (m *integration) collide(ctx context.Context, merged, now kernel.CommitID) (Result, error) {
	begun, err := m.env.Git.Unmerged(ctx, m.dir) // by an attempt that was cut off
	if err != nil {
		return Result{}, err
	}
	edited, _, err := m.env.Git.Unstaged(ctx, m.dir)
	if err != nil {
		return Result{}, err
	}
	m.onto = now
	if m.squash && (len(edited) == 0 || len(begun) > 0) {
		m.since = m.target + " has moved since, and what was merged so far conflicts with that: "
		stop, err := m.mergeOnto(ctx, merged)
		if err != nil || stop != nil {
			return deref(stop), err
		}
	} else {
		m.since = fmt.Sprintf("%s has moved since, and what was merged so far is parked (`vizier tail %s`); ", m.target, m.n.Job.ID)
		if err := m.discard(ctx); err != nil {
			return Result{}, err
		}
		stop, err := m.begin(ctx)
		if err != nil || stop != nil {
			return deref(stop), err
		}
	}
	return failed(1, "branch %s moved while it was being merged into: `vizier retry %s`", m.target, m.n.Job.ID), nil
}

// mergeCommit is a commit, or the result that says why there is none.
type mergeCommit struct {
	Result
	merged kernel.CommitID
}

// commit commits the merge in the worktree, on top of onto. If a person has
// committed there, that commit is the merge or a part of it, and only lacks the
// effect's trailer.
func (m *integration) commit(ctx context.Context, onto kernel.CommitID) (mergeCommit, error) {
	git := m.env.Git
	head, err := git.HeadCommit(ctx, m.dir)
	if err != nil {
		return mergeCommit{}, err
	}
	if on, err := git.IsAncestor(ctx, onto, head); err != nil || !on {
		if err == nil {
			err = fmt.Errorf("worktree %s is at %s, which does not contain %s: put it back with %s",
				m.tree.Worktree, short(head), short(onto), gitIn(m.dir, "update-ref", "--no-deref", "HEAD", string(onto)))
		}
		return mergeCommit{}, err
	}
	staged, err := git.Staged(ctx, m.dir)
	if err != nil {
		return mergeCommit{}, err
	}
	merging, err := git.Merging(ctx, m.dir)
	if err != nil {
		return mergeCommit{}, err
	}
	write, message := git.Commit, ""
	if staged || merging {
		message, err = m.message(ctx)
	} else {
		write = git.Amend
		message, err = git.Message(ctx, head)
		if err == nil && effect.Named(message) == m.key {
			return mergeCommit{merged: head}, nil
		}
	}
	if err != nil {
		return mergeCommit{}, err
	}
	id, err := write(ctx, m.dir, withEffect(message, m.key))
	if err != nil {
		r, err := gitFailed(m.env, m.n, err)
		return mergeCommit{Result: r}, err
	}
	return mergeCommit{merged: id}, nil
}

// message returns the commit message: the subject followed by the plan's
// document.
func (m *integration) message(ctx context.Context) (string, error) {
	subject := m.n.arg("message")
	if subject == "" {
		subject = "feat: merge plan " + m.slug
	}
	doc, err := m.env.Git.LastFile(ctx, m.tip, m.onto, planFile(m.slug))
	if err != nil {
		return "", fmt.Errorf("plan document of %s: %w", m.slug, err)
	}
	text := strings.TrimSpace(strings.ReplaceAll(string(doc), "\x00", ""))
	return strings.TrimSpace(subject + "\n\n" + text), nil
}

func (m *integration) nothing() string {
	return "nothing to commit: " + m.source + " brings nothing new to " + m.target + ", which has not moved"
}

// leave deletes the source branch or, if it is to be kept, moves it to what was
// merged, which lacks the plan's document. It returns a remark about what it did
// not do, or "".
func (m *integration) leave(ctx context.Context, merged kernel.CommitID) (string, error) {
	current, err := current(ctx, m.env, m.slug, merged, m.tip)
	if err != nil || m.drop && !current {
		return "; branch " + m.source + " is kept: it is not what was merged", err
	}
	said := ""
	if m.drop {
		err := m.env.Git.DeleteBranch(ctx, m.source, m.tip)
		if err == nil {
			return "", nil
		}
		fmt.Fprintln(m.env.Stderr, err)
		said = "; branch " + m.source + " is kept: " + err.Error()
	}
	if !current || merged == m.tip {
		return said, nil
	}
	obstacle, moved, err := m.env.Git.Advance(ctx, m.source, m.tip, merged)
	if err == nil && !moved {
		said += "; branch " + m.source + " keeps the plan's document: " + cmp.Or(obstacle, "it has moved")
	}
	return said, err
}

// finish cleans up after a merge: it deletes the source branch, if that was
// asked for and the branch still has what was merged, the sentinel of its conflict,
// and the worktree. The conflict of another branch of the plan stays open. has is
// a commit of the target that has what the branch brought.
func (m *integration) finish(ctx context.Context, what string, merged, has kernel.CommitID) (r Result, err error) {
	git, settled := m.env.Git, effect.Merge{Source: cmp.Or(m.tip, merged), Target: has}
	defer func() { r.Merge = settled }()
	if m.tip != "" {
		if err := m.settle(ctx, settled); err != nil {
			return Result{}, err
		}
		left, err := m.leave(ctx, merged)
		if err != nil {
			return Result{}, err
		}
		what += left
	}
	open, err := readSentinel(m.env, m.slug)
	if err == nil && open != nil && (open.Source == m.source || open.Run == string(m.n.Job.Spec.Origin.Run)) {
		err = m.env.Files.ClearSentinel(m.slug)
	}
	if err != nil {
		return Result{}, err
	}
	if _, _, result, err := git.MergeState(ctx, m.dir); err == nil && result != "" {
		edited, _, err := git.Unstaged(ctx, m.dir)
		switch {
		case err != nil:
			return Result{}, err
		case len(edited) > 0:
			what += fmt.Sprintf("; what was changed in its worktree afterwards is not part of it, and is parked: %s (`vizier tail %s`)", shorten(strings.Join(edited, ", ")), m.n.Job.ID)
		default: // it may be at an earlier form of the result, which nobody needs and which would be parked
			if err := git.Detach(ctx, m.dir, result); err != nil {
				return Result{}, err
			}
		}
	}
	if err := m.discard(ctx); err != nil {
		what += "; its worktree is left: " + err.Error()
	}
	return ok(what), nil
}

// settle puts on record what the merge settled if it is about to delete the branch: an attempt that is cut off after that may leave
// nothing else by which the next one could tell.
func (m *integration) settle(ctx context.Context, settled effect.Merge) error {
	if !m.drop {
		return nil
	}
	old, err := m.env.Effects.Effect(m.n.Job.ID, m.key)
	if err != nil {
		return &classed{kernel.DataError, err}
	}
	if old == nil || old.Merge == settled {
		return nil
	}
	e := *old
	e.Merge = settled
	return UntilRoom(ctx, func() error { return m.env.Effects.RecordEffect(ctx, e) })
}

// finishAgain ends a merge whose branch is gone, if an earlier attempt of its job has merged it. It
// succeeds only if the target still has what was merged. It returns nil if none has merged it.
func (m *integration) finishAgain(ctx context.Context) (*Result, error) {
	var source kernel.CommitID
	for g := m.n.Job.State.Generation; g >= 0; g-- {
		was, has, err := merged(ctx, m.env, m.n, g, m.onto)
		if err != nil {
			return nil, err
		}
		source = cmp.Or(source, was.Source)
		if has != "" {
			r, err := m.finish(ctx, fmt.Sprintf("%s was merged before, and is gone: %s has it in %s", m.source, m.target, short(has)), source, has)
			return &r, err
		}
	}
	if source == "" && !m.n.Job.State.Closed {
		return nil, nil
	}
	r := failed(1, "%s was merged before, and is gone, but %s "+kernel.LacksMerge+": make the branch again with `%s`, then `vizier retry %s`; if it is not to be merged again, nothing is left to do",
		m.source, m.target, remake(ctx, m.env, m.source, source), m.n.Job.ID)
	return &r, nil
}

// merged returns what the merge n settled in a generation, and the commit at or below onto, a commit of the
// target, that has it. These are zero if that generation has merged nothing, or onto does not have it.
func merged(ctx context.Context, env *Env, n *Node, generation int, onto kernel.CommitID) (was effect.Merge, has kernel.CommitID, err error) {
	key := effectKeyOf(n, generation, "")
	e, err := env.Effects.Effect(n.Job.ID, key)
	if err != nil {
		return was, "", &classed{kernel.DataError, err}
	}
	if e == nil { // whatever a commit says, it is not that of what never began
		return was, "", nil
	}
	was = e.Merge
	if e.Attempt < n.Job.State.Attempt || e.State != effect.Intended || n.again { // else no attempt has begun it before this one
		has, err = committed(ctx, env, n, onto, key)
	}
	if err == nil && has == "" && was.Target != "" {
		there, gone := env.Git.IsAncestor(ctx, was.Target, onto)
		if gone != nil { // the commit
			fmt.Fprintln(env.Stderr, gone)
		}
		if there {
			has = was.Target
		}
	}
	return was, has, err
}

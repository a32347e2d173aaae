package kernel

// canonical returns p with the custom preconditions that seed 000 supports
// replaced by the kinds that they stand for. ID is kept for messages.
func (p Precondition) canonical() Precondition {
	if p.Kind == CustomPrecondition {
		switch p.ID {
		case CleanWorktree.String():
			p.Kind = CleanWorktree
		case BranchExists.String():
			p.Kind = BranchExists
		}
	}
	return p
}

// branchFor returns the branch that a branch_exists precondition refers to: its
// own, the pinned one, or that of the only branch lock. "" means the branch
// that is checked out.
func (j *Job) branchFor(p Precondition) string {
	if p.Branch != "" {
		return p.Branch
	}
	if j.Spec.Pinned.Branch != "" {
		return j.Spec.Pinned.Branch
	}
	found := ""
	for _, l := range j.Spec.Locks {
		if b, ok := l.Branch(); ok {
			if found != "" && found != b {
				return ""
			}
			found = b
		}
	}
	return found
}

func (t *tick) checkPreconditions(i int32, from int) (verdict, int) {
	j := t.s.jobs[i]
	for n := from; n < len(j.Spec.Preconditions); n++ {
		if v := t.checkPrecondition(j, j.Spec.Preconditions[n]); v.kind != passed {
			return v, n + 1
		}
	}
	return verdict{}, len(j.Spec.Preconditions)
}

func (t *tick) checkPrecondition(j *Job, p Precondition) verdict {
	custom := p.Kind == CustomPrecondition
	switch p = p.canonical(); p.Kind {
	case CleanWorktree:
		return t.checkClean(j, custom)
	case BranchExists:
		return t.checkBranch(j, p, custom)
	default:
		return blocks("custom precondition `" + p.ID + "` is not supported by scheduler runtime")
	}
}

func (t *tick) checkClean(j *Job, custom bool) verdict {
	const dirty = "working tree has uncommitted or untracked changes"
	f := t.s.facts.Clean
	t.s.ask(j, f.asked())
	switch {
	case !f.Known:
		return waits("cannot tell whether the working tree is clean: " + unobserved(f.Err))
	case f.Value:
		return verdict{}
	case custom:
		return waits("custom precondition clean_worktree failed: " + dirty)
	default:
		return waits(dirty)
	}
}

func (t *tick) checkBranch(j *Job, p Precondition, custom bool) verdict {
	branch := j.branchFor(p)
	if branch == "" {
		head := t.s.facts.Head
		t.s.ask(j, head.asked())
		if !head.Known {
			return waits("cannot tell which branch is checked out: " + unobserved(head.Err))
		}
		branch = head.Value
	}
	if branch == "" {
		if custom {
			return blocks("custom precondition branch_exists requires `branch` arg or branch context")
		}
		return blocks("branch_exists precondition requires branch context " +
			"(set precondition.branch, pinned_head, or a single branch lock)")
	}
	f := t.s.facts.Heads[branch]
	t.s.ask(j, f.asked())
	switch {
	case !f.Known:
		return waits("cannot tell whether branch `" + branch + "` exists: " + unobserved(f.Err))
	case f.Value != "":
		return verdict{}
	case custom:
		return waits("custom precondition branch_exists failed: `" + branch + "` missing")
	default:
		return waits("required branch `" + branch + "` does not exist")
	}
}

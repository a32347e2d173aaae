package kernel

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// RetrySet is what a rewind of a job comes to (seed 000).
type RetrySet struct {
	Of        JobID   // that was asked for
	Root      JobID   // what is rewound first: itself, or what makes its worktree
	Succeeded []JobID // the root's direct predecessors that succeeded: the last successful point
	Jobs      []JobID // root first, then schedule order
	Why       map[JobID]string
}

// RetryOf lists what a rewind of root would touch, and why each job is in it: what
// depends on it, and what the ends of those woke.
// It refuses a set with a running member, and one that holds a merge while git
// is in the middle of one.
func RetryOf(s *Snapshot, root JobID) (RetrySet, error) {
	set := RetrySet{Of: root, Root: root, Why: map[JobID]string{}}
	if s.Job(root) == nil {
		return set, fmt.Errorf("retry %s: %w", root, ErrNotFound)
	}
	set.Root = s.restart(root)
	set.Jobs = s.Downstream(set.Root)
	woken := s.handlers(set.Jobs)
	set.Jobs = append(set.Jobs, woken...)
	var running []string
	for _, id := range set.Jobs {
		if st := s.Job(id).State.Status; st == Running {
			running = append(running, fmt.Sprintf("%s (%s)", id, st))
		}
		set.Why[id] = s.whyRewound(set.Root, id, set.Jobs)
	}
	for _, id := range woken {
		set.Why[id] = "was woken by how an earlier one ended"
	}
	if len(running) > 0 {
		return set, fmt.Errorf("cannot retry while jobs are running in the retry set: %s: %w",
			strings.Join(running, ", "), ErrRunning)
	}
	if set.Root != root {
		set.Why[set.Root] = "makes the worktree that " + string(root) + " ran in and that is gone"
	}
	for _, id := range s.Predecessors(set.Root) {
		if s.Job(id).State.Status == Succeeded {
			set.Succeeded = append(set.Succeeded, id)
		}
	}
	if m := s.facts.Merging; len(s.mergeSlugs(set.Jobs)) > 0 && m.Err != "" {
		return set, fmt.Errorf("retry %s: cannot tell whether a merge is in progress in the repository: %s: %w", root, m.Err, ErrConflict)
	} else if m.Value != "" && len(s.mergeSlugs(set.Jobs)) > 0 {
		return set, fmt.Errorf("retry %s: a %s is in progress in the repository: finish it or run `git %s --abort`, then retry: %w",
			root, m.Value, m.Value, ErrConflict)
	}
	return set, nil
}

func (s *Snapshot) whyRewound(root, id JobID, set []JobID) string {
	if id == root {
		return "asked for"
	}
	j := s.Job(id)
	for _, p := range j.Spec.After {
		if slices.Contains(set, p) {
			return "runs after " + string(p)
		}
	}
	for _, a := range j.Spec.Needs {
		for _, p := range s.Producers(id, a) {
			if slices.Contains(set, p) {
				return "needs " + a.String() + " of " + string(p)
			}
		}
	}
	for _, by := range set {
		if j.heldBackBy(by) {
			return "was held back by the failure of " + string(by)
		}
	}
	return "depends on it"
}

// mergeSlugs are the plans whose conflict sentinel the jobs own.
func (s *Snapshot) mergeSlugs(set []JobID) []string {
	var slugs []string
	for _, id := range set {
		slugs = append(slugs, s.Job(id).mergeSlugs()...)
	}
	slices.Sort(slugs)
	return slices.Compact(slugs)
}

func (j *Job) mergeSlugs() []string {
	var slugs []string
	for _, list := range [][]Artifact{j.Spec.Needs, j.Spec.Produces} {
		for _, a := range list {
			if a.Kind == MergeSentinel {
				slugs = append(slugs, a.Name)
			}
		}
	}
	for _, l := range j.Spec.Locks {
		if slug, ok := l.Conflict(); ok {
			slugs = append(slugs, slug)
		}
	}
	// What a merge's conflict woke is there to look at the conflict: a retry of
	// it is the way out, and no reason to forget what was resolved.
	if plan, ok := j.Spec.Origin.merges(); ok && !j.Spec.Routed {
		slugs = append(slugs, plan)
	}
	return slugs
}

// Retry rewinds root and everything downstream of it: each starts a new
// generation, queued and with nothing of its past but its attempt number.
func Retry(s *Snapshot, root JobID, by string) (Plan, error) {
	_, p, err := RetryAll(s, []JobID{root}, by)
	return p, err
}

// RetryAll is Retry of several jobs at once: each job that depends on some of them starts
// one new generation. The sets are those of RetryOf, in the order of roots; what an
// earlier one has is left out of a later one, and a root that it has has none.
func RetryAll(s *Snapshot, roots []JobID, by string) ([]RetrySet, Plan, error) {
	sets := make([]RetrySet, 0, len(roots))
	all := make([][]JobID, 0, len(roots))
	in := map[JobID]bool{}
	for _, root := range roots {
		if in[root] {
			continue
		}
		set, err := RetryOf(s, root)
		if err != nil {
			return nil, Plan{}, err
		}
		set.Jobs = slices.DeleteFunc(set.Jobs, func(id JobID) bool { return in[id] })
		for _, id := range set.Jobs {
			in[id] = true
		}
		if len(set.Jobs) > 0 { // else its root is one that an earlier one has
			sets, all = append(sets, set), append(all, set.Jobs)
		}
	}
	return sets, s.rewind(all, by, byPerson), nil
}

// cause says who rewinds. A person starts over; a route goes on: its count and
// an open conflict, which its target is to look at, stay.
type cause uint8

const (
	byPerson cause = iota
	byRoute
)

// rewind puts sets, whose first jobs are their roots and of which no two have a job in
// common, back to their beginning. Each job gets back the execution context that a
// predecessor outside of the sets hands on.
func (s *Snapshot) rewind(sets [][]JobID, by string, why cause) Plan {
	s.requireAll()
	var p Plan
	in := map[JobID]bool{}
	for _, set := range sets {
		for _, id := range set {
			in[id] = true
		}
	}
	for _, set := range sets {
		s.rewindSet(&p, set, in, by, why)
	}
	return p
}

func (s *Snapshot) rewindSet(p *Plan, set []JobID, in map[JobID]bool, by string, why cause) {
	for i, id := range set {
		j := s.Job(id)
		st := rewound(j, s.now, by)
		st.Context = s.carried(j, in)
		if st.Context.Root == "" && j.State.Context.Root != "" { // what its agent remembers is gone
			st.Agent = st.Agent.forgetful()
		}
		if why == byRoute {
			st.Routed = j.State.Routed
		}
		st.Closed = j.State.Closed
		if i == 0 && j.Spec.Routed {
			st.Status, st.Awake = Queued, true
		}
		if c := j.State.Context; c.Owned {
			p.add(RemoveWorktree{Job: id, Context: c})
		}
		p.add(Reset{j.Attempt(), j.Spec.Produces}, PutState{id, j.Rev, st})
	}
	if why == byRoute {
		return
	}
	for _, slug := range s.mergeSlugs(set) {
		p.add(ClearSentinel{set[0], slug})
	}
}

// rewound is the one reset: what a job keeps of its past when it is rewound.
func rewound(j *Job, now time.Time, by string) State {
	fresh := State{Attempt: j.State.Attempt, Generation: j.State.Generation + 1, Prompt: j.State.Prompt, Amended: j.State.Amended, Agent: j.State.Agent, Grown: j.State.Grown}
	if a := j.State.Approval; a.State != NotRequired && !a.InDoubt {
		fresh.Approval = Require(now, by)
		if first := orElse(a.Submitter, a.RequestedBy); first != by {
			fresh.Approval.Submitter = first
		}
	}
	fresh.Status = j.Begins()
	return fresh
}

// CleanedUp records what came of a RemoveWorktree. A cleanup that is not
// confirmed leaves the job its worktree and execution root, so that a later
// retry or cancel can finish the work (seed 000).
func CleanedUp(s *Snapshot, a RemoveWorktree, c Cleanup) (Plan, error) {
	j := s.Job(a.Job)
	if j == nil {
		return Plan{}, fmt.Errorf("clean up %s: %w", a.Job, ErrNotFound)
	}
	st := j.State
	if a.Cancel {
		st.Cancelled = c
	} else {
		st.Retried = c
	}
	if c.Status == CleanupDone || c.Status == CleanupSkipped {
		st.Context = Context{}
	} else {
		st.Context = a.Context
	}
	return NewPlan(PutState{j.ID, j.Rev, st}), nil
}

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RetrySet is the set of jobs that a rewind of one job affects (seed 000).
type RetrySet struct {
	Of        JobID   // the job that was asked for
	Root      JobID   // the job that is rewound first: Of, or the job that makes its worktree
	Succeeded []JobID // the root's direct predecessors that succeeded: the last successful point
	Jobs      []JobID // root first, then schedule order
	Why       map[JobID]string
}

// RetryOf returns the jobs that a rewind of root affects, with the reason for
// each: its dependents, and the jobs that the ends of those woke. It returns
// ErrRunning if one of them is running, and ErrConflict if one is a merge while
// git is in the middle of a merge, or if that is unknown.
func RetryOf(s *Snapshot, root JobID) (RetrySet, error) {
	set := RetrySet{Of: root, Root: root, Why: map[JobID]string{}}
	if s.Job(root) == nil {
		return set, fmt.Errorf("retry %s: %w", root, ErrNotFound)
	}
	var woken []JobID
	set.Root, set.Jobs, woken = s.rewinds(root)
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
		set.Why[set.Root] = "makes anew the worktree that " + string(root) + " ran in"
	}
	for _, id := range s.Predecessors(set.Root) {
		if s.Job(id).State.Status == Succeeded {
			set.Succeeded = append(set.Succeeded, id)
		}
	}
	if m := s.facts.Merging; len(s.mergeSlugs(set.Jobs)) > 0 && m.Err != "" {
		return set, fmt.Errorf("retry %s: cannot tell whether a merge is in progress in the repository: %s: %w", root, m.Err, ErrConflict)
	} else if m.Value != "" && len(s.mergeSlugs(set.Jobs)) > 0 {
		return set, fmt.Errorf("retry %s: a %s is in progress in the repository: finish it or run `%s`, then retry: %w",
			root, m.Value, CommandLine("git", m.Value, "--abort"), ErrConflict)
	}
	return set, nil
}

// rewinds returns the jobs that a retry of root rewinds, the first of them, and those of them that the ends of
// the others woke.
func (s *Snapshot) rewinds(root JobID) (first JobID, all, woken []JobID) {
	first = s.rewindRoot(root)
	all = s.Downstream(first)
	woken = s.handlers(all)
	return first, append(all, woken...), woken
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

// mergeSlugs returns the plans whose conflict sentinels the jobs own.
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
	// The job that a merge's conflict woke resolves the conflict. Retrying that
	// job is the way out and must not forget what was resolved.
	if plan, ok := j.Spec.Origin.merges(); ok && !j.Spec.Routed {
		slugs = append(slugs, plan)
	}
	return slugs
}

// Retry rewinds root and everything downstream of it. Each job starts a new
// generation, queued, and keeps of its past only what rewound lists.
func Retry(s *Snapshot, root JobID, by string) (Plan, error) {
	_, p, err := RetryAll(s, []JobID{root}, by)
	return p, err
}

// RetryAll is Retry of several jobs at once, in which each job starts at most
// one new generation. It returns a set for each root, in order, as RetryOf
// does, and ErrConflict if jobs would wait for each other then. A job is only in the
// first set that has it, and a root that is in an earlier set gets none.
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
		if len(set.Jobs) > 0 { // otherwise an earlier set has its root
			sets, all = append(sets, set), append(all, set.Jobs)
		}
	}
	p := s.rewind(all, by, byPerson)
	if err := s.Apply(p).deadlocked(s, sets); err != nil {
		return nil, Plan{}, err
	}
	return sets, p, nil
}

// Retryable returns those of roots that can be retried together now, and why the others cannot: RetryAll
// of them is not refused.
func Retryable(s *Snapshot, roots []JobID) (can []JobID, refused map[JobID]error) {
	refused = map[JobID]error{}
	for _, id := range roots {
		if _, err := RetryOf(s, id); err != nil {
			refused[id] = err
		} else {
			can = append(can, id)
		}
	}
	for {
		_, _, err := RetryAll(s, can, "")
		var d *DeadlockError
		if !errors.As(err, &d) {
			return can, refused
		}
		refused[d.Of] = d
		can = slices.DeleteFunc(can, func(id JobID) bool { return id == d.Of })
	}
}

// deadlocked returns a DeadlockError if a rewind of sets, which s holds already, is of no use: it opened a
// job again that waits for what only jobs behind it make, or its root was open and waits for such jobs
// as it did. A job that is blocked at once, as by the failure of one that it runs after, waits for nobody. before is s before it.
func (s *Snapshot) deadlocked(before *Snapshot, sets []RetrySet) error {
	if err := s.waitInVain(before, sets); err == nil {
		return nil
	}
	return s.Apply(Decide(s)).waitInVain(before, sets)
}

func (s *Snapshot) waitInVain(before *Snapshot, sets []RetrySet) error {
	var from []int32
	of := map[JobID]JobID{} // the retry that rewound a job that had ended, or that is a root
	for _, set := range sets {
		for _, id := range set.Jobs {
			from = append(from, s.graph.index[id])
			if id == set.Root || before.Job(id).State.Status.Terminal() {
				of[id] = set.Of
			}
		}
	}
	d := s.deadlock(from, func(*Job) bool { return true }, false)
	for _, i := range from {
		c := d.cycle(i)
		if c == nil || len(c.Lacks) == 0 {
			continue
		}
		for _, id := range c.Jobs {
			if of[id] != "" {
				return &DeadlockError{of[id], *c}
			}
		}
		if id := s.jobs[i].ID; of[id] != "" && !before.Job(id).State.Status.Terminal() {
			return &DeadlockError{of[id], *c}
		}
	}
	return nil
}

// initiator says who rewinds. A rewind by a person starts over. A rewind by a
// route keeps the count of rewinds and an open merge conflict, which its target
// is to resolve.
type initiator uint8

const (
	byPerson initiator = iota
	byRoute
)

// rewind puts the jobs of sets back to their beginning. The first job of each
// set is its root, and no job is in two sets. Each job gets back the execution
// context that a predecessor outside the sets hands on.
func (s *Snapshot) rewind(sets [][]JobID, by string, from initiator) Plan {
	s.requireAll()
	var p Plan
	in := map[JobID]bool{}
	for _, set := range sets {
		for _, id := range set {
			in[id] = true
		}
	}
	for _, set := range sets {
		s.rewindSet(&p, set, in, by, from)
	}
	return p
}

func (s *Snapshot) rewindSet(p *Plan, set []JobID, in map[JobID]bool, by string, from initiator) {
	for i, id := range set {
		j := s.Job(id)
		st := rewound(j, s.now, by)
		st.Context = s.inheritedContext(j, in)
		if st.Context.Root == "" && j.State.Context.Root != "" { // the worktree that its agent's conversation is about is gone
			st.Agent = st.Agent.withoutSession()
		}
		if from == byRoute {
			st.Routed = j.State.Routed
		}
		if i == 0 && j.Spec.Routed && !(from == byPerson && j.cancelledAsleep()) {
			st.Status, st.Awake = Queued, true
		}
		if c := j.State.Context; c.Owned {
			p.add(RemoveWorktree{Job: id, Context: c})
		}
		p.add(Reset{j.Attempt(), j.Spec.Produces}, PutState{id, j.Rev, st})
	}
	if from == byRoute {
		return
	}
	for _, slug := range s.mergeSlugs(set) {
		p.add(ClearSentinel{set[0], slug})
	}
}

// cancelledAsleep reports whether j was cancelled before a route had started it: a person's retry lets it sleep again.
func (j *Job) cancelledAsleep() bool { return j.State.Status == Cancelled && j.unrouted() }

// rewound returns the state of j after a rewind: all that it keeps of its past
// is here.
func rewound(j *Job, now time.Time, by string) State {
	fresh := State{Attempt: j.State.Attempt, Generation: j.State.Generation + 1, Prompt: j.State.Prompt, Amended: j.State.Amended, Agent: j.State.Agent, Grown: j.State.Grown,
		Closed: j.State.Closed}
	if j.asksAnew() {
		fresh.Approval = Require(now, by)
		if first := cmp.Or(j.State.Approval.Submitter, j.State.Approval.RequestedBy); first != by {
			fresh.Approval.Submitter = first
		}
	}
	fresh.Status = j.Begins()
	return fresh
}

// asksAnew reports whether j asks for its approval anew after a rewind.
func (j *Job) asksAnew() bool {
	return j != nil && j.State.Approval.State != NotRequired && !j.State.Approval.InDoubt
}

// CleanedUp records the result of a RemoveWorktree. If the cleanup is not
// confirmed, the job keeps its worktree and execution root, so that a later
// retry or cancel can finish it (seed 000).
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

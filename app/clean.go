package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// RunCleaner removes what the jobs of a run leave besides records and worktrees.
type RunCleaner interface {
	// DropBranch deletes a local branch and reports that it did, or why it was
	// kept. It never deletes the only copy of work.
	DropBranch(ctx context.Context, name string) (dropped bool, kept string, err error)

	// BranchAt reports whether a local branch exists, and returns the working
	// tree that has it checked out, or "".
	BranchAt(ctx context.Context, name string) (there bool, tree string, err error)

	// PlanStates returns how many state records there are of the plans that jobs made,
	// and with drop removes them.
	PlanStates(ids []kernel.JobID, drop bool) (int, error)

	// DropConflicts removes the marks of open merge conflicts of jobs.
	DropConflicts([]kernel.JobID) error

	// CountArtifacts returns how many markers and payloads a job left.
	CountArtifacts(id kernel.JobID, produces []kernel.Artifact) (markers, payloads int)

	// DropTemporary removes files that killed processes were writing, and
	// returns how many there were.
	DropTemporary() (int, error)

	// Sizes returns how many bytes the files of each job take on the disk.
	Sizes(context.Context, []kernel.JobID) map[kernel.JobID]int64

	// Collected returns when a Collection was last completed; zero: not known.
	// NoteCollected records that one is complete now.
	Collected() time.Time
	NoteCollected() error

	// TrimHistory drops what need not be kept of the history.
	TrimHistory(context.Context) error

	// Followed reports whether somebody waits for a run's end.
	Followed(kernel.RunID) bool
}

// Cleaned is what a clean removed.
type Cleaned struct {
	retention.CleanSet
	Removed       []kernel.JobID
	Manifests     int
	Markers       int
	Payloads      int
	PlanStates    int
	Worktrees     int
	Branches      []string
	KeptBranches  map[string]string       // and why
	KeptWorktrees map[kernel.JobID]string // and why
}

// CleanOptions are the options of a clean.
type CleanOptions struct {
	Force        bool // also remove jobs that an active job outside depends on
	KeepBranches bool

	// Alone says that nobody is there to try again: a worktree of an operation that could not be
	// removed does not keep the records then. The doctor finds it.
	Alone bool
}

// Clean removes everything that was made for the runs of jobs ids, or for the job alone
// if it has no run, and ticks. It fails with kernel.ErrConflict if an active job forbids
// it: see retention.CleanOf. Records are removed last, so that a clean which a crash cut
// short can be repeated.
func (s *Scheduler) Clean(ctx context.Context, ids []kernel.JobID, o CleanOptions) (Cleaned, Report, error) {
	done, verbs := s.cleaning(ctx, ids, o)
	rep, err := s.transact(ctx, kernel.Scope{All: true}, verbs...)
	done.tell(rep)
	return *done, rep, err
}

// PlanClean returns what a clean would remove. It changes nothing.
func (s *Scheduler) PlanClean(ctx context.Context, ids []kernel.JobID, o CleanOptions) (Cleaned, error) {
	done := Cleaned{KeptBranches: map[string]string{}}
	snap, err := s.Snapshot(ctx, kernel.Scope{All: true})
	if err != nil {
		return done, err
	}
	if done.CleanSet, err = retention.CleanOf(snap, ids, o.Force); err != nil {
		return done, err
	}
	worktrees, err := retention.CleanWorktrees(snap, ids, o.Force)
	if err != nil {
		return done, err
	}
	done.Removed, done.Worktrees = done.Jobs, len(worktrees.World)
	if finder, ok := s.Worktrees.(worktreeFinder); ok {
		trees, err := finder.WorktreesOf(done.Jobs)
		if err != nil {
			return done, err
		}
		done.Worktrees = 0
		for _, all := range trees {
			done.Worktrees += len(all)
		}
	}
	runs := map[kernel.RunID]bool{"": true}
	for _, id := range done.Jobs {
		runs[snap.Job(id).Spec.Origin.Run] = true
	}
	done.Manifests = len(runs) - 1
	if s.Cleaner == nil {
		return done, nil
	}
	for _, id := range done.Jobs {
		done.count(s.Cleaner.CountArtifacts(id, snap.Job(id).Spec.Produces))
	}
	if done.PlanStates, err = s.Cleaner.PlanStates(done.Jobs, false); err != nil || o.KeepBranches {
		return done, err
	}
	goes := func(tree string) bool {
		return slices.ContainsFunc(worktrees.World, func(a kernel.WorldAction) bool {
			w, ok := a.(kernel.RemoveWorktree)
			return ok && strings.HasSuffix(tree, "/"+w.Context.Worktree)
		})
	}
	for _, name := range draftBranches(snap, done.Jobs) {
		there, tree, err := s.Cleaner.BranchAt(ctx, name)
		user := userOf(snap, name, done.Jobs)
		switch {
		case err != nil:
			return done, err
		case !there:
		case user != "":
			done.KeptBranches[name] = user
		case tree != "" && !goes(tree):
			done.KeptBranches[name] = checkedOut + tree
		default:
			done.Branches = append(done.Branches, name)
		}
	}
	return done, nil
}

// checkedOut is why a branch is kept that a working tree has.
const checkedOut = "it is checked out in "

// count adds what a job leaves besides its record.
func (done *Cleaned) count(markers, payloads int) {
	done.Markers, done.Payloads = done.Markers+markers, done.Payloads+payloads
}

// cleaning returns the verbs of a clean, and the result that they fill in.
func (s *Scheduler) cleaning(ctx context.Context, ids []kernel.JobID, o CleanOptions) (*Cleaned, []verb) {
	done := &Cleaned{KeptBranches: map[string]string{}}
	rest := func(snap *kernel.Snapshot, clean *retention.Cleaning) (kernel.Plan, error) {
		set, err := retention.CleanOf(snap, ids, o.Force)
		if err != nil {
			return kernel.Plan{}, err
		}
		done.CleanSet = set
		dropped, kept, err := s.dropMerges(ctx, set.Jobs)
		if err != nil {
			return kernel.Plan{}, err
		}
		done.Worktrees, done.KeptWorktrees = done.Worktrees+dropped, kept
		if !o.KeepBranches {
			if err := s.dropBranches(ctx, snap, done); err != nil {
				return kernel.Plan{}, err
			}
		}
		if done.PlanStates, err = s.Cleaner.PlanStates(set.Jobs, true); err != nil {
			return kernel.Plan{}, err
		}
		if !o.Force && !o.Alone {
			clean.Jobs = slices.DeleteFunc(clean.Jobs, func(id kernel.JobID) bool { return keeps(snap, id, kept) })
		}
		plan, err := clean.Decide(snap)
		for _, a := range plan.Records {
			if gone, ok := a.(kernel.RemoveJob); ok {
				done.count(s.Cleaner.CountArtifacts(gone.Job, gone.Produces))
			}
		}
		for _, id := range set.Jobs {
			if st := snap.Job(id).State; st.Context.Owned {
				done.KeptWorktrees[id] = cmp.Or(st.Retried.Error, "it could not be removed")
			}
		}
		return plan, err
	}
	return done, []verb{recorded(retention.Cleaning{Jobs: ids, Force: o.Force, Worktrees: true}),
		{decide: func(snap *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
			clean := retention.Cleaning{Jobs: slices.Clone(ids), Force: o.Force}
			plan, err := rest(snap, &clean)
			return plan, []history.Verb{clean}, err
		}}}
}

// keeps reports that a job, or one of its run, still has one of the worktrees that are kept.
func keeps(snap *kernel.Snapshot, id kernel.JobID, kept map[kernel.JobID]string) bool {
	run := snap.Job(id).Spec.Origin.Run
	for other := range kept {
		if other == id || run != "" && snap.Job(other).Spec.Origin.Run == run {
			return true
		}
	}
	return false
}

// dropMerges removes what ended jobs left of merges: their worktrees, in which work
// is parked first, and the marks of conflicts. It returns how many worktrees it
// removed, and why others are kept.
func (s *Scheduler) dropMerges(ctx context.Context, jobs []kernel.JobID) (dropped int, kept map[kernel.JobID]string, err error) {
	kept = map[kernel.JobID]string{}
	finder, ok := s.Worktrees.(worktreeFinder)
	if !ok {
		return dropped, kept, nil
	}
	trees, err := finder.WorktreesOf(jobs)
	if err != nil {
		return dropped, kept, err
	}
	for id, all := range trees {
		for _, tree := range all {
			switch gone := s.Worktrees.RemoveWorktree(ctx, tree); gone.Status {
			case kernel.CleanupDone:
				dropped++
			case kernel.CleanupDegraded, kernel.CleanupFailed:
				kept[id] = gone.Error
			default: // there was none
			}
		}
	}
	return dropped, kept, s.Cleaner.DropConflicts(jobs)
}

// dropMergesOf is dropMerges for the jobs whose records a collection removed. The
// doctor finds what a crash in between leaves.
func (s *Scheduler) dropMergesOf(ctx context.Context, rep Report) error {
	var gone []kernel.JobID
	for _, a := range rep.Applied {
		if a, ok := a.(kernel.RemoveJob); ok {
			gone = append(gone, a.Job)
		}
	}
	if len(gone) == 0 || s.Cleaner == nil {
		return nil
	}
	_, kept, err := s.dropMerges(ctx, gone)
	for id, why := range kept {
		err = errors.Join(err, fmt.Errorf("worktree of job %s is kept: %s", id, why))
	}
	return err
}

// dropBranches deletes the draft branches that the jobs of a clean name and no
// job outside it needs.
func (s *Scheduler) dropBranches(ctx context.Context, snap *kernel.Snapshot, done *Cleaned) error {
	for _, name := range draftBranches(snap, done.Jobs) {
		there, tree, err := s.Cleaner.BranchAt(ctx, name)
		if err != nil {
			return err
		}
		if user := userOf(snap, name, done.Jobs); there && cmp.Or(user, tree) != "" {
			done.KeptBranches[name] = cmp.Or(user, checkedOut+tree)
			continue
		}
		dropped, kept, err := s.Cleaner.DropBranch(ctx, name)
		switch {
		case err != nil:
			return err
		case kept != "":
			done.KeptBranches[name] = kept
		case dropped:
			done.Branches = append(done.Branches, name)
		}
	}
	return nil
}

// draftBranches returns the draft branches that jobs name, in order.
func draftBranches(snap *kernel.Snapshot, jobs []kernel.JobID) []string {
	var names []string
	for _, id := range jobs {
		j := snap.Job(id)
		for _, name := range []string{j.Spec.Origin.Branch, j.State.Context.Branch} {
			if strings.HasPrefix(name, "draft/") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ofPlan reports whether a is a plan's branch, or passes a plan from one stage to the next.
func ofPlan(a kernel.Artifact) bool {
	return a.Kind == kernel.PlanBranch || a.Kind == kernel.Custom && a.Name == kernel.StageToken
}

// userOf says which other job needs a branch: one that works on it, one that would
// work on it after a retry, or one that made the plan or let it pass and whose plan is not merged
// yet; "": none.
func userOf(snap *kernel.Snapshot, branch string, except []kernel.JobID) (user string) {
	for _, j := range snap.Jobs() {
		st := &j.State
		if slices.Contains(except, j.ID) || j.Spec.Origin.Branch != branch && st.Context.Branch != branch {
			continue
		}
		switch {
		case st.Status.Active():
			return "job " + string(j.ID) + " works on it"
		case user == "" && !st.Retired && (st.Status == kernel.Failed || st.Status == kernel.BlockedByDependency):
			user = "a retry of job " + string(j.ID) + " needs it"
		case user == "" && !st.Retired && st.Status == kernel.Succeeded && slices.ContainsFunc(j.Spec.Produces, ofPlan):
			user = "what job " + string(j.ID) + " made of the plan is not merged"
		}
	}
	return user
}

// tell adds to done what the report says was removed.
func (done *Cleaned) tell(rep Report) {
	for _, a := range rep.Applied {
		switch a := a.(type) {
		case kernel.RemoveJob:
			done.Removed = append(done.Removed, a.Job)
		case kernel.RemoveRun:
			done.Manifests++
		case kernel.RemoveWorktree:
			if slices.Contains(done.Jobs, a.Job) && done.KeptWorktrees[a.Job] == "" {
				done.Worktrees++
			}
		}
	}
}

// tidy cleans the ephemeral runs that rep shows to be over. What goes wrong is
// a warning: the transaction itself went well, and the next one tries again.
func (s *Scheduler) tidy(ctx context.Context, rep *Report) {
	for _, set := range retention.EndedEphemeralRuns(rep.Snapshot) {
		if s.Cleaner.Followed(set.Run) {
			continue
		}
		_, verbs := s.cleaning(ctx, set.Jobs[:1], CleanOptions{Alone: true})
		_, err := s.runTx(ctx, kernel.Scope{All: true}, verbs...)
		if !errors.Is(err, kernel.ErrConflict) && !errors.Is(err, kernel.ErrNotFound) { // others were faster
			rep.warn(set.Jobs[0], err)
		}
	}
}

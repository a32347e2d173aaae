package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// job is the job that a person means by ref, with the records around it. It may
// be one of another repository, which r is then: see follow.
func (r *repo) job(ctx context.Context, ref string) (*kernel.Snapshot, kernel.JobID, error) {
	if err := r.follow(ctx, []string{ref}); err != nil {
		return nil, "", err
	}
	return r.Scheduler.Job(ctx, ref)
}

// members are the jobs that a person means by refs, where a run means all of its
// jobs, as Scheduler.Members has them: see job.
func (r *repo) members(ctx context.Context, refs []string) (ids []kernel.JobID, sleepers map[kernel.JobID]bool, err error) {
	if err := r.follow(ctx, refs); err != nil {
		return nil, nil, err
	}
	return r.Scheduler.Members(ctx, refs)
}

// follow makes r the repository that the jobs of refs are in, where that is
// another one that r's inbox runs prompts in: whoever drops a prompt there knows
// its id, and not where the inbox has it run. Only whole ids lead there; what r
// has itself counts first.
func (r *repo) follow(ctx context.Context, refs []string) error {
	if r.Neighbour == nil || len(r.Config.Inbox.Repositories) == 0 {
		return nil
	}
	to := r
	for i, ref := range refs {
		at, err := r.whose(ctx, ref)
		if err != nil || at == nil {
			return err
		}
		if i > 0 && at.Root != to.Root {
			return fmt.Errorf("%s is a job of %s, and %s is one of %s: name jobs of one repository: %w", refs[0], to.Root, ref, at.Root, kernel.ErrInvalid)
		}
		to = at
	}
	*r = *to
	return nil
}

// whose is the repository that has the job or the run that ref is the whole id
// of, and r for what is no whole id; nil: none that is known of.
func (r *repo) whose(ctx context.Context, ref string) (*repo, error) {
	whole, _, _ := strings.Cut(strings.TrimPrefix(ref, "run_"), "/")
	if !kernel.ValidJobID(whole) {
		return r, nil
	}
	if here, err := r.has(ctx, ref, kernel.JobID(whole)); err != nil || here {
		return r, err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Config.Inbox.Repositories)) {
		other, err := r.Neighbour(name)
		if err != nil { // `vizier doctor` tells of it
			continue
		}
		if there, err := other.has(ctx, ref, kernel.JobID(whole)); err == nil && there {
			return other, nil
		}
	}
	return nil, nil
}

// has reports that r has the job of that id, or the run, if ref says so.
func (r *repo) has(ctx context.Context, ref string, id kernel.JobID) (bool, error) {
	scope := app.Only([]kernel.JobID{id})
	run := kernel.RunID("run_" + string(id))
	if strings.HasPrefix(ref, "run_") {
		scope = kernel.Scope{Near: []kernel.Near{{Kind: kernel.Members, Run: run}}, All: true} // all, of a store that cannot tell
	}
	snap, err := r.Scheduler.Records(ctx, scope)
	if err != nil {
		return false, err
	}
	return snap.Job(id) != nil || slices.Contains(snap.UnreadableIDs(), id) || scope.All && len(snap.Members(run)) > 0, nil
}

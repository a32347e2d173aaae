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

// job returns the job that ref names, with the records around it. If the job is
// in another repository, r becomes that repository: see follow.
func (r *repo) job(ctx context.Context, ref string) (*kernel.Snapshot, kernel.JobID, error) {
	if err := r.follow(ctx, []string{ref}); err != nil {
		return nil, "", err
	}
	return r.Scheduler.Job(ctx, ref)
}

// repoOf opens the repository with the jobs of refs, which are empty where a flag is not given:
// see follow.
func (c *call) repoOf(refs []string) (*repo, error) {
	r, err := c.repo()
	if err != nil {
		return nil, err
	}
	named := slices.DeleteFunc(slices.Clone(refs), func(ref string) bool { return ref == "" })
	return r, r.follow(c.ctx, named)
}

// follow turns r into the repository that contains the jobs of refs, if r's inbox
// runs prompts there: a person who drops a prompt knows its job's id, but not in
// which repository it runs. Only whole ids are looked up elsewhere, and r's own
// jobs take precedence.
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

// whose returns the repository with the job or run whose whole id is ref, or
// nil if there is none. If ref is not a whole id, it returns r.
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
		if err != nil { // `vizier doctor` reports it
			continue
		}
		if there, err := other.has(ctx, ref, kernel.JobID(whole)); err == nil && there {
			return other, nil
		}
	}
	return nil, nil
}

// has reports whether r has the job or, if ref is a run's id, the run.
func (r *repo) has(ctx context.Context, ref string, id kernel.JobID) (bool, error) {
	scope := app.Only([]kernel.JobID{id})
	run := kernel.RunID("run_" + string(id))
	if strings.HasPrefix(ref, "run_") {
		scope = kernel.Scope{Near: []kernel.Near{{Kind: kernel.Members, Run: run}}, All: true} // All is for a store that cannot read narrowly
	}
	snap, err := r.Scheduler.Records(ctx, scope)
	if err != nil {
		return false, err
	}
	return snap.Job(id) != nil || slices.Contains(snap.UnreadableIDs(), id) || scope.All && len(snap.Members(run)) > 0, nil
}

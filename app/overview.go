package app

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Overview is how everything stands, by a snapshot that has at least what has not
// succeeded, and by what executors said in it. It reads the rest only of what runs.
func (s *Scheduler) Overview(ctx context.Context, snap *kernel.Snapshot, o view.OverviewOptions) (view.Overview, error) {
	var running []*kernel.Job
	for _, j := range snap.Jobs() {
		if j.State.Status == kernel.Running {
			running = append(running, j)
		}
	}
	var err error
	o.Members, err = s.Wholes(ctx, running)
	return view.OverviewOf(snap, o), err
}

// Wholes are all jobs of the runs and batches that some jobs belong to, by number.
func (s *Scheduler) Wholes(ctx context.Context, jobs []*kernel.Job) (map[kernel.Number][]*kernel.Job, error) {
	const many = 100 // from there on one read of everything costs less
	scope, of := kernel.Scope{All: true}, map[kernel.Number][]*kernel.Job{}
	for _, j := range jobs {
		if _, known := of[j.Number]; j.Part != "" && !known {
			scope.Near, of[j.Number] = append(scope.Near, kernel.Near{Kind: kernel.OfNumber, Number: j.Number}), nil
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	if len(of) > many {
		scope.Near = nil
	}
	snap, err := s.Records(ctx, scope) // all, of a store that cannot tell
	if err != nil {
		return nil, err
	}
	if !snap.Narrow() {
		for _, j := range snap.Jobs() {
			if _, wanted := of[j.Number]; wanted {
				of[j.Number] = append(of[j.Number], j)
			}
		}
		return of, nil
	}
	for n := range of {
		of[n] = snap.Numbered(n, "")
	}
	return of, nil
}

// Refused are the prompts that no run could be made of: those in the inbox, and
// those that have left it since. jobs are the ones on record that have not
// succeeded. An inbox that is not there has none.
func (x *Inbox) Refused(jobs []*kernel.Job, since time.Time) ([]view.RefusedPrompt, error) {
	ran := map[uint64]bool{}
	for _, j := range jobs {
		if j.Spec.Prompt != nil {
			ran[j.Spec.Prompt.Inode] = true
		}
	}
	list, err := x.Tree.Scan()
	if err != nil {
		return nil, err
	}
	gone, err := x.Tree.Gone()
	if err != nil {
		return nil, err
	}
	var out []view.RefusedPrompt
	add := func(rel, file string, inode uint64, at time.Time, finished bool) {
		why := x.Tree.Why(rel, finished)
		if _, ended := inbox.EndedJob(why); !ran[inode] && !ended {
			out = append(out, view.RefusedPrompt{Path: file, Again: x.Tree.File(rel, kernel.NewPrompt), Why: why, Since: at})
		}
	}
	for _, f := range list.OfName(kernel.ErrorPrompt) {
		add(f.Rel, x.Tree.File(f.Rel, kernel.ErrorPrompt), f.Inode, f.Changed, false)
	}
	for _, f := range gone {
		if !f.Changed.Before(since) {
			add(f.Rel, x.Tree.GoneFile(f.Rel), f.Inode, f.Changed, true)
		}
	}
	return out, nil
}

package app

import (
	"context"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Overview is how everything stands, by a snapshot that has at least what has not
// succeeded, and by what executors said in it. It reads the rest only of what runs.
func (s *Scheduler) Overview(ctx context.Context, snap *kernel.Snapshot, o view.OverviewOptions) (view.Overview, error) {
	var near []kernel.Near
	for _, j := range snap.Jobs() {
		of := kernel.Near{Kind: kernel.OfNumber, Number: j.Number}
		if j.State.Status == kernel.Running && j.Part != "" && !slices.Contains(near, of) {
			near = append(near, of)
		}
	}
	if len(near) > 0 {
		whole, err := s.Records(ctx, kernel.Scope{Near: near, All: true}) // all, of a store that cannot tell
		if err != nil {
			return view.Overview{}, err
		}
		o.Members = map[kernel.Number][]*kernel.Job{}
		for _, n := range near {
			o.Members[n.Number] = whole.Numbered(n.Number, "")
		}
	}
	return view.OverviewOf(snap, o), nil
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

package app

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Ended is a prompt whose run has ended.
type Ended struct {
	Taken
	How    view.PromptRun
	Status kernel.Status // of the job that stands for the prompt
}

// Asked is an approval that the run of a prompt waits for.
type Asked struct {
	Taken
	Approve kernel.JobID // the job to approve
}

// news is a watcher's memory of the runs of prompts. It makes sure that each
// end is reported once.
type news struct {
	since time.Time                         // time of the first pass; earlier ends are not reported
	open  map[kernel.JobID]*InboxTarget     // prompts whose runs were open at the last pass
	asked map[kernel.JobID]map[newsKey]bool // reported approvals, by prompt
	ended map[newsKey]time.Time             // ends that were reported recently
	files map[uint64]bool                   // done prompts, by inode number
}

// newsKey is a state of a job that is reported once.
type newsKey struct {
	job        kernel.JobID
	generation int
}

// recent is how long after its end a run is still reported.
const recent = time.Hour

// look adds to rep the runs that have ended, and those that have begun to wait
// for an approval, since the last call. list is the inbox's current content, or
// nil if it was not read.
func (n *news) look(ctx context.Context, x *Inbox, list *inbox.Listing, rep *InboxReport) {
	first := n.ended == nil
	if first {
		*n = news{x.Now(), map[kernel.JobID]*InboxTarget{}, map[kernel.JobID]map[newsKey]bool{}, map[newsKey]time.Time{}, map[uint64]bool{}}
	}
	all := n.unseen(list) && !first
	for _, t := range x.targets {
		scope := kernel.Scope{All: all}
		for id, of := range n.open {
			if of == t {
				scope.Jobs = append(scope.Jobs, id)
			}
		}
		rec, err := t.Scheduler.Store.Read(ctx, scope)
		if err != nil {
			continue // the error is reported where prompts are taken
		}
		n.read(t, t.Scheduler.fresh(t.Scheduler.Now(), rec), x, rep)
	}
	for end, at := range n.ended {
		if x.Now().Sub(at) > recent {
			delete(n.ended, end)
		}
	}
	slices.SortFunc(rep.Ended, func(a, b Ended) int { return cmp.Compare(a.Rel, b.Rel) })
	slices.SortFunc(rep.Asked, func(a, b Asked) int { return cmp.Compare(a.Rel, b.Rel) })
}

// unseen reports whether there is a done prompt that was not there at the last
// call.
func (n *news) unseen(list *inbox.Listing) (unseen bool) {
	if list == nil {
		return false
	}
	now := map[uint64]bool{}
	for _, f := range list.OfName(kernel.DonePrompt) {
		now[f.Inode] = true
		unseen = unseen || !n.files[f.Inode]
	}
	n.files = now
	return unseen
}

func (n *news) read(t *InboxTarget, s *kernel.Snapshot, x *Inbox, rep *InboxReport) {
	runs := map[kernel.RunID][]*kernel.Job{}
	for _, j := range s.Jobs() {
		runs[j.Spec.Origin.Run] = append(runs[j.Spec.Origin.Run], j)
	}
	for _, j := range s.Jobs() {
		if j.Spec.Prompt == nil || !x.ours(j) {
			continue
		}
		how := view.PromptRunOf(j, runs[j.Spec.Origin.Run], s.Now())
		of := Taken{j.Spec.Prompt.Rel, j.ID, j.Spec.Origin.Run, t.Root}
		if j.Open() || s.Pending(j.ID) != "" {
			n.ask(t, s, of, how, rep)
			continue
		}
		_, open := n.open[j.ID]
		delete(n.open, j.ID)
		delete(n.asked, j.ID)
		end, at := newsKey{j.ID, j.State.Generation}, j.State.Finished
		if at.IsZero() { // it never ran: if it was not seen open, it was dropped and blocked since the last call
			at = j.Created
		}
		if _, again := n.ended[end]; again || !open && (at.Before(n.since) || x.Now().Sub(at) > recent) {
			continue
		}
		n.ended[end] = x.Now()
		rep.Ended = append(rep.Ended, Ended{of, how, j.State.Status})
	}
}

// ask reports the approvals that the run of an open prompt waits for.
func (n *news) ask(t *InboxTarget, s *kernel.Snapshot, of Taken, how view.PromptRun, rep *InboxReport) {
	n.open[of.Job] = t
	now := map[newsKey]bool{}
	for _, id := range how.Pending {
		it := newsKey{id, s.Job(id).State.Generation}
		if now[it] = true; !n.asked[of.Job][it] {
			rep.Asked = append(rep.Asked, Asked{of, id})
		}
	}
	n.asked[of.Job] = now
}

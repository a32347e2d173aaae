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

// Ended is a prompt whose run is over.
type Ended struct {
	Taken
	How    view.PromptRun
	Status kernel.Status // of the job that stands for it
}

// Asked is an approval that the run of a prompt waits for.
type Asked struct {
	Taken
	Approve kernel.JobID // the job that is to be approved
}

// news is what a watcher knows of the runs of prompts: it tells each end once.
type news struct {
	since time.Time                      // of the first look: what ended before is not told
	open  map[kernel.JobID]*InboxTarget  // prompts whose runs were open when last looked at
	asked map[kernel.JobID]map[told]bool // approvals that were told, by prompt
	ended map[told]time.Time             // ends that were told of late
	files map[uint64]bool                // prompts called done, by the number of their files
}

// told is a state of a job that is told of once.
type told struct {
	job        kernel.JobID
	generation int
}

// recent is how long after its end a run is still news.
const recent = time.Hour

// look adds to rep which runs have ended since the last look, and which wait for
// an approval. list is the inbox as it is; nil: nobody looked.
func (n *news) look(ctx context.Context, x *Inbox, list *inbox.Listing, rep *InboxReport) {
	first := n.ended == nil
	if first {
		*n = news{x.Now(), map[kernel.JobID]*InboxTarget{}, map[kernel.JobID]map[told]bool{}, map[told]time.Time{}, map[uint64]bool{}}
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
			continue // what reads it to take prompts says so
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

// unseen reports that a prompt is called done that was not when last looked at.
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
		end, at := told{j.ID, j.State.Generation}, j.State.Finished
		switch { // of what never ran, its end is not on record
		case at.IsZero() && open:
			at = x.Now()
		case at.IsZero(): // it was never seen open: it came, and was blocked, since the last look
			at = j.Created
		}
		if _, again := n.ended[end]; again || !open && (at.Before(n.since) || x.Now().Sub(at) > recent) {
			continue
		}
		n.ended[end] = x.Now()
		rep.Ended = append(rep.Ended, Ended{of, how, j.State.Status})
	}
}

// ask tells which approvals the run of an open prompt waits for.
func (n *news) ask(t *InboxTarget, s *kernel.Snapshot, of Taken, how view.PromptRun, rep *InboxReport) {
	n.open[of.Job] = t
	now := map[told]bool{}
	for _, id := range how.Pending {
		it := told{id, s.Job(id).State.Generation}
		if now[it] = true; !n.asked[of.Job][it] {
			rep.Asked = append(rep.Asked, Asked{of, id})
		}
	}
	n.asked[of.Job] = now
}

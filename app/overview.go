package app

import (
	"context"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Overview returns the overview of snap, which must hold at least all jobs that
// have not succeeded, and what executors said. It only reads more for the runs
// of running jobs.
func (s *Scheduler) Overview(ctx context.Context, snap *kernel.Snapshot, o view.OverviewOptions) (view.Overview, error) {
	var running []*kernel.Job
	for _, j := range snap.Jobs() {
		if j.State.Status == kernel.Running {
			running = append(running, j)
		}
	}
	var err error
	o.Wholes, err = s.Wholes(ctx, running)
	return view.OverviewOf(snap, o), err
}

// Wholes returns the tallies of all jobs of the runs and batches that jobs
// belong to, by number.
func (s *Scheduler) Wholes(ctx context.Context, jobs []*kernel.Job) (map[kernel.Number]kernel.Tally, error) {
	of := map[kernel.Number]kernel.Tally{}
	scope := kernel.Scope{Near: []kernel.Near{}}
	for _, j := range jobs {
		if _, known := of[j.Number]; j.Part != "" && !known {
			of[j.Number], scope.Tally = kernel.Tally{}, append(scope.Tally, j.Number)
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	rec, err := s.Store.Read(ctx, scope)
	if err != nil {
		return nil, err
	}
	var rest []kernel.Number
	for n := range of {
		t, told := rec.Tallies[n]
		if of[n] = t; !told || t.Routes > 0 {
			rest = append(rest, n)
		}
	}
	return of, s.countWholes(ctx, of, rest)
}

// countWholes adds the tallies for numbers to of, by reading the jobs.
func (s *Scheduler) countWholes(ctx context.Context, of map[kernel.Number]kernel.Tally, numbers []kernel.Number) error {
	const many = 100 // with more numbers, one read of everything costs less
	if len(numbers) == 0 {
		return nil
	}
	scope := kernel.Scope{All: true} // for a store that cannot read narrowly
	if len(numbers) <= many {
		scope.Near = []kernel.Near{{Kind: kernel.Woken}}
		for _, n := range numbers {
			scope.Near = append(scope.Near, kernel.Near{Kind: kernel.OfNumber, Number: n})
		}
	}
	snap, err := s.Records(ctx, scope)
	if err != nil {
		return err
	}
	jobs := map[kernel.Number][]*kernel.Job{}
	for _, j := range snap.Held() {
		jobs[j.Number] = append(jobs[j.Number], j)
	}
	for _, n := range numbers {
		of[n] = snap.Tally(jobs[n])
	}
	return nil
}

// Refused returns the prompts that could not be made into runs: those in the
// inbox, new ones that it does not take, and those that have left it since the given time.
// jobs are the jobs on record that have not succeeded. An inbox that does not exist has none.
func (x *Inbox) Refused(ctx context.Context, jobs []*kernel.Job, since time.Time) ([]view.RefusedPrompt, error) {
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
		why, refused := x.Tree.Why(rel, finished)
		if !refused.IsZero() { // the file itself has changed later, if it was moved
			at = refused
		}
		if _, ended := inbox.EndedJob(why); !ran[inode] && !ended {
			again := strings.ToValidUTF8(rel, "_") // any other name would be refused again
			out = append(out, view.RefusedPrompt{Path: file, Again: x.Tree.File(again, kernel.NewPrompt), Why: why, Since: at})
		}
	}
	for _, f := range list.OfName(kernel.NewPrompt) {
		switch tracked, err := x.tracked(ctx, f.Rel); {
		case tracked != "":
			out = append(out, view.RefusedPrompt{Path: x.Tree.File(f.Rel, kernel.NewPrompt), Tracked: tracked, Why: TrackedPrompt, Since: f.Changed})
		case err != nil && x.Now().Sub(f.Changed) >= longAtWork:
			out = append(out, view.RefusedPrompt{Path: x.Tree.File(f.Rel, kernel.NewPrompt), Why: kernel.Said(err), Since: f.Changed})
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

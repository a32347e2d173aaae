package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	iofs "io/fs"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// batch is how many prompts are enqueued at once.
const batch = 32

// takeAll claims fresh prompts and enqueues them, and those that were claimed
// before and have no job.
func (x *Inbox) takeAll(ctx context.Context, running, fresh []claimed, rep *InboxReport) error {
	held := map[*InboxTarget]map[string]kernel.JobID{}
	for _, t := range targetsOf(append(slices.Clone(running), fresh...)) {
		files, err := t.held(ctx)
		if err != nil { // nothing is done for a repository whose jobs are not known
			rep.Left = append(rep.Left, Left{t.Root, err.Error()})
			continue
		}
		held[t] = files
	}
	var todo []claimed
	for _, c := range running {
		if files := held[c.target]; files != nil && files[x.Tree.File(c.Rel, kernel.RunningPrompt)] == "" {
			todo = append(todo, c)
		}
	}
	for _, c := range fresh {
		files := held[c.target]
		if files == nil || files[x.Tree.File(c.Rel, kernel.RunningPrompt)] != "" {
			continue
		}
		ok, err := x.Tree.Claim(c.Rel)
		if err != nil {
			rep.Left = append(rep.Left, Left{c.Rel, err.Error()})
		}
		if c.fresh = ok; ok {
			todo = append(todo, c)
		}
	}
	slices.SortStableFunc(todo, func(a, b claimed) int { return a.Compare(b.PromptFile) })
	for len(todo) > 0 {
		n := 1
		for n < len(todo) && n < batch && todo[n].target == todo[0].target {
			n++
		}
		if err := x.take(ctx, todo[:n], rep); err != nil {
			return err
		}
		todo = todo[n:]
	}
	return ctx.Err()
}

// held is, by file, the jobs of the repository that a claimed prompt still
// belongs to.
func (t *InboxTarget) held(ctx context.Context) (map[string]kernel.JobID, error) {
	rec, err := t.Scheduler.Store.Read(ctx, kernel.Scope{})
	if err != nil {
		return nil, err
	}
	return held(rec.Jobs), nil
}

func held(jobs []kernel.Job) map[string]kernel.JobID {
	out := map[string]kernel.JobID{}
	for i := range jobs {
		if j := &jobs[i]; j.HoldsPrompt() {
			out[j.Spec.Intake.File] = j.ID
		}
	}
	return out
}

// take enqueues claimed prompts of one repository. A prompt that cannot be run
// is named so; the others go on.
func (x *Inbox) take(ctx context.Context, prompts []claimed, rep *InboxReport) error {
	target := prompts[0].target
	var reqs []PromptRequest
	var rels []string
	for _, c := range prompts {
		req, err := x.request(ctx, c)
		switch {
		case errors.Is(err, iofs.ErrNotExist) && !c.fresh: // its job ended while this pass looked
		case errors.Is(err, iofs.ErrNotExist): // somebody took it away: it was never enqueued
			rep.Left = append(rep.Left, Left{inbox.NameOf(kernel.RunningPrompt, c.Rel), "it vanished"})
		case err != nil:
			x.fail(c.Rel, kernel.RunningPrompt, err, rep)
		default:
			reqs, rels = append(reqs, req), append(rels, c.Rel)
		}
	}
	if len(reqs) == 0 {
		return nil
	}
	refused, _, err := target.Scheduler.TakePrompts(ctx, reqs)
	if err != nil { // it stays claimed, and the next pass tries again
		rep.Left = append(rep.Left, Left{target.Root, err.Error()})
		return nil
	}
	for i, req := range reqs {
		switch why := refused[i]; {
		case errors.Is(why, errNotOurs):
		case why != nil:
			x.fail(rels[i], kernel.RunningPrompt, why, rep)
		default:
			rep.Taken = append(rep.Taken, Taken{rels[i], req.ID, req.Run, target.Root})
		}
	}
	return nil
}

// request makes the run of a claimed prompt.
func (x *Inbox) request(ctx context.Context, c claimed) (PromptRequest, error) {
	text, inode, err := x.Tree.Read(c.Rel)
	if err != nil {
		return PromptRequest{}, err
	}
	front, body, err := x.Parse(text)
	if err == nil {
		err = front.For(c.place)
	}
	if err != nil {
		return PromptRequest{}, err
	}
	sum := sha256.Sum256([]byte(text))
	p := Prompt{Front: front, Body: body, ID: front.Job, Intake: kernel.Intake{
		Owner: c.place.Owner, Repository: c.place.Repository, Branch: c.place.Branch,
		File: x.Tree.File(c.Rel, kernel.RunningPrompt), Rel: c.Rel, Reason: "new_prompt", Archive: x.Archive,
		SHA256: hex.EncodeToString(sum[:]), Inode: inode, Claimed: x.Now(),
	}}
	if p.ID == "" {
		p.ID = c.target.Scheduler.NewID()
	}
	run, err := c.target.Prepare(ctx, p)
	if err != nil {
		return PromptRequest{}, err
	}
	return PromptRequest{run, p.ID, p.Intake.File, func() bool { return x.Tree.Still(c.Rel, inode) }}, nil
}

// PromptRequest is the run of a claimed prompt.
type PromptRequest struct {
	RunRequest
	ID    kernel.JobID // of the job that stands for the prompt
	File  string
	Still func() bool // whether the file is still the one that was read
}

// errNotOurs is a prompt that another process has taken.
var errNotOurs = errors.New("another process has it")

// TakePrompts enqueues the runs of claimed prompts, each or not, and ticks. A
// prompt that a job stands for already, or whose file has gone on, was taken by
// another process: only who holds the scheduler lock gives a running prompt
// another name, so that it cannot be taken twice.
func (s *Scheduler) TakePrompts(ctx context.Context, reqs []PromptRequest) (refused []error, rep Report, err error) {
	scope := kernel.Scope{}
	for _, r := range reqs {
		jobs, _ := r.jobs()
		more := scopeOf(jobs)
		scope.Jobs, scope.Artifacts = append(append(scope.Jobs, more.Jobs...), r.ID), append(scope.Artifacts, more.Artifacts...)
	}
	rep, err = s.transact(ctx, scope, func(snap *kernel.Snapshot) (kernel.Plan, error) {
		refused = make([]error, len(reqs))
		var plan kernel.Plan
		have := map[string]bool{}
		for _, j := range snap.Jobs() {
			if j.HoldsPrompt() {
				have[j.Spec.Intake.File] = true
			}
		}
		for i, r := range reqs {
			if have[r.File] || !r.Still() {
				refused[i] = errNotOurs
				continue
			}
			jobs, _ := r.jobs()
			p, err := kernel.Enqueue(snap, jobs)
			if err != nil {
				refused[i] = err
				continue
			}
			have[r.File] = true
			p = kernel.NewPlan(kernel.CreateRun{Run: r.Run, Manifest: r.Manifest}).Then(p)
			plan, snap = plan.Then(p), snap.Apply(p)
		}
		return plan, nil
	})
	return refused, rep, err
}

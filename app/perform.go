package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
)

// performer does the actions on the world of one commit.
type performer struct {
	ctx  context.Context
	s    *Scheduler
	snap *kernel.Snapshot // as the actions before this one leave it
	rep  *Report
}

// perform does actions in order, and returns what the kernel makes of the
// answers with the snapshot that leads to.
func (t *transaction) perform(ctx context.Context, actions []kernel.WorldAction) kernel.Plan {
	p := performer{ctx, t.s, t.snap, t.rep}
	var answers kernel.Plan
	for _, a := range actions {
		answer := kernel.Perform(&p, a)
		answers, p.snap = answers.Then(answer), p.snap.Apply(answer)
	}
	t.snap = p.snap
	return answers
}

// Launch starts an attempt. One that is no longer current, because a crash came
// between and the world moved on, is left alone.
func (p *performer) Launch(a kernel.Launch) kernel.Plan {
	j := p.snap.Job(a.Attempt.Job)
	if j == nil || j.Fence(a.Attempt) != nil {
		return kernel.Plan{}
	}
	err := p.s.executorOf(p.snap, a.Attempt).Start(p.ctx, a.Attempt)
	if err == nil {
		return kernel.Plan{}
	}
	p.rep.warn(a.Attempt.Job, err)
	var no *Refusal
	return unless(kernel.Refuse(p.snap, a.Attempt, err.Error(), errors.As(err, &no)))
}

// Stop asks an attempt to end.
func (p *performer) Stop(a kernel.Stop) kernel.Plan {
	p.rep.warn(a.Attempt.Job, p.s.executorOf(p.snap, a.Attempt).Stop(p.ctx, a.Attempt))
	return kernel.Plan{}
}

// Sweep ends what is left of an attempt.
func (p *performer) Sweep(a kernel.Sweep) kernel.Plan {
	p.rep.warn(a.Attempt.Job, p.s.executorOf(p.snap, a.Attempt).Sweep(p.ctx, a.Attempt))
	return kernel.Plan{}
}

// ClearSentinel drops an open merge conflict's mark.
func (p *performer) ClearSentinel(a kernel.ClearSentinel) kernel.Plan {
	p.rep.warn(a.Job, p.s.Sentinels.ClearSentinel(a.Slug))
	return kernel.Plan{}
}

// RemoveWorktree takes a job's worktree away.
func (p *performer) RemoveWorktree(a kernel.RemoveWorktree) kernel.Plan {
	return unless(kernel.CleanedUp(p.snap, a, p.s.Worktrees.RemoveWorktree(p.ctx, a.Context)))
}

// TendPrompt sees to a prompt's files. What goes wrong is told, and tried again
// by the next tick.
func (p *performer) TendPrompt(a kernel.TendPrompt) kernel.Plan {
	j := p.snap.Job(a.Job)
	if j == nil || j.Spec.Intake == nil {
		return kernel.Plan{}
	}
	var others []uint64 // of prompts of the same name, of which this one was rewound or is the later
	for _, k := range p.snap.Jobs() {
		if k != j && k.HoldsPrompt() && k.Spec.Intake.File == j.Spec.Intake.File {
			others = append(others, k.Spec.Intake.Inode)
		}
	}
	found, archived, err := p.s.Prompts.TendPrompt(j, a.Name, others)
	if err != nil {
		p.rep.warn(a.Job, fmt.Errorf("its prompt: %w", err))
		return kernel.Plan{}
	}
	return unless(kernel.Tended(p.snap, a, found, archived))
}

// unless is an answer's plan, or none where the job that it is about has gone
// on meanwhile.
func unless(p kernel.Plan, err error) kernel.Plan {
	if err != nil {
		return kernel.Plan{}
	}
	return p
}

func (r *Report) warn(id kernel.JobID, err error) {
	if err == nil {
		return
	}
	if r.Refused == nil {
		r.Refused = map[kernel.JobID]string{}
	}
	r.Refused[id] = err.Error()
}

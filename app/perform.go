package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// performer performs the world actions of one commit.
type performer struct {
	*transaction
	ctx context.Context
	err error // a read failed while an answer was being processed
}

// answer returns the plan of v, the verb for an action's result. The plan is
// empty if the kernel refuses v, because the job has moved on meanwhile.
func (p *performer) answer(v history.Verb) (plan kernel.Plan) {
	var refused error
	p.err = p.untilComplete(new(int), func() { plan, refused = v.Decide(p.snap) })
	if refused != nil || p.err != nil {
		return kernel.Plan{}
	}
	p.follow(plan, v)
	return plan
}

// executorOf returns the executor that an attempt's job asks for.
func (s *Scheduler) executorOf(snap *kernel.Snapshot, a kernel.AttemptID) Executor {
	j := snap.Job(a.Job)
	if j == nil {
		return s.Executor
	}
	return s.executor(j.Spec.Task.On())
}

func (s *Scheduler) executor(name string) Executor {
	if name == kernel.LocalExecutor {
		return s.Executor
	}
	if e := s.Executors[name]; e != nil {
		return e
	}
	return noExecutor(s.unknown(name))
}

// errEnding is why a process that is to end starts no attempt.
var errEnding = errors.New("the process that was to start it was asked to end")

// Launch starts an attempt, unless the attempt is no longer current because a
// crash came between. A process that is to end takes the attempt back.
func (p *performer) Launch(a kernel.Launch) kernel.Plan {
	j := p.snap.Job(a.Attempt.Job)
	if j == nil || j.Fence(a.Attempt) != nil {
		return kernel.Plan{}
	}
	var err error
	switch ends := p.s.ending() != nil; {
	case ends && p.redo: // it may have been started
		p.err = errEnding
		return kernel.Plan{}
	case ends:
		err = errEnding
	default:
		err = p.s.executorOf(p.snap, a.Attempt).Start(p.ctx, a.Attempt)
	}
	if err == nil {
		return kernel.Plan{}
	}
	p.rep.warn(a.Attempt.Job, err)
	var no *Refusal
	final := errors.As(err, &no)
	return p.answer(history.Refuse{Attempt: a.Attempt, Why: kernel.Said(err), Final: final})
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

// ClearSentinel removes the mark of the job's open merge conflict.
func (p *performer) ClearSentinel(a kernel.ClearSentinel) kernel.Plan {
	if j := p.snap.Job(a.Job); j != nil {
		p.rep.warn(a.Job, p.s.Sentinels.DropConflict(a.Slug, j))
	}
	return kernel.Plan{}
}

// RemoveWorktree removes a job's worktree.
func (p *performer) RemoveWorktree(a kernel.RemoveWorktree) kernel.Plan {
	c := p.s.Worktrees.RemoveWorktree(p.ctx, a.Context)
	if c.Status == kernel.CleanupDone && c.Error != "" { // files are left aside, which concern no job any more
		p.rep.warn(a.Job, errors.New(c.Error))
		c.Error = ""
	}
	return p.answer(history.CleanedUp{Job: a.Job, Context: a.Context, Cancel: a.Cancel, Cleanup: c})
}

// TendPrompt updates a prompt's files. An error is reported, and the next tick
// tries again.
func (p *performer) TendPrompt(a kernel.TendPrompt) kernel.Plan {
	j := p.snap.Job(a.Job)
	if j == nil || j.Spec.Prompt == nil {
		return kernel.Plan{}
	}
	var others []uint64 // inode numbers of the prompts of other jobs whose prompt has the same name
	for _, k := range p.snap.Jobs() {
		if k != j && k.HoldsPrompt() && k.Spec.Prompt.File == j.Spec.Prompt.File {
			others = append(others, k.Spec.Prompt.Inode)
		}
	}
	found, archived, err := p.s.Prompts.TendPrompt(j, a.Name, view.PromptRunOf(j, p.snap.Members(j.Spec.Origin.Run), p.s.Now()).String(), others)
	if err != nil {
		p.rep.warn(a.Job, fmt.Errorf("its prompt: %w", err))
		return kernel.Plan{}
	}
	return p.answer(history.Tended{Job: a.Job, Name: a.Name, Found: found, Archived: archived})
}

func (r *Report) warn(id kernel.JobID, err error) {
	if err == nil {
		return
	}
	if r.Refused == nil {
		r.Refused = map[kernel.JobID]string{}
	}
	r.Refused[id] = kernel.Said(err)
}

package app

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// reviewRunning corrects what people did to running prompts. Only Vizier names
// a prompt running, and only once the prompt has a job. A file of that name
// without a job was renamed, copied or made by hand, and is never run. If the
// prompt of an open job was renamed, it gets its name back. mine holds the
// files that must not be taken as new prompts.
func (x *Inbox) reviewRunning(ctx context.Context, list inbox.Listing, named []placed, held holdings, rep *InboxReport) (mine map[string]bool, err error) {
	odd := map[*InboxTarget][]inbox.PromptFile{}
	for _, c := range named {
		if files := held[c.target]; files != nil && c.Name == kernel.RunningPrompt && files[x.Tree.File(c.Rel, c.Name)] == nil {
			odd[c.target] = append(odd[c.target], c.PromptFile)
		}
	}
	mine = map[string]bool{}
	for t, files := range held {
		open := map[uint64][]*kernel.Job{} // several if a file was deleted and its inode number was reused
		for _, namesakes := range files {
			for _, j := range namesakes {
				if j.Open() && x.ours(j) {
					open[j.Spec.Prompt.Inode] = append(open[j.Spec.Prompt.Inode], j)
				}
			}
		}
		for _, f := range list.Files {
			whose := open[f.Inode]
			if len(whose) == 0 || f.Name == kernel.RunningPrompt || !x.Tree.Still(f.Rel, f.Name, f.Inode) { // not of an open job, in its place, or renamed since the listing
				continue
			}
			if slices.ContainsFunc(whose, func(j *kernel.Job) bool { return f.Rel == j.Spec.Prompt.Rel && f.Name == j.State.Prompt.Named }) {
				continue // it is about to be renamed to running
			}
			if k := slices.IndexFunc(whose, func(j *kernel.Job) bool { return x.Tree.Still(j.Spec.Prompt.Rel, kernel.RunningPrompt, f.Inode) }); k >= 0 { // a hard link to a running prompt
				if f.Name == kernel.NewPrompt {
					name := inbox.NameOf(f.Name, f.Rel)
					mine[name] = true
					rep.Left = append(rep.Left, Left{name, "a link to " + inbox.NameOf(kernel.RunningPrompt, whose[k].Spec.Prompt.Rel) + ": it waits until job " + string(whose[k].ID) + " has ended"})
				}
				continue
			}
			odd[t] = append(odd[t], f)
		}
	}
	for t, files := range odd {
		if err := x.putRight(ctx, t, files, mine, rep); err != nil {
			rep.Left = append(rep.Left, Left{t.Root, kernel.Said(err)})
		}
	}
	return mine, ctx.Err()
}

// ours reports whether the prompt of j was dropped into this inbox.
func (x *Inbox) ours(j *kernel.Job) bool {
	return j.Spec.Prompt.File == x.Tree.File(j.Spec.Prompt.Rel, kernel.RunningPrompt)
}

// putRight gives the prompts of open jobs their names back, and refuses other
// files with the name of a running prompt. It runs in a transaction, so that
// nobody else can enqueue or rename a prompt meanwhile.
func (x *Inbox) putRight(ctx context.Context, t *InboxTarget, files []inbox.PromptFile, mine map[string]bool, rep *InboxReport) error {
	_, err := t.Scheduler.transact(ctx, kernel.Scope{All: true}, verb{decide: func(s *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		for _, f := range files {
			name := inbox.NameOf(f.Name, f.Rel)
			text, now, err := x.Tree.Read(f.Rel, f.Name)
			if errors.Is(err, iofs.ErrNotExist) || err == nil && now.Inode != f.Inode {
				mine[name] = true // the next pass looks at it again
				continue
			}
			why, j := x.judge(s, f, sum(text))
			switch {
			case j != nil && j.Open():
				mine[name] = true
				x.restore(f, name, j, rep)
			case f.Name == kernel.RunningPrompt && why != "":
				x.fail(f.Rel, f.Name, errors.New(why), rep)
			}
		}
		return kernel.Plan{}, nil, nil
	}})
	return err
}

// restore renames the prompt of an open job back to running.
func (x *Inbox) restore(f inbox.PromptFile, name string, j *kernel.Job, rep *InboxReport) {
	is := inbox.NameOf(kernel.RunningPrompt, j.Spec.Prompt.Rel)
	err := x.Tree.Restore(f, j.Spec.Prompt.Rel)
	switch {
	case err == nil:
		rep.Renamed = append(rep.Renamed, Left{name, fmt.Sprintf("it is the prompt of job %s, which is not over, and is called %s again", j.ID, is)})
	case errors.Is(err, iofs.ErrExist) && f.Name == kernel.RunningPrompt:
		x.fail(f.Rel, f.Name, fmt.Errorf("it is another name of the prompt of job %s, and there is %s", j.ID, is), rep)
	case errors.Is(err, iofs.ErrExist) && f.Name != kernel.NewPrompt: // a prompt of the same name is running; the record tells the two apart
	default:
		rep.Left = append(rep.Left, Left{name, fmt.Sprintf("it is the prompt of job %s, and cannot be called %s: %v", j.ID, is, err)})
	}
}

// judge returns why a file with a running prompt's name is not one, or the job
// whose prompt it is. It returns neither if nothing is to be done about the
// file.
func (x *Inbox) judge(s *kernel.Snapshot, f inbox.PromptFile, sum string) (why string, whose *kernel.Job) {
	var was, like *kernel.Job
	for _, j := range s.Jobs() {
		in := j.Spec.Prompt
		if in == nil || !x.ours(j) {
			continue
		}
		switch {
		case j.HoldsPrompt() && in.Rel == f.Rel && f.Name == kernel.RunningPrompt: // it was renamed to this since the listing
			return "", nil
		case in.SHA256 != sum:
		case in.Inode == f.Inode && !f.Modified.After(in.Claimed):
			if j.HoldsPrompt() && !j.Open() { // it is about to be renamed
				return "", nil
			}
			if was == nil || j.Open() {
				was = j
			}
		case j.HoldsPrompt():
			like = j
		}
	}
	again := ", rename it to " + f.Rel
	switch {
	case was != nil && was.Open():
		return "", was
	case was != nil:
		return fmt.Sprintf("it is the prompt of job %s, which is over (%s); to run it again%s", was.ID, was.State.Status, again), was
	case like != nil:
		return fmt.Sprintf("it is a copy of %s, the prompt of job %s; to run it a second time%s", inbox.NameOf(kernel.RunningPrompt, like.Spec.Prompt.Rel), like.ID, again), nil
	default:
		return "no job has it: only Vizier calls a prompt " + inbox.NameOf(kernel.RunningPrompt, "NAME.prompt.md") + ", once it has made a job of it; to run it" + again, nil
	}
}

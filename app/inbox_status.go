package app

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// PromptStatus is the state of a prompt.
type PromptStatus struct {
	File       inbox.PromptFile // only Rel is set if the file is gone
	Gone       bool             // the file is not in the inbox any more
	Renamed    string           // the name that somebody gave the file; "": it has its own
	Repository string           // the root of its repository; "": not known
	Job        *kernel.Job      // nil: none
	Age        time.Duration    // since it was dropped, or since its job was made
	Stalled    bool             // a job of it runs without a sign of life
	Run        view.PromptRun   // set if the prompt has a job
	Tracked    string           // it is not run, since git tracks this, as Inbox.Tracked returns it
	Reason     string           // why it does not continue, or how it ended
}

// InboxStatus is the content of an inbox, and the state of its jobs.
type InboxStatus struct {
	Prompts []PromptStatus // in the order in which they were dropped
	Left    []Left
}

// Status returns the state of every prompt in the inbox and, if all is set, of
// every other prompt that the repositories have on record. alive returns the
// last sign of life of a running job. A prompt is stalled if a job of its run
// is running and none of them has given a sign of life for stalled. Status
// changes nothing.
func (x *Inbox) Status(ctx context.Context, targets []*InboxTarget, all bool, stalled time.Duration, alive func(*InboxTarget, *kernel.Job) time.Time) (InboxStatus, error) {
	var out InboxStatus
	list, err := x.Tree.Scan()
	if err != nil {
		return out, err
	}
	files := map[string]PromptStatus{}
	now := x.Now()
	for _, f := range list.Files {
		files[x.Tree.File(f.Rel, f.Name)] = PromptStatus{File: f, Age: max(0, now.Sub(f.Modified))}
	}
	if all {
		gone, err := x.Tree.Gone()
		if err != nil {
			return out, err
		}
		for _, f := range gone {
			files[goneKey(f.Inode)] = PromptStatus{File: f, Gone: true, Age: max(0, now.Sub(f.Modified))}
		}
	}
	var jobs []*kernel.Job // of this inbox
	for _, t := range targets {
		rec, err := t.Scheduler.Store.Read(ctx, kernel.Scope{All: all})
		if err == nil && !all && unexplained(files, list.Others, rec.Jobs) {
			rec, err = t.Scheduler.Store.Read(ctx, kernel.Scope{All: true})
		}
		if err != nil {
			out.Left = append(out.Left, Left{t.Root, kernel.Said(err)})
			continue
		}
		runs := map[kernel.RunID][]*kernel.Job{}
		for i := range rec.Jobs {
			if j := &rec.Jobs[i]; j.Spec.Prompt != nil && x.ours(j) {
				jobs = append(jobs, j)
			}
			runs[rec.Jobs[i].Spec.Origin.Run] = append(runs[rec.Jobs[i].Spec.Origin.Run], &rec.Jobs[i])
		}
		signs := map[kernel.RunID]time.Time{}
		for i := range rec.Jobs {
			if j := &rec.Jobs[i]; j.State.Status == kernel.Running {
				if at := alive(t, j); at.After(signs[j.Spec.Origin.Run]) {
					signs[j.Spec.Origin.Run] = at
				}
			}
		}
		for i := range rec.Jobs {
			x.describe(&rec.Jobs[i], runs[rec.Jobs[i].Spec.Origin.Run], t, list, files, all, func(j *kernel.Job) bool {
				at := signs[j.Spec.Origin.Run]
				return j.Open() && !at.IsZero() && now.Sub(at) > stalled
			})
		}
	}
	for _, s := range list.Odd(jobs) {
		out.Left = append(out.Left, Left{s.Path, s.Why})
	}
	for _, p := range files {
		if p.Job == nil && !p.Gone && p.File.Name == kernel.NewPrompt {
			switch tracked, err := x.tracked(ctx, p.File.Rel); {
			case err != nil:
				p.Reason = kernel.Said(err)
			case tracked != "":
				p.Tracked, p.Reason = tracked, TrackedPrompt
			}
		}
		if p.Job == nil && p.File.Name == kernel.ErrorPrompt {
			p.Reason, _ = x.Tree.Why(p.File.Rel, p.Gone)
		}
		for _, j := range jobs {
			if p.Job == nil && p.File.Name == kernel.NewPrompt && j.Open() && j.Spec.Prompt.Rel == p.File.Rel {
				p.Reason = "waits until job " + string(j.ID) + ", a prompt of the same name, has ended"
			}
		}
		out.Prompts = append(out.Prompts, p)
	}
	slices.SortFunc(out.Prompts, func(a, b PromptStatus) int {
		return cmp.Or(a.born(now).Compare(b.born(now)), cmp.Compare(a.File.Rel, b.File.Rel), cmp.Compare(a.File.Name, b.File.Name))
	})
	return out, nil
}

// describe adds what is known of job j to the status of its prompt's file.
// Without a file, the prompt is listed if j is open, or if all is set.
func (x *Inbox) describe(j *kernel.Job, run []*kernel.Job, t *InboxTarget, list inbox.Listing, files map[string]PromptStatus, all bool, stalled func(*kernel.Job) bool) {
	in := j.Spec.Prompt
	if in == nil || in.File != x.Tree.File(in.Rel, kernel.RunningPrompt) {
		return
	}
	word := j.State.Status.PromptName()
	key := x.Tree.File(in.Rel, word)
	have, there := files[key]
	if there && (have.File.Inode == in.Inode || j.Open() || have.Job == nil && x.written(j, have.File)) {
		have.Age = max(0, x.Now().Sub(j.Created))
	} else if name, other := renamed(j, files, list.Others); name != "" {
		delete(files, other)
		have = PromptStatus{File: inbox.PromptFile{Rel: in.Rel, Name: word}, Age: max(0, x.Now().Sub(j.Created)), Renamed: name}
	} else {
		if !j.Open() && !all {
			return
		}
		delete(files, goneKey(in.Inode))
		key = string(j.ID)
		have = PromptStatus{File: inbox.PromptFile{Rel: in.Rel, Name: word}, Gone: true, Age: max(0, x.Now().Sub(j.Created))}
	}
	have.Repository, have.Job, have.Stalled, have.Run = t.Root, j, stalled(j), view.PromptRunOf(j, run, x.Now())
	have.Reason = have.Run.Why()
	files[key] = have
}

// renamed returns the name that somebody has given to the prompt file of the open job j,
// and the file's key in files if it still has one of a prompt's names; "": nobody renamed
// it.
func renamed(j *kernel.Job, files map[string]PromptStatus, others []inbox.PromptFile) (name, key string) {
	if !j.Open() {
		return "", ""
	}
	is := func(f inbox.PromptFile) bool {
		return f.Inode == j.Spec.Prompt.Inode && !f.Modified.After(j.Spec.Prompt.Claimed)
	}
	for key, p := range files {
		if !p.Gone && p.Job == nil && is(p.File) {
			return inbox.NameOf(p.File.Name, p.File.Rel), key
		}
	}
	if k := slices.IndexFunc(others, is); k >= 0 {
		return others[k].Rel, ""
	}
	return "", ""
}

// written reports whether a file that is not the claimed one is nevertheless
// the prompt of j, because somebody wrote the file anew while j was open.
func (x *Inbox) written(j *kernel.Job, f inbox.PromptFile) bool {
	switch {
	case j.HoldsPrompt() || f.Modified.Before(j.Created) || f.Modified.After(j.State.Finished):
		return false
	case f.Name == kernel.ErrorPrompt: // otherwise it was refused
		why, _ := x.Tree.Why(f.Rel, false)
		id, ended := inbox.EndedJob(why)
		return ended && id == j.ID
	default:
		return f.Name == kernel.DonePrompt
	}
}

// goneKey returns the key under which a prompt that has left the inbox is
// listed.
func goneKey(inode uint64) string { return "finished " + strconv.FormatUint(inode, 10) }

// unexplained reports whether there is a done prompt, or a file without a
// prompt's name, that belongs to none of the jobs.
func unexplained(files map[string]PromptStatus, others []inbox.PromptFile, jobs []kernel.Job) bool {
	known := map[uint64]bool{}
	for i := range jobs {
		if in := jobs[i].Spec.Prompt; in != nil {
			known[in.Inode] = true
		}
	}
	for _, f := range files {
		if f.File.Name == kernel.DonePrompt && !known[f.File.Inode] {
			return true
		}
	}
	return slices.ContainsFunc(others, func(f inbox.PromptFile) bool { return !known[f.Inode] })
}

func (p PromptStatus) born(now time.Time) time.Time {
	if p.Job != nil {
		return p.Job.Created
	}
	return now.Add(-p.Age)
}

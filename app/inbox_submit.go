package app

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// Submission is a prompt that a program submits.
type Submission struct {
	Name   string // the file's name, x.prompt.md
	Text   string // including front matter
	At     inbox.Path
	Front  inbox.Front // added by the caller to the prompt's own front matter
	Source string      // the program's name
}

// names is how many file names are tried for a prompt.
const names = 5

// Submit drops a prompt and takes it at once, since it is known to be complete.
// If the prompt cannot be run, it is refused and nothing is dropped. If
// enqueueing fails after that, the prompt keeps its id and the next pass
// enqueues it; the error says so.
func (x *Inbox) Submit(ctx context.Context, s Submission, stamp func(text string, f inbox.Front) (string, error)) (Taken, error) {
	list, err := x.Tree.Scan()
	if err != nil {
		return Taken{}, err
	}
	dir, marked := x.dirOf(list, s.At)
	where, err := inbox.ParsePath(x.Layout, x.Owner, join(dir, s.Name), func(string) string { return marked })
	if err != nil {
		return Taken{}, err
	}
	target, err := x.find(where)
	if err != nil {
		return Taken{}, err
	}
	place, err := target.Place(ctx, where)
	if err != nil {
		return Taken{}, err
	}
	own, _, err := x.Parse(s.Text)
	if err != nil {
		return Taken{}, err
	}
	if s.Front.Job = own.Job; s.Front.Job == "" {
		s.Front.Job = target.Scheduler.NewID()
	}
	if x.Layout != inbox.SimpleLayout {
		s.Front.Owner, s.Front.Repository, s.Front.Branch = place.Owner, place.Repository, place.Branch
	}
	text, err := stamp(s.Text, s.Front)
	if err != nil {
		return Taken{}, err
	}
	if err := x.try(ctx, target, place, text, join(dir, s.Name)); err != nil {
		return Taken{}, err
	}
	unlock, err := x.lock(ctx)
	if err != nil {
		return Taken{}, err
	}
	rel, err := x.drop(ctx, target, dir, marked, place, s, text)
	if err == nil {
		var t Taken
		t, err = x.takeOne(ctx, target, place, rel, s.Front.Job)
		return t, errors.Join(err, unlock.Close())
	}
	return Taken{}, errors.Join(err, unlock.Close())
}

// dirOf returns the directory for prompts of a target, and the branch that its marker names
// or has to name; "": it needs no marker, since its name is that of the branch. A directory that
// stands for another branch is left to that.
func (x *Inbox) dirOf(list inbox.Listing, p inbox.Path) (dir, marked string) {
	switch branch := strings.ReplaceAll(p.Branch, "/", "-"); x.Layout {
	case inbox.SingleOwner:
		dir = p.Repository + "/" + branch
	case inbox.MultiOwner:
		dir = p.Owner + "/" + p.Repository + "/" + branch
	default:
		return "", ""
	}
	if list.Branches[dir] == "" && !strings.Contains(p.Branch, "/") {
		return dir, ""
	}
	for list.Branches[dir] != p.Branch && slices.Contains(list.Dirs, dir) {
		dir += "-"
	}
	return dir, p.Branch
}

func join(dir, name string) string { return strings.TrimPrefix(dir+"/"+name, "/") }

// try checks that the run of a prompt can be prepared, before the prompt is
// dropped.
func (x *Inbox) try(ctx context.Context, t *InboxTarget, place inbox.Path, text, rel string) error {
	front, body, err := x.Parse(text)
	if err != nil {
		return err
	}
	if err := front.For(place); err != nil {
		return err
	}
	rec, err := t.Scheduler.Store.Read(ctx, kernel.Scope{Jobs: []kernel.JobID{front.Job}})
	if err != nil {
		return err
	}
	for i := range rec.Jobs {
		if rec.Jobs[i].ID == front.Job {
			return taken(front.Job)
		}
	}
	_, err = t.Prepare(ctx, Prompt{Front: front, Body: body, ID: front.Job, Record: kernel.Prompt{
		Owner: place.Owner, Repository: place.Repository, Branch: place.Branch, File: x.Tree.File(rel, kernel.RunningPrompt), Rel: rel}})
	return err
}

// drop creates the prompt under the first free name: its own, or one with a
// part of the job's id.
func (x *Inbox) drop(ctx context.Context, t *InboxTarget, dir, marked string, place inbox.Path, s Submission, text string) (string, error) {
	held := holdings{}
	if err := held.read(ctx, t); err != nil {
		return "", err
	}
	if marked != "" {
		if err := x.Tree.Mark(dir, marked); err != nil {
			return "", err
		}
	}
	stem := strings.TrimSuffix(s.Name, ".prompt.md")
	for n := range names {
		name := s.Name
		if n > 0 {
			name = stem + "-" + string(s.Front.Job[32-8*min(n, 4):]) + ".prompt.md"
		}
		rel := join(dir, name)
		if len(held[t][x.Tree.File(rel, kernel.RunningPrompt)]) > 0 {
			continue
		}
		if tracked, err := x.tracked(ctx, rel); tracked != "" && err == nil { // no later pass would take it
			continue
		}
		if err := x.Tree.Drop(rel, text); !errors.Is(err, iofs.ErrExist) {
			return rel, err
		}
	}
	return "", fmt.Errorf("%s and %d names like it are in use in the inbox: give it another: %w", s.Name, names-1, kernel.ErrConflict)
}

// takeOne enqueues a prompt that was just dropped.
func (x *Inbox) takeOne(ctx context.Context, t *InboxTarget, place inbox.Path, rel string, id kernel.JobID) (Taken, error) {
	later := func(why error) error {
		return fmt.Errorf("the prompt is in the inbox as %s, and becomes job %s with the next `vizier inbox once`: %w", rel, id, why)
	}
	_, file, err := x.Tree.Read(rel, kernel.NewPrompt)
	if err != nil {
		return Taken{}, later(err)
	}
	var rep InboxReport
	x.take(ctx, []placed{{file, place, t}}, &rep)
	switch {
	case len(rep.Failed) > 0:
		return Taken{}, fmt.Errorf("%s: %s", rep.Failed[0].Path, rep.Failed[0].Reason)
	case len(rep.Left) > 0:
		return Taken{}, later(errors.New(rep.Left[0].Reason))
	case len(rep.Taken) == 0: // another process took it first
		return Taken{Rel: rel, Job: id, Repository: t.Root}, nil
	}
	return rep.Taken[0], nil
}

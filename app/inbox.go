package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// InboxTree is the files of an inbox. Rel is the path that a prompt was dropped
// as, below the inbox.
type InboxTree interface {
	// Lock keeps other processes from claiming until it is closed, and ends
	// with this one. It reports false where another has it.
	Lock() (io.Closer, bool, error)

	Scan() (inbox.Listing, error)

	// Read is the text of a file, and the number of the file that has it: what
	// cannot be a prompt is kernel.ErrInvalid, what is gone iofs.ErrNotExist.
	Read(rel string, n kernel.PromptName) (text string, inode uint64, err error)

	// Still reports that the file of that name is the one of that number.
	Still(rel string, n kernel.PromptName, inode uint64) bool

	// Restore gives a file the name of a running prompt; iofs.ErrExist where
	// that is taken.
	Restore(f inbox.PromptFile, rel string) error

	// Drop places a new prompt whole; iofs.ErrExist where its name is in use.
	Drop(rel, text string) error

	// Mark says which branch a directory stands for.
	Mark(dir, branch string) error

	// Fail names a prompt as failed and says why beside it.
	Fail(rel string, from kernel.PromptName, why string) error

	// Finish takes a prompt that has ended out of the inbox. It is where the
	// file is now, below the home; "" if it was gone.
	Finish(rel string, n kernel.PromptName) (to string, err error)

	// Why is what stands beside a prompt called failed, in the inbox or, with
	// finished, below finished; "": nothing.
	Why(rel string, finished bool) string

	// Gone are the prompts called failed that have left the inbox.
	Gone() ([]inbox.PromptFile, error)

	// File is the absolute path of a prompt under one of its names.
	File(rel string, n kernel.PromptName) string

	// GoneFile is the absolute path of a prompt called failed that has left the
	// inbox.
	GoneFile(rel string) string
}

// Inbox turns prompts into runs.
type Inbox struct {
	Tree     InboxTree
	Layout   inbox.Layout
	Owner    string
	Archive  bool          // keep a copy of the prompts whose runs failed
	Debounce time.Duration // how long a file is still before it is claimed
	Visible  time.Duration // how long a prompt says how it ended before it goes
	Patience time.Duration // how long to wait for another process that claims
	Now      func() time.Time

	// Parse reads a prompt: its front matter, and the text below.
	Parse func(text string) (inbox.Front, string, error)

	// Find is the repository that a path names.
	Find func(inbox.Path) (*InboxTarget, error)

	// Tell tells people of prompts that were refused; nil: nobody is told.
	Tell func([]kernel.Event)

	seen    map[string]inbox.Sighting
	news    *news // of a watcher
	targets map[string]*InboxTarget
}

// InboxTarget is a repository that prompts are run in.
type InboxTarget struct {
	Root      string // absolute
	Scheduler *Scheduler

	// Place completes what the path says by what the repository is, and
	// refuses a branch that it does not have.
	Place func(context.Context, inbox.Path) (inbox.Path, error)

	// Prepare makes the run of a prompt. The job that the run ends in gets the
	// id and stands for the prompt.
	Prepare func(context.Context, Prompt) (RunRequest, error)
}

// Prompt is a prompt that is to be run.
type Prompt struct {
	Front  inbox.Front
	Body   string // without the front matter
	ID     kernel.JobID
	Record kernel.Prompt
}

// Taken is a prompt that became a run.
type Taken struct {
	Rel        string
	Job        kernel.JobID
	Run        kernel.RunID
	Repository string // its root
}

// Left is a file that nothing was done with, or that could not be run, and why.
type Left struct{ Path, Reason string }

// Moved is a prompt that has ended and left the inbox, and where to, below the
// home.
type Moved struct{ Path, To string }

// InboxReport is what one pass over an inbox did.
type InboxReport struct {
	Taken    []Taken
	Failed   []Left // named x.error.md, with the reason beside it
	Renamed  []Left // by somebody while their runs were open, and called running again
	Finished []Moved
	Ended    []Ended       // runs of prompts that are over since a watcher last looked
	Asked    []Asked       // approvals that they wait for since then
	Left     []Left        // to be looked at by a person, or tried again by itself
	Waiting  int           // new prompts that are not due yet
	Next     time.Duration // until something is due; 0: nothing is
	Dirs     []string      // of the inbox
}

// placed is a prompt with where it belongs.
type placed struct {
	inbox.PromptFile
	place  inbox.Path
	target *InboxTarget
}

// Once looks at every prompt once: what ended is taken away when it was visible
// for long enough, what somebody renamed or made by hand is put right, and what
// is new and still is taken, in the order in which it was dropped. With tick, the
// repositories that prompts run in are looked after as well.
func (x *Inbox) Once(ctx context.Context, tick bool) (rep InboxReport, err error) {
	unlock, err := x.lock(ctx)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, unlock.Close()) }()
	list, err := x.Tree.Scan()
	if err != nil {
		return rep, err
	}
	rep.Dirs = list.Dirs
	for _, s := range list.Strays {
		rep.Left = append(rep.Left, Left{s.Path, s.Why})
	}
	running := x.resolve(ctx, list, list.OfName(kernel.RunningPrompt), func(f inbox.PromptFile, err error) {
		rep.Left = append(rep.Left, Left{inbox.NameOf(kernel.RunningPrompt, f.Rel), err.Error()})
	})
	over := append(list.OfName(kernel.DonePrompt), list.OfName(kernel.ErrorPrompt)...) // also where somebody called it so
	named := append(running, x.resolve(ctx, list, over, func(inbox.PromptFile, error) {})...)
	if tick {
		for _, t := range targetsOf(named) {
			if _, err := t.Scheduler.Tick(ctx); err != nil {
				rep.Left = append(rep.Left, Left{t.Root, err.Error()})
			}
		}
	}
	ready, seen, wait := list.Ready(x.Now(), x.Debounce, x.seen)
	x.seen, rep.Waiting = seen, len(seen)
	rep.due(wait)
	fresh := x.resolve(ctx, list, ready, func(f inbox.PromptFile, err error) { x.fail(f.Rel, kernel.NewPrompt, err, &rep) })
	err = x.takeAll(ctx, list, named, fresh, &rep)
	if x.news != nil {
		x.news.look(ctx, x, &list, &rep)
	}
	x.finish(list, &rep)
	x.tell(rep.Failed)
	return rep, err
}

// tell tells people of prompts that were refused.
func (x *Inbox) tell(refused []Left) {
	var events []kernel.Event
	for _, f := range refused {
		events = append(events, kernel.Event{At: x.Now(), Kind: kernel.NeedsAttention, Name: f.Path, Reason: string(kernel.NeedsCorrection) + ": " + f.Reason})
	}
	if x.Tell != nil && len(events) > 0 {
		x.Tell(events)
	}
}

func (r *InboxReport) due(wait time.Duration) {
	if wait > 0 && (r.Next == 0 || wait < r.Next) {
		r.Next = wait
	}
}

// lock waits for other processes that claim.
func (x *Inbox) lock(ctx context.Context) (io.Closer, error) {
	for until := time.Now().Add(x.Patience); ; {
		f, free, err := x.Tree.Lock()
		if err != nil || free {
			return f, err
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("another process looks at the inbox: %w", ErrBusy)
		}
		if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// finish takes the prompts away that have said for long enough how they ended.
func (x *Inbox) finish(list inbox.Listing, rep *InboxReport) {
	gone, wait := list.Expired(x.Now(), x.Visible)
	rep.due(wait)
	for _, f := range gone {
		name := inbox.NameOf(f.Name, f.Rel)
		switch to, err := x.Tree.Finish(f.Rel, f.Name); {
		case err != nil:
			rep.Left = append(rep.Left, Left{name, err.Error()})
		case to != "":
			rep.Finished = append(rep.Finished, Moved{name, to})
		}
	}
}

// resolve finds where each prompt belongs.
func (x *Inbox) resolve(ctx context.Context, list inbox.Listing, files []inbox.PromptFile, bad func(inbox.PromptFile, error)) []placed {
	var out []placed
	branches := func(dir string) string { return list.Branches[dir] }
	known := map[inbox.Path]inbox.Path{}
	wrong := map[inbox.Path]error{}
	for _, f := range files {
		p, err := inbox.ParsePath(x.Layout, x.Owner, f.Rel, branches)
		if err != nil {
			bad(f, err)
			continue
		}
		t, err := x.find(p)
		if err != nil {
			bad(f, err)
			continue
		}
		place, ok := known[p]
		if !ok && wrong[p] == nil {
			place, err = t.Place(ctx, p)
			known[p], wrong[p] = place, err
		}
		if err := wrong[p]; err != nil {
			bad(f, err)
			continue
		}
		out = append(out, placed{f, place, t})
	}
	return out
}

func (x *Inbox) find(p inbox.Path) (*InboxTarget, error) {
	if t := x.targets[p.Target()]; t != nil {
		return t, nil
	}
	t, err := x.Find(p)
	if err != nil {
		return nil, err
	}
	if x.targets == nil {
		x.targets = map[string]*InboxTarget{}
	}
	x.targets[p.Target()] = t
	return t, nil
}

func targetsOf(prompts []placed) []*InboxTarget {
	var out []*InboxTarget
	seen := map[*InboxTarget]bool{}
	for _, p := range prompts {
		if !seen[p.target] {
			seen[p.target] = true
			out = append(out, p.target)
		}
	}
	return out
}

func (x *Inbox) fail(rel string, from kernel.PromptName, why error, rep *InboxReport) {
	text := strings.TrimSuffix(why.Error(), ": "+kernel.ErrInvalid.Error())
	if err := x.Tree.Fail(rel, from, text); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		rep.Left = append(rep.Left, Left{inbox.NameOf(from, rel), errors.Join(why, err).Error()})
		return
	}
	rep.Failed = append(rep.Failed, Left{inbox.NameOf(kernel.ErrorPrompt, rel), text})
	rep.due(x.Visible)
}

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// InboxTree is the files of an inbox. A rel is the path under which a prompt
// was dropped, relative to the inbox.
type InboxTree interface {
	// Lock prevents other processes from claiming prompts until it is closed or
	// this process ends. It returns false if another process holds it.
	Lock() (io.Closer, bool, error)

	Scan() (inbox.Listing, error)

	// Read returns the text of a file, and the file as it was after that. It fails
	// with kernel.ErrInvalid if the file cannot be a prompt, and with
	// iofs.ErrNotExist if it does not exist.
	Read(rel string, n kernel.PromptName) (text string, f inbox.PromptFile, err error)

	// Still reports whether the file of that name still has that inode number.
	Still(rel string, n kernel.PromptName, inode uint64) bool

	// Restore renames a file to the name of a running prompt. It fails with
	// iofs.ErrExist if that name is taken.
	Restore(f inbox.PromptFile, rel string) error

	// Drop creates a new prompt atomically. It fails with iofs.ErrExist if the
	// name is taken.
	Drop(rel, text string) error

	// Mark writes the branch marker of a directory.
	Mark(dir, branch string) error

	// Fail renames a prompt to failed and writes the reason beside it.
	Fail(rel string, from kernel.PromptName, why string) error

	// Finish moves a prompt that has ended out of the inbox. It returns the
	// file's new path, relative to the home, or "" if the file did not exist.
	Finish(rel string, n kernel.PromptName) (to string, err error)

	// Why returns the reason file of a failed prompt in the inbox or, with
	// finished, of one that has left it, and when that was written. It returns "" if there
	// is none.
	Why(rel string, finished bool) (why string, at time.Time)

	// Gone returns the failed prompts that have left the inbox.
	Gone() ([]inbox.PromptFile, error)

	// File returns the absolute path of a prompt under one of its names.
	File(rel string, n kernel.PromptName) string

	// GoneFile returns the absolute path of a failed prompt that has left the
	// inbox.
	GoneFile(rel string) string
}

// Inbox turns prompts into runs.
type Inbox struct {
	Tree     InboxTree
	Layout   inbox.Layout
	Owner    string
	Archive  bool          // keep a copy of prompts whose runs failed
	Debounce time.Duration // how long a file must not change before it is claimed
	Visible  time.Duration // how long an ended prompt stays in the inbox
	Patience time.Duration // how long to wait for another process that is claiming
	Now      func() time.Time

	// Parse splits a prompt into its front matter and its body.
	Parse func(text string) (inbox.Front, string, error)

	// Find returns the repository for a path.
	Find func(inbox.Path) (*InboxTarget, error)

	// Tracked returns what git tracks of the file of a prompt, the file or the submodule that
	// it is in, relative to the working tree; "" if neither. What git tracks came with
	// somebody's commit, and is not run. It fails with ErrGitAtWork while that
	// cannot be told yet. nil: the inbox is in no working tree.
	Tracked func(ctx context.Context, rel string) (string, error)

	// Tell reports refused prompts to people; nil: they are not reported.
	Tell func([]kernel.Event)

	seen    map[string]inbox.Sighting
	news    *news // set while Watch runs
	targets map[string]*InboxTarget
}

// InboxTarget is a repository in which prompts are run.
type InboxTarget struct {
	Root      string // absolute
	Scheduler *Scheduler

	// Place completes the path's information from the repository. It fails for
	// a branch that does not exist.
	Place func(context.Context, inbox.Path) (inbox.Path, error)

	// Prepare makes the run of a prompt. The run's last job gets the prompt's
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
	Repository string // the repository's root
}

// Left is a file that was left alone or could not be run, and why.
type Left struct{ Path, Reason string }

// Moved is a prompt that has ended and left the inbox, and its new path,
// relative to the home.
type Moved struct{ Path, To string }

// InboxReport is the result of one pass over an inbox.
type InboxReport struct {
	Taken    []Taken
	Failed   []Left // renamed to x.error.md, with the reason beside it
	Renamed  []Left // renamed by somebody while their runs were open, and renamed back to running
	Finished []Moved
	Ended    []Ended       // prompts whose runs have ended since a watcher's last pass
	Asked    []Asked       // approvals that runs have begun to wait for since then
	Left     []Left        // files that need a person, or that are tried again by themselves
	Waiting  int           // number of new prompts that are not due yet
	Next     time.Duration // time until something is due; 0: nothing is
	Dirs     []string      // of the inbox
}

// placed is a prompt with the repository and path it belongs to.
type placed struct {
	inbox.PromptFile
	place  inbox.Path
	target *InboxTarget
}

// Once makes one pass over the inbox. It removes ended prompts that were
// visible for long enough, corrects files that somebody renamed or made by
// hand, and takes new prompts that no longer change, in the order in which they
// were dropped. With tick, it also ticks the repositories that the prompts run
// in.
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
		rep.Left = append(rep.Left, Left{inbox.NameOf(kernel.RunningPrompt, f.Rel), kernel.Said(err)})
	})
	over := append(list.OfName(kernel.DonePrompt), list.OfName(kernel.ErrorPrompt)...) // including files that somebody else gave these names
	named := append(running, x.resolve(ctx, list, over, func(inbox.PromptFile, error) {})...)
	if tick {
		for _, t := range targetsOf(named) {
			if _, err := t.Scheduler.Tick(ctx); err != nil {
				rep.Left = append(rep.Left, Left{t.Root, kernel.Said(err)})
			}
		}
	}
	ready, seen, wait := list.Ready(x.Now(), x.Debounce, x.seen)
	x.seen, rep.Waiting = seen, len(seen)
	rep.due(wait)
	ready = x.untracked(ctx, ready, &rep)
	fresh := x.resolve(ctx, list, ready, func(f inbox.PromptFile, err error) { x.fail(f.Rel, kernel.NewPrompt, err, &rep) })
	err = x.takeAll(ctx, list, named, fresh, &rep)
	if x.news != nil {
		x.news.look(ctx, x, &list, &rep)
	}
	x.finish(list, &rep)
	x.tell(rep.Failed)
	return rep, err
}

// ErrGitAtWork says that a git may be about to track a file.
var ErrGitAtWork = errors.New("another git is at work")

// longAtWork is how long a prompt waits for a git before people are told: it may have been
// killed, and its lock with nobody to remove it.
const longAtWork = time.Minute

// TrackedPrompt says why a prompt that git tracks is not run.
const TrackedPrompt = "refused: git tracks it, so that anybody's commit may have brought it here; to run it, `git rm --cached -f` it first"

// untracked returns the prompts that may run, as git does not track them.
func (x *Inbox) untracked(ctx context.Context, ready []inbox.PromptFile, rep *InboxReport) (out []inbox.PromptFile) {
	for _, f := range ready {
		switch tracked, err := x.tracked(ctx, f.Rel); {
		case err != nil:
			rep.Left = append(rep.Left, Left{f.Rel, kernel.Said(err)})
			if errors.Is(err, ErrGitAtWork) {
				rep.due(lookAgain)
			}
		case tracked != "":
			rep.Left = append(rep.Left, Left{f.Rel, TrackedPrompt})
		default:
			out = append(out, f)
		}
	}
	return out
}

func (x *Inbox) tracked(ctx context.Context, rel string) (string, error) {
	if x.Tracked == nil {
		return "", nil
	}
	return x.Tracked(ctx, rel)
}

// tell reports refused prompts to people.
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

// lock takes the inbox's lock, waiting for other processes that are claiming.
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

// finish moves out the ended prompts that were visible for long enough.
func (x *Inbox) finish(list inbox.Listing, rep *InboxReport) {
	gone, wait := list.Expired(x.Now(), x.Visible)
	rep.due(wait)
	for _, f := range gone {
		name := inbox.NameOf(f.Name, f.Rel)
		switch to, err := x.Tree.Finish(f.Rel, f.Name); {
		case err != nil:
			rep.Left = append(rep.Left, Left{name, kernel.Said(err)})
		case to != "":
			rep.Finished = append(rep.Finished, Moved{name, to})
		}
	}
}

// resolve finds the repository and path of each prompt.
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
	text := kernel.Said(why)
	if err := x.Tree.Fail(rel, from, text); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		rep.Left = append(rep.Left, Left{inbox.NameOf(from, rel), kernel.Said(errors.Join(why, err))})
		return
	}
	rep.Failed = append(rep.Failed, Left{inbox.NameOf(kernel.ErrorPrompt, rel), text})
	rep.due(x.Visible)
}

package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// batch is how many prompts are enqueued in one transaction.
const batch = 32

// takeAll enqueues fresh prompts, after reviewing the files with other names.
func (x *Inbox) takeAll(ctx context.Context, list inbox.Listing, named, fresh []placed, rep *InboxReport) error {
	held := holdings{}
	for _, t := range targetsOf(append(slices.Clone(named), fresh...)) {
		if err := held.read(ctx, t); err != nil { // a repository whose jobs are not known is left alone
			rep.Left = append(rep.Left, Left{t.Root, kernel.Said(err)})
		}
	}
	mine, err := x.reviewRunning(ctx, list, named, held, rep)
	if err != nil {
		return err
	}
	var todo, waits []placed
	for _, c := range fresh {
		switch files := held[c.target]; {
		case files == nil || mine[inbox.NameOf(c.Name, c.Rel)]:
		case len(files[x.Tree.File(c.Rel, kernel.RunningPrompt)]) == 0:
			todo = append(todo, c)
		default: // a prompt of the same name is running; or this one is enqueued, and a crash came before it was renamed
			waits = append(waits, c)
		}
	}
	for _, t := range targetsOf(waits) { // if the other prompt's file is gone, nothing else would tick the repository
		if _, err := t.Scheduler.Tick(ctx); err != nil {
			rep.Left = append(rep.Left, Left{t.Root, kernel.Said(err)})
		}
	}
	for len(todo) > 0 {
		n := 1
		for n < len(todo) && n < batch && todo[n].target == todo[0].target {
			n++
		}
		x.take(ctx, todo[:n], rep)
		todo = todo[n:]
	}
	return ctx.Err()
}

// holdings maps repositories and claimed files to the jobs that the file still
// belongs to; nil: not known. A file may belong to several jobs: a retry may
// reopen a job after another prompt of the same name was dropped.
type holdings map[*InboxTarget]map[string][]*kernel.Job

func (h holdings) read(ctx context.Context, t *InboxTarget) error {
	rec, err := t.Scheduler.Store.Read(ctx, kernel.Scope{})
	if err != nil {
		return err
	}
	h[t] = map[string][]*kernel.Job{}
	for i := range rec.Jobs {
		if j := &rec.Jobs[i]; j.HoldsPrompt() {
			h[t][j.Spec.Prompt.File] = append(h[t][j.Spec.Prompt.File], j)
		}
	}
	return nil
}

// take enqueues prompts of one repository. Prompts that cannot be run are
// renamed to failed, without affecting the others.
func (x *Inbox) take(ctx context.Context, prompts []placed, rep *InboxReport) {
	target := prompts[0].target
	var reqs []PromptRequest
	var rels []string
	for _, c := range prompts {
		req, err := x.request(ctx, c)
		switch {
		case errors.Is(err, errVanished):
			rep.Left = append(rep.Left, Left{c.Rel, kernel.Said(err)})
			rep.due(x.Debounce)
		case err != nil:
			x.fail(c.Rel, kernel.NewPrompt, err, rep)
		default:
			reqs, rels = append(reqs, req), append(rels, c.Rel)
		}
	}
	if len(reqs) == 0 {
		return
	}
	refused, _, err := target.Scheduler.TakePrompts(ctx, reqs)
	if err != nil { // it stays a new prompt, and the next pass tries again
		rep.Left = append(rep.Left, Left{target.Root, kernel.Said(err)})
		return
	}
	for i, req := range reqs {
		switch why := refused[i]; {
		case errors.Is(why, errNotOurs):
		case errors.As(why, new(*unreadPrompt)): // it stays a new prompt, too
			rep.Left = append(rep.Left, Left{rels[i], kernel.Said(why)})
		case why != nil:
			x.fail(rels[i], kernel.NewPrompt, why, rep)
		default:
			rep.Taken = append(rep.Taken, Taken{rels[i], req.ID, req.Run, target.Root})
		}
	}
}

// request makes the run of a prompt. The error is errVanished if the file was changed or replaced since it was listed:
// it may be half written.
func (x *Inbox) request(ctx context.Context, c placed) (PromptRequest, error) {
	text, file, err := x.Tree.Read(c.Rel, kernel.NewPrompt)
	if errors.Is(err, iofs.ErrNotExist) || err == nil && !file.Same(c.PromptFile) {
		return PromptRequest{}, errVanished
	}
	if err != nil {
		return PromptRequest{}, err
	}
	req, err := x.requestOf(ctx, c, text)
	if err != nil && req.Still() != nil {
		err = errVanished
	}
	return req, err
}

// requestOf makes the run of a prompt with a text. If that fails, the request has Still alone.
func (x *Inbox) requestOf(ctx context.Context, c placed, text string) (PromptRequest, error) {
	req := PromptRequest{Still: func() error {
		now, file, err := x.Tree.Read(c.Rel, kernel.NewPrompt)
		switch {
		case errors.Is(err, iofs.ErrNotExist), err == nil && (now != text || !file.Same(c.PromptFile)):
			return errNotOurs
		case err != nil:
			return &unreadPrompt{err}
		}
		return nil
	}}
	front, body, err := x.Parse(text)
	if err == nil {
		err = front.For(c.place)
	}
	if err != nil {
		return req, err
	}
	p := Prompt{Front: front, Body: body, ID: front.Job, Record: kernel.Prompt{
		Owner: c.place.Owner, Repository: c.place.Repository, Branch: c.place.Branch,
		File: x.Tree.File(c.Rel, kernel.RunningPrompt), Rel: c.Rel, Reason: "new_prompt", Archive: x.Archive,
		SHA256: sum(text), Inode: c.Inode, Claimed: x.Now(),
	}}
	if p.ID == "" {
		p.ID = c.target.Scheduler.NewID()
	}
	req.ID, req.File = p.ID, p.Record.File
	req.RunRequest, err = c.target.Prepare(ctx, p)
	return req, err
}

// sum returns the digest of a prompt's content, as records have it.
func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// PromptRequest is the run of a prompt.
type PromptRequest struct {
	RunRequest
	ID    kernel.JobID // of the job that stands for the prompt
	File  string       // the path that the prompt is to be renamed to
	Still func() error // errNotOurs if the file is not the one that was read any more, or has another text; an error if that cannot be read
}

// errVanished says that somebody removed or changed the prompt before it was enqueued.
var errVanished = errors.New("it was removed or changed while it was read")

// unreadPrompt says why a prompt could not be read again before it was enqueued.
type unreadPrompt struct{ err error }

func (e *unreadPrompt) Error() string { return e.err.Error() }
func (e *unreadPrompt) Unwrap() error { return e.err }

// errNotOurs says that another process has taken the prompt.
var errNotOurs = errors.New("another process has it")

// taken returns the error for a prompt with a job id that another job has.
func taken(id kernel.JobID) error {
	return fmt.Errorf("the front matter's job_id %s is taken, as that of a copy is: remove it for a job of its own: %w", id, kernel.ErrConflict)
}

// TakePrompts enqueues the runs of new prompts, independently of each other,
// ticks, and renames the prompts to running. The commit that makes a prompt's
// job is its claim. A prompt is refused with errNotOurs if a job holds its file
// name or the file is not as it was read: another process took it, it has to wait
// for a prompt of the same name, or somebody is writing it.
func (s *Scheduler) TakePrompts(ctx context.Context, reqs []PromptRequest) (refused []error, rep Report, err error) {
	scope := kernel.Scope{}
	for _, r := range reqs {
		jobs, _ := r.jobs()
		more := history.ScopeOf(jobs)
		scope.Jobs, scope.Artifacts = append(append(scope.Jobs, more.Jobs...), r.ID), append(scope.Artifacts, more.Artifacts...)
	}
	rep, err = s.transact(ctx, scope, verb{decide: func(snap *kernel.Snapshot) (_ kernel.Plan, asked []history.Verb, _ error) {
		refused = make([]error, len(reqs))
		have, d := map[string]bool{}, kernel.NewDraft(snap)
		for _, j := range snap.Jobs() {
			if j.HoldsPrompt() {
				have[j.Spec.Prompt.File] = true
			}
		}
		for i, r := range reqs {
			if have[r.File] {
				refused[i] = errNotOurs
				continue
			}
			if refused[i] = r.Still(); refused[i] != nil {
				continue
			}
			if d.Snapshot().Job(r.ID) != nil {
				refused[i] = taken(r.ID)
				continue
			}
			jobs := r.Enqueued()
			p, err := kernel.Enqueue(d.Snapshot(), jobs)
			if err != nil {
				refused[i] = err
				continue
			}
			have[r.File] = true
			d.Add(kernel.NewPlan(kernel.CreateRun{Run: r.Run, Manifest: r.Manifest}))
			d.Add(p)
			asked = append(asked, history.Enqueue{Jobs: jobs})
		}
		return d.Plan(), asked, nil
	}})
	return refused, rep, err
}

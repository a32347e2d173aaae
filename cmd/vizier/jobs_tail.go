package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type tailCmd struct {
	Job    string `arg:"" help:"The job, or the run: its number, such as 12 or 14/NODE, its name, its id or the beginning of it, or @last."`
	Stream string `enum:"stdout,stderr,both" default:"both" placeholder:"stdout|stderr|both" help:"Which output to print; both puts the stream's name before each line."`
	Follow bool   `help:"Go on as more is written, until the job has ended."`
}

type attachCmd struct {
	Job string `arg:"" help:"The job, or the run: its number, such as 12 or 14/NODE, its name, its id or the beginning of it, or @last."`
}

func (*attachCmd) Help() string { return "The same as `vizier jobs tail --stream both --follow`." }

// Run follows both streams.
func (a *attachCmd) Run(c *call) error {
	return (&tailCmd{Job: a.Job, Stream: "both", Follow: true}).Run(c)
}

// Run prints the output. However the job ends, following it to its end is a
// success.
func (t *tailCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	if err := r.follow(c.ctx, []string{t.Job}); err != nil {
		return err
	}
	_, targets, err := r.Scheduler.Targets(c.ctx, []string{t.Job})
	if err != nil {
		return err
	}
	if targets[0].Whole && len(targets[0].Jobs) > 1 {
		return t.whole(c, r, targets[0])
	}
	snap, id, err := c.settledJob(r, t.Job)
	if err != nil {
		return err
	}
	if at := snap.Job(id).State.Removed; !at.IsZero() {
		c.ui.warn("the output of job %s was removed at %s: it was transient, and nobody needs it any more", id, at.Format(time.RFC3339))
	}
	var streams []*stream
	switch t.Stream {
	case "both":
		for _, name := range []string{"stdout", "stderr"} {
			streams = append(streams, r.stream(id, name, "["+name+"] "))
		}
	default:
		streams = append(streams, r.stream(id, t.Stream, ""))
	}
	if t.Follow {
		var said *reported
		if t.Stream == "both" {
			said = &reported{}
		}
		err = c.follow(r, id, streams, said)
	} else {
		_, err = c.copyAll(streams)
	}
	for _, s := range streams {
		err = errors.Join(err, s.end(c.ui.logs()))
	}
	return err
}

// whole prints the output of all jobs of a run, each line with its job in front.
func (t *tailCmd) whole(c *call, r *repo, run view.Target) error {
	f := &runFollower{r: r, run: run.Run(), print: true, short: c.ui.refs.short, status: map[kernel.JobID]kernel.Status{}}
	for _, j := range run.Jobs {
		f.add(j.ID)
	}
	if t.Stream != "both" {
		f.streams = slices.DeleteFunc(f.streams, func(s *stream) bool { return !strings.HasSuffix(s.prefix, "/"+t.Stream+"] ") })
	}
	if !t.Follow {
		return f.drain(c)
	}
	_, err := f.follow(c)
	return err
}

func (c *call) copyAll(streams []*stream) (progress bool, err error) {
	for _, s := range streams {
		more, err := s.copyTo(c.ctx, c.ui.logs())
		if err != nil {
			return progress, fmt.Errorf("read log: %w", err)
		}
		progress = progress || more
	}
	return progress, nil
}

// follow prints until the job is terminal and nothing more was written since
// it was seen to be. An interrupt detaches: the job goes on.
func (c *call) follow(r *repo, id kernel.JobID, streams []*stream, said *reported) error {
	var p pace
	var t ticker
	ended := false
	for {
		progress, err := c.copyAll(streams)
		if err != nil || ended {
			return err
		}
		if err := t.tick(c.ctx, r); err != nil {
			return detached(c, id, err)
		}
		a := kernel.AttemptID{Job: id}
		if ended, a.N, err = r.terminal(c, id); err != nil {
			return detached(c, id, err)
		}
		if said != nil && r.Progress != nil && a.N > 0 {
			said.tell(c, a, r.Progress(a))
		}
		if ended {
			continue
		}
		if err := p.wait(c.ctx, progress); err != nil {
			return detached(c, id, err)
		}
	}
}

// detached says, when it was an interrupt that ended the following, that it
// did not end the job.
func detached(c *call, id kernel.JobID, err error) error {
	if c.ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("detached: job %s goes on: %w", id, context.Canceled)
}

// reported is what a follower has told of a job's progress.
type reported struct {
	attempt kernel.AttemptID
	line    string
	wrong   bool
}

// tell prints what an attempt says once it is another than before, and once that
// something of it makes no sense.
func (s *reported) tell(c *call, a kernel.AttemptID, p view.Progress) {
	if a != s.attempt {
		*s = reported{attempt: a}
	}
	if line := p.String(); line != "" && line != s.line {
		s.line = line
		c.ui.print("[progress] " + line)
	}
	if p.Wrong != "" && !s.wrong {
		s.wrong = true
		c.ui.warn("job %s: %s", a.Job, p.Wrong)
	}
}

// terminal reports that a job has ended, and its latest attempt. One that vanished has, too.
func (r *repo) terminal(c *call, id kernel.JobID) (ended bool, attempt int, err error) {
	_, err = r.look(c.ctx, []kernel.JobID{id}, func(snap *kernel.Snapshot) {
		j := snap.Job(id)
		if ended = j == nil || j.State.Status.Terminal() && snap.Pending(id) == ""; j != nil {
			attempt = j.State.Attempt
		}
	})
	return ended, attempt, err
}

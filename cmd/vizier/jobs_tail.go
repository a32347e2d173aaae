package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type tailCmd struct {
	Jobs       []string `arg:"" name:"job" help:"The jobs, or runs: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	Stream     string   `enum:"stdout,stderr,both" default:"both" placeholder:"stdout|stderr|both" help:"Which output to print; both puts the stream's name before each line."`
	Follow     bool     `short:"f" help:"Follow the output until the job or the run has ended."`
	Lines      *int     `short:"n" placeholder:"N" help:"Only the last N lines."`
	Timestamps bool     `help:"Print the time of each line before it; - if it is not on record."`
	Grep       string   `placeholder:"REGEXP" help:"Only lines that match this regular expression (RE2)."`
	Failed     bool     `help:"For a run: only failed jobs."`
	ETA        bool     `kong:"-"` // first print when it is expected to end, if that is known
}

func (*tailCmd) Help() string {
	return "Lines of both streams come in the order in which they were written; for a run, each has its node in front."
}

type attachCmd struct {
	Jobs []string `arg:"" name:"job" help:"The jobs, or runs: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
}

func (*attachCmd) Help() string { return "The same as `vizier tail --stream both --follow`." }

// Run follows both streams.
func (a *attachCmd) Run(c *call) error {
	return (&tailCmd{Jobs: a.Jobs, Stream: "both", Follow: true, ETA: true}).Run(c)
}

// tellETAs prints when the targets, which refs name, are expected to end, as far as that is known.
func (c *call) tellETAs(r *repo, refs []string, targets []view.Target) error {
	snap, err := r.Scheduler.Records(c.ctx, kernel.Scope{})
	if err != nil {
		return err
	}
	etas, err := r.Scheduler.ETAs(c.ctx, snap)
	if err != nil {
		return err
	}
	for i, t := range targets {
		var jobs []*kernel.Job
		for _, j := range t.Jobs {
			if now := snap.Job(j.ID); now != nil {
				jobs = append(jobs, now)
			}
		}
		if eta := etaOf(jobs, etas); eta != nil {
			c.ui.warn("%s: %s", refs[i], eta.In(snap.Now()))
		}
	}
	return nil
}

// Run prints the output. It succeeds however the job ends.
func (t *tailCmd) Run(c *call) error {
	if err := t.print(c); err != nil || !t.Follow {
		return err
	}
	return c.away() // a job that was removed with its store has ended, too
}

func (t *tailCmd) print(c *call) error {
	p, err := t.printer(c)
	if err != nil {
		return usageError(err)
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	if err := r.follow(c.ctx, t.Jobs); err != nil {
		return err
	}
	_, targets, err := r.Scheduler.Targets(c.ctx, t.Jobs)
	if err == nil && t.ETA {
		err = c.tellETAs(r, t.Jobs, targets)
	}
	switch {
	case err != nil:
		return err
	case len(targets) > 1:
		return t.several(c, r, p, targets)
	case targets[0].Whole && len(targets[0].Jobs) > 1:
		return t.whole(c, r, p, targets[0].Jobs, targets[0].Run(), targets[0].Jobs[0].Number)
	}
	snap, id, err := c.settledJob(r, t.Jobs[0])
	if err != nil {
		return err
	}
	j := snap.Job(id)
	switch {
	case t.Failed && !view.EndedBadly(j):
		c.ui.warn("job %s has not failed: it is %s", id, j.State.Status)
		return nil
	case !j.State.Removed.IsZero():
		c.ui.warn("the output of job %s was removed at %s: the job is transient, and no job needs it any more", id, j.State.Removed.Format(time.RFC3339))
	}
	gone := c.warnMissing(r, j, t.Stream)
	if p.plain() && p.stream != "both" {
		return t.bytes(c, r, j)
	}
	lines := p.lines(r, id)
	print := func(l joblog.Line) error { return p.line("", l) }
	if !t.Follow {
		err = t.once(p, func() error { return p.printAll(c.ctx, r, []loggedJob{{id: id, started: j.State.Started}}) })
		if err == nil && !p.any && !gone && view.EndedBadly(j) { // probably the user wants to know what went wrong
			c.ui.warn("job %s printed nothing: `vizier show %s` says how it ended", id, id)
		}
	} else {
		var said *reported
		if t.Stream == "both" {
			said = &reported{}
		}
		late := earlier{r, id, begins(j), "stdout", lines.Met, func(ctx context.Context, open opener) error { return whole(ctx, open, print) }}
		err = c.follow(&late, p, func(all bool) (bool, error) { return lines.Read(c.ctx, all, print) }, said)
		err = errors.Join(err, lines.End(print))
	}
	return err
}

// warnMissing warns that a job's output may not be all that it wrote to a stream or to both, and reports that a log is
// gone: each command that was started has both.
func (c *call) warnMissing(r *repo, j *kernel.Job, stream string) (gone bool) {
	if strings.Contains(j.State.Reason, joblog.Missing) {
		c.ui.warn("job %s: %s", j.ID, joblog.Missing)
	}
	if st := &j.State; !st.Status.Terminal() || st.Place.PID == 0 || !st.Removed.IsZero() {
		return false
	}
	for _, name := range []string{"stdout", "stderr"} {
		if stream != name && stream != "both" {
			continue
		}
		log, err := r.Logs.OpenLog(j.ID, name)
		if err == nil {
			log.Close()
		}
		if errors.Is(err, os.ErrNotExist) {
			gone = true
			c.ui.warn("%s.log of job %s is gone, and what it printed there with it", name, j.ID)
		}
	}
	return gone
}

// printer returns the printer that the flags ask for.
func (t *tailCmd) printer(c *call) (*linePrinter, error) {
	p := &linePrinter{out: c.ui.logs(), stream: t.Stream, stamps: t.Timestamps, zone: c.ui.zone}
	if t.Lines != nil {
		p.most, p.none = *t.Lines, *t.Lines == 0
	}
	if t.Failed && t.Follow {
		return nil, errors.New("--failed and --follow exclude each other: a failed job prints nothing more")
	}
	if t.Grep != "" {
		var err error
		if p.grep, err = regexp.Compile(t.Grep); err != nil {
			return nil, fmt.Errorf("--grep: %w", err)
		}
	}
	return p, nil
}

// plain reports whether every line is printed without additions.
func (p *linePrinter) plain() bool { return p.grep == nil && !p.stamps && p.most == 0 && !p.none }

// bytes copies one stream verbatim.
func (t *tailCmd) bytes(c *call, r *repo, j *kernel.Job) error {
	f := joblog.NewFile(func() (*os.File, error) { return r.Logs.OpenLog(j.ID, t.Stream) })
	defer f.Close()
	read := func(bool) (bool, error) { return f.CopyTo(c.ctx, c.ui.logs()) }
	if !t.Follow {
		_, err := read(true)
		return wrongLog(err)
	}
	late := earlier{r, j.ID, begins(j), t.Stream, f.Met, func(ctx context.Context, open opener) error {
		one := joblog.NewFile(func() (*os.File, error) { return open(t.Stream) })
		defer one.Close()
		_, err := one.CopyTo(ctx, c.ui.logs())
		return err
	}}
	return c.follow(&late, &linePrinter{out: c.ui.logs()}, read, nil)
}

// once prints the current output.
func (t *tailCmd) once(p *linePrinter, all func() error) error {
	if err := all(); err != nil {
		return err
	}
	return p.flow()
}

// several prints the output of jobs and of runs, each line preceded by the
// job's name.
func (t *tailCmd) several(c *call, r *repo, p *linePrinter, targets []view.Target) error {
	var jobs []*kernel.Job
	for _, target := range targets {
		for _, j := range target.Jobs {
			if !slices.Contains(jobs, j) {
				jobs = append(jobs, j)
			}
		}
	}
	return t.whole(c, r, p, jobs, "", noNumber)
}

// noNumber is not the number of any job.
const noNumber = ^kernel.Number(0)

// whole prints the output of jobs, each line preceded by the job's name within
// its run or batch. When following a run, it includes jobs that join the run
// later.
func (t *tailCmd) whole(c *call, r *repo, p *linePrinter, jobs []*kernel.Job, run kernel.RunID, number kernel.Number) error {
	if t.Failed {
		jobs = slices.DeleteFunc(slices.Clone(jobs), func(j *kernel.Job) bool { return !view.EndedBadly(j) })
		if len(jobs) == 0 {
			c.ui.warn("nothing of %s has failed", strings.Join(t.Jobs, ", "))
		}
	}
	if !t.Follow {
		var of []loggedJob
		for _, j := range jobs {
			if c.warnMissing(r, j, t.Stream); j.State.Attempt > 0 {
				of = append(of, loggedJob{inRunName(j, number), j.ID, j.State.Started})
			}
		}
		return t.once(p, func() error { return p.printAll(c.ctx, r, of) })
	}
	f := newRunFollower(r, app.RunRequest{Run: run}, p, c.ui.refs.short)
	f.number, f.output = number, true
	for _, j := range jobs {
		f.add(j, begins(j))
	}
	_, err := f.follow(c)
	return err
}

// inRunName returns a job's name in the output of the run or batch with a number:
// its part there. Other jobs have their reference or, without one, their node or id.
func inRunName(j *kernel.Job, run kernel.Number) string {
	switch {
	case j.Part != "" && j.Number == run:
		return j.Part
	case j.Number != 0:
		return j.Ref()
	case j.Spec.Origin.Node != "":
		return j.Spec.Origin.Node
	}
	return string(j.ID)
}

func wrongLog(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read log: %w", err)
}

// follow prints until the job is terminal and everything it wrote is printed.
// An interrupt only ends the following, not the job.
func (c *call) follow(late *earlier, p *linePrinter, read func(all bool) (bool, error), said *reported) error {
	r, id := late.r, late.id
	c.staysInFront()
	c.leavesWithReader()
	var pc pace
	var t ticker
	var d deadlock
	defer d.release()
	ended := false
	var waits persons
	a, changed := kernel.AttemptID{Job: id}, news{r: r}
	for looks := 1; ; looks++ {
		err := t.tick(c.ctx, r)
		if err == nil && changed.any() { // the record is read first, so that what the job wrote is printed before its end
			if ended, a.N, err = r.terminal(c, id, &waits); err == nil {
				waits.tell(c)
				err = late.before(c.ctx, a.N)
			}
		}
		if err != nil {
			return detached(c, id, err)
		}
		progress, err := read(ended)
		if err == nil && (looks == 2 || ended) {
			err = p.flow()
		}
		if err != nil {
			return detached(c, id, wrongLog(err))
		}
		if said != nil && r.Progress != nil && a.N > 0 {
			said.tell(c, a, r.Progress(a))
		}
		if ended {
			return nil
		}
		if err := d.look(c, c.ctx, r, []kernel.JobID{id}); err != nil {
			return detached(c, id, err)
		}
		if err := pc.wait(c.ctx, progress || looks == 1); err != nil {
			return detached(c, id, err)
		}
	}
}

// detached returns an error that says that the job goes on, if an interrupt
// ended the following.
func detached(c *call, id kernel.JobID, err error) error {
	if c.ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("detached: job %s continues: %w", id, context.Canceled)
}

// reported is the progress of a job that was already printed.
type reported struct {
	attempt kernel.AttemptID
	line    string
	wrong   bool
}

// tell prints the progress of an attempt if it has changed, and once that a
// report is malformed.
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

// terminal reports whether a job has ended, and returns its latest attempt. A
// job that does not exist any more has ended. If another one waits for a person, or sleeps, waits notes it.
func (r *repo) terminal(c *call, id kernel.JobID, waits *persons) (ended bool, attempt int, err error) {
	_, err = r.look(c.ctx, []kernel.JobID{id}, func(snap *kernel.Snapshot) {
		j := snap.Job(id)
		if ended = j == nil || j.State.Status.Terminal() && snap.Pending(id) == ""; j != nil {
			attempt = j.State.Attempt
		}
		if why := snap.Asleep(id)[id]; why != "" {
			waits.add(id, "sleeps: "+why)
		} else if !ended {
			waits.note(snap, j)
		}
	})
	return ended, attempt, err
}

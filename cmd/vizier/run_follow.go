package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// terminalRun is `run --follow --format json`.
type terminalRun struct {
	Outcome  string `json:"outcome"` // workflow_run_terminal
	State    string `json:"terminal_state"`
	ExitCode int    `json:"exit_code"`
	runIdentity
	endedAs
	Agents  *view.AgentTotal `json:"agent_total,omitempty"`
	Cleanup string           `json:"ephemeral_cleanup,omitempty"` // of an ephemeral run: completed or deferred
}

// terminalRuns is `run --repeat N --follow --format json`: the runs up to the
// first that did not succeed.
type terminalRuns struct {
	Outcome  string          `json:"outcome"` // workflow_runs_terminal
	Repeat   int             `json:"repeat"`
	State    string          `json:"terminal_state"`
	ExitCode int             `json:"exit_code"`
	Runs     []indexedEnding `json:"runs"`
}

type indexedEnding struct {
	Index int `json:"index"` // from 1
	terminalRun
}

// followRuns follows one run after the other and stops at the first one that
// does not succeed.
func (c *call) followRuns(r *repo, x *runCmd, ids []runIdentity, runs []app.RunRequest, held map[kernel.RunID]io.Closer) error {
	doc := terminalRuns{Outcome: "workflow_runs_terminal", Repeat: len(runs)}
	text := x.Format == "text" && !c.globals.Quiet
	for i, run := range runs {
		var p *linePrinter
		if text {
			p = &linePrinter{out: c.ui.logs(), stream: "both"}
		}
		f := newRunFollower(r, run, p, c.ui.refs.short)
		snap, err := f.follow(c)
		if err != nil {
			return err
		}
		one := terminalRun{Outcome: "workflow_run_terminal", runIdentity: ids[i]}
		one.endedAs, one.State, one.ExitCode = ended(snap, f.jobs)
		one.Refs = c.ui.refs.among(one.Roots, one.Succeeded, one.Failed, one.Blocked, one.Cancelled)
		one.Agents = view.TotalOf(f.known(snap))
		if hold := held[run.Run]; hold != nil {
			if one.Cleanup, err = c.tidied(r, f, hold); err != nil {
				return err
			}
		}
		doc.Runs = append(doc.Runs, indexedEnding{i + 1, one})
		doc.State, doc.ExitCode = one.State, one.ExitCode
		if text {
			c.ui.block(one.rows())
			f.reasons(c, snap)
		}
		if one.State == "blocked" {
			c.ui.warn("run reached a blocked terminal state")
		}
		if one.ExitCode != 0 {
			break
		}
	}
	if x.Format == "json" {
		var err error
		if x.single() {
			err = c.ui.json(doc.Runs[0].terminalRun)
		} else {
			err = c.ui.json(doc)
		}
		if err != nil {
			return err
		}
	}
	return exits(doc.ExitCode)
}

// tidied releases an ephemeral run, and returns whether its jobs are gone:
// completed or deferred. It says so if they wait for a person.
func (c *call) tidied(r *repo, f *runFollower, hold io.Closer) (string, error) {
	if err := hold.Close(); err != nil {
		return "", err
	}
	rep, err := r.Scheduler.Tick(c.ctx)
	if err != nil {
		return "", err
	}
	c.report(rep)
	snap, err := r.Scheduler.Records(c.ctx, app.Only(f.jobs))
	if err != nil {
		return "", err
	}
	left := f.known(snap)
	if len(left) == 0 {
		return "completed", nil
	}
	if slices.ContainsFunc(left, func(j *kernel.Job) bool { return view.NeedsYou(snap, j) }) {
		c.ui.warn("the run needs you, so it is kept until it has gone on to its end, or you `vizier clean %s`", f.short(string(f.run)))
	}
	return "deferred", nil
}

func (t terminalRun) rows() []row {
	rows := append([]row{{"Outcome", "Workflow run " + t.State}}, t.runIdentity.rows()...)
	rows = append(rows, row{"Exit", strconv.Itoa(t.ExitCode)}, row{"Usage", t.Agents.String()})
	if t.Cleanup != "" {
		rows = append(rows, row{"Cleanup", t.Cleanup})
	}
	for _, l := range []struct {
		label string
		jobs  []kernel.JobID
	}{{"Succeeded", t.Succeeded}, {"Blocked", t.Blocked}, {"Failed", t.Failed}, {"Cancelled", t.Cancelled}} {
		if len(l.jobs) > 0 {
			rows = append(rows, row{l.label, joined(l.jobs)})
		}
	}
	return rows
}

// runFollower prints what happens in a run. It only reads records that have changed.
type runFollower struct {
	r       *repo
	run     kernel.RunID // "": only these jobs are followed
	number  kernel.Number
	jobs    []kernel.JobID
	now     map[kernel.JobID]*kernel.Job // those on record, as last read
	changed news
	printer *linePrinter           // nil: nothing is printed
	output  bool                   // the output of jobs alone is asked for: into a file or a pipe, nothing else is printed
	short   func(id string) string // returns the reference of an id
	logs    []followedJob
	joined  map[kernel.JobID]bool          // the keys are those of jobs; false: not on record so far
	status  map[kernel.JobID]kernel.Status // as last printed
}

// followedJob is a job whose lines are printed with its name in front.
type followedJob struct {
	lines *joblog.Lines
	name  string
	id    kernel.JobID
	read  kernel.Revision // of its record when nothing was left to print; 0: something may be
	at    time.Time       // of that
	late  earlier
	whole int // the attempt whose logs were read to their end and then closed or packed: see runFollower.done
}

// newRunFollower returns a follower of a run, or of the jobs that are added to it. short returns the reference
// of an id, and p may be nil.
func newRunFollower(r *repo, run app.RunRequest, p *linePrinter, short func(id string) string) *runFollower {
	f := &runFollower{r: r, run: run.Run, changed: news{r: r}, printer: p, short: short,
		now: map[kernel.JobID]*kernel.Job{}, joined: map[kernel.JobID]bool{}, status: map[kernel.JobID]kernel.Status{}}
	for _, j := range run.Jobs {
		f.jobs, f.joined[j.ID] = append(f.jobs, j.ID), false
	}
	return f
}

// add follows j, from an attempt on.
func (f *runFollower) add(j *kernel.Job, from int) {
	if _, ours := f.joined[j.ID]; !ours {
		f.jobs = append(f.jobs, j.ID)
	}
	if f.printer != nil {
		lines, name := f.printer.lines(f.r, j.ID), inRunName(j, f.number)
		f.logs = append(f.logs, followedJob{lines: lines, name: name, id: j.ID,
			late: earlier{f.r, j.ID, from, "stdout", lines.Met, func(ctx context.Context, open opener) error {
				return whole(ctx, open, func(l joblog.Line) error { return f.printer.line(name, l) })
			}}})
	}
	f.joined[j.ID] = true
}

// look reads the records that may have changed, and adds jobs of the run that are new on record, including
// those that its jobs submitted. whole is a snapshot of all that is followed; nil: only what changed was read.
// If what was last read was the end, all are read once more.
func (f *runFollower) look(c *call) (whole *kernel.Snapshot, err error) {
	ids, all := f.changed.changed()
	if all = all || f.over(); all {
		ids = f.jobs
	}
	if !all && len(ids) == 0 {
		return nil, nil
	}
	scope := app.Only(ids)
	if all && f.run != "" {
		scope.Near = append(scope.Near, kernel.Near{Kind: kernel.Members, Run: f.run})
	}
	snap, err := f.r.Scheduler.Records(c.ctx, scope)
	if err != nil {
		return nil, err
	}
	c.knows(f.r, snap)
	for _, id := range ids {
		delete(f.now, id)
	}
	for _, j := range snap.Jobs() {
		joined, ours := f.joined[j.ID]
		if !ours && (f.run == "" || j.Spec.Origin.Run != f.run) {
			continue
		}
		if f.now[j.ID] = j; joined {
			continue
		}
		if f.number == 0 {
			f.number = j.Number
		}
		f.add(j, 1)
	}
	if all {
		whole = snap
	}
	return whole, nil
}

// read prints new output of the jobs that run, and of those that have changed.
func (f *runFollower) read(ctx context.Context) (any bool, err error) {
	for i := range f.logs {
		j, rev, ended := &f.logs[i], kernel.Revision(0), false
		if job := f.now[j.id]; job != nil && job.State.Status != kernel.Running {
			rev, ended = job.Rev, job.State.Status.Terminal()
		}
		const late = 5 * time.Second // a log may be seen late on a shared file system, or what a job left behind may write
		if rev != 0 && rev == j.read && time.Since(j.at) < late || f.done(j) {
			continue
		}
		more, err := f.print(ctx, j, ended)
		if err != nil {
			return any, err
		}
		if ended { // it may be packed, and unpacked for the next attempt, which makes another file of the log
			st := &f.now[j.id].State
			if j.late.next = st.Attempt + 1; time.Since(st.Finished) > late { // of many jobs, these are more open files than there may be
				if err := j.lines.End(func(l joblog.Line) error { return f.printer.line(j.name, l) }); err != nil {
					return any, err
				}
				j.whole = st.Attempt
			}
		}
		if any = any || more; more {
			rev = 0
		}
		j.read, j.at = rev, time.Now()
	}
	return any, nil
}

// done reports whether all of the latest attempt's output was printed before its logs were closed or packed. A packed
// log, and what a retry unpacks, is another file, which would count as the log of the next attempt.
func (f *runFollower) done(j *followedJob) bool {
	job := f.now[j.id]
	if job != nil && j.read != 0 && j.read == job.Rev && job.State.Status.Terminal() && f.r.Logs.Packed(j.id) != "" {
		j.whole = job.State.Attempt
	}
	return job != nil && j.whole > 0 && j.whole == job.State.Attempt
}

// print prints the output that j has by now, and with all also what is being written.
func (f *runFollower) print(ctx context.Context, j *followedJob, all bool) (more bool, err error) {
	if job := f.now[j.id]; job != nil {
		if err := j.late.before(ctx, job.State.Attempt); err != nil {
			return false, err
		}
	}
	more, err = j.lines.Read(ctx, all, func(l joblog.Line) error { return f.printer.line(j.name, l) })
	if err != nil {
		err = wrongLog(err)
	}
	return more, err
}

// known returns the jobs of the run that s contains.
func (f *runFollower) known(s *kernel.Snapshot) []*kernel.Job {
	var out []*kernel.Job
	for _, id := range f.jobs {
		if j := s.Job(id); j != nil {
			out = append(out, j)
		}
	}
	return out
}

// follow prints until the run has ended and everything it wrote is printed. An
// interrupt only ends the following, not the run.
func (f *runFollower) follow(c *call) (*kernel.Snapshot, error) {
	c.staysInFront()
	c.leavesWithReader()
	var p pace
	var t ticker
	var d deadlock
	defer d.release()
	for looks := 1; ; looks++ {
		err := t.tick(c.ctx, f.r)
		var whole *kernel.Snapshot
		if err == nil {
			whole, err = f.look(c)
		}
		progress := false
		if err == nil {
			err = d.look(c, c.ctx, f.r, slices.DeleteFunc(slices.Clone(f.jobs), func(id kernel.JobID) bool {
				j := f.now[id]
				return j == nil || !j.Open()
			}))
		}
		if err == nil { // the records were read first, so that what a job wrote is printed before its end
			progress, err = f.read(c.ctx)
		}
		if err == nil && looks == 2 && f.printer != nil {
			err = f.printer.flow()
		}
		if err == nil {
			over := whole != nil && f.over()
			if over {
				err = f.drain(c.ctx)
			}
			progress = f.changes(c) || progress
			if over && err == nil {
				return whole, nil
			}
		}
		if err == nil {
			const many, atOnce = 16, 100 * time.Millisecond
			if progress && len(f.jobs) > many { // what they all do next is read at once
				err = pause(c.ctx, atOnce)
			} else {
				err = p.wait(c.ctx, progress)
			}
		}
		if err == nil {
			continue
		}
		if c.ctx.Err() != nil && errors.Is(err, context.Canceled) {
			if f.run == "" {
				return nil, fmt.Errorf("detached: the jobs continue: %w", context.Canceled)
			}
			return nil, fmt.Errorf("detached: run %s continues; `vizier wait %s` waits for it: %w", f.run, f.run, context.Canceled)
		}
		return nil, err
	}
}

// over reports whether nothing in the run will go on by itself: every job has
// ended, or can only be woken by a route.
func (f *runFollower) over() bool {
	for _, j := range f.now {
		if j.Open() && j.State.Status != kernel.Unscheduled {
			return false
		}
	}
	return true
}

// drain prints the rest of the logs.
func (f *runFollower) drain(ctx context.Context) error {
	if f.printer == nil {
		return nil
	}
	for i := range f.logs {
		if j := &f.logs[i]; !f.done(j) {
			if _, err := f.print(ctx, j, true); err != nil {
				return err
			}
		}
	}
	for _, j := range f.logs {
		if err := j.lines.End(func(l joblog.Line) error { return f.printer.line(j.name, l) }); err != nil {
			return err
		}
	}
	return f.printer.flow()
}

// changes prints the jobs whose status has changed, in schedule order.
func (f *runFollower) changes(c *call) bool {
	changed := false
	for _, id := range f.jobs {
		j := f.now[id]
		if j == nil {
			continue
		}
		if before, told := f.status[id]; told && before == j.State.Status {
			continue
		}
		f.status[id] = j.State.Status
		changed = true
		if f.printer != nil && j.State.Status != kernel.Unscheduled {
			text := fmt.Sprintf("%s => %s", id, c.ui.paint(j.State.Status.String(), j.State.Status.String()))
			if f.run != "" {
				text = fmt.Sprintf("[run:%s] %s (%s)", f.short(string(f.run)), text, j.Spec.Origin.Node)
			}
			if f.output && !c.ui.outTTY {
				c.ui.warn("%s", text)
			} else {
				c.ui.print(text)
			}
		}
	}
	return changed
}

// reasons prints why jobs did not succeed, except for reasons that lie in
// another job of the list.
func (f *runFollower) reasons(c *call, s *kernel.Snapshot) {
	for _, id := range f.jobs {
		j := s.Job(id)
		if j == nil || !j.State.Status.Terminal() || j.State.Status == kernel.Succeeded {
			continue
		}
		why := j.State.Reason
		if why == "" {
			why = j.State.Wait.Detail
		}
		if strings.HasPrefix(why, "dependency failed for job ") || strings.HasPrefix(why, "held back by the failure of job ") {
			continue
		}
		c.ui.warn("%s (%s) %s: %s", id, j.Spec.Origin.Node, j.State.Status, why)
	}
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type runCmd struct {
	Flow              string   `arg:"" help:"The template: a name in .vizier/workflows or [commands], a path, or ID@VERSION."`
	Inputs            []string `arg:"" optional:"" name:"input" help:"The template's positional inputs."`
	Set               []string `sep:"none" placeholder:"KEY=VALUE" help:"A parameter of the template; --KEY VALUE does the same; repeatable."`
	After             []string `sep:"none" placeholder:"JOB|run:RUN" help:"Start after this job, or the last jobs of this run, have succeeded; with :any, once they have ended in any way; repeatable."`
	RequireApproval   bool     `xor:"approval" help:"Start only after a person has approved the first jobs."`
	ApprovalTimeout   string   `type:"duration" placeholder:"DURATION" help:"With --require-approval: how long the first jobs wait for approval, such as 4h, before they are blocked."`
	NoRequireApproval bool     `name:"no-require-approval" xor:"approval" help:"Start without the approval that the template asks for."`
	Follow            bool     `help:"Print the jobs' output until the run has ended, and exit with its result."`
	Check             bool     `help:"Only check the template and its input; write nothing."`
	Repeat            int      `default:"1" placeholder:"N" help:"Enqueue N runs, one after another."`
	SpecDir           *string  `placeholder:"DIR" help:"Enqueue a run for each .md file below DIR, one after another."`
	Ephemeral         bool     `help:"When the run is over, remove everything that was made for it: jobs, worktrees, draft branches."`
	Format            string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
	TemplateHelp      bool     `hidden:""`
}

func (*runCmd) Help() string {
	return "Every flag that is not listed here is a parameter of the template: `--spec-file X` is `--set spec_file=X`. " +
		"`vizier run FLOW --help` lists them. Exits 0; with --follow, 1 if jobs failed or were cancelled and 10 if some are blocked."
}

// enqueuedRun is `run --format json`.
type enqueuedRun struct {
	Outcome string `json:"outcome"` // workflow_run_enqueued
	runIdentity
	Next nextCommands `json:"next"`
}

// runIdentity holds the fields that every document about a run has.
type runIdentity struct {
	enqueue.Spec
	Run kernel.RunID `json:"run_id"`
	view.Reference
	Selector string         `json:"workflow_template_selector"`
	Template string         `json:"workflow_template_id"`
	Version  string         `json:"workflow_template_version"`
	Roots    []kernel.JobID `json:"root_job_ids"`

	Refs map[kernel.JobID]string `json:"refs,omitempty"` // references of the listed jobs

	Ephemeral bool `json:"ephemeral,omitempty"`
}

type nextCommands struct {
	Schedule string `json:"schedule"`
	Show     string `json:"show"`
	Tail     string `json:"tail"`
}

func nextFor(id runIdentity) nextCommands {
	if len(id.Roots) == 0 {
		return nextCommands{}
	}
	root, run := cmp.Or(id.Refs[id.Roots[0]], string(id.Roots[0])), cmp.Or(id.Ref, string(id.Run))
	return nextCommands{"vizier jobs schedule --job " + root, "vizier show " + run, "vizier tail " + run + " --follow"}
}

// Run enqueues the template.
func (x *runCmd) Run(c *call) error {
	if err := x.conflicts(); err != nil {
		return usageError(err)
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	if x.TemplateHelp {
		return c.flowHelp(r, x.Flow)
	}
	flows, err := x.flows(c, r)
	if err != nil {
		return err
	}
	for _, w := range flows[0].Parsed.Warnings() { // the flows differ only in their parameters
		c.ui.warn("warning: %s", w)
	}
	if x.Check {
		return x.check(c, r, flows)
	}
	if err := c.mayEnqueue(); err != nil {
		return err
	}
	o := enqueue.RunOptions{After: x.After, Ephemeral: x.Ephemeral}
	switch {
	case x.RequireApproval:
		a := kernel.Require(r.Scheduler.Now(), c.actor())
		o.Approval = &a
	case x.NoRequireApproval:
		o.Approval = &kernel.Approval{}
	}
	if o.ApprovalTimeout, err = enqueue.ApprovalTimeout(x.ApprovalTimeout, x.RequireApproval, "--require-approval"); err != nil {
		return err
	}
	runs, err := c.builder(r).Runs(c.ctx, flows, o)
	if err != nil {
		return c.hinted(err)
	}
	held := map[kernel.RunID]io.Closer{}
	if x.Follow {
		c.staysInFront()
	}
	for _, run := range runs {
		if x.Follow && x.Ephemeral { // before the run can end
			if held[run.Run], err = r.FollowRun(run.Run); err != nil {
				return err
			}
			defer held[run.Run].Close()
		}
	}
	rep, err := r.Scheduler.EnqueueRun(c.ctx, runs...)
	if err != nil {
		return err
	}
	c.report(rep.Report)
	ids := make([]runIdentity, len(runs))
	for i, run := range runs {
		f := flows[i]
		ids[i] = runIdentity{f.Spec, run.Run, c.ui.refs.of(string(run.Run)), f.Choice.Selector, f.Source.ID.Value, f.Source.Version.Value, listed(rep.Roots[i]), c.ui.refs.among(rep.Roots[i]), x.Ephemeral}
	}
	quiet := c.globals.Quiet && x.Format == "text"
	if quiet {
		for _, id := range ids {
			c.ui.print(id.Ref)
		}
	}
	switch {
	case x.Follow:
		return c.followRuns(r, x, ids, runs, held)
	case quiet:
		return nil
	}
	return x.answer(c, ids)
}

// single reports whether a single run is asked for, which has documents of its
// own.
func (x *runCmd) single() bool { return x.Repeat == 1 && x.SpecDir == nil }

// mostRuns is how many runs --repeat queues at most. They are written under one lock, in seconds, and a larger
// number is a slip of the finger.
const mostRuns = 10_000

func (x *runCmd) conflicts() error {
	switch {
	case x.Repeat < 1:
		return fmt.Errorf("--repeat %d: expected 1 or more", x.Repeat)
	case x.Repeat > mostRuns:
		return fmt.Errorf("--repeat %d: expected %d at most; more can be queued with another command, `--after` the last run", x.Repeat, mostRuns)
	case x.SpecDir != nil && (*x.SpecDir == "" || x.Repeat > 1):
		return errors.New("--spec-dir needs a directory, and excludes --repeat")
	case x.Check && (len(x.After) > 0 || x.RequireApproval || x.NoRequireApproval || x.Follow || x.Ephemeral || x.Repeat > 1):
		return errors.New("--check writes nothing: leave out --after, --require-approval, --no-require-approval, --follow, --ephemeral, --repeat")
	}
	return nil
}

// flows returns the flows of the runs that the command asks for. All are read
// and checked before any is enqueued.
func (x *runCmd) flows(c *call, r *repo) ([]*enqueue.Flow, error) {
	if x.SpecDir == nil {
		f, err := c.flow(r, x.Flow, x.Inputs, x.Set)
		return slices.Repeat([]*enqueue.Flow{f}, x.Repeat), err
	}
	given, err := settings(x.Set)
	if err != nil {
		return nil, err
	}
	flows, err := c.builder(r).FlowsOf(x.Flow, *x.SpecDir, x.Inputs, given)
	return flows, c.hinted(err)
}

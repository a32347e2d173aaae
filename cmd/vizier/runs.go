package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type runsCmd struct {
	Most   int    `name:"most" short:"n" default:"20" placeholder:"COUNT" help:"Show only the newest COUNT, by default 20; 0: all."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

// runsDoc is `runs --format json`: docs/schemas/runs.schema.json.
type runsDoc struct {
	Runs []view.Run `json:"runs"` // newest first
	More bool       `json:"more,omitempty"`
}

// Run lists the runs.
func (x *runsCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	snap, err := c.settled(r, func() (*kernel.Snapshot, error) {
		scope := kernel.Scope{All: true}
		if x.Most > 0 {
			scope.Near = []kernel.Near{{Kind: kernel.NewestRuns, Most: x.Most + 1}}
		}
		return r.Scheduler.Records(c.ctx, scope)
	})
	if err != nil {
		return err
	}
	runs := view.RunsOf(snap)
	more := x.Most > 0 && len(runs) > x.Most
	if more {
		runs = runs[:x.Most]
	}
	if x.Format == "json" {
		return c.ui.json(runsDoc{runs, more})
	}
	if c.globals.Quiet {
		for _, run := range runs {
			c.ui.verbatim(cmp.Or(run.Ref, string(run.Run)) + "\n")
		}
		return nil
	}
	if len(runs) == 0 {
		c.ui.print("No runs.")
		return nil
	}
	cells := [][]string{{"#", "name", "status", "done", "since", "age"}}
	for _, run := range runs {
		cells = append(cells, []string{cmp.Or(run.Ref, string(run.Run)), run.Name, run.Status, run.Progress(), c.ui.clock(run.Since, snap.Now()), ago(&run.Since, snap.Now())})
	}
	paint := func(row, column int, padded string) string {
		switch {
		case row == 0:
			return c.ui.faint(padded)
		case column == 2:
			return c.ui.paint(runs[row-1].Standing().String(), padded)
		}
		return padded
	}
	text := grid{cells: cells, shrink: []int{1}, paint: paint}.text(c.ui.columns())
	if more {
		text += c.ui.faint("and older ones: vizier runs -n 0") + "\n"
	}
	return c.page(text)
}

// pendingIn returns the job with the pending approval that ref means: the job
// itself, or the only one in a run.
func (c *call) pendingIn(ref string) (*repo, *kernel.Job, error) {
	r, targets, err := c.targets([]string{ref})
	if err != nil {
		return nil, nil, err
	}
	if !targets[0].Whole {
		return r, targets[0].Jobs[0], nil
	}
	var pending []string
	var found *kernel.Job
	for _, j := range targets[0].Jobs {
		if j.State.Status == kernel.WaitingOnApproval {
			pending, found = append(pending, j.Ref()), j
		}
	}
	switch len(pending) {
	case 0:
		return nil, nil, fmt.Errorf("nothing in %s waits for an approval: %w", ref, kernel.ErrConflict)
	case 1:
		return r, found, nil
	}
	return nil, nil, fmt.Errorf("%s wait for an approval: name those that you mean: %w", strings.Join(pending, ", "), kernel.ErrInvalid)
}

// targets opens the repository and resolves refs, to jobs or whole runs.
func (c *call) targets(refs []string) (*repo, []view.Target, error) {
	r, err := c.repoOf(refs)
	if err != nil {
		return nil, nil, err
	}
	snap, targets, err := r.Scheduler.Targets(c.ctx, refs)
	c.knows(r, snap)
	return r, targets, err
}

// knows has everything that is printed name the jobs of s, which r has, by their references,
// also once they are gone. References of another repository mean nothing here.
func (c *call) knows(r *repo, s *kernel.Snapshot) {
	if r.Root == c.home {
		c.ui.refs.named(s)
	}
}

// each calls one for each reference, after checking that all of them can be
// resolved.
func (c *call) each(refs []string, format string, one func(*call, string) error) error {
	if len(refs) > 1 {
		c.globals.NoPager = true // a pager for each of them would be a nuisance
		if _, _, err := c.targets(refs); err != nil {
			return err
		}
	}
	for i, ref := range refs {
		if i > 0 && format != "json" {
			c.ui.print("")
		}
		if err := one(c, ref); err != nil {
			return err
		}
	}
	return nil
}

// standing is targets, settled, with the records that determine their status.
func (c *call) standing(refs []string) (r *repo, targets []view.Target, snap *kernel.Snapshot, err error) {
	if r, err = c.repoOf(refs); err != nil {
		return nil, nil, nil, err
	}
	snap, err = c.settled(r, func() (read *kernel.Snapshot, err error) {
		read, targets, err = r.Scheduler.Targets(c.ctx, refs)
		return read, err
	})
	return r, targets, snap, err
}

package main

import (
	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type validateCmd struct {
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*validateCmd) Help() string {
	return "Reads every job.json, its state file, and what says how each attempt that has ended began and ended, and looks for jobs that wait for each other. Changes nothing. Exits 0 if all are valid, 1 if one is not.\n\nIt looks at jobs only. vizier doctor looks at runs, artifacts, the event log and worktrees too, and vizier history verify at the history."
}

// validated is `jobs validate --format json`.
type validated struct {
	Outcome  string          `json:"outcome"` // valid or invalid
	Records  int             `json:"records"`
	Problems []recordProblem `json:"problems"`
}

type recordProblem struct {
	Job     kernel.JobID `json:"job_id"`
	Path    string       `json:"path"`
	Problem string       `json:"problem"`
}

// Run validates the store.
func (x *validateCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	problems, n, err := r.Doctor.files.Validate(c.ctx)
	if err != nil {
		return err
	}
	snap, err := r.Scheduler.Records(c.ctx, kernel.Scope{All: true})
	if err != nil {
		return err
	}
	for _, f := range r.cycles(snap) {
		problems = append(problems, fs.Problem{Job: f.job, Path: f.Path, Text: f.Problem})
	}
	doc := validated{Outcome: "valid", Records: n, Problems: []recordProblem{}}
	for _, p := range problems {
		doc.Outcome = "invalid"
		doc.Problems = append(doc.Problems, recordProblem{p.Job, p.Path, p.Text})
	}
	if x.Format == "json" {
		err = c.ui.json(doc)
	} else {
		c.ui.print("Outcome: " + view.Counted(n, "record") + ", " + view.Counted(len(problems), "problem"))
		for _, p := range doc.Problems {
			c.ui.print(p.Path + ": " + oneLine(p.Problem))
		}
		if len(problems) > 0 {
			c.ui.print("next: vizier doctor")
		}
	}
	if err == nil && len(problems) > 0 {
		err = exits(1)
	}
	return err
}

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type cleanCmd struct {
	Jobs         []string `arg:"" name:"job" help:"The jobs, or runs: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	Yes          bool     `short:"y" help:"Do not ask."`
	KeepBranches bool     `help:"Keep the draft branches."`
	Force        bool     `help:"Remove even if jobs outside depend on it, or a worktree cannot be removed. Never while one of its jobs is active."`
	DryRun       bool     `help:"Only print what would be removed."`
	Format       string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*cleanCmd) Help() string {
	return "Removes the whole run of the job, or the batch, or a job that belongs to no run: worktrees, records, logs, artifacts, manifest, " +
		"plan states and local draft branches. First parks commits that no other branch has under refs/vizier/parked. " +
		"Exits 10 if active jobs forbid it, and 1 if something could not be removed."
}

// cleanedUp is `clean --format json`.
type cleanedUp struct {
	Outcome   string       `json:"outcome"` // clean_completed, or clean_planned of a dry run
	Scope     string       `json:"scope"`   // job, jobs, batch, run or several
	Requested kernel.JobID `json:"requested_job_id"`
	view.Reference
	Run      *kernel.RunID  `json:"run_id"`
	Removed  removedCounts  `json:"removed"`
	Stranded []kernel.JobID `json:"stranded,omitempty"` // blocked jobs outside that depend on it
	Skipped  struct {
		Branches  int `json:"branches"`
		Worktrees int `json:"worktrees"`
	} `json:"skipped"`
	Kept     keptOf `json:"kept"`
	Degraded bool   `json:"degraded"`
}

// keptOf is what a clean keeps, and why.
type keptOf struct {
	Branches  map[string]string       `json:"branches,omitempty"`
	Worktrees map[kernel.JobID]string `json:"worktrees,omitempty"`
}

type removedCounts struct {
	Jobs          int `json:"jobs"`
	Manifests     int `json:"run_manifests"`
	Markers       int `json:"artifact_markers"`
	Payloads      int `json:"artifact_payloads"`
	PlanDeleted   int `json:"plan_state_deleted"`
	PlanRewritten int `json:"plan_state_rewritten"` // always 0: a plan state names one job, so it is removed or kept as a whole
	Worktrees     int `json:"worktrees"`
	Branches      int `json:"branches"`
}

// Run cleans all targets together: what one of them needs may go with another.
func (x *cleanCmd) Run(c *call) error {
	r, targets, err := c.targets(x.Jobs)
	if err != nil {
		return err
	}
	s := scopeOf(targets)
	options := app.CleanOptions{Force: x.Force, KeepBranches: x.KeepBranches}
	planned, err := r.Scheduler.PlanClean(c.ctx, s.ids, options)
	if err != nil {
		return refusedClean(err)
	}
	c.ui.refs.text(strings.Join(append(texts(planned.Jobs), string(planned.Run)), " ")) // look up the references while the jobs exist
	if x.DryRun {
		return x.answer(c, s, planned)
	}
	if !x.Yes {
		if agreed, err := c.agree(s.word, x.Jobs, planned.CleanSet); !agreed || err != nil {
			return err
		}
	}
	done, rep, err := r.Scheduler.Clean(c.ctx, s.ids, options)
	if err != nil {
		return refusedClean(err)
	}
	c.report(rep)
	done.Stranded = planned.Stranded
	return x.answer(c, s, done)
}

// cleanScope is a set of jobs that are removed together.
type cleanScope struct {
	word string         // run, batch, job; jobs: several that belong to no run or batch; several: several of these
	ids  []kernel.JobID // of a run, one of its jobs
}

// scopeOf returns the scope of targets.
func scopeOf(targets []view.Target) (s cleanScope) {
	done := map[string]bool{}
	for _, t := range targets {
		runs, before := false, len(s.ids)
		for _, j := range t.Jobs {
			what := cmp.Or(string(j.Spec.Origin.Run), string(j.ID))
			if !done[what] {
				s.ids = append(s.ids, j.ID)
			}
			done[what], runs = true, runs || j.Spec.Origin.Run != ""
		}
		word := "batch"
		switch n := len(s.ids) - before; {
		case n == 0:
			continue
		case n == 1 && runs:
			word = "run"
		case n == 1:
			word = "job"
		case runs:
			word = "several"
		}
		switch {
		case before == 0:
			s.word = word
		case word == "job" && (s.word == "job" || s.word == "jobs"):
			s.word = "jobs"
		default:
			s.word = "several"
		}
	}
	return s
}

// refusedClean turns a conflict into a refusal.
func refusedClean(err error) error {
	if errors.Is(err, kernel.ErrConflict) {
		return refuse(err, "end active jobs with `vizier cancel`; --force overrides jobs outside that depend on the removed ones")
	}
	return err
}

// agree asks for confirmation to remove set, which names mean.
func (c *call) agree(scope string, names []string, set retention.CleanSet) (bool, error) {
	what := view.Counted(len(set.Jobs), "job")
	switch scope {
	case "job":
		what = "job " + joined(set.Jobs)
	case "batch":
		what += " of a batch"
	case "run":
		what = "run " + string(set.Run) + " with " + what
	case "several":
		what = strings.Join(names, ", ") + " with " + what
	}
	if text := stranded(set.Stranded); text != "" {
		what += ", although " + text
	}
	agreed, err := c.agreeTo("Remove "+what+"?", "vizier clean")
	if err == nil && !agreed {
		c.ui.print("Outcome: nothing removed")
	}
	return agreed, err
}

// stranded says which blocked jobs a clean leaves without what they depend on; "": none.
func stranded(ids []kernel.JobID) string {
	if len(ids) == 0 {
		return ""
	}
	return view.Counted(len(ids), "blocked job") + " can never start without it: " + joined(ids)
}

// agreeTo asks a yes-or-no question on behalf of a command.
func (c *call) agreeTo(question, command string) (bool, error) {
	in, ok := c.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return false, usageError(errors.New(command + " asks first, and there is no terminal: use --yes"))
	}
	fmt.Fprint(c.ui.err, visible(c.ui.people(question), "")+" [y/N] ")
	line, err := c.typed()
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(c.ui.err)
		return false, err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// typed returns the next line of the input, which a person types. An interrupt ends the wait.
func (c *call) typed() (line string, err error) {
	c.staysInFront()
	read := make(chan struct{})
	var text string
	var failed error
	go func() {
		text, failed = bufio.NewReader(c.stdin).ReadString('\n')
		close(read)
	}()
	select {
	case <-read:
		return text, failed
	case <-c.ctx.Done():
		return "", context.Canceled
	}
}

func (x *cleanCmd) answer(c *call, s cleanScope, done app.Cleaned) error {
	id := s.ids[0]
	doc := cleanedUp{Outcome: "clean_completed", Scope: s.word, Requested: id, Reference: c.ui.refs.of(string(id)), Degraded: len(done.KeptWorktrees) > 0,
		Removed: removedCounts{Jobs: len(done.Removed), Manifests: done.Manifests, Markers: done.Markers, Payloads: done.Payloads,
			PlanDeleted: done.PlanStates, Worktrees: done.Worktrees, Branches: len(done.Branches)}}
	outcome := "Clean completed"
	if doc.Degraded {
		outcome = "Clean not finished"
	}
	if x.DryRun {
		doc.Outcome, outcome = "clean_planned", "Would remove"
	}
	if s.word != "run" {
		done.Run = ""
	} else {
		doc.Run = &done.Run
	}
	if doc.Stranded = done.Stranded; len(doc.Stranded) > 0 && x.Format == "text" {
		c.ui.warn("%s; `vizier clean` removes them too", stranded(doc.Stranded))
	}
	doc.Skipped.Branches, doc.Skipped.Worktrees = len(done.KeptBranches), len(done.KeptWorktrees)
	doc.Kept = keptOf{done.KeptBranches, done.KeptWorktrees}
	for _, name := range slices.Sorted(maps.Keys(done.KeptBranches)) {
		c.ui.warn("branch %s is kept: %s", name, done.KeptBranches[name])
	}
	for _, id := range slices.Sorted(maps.Keys(done.KeptWorktrees)) {
		c.ui.warn("worktree of job %s is kept: %s", id, done.KeptWorktrees[id])
	}
	if x.Format == "json" {
		if err := c.ui.json(doc); err != nil {
			return err
		}
	} else {
		rows := []row{{"Outcome", outcome}, {"Scope", doc.Scope}, {"Run", string(done.Run)}, {"Jobs", joined(done.Removed)},
			{"Worktrees", strconv.Itoa(done.Worktrees)}, {"Branches", strings.Join(done.Branches, ", ")}, {"Plan states", strconv.Itoa(done.PlanStates)}}
		c.ui.text(block(rows, ""))
	}
	if doc.Degraded && !x.Force {
		return exits(1)
	}
	return nil
}

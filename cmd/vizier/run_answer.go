package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// enqueuedRuns is `run --repeat N --format json`.
type enqueuedRuns struct {
	Outcome  string         `json:"outcome"` // workflow_runs_enqueued
	Repeat   int            `json:"repeat"`
	Selector string         `json:"workflow_template_selector"`
	Runs     []repeatedRun  `json:"runs"`
	Next     []nextCommands `json:"next"`
}

type repeatedRun struct {
	Index int `json:"index"` // from 1
	runIdentity
}

// answer prints what was enqueued.
func (x *runCmd) answer(c *call, ids []runIdentity) error {
	if x.Format == "json" {
		if x.single() {
			return c.ui.json(enqueuedRun{"workflow_run_enqueued", ids[0], nextFor(ids[0])})
		}
		doc := enqueuedRuns{Outcome: "workflow_runs_enqueued", Repeat: len(ids), Selector: ids[0].Selector}
		for i, id := range ids {
			doc.Runs = append(doc.Runs, repeatedRun{i + 1, id})
			doc.Next = append(doc.Next, nextFor(id))
		}
		return c.ui.json(doc)
	}
	for i, id := range ids {
		if i > 0 {
			c.ui.print("")
		}
		rows := append([]row{{"Outcome", "Workflow run enqueued"}}, id.rows()...)
		c.ui.block(rows)
		if next := nextFor(id); next.Show != "" {
			run := cmp.Or(id.Ref, string(id.Run))
			c.ui.text("Next:      vizier ls " + run + "\n           vizier why " + run + "\n           " + next.Tail + "\n")
		}
	}
	return nil
}

func (id runIdentity) rows() []row {
	return []row{{"Run", string(id.Run)}, {"Spec", id.File}, {"Template", id.Template + "@" + id.Version}, {"Selector", id.Selector}, {"Root jobs", joined(id.Roots)}}
}

// checkedFlow is `run --check --format json`.
type checkedFlow struct {
	Outcome  string   `json:"outcome"` // workflow_validation_passed
	Selector string   `json:"workflow_template_selector"`
	Template string   `json:"workflow_template_id"`
	Version  string   `json:"workflow_template_version"`
	Nodes    int      `json:"node_count"`
	Warnings []string `json:"warnings"`
}

// checkedFlows is checkedFlow for several runs.
type checkedFlows struct {
	checkedFlow
	Count int            `json:"spec_count"`
	Items []enqueue.Spec `json:"items"`
}

// check refuses what a run would be refused for, and else prints that the template is valid. It writes nothing.
func (x *runCmd) check(c *call, r *repo, flows []*enqueue.Flow) error {
	agent, err := c.builder(r).Check(c.ctx, flows)
	if err != nil {
		return c.hinted(err)
	}
	var items []enqueue.Spec
	for _, f := range flows {
		items = append(items, f.Spec)
	}
	f := flows[0]
	doc := checkedFlow{"workflow_validation_passed", f.Choice.Selector, f.Source.ID.Value, f.Source.Version.Value, f.Parsed.Nodes(), []string{}}
	for _, w := range f.Parsed.Warnings() {
		doc.Warnings = append(doc.Warnings, w.String())
	}
	if agent != nil {
		doc.Warnings = append(doc.Warnings, agent.Error())
		c.ui.warn("warning: %v", agent)
	}
	switch {
	case x.Format == "json" && x.single():
		return c.ui.json(doc)
	case x.Format == "json":
		return c.ui.json(checkedFlows{doc, len(items), items})
	}
	rows := []row{{"Outcome", "Workflow validation passed"}, {"Selector", doc.Selector},
		{"Template", doc.Template + "@" + doc.Version}, {"Nodes", strconv.Itoa(doc.Nodes)}}
	if !x.single() {
		rows = append(rows, row{"Specs", strconv.Itoa(len(items))})
	}
	c.ui.text(block(rows, ""))
	return nil
}

// flowHelp prints how to run a template.
func (c *call) flowHelp(r *repo, name string) error {
	choice, src, err := c.load(r, name)
	if err != nil {
		return err
	}
	var b strings.Builder
	usage := "Usage: " + kernel.CommandLine("vizier", "run", name)
	for _, p := range src.CLI.Positional {
		usage += " [" + strings.ToUpper(p.Value) + "]"
	}
	fmt.Fprintf(&b, "%s [--PARAMETER VALUE]... [flags]\n\nTemplate %s@%s from %s\n", usage, src.ID.Value, src.Version.Value, choice.Path)
	if len(src.Params) > 0 {
		b.WriteString("\nParameters, with their defaults:\n")
	}
	short := map[string][]string{}
	for _, a := range src.CLI.Named {
		short[a.Value] = append(short[a.Value], flagName(a))
	}
	var cells [][]string
	for _, p := range src.Params {
		cells = append(cells, []string{"  " + strings.Join(append(short[p.Key], flagName(p)), ", "), strconv.Quote(p.Value)})
	}
	b.WriteString(table(cells))
	b.WriteString("\nThe flags of every run: vizier run --help\n")
	return c.page(c.ui.refs.text(b.String()))
}

func flagName(e workflow.Entry) string { return "--" + strings.ReplaceAll(e.Key, "_", "-") }

// endedAs groups the jobs of a run by how they ended.
type endedAs struct {
	Succeeded []kernel.JobID `json:"succeeded"`
	Failed    []kernel.JobID `json:"failed"`
	Blocked   []kernel.JobID `json:"blocked"`
	Cancelled []kernel.JobID `json:"cancelled"`
}

// ended groups the jobs, and returns the run's state and the exit code. Jobs
// that were never woken do not count.
func ended(s *kernel.Snapshot, jobs []kernel.JobID) (by endedAs, state string, exit int) {
	by = endedAs{[]kernel.JobID{}, []kernel.JobID{}, []kernel.JobID{}, []kernel.JobID{}}
	for _, id := range jobs {
		j := s.Job(id)
		if j == nil {
			continue
		}
		switch j.State.Status {
		case kernel.Succeeded:
			by.Succeeded = append(by.Succeeded, id)
		case kernel.Failed:
			by.Failed = append(by.Failed, id)
		case kernel.Cancelled:
			by.Cancelled = append(by.Cancelled, id)
		case kernel.BlockedByDependency, kernel.BlockedByApproval:
			by.Blocked = append(by.Blocked, id)
		default: // not ended
		}
	}
	switch {
	case len(by.Failed)+len(by.Cancelled) > 0:
		return by, "failed", 1
	case len(by.Blocked) > 0:
		return by, "blocked", 10
	default:
		return by, "succeeded", 0
	}
}

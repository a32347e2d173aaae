package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
	"github.com/vizier-scheduler/vizier/kernel/view"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

type auditCmd struct {
	Flow         string   `arg:"" help:"The template: a name in .vizier/workflows or [commands], a path, or ID@VERSION."`
	Inputs       []string `arg:"" optional:"" name:"input" help:"The template's positional inputs."`
	Set          []string `sep:"none" placeholder:"KEY=VALUE" help:"A parameter of the template; --KEY VALUE does the same; repeatable."`
	Strict       bool     `help:"Exit 10 if the template needs an artifact that it does not produce."`
	Explore      bool     `help:"Examine every history that a run can have, and report faults; exit 10 if there are any."`
	Scenarios    string   `placeholder:"DIR" help:"With --explore: write the shortest history of each fault into DIR, as a scenario of kernel/testdata."`
	Format       string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
	TemplateHelp bool     `hidden:""`
}

func (*auditCmd) Help() string {
	return "Lists what a run would produce, what it needs from elsewhere and which locks its nodes take. With --explore also whether a run can wait for ever, " +
		"which nodes never run, which failures nobody sees, whether an approval can be bypassed and which artifacts may be used before they are made. Writes nothing but scenarios."
}

// audited is `audit --format json`.
type audited struct {
	Outcome  string              `json:"outcome"` // workflow_audit
	Selector string              `json:"workflow_template_selector"`
	Template string              `json:"workflow_template_id"`
	Version  string              `json:"workflow_template_version"`
	Outputs  []string            `json:"output_artifacts"`
	ByResult map[string][]string `json:"output_artifacts_by_outcome"`
	Inputs   []untetheredInput   `json:"untethered_inputs"`
	Locks    []lockedNode        `json:"effective_locks"`
	Summary  untethered          `json:"summary"`
	Explored *explored           `json:"explored,omitempty"` // with --explore
}

// explored is the result of exploring every history of a run.
type explored struct {
	States   int         `json:"states"`
	Complete bool        `json:"complete"` // all states were visited
	Faults   []flowFault `json:"faults"`

	StandIns map[string]string `json:"stand_ins,omitempty"` // values assumed for required parameters that were not given
}

type flowFault struct {
	Fault    string `json:"fault"`
	Node     string `json:"node_id"`
	About    string `json:"about,omitempty"` // the other node concerned
	Text     string `json:"text"`
	Scenario string `json:"scenario,omitempty"` // the file; absent: the finding has no history, or no scenarios were asked for
}

type untethered struct {
	Count int  `json:"untethered_count"`
	Has   bool `json:"has_untethered"`
}

// untetheredInput is a needed artifact that no node of the template produces.
type untetheredInput struct {
	Artifact  string   `json:"artifact"`
	Consumers []string `json:"consumers"` // nodes
}

type lockedNode struct {
	Node  string     `json:"node_id"`
	Locks []nodeLock `json:"locks"`
}

type nodeLock struct {
	Key  string `json:"key"`
	Mode string `json:"mode"`
}

// Run prints the report.
func (x *auditCmd) Run(c *call) error {
	if x.Scenarios != "" && !x.Explore {
		return usageError(errors.New("--scenarios has no effect without --explore"))
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	if x.TemplateHelp {
		return c.flowHelp(r, x.Flow)
	}
	b := c.builder(r)
	b.StandIn = x.Explore // what a run can do does not depend on the values
	f, err := c.flowOf(b, x.Flow, x.Inputs, x.Set)
	if err != nil {
		return err
	}
	c.namesPlan(f)
	run, err := f.Compile(c.ctx, false)
	if err != nil {
		return err
	}
	doc := audited{Outcome: "workflow_audit", Selector: f.Choice.Selector, Template: f.Source.ID.Value, Version: f.Source.Version.Value}
	doc.artifacts(run)
	doc.locks(run.Jobs)
	if x.Explore {
		if doc.Explored, err = x.explore(c, run.Jobs); err != nil {
			return err
		}
		doc.Explored.StandIns = f.StandIns
	}
	if x.Format == "json" {
		err = c.ui.json(doc)
	} else {
		c.ui.text(doc.text())
	}
	if err == nil && (x.Strict && doc.Summary.Has || x.Explore && len(doc.Explored.Faults) > 0) {
		return exits(classRefused.exit)
	}
	return err
}

// explore explores every history of the run, and writes scenarios if
// x.Scenarios is set.
func (x *auditCmd) explore(c *call, jobs []kernel.NewJob) (*explored, error) {
	found, err := foresight.Explore(jobs, foresight.MostStates, func() bool { return c.ctx.Err() != nil })
	if err == nil {
		err = c.ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	nodes := map[kernel.JobID]string{}
	for _, j := range jobs {
		nodes[j.ID] = j.Spec.Origin.Node
	}
	name := func(id kernel.JobID) string { return nodes[id] }
	out := &explored{States: found.States, Complete: found.Complete, Faults: []flowFault{}}
	for i, f := range found.Falls {
		fault := flowFault{Fault: f.Fault.String(), Node: name(f.Job), About: name(f.About), Text: f.Text(name)}
		if x.Scenarios != "" && f.Fault != foresight.NeverRuns {
			if err := os.MkdirAll(x.Scenarios, 0o777); err != nil {
				return nil, err
			}
			fault.Scenario = filepath.Join(x.Scenarios, fmt.Sprintf("%02d_%s.txt", i+1, f.Fault))
			if err := os.WriteFile(fault.Scenario, []byte(f.Scenario(jobs, name)), 0o666); err != nil {
				return nil, err
			}
		}
		out.Faults = append(out.Faults, fault)
	}
	return out, nil
}

// text returns the result of the exploration for people.
func (e *explored) text() string {
	all := "all there are"
	if !e.Complete {
		all = "there are more, which were not examined"
	}
	given := ""
	if len(e.StandIns) > 0 {
		given = " The flow needs " + strings.Join(slices.Sorted(maps.Keys(e.StandIns)), ", ") + ": assumed " + workflow.StandIn + "."
	}
	var faults []string
	for _, f := range e.Faults {
		if faults = append(faults, f.Text); f.Scenario != "" {
			faults = append(faults, "    "+f.Scenario)
		}
	}
	return fmt.Sprintf("\nExplored %s, %s.%s Faults:\n", view.Counted(e.States, "state"), all, given) + indented(faults)
}

func (doc *audited) artifacts(run enqueue.Run) {
	doc.Outputs, doc.ByResult, doc.Inputs = []string{}, map[string][]string{}, []untetheredInput{}
	for _, n := range run.Plan.Nodes {
		for outcome, records := range n.Artifacts {
			for _, rec := range records {
				if a, err := rec.Artifact(); err == nil {
					doc.ByResult[outcome] = append(doc.ByResult[outcome], a.String())
					doc.Outputs = append(doc.Outputs, a.String())
				}
			}
		}
	}
	for outcome := range doc.ByResult {
		doc.ByResult[outcome] = distinct(doc.ByResult[outcome])
	}
	doc.Outputs = distinct(doc.Outputs)
	by := map[string][]string{}
	for _, j := range run.Jobs {
		for _, need := range j.Spec.Needs {
			if !slices.Contains(doc.Outputs, need.String()) {
				by[need.String()] = append(by[need.String()], j.Spec.Origin.Node)
			}
		}
	}
	for artifact, consumers := range by {
		doc.Inputs = append(doc.Inputs, untetheredInput{artifact, distinct(consumers)})
	}
	slices.SortFunc(doc.Inputs, func(a, b untetheredInput) int { return strings.Compare(a.Artifact, b.Artifact) })
	doc.Summary = untethered{len(doc.Inputs), len(doc.Inputs) > 0}
}

func distinct(in []string) []string {
	slices.Sort(in)
	return slices.Compact(in)
}

func (doc *audited) locks(jobs []kernel.NewJob) {
	doc.Locks = []lockedNode{}
	for _, j := range jobs {
		node := lockedNode{j.Spec.Origin.Node, []nodeLock{}}
		for _, l := range j.Spec.Locks {
			node.Locks = append(node.Locks, nodeLock{l.Key, l.Mode.String()})
		}
		doc.Locks = append(doc.Locks, node)
	}
}

func (doc *audited) text() string {
	var b strings.Builder
	b.WriteString(block([]row{{"Outcome", "Workflow audited"}, {"Template", doc.Template + "@" + doc.Version}, {"Selector", doc.Selector}}, ""))
	b.WriteString("\nProduces:\n" + indented(doc.Outputs) + "\nNeeds from elsewhere:\n")
	var needs, locks []string
	for _, in := range doc.Inputs {
		needs = append(needs, in.Artifact+"  ("+strings.Join(in.Consumers, ", ")+")")
	}
	for _, n := range doc.Locks {
		for _, l := range n.Locks {
			locks = append(locks, n.Node+"  "+l.Key+":"+l.Mode)
		}
	}
	b.WriteString(indented(needs) + "\nLocks:\n" + indented(locks))
	if doc.Explored != nil {
		b.WriteString(doc.Explored.text())
	}
	return b.String()
}

func indented(lines []string) string {
	if len(lines) == 0 {
		return "  none\n"
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

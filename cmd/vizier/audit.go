package main

import (
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
)

type auditCmd struct {
	Flow         string   `arg:"" help:"The template: a name in .vizier/workflows or [commands], a path, or ID@VERSION."`
	Inputs       []string `arg:"" optional:"" name:"input" help:"The template's positional inputs."`
	Set          []string `sep:"none" placeholder:"KEY=VALUE" help:"A parameter of the template; --KEY VALUE does the same; repeatable."`
	Strict       bool     `help:"Exit 10 when something is needed that the template itself does not produce."`
	Format       string   `enum:"text,json" default:"text" placeholder:"text|json" help:"How the answer looks."`
	TemplateHelp bool     `hidden:""`
}

func (*auditCmd) Help() string {
	return "Tells what a run would produce, what it needs from elsewhere and which locks its nodes take. Nothing is written."
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
}

type untethered struct {
	Count int  `json:"untethered_count"`
	Has   bool `json:"has_untethered"`
}

// untetheredInput is an artifact that no node of the template produces.
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
	r, err := c.repo()
	if err != nil {
		return err
	}
	if x.TemplateHelp {
		return c.flowHelp(r, x.Flow)
	}
	f, err := c.flow(r, x.Flow, x.Inputs, x.Set)
	if err != nil {
		return err
	}
	run, err := f.Compile(c.ctx, false)
	if err != nil {
		return err
	}
	doc := audited{Outcome: "workflow_audit", Selector: f.Choice.Selector, Template: f.Source.ID.Value, Version: f.Source.Version.Value}
	doc.artifacts(run)
	doc.locks(run.Jobs)
	if x.Format == "json" {
		err = c.ui.json(doc)
	} else {
		c.ui.text(doc.text())
	}
	if err == nil && x.Strict && doc.Summary.Has {
		return exits(classRefused.exit)
	}
	return err
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
	return b.String()
}

func indented(lines []string) string {
	if len(lines) == 0 {
		return "  none\n"
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

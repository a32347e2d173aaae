package view

import (
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// diagram is the schedule as nodes and arrows, for the formats that draw it.
// Arrows point from what is done first to what depends on it.
type diagram struct {
	nodes  []node
	arrows []arrow
	index  map[string]int // by key
}

type node struct {
	title, status string
	artifact      bool // no job known produces it
	hidden        bool // not a visible row, but a visible job depends on it
	ref           string
	job           *kernel.Job // nil: an artifact, or a job that does not exist
}

type arrow struct {
	from, to int
	label    string
}

func (s Schedule) diagram() diagram {
	d := diagram{index: map[string]int{}}
	for _, r := range s.Rows {
		j := s.snap.Job(r.ID)
		d.node(string(r.ID), node{title: r.Name, status: r.Status.String(), ref: j.Ref(), job: j})
	}
	for to, r := range s.Rows {
		for _, dep := range s.dependencies(s.snap.Job(r.ID)) {
			d.arrows = append(d.arrows, arrow{d.source(s, dep), to, line(dep.artifact)})
		}
	}
	return d
}

func (d *diagram) node(key string, n node) int {
	i, ok := d.index[key]
	if !ok {
		i = len(d.nodes)
		d.index[key] = i
		d.nodes = append(d.nodes, n)
	}
	return i
}

// source returns the node that a dependency points at.
func (d *diagram) source(s Schedule, dep dependency) int {
	if dep.to == "" {
		return d.node("artifact:"+dep.artifact, node{title: line(dep.artifact), status: dep.state, artifact: true})
	}
	n := node{title: s.opts.Label(dep.to), status: s.standing(dep.to), hidden: true}
	if j := s.snap.Job(dep.to); j != nil {
		n.title, n.ref, n.job = Title(j), j.Ref(), j
	}
	return d.node(string(dep.to), n)
}

// colour returns the colour of a status.
func colour(status string) string {
	switch st, err := kernel.ParseStatus(status); {
	case err != nil:
		return "#888888"
	case st == kernel.Running:
		return "#1f6feb"
	case st == kernel.Succeeded:
		return "#2da44e"
	case st == kernel.Failed:
		return "#cf222e"
	case blocked(st):
		return "#bc4c00"
	case st.Waiting(), st == kernel.FailedRetryable:
		return "#bf8700"
	default:
		return "#888888"
	}
}

// DOT returns the schedule in Graphviz's language.
func (s Schedule) DOT() string {
	d := s.diagram()
	var b strings.Builder
	b.WriteString("digraph schedule {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n")
	for i, n := range d.nodes {
		text := dot.Replace(n.title)
		if n.status != "" {
			text += `\n` + n.status
		}
		style := ""
		switch {
		case n.artifact:
			style = ", shape=note"
		case n.hidden:
			style = `, style="rounded,dashed"`
		}
		b.WriteString("  n" + strconv.Itoa(i) + ` [label="` + text + `", color="` + colour(n.status) + `"` + style + "];\n")
	}
	for _, a := range d.arrows {
		b.WriteString("  n" + strconv.Itoa(a.from) + " -> n" + strconv.Itoa(a.to))
		if a.label != "" {
			b.WriteString(` [label="` + dot.Replace(a.label) + `"]`)
		}
		b.WriteString(";\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// Mermaid returns the schedule as a Mermaid flowchart.
func (s Schedule) Mermaid() string {
	d := s.diagram()
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, n := range d.nodes {
		text, left, right := mermaid.Replace(n.title), "[", "]"
		if n.status != "" {
			text += "<br/>" + n.status
		}
		if n.artifact {
			left, right = "([", "])"
		}
		id := "n" + strconv.Itoa(i)
		b.WriteString("  " + id + left + `"` + text + `"` + right + "\n")
		b.WriteString("  style " + id + " stroke:" + colour(n.status))
		if n.hidden {
			b.WriteString(",stroke-dasharray:4")
		}
		b.WriteString("\n")
	}
	for _, a := range d.arrows {
		b.WriteString("  n" + strconv.Itoa(a.from) + " -->")
		if a.label != "" {
			b.WriteString(`|"` + mermaid.Replace(a.label) + `"|`)
		}
		b.WriteString(" n" + strconv.Itoa(a.to) + "\n")
	}
	return b.String()
}

var (
	dot     = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	mermaid = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;", `\`, "#92;")
)

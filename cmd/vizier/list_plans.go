package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type draftsCmd struct {
	Target string   `placeholder:"BRANCH" help:"The branch to merge into; by default main, master or the branch that is checked out."`
	Fields []string `placeholder:"FIELD" help:"Show these fields, in this order."`
	Format string   `enum:"block,table,json" default:"block" placeholder:"block|table|json" help:"Output format."`
}

func (*draftsCmd) Help() string {
	return "Lists a plan while its branch, draft/SLUG or the one that a run on record was given, has commits that the target branch lacks, even if it is stuck in a conflict."
}

// planBranches is what the list of plans needs of git.
type planBranches interface {
	Branches(ctx context.Context, prefix string) (map[string]kernel.CommitID, error)
	Heads(ctx context.Context, branches []string) (map[string]kernel.CommitID, error)
	Head(context.Context) (string, error)
	HeadBranch(ctx context.Context, dir string) (string, error)
	IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (bool, error)
	FileAt(ctx context.Context, commit kernel.CommitID, path string) ([]byte, error)
	LastFile(ctx context.Context, tip, base kernel.CommitID, path string) ([]byte, error)
}

// draftList is `list --format json`.
type draftList struct {
	Header struct {
		Outcome string `json:"outcome"`
		Target  string `json:"target"`
	} `json:"header"`
	Entries []map[string]any `json:"entries"`
}

// draft is an unmerged plan, and the job that says most about it; nil: none is
// on record.
type draft struct {
	plan, branch, summary string

	job    *kernel.Job
	agents *view.AgentTotal // of all its jobs on record
}

// draftField is a field of the list with its text and its JSON value. They are
// empty for a plan that has no such value.
type draftField struct {
	view.Field
	text  func(d draft) string
	value func(d draft) any // nil: the text
}

// draftFields are the fields of the list, in their order.
var draftFields = []draftField{
	{view.Field{Key: "plan", Label: "Plan", Default: true}, func(d draft) string { return d.plan }, nil},
	{view.Field{Key: "branch", Label: "Branch", Default: true}, func(d draft) string { return d.branch }, nil},
	{view.Field{Key: "summary", Label: "Summary", Default: true}, func(d draft) string { return d.summary }, nil},
	{view.Field{Key: "job", Label: "Job", Default: true}, ofJob(func(j *kernel.Job) string { return string(j.ID) }), nil},
	{view.Field{Key: "job_status", Label: "Job status", Default: true}, ofJob(func(j *kernel.Job) string { return j.State.Status.String() }), nil},
	{view.Field{Key: "job_scope", Label: "Job scope", Default: true}, ofJob(func(j *kernel.Job) string { return j.Spec.Origin.Alias }), nil},
	{view.Field{Key: "job_started", Label: "Job started", Default: true}, ofJob(func(j *kernel.Job) string {
		if j.State.Started.IsZero() {
			return ""
		}
		return j.State.Started.Format(time.RFC3339)
	}), nil},
	{view.Field{Key: "agent_total", Label: "Usage", Default: true}, func(d draft) string { return d.agents.String() }, func(d draft) any {
		if d.agents == nil {
			return nil
		}
		return d.agents
	}},
	{view.Field{Key: "status", Label: "Status", Default: true}, ofJob(func(j *kernel.Job) string { return "vizier status " + string(j.ID) }), nil},
	{view.Field{Key: "logs", Label: "Logs", Default: true}, ofJob(func(j *kernel.Job) string { return "vizier tail --follow " + string(j.ID) }), nil},
	{view.Field{Key: "attach", Label: "Attach", Default: true}, ofJob(func(j *kernel.Job) string { return "vizier attach " + string(j.ID) }), nil},
}

func ofJob(text func(*kernel.Job) string) func(draft) string {
	return func(d draft) string {
		if d.job == nil {
			return ""
		}
		return text(d.job)
	}
}

func planFields() []view.Field {
	all := make([]view.Field, len(draftFields))
	for i, f := range draftFields {
		all[i] = f.Field
	}
	return all
}

// chosen returns the fields that names select. Without names it returns all or,
// for a table, the short ones.
func (x *draftsCmd) chosen() ([]draftField, error) {
	names := x.Fields
	if len(names) == 0 && x.Format == "table" {
		names = []string{"plan", "branch", "summary", "job", "job_status"}
	}
	picked, err := pick(planFields(), names, "--fields")
	out := make([]draftField, len(picked))
	for i, f := range picked {
		out[i] = draftFields[slices.IndexFunc(draftFields, func(g draftField) bool { return g.Key == f.Key })]
	}
	return out, err
}

// Run prints the plans.
func (x *draftsCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	fields, err := x.chosen()
	if err != nil {
		return err
	}
	target, tip, err := x.target(c, r)
	if err != nil {
		return err
	}
	var doc draftList
	doc.Header.Target = target
	plans, err := r.drafts(c, tip)
	if err != nil {
		return err
	}
	doc.Header.Outcome = "No pending draft branches"
	if n := len(plans); n == 1 {
		doc.Header.Outcome = "1 pending draft branch"
	} else if n > 1 {
		doc.Header.Outcome = fmt.Sprintf("%d pending draft branches", n)
	}
	if x.Format == "json" {
		doc.Entries = entries(plans, fields, &c.ui.refs)
		return c.ui.json(doc)
	}
	return c.page(block([]row{{"Outcome", doc.Header.Outcome}, {"Target", doc.Header.Target}}, "") + c.ui.drafts(plans, fields, x.Format == "table"))
}

// target returns the branch to compare with, and its tip.
func (x *draftsCmd) target(c *call, r *repo) (string, kernel.CommitID, error) {
	names := []string{x.Target}
	if x.Target != "" {
		if err := kernel.CheckBranch(x.Target); err != nil {
			return "", "", fmt.Errorf("--target %w", err)
		}
	} else {
		head, err := r.Git.Head(c.ctx)
		if err != nil {
			return "", "", err
		}
		names = slices.DeleteFunc([]string{"main", "master", head}, func(s string) bool { return s == "" })
	}
	tips, err := r.Git.Heads(c.ctx, names)
	if err != nil {
		return "", "", err
	}
	for _, name := range names {
		if tips[name] != "" {
			return name, tips[name], nil
		}
	}
	if x.Target != "" {
		return "", "", kernel.Missing{What: "target branch " + x.Target}
	}
	return "", "", usageError(errors.New("unable to detect primary branch; use --target"))
}

// drafts returns the plans with commits that target does not contain, sorted by
// name.
func (r *repo) drafts(c *call, target kernel.CommitID) ([]draft, error) {
	snap, err := c.settled(r, func() (*kernel.Snapshot, error) { return r.Scheduler.Records(c.ctx, kernel.Scope{All: true}) })
	if err != nil {
		return nil, err
	}
	tips, err := r.Git.Branches(c.ctx, "draft/")
	if err != nil {
		return nil, err
	}
	slugs := map[string]string{} // by branch
	for _, j := range snap.Jobs() {
		if j.Spec.Origin.Plan != "" && j.Spec.Origin.Branch != "" {
			slugs[j.Spec.Origin.Branch] = j.Spec.Origin.Plan
		}
	}
	given, err := r.Git.Heads(c.ctx, slices.Sorted(maps.Keys(slugs)))
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(given, func(_ string, tip kernel.CommitID) bool { return tip == "" })
	maps.Copy(tips, given)
	var out []draft
	for _, branch := range slices.Sorted(maps.Keys(tips)) {
		slug := cmp.Or(slugs[branch], strings.TrimPrefix(branch, "draft/"))
		merged, err := r.Git.IsAncestor(c.ctx, tips[branch], target)
		if err != nil {
			return nil, err
		}
		plan, err := r.Git.FileAt(c.ctx, tips[branch], ".vizier/implementation-plans/"+slug+".md")
		if err != nil {
			return nil, err
		}
		open := openMerge(snap, slug)
		if plan == nil && open != nil { // the merge has removed the document from the branch
			if plan, err = r.Git.LastFile(c.ctx, tips[branch], target, ".vizier/implementation-plans/"+slug+".md"); err != nil {
				return nil, err
			}
		}
		if merged || plan == nil {
			continue
		}
		out = append(out, draft{slug, branch, planSummary(string(plan)), cmp.Or(open, jobOf(snap, slug)), view.TotalOf(jobsOf(snap, slug))})
	}
	return out, nil
}

// openMerge returns the merge of a plan that has begun but not ended, such as
// one in conflict, or nil.
func openMerge(s *kernel.Snapshot, slug string) *kernel.Job {
	var last *kernel.Job
	for _, j := range s.Jobs() {
		if j.Spec.Origin.Plan == slug && j.Spec.Origin.About.Operation == "git.integrate_plan_branch" && j.State.Attempt > 0 {
			last = j
		}
	}
	if last == nil || last.State.Status == kernel.Succeeded {
		return nil
	}
	return last
}

// jobOf returns the job that says most about a plan: one that needs a person, or else
// an active one, or else the latest.
func jobOf(s *kernel.Snapshot, slug string) *kernel.Job {
	var best *kernel.Job
	most := 0
	for _, j := range s.Jobs() {
		if j.Spec.Origin.Plan != slug || j.State.Status == kernel.Unscheduled {
			continue
		}
		says := 1
		switch {
		case j.Needs() != "" && !s.SeenTo(j):
			says = 3
		case j.State.Status.Active():
			says = 2
		}
		if says >= most {
			best, most = j, says
		}
	}
	return best
}

// jobsOf returns the jobs about a plan.
func jobsOf(s *kernel.Snapshot, slug string) []*kernel.Job {
	var out []*kernel.Job
	for _, j := range s.Jobs() {
		if j.Spec.Origin.Plan == slug {
			out = append(out, j)
		}
	}
	return out
}

// planSummary returns the first line of the specification in a plan's document.
func planSummary(doc string) string {
	_, spec, _ := strings.Cut(doc, "## Operator Spec")
	for line := range strings.Lines(spec) {
		if line = strings.Join(strings.Fields(strings.TrimLeft(line, "# ")), " "); line == "" {
			continue
		}
		if text := []rune(line); len(text) > 120 {
			return string(text[:117]) + "..."
		}
		return line
	}
	return ""
}

// entries returns the plans for JSON. Fields without a value are left out.
func entries(plans []draft, fields []draftField, refs *references) []map[string]any {
	out := make([]map[string]any, len(plans))
	for i, d := range plans {
		out[i] = map[string]any{}
		for _, f := range fields {
			if f.value != nil {
				if v := f.value(d); v != nil {
					out[i][f.Key] = v
				}
			} else if text := f.text(d); text != "" {
				out[i][f.Key] = text
				if strings.HasPrefix(text, "vizier ") {
					out[i][f.Key] = refs.text(text)
				}
			}
			if ref := view.ReferenceOf(cmp.Or(d.job, &kernel.Job{})); f.Key == "job" && ref.Number != 0 {
				out[i]["number"], out[i]["ref"] = ref.Number, ref.Ref
			}
		}
	}
	return out
}

func (u *ui) drafts(plans []draft, fields []draftField, asTable bool) string {
	var b strings.Builder
	cells := [][]string{make([]string, len(fields))}
	for i, f := range fields {
		cells[0][i] = f.Label
	}
	for _, d := range plans {
		line, rows := make([]string, len(fields)), make([]row, len(fields))
		for i, f := range fields {
			line[i] = u.people(f.text(d))
			rows[i] = row{f.Label, line[i]}
		}
		cells = append(cells, line)
		if !asTable {
			b.WriteString("\n" + hung(block(rows, "  "), u.columns()))
		}
	}
	if asTable && len(plans) > 0 {
		b.WriteString("\n" + u.table(cells, -1))
	}
	return b.String()
}

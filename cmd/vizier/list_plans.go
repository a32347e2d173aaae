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
	Target string `placeholder:"BRANCH" help:"Into which branch they would be merged; without it main, master or what is checked out."`
	Format string `enum:"block,table,json" default:"block" placeholder:"block|table|json" help:"How the list looks."`
}

func (*draftsCmd) Help() string {
	return "A plan is listed while its branch draft/SLUG has commits that the target branch has not, one that is stuck in a conflict included."
}

// planBranches is what the list of plans asks of git.
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
	Entries []draft `json:"entries"`
}

type draft struct {
	Plan    string       `json:"plan"`
	Branch  string       `json:"branch"`
	Summary string       `json:"summary,omitempty"`
	Job     kernel.JobID `json:"job,omitempty"`
	Status  string       `json:"job_status,omitempty"`
	Started string       `json:"job_started,omitempty"`

	Agents *view.AgentTotal `json:"agent_total,omitempty"` // of all its jobs on record
}

// Run prints the plans.
func (x *draftsCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	target, tip, err := x.target(c, r)
	if err != nil {
		return err
	}
	var doc draftList
	doc.Header.Target = target
	if doc.Entries, err = r.drafts(c, tip); err != nil {
		return err
	}
	doc.Header.Outcome = "No pending draft branches"
	if n := len(doc.Entries); n == 1 {
		doc.Header.Outcome = "1 pending draft branch"
	} else if n > 1 {
		doc.Header.Outcome = fmt.Sprintf("%d pending draft branches", n)
	}
	if x.Format == "json" {
		return c.ui.json(doc)
	}
	c.ui.text(doc.text(x.Format == "table"))
	return nil
}

// target is the branch to compare with, and its tip.
func (x *draftsCmd) target(c *call, r *repo) (string, kernel.CommitID, error) {
	names := []string{x.Target}
	if x.Target == "" {
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
		return "", "", fmt.Errorf("target branch %s not found: %w", x.Target, kernel.ErrNotFound)
	}
	return "", "", usageError(errors.New("unable to detect primary branch; use --target"))
}

// drafts are the plans with commits that target has not, by name.
func (r *repo) drafts(c *call, target kernel.CommitID) ([]draft, error) {
	tips, err := r.Git.Branches(c.ctx, "draft/")
	if err != nil {
		return nil, err
	}
	snap, err := c.settled(r, func() (*kernel.Snapshot, error) { return r.Scheduler.Records(c.ctx, kernel.Scope{All: true}) })
	if err != nil {
		return nil, err
	}
	out := []draft{}
	for _, branch := range slices.Sorted(maps.Keys(tips)) {
		slug := strings.TrimPrefix(branch, "draft/")
		merged, err := r.Git.IsAncestor(c.ctx, tips[branch], target)
		if err != nil {
			return nil, err
		}
		plan, err := r.Git.FileAt(c.ctx, tips[branch], ".vizier/implementation-plans/"+slug+".md")
		if err != nil {
			return nil, err
		}
		open := openMerge(snap, slug)
		if plan == nil && open != nil { // the merge has taken the document off the branch
			if plan, err = r.Git.LastFile(c.ctx, tips[branch], target, ".vizier/implementation-plans/"+slug+".md"); err != nil {
				return nil, err
			}
		}
		if merged || plan == nil {
			continue
		}
		d := draft{Plan: slug, Branch: branch, Summary: planSummary(string(plan))}
		if j := cmp.Or(open, jobOf(snap, slug)); j != nil {
			d.Job, d.Status = j.ID, j.State.Status.String()
			if !j.State.Started.IsZero() {
				d.Started = j.State.Started.Format(time.RFC3339)
			}
		}
		d.Agents = view.TotalOf(jobsOf(snap, slug))
		out = append(out, d)
	}
	return out, nil
}

// openMerge is the merge of a plan that has begun and not come to its end, such as
// one in a conflict; nil: none has.
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

// jobOf is the job that tells most about a plan: an active one, else the
// latest.
func jobOf(s *kernel.Snapshot, slug string) *kernel.Job {
	var best *kernel.Job
	for _, j := range s.Jobs() {
		if j.Spec.Origin.Plan != slug || j.State.Status == kernel.Unscheduled {
			continue
		}
		if best == nil || j.State.Status.Active() || !best.State.Status.Active() {
			best = j
		}
	}
	return best
}

// jobsOf are the jobs about a plan.
func jobsOf(s *kernel.Snapshot, slug string) []*kernel.Job {
	var out []*kernel.Job
	for _, j := range s.Jobs() {
		if j.Spec.Origin.Plan == slug {
			out = append(out, j)
		}
	}
	return out
}

// planSummary is the first line of the specification in a plan's document.
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

func (doc draftList) text(asTable bool) string {
	var b strings.Builder
	b.WriteString(block([]row{{"Outcome", doc.Header.Outcome}, {"Target", doc.Header.Target}}, ""))
	cells := [][]string{{"Plan", "Branch", "Summary", "Job", "Job status"}}
	for _, d := range doc.Entries {
		if asTable {
			cells = append(cells, []string{d.Plan, d.Branch, d.Summary, string(d.Job), d.Status})
			continue
		}
		rows := []row{{"Plan", d.Plan}, {"Branch", d.Branch}, {"Summary", d.Summary}, {"Job", string(d.Job)}, {"Job status", d.Status}, {"Job started", d.Started}, {"Usage", d.Agents.String()}}
		if d.Job != "" {
			rows = append(rows, row{"Status", "vizier jobs status " + string(d.Job)}, row{"Logs", "vizier jobs tail --follow " + string(d.Job)})
		}
		b.WriteString("\n" + block(rows, "  "))
	}
	if asTable && len(doc.Entries) > 0 {
		b.WriteString("\n" + table(cells, nil))
	}
	return b.String()
}

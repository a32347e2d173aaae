package main

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type inboxStatusCmd struct {
	All    bool   `help:"Also show prompts that have left the inbox: those on record, and those refused."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*inboxStatusCmd) Help() string {
	return "A prompt is stalled if a running job of its run has printed nothing for [inbox] stalled_after."
}

// inboxState is `inbox status --format json`.
type inboxState struct {
	Outcome string         `json:"outcome"` // inbox_status
	Inbox   string         `json:"inbox"`
	Layout  string         `json:"layout"`
	Prompts []inboxPrompt  `json:"prompts"`
	Counts  map[string]int `json:"counts"` // by name
	Left    []inboxReason  `json:"left"`
}

type inboxPrompt struct {
	Rel     string       `json:"inbox_rel"`
	Name    string       `json:"name"` // prompt, running, done or error
	Gone    bool         `json:"gone,omitempty"`
	Renamed string       `json:"renamed,omitempty"` // what somebody called the file
	Age     int64        `json:"age_seconds"`
	Stalled bool         `json:"stalled"`
	Job     kernel.JobID `json:"job_id,omitempty"`
	view.Reference
	Run        kernel.RunID `json:"run_id,omitempty"`
	Status     string       `json:"status,omitempty"`
	State      string       `json:"state,omitempty"`
	Repository string       `json:"repository,omitempty"`
	Branch     string       `json:"branch,omitempty"`
	Reason     string       `json:"reason,omitempty"`
	Next       []string     `json:"next,omitempty"` // commands
}

// Run shows the prompts.
func (x *inboxStatusCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	box, err := r.Inbox(c.asker())
	if err != nil {
		return err
	}
	var left []app.Left
	home := &app.InboxTarget{Root: r.Root, Scheduler: r.Scheduler}
	targets, repos := []*app.InboxTarget{home}, map[*app.InboxTarget]*repo{home: r}
	for _, name := range slices.Sorted(maps.Keys(r.Config.Inbox.Repositories)) {
		other, err := r.Neighbour(name)
		if err != nil {
			left = append(left, app.Left{Path: name, Reason: err.Error()})
			continue
		}
		if other.Root == r.Root {
			continue
		}
		t := &app.InboxTarget{Root: other.Root, Scheduler: other.Scheduler}
		targets, repos[t] = append(targets, t), other
	}
	st, err := box.Status(c.ctx, targets, x.All, r.Config.Inbox.Stalled, func(t *app.InboxTarget, j *kernel.Job) time.Time {
		return repos[t].lastSign(j)
	})
	if err != nil {
		return inboxMissing(err)
	}
	st.Left = append(st.Left, left...)
	doc := inboxState{Outcome: "inbox_status", Inbox: r.rel(box.Tree.File("x.prompt.md", kernel.NewPrompt)), Layout: box.Layout.String(),
		Prompts: []inboxPrompt{}, Counts: map[string]int{}, Left: []inboxReason{}}
	doc.Inbox = strings.TrimSuffix(doc.Inbox, "/x.prompt.md")
	var ids []kernel.JobID
	for _, p := range st.Prompts {
		if p.Job != nil {
			ids = append(ids, p.Job.ID)
		}
	}
	c.ui.refs.among(ids) // look them all up with one read
	here, err := workingDir()
	if err != nil {
		return err
	}
	byRoot := map[string]*repo{}
	for t, of := range repos {
		byRoot[t.Root] = of
	}
	for _, p := range st.Prompts {
		reason := p.Reason
		if p.Job != nil {
			reason = byRoot[p.Repository].resolvable(p.Job, reason)
		}
		row := inboxPrompt{Rel: p.File.Rel, Name: p.File.Name.String(), Gone: p.Gone, Renamed: p.Renamed, Age: int64(p.Age / time.Second), Stalled: p.Stalled,
			Repository: p.Repository, Reason: reason}
		if j := p.Job; j != nil {
			row.Job, row.Run, row.Status, row.State, row.Branch = j.ID, j.Spec.Origin.Run, p.Run.Status.String(), j.State.Status.Coarse(), j.Spec.Prompt.Branch
			row.Reference = c.ui.refs.of(string(j.ID))
			row.Next = c.ui.refs.command(promptNext(j, p.Run))
		}
		if p.Tracked != "" {
			row.Next = []string{kernel.CommandLine("git", "rm", "--cached", "-f", "--", relative(here, filepath.Join(r.Root, p.Tracked)))}
		}
		doc.Prompts = append(doc.Prompts, row)
		doc.Counts[row.Name]++
	}
	for _, l := range st.Left {
		doc.Left = append(doc.Left, inboxReason(l))
	}
	if x.Format == "json" {
		return c.ui.json(doc)
	}
	return x.show(c, doc)
}

func (x *inboxStatusCmd) show(c *call, doc inboxState) error {
	c.ui.print("Outcome: " + view.Counted(len(doc.Prompts), "prompt") + " in " + doc.Inbox)
	var cells [][]string
	there := map[string]bool{}
	for _, p := range doc.Prompts {
		there[p.Rel] = there[p.Rel] || !p.Gone
	}
	for _, p := range doc.Prompts {
		status, note := cmp.Or(p.Status, "-"), oneLine(p.Reason)
		if p.Stalled {
			status += " (stalled)"
		}
		switch {
		case p.Renamed != "":
			note = strings.TrimPrefix(note+", its file is called "+readable(p.Renamed)+" now", ", ")
		case p.Gone && there[p.Rel]:
			note = strings.TrimPrefix(note+", a new file has this name", ", ")
		case p.Gone:
			note = strings.TrimPrefix(note+", no longer in the inbox", ", ")
		}
		cells = append(cells, []string{readable(p.Rel), p.Name, cmp.Or(p.Ref, string(p.Job), "-"), status, kernel.Brief(time.Duration(p.Age) * time.Second), c.ui.people(note)})
	}
	lines := strings.SplitAfter(grid{cells: cells, shrink: []int{5, 0}}.text(c.ui.columns()), "\n")
	for i, p := range doc.Prompts {
		c.ui.verbatim(lines[i])
		for _, next := range p.Next {
			c.ui.print("    next: " + next)
		}
	}
	for _, l := range doc.Left {
		c.ui.print("left: " + readable(l.Path) + ": " + oneLine(l.Reason))
	}
	return nil
}

// promptNext returns the commands that deal with what holds up the run of a
// prompt, or made it fail.
func promptNext(j *kernel.Job, r view.PromptRun) (next []string) {
	for _, id := range r.Pending {
		next = append(next, "vizier jobs approve "+string(id))
	}
	if st := r.Status; st.Terminal() && st != kernel.Succeeded {
		next = append(next, "vizier why "+string(j.ID))
	}
	return next
}

// lastSign returns the last sign of life of a running job: its start, or its
// last output.
func (r *repo) lastSign(j *kernel.Job) time.Time {
	at := j.State.Started
	for _, stream := range []string{"stdout", "stderr"} {
		if info, err := os.Lstat(r.Logs.LogFile(j.ID, stream)); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

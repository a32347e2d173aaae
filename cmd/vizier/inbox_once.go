package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	rules "github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type inboxInitCmd struct{}

func (*inboxInitCmd) Help() string {
	return "Creates inbox, processed, finished and failed below [inbox] home, by default .vizier. Git ignores them."
}

// Run creates what is missing.
func (x *inboxInitCmd) Run(c *call) error {
	r, err := c.ownRepo()
	if err != nil {
		return err
	}
	tree := r.InboxFiles()
	made, err := tree.Init()
	if err != nil {
		return err
	}
	for _, dir := range []string{rules.Dir, rules.ProcessedDir, rules.FinishedDir, rules.FailedDir} {
		at := filepath.Join(tree.Home, dir, ".gitignore")
		f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if os.IsExist(err) {
			continue
		}
		if err == nil {
			_, err = f.WriteString("*\n")
			if closed := f.Close(); err == nil {
				err = closed
			}
		}
		if err != nil {
			return err
		}
	}
	if made {
		c.ui.print("Outcome: inbox made")
	} else {
		c.ui.print("Outcome: inbox exists already")
	}
	c.ui.print("Drop prompts as NAME.prompt.md into " + r.rel(tree.Inbox()))
	return nil
}

type inboxOnceCmd struct {
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*inboxOnceCmd) Help() string {
	return "For cron, and for tests; `vizier inbox watch` repeats it. Jobs continue after it has returned. Exits 0 even if " +
		"prompts could not run: it renames each of those to NAME.error.md, with the reason in NAME.error.txt beside it."
}

// inboxPass is `inbox once --format json`.
type inboxPass struct {
	Outcome  string        `json:"outcome"`
	Taken    []inboxTaken  `json:"taken"`
	Failed   []inboxReason `json:"failed"`
	Renamed  []inboxReason `json:"renamed"`
	Finished []string      `json:"finished"`
	Ended    []inboxEnd    `json:"ended"`     // only of watch
	Asked    []inboxAsked  `json:"approvals"` // only of watch
	Left     []inboxReason `json:"left"`
	Waiting  int           `json:"waiting"`

	moved []app.Moved
}

type inboxTaken struct {
	Rel string       `json:"inbox_rel"`
	Job kernel.JobID `json:"job_id"`
	view.Reference
	Run        kernel.RunID `json:"run_id"`
	Repository string       `json:"repository"`
}

// taken converts t, adding the job's reference.
func (u *ui) taken(t app.Taken) inboxTaken {
	return inboxTaken{t.Rel, t.Job, u.refs.of(string(t.Job)), t.Run, t.Repository}
}

// inboxEnd is how the run of a prompt ended.
type inboxEnd struct {
	inboxTaken
	Status    string `json:"status"`     // of the run
	JobStatus string `json:"job_status"` // of the job that stands for the prompt
	Reason    string `json:"reason,omitempty"`
}

// inboxAsked is an approval that the run of a prompt waits for.
type inboxAsked struct {
	inboxTaken
	Approve kernel.JobID `json:"approve"` // the job to approve
	Called  string       `json:"approve_ref,omitempty"`
}

type inboxReason struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func (u *ui) inboxPass(rep app.InboxReport) inboxPass {
	doc := inboxPass{Outcome: "inbox_scanned", Taken: []inboxTaken{}, Failed: reasons(rep.Failed), Renamed: reasons(rep.Renamed), Finished: []string{}, Ended: []inboxEnd{}, Asked: []inboxAsked{},
		Left: reasons(rep.Left), Waiting: rep.Waiting, moved: rep.Finished}
	for _, t := range rep.Taken {
		doc.Taken = append(doc.Taken, u.taken(t))
	}
	for _, e := range rep.Ended {
		end := inboxEnd{u.taken(e.Taken), e.How.Status.String(), e.Status.String(), ""}
		if e.Status != kernel.Succeeded {
			end.Reason = e.How.Why()
		}
		doc.Ended = append(doc.Ended, end)
	}
	for _, a := range rep.Asked {
		doc.Asked = append(doc.Asked, inboxAsked{u.taken(a.Taken), a.Approve, u.refs.of(string(a.Approve)).Ref})
	}
	for _, m := range rep.Finished {
		doc.Finished = append(doc.Finished, m.Path)
	}
	return doc
}

func reasons(all []app.Left) []inboxReason {
	out := make([]inboxReason, len(all))
	for i, l := range all {
		out[i] = inboxReason(l)
	}
	return out
}

// Run makes one pass.
func (x *inboxOnceCmd) Run(c *call) error {
	r, err := c.ownRepo()
	if err != nil {
		return err
	}
	box, err := r.Inbox(c.asker())
	if err != nil {
		return err
	}
	rep, err := box.Once(c.ctx, true)
	if err != nil {
		return inboxMissing(err)
	}
	doc := c.ui.inboxPass(rep)
	if x.Format == "json" {
		return c.ui.json(doc)
	}
	c.ui.print("Outcome: " + doc.summary())
	c.ui.text(doc.lines())
	return nil
}

// summary returns the numbers of prompts by result.
func (doc inboxPass) summary() string {
	text := view.Counted(len(doc.Taken), "prompt") + " taken"
	for _, part := range []struct {
		n    int
		what string
	}{{len(doc.Failed), "refused"}, {len(doc.Finished), "moved to finished"}, {doc.Waiting, "not due yet"}, {len(doc.Left), "left untouched"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return text
}

// lines describes what happened, one line per file.
func (doc inboxPass) lines() string {
	var b strings.Builder
	for _, t := range doc.Taken {
		fmt.Fprintf(&b, "taken: %s is job %s\n", readable(t.Rel), t.Job)
	}
	for _, f := range doc.Failed {
		fmt.Fprintf(&b, "failed: %s: %s\n", readable(f.Path), oneLine(f.Reason))
	}
	for _, e := range doc.Ended {
		fmt.Fprintf(&b, "%s: %s, job %s", e.Status, readable(e.Rel), e.Job)
		if e.Reason != "" {
			fmt.Fprintf(&b, ": %s", oneLine(e.Reason))
		}
		if e.JobStatus != kernel.Succeeded.String() {
			fmt.Fprintf(&b, "; next: vizier why %s", e.Job)
		}
		b.WriteByte('\n')
	}
	for _, a := range doc.Asked {
		fmt.Fprintf(&b, "approval pending: %s, job %s; next: vizier jobs approve %s\n", readable(a.Rel), a.Job, a.Approve)
	}
	for _, l := range doc.Renamed {
		fmt.Fprintf(&b, "renamed: %s: %s\n", readable(l.Path), oneLine(l.Reason))
	}
	for _, m := range doc.moved {
		fmt.Fprintf(&b, "moved: %s to %s\n", readable(m.Path), readable(m.To))
	}
	for _, l := range doc.Left {
		fmt.Fprintf(&b, "left: %s: %s\n", readable(l.Path), oneLine(l.Reason))
	}
	return b.String()
}

// readable returns a file's name on one line, quoted if necessary.
func readable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
		return fmt.Sprintf("%q", name)
	}
	return name
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

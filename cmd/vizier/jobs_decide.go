package main

import (
	"cmp"
	"strings"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

type approveCmd struct {
	Job    string `arg:"" help:"The job: its id or the beginning of it, RUN/NODE, or @last."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"How the answer looks."`
}

// approved is `jobs approve --format json`.
type approved struct {
	Outcome       string         `json:"outcome"`
	Job           kernel.JobID   `json:"job"`
	Status        string         `json:"status"`
	ApprovalState string         `json:"approval_state"`
	Started       []kernel.JobID `json:"started"`
	Updated       []kernel.JobID `json:"updated"`
}

// Run grants the approval.
func (a *approveCmd) Run(c *call) error {
	r, id, err := c.named(a.Job)
	if err != nil {
		return err
	}
	rep, err := r.Scheduler.Approve(c.ctx, id, c.actor())
	if err != nil {
		return err
	}
	c.report(rep)
	st := rep.Snapshot.Job(id).State
	doc := approved{"Job approval granted", id, st.Status.String(), st.Approval.State.String(), listed(rep.Started()), listed(rep.Updated())}
	if a.Format == "json" {
		return c.ui.json(doc)
	}
	c.ui.text(block([]row{{"Outcome", doc.Outcome}, {"Job", string(id)}, {"Status", doc.Status},
		{"Approval state", doc.ApprovalState}, {"Started", joined(doc.Started)}, {"Updated", joined(doc.Updated)}}, ""))
	return nil
}

// named opens the repository and finds the job that ref means.
func (c *call) named(ref string) (*repo, kernel.JobID, error) {
	r, err := c.repo()
	if err != nil {
		return nil, "", err
	}
	_, id, err := r.job(c.ctx, ref)
	return r, id, err
}

type rejectCmd struct {
	Job    string `arg:"" help:"The job: its id or the beginning of it, RUN/NODE, or @last."`
	Reason string `placeholder:"TEXT" help:"Why; it goes on record."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"How the answer looks."`
}

// rejected is `jobs reject --format json`.
type rejected struct {
	Outcome       string       `json:"outcome"`
	Job           kernel.JobID `json:"job"`
	Status        string       `json:"status"`
	ApprovalState string       `json:"approval_state"`
	Reason        string       `json:"reason"`
}

// Run refuses the approval and with it the job.
func (x *rejectCmd) Run(c *call) error {
	r, id, err := c.named(x.Job)
	if err != nil {
		return err
	}
	rep, err := r.Scheduler.Reject(c.ctx, id, c.actor(), x.Reason)
	if err != nil {
		return err
	}
	c.report(rep)
	st := rep.Snapshot.Job(id).State
	doc := rejected{"Job approval rejected", id, st.Status.String(), st.Approval.State.String(), cmp.Or(st.Approval.Reason, "approval rejected")}
	if x.Format == "json" {
		return c.ui.json(doc)
	}
	c.ui.text(block([]row{{"Outcome", doc.Outcome}, {"Job", string(id)}, {"Status", doc.Status},
		{"Approval state", doc.ApprovalState}, {"Reason", doc.Reason}}, ""))
	return nil
}

type retryCmd struct {
	Job    string `arg:"" help:"The job: its id or the beginning of it, RUN/NODE, or @last."`
	DryRun bool   `help:"Only print the jobs that would run again, and why each of them."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"How the answer looks."`
}

// retried is `jobs retry --format json`.
type retried struct {
	Outcome             string                  `json:"outcome"`
	RequestedJob        kernel.JobID            `json:"requested_job"`
	RetryRoot           kernel.JobID            `json:"retry_root"`
	LastSuccessfulPoint []kernel.JobID          `json:"last_successful_point"`
	RetrySet            []kernel.JobID          `json:"retry_set"`
	Reset               []kernel.JobID          `json:"reset"`
	Restarted           []kernel.JobID          `json:"restarted"`
	Updated             []kernel.JobID          `json:"updated"`
	Reasons             map[kernel.JobID]string `json:"reasons"` // why each job is in the set
}

// Run rewinds the job and what depends on it.
func (x *retryCmd) Run(c *call) error {
	r, id, err := c.named(x.Job)
	if err != nil {
		return err
	}
	set, err := r.Scheduler.RetrySet(c.ctx, id)
	if err != nil {
		return err
	}
	doc := retried{"Jobs to retry", id, set.Root, listed(set.Succeeded), listed(set.Jobs),
		[]kernel.JobID{}, []kernel.JobID{}, []kernel.JobID{}, set.Why}
	if !x.DryRun {
		rep, err := r.Scheduler.Retry(c.ctx, id, c.actor())
		if err != nil {
			return err
		}
		c.report(rep)
		c.warnDegraded(rep, set.Jobs)
		doc.Outcome, doc.Reset = "Jobs retried", doc.RetrySet
		doc.Restarted, doc.Updated = within(rep.Started(), set.Jobs), within(rep.Updated(), set.Jobs)
	}
	if x.Format == "json" {
		return c.ui.json(doc)
	}
	c.ui.text(doc.text(x.DryRun))
	return nil
}

func (doc retried) text(dryRun bool) string {
	rows := []row{{"Outcome", doc.Outcome}, {"Requested", string(doc.RequestedJob)}, {"Retry root", string(doc.RetryRoot)},
		{"Last successful point", joined(doc.LastSuccessfulPoint)}, {"Retry set", joined(doc.RetrySet)}}
	if !dryRun {
		rows = append(rows, row{"Reset", joined(doc.Reset)}, row{"Restarted", joined(doc.Restarted)})
		if len(doc.Updated) > 0 {
			rows = append(rows, row{"Updated", joined(doc.Updated)})
		}
		return block(rows, "")
	}
	var b strings.Builder
	b.WriteString(block(rows, "") + "\n")
	for _, id := range doc.RetrySet {
		b.WriteString("  " + string(id) + "  " + doc.Reasons[id] + "\n")
	}
	return b.String()
}

// warnDegraded tells which worktrees a rewind could not take away.
func (c *call) warnDegraded(rep app.Report, set []kernel.JobID) {
	for _, id := range set {
		if j := rep.Snapshot.Job(id); j != nil && j.State.Retried.Error != "" {
			c.ui.warn("retry cleanup degraded for %s: %s; worktree metadata retained for future cleanup", id, j.State.Retried.Error)
		}
	}
}

// within is the ids that are in set too.
func within(ids, set []kernel.JobID) []kernel.JobID {
	in := make(map[kernel.JobID]bool, len(set))
	for _, id := range set {
		in[id] = true
	}
	out := []kernel.JobID{}
	for _, id := range ids {
		if in[id] {
			out = append(out, id)
		}
	}
	return out
}

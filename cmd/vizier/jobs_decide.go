package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type approveCmd struct {
	Jobs   []string `arg:"" name:"job" help:"The jobs, or runs with one pending job: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	Digest string   `placeholder:"SHA256" help:"Approve only if the digest is this one; show and jobs approve print it."`
	Head   *string  `placeholder:"COMMIT" help:"Approve only if the branch that the job works on or merges is at this commit: its whole id."`
	Format string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

// approved is `jobs approve --format json`.
type approved struct {
	Outcome string       `json:"outcome"`
	Job     kernel.JobID `json:"job"`
	view.Reference
	Status        string          `json:"status"`
	ApprovalState string          `json:"approval_state"`
	Digest        kernel.Digest   `json:"digest"`         // of what was approved
	Head          kernel.CommitID `json:"head,omitempty"` // of the branch, which it covers; "": it covers none
	Approves      []string        `json:"approves"`       // the lines of its statement
	Started       []kernel.JobID  `json:"started"`
	Updated       []kernel.JobID  `json:"updated"`

	Refs map[kernel.JobID]string `json:"refs,omitempty"` // references of the listed jobs
}

// approvals is `jobs approve --format json` of several jobs.
type approvals struct {
	Approvals []approved `json:"approvals"`
}

// commitID is the whole id of a commit.
var commitID = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// Run grants the approvals, and prints what it approved.
func (a *approveCmd) Run(c *call) error {
	if (a.Digest != "" || a.Head != nil) && len(a.Jobs) > 1 {
		return usageError(errors.New("--digest and --head are for one job: name only that job"))
	}
	if a.Head != nil && !commitID.MatchString(*a.Head) {
		return usageError(fmt.Errorf("--head %q: expected the whole id of a commit, as `git rev-parse BRANCH` prints it", *a.Head))
	}
	return decide(c, a.Jobs, a.Format, a.approve, func(all []approved) any { return approvals{all} })
}

func (a *approveCmd) approve(c *call, r *repo, j *kernel.Job) (approved, error) {
	c.warnSteering(r, j) // before it runs: a merge would remove the branch
	id := j.ID
	consent := kernel.Consent{By: c.actor(), How: c.how(), Digest: kernel.Digest(strings.ToLower(a.Digest))}
	if a.Head != nil {
		consent.Head = kernel.CommitID(*a.Head)
	}
	rep, err := r.Scheduler.Approve(c.ctx, id, consent)
	if err != nil {
		return approved{}, err
	}
	c.report(rep)
	j = rep.Snapshot.Job(id)
	st, g := j.State, j.State.Approval.Grant
	if branch := j.Spec.ApprovedBranch(); branch != "" && st.Approval.Head == "" && !st.Approval.InDoubt {
		c.ui.warn("this approval of %s covers no commit: the job takes branch %s as it is when it starts", id, branch)
	}
	doc := approved{"Job approval granted", id, c.ui.refs.of(string(id)), st.Status.String(), st.Approval.State.String(), g.Digest, st.Approval.Head, answer.Approves(j, g.Statement, r.Templates), listed(rep.Started()), listed(rep.Updated()), nil}
	if a.Format == "json" {
		doc.Refs = c.ui.refs.among(doc.Started, doc.Updated)
		return doc, nil
	}
	c.ui.block([]row{{"Outcome", doc.Outcome}, {"Job", string(id)}, {"Status", doc.Status},
		{"Approval state", doc.ApprovalState}, {"Digest", string(doc.Digest)}, {"Started", joined(doc.Started)}, {"Updated", joined(doc.Updated)}})
	for _, line := range doc.Approves {
		c.ui.verbatim("  " + line + "\n")
	}
	return doc, nil
}

// decide calls one for the pending approval of each reference, and prints the JSON if that is the format. If there are
// several, it first checks that all of them are pending; one that is refused even so keeps none of the others from
// being decided, and several makes the document of all.
func decide[T any](c *call, refs []string, format string, one func(*call, *repo, *kernel.Job) (T, error), several func([]T) any) error {
	var r *repo
	var jobs []*kernel.Job
	for _, ref := range refs {
		in, j, err := c.pendingIn(ref)
		if err != nil {
			return err
		}
		if r = in; slices.ContainsFunc(jobs, func(k *kernel.Job) bool { return k.ID == j.ID }) {
			continue
		}
		if len(refs) > 1 {
			snap, _, err := r.Scheduler.Job(c.ctx, string(j.ID))
			if err != nil {
				return err
			}
			if snap.Job(j.ID).State.Approval.State != kernel.Pending {
				return fmt.Errorf("the approval of %s is not pending; nothing was decided: %w", ref, kernel.ErrConflict)
			}
		}
		jobs = append(jobs, j)
	}
	var docs []T
	var failed []error
	for _, j := range jobs {
		if doc, err := one(c, r, j); err != nil {
			failed = append(failed, err)
		} else {
			docs = append(docs, doc)
		}
		if c.ctx.Err() != nil {
			break
		}
	}
	if format == "json" && len(docs) > 0 {
		var doc any = docs[0]
		if len(refs) > 1 {
			doc = several(docs)
		}
		failed = append(failed, c.ui.json(doc))
	}
	return errors.Join(failed...)
}

// how returns how the decision is made: at a terminal, or by a script.
func (c *call) how() string {
	if in, ok := c.stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return "terminal"
	}
	return "script"
}

type rejectCmd struct {
	Jobs   []string `arg:"" name:"job" help:"The jobs, or runs with one pending job: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	Reason string   `placeholder:"TEXT" help:"The reason, for the record."`
	Format string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

// rejected is `jobs reject --format json`.
type rejected struct {
	Outcome string       `json:"outcome"`
	Job     kernel.JobID `json:"job"`
	view.Reference
	Status        string `json:"status"`
	ApprovalState string `json:"approval_state"`
	Reason        string `json:"reason"`
}

// rejections is `jobs reject --format json` of several jobs.
type rejections struct {
	Rejections []rejected `json:"rejections"`
}

// Run refuses the approvals, and so the jobs.
func (x *rejectCmd) Run(c *call) error {
	return decide(c, x.Jobs, x.Format, x.reject, func(all []rejected) any { return rejections{all} })
}

func (x *rejectCmd) reject(c *call, r *repo, j *kernel.Job) (rejected, error) {
	id := j.ID
	rep, err := r.Scheduler.Reject(c.ctx, id, kernel.Refusal{By: c.actor(), How: c.how(), Reason: x.Reason})
	if err != nil {
		return rejected{}, err
	}
	c.report(rep)
	st := rep.Snapshot.Job(id).State
	doc := rejected{"Job approval rejected", id, c.ui.refs.of(string(id)), st.Status.String(), st.Approval.State.String(), cmp.Or(st.Approval.Reason, "approval rejected")}
	if x.Format == "json" {
		return doc, nil
	}
	c.ui.block([]row{{"Outcome", doc.Outcome}, {"Job", string(id)}, {"Status", doc.Status},
		{"Approval state", doc.ApprovalState}, {"Reason", doc.Reason}})
	return doc, nil
}

type retryCmd struct {
	Jobs   []string `arg:"" optional:"" name:"job" help:"The jobs, or runs, whose failed and blocked jobs run again: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	Failed bool     `help:"Retry all failed jobs, and those that need you only for a retry."`
	DryRun bool     `help:"Only print the jobs that would run again, each with the reason."`
	Format string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

// The outcomes of a retry that let nothing run again, of a job that was blocked, and of another one.
const (
	stillBlocked = "Blocked as before"
	nowBlocked   = "Blocked now"
)

// retriedJobs is `jobs retry --format json` of a run, of all that failed, or of
// several jobs.
type retriedJobs struct {
	Retries []retried `json:"retries"`
}

// retried is `jobs retry --format json`.
type retried struct {
	Outcome      string       `json:"outcome"`
	RequestedJob kernel.JobID `json:"requested_job"`
	view.Reference
	RetryRoot           kernel.JobID            `json:"retry_root"`
	LastSuccessfulPoint []kernel.JobID          `json:"last_successful_point"`
	RetrySet            []kernel.JobID          `json:"retry_set"`
	Reset               []kernel.JobID          `json:"reset"`
	Restarted           []kernel.JobID          `json:"restarted"`
	Updated             []kernel.JobID          `json:"updated"`
	AwaitingApproval    []kernel.JobID          `json:"awaiting_approval,omitempty"` // those that wait for it now
	Reasons             map[kernel.JobID]string `json:"reasons"`                     // why each job is in the set
	Refs                map[kernel.JobID]string `json:"refs,omitempty"`              // references of the listed jobs
}

// Run rewinds the jobs and what depends on them.
func (x *retryCmd) Run(c *call) error {
	if x.Failed == (len(x.Jobs) > 0) {
		return usageError(errors.New("expected jobs to retry, or --failed"))
	}
	r, ids, single, err := x.chosen(c)
	if err != nil {
		return err
	}
	doc := retriedJobs{Retries: []retried{}}
	if len(ids) > 0 {
		doc.Retries, err = x.retry(c, r, ids)
		if x.Failed && (errors.Is(err, kernel.ErrRunning) || errors.Is(err, kernel.ErrConflict)) {
			doc.Retries, err = x.retryOthers(c, r, ids, err)
		}
		if err != nil {
			return err
		}
	}
	var lines []doneLine
	for i := range doc.Retries {
		one := &doc.Retries[i]
		switch {
		case x.Format == "json":
			one.Refs = c.ui.refs.among(one.LastSuccessfulPoint, one.RetrySet, one.Updated)
		case len(doc.Retries) == 1:
			c.ui.verbatim(prose(hung(c.ui.people(one.text(x.DryRun)), c.ui.columns()), c.ui.columns()))
		case x.DryRun:
			for _, id := range one.RetrySet {
				lines = append(lines, doneLine{job: id, what: "would run again: " + one.Reasons[id]})
			}
		default:
			lines = append(lines, one.line())
		}
	}
	c.ui.done(lines)
	switch {
	case x.Format == "json" && single:
		err = c.ui.json(doc.Retries[0])
	case x.Format == "json":
		err = c.ui.json(doc)
	case len(ids) == 0:
		c.ui.print("Nothing to retry")
	}
	if err == nil && len(ids) > 0 && !slices.ContainsFunc(doc.Retries, func(one retried) bool { return !one.stuck() }) {
		err = exits(10)
	}
	return err
}

// chosen returns the jobs to retry: those that were named and, for runs and for
// --failed, those whose retries let the runs end. single is true if one job was
// named.
func (x *retryCmd) chosen(c *call) (r *repo, ids []kernel.JobID, single bool, err error) {
	var jobs []*kernel.Job
	named := map[kernel.JobID]bool{} // named itself, not just its run
	if x.Failed {
		if r, err = c.repo(); err != nil {
			return nil, nil, false, err
		}
		snap, err := r.Scheduler.Records(c.ctx, kernel.Scope{})
		if err != nil {
			return nil, nil, false, err
		}
		jobs = view.FailedOrBlocked(snap)
	} else {
		var targets []view.Target
		if r, targets, err = c.targets(x.Jobs); err != nil {
			return nil, nil, false, err
		}
		for _, t := range targets {
			of := t.Jobs
			if t.Whole {
				of = view.ToRetry(of)
			}
			jobs = append(jobs, of...)
			for _, j := range of {
				named[j.ID] = named[j.ID] || !t.Whole
			}
		}
		single = len(targets) == 1 && !targets[0].Whole
	}
	slices.SortFunc(jobs, (*kernel.Job).Compare)
	var others []kernel.JobID
	for _, j := range slices.Compact(jobs) {
		if named[j.ID] {
			ids = append(ids, j.ID)
		} else {
			others = append(others, j.ID)
		}
	}
	ways, err := r.Scheduler.WaysOut(c.ctx, others)
	return r, append(ids, ways...), single, err
}

// retryOthers retries those of ids that can be retried now, and says why the others cannot.
// err is the error of retrying all of them; it returns that if none can be retried.
func (x *retryCmd) retryOthers(c *call, r *repo, ids []kernel.JobID, err error) ([]retried, error) {
	can, refused, broken := r.Scheduler.Retryable(c.ctx, ids)
	if broken != nil || len(can) == 0 {
		return nil, cmp.Or(broken, err)
	}
	docs, err := x.retry(c, r, can)
	for _, id := range ids {
		if why := refused[id]; err == nil && why != nil {
			c.ui.warn("%s is not retried: %s", id, why)
		}
	}
	return docs, err
}

// retry rewinds jobs and what depends on them.
func (x *retryCmd) retry(c *call, r *repo, ids []kernel.JobID) ([]retried, error) {
	sets, err := r.Scheduler.RetrySets(c.ctx, ids)
	if err != nil {
		return nil, err
	}
	var rep app.Report
	var before *kernel.Snapshot
	if !x.DryRun {
		if before, err = r.Scheduler.Records(c.ctx, app.Only(ids)); err != nil {
			return nil, err
		}
		if rep, err = r.Scheduler.Retry(c.ctx, c.actor(), ids...); err != nil {
			return nil, err
		}
		c.report(rep)
	}
	c.ui.refs.among(ids) // look them all up with one read
	docs, at := make([]retried, 0, len(sets)), map[kernel.JobID]int{}
	for i, set := range sets {
		for _, id := range set.Jobs {
			at[id] = i
		}
		doc := retried{"Jobs to retry", set.Of, c.ui.refs.of(string(set.Of)), set.Root, listed(set.Succeeded), listed(set.Jobs),
			[]kernel.JobID{}, []kernel.JobID{}, []kernel.JobID{}, nil, set.Why, nil}
		if !x.DryRun {
			c.warnDegraded(rep, set.Jobs)
			doc.Outcome, doc.Reset = "Jobs retried", doc.RetrySet
			if j := rep.Snapshot.Job(set.Of); j != nil && j.State.Status == kernel.BlockedByDependency {
				blocked := stillBlocked
				if was := before.Job(set.Of); was != nil && was.State.Status != kernel.BlockedByDependency {
					blocked = nowBlocked
				}
				if !slices.ContainsFunc(set.Jobs, func(id kernel.JobID) bool { k := rep.Snapshot.Job(id); return k != nil && k.State.Status.Active() }) {
					doc.Outcome = blocked
				}
				c.ui.warn("%s is %s: %s: `vizier why %s` says what to do", j.ID, strings.ToLower(blocked), j.State.Wait.Detail, j.ID)
			}
			for _, id := range set.Jobs {
				if j := rep.Snapshot.Job(id); j != nil && j.State.Status == kernel.WaitingOnApproval {
					doc.AwaitingApproval = append(doc.AwaitingApproval, id)
				}
			}
		}
		docs = append(docs, doc)
	}
	if x.DryRun {
		return docs, nil
	}
	for _, id := range rep.Started() {
		if i, in := at[id]; in {
			docs[i].Restarted = append(docs[i].Restarted, id)
		}
	}
	for _, id := range rep.Updated() {
		if i, in := at[id]; in {
			docs[i].Updated = append(docs[i].Updated, id)
		}
	}
	return docs, nil
}

// stuck reports whether the retry let nothing run again.
func (doc retried) stuck() bool { return doc.Outcome == stillBlocked || doc.Outcome == nowBlocked }

// line describes a retry on one line, for use with several.
func (doc retried) line() doneLine {
	if doc.stuck() {
		return doneLine{job: doc.RequestedJob, what: "is " + strings.ToLower(doc.Outcome)}
	}
	text := "retried"
	if n := len(doc.RetrySet) - 1; n > 0 {
		text += ", and " + view.Counted(n, "job") + " after it"
	}
	l := doneLine{job: doc.RequestedJob, what: text}
	if len(doc.AwaitingApproval) > 0 {
		l.approve = doc.approve()
	}
	return l
}

// approve returns the command that approves what waits for it now.
func (doc retried) approve() string {
	command := "vizier jobs approve"
	for _, id := range doc.AwaitingApproval {
		command += " " + string(id)
	}
	return command
}

func (doc retried) text(dryRun bool) string {
	many := len(doc.RetrySet) > most
	set := joined(doc.RetrySet)
	if many && dryRun { // the lines below name them
		set = view.Counted(len(doc.RetrySet), "job")
	}
	rows := []row{{"Outcome", doc.Outcome}, {"Requested", string(doc.RequestedJob)}, {"Retry root", string(doc.RetryRoot)},
		{"Last successful point", joined(doc.LastSuccessfulPoint)}, {"Retry set", set}}
	if !dryRun {
		of := func(ids []kernel.JobID) string {
			if all := slices.Sorted(slices.Values(doc.RetrySet)); many && slices.Equal(slices.Sorted(slices.Values(ids)), all) {
				return "all " + view.Counted(len(ids), "job")
			}
			return joined(ids)
		}
		rows = append(rows, row{"Reset", of(doc.Reset)}, row{"Restarted", joined(doc.Restarted)})
		if len(doc.Updated) > 0 {
			rows = append(rows, row{"Updated", of(doc.Updated)})
		}
		if len(doc.AwaitingApproval) > 0 {
			rows = append(rows, row{"Needs approval", joined(doc.AwaitingApproval)}, row{"Next", doc.approve()})
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

// warnDegraded warns of worktrees that a rewind could not remove.
func (c *call) warnDegraded(rep app.Report, set []kernel.JobID) {
	for _, id := range set {
		if j := rep.Snapshot.Job(id); j != nil && j.State.Retried.Error != "" {
			c.ui.warn("retry cleanup degraded for %s: %s; worktree metadata retained for future cleanup", id, j.State.Retried.Error)
		}
	}
}

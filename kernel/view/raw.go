package view

import (
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// RawList is `jobs list --format json --raw`: docs/schemas/jobs_raw.schema.json.
type RawList struct {
	Version     int          `json:"version"` // 1
	GeneratedAt string       `json:"generated_at"`
	Jobs        []RawJob     `json:"jobs"`
	Unreadable  []Unreadable `json:"unreadable,omitempty"`
}

// RawShow is `jobs show --format json --raw`, by the same schema.
type RawShow struct {
	Version     int    `json:"version"` // 1
	GeneratedAt string `json:"generated_at"`
	Job         RawJob `json:"job"`
}

// RawJob is a job whose fields keep their types: numbers are numbers, lists are
// lists, and an absent value is null. Artifacts are written as labels.
type RawJob struct {
	JobID kernel.JobID `json:"job_id"`
	Reference
	Name         string            `json:"name"`
	Tags         map[string]string `json:"tags"`
	Status       string            `json:"status"`
	Command      []string          `json:"command"`
	CreatedAt    string            `json:"created_at"`
	StartedAt    *string           `json:"started_at"`
	FinishedAt   *string           `json:"finished_at"`
	PID          *int              `json:"pid"`
	Host         *string           `json:"host"`
	ExitCode     *int              `json:"exit_code"`
	StdoutPath   string            `json:"stdout_path"`
	StderrPath   string            `json:"stderr_path"`
	OutcomePath  *string           `json:"outcome_path"`
	Wait         *RawWait          `json:"wait"`
	Progress     *Progress         `json:"progress,omitempty"`
	WaitedOn     []string          `json:"waited_on"`
	Attempt      int               `json:"attempt"`
	Generation   int               `json:"generation"`
	FailureClass *string           `json:"failure_class"`
	Reason       *string           `json:"reason"`
	RetryAt      *string           `json:"retry_at"`
	Agent        *Agent            `json:"agent"`              // what the latest agent reported
	AgentTotal   *AgentTotal       `json:"agent_total"`        // of all attempts
	Attempts     []Attempt         `json:"attempts,omitempty"` // only in show
	Schedule     RawGates          `json:"schedule"`
	Workflow     RawWorkflow       `json:"workflow"`
	Context      RawContext        `json:"context"`
	Record       any               `json:"record,omitempty"` // only in show: the whole record, as its store writes it
}

// RawWait is the gate that holds a job up, and why.
type RawWait struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
}

// RawGates are the conditions a job starts on and what it makes.
type RawGates struct {
	After        []RawAfter   `json:"after"`
	Dependencies []string     `json:"dependencies"`
	Artifacts    []string     `json:"artifacts"`
	Locks        []RawLock    `json:"locks"`
	Approval     *RawApproval `json:"approval"`
	PinnedHead   *RawHead     `json:"pinned_head"`
}

// RawAfter is an edge to another job.
type RawAfter struct {
	JobID  kernel.JobID `json:"job_id"`
	Policy string       `json:"policy"` // success, or any end
}

// RawLock is a key with its mode or, where units is positive, a pool.
type RawLock struct {
	Key   string `json:"key"`
	Mode  string `json:"mode"`
	Units int    `json:"units,omitempty"`
}

// RawApproval is a job's human gate.
type RawApproval struct {
	Required    bool    `json:"required"` // true
	State       string  `json:"state"`
	RequestedAt *string `json:"requested_at"`
	RequestedBy *string `json:"requested_by"`
	DecidedAt   *string `json:"decided_at"`
	DecidedBy   *string `json:"decided_by"`
	ExpiresAt   *string `json:"expires_at"`
	Reason      *string `json:"reason"`

	DecidedHow *string `json:"decided_how"`
	Digest     *string `json:"digest"` // of what was approved
	Seal       *string `json:"seal"`   // whether the job still does what was approved: sealed, broken, or unsealed if no digest is on record; null: it is not approved
}

// RawHead is the commit a branch must be at.
type RawHead struct {
	Branch string          `json:"branch"`
	OID    kernel.CommitID `json:"oid"`
}

// RawWorkflow says which node of which run a job is. Everything is null for a
// job that was submitted by itself.
type RawWorkflow struct {
	RunID             *string `json:"run_id"`
	NodeID            *string `json:"node_id"`
	NodeName          *string `json:"node_name"`
	ExecutorClass     *string `json:"executor_class"`
	ExecutorOperation *string `json:"executor_operation"`
	ControlPolicy     *string `json:"control_policy"`
	TemplateSelector  *string `json:"template_selector"`
	TemplateID        *string `json:"template_id"`
	TemplateVersion   *string `json:"template_version"`
}

// RawContext is what a job is about and where it runs.
type RawContext struct {
	CommandAlias  *string `json:"command_alias"`
	Plan          *string `json:"plan"`
	Target        *string `json:"target"`
	Branch        *string `json:"branch"`
	ExecutionRoot *string `json:"execution_root"`
}

// Raw returns l with whole records. paths is called for each job.
func (l List) Raw(paths func(kernel.JobID) Paths) RawList {
	out := RawList{1, stamp(l.at), make([]RawJob, len(l.Rows)), l.Unreadable}
	for i, r := range l.Rows {
		p := paths(r.ID)
		p.Progress = r.progress
		out.Jobs[i] = raw(record{Job: r.job, Paths: p, standing: r.standing, remark: r.remark})
	}
	return out
}

// ShowRaw is Show with typed fields and the job's record.
func ShowRaw(s *kernel.Snapshot, id kernel.JobID, p Paths, stored any) (RawShow, error) {
	j, err := find(s, id)
	if err != nil {
		return RawShow{}, err
	}
	j = begun(s, j)
	doc := raw(record{Job: j, Paths: p, standing: Standing(s, j), remark: s.Remark(id)})
	doc.Attempts, doc.Record = attempts(j, p.Attempts), stored
	return RawShow{1, stamp(s.Now()), doc}, nil
}

func raw(r record) RawJob {
	st := r.State
	j := RawJob{
		JobID: r.ID, Reference: ReferenceOf(r.Job), Name: Title(r.Job), Tags: map[string]string{}, Status: r.standing, Command: orEmpty(argv(r.Job)), CreatedAt: stamp(r.Created),
		StartedAt: moment(st.Started), FinishedAt: moment(st.Finished),
		StdoutPath: r.Stdout, StderrPath: r.Stderr, OutcomePath: nullable(r.Outcome),
		Wait: rawWait(st.Wait), Progress: progressOf(r.Progress), WaitedOn: texts(st.WaitedOn.Kinds(), kernel.WaitKind.String),
		Attempt: st.Attempt, Generation: st.Generation, FailureClass: nullable(st.Failure.String()),
		Reason: nullable(st.Reason), RetryAt: moment(st.RetryAt), Schedule: rawGates(r.Job),
	}
	for _, t := range r.Spec.Tags {
		j.Tags[t.Key] = t.Value
	}
	if n := pid(r); n != 0 {
		j.PID = &n
	}
	j.Host, j.Agent, j.AgentTotal = nullable(st.Place.Host), agentOf(lastAgent(r.Job)), total(st.Agent)
	if st.Exit.Known {
		j.ExitCode = &st.Exit.Code
	}
	o := r.Spec.Origin
	j.Workflow = RawWorkflow{nullable(string(o.Run)), nullable(o.Node), nullable(o.About.Name), nullable(o.About.Class),
		nullable(o.About.Operation), nullable(o.About.Control), nullable(o.Template.Selector), nullable(o.Template.ID),
		nullable(o.Template.Version)}
	j.Context = RawContext{nullable(o.Alias), nullable(o.Plan), nullable(o.Target), nullable(o.Branch), nullable(st.Context.Root)}
	return j
}

func rawWait(w kernel.WaitReason) *RawWait {
	if w.Kind == kernel.NoWait {
		return nil
	}
	return &RawWait{w.Kind.String(), w.Detail}
}

func rawGates(j *kernel.Job) RawGates {
	g := RawGates{After: make([]RawAfter, len(j.Spec.After)), Locks: make([]RawLock, len(j.Spec.Locks)),
		Dependencies: texts(j.Spec.Needs, kernel.Artifact.String), Artifacts: texts(j.Spec.Produces, kernel.Artifact.String)}
	for i, id := range j.Spec.After {
		g.After[i] = RawAfter{id, j.Spec.AfterPolicy(id).String()}
	}
	for i, l := range j.Spec.Locks {
		g.Locks[i] = RawLock{l.Key, l.Mode.String(), l.Units}
	}
	if a := j.State.Approval; a.State != kernel.NotRequired {
		g.Approval = &RawApproval{true, a.State.String(), moment(a.RequestedAt), nullable(a.RequestedBy),
			moment(a.DecidedAt), nullable(a.DecidedBy), moment(a.ExpiresAt), nullable(a.Reason), nullable(a.How()), nil, nil}
		if a.State == kernel.Approved {
			g.Approval.Seal = nullable(j.Seal().String())
		}
		if a.Grant != nil {
			g.Approval.Digest = nullable(string(a.Grant.Digest))
		}
	}
	if p := j.Spec.Pinned; p.Branch != "" {
		g.PinnedHead = &RawHead{p.Branch, p.Commit}
	}
	return g
}

func moment(t time.Time) *string { return nullable(stamp(t)) }

// RawSchedule is `jobs schedule --format json --raw`, by the schedule's schema.
type RawSchedule struct {
	ScheduleDocument
	GeneratedAt string           `json:"generated_at"`
	Jobs        []RawScheduleJob `json:"jobs"`
}

// RawScheduleJob is a row whose wait keeps its kind.
type RawScheduleJob struct {
	ScheduleJob
	Wait *RawWait `json:"wait"`
}

// Raw returns Document with the time of the snapshot and with the kind of each
// wait.
func (s Schedule) Raw() RawSchedule {
	d := RawSchedule{ScheduleDocument: s.Document(), GeneratedAt: stamp(s.snap.Now()), Jobs: make([]RawScheduleJob, len(s.Rows))}
	for i, row := range d.ScheduleDocument.Jobs {
		d.Jobs[i] = RawScheduleJob{row, rawWait(s.snap.Job(row.JobID).State.Wait)}
	}
	return d
}

package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// container returns the image that a job runs in, and the command line that
// starts its container.
func container(r record) string {
	image := r.Spec.Task.Container
	if image != "" && r.Container != "" {
		image += ", by: " + r.Container
	}
	return image
}

// showColumns are the fields of the original's show in its order, followed by
// Vizier's own. Fields whose data Vizier's records do not have are left out.
var showColumns = []column{
	{Field{"job", "ID", true}, func(r record) string { return string(r.ID) }},
	{Field{"number", "Number", false}, numberText},
	{Field{"ref", "Ref", false}, func(r record) string { return r.Ref() }},
	{Field{"status", "Status", true}, func(r record) string { return r.standing }},
	{Field{"pid", "PID", true}, func(r record) string { return number(pid(r)) }},
	{Field{"started", "Started", true}, func(r record) string { return stamp(r.State.Started) }},
	{Field{"finished", "Finished", true}, func(r record) string { return stamp(r.State.Finished) }},
	{Field{"exit_code", "Exit code", true}, exitCode},
	{Field{"stdout", "Stdout", true}, func(r record) string { return r.Stdout }},
	{Field{"stderr", "Stderr", true}, func(r record) string { return r.Stderr }},
	{Field{"outcome", "Outcome", true}, func(r record) string { return r.Outcome }},
	{Field{"scope", "Scope", true}, func(r record) string { return r.Spec.Origin.Alias }},
	{Field{"plan", "Plan", true}, func(r record) string { return r.Spec.Origin.Plan }},
	{Field{"target", "Target", true}, func(r record) string { return r.Spec.Origin.Target }},
	{Field{"branch", "Branch", true}, func(r record) string { return r.Spec.Origin.Branch }},
	{Field{"workflow_run", "Workflow run", false}, func(r record) string { return string(r.Spec.Origin.Run) }},
	{Field{"workflow_template", "Workflow template", true}, template},
	{Field{"workflow_template_version", "Workflow template version", true},
		func(r record) string { return r.Spec.Origin.Template.Version }},
	{Field{"workflow_node", "Workflow node", true}, func(r record) string { return r.Spec.Origin.Node }},
	{Field{"workflow_node_attempt", "Workflow node attempt", false}, nodeAttempt},
	{Field{"workflow_node_outcome", "Workflow node outcome", false}, nodeOutcome},
	{Field{"workflow_executor_class", "Workflow executor class", false},
		func(r record) string { return r.Spec.Origin.About.Class }},
	{Field{"workflow_executor_operation", "Workflow executor operation", false},
		func(r record) string { return r.Spec.Origin.About.Operation }},
	{Field{"workflow_control_policy", "Workflow control policy", false},
		func(r record) string { return r.Spec.Origin.About.Control }},
	{Field{"workflow_policy_snapshot", "Workflow policy snapshot", true},
		func(r record) string { return r.Spec.Origin.Template.PolicyHash }},
	{Field{"workflow_gates", "Workflow gates", true},
		func(r record) string { return strings.Join(r.Spec.Origin.About.Gates, " | ") }},
	{Field{"after", "After", true}, after},
	{Field{"dependencies", "Needs", true}, dependencies},
	{Field{"routes", "Routes", true}, routes},
	{Field{"routes_deferred", "Routes deferred", true}, routesDeferred},
	{Field{"locks", "Locks", true}, func(r record) string { return locks(r.Spec.Locks) }},
	{Field{"wait", "Wait", true}, waiting},
	{Field{"prompt_run", "Prompt's run", true}, func(r record) string { return r.prompt }},
	{Field{"remark", "Remark", true}, func(r record) string { return r.remark }},
	{Field{"progress", "Progress", true}, func(r record) string { return r.Progress.String() }},
	{Field{"progress_error", "Progress error", true}, func(r record) string { return r.Progress.Wrong }},
	{Field{"waited_on", "Waited on", true}, waitedOn},
	{Field{"approval_required", "Approval required", true}, approvalRequired},
	{Field{"approval_state", "Approval state", true}, func(r record) string { return r.State.Approval.State.String() }},
	{Field{"approval_by", "Approval by", true}, func(r record) string { return r.barred.Else() }},
	{Field{"approval_requested_at", "Approval requested at", true},
		func(r record) string { return stamp(r.State.Approval.RequestedAt) }},
	{Field{"approval_requested_by", "Approval requested by", true},
		func(r record) string { return r.State.Approval.RequestedBy }},
	{Field{"approval_decided_at", "Approval decided at", true},
		func(r record) string { return stamp(r.State.Approval.DecidedAt) }},
	{Field{"approval_decided_by", "Approval decided by", true}, func(r record) string { return r.State.Approval.DecidedBy }},
	{Field{"approval_decided_how", "Approval decided how", true}, func(r record) string { return r.State.Approval.How() }},
	{Field{"approval_digest", "Approval digest", true}, approvalDigest},
	{Field{"approval_seal", "Approval seal", true}, approvalSeal},
	{Field{"approval_head", "Approval of commit", true}, approvalHead},
	{Field{"approval_expires_at", "Approval expires at", true},
		func(r record) string { return stamp(r.State.Approval.ExpiresAt) }},
	{Field{"approval_reason", "Approval reason", true}, func(r record) string { return r.State.Approval.Reason }},
	{Field{"requires", "Requires", true}, requires},
	{Field{"pinned_head", "Pinned head", true}, func(r record) string { return pinned(r.Spec.Pinned) }},
	{Field{"artifacts", "Produces", true}, artifacts},
	{Field{"execution_root", "Execution root", false}, func(r record) string { return r.State.Context.Root }},
	{Field{"submitted_from", "Submitted from", true}, func(r record) string { return r.Spec.Task.Tree }},
	{Field{"worktree", "Worktree", true}, func(r record) string { return r.State.Context.Worktree }},
	{Field{"worktree_name", "Worktree name", true}, func(r record) string { return r.State.Context.Name }},
	{Field{"cancel_cleanup", "Cancel cleanup", true}, func(r record) string { return r.State.Cancelled.Status.String() }},
	{Field{"cancel_cleanup_error", "Cancel cleanup error", true}, func(r record) string { return r.State.Cancelled.Error }},
	{Field{"retry_cleanup", "Retry cleanup", false}, func(r record) string { return r.State.Retried.Status.String() }},
	{Field{"retry_cleanup_error", "Retry cleanup error", false}, func(r record) string { return r.State.Retried.Error }},
	{Field{"executor", "Executor", true}, func(r record) string { return r.Spec.Task.Executor }},
	{Field{"executor_options", "Executor options", true}, func(r record) string { return strings.Join(r.Spec.Task.Options, " ") }},
	{Field{"container", "Container", true}, container},
	{Field{"resources", "Resources", true}, func(r record) string { return Resources(r.Job) }},
	{Field{"directory", "Directory", true}, func(r record) string { return r.Spec.Task.Dir }},
	{Field{"environment", "Environment", true}, environment},
	{Field{"secrets", "Secrets", true}, secrets},
	{Field{"sandbox", "Sandbox", true}, sandbox},
	{Field{"time_limit", "Time limit", true}, func(r record) string { return limit(r.Spec.Task.Timeout) }},
	{Field{"estimate", "Estimate", true}, func(r record) string { return limit(r.Spec.Estimate) }},
	{Field{"command", "Command", true}, func(r record) string { return command(r.Job) }},
	{Field{"name", "Name", true}, func(r record) string { return Title(r.Job) }},
	{Field{"tags", "Tags", true}, tags},
	{Field{"created", "Created", true}, func(r record) string { return stamp(r.Created) }},
	{Field{"failure_class", "Failure class", true}, func(r record) string { return r.State.Failure.String() }},
	{Field{"reason", "Reason", true}, func(r record) string { return r.State.Reason }},
	{Field{"wait_since", "Wait since", true}, func(r record) string { return stamp(r.State.WaitSince) }},
	{Field{"attempt", "Attempt", true}, func(r record) string { return number(r.State.Attempt) }},
	{Field{"attempts", "Attempts", true}, func(r record) string {
		return strings.Join(texts(attempts(r.Job, r.Attempts), Attempt.String), " | ")
	}},
	{Field{"host", "Host", false}, func(r record) string { return r.State.Place.Host }},
	{Field{"duration", "Duration", false}, took},
	{Field{"cpu", "CPU time", false}, func(r record) string { return processorTime(r.State.Place.Used) }},
	{Field{"memory", "Peak memory", false}, func(r record) string { return memory(r.State.Place.Used) }},
	{Field{"agent", "Agent", true}, agentText(agentName)},
	{Field{"model", "Model", true}, agentText(func(a *kernel.AgentRun) string { return a.Model })},
	{Field{"session", "Session", true}, agentText(func(a *kernel.AgentRun) string { return a.Session })},
	{Field{"usage", "Usage", true}, usage},
	{Field{"denied", "Denied", true}, agentText(func(a *kernel.AgentRun) string { return strings.Join(a.Denied, ", ") })},
	{Field{"limit_resets_at", "Limit resets at", true}, agentText(func(a *kernel.AgentRun) string { return stamp(a.Resets) })},
	{Field{"generation", "Generation", true}, func(r record) string { return number(r.State.Generation) }},
	{Field{"retries", "Retries", true}, func(r record) string { return usedOf(r.State.Spent.Retries, r.Budget().Retries) }},
	{Field{"retry_on", "Retries on", true}, retryOn},
	{Field{"resumes", "Resumes", true}, func(r record) string { return usedOf(r.State.Spent.Resumes, r.Budget().Resumes) }},
	{Field{"reclaims", "Reclaims", true},
		func(r record) string { return usedOf(r.State.Spent.Reclaims, r.Budget().Reclaims) }},
	{Field{"submitted_by", "Submitted by", true}, func(r record) string { return string(r.Spec.Origin.Parent) }},
	{Field{"front_end", "Front end", true}, func(r record) string { return frontEnd(r.Spec.Origin.Command) }},
	{Field{"transient", "Transient", true}, transient},
	{Field{"idempotency_key", "Idempotency key", true}, func(r record) string { return r.Spec.IdempotencyKey }},
	{Field{"removed", "Files removed", true}, func(r record) string { return stamp(r.State.Removed) }},
	{Field{"hooks", "Hook logs", true}, func(r record) string { return r.Hooks }},
	{Field{"pack", "Files packed in", true}, func(r record) string { return r.Pack }},
	{Field{"parked", "Parked", true}, func(r record) string { return r.Parked }},
	{Field{"retry_at", "Retry at", true}, func(r record) string { return stamp(r.State.RetryAt) }},
	{Field{"deadline", "Deadline", true}, func(r record) string { return stamp(deadline(r)) }},
	{Field{"cancel_requested_at", "Cancel requested at", true}, func(r record) string { return stamp(r.State.Stop.At) }},
	{Field{"cancel_requested_by", "Cancel requested by", true}, func(r record) string { return r.State.Stop.By }},
}

// pid returns the process of the attempt under way, or of the latest that
// ended.
func pid(r record) int {
	all := attempts(r.Job, r.Attempts)
	if n := len(all); n > 0 && all[n-1].PID != nil {
		return *all[n-1].PID
	}
	return 0
}

// frontEnd returns the front end named by the command line that enqueued a job.
func frontEnd(args []string) string {
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "--via="); ok {
			return name
		} else if arg == "--" { // the rest is the job's own command
			return ""
		}
	}
	return ""
}

func template(r record) string {
	if t := r.Spec.Origin.Template; t.Selector == "" {
		return t.ID
	}
	return r.Spec.Origin.Template.Selector
}

func nodeAttempt(r record) string {
	if r.Spec.Origin.Node == "" {
		return ""
	}
	return number(r.State.Attempt)
}

func nodeOutcome(r record) string {
	if r.Spec.Origin.Node == "" {
		return ""
	}
	return r.State.Outcome.String()
}

func transient(r record) string {
	if r.Transient() == kernel.NotTransient {
		return ""
	}
	return r.Transient().String()
}

// limit returns a duration that was given, or "".
func limit(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// environment returns the names of the variables that were given to a job. Their values are in its record.
func environment(r record) string {
	var names []string
	for _, v := range r.Spec.Task.Env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	if pass := r.Spec.Task.PassEnv; len(pass) > 0 {
		names = append(names, "passed on: "+strings.Join(pass, ", "))
	}
	return strings.Join(names, ", ")
}

func secrets(r record) string {
	return strings.Join(texts(r.Spec.Task.Secrets, func(s kernel.Secret) string { return s.Name }), ", ")
}

func sandbox(r record) string {
	b := r.Spec.Task.Sandbox
	if !b.On() {
		return ""
	}
	text := b.Mode.String()
	if b.ReadOnly {
		text += ", reads its working tree only"
	}
	if len(b.Write) > 0 {
		text += ", may write " + strings.Join(b.Write, ", ")
	}
	if b.Network == kernel.NoNetwork {
		text += ", without network"
	}
	return text
}

func requires(r record) string {
	return strings.Join(texts(r.Spec.Preconditions, func(p kernel.Precondition) string {
		switch {
		case p.Kind == kernel.CustomPrecondition:
			return p.ID
		case p.Branch != "":
			return p.Kind.String() + "=" + p.Branch
		}
		return p.Kind.String()
	}), ", ")
}

// retryOn returns the failures after which a job is retried, if it may be.
func retryOn(r record) string {
	if r.Budget().Retries == 0 {
		return ""
	}
	classes, exits := r.Retry().Names()
	return strings.Join(append(classes, texts(exits, func(code int) string { return "exit " + strconv.Itoa(code) })...), ", ")
}

// usedOf returns how much of a budget is used up, or "" if there is no budget.
func usedOf(used, budget int) string {
	if used == 0 && budget == 0 {
		return ""
	}
	return strconv.Itoa(used) + " of " + strconv.Itoa(budget)
}

// ShowFields returns the fields of show in their order.
func ShowFields() []Field { return fields(showColumns) }

// Show returns what is known of a job, field by field in the order of
// ShowFields; absent values are left out. An unknown id is kernel.ErrNotFound.
func Show(s *kernel.Snapshot, id kernel.JobID, p Paths) ([]Value, error) {
	j, err := find(s, id)
	if err != nil {
		return nil, err
	}
	j = begun(s, j)
	r := record{Job: j, Paths: p, standing: Standing(s, j), remark: s.Remark(id), prompt: promptRun(s, j)}
	if j.State.Approval.State == kernel.Pending {
		r.barred = s.Barred(j)
	}
	var out []Value
	for _, c := range showColumns {
		if text := line(c.text(r)); text != "" {
			out = append(out, Value{c.Field, text})
		}
	}
	return out, nil
}

// Status is `jobs status`: docs/schemas/job_status.schema.json.
type Status struct {
	Job kernel.JobID `json:"job"`
	Reference
	Status   string `json:"status"`
	ExitCode *int   `json:"exit_code"` // null until there is one
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	Run      string `json:"run,omitempty"` // how the run of its prompt stands, if the job's own status does not tell

	short string // its reference and its name
}

// promptRun describes how a prompt's run stands, and which approvals it needs.
// It is "" for other jobs, and if the job's own status already tells.
func promptRun(s *kernel.Snapshot, j *kernel.Job) string {
	if j.Spec.Prompt == nil || j.Spec.Origin.Run == "" {
		return ""
	}
	r := PromptRunOf(j, s.Members(j.Spec.Origin.Run), s.Now())
	if r.Cause == nil {
		return ""
	}
	text := r.String()
	for _, id := range r.Pending {
		text += strings.TrimSuffix("; next: vizier jobs approve "+string(id)+", "+byElse(s, s.Job(id)), ", ")
	}
	return text
}

// StatusOf returns the short answer about one job. An unknown id is
// kernel.ErrNotFound.
func StatusOf(s *kernel.Snapshot, id kernel.JobID, p Paths) (Status, error) {
	j, err := find(s, id)
	if err != nil {
		return Status{}, err
	}
	st := Status{Job: id, Reference: ReferenceOf(j), Status: Standing(s, j), Stdout: p.Stdout, Stderr: p.Stderr, Run: line(promptRun(s, j)), short: Short(j)}
	if e := j.State.Exit; e.Known {
		st.ExitCode = &e.Code
	}
	return st, nil
}

// String returns the status on one line, for people.
func (s Status) String() string {
	text := fmt.Sprintf("%s [%s]", s.short, s.Status)
	if s.ExitCode != nil {
		text += fmt.Sprintf(" exit %d", *s.ExitCode)
	}
	if s.Run != "" {
		text += ", run " + s.Run
	}
	return text
}

// Resources describes which steps of its growing resources the job's latest
// attempt asked for, and which the next one takes. It is "" if nothing grows.
func Resources(j *kernel.Job) string {
	var parts []string
	for _, s := range j.Steps() {
		text := fmt.Sprintf("%s %s (step %d of %d)", s.Key, s.Value, s.N, s.Of)
		if s.Next != "" {
			text += ", then " + s.Next + ", since it failed with " + j.State.Failure.String()
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

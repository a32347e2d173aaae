package fs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// newRecord is the record of j. Every field of kernel.Job has its place here
// and in job; a test compares the two.
func newRecord(j *kernel.Job, now time.Time) record {
	sp, st := &j.Spec, &j.State
	r := record{
		Version: recordVersion, ID: string(j.ID), Revision: uint64(j.Rev), Number: uint64(j.Number), Part: j.Part,
		Status: st.Status.String(), State: st.Status.Coarse(), Name: sp.Name,
		Command: list(sp.Origin.Command), ChildArgs: list(sp.Task.Args),
		CreatedAt: stamp(j.Created), UpdatedAt: stamp(now), StartedAt: stamp(st.Started), FinishedAt: stamp(st.Finished),
		Attempt: st.Attempt, Generation: st.Generation,
		Retries: st.Spent.Retries, Resumes: st.Spent.Resumes, Reclaims: st.Spent.Reclaims, Rerouted: st.Routed, Deferred: st.Deferred, LostAttempt: st.Lost, Stalled: st.Stalled,
		Refused: st.Refused, RetryAt: stamp(st.RetryAt), Outcome: st.Outcome.String(), FailureClass: st.Failure.String(), FailureReason: optional(st.Reason),
		StdoutPath: vizierDir + "/" + jobPath(j.ID, "stdout.log"), StderrPath: vizierDir + "/" + jobPath(j.ID, "stderr.log"),
		Awake: st.Awake,
	}
	if c := sp.Configured; c != nil {
		r.Configuration = &configRecord{MaxRunning: c.MaxRunning, Grace: duration(c.Grace)}
		for _, p := range c.Pools {
			r.Configuration.Pools = append(r.Configuration.Pools, poolRecord(p))
		}
	}
	if st.Exit.Known {
		code := st.Exit.Code
		r.ExitCode = &code
		r.OutcomePath = optional(vizierDir + "/" + jobPath(j.ID, outcomeName))
	}
	if p := st.Place; p.PID != 0 {
		r.PID = &p.PID
	}
	r.Host, r.Enforced, r.Used = st.Place.Host, st.Place.Sandbox, newUsed(st.Place.Used)
	r.Grown = newGrown(st.Grown)
	r.agents(st.Agent)
	if !st.Stop.At.IsZero() {
		r.Stop = &stopRecord{stamp(st.Stop.At), st.Stop.By, st.Stop.Cleanup}
	}
	r.RemovedAt = optionalStamp(st.Removed)
	if a := st.Amended; a.Made {
		classes, exits := a.Retry.Names()
		r.Amended = &amendedRecord{a.Transient.String(), a.Budget.Retries, a.Budget.Resumes, a.Budget.Reclaims, classes, exits,
			duration(a.Retry.Base), duration(a.Retry.Cap)}
	}
	r.Task.V = taskRecord{sp.Task.Executor, sp.Task.Options, sp.Task.Builtin, sp.Task.Tree, sp.Task.Dir, sp.Task.Env, sp.Task.PassEnv, secretTexts(sp.Task.Secrets),
		duration(sp.Task.Timeout), duration(sp.Task.Grace), newSandbox(sp.Task.Sandbox), sp.Task.Container}
	r.Again.V = newAgain(sp)
	r.Schedule.V = newSchedule(sp, st)
	r.Metadata.V = newMetadata(sp, st)
	if sp.Prompt != nil {
		r.addPrompt(j)
	}
	return r
}

func newSandbox(b kernel.Sandbox) *sandboxRecord {
	if b.Same(kernel.Sandbox{}) {
		return nil
	}
	r := &sandboxRecord{Mode: b.Mode.String(), Write: b.Write, ReadOnly: b.ReadOnly}
	if b.Network != kernel.AnyNetwork {
		r.Network = b.Network.String()
	}
	return r
}

// addPrompt adds the fields that only the record of a prompt's job has (seed 004).
func (r *record) addPrompt(j *kernel.Job) {
	in, st, m := j.Spec.Prompt, &j.State, &r.Metadata.V
	r.JobID, r.GitOwner, r.RepoName, r.BranchName, r.InboxFile, r.InboxRel = r.ID, in.Owner, in.Repository, in.Branch, in.File, in.Rel
	m.Reason, m.PromptSHA, m.PromptInode, m.ClaimedAt, m.Archive = in.Reason, in.SHA256, in.Inode, optionalStamp(in.Claimed), in.Archive
	if st.Status == kernel.Succeeded { // the reason of a success is a note, no failure
		r.FailureReason, m.SuccessNote = nil, st.Reason
	}
	switch {
	case st.Status == kernel.Succeeded && st.Prompt.Named == kernel.DonePrompt:
		r.ProcessedPath = optional(inbox.Home(in) + "/" + inbox.Processed(in, j.ID))
	case st.Status.Terminal() && st.Prompt.Named == kernel.ErrorPrompt && st.Prompt.Archived:
		r.ArchivedPath = optional(inbox.Home(in) + "/" + inbox.Failed(in, j.ID))
	}
}

func newAgain(sp *kernel.Spec) againRecord {
	a := againRecord{
		MaxRetries: sp.Budget.Retries, MaxResumes: sp.Budget.Resumes, MaxReclaims: sp.Budget.Reclaims,
		BackoffBase: duration(sp.Retry.Base), BackoffCap: duration(sp.Retry.Cap),
		Resumable: sp.Resumable, Idempotent: sp.Idempotent, KeepSession: sp.KeepSession,
	}
	if sp.InDoubt != kernel.FailInDoubt {
		a.InDoubt = sp.InDoubt.String()
	}
	a.RetryOn, a.RetryExits = sp.Retry.Names()
	return a
}

func newSchedule(sp *kernel.Spec, st *kernel.State) schedule {
	s := schedule{
		After: []afterRecord{}, Dependencies: []dependency{}, Locks: []lockRecord{}, Artifacts: []artifactRecord{}, WaitedOn: []string{},
		Routed: sp.Routed, OwnsContext: sp.OwnsContext, IdempotencyKey: sp.IdempotencyKey, WaitSince: optionalStamp(st.WaitSince), ApprovalTimeout: duration(sp.ApprovalTimeout),
		Estimate: duration(sp.Estimate),
	}
	for _, id := range sp.After {
		s.After = append(s.After, afterRecord{string(id), sp.AfterPolicy(id).String()})
	}
	for _, a := range sp.Needs {
		s.Dependencies = append(s.Dependencies, dependency{artifactRecord(a)})
	}
	for _, a := range sp.Produces {
		s.Artifacts = append(s.Artifacts, artifactRecord(a))
	}
	for _, p := range sp.ProducesOn {
		made := productsRecord{On: p.On.String()}
		for _, a := range p.Artifacts {
			made.Artifacts = append(made.Artifacts, artifactRecord(a))
		}
		s.ArtifactsOn = append(s.ArtifactsOn, made)
	}
	if sp.MissingProducer != kernel.Block {
		s.DependencyPolicy = &dependencyPolicy{sp.MissingProducer.String()}
	}
	if sp.FailureMode != kernel.ContinueIndependent {
		s.FailureMode = sp.FailureMode.String()
	}
	for _, l := range sp.Locks {
		s.Locks = append(s.Locks, lockRecord{l.Key, l.Mode.String(), l.Units})
	}
	if sp.Pinned != (kernel.PinnedHead{}) {
		s.PinnedHead = &pinnedHead{sp.Pinned.Branch, string(sp.Pinned.Commit)}
	}
	for _, p := range sp.Preconditions {
		s.Preconditions = append(s.Preconditions, newPrecondition(p))
	}
	for _, r := range sp.Routes {
		s.Routes = append(s.Routes, routeRecord{r.On.String(), string(r.To), r.Budget})
	}
	if sp.Transient != kernel.NotTransient {
		s.Transient = sp.Transient.String()
	}
	if a := st.Approval; a.State != kernel.NotRequired {
		s.Approval = &approvalRecord{true, a.State.String(), stamp(a.RequestedAt), a.RequestedBy,
			optionalStamp(a.DecidedAt), a.DecidedBy, optionalStamp(a.ExpiresAt), optional(a.Reason), a.InDoubt, a.Submitter, a.RejectedHow, string(a.Head), nil}
		if g := a.Grant; g != nil {
			s.Approval.Grant = &grantRecord{g.How, string(g.Digest), g.Statement}
		}
	}
	if st.Wait != (kernel.WaitReason{}) {
		s.WaitReason = &waitRecord{Kind: st.Wait.Kind.String(), Detail: st.Wait.Detail, Cause: st.Wait.Cause.String(), JobID: string(st.Wait.Job)}
		if a := artifactRecord(st.Wait.Artifact); a != (artifactRecord{}) {
			s.WaitReason.Artifact = &a
		}
	}
	for _, k := range st.WaitedOn.Kinds() {
		s.WaitedOn = append(s.WaitedOn, k.String())
	}
	return s
}

func newPrecondition(p kernel.Precondition) preconditionRecord {
	if p.Kind == kernel.CustomPrecondition {
		r := preconditionRecord{Kind: p.Kind.String(), ID: p.ID}
		if p.Branch != "" {
			r.Args = map[string]string{"branch": p.Branch}
		}
		return r
	}
	return preconditionRecord{Kind: p.Kind.String(), Branch: p.Branch}
}

func newMetadata(sp *kernel.Spec, st *kernel.State) metadata {
	o := &sp.Origin
	m := metadata{
		CommandAlias: o.Alias, Plan: o.Plan, Branch: o.Branch, Target: o.Target,
		RunID: string(o.Run), NodeID: o.Node, NodeName: o.About.Name,
		Selector: o.Template.Selector, TemplateID: o.Template.ID, TemplateVer: o.Template.Version, PolicyHash: o.Template.PolicyHash, ManifestSHA: string(o.Manifest),
		Class: o.About.Class, Operation: o.About.Operation, Control: o.About.Control, Gates: o.About.Gates,
		Ephemeral: o.Ephemeral, Parent: string(o.Parent), TraceParent: o.TraceParent,
		ExecutionRoot: st.Context.Root, WorktreePath: st.Context.Worktree, WorktreeName: st.Context.Name,
		WorktreeOwned: st.Context.Owned, ContextBranch: st.Context.Branch,
		CancelStatus: st.Cancelled.Status.String(), CancelError: st.Cancelled.Error,
		RetryStatus: st.Retried.Status.String(), RetryError: st.Retried.Error,
		LastFailure: st.LastError, LastRetry: optionalStamp(st.Requeued), Archived: st.Prompt.Archived, Retired: st.Retired, Closed: st.Closed,
	}
	if st.Prompt.Named != kernel.NewPrompt {
		m.PromptName = st.Prompt.Named.String()
	}
	for _, t := range sp.Tags {
		if m.Tags == nil {
			m.Tags = map[string]string{}
		}
		m.Tags[t.Key] = t.Value
	}
	if o.Node != "" {
		m.NodeAttempt, m.NodeOutcome = max(st.Attempt, 1), st.Outcome.String()
	}
	return m
}

// job returns the job of r. The error names the first field that is invalid.
func (r *record) job() (kernel.Job, error) {
	var d decoder
	if time.Time(r.CreatedAt).IsZero() {
		d.fail("created_at", fmt.Errorf("missing"))
	}
	status, err := kernel.ParseStatus(r.Status)
	d.fail("status", err)
	j := kernel.Job{ID: kernel.JobID(r.ID), Created: time.Time(r.CreatedAt), Rev: kernel.Revision(r.Revision), Number: kernel.Number(r.Number), Part: r.Part}
	j.Spec = kernel.Spec{
		Name: r.Name, Routed: r.Schedule.V.Routed, OwnsContext: r.Schedule.V.OwnsContext, IdempotencyKey: r.Schedule.V.IdempotencyKey,
		Budget:    kernel.Budget{Retries: r.Again.V.MaxRetries, Resumes: r.Again.V.MaxResumes, Reclaims: r.Again.V.MaxReclaims},
		Resumable: r.Again.V.Resumable, Idempotent: r.Again.V.Idempotent, KeepSession: r.Again.V.KeepSession,
		Task: kernel.Task{Executor: r.Task.V.Executor, Options: r.Task.V.Options, Args: bare(r.ChildArgs), Builtin: r.Task.V.Builtin, Tree: r.Task.V.Tree, Dir: r.Task.V.Dir,
			Env: r.Task.V.Env, PassEnv: r.Task.V.PassEnv, Secrets: d.secrets(r.Task.V.Secrets),
			Timeout: d.duration("task.timeout", r.Task.V.Timeout), Grace: d.duration("task.grace", r.Task.V.Grace), Container: r.Task.V.Container},
	}
	if b := r.Task.V.Sandbox; b != nil {
		j.Spec.Task.Sandbox = kernel.Sandbox{Mode: parsed(&d, "task.sandbox.mode", b.Mode, kernel.ParseSandboxMode), Write: b.Write,
			Network: parsed(&d, "task.sandbox.network", b.Network, kernel.ParseNetwork), ReadOnly: b.ReadOnly}
	}
	if c := r.Configuration; c != nil {
		j.Spec.Configured = &kernel.Configured{MaxRunning: c.MaxRunning, Grace: d.duration("config_snapshot.grace", c.Grace)}
		for _, p := range c.Pools {
			j.Spec.Configured.Pools = append(j.Spec.Configured.Pools, kernel.Capacity(p))
		}
	}
	d.again(&j.Spec, &r.Again.V)
	d.schedule(&j, &r.Schedule.V)
	d.metadata(&j, &r.Metadata.V)
	j.Spec.Origin.Command = bare(r.Command)
	st := &j.State
	st.Status, st.Attempt, st.Generation, st.Awake = status, r.Attempt, r.Generation, r.Awake
	st.Spent = kernel.Budget{Retries: r.Retries, Resumes: r.Resumes, Reclaims: r.Reclaims}
	st.Deferred = r.Deferred
	st.Routed, st.Refused, st.Lost, st.Stalled, st.RetryAt = r.Rerouted, r.Refused, r.LostAttempt, r.Stalled, time.Time(r.RetryAt)
	st.Started, st.Finished = time.Time(r.StartedAt), time.Time(r.FinishedAt)
	if r.ExitCode != nil {
		st.Exit = kernel.Exited(*r.ExitCode)
	}
	st.Outcome = parsed(&d, "outcome", r.Outcome, kernel.ParseOutcome)
	st.Failure = parsed(&d, "failure_class", r.FailureClass, kernel.ParseFailureClass)
	st.Reason = value(r.FailureReason)
	st.Place.Host, st.Place.Sandbox, st.Place.Used, st.Agent = r.Host, r.Enforced, d.used(r.Used), r.agentState()
	if r.PID != nil {
		st.Place.PID = *r.PID
	}
	st.Grown = d.grown(r.Grown)
	if r.Stop != nil {
		st.Stop = kernel.StopRequest{At: time.Time(r.Stop.RequestedAt), By: r.Stop.RequestedBy, Cleanup: r.Stop.Cleanup}
	}
	st.Removed = stampValue(r.RemovedAt)
	if r.JobID != "" {
		m := &r.Metadata.V
		if m.SuccessNote != "" {
			st.Reason = m.SuccessNote
		}
		j.Spec.Prompt = &kernel.Prompt{Owner: r.GitOwner, Repository: r.RepoName, Branch: r.BranchName, File: r.InboxFile, Rel: r.InboxRel,
			Reason: m.Reason, SHA256: m.PromptSHA, Inode: m.PromptInode, Claimed: stampValue(m.ClaimedAt), Archive: m.Archive}
		if r.JobID != r.ID {
			d.fail("job_id", fmt.Errorf("%q is not the id %q", r.JobID, r.ID))
		}
	}
	if a := r.Amended; a != nil {
		st.Amended = kernel.Amendment{Made: true, Transient: parsed(&d, "amended.transient", a.Transient, kernel.ParseTransient),
			Budget: kernel.Budget{Retries: a.MaxRetries, Resumes: a.MaxResumes, Reclaims: a.MaxReclaims}}
		d.retriedOn(&st.Amended.Retry, "amended.retry_on", a.RetryOn, a.RetryExits)
		st.Amended.Retry.Base, st.Amended.Retry.Cap = d.duration("amended.backoff_base", a.BackoffBase), d.duration("amended.backoff_cap", a.BackoffCap)
	}
	if r.Attempt < 0 || r.Generation < 0 || r.Retries < 0 || r.Resumes < 0 || r.Reclaims < 0 || r.LostAttempt < 0 || r.Stalled < 0 {
		d.fail("attempt", fmt.Errorf("counters are not negative"))
	}
	return j, d.err
}

// decoder keeps the first error of a record.
type decoder struct{ err error }

func (d *decoder) fail(field string, err error) {
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("field %q: %w", field, err)
	}
}

func (d *decoder) duration(field, s string) time.Duration {
	if s == "" {
		return 0
	}
	v, err := time.ParseDuration(s)
	d.fail(field, err)
	return v
}

func (d *decoder) secrets(texts []string) []kernel.Secret {
	var out []kernel.Secret
	for _, text := range texts {
		s, err := kernel.ParseSecret(text)
		d.fail("task.secrets", err)
		out = append(out, s)
	}
	return out
}

// secretTexts are secrets as records have them.
func secretTexts(secrets []kernel.Secret) []string {
	var out []string
	for _, s := range secrets {
		out = append(out, s.String())
	}
	return out
}

// parsed reads a name that may be absent.
func parsed[T any](d *decoder, field, s string, parse func(string) (T, error)) T {
	var zero T
	if s == "" {
		return zero
	}
	v, err := parse(s)
	d.fail(field, err)
	return v
}

func (d *decoder) again(sp *kernel.Spec, a *againRecord) {
	sp.InDoubt = parsed(d, "again.effect_in_doubt", a.InDoubt, kernel.ParseInDoubt)
	sp.Retry.Base, sp.Retry.Cap = d.duration("again.backoff_base", a.BackoffBase), d.duration("again.backoff_cap", a.BackoffCap)
	d.retriedOn(&sp.Retry, "again.retry_on", a.RetryOn, a.RetryExits)
}

func (d *decoder) retriedOn(p *kernel.RetryPolicy, field string, classes []string, exits []int) {
	for _, c := range classes {
		class, err := kernel.ParseFailureClass(c)
		d.fail(field, err)
		*p = p.On(class)
	}
	for _, code := range exits {
		p.Exits = p.Exits.With(code)
	}
}

func (d *decoder) schedule(j *kernel.Job, s *schedule) {
	sp, st := &j.Spec, &j.State
	for _, a := range s.After {
		if parsed(d, "schedule.after", a.Policy, kernel.ParseAfterPolicy) == kernel.AfterAnyEnd {
			sp.AfterAny = append(sp.AfterAny, kernel.JobID(a.JobID))
		}
		sp.After = append(sp.After, kernel.JobID(a.JobID))
	}
	for _, n := range s.Dependencies {
		sp.Needs = append(sp.Needs, kernel.Artifact(n.Artifact).Canonical())
	}
	for _, a := range s.Artifacts {
		sp.Produces = append(sp.Produces, kernel.Artifact(a).Canonical())
	}
	for _, p := range s.ArtifactsOn {
		made := kernel.Products{On: parsed(d, "schedule.artifacts_on", p.On, kernel.ParseOutcome)}
		for _, a := range p.Artifacts {
			made.Artifacts = append(made.Artifacts, kernel.Artifact(a).Canonical())
		}
		sp.ProducesOn = append(sp.ProducesOn, made)
	}
	if p := s.DependencyPolicy; p != nil {
		sp.MissingProducer = parsed(d, "schedule.dependency_policy", p.MissingProducer, kernel.ParseMissingProducer)
	}
	sp.FailureMode = parsed(d, "schedule.failure_mode", s.FailureMode, kernel.ParseFailureMode)
	for _, l := range s.Locks {
		lock := kernel.Lock{Key: l.Key, Mode: parsed(d, "schedule.locks", l.Mode, kernel.ParseLockMode), Units: l.Units}
		d.fail("schedule.locks", lock.Validate())
		sp.Locks = append(sp.Locks, lock)
	}
	if p := s.PinnedHead; p != nil {
		sp.Pinned = kernel.PinnedHead{Branch: p.Branch, Commit: kernel.CommitID(p.OID)}
	}
	for _, p := range s.Preconditions {
		kind, err := kernel.ParsePreconditionKind(p.Kind)
		d.fail("schedule.preconditions", err)
		branch := p.Branch
		if kind == kernel.CustomPrecondition {
			branch = p.Args["branch"]
		}
		sp.Preconditions = append(sp.Preconditions, kernel.Precondition{Kind: kind, ID: p.ID, Branch: branch})
	}
	for _, r := range s.Routes {
		on, err := kernel.ParseOutcome(r.On)
		d.fail("schedule.routes", err)
		sp.Routes = append(sp.Routes, kernel.Route{On: on, To: kernel.JobID(r.JobID), Budget: r.Budget})
	}
	sp.ApprovalTimeout = d.duration("schedule.approval_timeout", s.ApprovalTimeout)
	sp.Estimate = d.duration("schedule.estimate", s.Estimate)
	sp.Transient = parsed(d, "schedule.transient", s.Transient, kernel.ParseTransient)
	if a := s.Approval; a != nil && a.Required {
		st.Approval = kernel.Approval{State: parsed(d, "schedule.approval", a.State, kernel.ParseApprovalState),
			RequestedAt: time.Time(a.RequestedAt), RequestedBy: a.RequestedBy,
			DecidedAt: stampValue(a.DecidedAt), DecidedBy: a.DecidedBy, ExpiresAt: stampValue(a.ExpiresAt), Reason: value(a.Reason), InDoubt: a.InDoubt, Submitter: a.Submitter, Head: kernel.CommitID(a.Head),
			RejectedHow: a.RejectedHow}
		if g := a.Grant; g != nil {
			st.Approval.Grant = &kernel.Grant{How: g.How, Digest: kernel.Digest(g.SHA256), Statement: g.Statement}
		}
	}
	if w := s.WaitReason; w != nil {
		st.Wait = d.waitReason(w)
	}
	st.WaitSince = stampValue(s.WaitSince)
	for _, k := range s.WaitedOn {
		st.WaitedOn = st.WaitedOn.With(parsed(d, "schedule.waited_on", k, kernel.ParseWaitKind))
	}
}

func (d *decoder) waitReason(w *waitRecord) kernel.WaitReason {
	kind := parsed(d, "schedule.wait_reason", w.Kind, kernel.ParseWaitKind)
	if w.Cause == "" {
		return kernel.WaitReasonOf(kind, w.Detail)
	}
	reason := kernel.WaitReason{Kind: kind, Detail: w.Detail, Job: kernel.JobID(w.JobID),
		Cause: parsed(d, "schedule.wait_reason.cause", w.Cause, kernel.ParseWaitCause)}
	if w.Artifact != nil {
		reason.Artifact = kernel.Artifact(*w.Artifact)
	}
	return reason
}

func (d *decoder) metadata(j *kernel.Job, m *metadata) {
	for _, key := range slices.Sorted(maps.Keys(m.Tags)) {
		j.Spec.Tags = append(j.Spec.Tags, kernel.Tag{Key: key, Value: m.Tags[key]})
	}
	j.Spec.Origin = kernel.Origin{
		Run: kernel.RunID(m.RunID), Node: m.NodeID, Alias: m.CommandAlias, Plan: m.Plan, Branch: m.Branch, Target: m.Target,
		Ephemeral: m.Ephemeral, Parent: kernel.JobID(m.Parent), TraceParent: m.TraceParent, Manifest: kernel.Digest(m.ManifestSHA),
		Template: kernel.Template{Selector: m.Selector, ID: m.TemplateID, Version: m.TemplateVer, PolicyHash: m.PolicyHash},
		About:    kernel.NodeInfo{Name: m.NodeName, Class: m.Class, Operation: m.Operation, Control: m.Control, Gates: m.Gates},
	}
	j.State.Context = kernel.Context{Root: m.ExecutionRoot, Worktree: m.WorktreePath, Name: m.WorktreeName,
		Owned: m.WorktreeOwned, Branch: m.ContextBranch}
	j.State.Cancelled = kernel.Cleanup{Status: parsed(d, "metadata.cancel_cleanup_status", m.CancelStatus, kernel.ParseCleanupStatus), Error: m.CancelError}
	j.State.Retried = kernel.Cleanup{Status: parsed(d, "metadata.retry_cleanup_status", m.RetryStatus, kernel.ParseCleanupStatus), Error: m.RetryError}
	j.State.LastError, j.State.Requeued = m.LastFailure, stampValue(m.LastRetry)
	j.State.Retired, j.State.Closed = m.Retired, m.Closed
	j.State.Prompt = kernel.PromptState{Named: parsed(d, "metadata.prompt_name", m.PromptName, kernel.ParsePromptName), Archived: m.Archived}
}

package kernel

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"
)

// MissingProducer is seed 003's policy for a need that nobody produces.
type MissingProducer uint8

// Block is the default.
const (
	Block MissingProducer = iota // a need nobody produces is terminal
	Wait                         // a need nobody produces yet may still appear
)

var missingProducerNames = NewNames[MissingProducer]("missing_producer policy", "block", "wait")

// Transient says whether a job runs only when another needs it (seed 002).
// A smaller mode is the more conservative one.
type Transient uint8

// NotTransient is the default.
const (
	NotTransient Transient = iota
	OnDemand               // runs only if a job that is not transient needs it
	Remove                 // as OnDemand, and its files go when the run is over
)

// AfterPolicy says which ends of a predecessor let a job start.
type AfterPolicy uint8

// AfterSuccess is the default.
const (
	AfterSuccess AfterPolicy = iota
	AfterAnyEnd              // whatever became of it
)

var afterPolicyNames = NewNames[AfterPolicy]("after policy", "success", "any")

var transientNames = NewNames[Transient]("transient mode", "none", "transient", "remove")

// PinnedHead holds a job until a branch is at a commit. The zero value pins
// nothing.
type PinnedHead struct {
	Branch string
	Commit CommitID
}

// Precondition is a further condition on the repository (seed 000).
type Precondition struct {
	Kind   PreconditionKind
	ID     string // of a custom one
	Branch string // of branch_exists; "" : taken from the job
}

// PreconditionKind is one of seed 000's three.
type PreconditionKind uint8

// The kinds of seed 000.
const (
	CleanWorktree PreconditionKind = iota
	BranchExists
	CustomPrecondition
)

var preconditionKindNames = NewNames[PreconditionKind]("precondition", "clean_worktree", "branch_exists", "custom")

// Route says which job is rewound, or given this job's context, when this job
// ends with an outcome (seed 000's on.<outcome> edges).
type Route struct {
	On     Outcome
	To     JobID
	Budget int // how often this route may rewind in a generation of its source; 0: DefaultRouteBudget
}

// Origin says where a job came from. Nothing in it decides how a
// job runs, except Run and Node, which scope artifacts to a run.
type Origin struct {
	Run      RunID
	Node     string
	Command  []string // the command line that enqueued it
	Alias    string
	Plan     string
	Branch   string
	Target   string
	Template Template
	About    NodeInfo

	// Parent is the job whose attempt submitted this one; "": none did.
	Parent JobID

	// Manifest is the digest of the run's manifest; "": an earlier version made the
	// run, or there is none.
	Manifest Digest

	// Ephemeral asks that all that was made for the run goes when it is over.
	Ephemeral bool

	// TraceParent is the span that whoever submitted the job was part of (W3C Trace
	// Context); "": none. It is for package trace.
	TraceParent string
}

// mergeAlias is the alias of the flow that merges plans, as records have it.
const mergeAlias = "merge"

// merges is the plan that the job's run merges, if that is what its run is for.
func (o *Origin) merges() (plan string, ok bool) {
	return o.Plan, o.Alias == mergeAlias && o.Plan != ""
}

// Template identifies the template a job was compiled from.
type Template struct{ Selector, ID, Version, PolicyHash string }

// NodeInfo is what a template said about the job's node, for people.
type NodeInfo struct {
	Name      string
	Class     string // environment_builtin, environment_shell, agent
	Operation string
	Control   string // control policy
	Gates     []string
}

// Spec is what was asked for. It never changes after the job is enqueued.
type Spec struct {
	Name            string
	Origin          Origin
	Tags            []Tag // by key, each once; for people and programs to select by
	After           []JobID
	AfterAny        []JobID    // of After, those of which any end will do
	Needs           []Artifact // job.json: dependencies
	Produces        []Artifact // job.json: artifacts; whatever the outcome
	MissingProducer MissingProducer
	FailureMode     FailureMode
	Pinned          PinnedHead
	Preconditions   []Precondition
	ApprovalTimeout time.Duration // how long the job waits for its approval; 0: for ever
	Estimate        time.Duration // how long an attempt is expected to take; 0: nobody said. Only package foresight reads it
	Locks           []Lock
	Routes          []Route
	Routed          bool // only a route starts it: it sleeps until one does
	OwnsContext     bool // it makes the execution context that its run's later jobs get
	Transient       Transient
	IdempotencyKey  string
	Budget          Budget
	Retry           RetryPolicy
	Resumable       bool
	Idempotent      bool
	KeepSession     bool    // its agent goes on with the conversation of the attempt before
	Prompt          *Prompt // the prompt that the job stands for; nil: none. It is not changed
	InDoubt         InDoubt // see InDoubtPolicy
	Task            Task

	Configured *Configured // nil: an earlier version enqueued it. It is not changed
}

// Configured is what of the configuration concerned a job when it was enqueued. It
// is for readers: what decides is the configuration in force.
type Configured struct {
	MaxRunning int           // on its executor; 0: no limit
	Pools      []Capacity    // those that it asks for
	Grace      time.Duration // between TERM and KILL, unless it names one; 0: the usual one
}

// Capacity is how many units a pool has.
type Capacity struct {
	Pool  string
	Units int
}

// configured is what of l concerns a job with spec sp.
func (l Limits) configured(sp *Spec) *Configured {
	most, _ := l.running(sp.Task.On())
	c := &Configured{MaxRunning: most, Grace: l.Grace}
	for _, k := range sp.Locks {
		if size := (Capacity{k.Key, l.capacity(k.Key)}); k.Pool() && !slices.Contains(c.Pools, size) {
			c.Pools = append(c.Pools, size)
		}
	}
	slices.SortFunc(c.Pools, func(a, b Capacity) int { return cmp.Compare(a.Pool, b.Pool) })
	return c
}

// AfterPolicy is which ends of its predecessor id let the job start.
func (s *Spec) AfterPolicy(id JobID) AfterPolicy {
	if slices.Contains(s.AfterAny, id) {
		return AfterAnyEnd
	}
	return AfterSuccess
}

// RunsAfter makes job id a predecessor. Of two policies for one job the stricter
// counts.
func (s *Spec) RunsAfter(id JobID, policy AfterPolicy) {
	switch known := slices.Contains(s.After, id); {
	case !known:
		s.After = append(s.After, id)
		if policy == AfterAnyEnd {
			s.AfterAny = append(s.AfterAny, id)
		}
	case policy == AfterSuccess:
		s.AfterAny = slices.DeleteFunc(s.AfterAny, func(k JobID) bool { return k == id })
	}
}

// differs is in what jobs that were submitted with one key are not the same, in
// the words of a submission. Fields that it leaves out are named by its test.
func (s *Spec) differs(o *Spec) []string {
	var differ []string
	for _, c := range []struct {
		what string
		same bool
	}{
		{"name", s.Name == o.Name}, {"tag", slices.Equal(s.Tags, o.Tags)}, {"command", slices.Equal(s.Task.Args, o.Task.Args)}, {"cwd", s.Task.Tree == o.Task.Tree && s.Task.Dir == o.Task.Dir},
		{"env", slices.Equal(s.Task.Env, o.Task.Env) && slices.Equal(s.Task.PassEnv, o.Task.PassEnv)},
		{"secret", slices.Equal(s.Task.Secrets, o.Task.Secrets)},
		{"executor", s.Task.On() == o.Task.On() && slices.Equal(s.Task.Options, o.Task.Options)},
		{"timeout", s.Task.Timeout == o.Task.Timeout},
		{"sandbox", s.Task.Sandbox.Same(o.Task.Sandbox)},
		{"container", s.Task.Container == o.Task.Container},
		{"after", slices.Equal(s.After, o.After) && slices.Equal(s.AfterAny, o.AfterAny)},
		{"approval_timeout", s.ApprovalTimeout == o.ApprovalTimeout},
		{"need", slices.Equal(s.Needs, o.Needs)}, {"produce", slices.Equal(s.Produces, o.Produces)},
		{"missing_producer", s.MissingProducer == o.MissingProducer}, {"lock or pool", slices.Equal(s.Locks, o.Locks)},
		{"require", slices.Equal(s.Preconditions, o.Preconditions)}, {"pinned", s.Pinned == o.Pinned},
		{"idempotent", s.Idempotent == o.Idempotent}, {"resumable", s.Resumable == o.Resumable}, {"in_doubt", s.InDoubt == o.InDoubt},
		{"resume", s.KeepSession == o.KeepSession},
	} {
		if !c.same {
			differ = append(differ, c.what)
		}
	}
	return differ
}

// LocalExecutor is the name of the executor of jobs that name none: this
// machine.
const LocalExecutor = "local"

// Task is what an executor runs. The kernel looks only at Args and at whose
// places are taken.
type Task struct {
	Executor string   // "" : LocalExecutor
	Options  []string // KEY=VALUE, what to ask of the executor; it knows which there are
	Args     []string // job.json: child_args, or the ad-hoc command
	Builtin  bool     // Args are for this program itself
	Tree     string   // the linked worktree it was submitted from, absolute; "" : the repository's main one. It counts where nothing prepared another
	Dir      string   // relative to that working tree; "" : its root
	Env      []string // NAME=VALUE given at submission
	PassEnv  []string // names that must be set in the environment of whoever starts an attempt
	Secrets  []Secret // by name, each once: what an attempt is handed besides
	Timeout  time.Duration
	Grace    time.Duration // between TERM and KILL; 0: the executor's default
	Sandbox  Sandbox

	Container string // the image that it runs in, as the engine of containers knows it; "": none
}

// On is the name of the executor that runs the task.
func (t *Task) On() string { return orElse(t.Executor, LocalExecutor) }

// ExitCode is a process's exit code, once there is one.
type ExitCode struct {
	Known bool
	Code  int
}

// Exited is a known exit code.
func Exited(code int) ExitCode { return ExitCode{true, code} }

// Context is where a job runs: the execution root that travels along success
// edges, and the worktree that root may be.
type Context struct {
	Root     string // relative to the repository's root; "" or ".": the root itself
	Worktree string // path of a worktree below .vizier/tmp-worktrees
	Name     string // git's name for it, which no other tree ever has; its path may be another's later
	Branch   string
	Owned    bool // this job prepared it, so this job's rewind removes it
}

// WorktreeName is git's name for the linked worktree whose .git file has the text
// link, "" if that leads to none.
func WorktreeName(link string) string {
	at, ok := strings.CutPrefix(link, "gitdir:")
	at = strings.TrimSpace(at)
	if !ok || path.Base(path.Dir(at)) != "worktrees" {
		return ""
	}
	return path.Base(at)
}

// CleanupStatus is how a worktree cleanup went. The zero value is none.
type CleanupStatus uint8

// The words of the original's records.
const (
	NoCleanup CleanupStatus = iota
	CleanupSkipped
	CleanupDone
	CleanupDegraded
	CleanupFailed
)

var cleanupNames = NewNames[CleanupStatus]("cleanup status", "", "skipped", "done", "degraded", "failed")

// Cleanup is a cleanup's status and, where it went wrong, why.
type Cleanup struct {
	Status CleanupStatus
	Error  string
}

// State is what has happened. A rewind replaces it with a fresh one, so that a
// field added later is cleared by default instead of forgotten. It is
// comparable: two equal states need no write. What it points to is not changed.
type State struct {
	Status     Status
	Wait       WaitReason
	WaitSince  time.Time // when Wait.Kind last changed
	WaitedOn   WaitSet
	Approval   Approval
	Attempt    int // of the latest execution; 0: none yet; never reset
	Generation int // rewinds so far
	Spent      Budget
	Grown      Grown     // what it asks for by steps; a rewind leaves it
	Lost       int       // newest attempt that was lost, and whose effects nobody answered for; 0: none
	Stalled    int       // newest attempt whose runner was not heard of for too long; 0: none
	Routed     int       // times its routes sent the run back since a person last rewound it
	Refused    int       // launches that the executor refused since an attempt last ran
	RetryAt    time.Time // of FailedRetryable, and of Queued after refusals: not before then
	Requeued   time.Time // when it last went on by itself after a failure
	LastError  string    // why it failed last, until it succeeds
	Started    time.Time
	Finished   time.Time
	Exit       ExitCode
	Outcome    Outcome
	Failure    FailureClass
	Reason     string // why it ended as it did, or why it could not be started
	Stop       StopRequest
	Place      Place       // of the latest attempt that ended
	Agent      *AgentState // nil: no attempt asked an agent, or none told anything
	Context    Context
	Cancelled  Cleanup   // what a cancel did to the job's worktree
	Retried    Cleanup   // what the last rewind did to it
	Removed    time.Time // a tombstone: its files are gone, its result stands
	Awake      bool      // a route woke it, or someone demanded it
	Prompt     PromptState
	Amended    Amendment // by later submissions; a rewind leaves it
	Retired    bool      // a merge closed the cycle of the plan that it produced for: it counts as no producer
	Closed     bool      // it is a merge that closed a cycle, and needs no more of it
}

// Amendment is what later submissions of the same job changed of what was asked
// for. The zero value is nothing.
type Amendment struct {
	Made      bool
	Transient Transient   // the most conservative mode asked for
	Budget    Budget      // the largest asked for
	Retry     RetryPolicy // failures that are tried again besides
}

// StopRequest asks for the end of a running attempt. The zero value is none.
type StopRequest struct {
	At      time.Time
	By      string
	Cleanup bool // its worktree is to go as well, where it owns one
}

// Job is one record.
type Job struct {
	ID      JobID
	Created time.Time
	Rev     Revision // every commit increments it
	Number  Number   // 0: it was enqueued before there were numbers
	Part    string   // what tells it from others of that number; ""; it is alone
	Spec    Spec
	State   State
}

// Compare is the one schedule order: created_at, then job id.
func (j *Job) Compare(k *Job) int {
	return cmp.Or(j.Created.Compare(k.Created), cmp.Compare(j.ID, k.ID))
}

// Attempt names the job's latest execution.
func (j *Job) Attempt() AttemptID { return AttemptID{j.ID, j.State.Attempt} }

// Transient is the mode that counts: the most conservative one that was asked
// for.
func (j *Job) Transient() Transient {
	if j.State.Amended.Made {
		return min(j.Spec.Transient, j.State.Amended.Transient)
	}
	return j.Spec.Transient
}

// Budget is the one that counts: of each kind, the largest that was asked for.
func (j *Job) Budget() Budget {
	if j.State.Amended.Made {
		return j.State.Amended.Budget
	}
	return j.Spec.Budget
}

// Retry is the policy that counts: any failure that was named is tried again.
func (j *Job) Retry() RetryPolicy {
	return j.Spec.Retry.or(j.State.Amended.Retry)
}

// Begins is the status of a generation's beginning.
func (j *Job) Begins() Status {
	if j.Spec.Routed || j.Transient() != NotTransient {
		return Unscheduled
	}
	return Queued
}

// Open reports that a tick may still change the job.
func (j *Job) Open() bool { return !j.State.Status.Terminal() }

func sortJobs(jobs []*Job) { slices.SortFunc(jobs, (*Job).Compare) }

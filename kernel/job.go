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
	Block MissingProducer = iota // the job is blocked
	Wait                         // the job waits: a producer may still be enqueued
)

var missingProducerNames = NewNames[MissingProducer]("missing_producer policy", "block", "wait")

// Transient says whether a job runs only when another job needs it (seed 002).
// Smaller values are more conservative.
type Transient uint8

// NotTransient is the default.
const (
	NotTransient Transient = iota
	OnDemand               // runs only if a job that is not transient needs it
	Remove                 // as OnDemand, and its files are purged when the run is over
)

// AfterPolicy says which ends of a predecessor let a job start.
type AfterPolicy uint8

// AfterSuccess is the default.
const (
	AfterSuccess AfterPolicy = iota
	AfterAnyEnd              // any end, success or not
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
	ID     string // for CustomPrecondition
	Branch string // for BranchExists; "": taken from the job
}

// PreconditionKind is one of the three kinds of seed 000.
type PreconditionKind uint8

// The kinds of seed 000.
const (
	CleanWorktree PreconditionKind = iota
	BranchExists
	CustomPrecondition
)

var preconditionKindNames = NewNames[PreconditionKind]("precondition", "clean_worktree", "branch_exists", "custom")

// Route says which job is rewound, or given this job's context, when this job
// ends with the outcome On (the on.<outcome> edges of seed 000).
type Route struct {
	On     Outcome
	To     JobID
	Budget int // after how many ends of its source, since a person rewound that, it may be taken; 0: DefaultRouteBudget
}

// Origin says where a job came from. It does not affect how the job runs,
// except that Run and Node scope artifacts to a run.
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

	// Manifest is the digest of the run's manifest, or "" if there is none or
	// an earlier version made the run.
	Manifest Digest

	// Ephemeral asks to delete everything made for the run when the run is
	// over.
	Ephemeral bool

	// TraceParent is the trace span in which the job was submitted (W3C Trace
	// Context), or "". Only package trace reads it.
	TraceParent string
}

// mergeAlias is the alias, in records, of the flow that merges plans.
const mergeAlias = "merge"

// merges returns the plan that the job's run merges, if merging is what the run
// is for.
func (o *Origin) merges() (plan string, ok bool) {
	return o.Plan, o.Alias == mergeAlias && o.Plan != ""
}

// Template identifies the template a job was compiled from.
type Template struct{ Selector, ID, Version, PolicyHash string }

// NodeInfo is what a template says about the job's node, for people.
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
	AfterAny        []JobID    // the members of After for which any end will do
	Needs           []Artifact // job.json: dependencies
	Produces        []Artifact // job.json: artifacts; those declared for any outcome
	ProducesOn      []Products // which of them come with which outcome; empty: all with success. No decision depends on it, only explanations and package foresight
	MissingProducer MissingProducer
	FailureMode     FailureMode
	Pinned          PinnedHead
	Preconditions   []Precondition
	ApprovalTimeout time.Duration // how long the job waits for its approval; 0: for ever
	Estimate        time.Duration // expected duration of an attempt; 0: unknown. Only package foresight reads it
	Locks           []Lock
	Routes          []Route
	Routed          bool // only a route starts it: it sleeps until one does
	OwnsContext     bool // it makes the execution context of the later jobs of its run
	Transient       Transient
	IdempotencyKey  string
	Budget          Budget
	Retry           RetryPolicy
	Resumable       bool
	Idempotent      bool
	KeepSession     bool    // its agent continues the conversation of the previous attempt
	Prompt          *Prompt // the prompt that the job stands for; nil: none. Immutable
	InDoubt         InDoubt // see InDoubtPolicy
	Task            Task

	Configured *Configured // nil: an earlier version enqueued the job. Immutable
}

// Products are the artifacts that a job produces with an outcome.
type Products struct {
	On        Outcome
	Artifacts []Artifact
}

// Products returns what the job produces if it ends with outcome on.
func (s *Spec) Products(on Outcome) []Artifact {
	if len(s.ProducesOn) == 0 && on == OutcomeSucceeded {
		return s.Produces
	}
	for _, p := range s.ProducesOn {
		if p.On == on {
			return p.Artifacts
		}
	}
	return nil
}

// Configured is the part of the configuration that concerned a job when it was
// enqueued. It is for readers; decisions use the configuration in force.
type Configured struct {
	MaxRunning int           // on its executor; 0: no limit
	Pools      []Capacity    // the pools that it asks for
	Grace      time.Duration // time between TERM and KILL for jobs that name none; 0: DefaultGrace
}

// Capacity is how many units a pool has.
type Capacity struct {
	Pool  string
	Units int
}

// configured returns the part of l that concerns a job with spec sp.
func (l Limits) configured(sp *Spec) *Configured {
	most, _ := l.limitOf(sp.Task.On())
	c := &Configured{MaxRunning: most, Grace: l.Grace}
	for _, k := range sp.Locks {
		if size := (Capacity{k.Key, l.capacity(k.Key)}); k.Pool() && !slices.Contains(c.Pools, size) {
			c.Pools = append(c.Pools, size)
		}
	}
	slices.SortFunc(c.Pools, func(a, b Capacity) int { return cmp.Compare(a.Pool, b.Pool) })
	return c
}

// AfterPolicy returns which ends of its predecessor id let the job start.
func (s *Spec) AfterPolicy(id JobID) AfterPolicy {
	if slices.Contains(s.AfterAny, id) {
		return AfterAnyEnd
	}
	return AfterSuccess
}

// RunsAfter makes job id a predecessor. If it already is one, the stricter of
// the two policies counts.
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

// differs returns the fields, in the words of a submission, in which two jobs
// that were submitted with one idempotency key differ. Its test names the
// fields that it leaves out.
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
		{"missing_producer", s.MissingProducer == o.MissingProducer}, {"lock or pool", slices.Equal(addedUp(s.Locks), addedUp(o.Locks))},
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

// LocalExecutor is the name of this machine's executor, the default.
const LocalExecutor = "local"

// Task is what an executor runs.
type Task struct {
	Executor string   // "": LocalExecutor
	Options  []string // KEY=VALUE requests to the executor, which defines the keys
	Args     []string // job.json: child_args, or the ad-hoc command
	Builtin  bool     // Args are arguments of this program
	Tree     string   // absolute path of the linked worktree it was submitted from; "": the main working tree. Used unless a job prepared a worktree for it
	Dir      string   // relative to that working tree; "": its root
	Env      []string // NAME=VALUE given at submission
	PassEnv  []string // names of variables to pass on from the environment of the process that starts an attempt, where they must be set
	Secrets  []Secret // secrets that an attempt is given, by name, each once
	Timeout  time.Duration
	Grace    time.Duration // between TERM and KILL; 0: the executor's default
	Sandbox  Sandbox

	Container string // the image of the container that it runs in, as the container engine names it; "": none
}

// On returns the name of the executor that runs the task.
func (t *Task) On() string { return cmp.Or(t.Executor, LocalExecutor) }

// ExitCode is a process's exit code, if the process has ended.
type ExitCode struct {
	Known bool
	Code  int
}

// Exited returns a known exit code.
func Exited(code int) ExitCode { return ExitCode{true, code} }

// Context is a job's execution context: the execution root, which is handed on
// along success edges, and the worktree that holds it, if any.
type Context struct {
	Root     string // relative to the repository's root, which "" and "." mean
	Worktree string // path of a worktree below .vizier/tmp-worktrees
	Name     string // git's name for the worktree. It is unique, while the path may be reused
	Branch   string
	Owned    bool // this job prepared the worktree, so this job's rewind removes it
}

// WorktreeName returns git's name for the linked worktree whose .git file
// contains link, or "" if link does not point to one.
func WorktreeName(link string) string {
	at, ok := strings.CutPrefix(link, "gitdir:")
	at = strings.TrimSpace(at)
	if !ok || path.Base(path.Dir(at)) != "worktrees" {
		return ""
	}
	return path.Base(at)
}

// MoveWorktree returns the command, to be run at the repository's root, that moves a worktree from one place to another,
// such as back to where its job looks for it.
func MoveWorktree(from, to string) string {
	return CommandLine("git", "worktree", "move", from, to)
}

// CleanupStatus is the result of removing a worktree. The zero value is none.
type CleanupStatus uint8

// The statuses; their names are those of the original's records.
const (
	NoCleanup CleanupStatus = iota
	CleanupSkipped
	CleanupDone
	CleanupDegraded
	CleanupFailed
)

var cleanupNames = NewNames[CleanupStatus]("cleanup status", "", "skipped", "done", "degraded", "failed")

// Cleanup is the result of removing a worktree, with the error if there was
// one.
type Cleanup struct {
	Status CleanupStatus
	Error  string
}

// State is what has happened to a job. A rewind replaces it with a fresh value,
// so that fields added later are cleared by default. States are comparable: if
// two are equal, nothing need be written. What a state points to is immutable.
type State struct {
	Status     Status
	Wait       WaitReason
	WaitSince  time.Time // when Wait.Kind last changed
	WaitedOn   WaitSet
	Approval   Approval
	Attempt    int // number of the latest execution; 0: none yet; never reset
	Generation int // number of rewinds so far
	Spent      Budget
	Grown      Grown     // current steps of options that grow; a rewind keeps it
	Lost       int       // newest attempt that was lost and whose effects are not resolved; 0: none
	Stalled    int       // newest attempt whose runner stalled; 0: none
	Routed     int       // after how many ends its routes sent the run back since a person last rewound it
	Deferred   bool      // it has ended, and its routes wait for running jobs that they would take back
	Refused    int       // number of launches that the executor refused since an attempt last ran
	RetryAt    time.Time // no launch before this time; for FailedRetryable, and for Queued after refusals
	Requeued   time.Time // when it was last put back into the queue after a failure
	LastError  string    // the reason of its last failure; cleared by a success
	Started    time.Time
	Finished   time.Time
	Exit       ExitCode
	Outcome    Outcome
	Failure    FailureClass
	Reason     string // why it ended as it did, or why it could not be started
	Stop       StopRequest
	Place      Place       // the place of the latest attempt that ended
	Agent      *AgentState // nil: no agent has reported anything
	Context    Context
	Cancelled  Cleanup   // what a cancel did to the job's worktree
	Retried    Cleanup   // what the last rewind did to it
	Removed    time.Time // when its files were purged; its result still counts. Zero: they were not
	Awake      bool      // a route or a retry woke it
	Prompt     PromptState
	Amended    Amendment // what later submissions changed; a rewind keeps it
	Retired    bool      // a merge closed its plan's cycle: it no longer counts as a producer or, if it is blocked, needs no person
	Closed     bool      // it is a merge that closed a cycle
}

// Amendment is what later submissions of the same job changed about what was
// asked for. The zero value means nothing.
type Amendment struct {
	Made      bool
	Transient Transient   // the most conservative mode asked for
	Budget    Budget      // of each kind, the largest asked for
	Retry     RetryPolicy // failures to retry in addition to the spec's
}

// StopRequest is the request to end a running attempt. The zero value means
// none.
type StopRequest struct {
	At      time.Time
	By      string
	Cleanup bool // also remove its worktree, if it owns one
}

// Job is the record of one job.
type Job struct {
	ID      JobID
	Created time.Time
	Rev     Revision // every commit increments it
	Number  Number   // 0: enqueued by a version without numbers
	Part    string   // distinguishes it from other jobs of that number; "": there are none
	Spec    Spec
	State   State
}

// Compare defines the schedule order: by time of creation, then by id.
func (j *Job) Compare(k *Job) int {
	return cmp.Or(j.Created.Compare(k.Created), cmp.Compare(j.ID, k.ID))
}

// Attempt returns the id of the job's latest attempt.
func (j *Job) Attempt() AttemptID { return AttemptID{j.ID, j.State.Attempt} }

// Transient returns the mode in force: the most conservative one that was asked
// for.
func (j *Job) Transient() Transient {
	if j.State.Amended.Made {
		return min(j.Spec.Transient, j.State.Amended.Transient)
	}
	return j.Spec.Transient
}

// Budget returns the budget in force: of each kind, the largest that was asked
// for.
func (j *Job) Budget() Budget {
	if j.State.Amended.Made {
		return j.State.Amended.Budget
	}
	return j.Spec.Budget
}

// Retry returns the retry policy in force, which covers every failure that any
// submission named.
func (j *Job) Retry() RetryPolicy {
	return j.Spec.Retry.or(j.State.Amended.Retry)
}

// Begins returns the status in which a generation of the job begins.
func (j *Job) Begins() Status {
	if j.Spec.Routed || j.Transient() != NotTransient {
		return Unscheduled
	}
	return Queued
}

// Open reports whether a tick may still change the job's status.
func (j *Job) Open() bool { return !j.State.Status.Terminal() }

func sortJobs(jobs []*Job) { slices.SortFunc(jobs, (*Job).Compare) }

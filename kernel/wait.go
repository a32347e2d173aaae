package kernel

import "strings"

// WaitKind names the gate that holds a job up. The zero value is none.
type WaitKind uint8

// The kinds of seed 000.
const (
	NoWait WaitKind = iota
	OnDependencies
	OnPinnedHead
	OnPreconditions
	OnApproval
	OnLocks
	numWaitKinds
)

var waitKindNames = NewNames[WaitKind]("wait kind", "", "dependencies", "pinned_head", "preconditions", "approval", "locks")

// WaitReason says why a job is not running. The zero value means that it is
// not waiting.
type WaitReason struct {
	Kind   WaitKind
	Detail string // for people
	Cause  WaitCause

	// Job and Artifact are what Cause is about, where it is about one.
	Job      JobID
	Artifact Artifact
}

// WaitCause is which condition of its gate a reason is about, as far as other
// decisions depend on it.
type WaitCause uint8

// OtherCause is the zero value: no decision depends on it.
const (
	OtherCause      WaitCause = iota
	JobNotEnded               // Job has to end
	TokenProducing            // a job is making the custom artifact Artifact
	ArtifactMissing           // blocked: Artifact is missing, and every producer has ended
	RunStopped                // blocked: the run stops at the failure of Job
	ExecutorFull              // as many jobs run on the executor as may
	HostAbsent                // only a tick on the host that jobs are scheduled on starts it
)

var waitCauseNames = NewNames[WaitCause]("wait cause", "other", "job", "producer", "artifact", "run", "executor", "host")

// The words of details that name what their cause is about.
const (
	waitingOnJob    = "waiting on job "
	waitingOnToken  = "waiting on "
	missing         = "missing "
	producersFailed = "dependency failed for "
	heldBack        = "held back by the failure of job "
	executorFull    = "waiting on pool max_running"
)

// WaitReasonOf is the reason of a record of before records had causes: it finds
// the cause by the words of the detail.
func WaitReasonOf(kind WaitKind, detail string) WaitReason {
	w := WaitReason{Kind: kind, Detail: detail}
	if kind == OnLocks && strings.HasPrefix(detail, executorFull) {
		w.Cause = ExecutorFull
	}
	if kind != OnDependencies {
		return w
	}
	for _, c := range []struct {
		words string
		cause WaitCause
	}{{waitingOnJob, JobNotEnded}, {heldBack, RunStopped}} {
		if id, ok := strings.CutPrefix(detail, c.words); ok {
			w.Cause, w.Job = c.cause, JobID(id)
			return w
		}
	}
	for _, c := range []struct {
		words string
		cause WaitCause
	}{{waitingOnToken, TokenProducing}, {missing, ArtifactMissing}, {producersFailed, ArtifactMissing}} {
		label, ok := strings.CutPrefix(detail, c.words)
		if a, err := ParseArtifact(label); ok && err == nil && (a.Kind == Custom || c.cause != TokenProducing) {
			w.Cause, w.Artifact = c.cause, a
			return w
		}
	}
	return w
}

// WaitSet is the kinds a job has waited on, in the order it met them. It is
// comparable; the zero value is empty.
type WaitSet struct{ kinds [numWaitKinds - 1]WaitKind }

// With is w and k; NoWait and known kinds change nothing.
func (w WaitSet) With(k WaitKind) WaitSet {
	for i, have := range w.kinds {
		if have == k || have == NoWait {
			w.kinds[i] = k
			return w
		}
	}
	return w
}

// Kinds lists the set in order.
func (w WaitSet) Kinds() []WaitKind {
	var out []WaitKind
	for _, k := range w.kinds {
		if k != NoWait {
			out = append(out, k)
		}
	}
	return out
}

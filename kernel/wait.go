package kernel

import "strings"

// WaitReason says why a job waits or is blocked. The zero value means that it
// is neither.
type WaitReason struct {
	Kind   WaitKind
	Detail string // for people
	Cause  WaitCause

	// Job and Artifact are what Cause is about, if it is about one.
	Job      JobID
	Artifact Artifact
}

// WaitCause is the condition that a reason is about, if other decisions depend
// on which it is.
type WaitCause uint8

// OtherCause is the zero value: no decision depends on which one it is.
const (
	OtherCause      WaitCause = iota
	JobNotEnded               // waits for Job to end
	TokenProducing            // waits for a job that is making the custom artifact Artifact
	ArtifactMissing           // blocked: Artifact is missing, and every producer has ended
	RunStopped                // blocked: the run stops at the failure of Job
	ExecutorFull              // the executor runs as many jobs as it may
	HostAbsent                // waits for a tick on the scheduling host
	PoolTooSmall              // waits for more units of a pool than it has
	RouteDeferred             // waits for the deferred routes of Job, which take it back
)

var waitCauseNames = NewNames[WaitCause]("wait cause", "other", "job", "producer", "artifact", "run", "executor", "host", "pool", "route")

// The words with which details name what their cause is about. Records hold
// them, so they never change.
const (
	waitingOnJob    = "waiting on job "
	waitingOnToken  = "waiting on "
	missing         = "missing "
	producersFailed = "dependency failed for "
	heldBack        = "held back by the failure of job "
	executorFull    = "waiting on pool max_running"

	awaitingProducer = "awaiting producer for "
)

// WaitReasonOf returns the reason of a record that an earlier version wrote
// without a cause. It finds the cause by the words of the detail.
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

// AwaitsProducer reports whether j waits for an artifact that no job on record is to make, so that a
// person has to queue one.
func (j *Job) AwaitsProducer() bool {
	return j.State.Status == WaitingOnDeps && strings.HasPrefix(j.State.Wait.Detail, awaitingProducer)
}

// WaitSet is the set of kinds that a job has waited on, in the order in which
// it met them. It is comparable; the zero value is empty.
type WaitSet struct{ kinds [numWaitKinds - 1]WaitKind }

// With returns w with k added. NoWait and kinds in w change nothing.
func (w WaitSet) With(k WaitKind) WaitSet {
	for i, have := range w.kinds {
		if have == k || have == NoWait {
			w.kinds[i] = k
			return w
		}
	}
	return w
}

// Kinds returns the kinds in order.
func (w WaitSet) Kinds() []WaitKind {
	var out []WaitKind
	for _, k := range w.kinds {
		if k != NoWait {
			out = append(out, k)
		}
	}
	return out
}

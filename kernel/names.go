package kernel

import (
	"fmt"
	"strings"
)

// Names are the names of an enumeration's values, in order from 0. A value with
// an empty name is never written.
type Names[T ~uint8] struct {
	kind  string
	words []string
}

// NewNames returns the names of an enumeration's values. kind is what errors
// call the enumeration.
func NewNames[T ~uint8](kind string, words ...string) Names[T] { return Names[T]{kind, words} }

// Name returns the name of v.
func (n Names[T]) Name(v T) string {
	if n.Has(v) {
		return n.words[v]
	}
	return fmt.Sprintf("%s(%d)", n.kind, v)
}

// Has reports whether v is a value of the enumeration.
func (n Names[T]) Has(v T) bool { return int(v) < len(n.words) }

// Parse is the inverse of Name for values with a non-empty name. It returns
// ErrInvalid for other strings.
func (n Names[T]) Parse(s string) (T, error) {
	for i, word := range n.words {
		if word == s && s != "" {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q: %w", n.kind, s, ErrInvalid)
}

// List returns all names, separated by commas, for error messages.
func (n Names[T]) List() string { return strings.Join(n.words, ", ") }

// Values returns all values of the enumeration, in order.
func (n Names[T]) Values() []T {
	all := make([]T, len(n.words))
	for i := range all {
		all[i] = T(i)
	}
	return all
}

// Statuses returns all statuses, in order.
func Statuses() []Status { return statusNames.Values() }

// The names of the enumerations' values, as records and documents have them.

func (v ApprovalState) String() string    { return approvalNames.Name(v) }
func (v Seal) String() string             { return sealNames.Name(v) }
func (v SandboxMode) String() string      { return sandboxNames.Name(v) }
func (v Network) String() string          { return networkNames.Name(v) }
func (v ArtifactKind) String() string     { return artifactKindNames.Name(v) }
func (v FailureClass) String() string     { return failureClassNames.Name(v) }
func (v Outcome) String() string          { return outcomeNames.Name(v) }
func (v InDoubt) String() string          { return inDoubtNames.Name(v) }
func (v FailureMode) String() string      { return failureModeNames.Name(v) }
func (v PromptName) String() string       { return promptNames.Name(v) }
func (v AfterPolicy) String() string      { return afterPolicyNames.Name(v) }
func (v MissingProducer) String() string  { return missingProducerNames.Name(v) }
func (v Transient) String() string        { return transientNames.Name(v) }
func (v PreconditionKind) String() string { return preconditionKindNames.Name(v) }
func (v CleanupStatus) String() string    { return cleanupNames.Name(v) }
func (v LockMode) String() string         { return lockModeNames.Name(v) }
func (s Status) String() string           { return statusNames.Name(s) }
func (v RemedyKind) String() string       { return remedyNames.Name(v) }
func (v Outlook) String() string          { return outlookNames.Name(v) }
func (v WaitKind) String() string         { return waitKindNames.Name(v) }
func (v WaitCause) String() string        { return waitCauseNames.Name(v) }

// The inverses of String.

func ParseSandboxMode(s string) (SandboxMode, error)           { return sandboxNames.Parse(s) }
func ParseNetwork(s string) (Network, error)                   { return networkNames.Parse(s) }
func ParseApprovalState(s string) (ApprovalState, error)       { return approvalNames.Parse(s) }
func ParseArtifactKind(s string) (ArtifactKind, error)         { return artifactKindNames.Parse(s) }
func ParseFailureClass(s string) (FailureClass, error)         { return failureClassNames.Parse(s) }
func ParseOutcome(s string) (Outcome, error)                   { return outcomeNames.Parse(s) }
func ParseInDoubt(s string) (InDoubt, error)                   { return inDoubtNames.Parse(s) }
func ParseFailureMode(s string) (FailureMode, error)           { return failureModeNames.Parse(s) }
func ParsePromptName(s string) (PromptName, error)             { return promptNames.Parse(s) }
func ParseAfterPolicy(s string) (AfterPolicy, error)           { return afterPolicyNames.Parse(s) }
func ParseMissingProducer(s string) (MissingProducer, error)   { return missingProducerNames.Parse(s) }
func ParseTransient(s string) (Transient, error)               { return transientNames.Parse(s) }
func ParsePreconditionKind(s string) (PreconditionKind, error) { return preconditionKindNames.Parse(s) }
func ParseCleanupStatus(s string) (CleanupStatus, error)       { return cleanupNames.Parse(s) }
func ParseLockMode(s string) (LockMode, error)                 { return lockModeNames.Parse(s) }
func ParseStatus(s string) (Status, error)                     { return statusNames.Parse(s) }
func ParseWaitKind(s string) (WaitKind, error)                 { return waitKindNames.Parse(s) }
func ParseWaitCause(s string) (WaitCause, error)               { return waitCauseNames.Parse(s) }

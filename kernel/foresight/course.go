package foresight

import (
	"math"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Course determines how attempts and decisions that are still open turn out.
type Course interface {
	// Attempt returns the result of j's running attempt and its total duration.
	// It has been running for ran.
	Attempt(j *kernel.Job, ran time.Duration) (kernel.Result, time.Duration)
	// Decision returns whether a person who is asked about j now approves it,
	// and how long the person takes: Never if nobody decides.
	Decision(j *kernel.Job) (grants bool, takes time.Duration)
}

// Never is the duration of a decision that nobody makes.
const Never = time.Duration(math.MaxInt64)

// Basis is what an estimated duration is based on. A larger value is more
// reliable.
type Basis uint8

// The bases. Guess means one of the defaults below.
const (
	Guess Basis = iota
	Recorded
	Declared
)

var basisNames = kernel.NewNames[Basis]("basis", "guess", "history", "declared")

func (b Basis) String() string { return basisNames.Name(b) }

// Durations that are assumed if nothing is known.
const (
	DefaultDuration = time.Minute // of an attempt
	DefaultDecision = time.Hour   // of a person's decision
)

// Kind is the kind of a limited resource.
type Kind uint8

// The kinds of resources.
const (
	Slot Kind = iota // a place among the jobs that an executor runs at once
	Pool
	Lock
	Person
)

var kindNames = kernel.NewNames[Kind]("resource", "slot", "pool", "lock", "person")

func (k Kind) String() string { return kindNames.Name(k) }

// Resource is something that jobs wait for because others have it. The name of
// a slot is that of its executor; a person has none.
type Resource struct {
	Kind Kind
	Name string
}

func (r Resource) String() string {
	if r.Name == "" {
		return r.Kind.String()
	}
	return r.Kind.String() + " " + r.Name
}

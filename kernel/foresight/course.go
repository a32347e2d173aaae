package foresight

import (
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Course says how what has not ended yet goes.
type Course interface {
	// Attempt is how the running attempt of j ends, and how long it takes in all, of
	// which it has run for ran.
	Attempt(j *kernel.Job, ran time.Duration) (kernel.Result, time.Duration)
	// Decision is how long it takes a person to decide about j, who is asked from now
	// on, and whether j is approved.
	Decision(j *kernel.Job) (grants bool, takes time.Duration)
}

// Basis is what a duration is known from. A larger one is surer.
type Basis uint8

// A guess is a stated default.
const (
	Guess Basis = iota
	Recorded
	Declared
)

var basisNames = kernel.NewNames[Basis]("basis", "guess", "history", "declared")

func (b Basis) String() string { return basisNames.Name(b) }

// What is assumed of what nothing is known of.
const (
	DefaultDuration = time.Minute // of an attempt
	DefaultDecision = time.Hour   // of a person
)

// Kind is what kind of thing jobs wait for that others have.
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

// Resource is something of which there is only so much. The name of a slot is that of
// its executor; a person has none.
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

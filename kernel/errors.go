package kernel

import "errors"

// The classes of refusal. A verb wraps one with itself and its subject; a
// front end branches with errors.Is.
var (
	ErrNotFound = errors.New("no such job")
	ErrRunning  = errors.New("job is running")
	ErrStale    = errors.New("stale attempt") // seed 001's ErrStaleAttempt
	ErrInvalid  = errors.New("invalid")
	ErrConflict = errors.New("conflict") // the job's status does not allow it

	// ErrOwn is a decision that the submitter may not make: it is another's.
	ErrOwn = errors.New("somebody else has to decide")

	// ErrRecorded is a commit that is durable and could not be written out, as
	// on a full disk: it has happened, and whoever takes the lock next writes it.
	ErrRecorded = errors.New("it is on record, and the next command completes it")
)

// Missing is that something other than a job is not there. It is ErrNotFound.
type Missing struct{ What string } // such as "branch main"

func (e Missing) Error() string { return e.What + " not found" }
func (e Missing) Unwrap() error { return ErrNotFound }

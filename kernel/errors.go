package kernel

import "errors"

// The classes of errors. A verb wraps one with its name and subject; a front
// end tests for them with errors.Is.
var (
	ErrNotFound = errors.New("no such job")
	ErrRunning  = errors.New("job is running")
	ErrStale    = errors.New("stale attempt") // seed 001's ErrStaleAttempt
	ErrInvalid  = errors.New("invalid")
	ErrConflict = errors.New("conflict") // the state of the job does not allow it

	// ErrOwn means that the submitter may not make the decision; another person
	// has to.
	ErrOwn = errors.New("somebody else has to decide")

	// ErrRecorded means that a commit is durable but its files could not be
	// written, for example because the disk is full. The commit has happened;
	// the next holder of the scheduler lock writes the files.
	ErrRecorded = errors.New("it is on record, and the next command completes it")
)

// Missing says that something other than a job was not found. It wraps
// ErrNotFound.
type Missing struct{ What string } // such as "branch main"

func (e Missing) Error() string { return e.What + " not found" }
func (e Missing) Unwrap() error { return ErrNotFound }

package kernel

import (
	"errors"
	"fmt"
	"strings"
)

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

	// ErrMoved means that the store that this process has open is at another
	// path now. Only a process that opens it there can change it.
	ErrMoved = errors.New("the repository was moved while this process had it open; run the command at its new place")
)

// Said returns the text of err for people: without the names of ErrInvalid and ErrConflict at the
// ends of its lines, which say nothing that the text before them does not.
func Said(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		l = strings.TrimSuffix(l, ": "+ErrInvalid.Error())
		lines[i] = strings.TrimSuffix(l, ": "+ErrConflict.Error())
	}
	return strings.Join(lines, "\n")
}

// PoolError says that a job asks for more units of a pool than there are. It
// wraps ErrInvalid.
type PoolError struct {
	Pool       string
	Has, Asked int
}

func (e *PoolError) Error() string {
	return fmt.Sprintf("pool %s has %d of the %d units asked for: it could never start", e.Pool, e.Has, e.Asked)
}
func (e *PoolError) Unwrap() error { return ErrInvalid }

// Missing says that something other than a job was not found. It wraps
// ErrNotFound.
type Missing struct{ What string } // such as "branch main"

func (e Missing) Error() string { return e.What + " not found" }
func (e Missing) Unwrap() error { return ErrNotFound }

//go:build !linux || portable

package proc

import "github.com/vizier-scheduler/vizier/kernel"

// adoptsOrphans says whether orphans of a command become children of the
// runner.
const adoptsOrphans = false

// becomeSubreaper does nothing: here orphans become children of the system's
// first process.
func becomeSubreaper() {}

// leftoverProcesses finds the processes that a command left running, as far as
// that is possible without being their parent: those in the command's session,
// those with the attempt in their environment, and their descendants.
type leftoverProcesses struct {
	l      *Local
	a      kernel.AttemptID
	claim  claim
	before []process
	once   bool // nothing was found the last time

	used kernel.Used // always zero: others wait for these processes
}

func (l *Local) leftoversOf(a kernel.AttemptID, command Identity) *leftoverProcesses {
	return &leftoverProcesses{l: l, a: a, claim: claim{Identity: Self(), Child: &command}}
}

// find returns the live ones. A process in the middle of an exec shows no
// environment, so only two empty results in a row mean that there are none.
func (o *leftoverProcesses) find(bool) (left []process, unsure bool) {
	_, left = o.l.remnants(o.a, o.claim, o.before)
	unsure, o.before, o.once = !o.once, left, len(left) == 0
	return left, unsure
}

//go:build !linux || portable

package proc

import "github.com/vizier-scheduler/vizier/kernel"

// adoptsOrphans says that what a command orphans becomes a child of the runner.
const adoptsOrphans = false

// becomeSubreaper does nothing: orphans go to the system's first process.
func becomeSubreaper() {}

// leftoverProcesses are what a command left running, as far as that can be told without
// being the parent: what is in the command's session or shows the attempt in its
// environment, and what descends from those.
type leftoverProcesses struct {
	l      *Local
	a      kernel.AttemptID
	claim  claim
	before []process
	once   bool // nothing was found the last time

	used kernel.Used // nothing: others wait for them
}

func (l *Local) leftoversOf(a kernel.AttemptID, command Identity) *leftoverProcesses {
	return &leftoverProcesses{l: l, a: a, claim: claim{Identity: Self(), Child: &command}}
}

// find are the live ones. A process in the middle of an exec shows no
// environment, so nothing is believed only when it is seen twice.
func (o *leftoverProcesses) find(bool) (left []process, unsure bool) {
	_, left = o.l.remnants(o.a, o.claim, o.before)
	unsure, o.before, o.once = !o.once, left, len(left) == 0
	return left, unsure
}

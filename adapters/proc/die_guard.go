//go:build !freebsd && (!linux || portable)

package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// commandAttr puts a command into a session of its own.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// guard is a process that kills a command when this process dies. It reads a
// pipe that this process alone writes to: the command's pid, then an empty
// line once the command has ended. The end of the pipe is the death of
// this process.
type guard struct{ pipe *os.File }

// guardScript minds no signal that a terminal or a user sends to many.
const guardScript = `trap '' HUP INT QUIT TERM
while read -r line; do command=$line; done
[ -z "$command" ] || kill -s KILL "$command"`

// newGuard starts a guard. It comes before the command, which must not run
// without one.
func (l *Local) newGuard() (*guard, error) {
	null, err := null()
	if err != nil {
		return nil, err
	}
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	err = l.startProcess([]string{"/bin/sh", "-c", guardScript}, nil, in, null, null)
	if err = errors.Join(err, in.Close()); err != nil {
		_ = pipe.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &guard{pipe}, nil
}

// watch has the guard kill the process of that number.
func (g *guard) watch(pid int) { _, _ = g.pipe.WriteString(strconv.Itoa(pid) + "\n") }

// dismiss ends the guard, which does nothing any more.
func (g *guard) dismiss() {
	_, _ = g.pipe.WriteString("\n")
	_ = g.pipe.Close()
}

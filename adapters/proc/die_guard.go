//go:build !freebsd && (!linux || portable)

package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// commandAttr makes a command the leader of a session of its own.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// guard is a process that kills a command when this process dies. It reads a
// pipe that only this process writes to: first the command's pid, then an empty
// line once the command has ended. If the pipe ends before that, this process
// has died.
type guard struct{ pipe *os.File }

// guardScript ignores the signals that a terminal or a user sends to whole
// groups of processes.
const guardScript = `trap '' HUP INT QUIT TERM
while read -r line; do command=$line; done
[ -z "$command" ] || kill -s KILL "$command"`

// newGuard starts a guard. It must be called before the command starts, which
// must never run without a guard.
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

// watch makes the guard responsible for the process pid.
func (g *guard) watch(pid int) { _, _ = g.pipe.WriteString(strconv.Itoa(pid) + "\n") }

// dismiss ends the guard without killing the command.
func (g *guard) dismiss() {
	_, _ = g.pipe.WriteString("\n")
	_ = g.pipe.Close()
}

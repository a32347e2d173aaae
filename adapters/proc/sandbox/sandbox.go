// Package sandbox restricts a command to the files that it is given. It does so
// in a step before the command: this program, started in its place, restricts
// itself and then becomes the command. It needs no other program and no
// privileges.
package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Entry is the hidden entry point of the step: Entry POLICY PROGRAM ARG...
const Entry = "__sandbox"

// Policy is what a command may do.
type Policy struct {
	Required bool      // if something cannot be enforced, fail instead of leaving it out
	Write    sys.Paths // files and directories that it may write to, absolute and without links; those that do not exist are ignored
	Guarded  sys.Paths // directories that stay closed even if they are below one in Write
	Offline  bool      // no access to the network
	Apart    bool      // it is already in a network namespace of its own; set by Wrap
}

// Command is a program, its arguments (its name first), and its environment.
type Command struct {
	Path string
	Args []string
	Env  []string
}

// Wrap returns the command to start in place of c, and prepares attr for it.
// self is this program with its first arguments. The step gets c's variables
// under other names: those for the dynamic linker would otherwise load c's code
// into it.
func (p Policy) Wrap(self []string, c Command, attr *syscall.SysProcAttr) Command {
	p.prepare(attr)
	text, _ := json.Marshal(p) // paths and booleans can always be encoded
	step := Command{Path: self[0], Args: slices.Concat(self, []string{Entry, string(text), c.Path}, c.Args)}
	for _, v := range c.Env {
		step.Env = append(step.Env, shield+v)
	}
	return step
}

// shield is the prefix of the names of variables that are for the command.
const shield = "_"

// unshield returns the variables that are for the command.
func unshield(env []string) []string {
	var out []string
	for _, v := range env {
		if v, ok := strings.CutPrefix(v, shield); ok {
			out = append(out, v)
		}
	}
	return out
}

// Serve runs the step. It only returns if the command was not started.
func Serve(args []string, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintln(stderr, "vizier sandbox:", err)
		return 126
	}
	var p Policy
	if len(args) < 3 {
		return fail(errors.New("expected a policy, a program and its arguments: Vizier starts this, nobody else"))
	}
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return fail(err)
	}
	if err := p.enforce(); err != nil {
		return fail(err)
	}
	if err := syscall.Exec(args[1], args[2:], unshield(os.Environ())); err != nil {
		return fail(fmt.Errorf("cannot execute %s: %w", args[1], err))
	}
	return 0
}

// Beneath reports whether path is below dir.
func Beneath(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") && path != dir
}

// Words describes what this host enforces of a sandbox.
func Words(b kernel.Sandbox) string {
	h := This()
	words := h.words()
	if b.Network == kernel.NoNetwork {
		words += "; " + h.network()
	}
	return words
}

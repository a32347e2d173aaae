//go:build !linux

package sandbox

import (
	"errors"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Host is what this host can enforce: nothing.
type Host struct{}

// This returns what this host can enforce.
func This() Host { return Host{} }

const none = "this system has no Landlock"

// Enforcement says why nothing can be enforced.
func (Host) Enforcement() kernel.Enforcement { return kernel.Enforcement{Files: none, Network: none} }

func (Host) words() string   { return "no files: " + none }
func (Host) network() string { return "the network is open" }

func (*Policy) prepare(*syscall.SysProcAttr) {}

func (p Policy) enforce() error {
	if p.Required {
		return errors.New(none)
	}
	return nil
}

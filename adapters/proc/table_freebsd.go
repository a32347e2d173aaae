//go:build amd64 || arm64

package proc

import (
	"bytes"
	"encoding/hex"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc/kinfo"
)

// readProcess returns the process of that pid, if there is one. Its start is in
// microseconds since boot.
func readProcess(pid int) (process, bool) {
	b, err := unix.SysctlRaw("kern.proc.pid", pid)
	if err != nil {
		return process{}, false
	}
	for _, p := range processesOf(b) {
		return p, p.pid == pid
	}
	return process{}, false
}

// processes returns every process this one can see.
func processes() []process {
	b, err := unix.SysctlRaw("kern.proc.proc")
	if err != nil {
		return nil
	}
	return processesOf(b)
}

// processesOf computes start times relative to the time of the boot: the system
// shifts both whenever the clock is set, so their difference stays the same.
func processesOf(table []byte) (all []process) {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return nil
	}
	for _, k := range kinfo.FreeBSD(table) {
		all = append(all, process{pid: k.PID, parent: k.Parent, session: k.Session,
			start: uint64(k.Started - boot.Sec*1_000_000 - boot.Usec), zombie: k.Zombie, stopped: k.Stopped})
	}
	return all
}

// bootID returns the id of this boot, or "" if it is not known, as before
// FreeBSD 13.
func bootID() string {
	id, _ := unix.SysctlRaw("kern.boot_id")
	return hex.EncodeToString(id)
}

// environOf returns the environment that a process was started with, each
// variable followed by a NUL, or nil if it is not readable.
func environOf(pid int) []byte {
	b, _ := unix.SysctlRaw("kern.proc.env", pid)
	return b
}

// programOf returns the file that a process executes, or "".
func programOf(pid int) string {
	b, _ := unix.SysctlRaw("kern.proc.pathname", pid)
	return string(bytes.TrimRight(b, "\x00"))
}

// genuineTable reports whether the process table covers the whole system.
func genuineTable() bool { return true }

// genuine reports whether the system itself shows the process.
func genuine(int) bool { return true }

// genuineBoot returns the id of this boot, ignoring the environment.
func genuineBoot() string { return bootID() }

// startsPrograms is not known here: docs/user/trust.md says so.
func startsPrograms(int) bool { return false }

// serviceManager reports whether the process manages a user's services, and
// adopts their orphans. On this system only the first process does.
func serviceManager(int) bool { return false }

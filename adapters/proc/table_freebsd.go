//go:build amd64 || arm64

package proc

import (
	"bytes"
	"encoding/hex"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc/kinfo"
)

// readProcess is the process of that pid, if there is one. Its start is in
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

// processes is every process this one can see.
func processes() []process {
	b, err := unix.SysctlRaw("kern.proc.proc")
	if err != nil {
		return nil
	}
	return processesOf(b)
}

// processesOf goes by the time of the boot, since the system computes both it
// and starts anew whenever the clock is set: what is between them stays.
func processesOf(table []byte) (all []process) {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return nil
	}
	for _, k := range kinfo.FreeBSD(table) {
		all = append(all, process{pid: k.PID, parent: k.Parent, session: k.Session,
			start: uint64(k.Started - boot.Sec*1_000_000 - boot.Usec), zombie: k.Zombie})
	}
	return all
}

// bootID is the id of this boot, "" if it cannot be told: before FreeBSD 13.
func bootID() string {
	id, _ := unix.SysctlRaw("kern.boot_id")
	return hex.EncodeToString(id)
}

// environOf is the environment that a process was started with, each variable
// with a NUL behind it; nil where it is not shown.
func environOf(pid int) []byte {
	b, _ := unix.SysctlRaw("kern.proc.env", pid)
	return b
}

// programOf is the file that a process executes, or "".
func programOf(pid int) string {
	b, _ := unix.SysctlRaw("kern.proc.pathname", pid)
	return string(bytes.TrimRight(b, "\x00"))
}

// genuineTable reports that the process table is of all of the system.
func genuineTable() bool { return true }

// genuine reports that the system itself shows the process.
func genuine(int) bool { return true }

// genuineBoot is the id of this boot, whatever the environment says.
func genuineBoot() string { return bootID() }

// serviceManager reports that the process manages a user's services, and adopts
// their orphans. Here only the system's first process does.
func serviceManager(int) bool { return false }

package proc

import (
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc/kinfo"
)

// SSTOP and SZOMB of sys/proc.h.
const (
	stateStopped = 4
	stateZombie  = 5
)

// readProcess returns the process of that pid, if there is one. Its start time
// is in microseconds since 1970, by the clock as it was set at that time.
func readProcess(pid int) (process, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return process{}, false
	}
	return processOf(k), true
}

func processOf(k *unix.KinfoProc) process {
	pid := int(k.Proc.P_pid)
	session, err := unix.Getsid(pid)
	if err != nil { // the table does not show it
		session = -1
	}
	start := k.Proc.P_starttime
	return process{pid: pid, parent: int(k.Eproc.Ppid), session: session,
		start: uint64(start.Sec)*1_000_000 + uint64(start.Usec), zombie: k.Proc.P_stat == stateZombie, stopped: k.Proc.P_stat == stateStopped}
}

// processes returns every process this one can see.
func processes() (all []process) {
	table, _ := unix.SysctlKinfoProcSlice("kern.proc.all")
	for i := range table {
		all = append(all, processOf(&table[i]))
	}
	return all
}

// bootID returns the id of this boot, or "" if it is not known. The time of the
// boot would not do: it changes when the clock is set.
func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// environOf returns the environment that a process was started with, each
// variable followed by a NUL, or nil if it is not readable, as that of the
// system's own programs.
func environOf(pid int) []byte {
	b, _ := unix.SysctlRaw("kern.procargs2", pid)
	_, environ := kinfo.Args(b)
	return environ
}

// programOf returns the file that a process executes, or "".
func programOf(pid int) string {
	b, _ := unix.SysctlRaw("kern.procargs2", pid)
	program, _ := kinfo.Args(b)
	return program
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

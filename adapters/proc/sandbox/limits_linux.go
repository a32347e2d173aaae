package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callABI is one way in which a program calls the system.
type callABI struct {
	arch    uint32   // the audit architecture
	prlimit []uint32 // the numbers of prlimit64
}

// x32 marks the numbers of calls that are made as the ABI x32 has them.
const x32 = 0x40000000

// callABIs are all the ways of each architecture that is known, those of its 32-bit programs included.
var callABIs = map[string][]callABI{
	"amd64": {{unix.AUDIT_ARCH_X86_64, []uint32{302, x32 | 302}}, {unix.AUDIT_ARCH_I386, []uint32{340}}},
	"arm64": {{unix.AUDIT_ARCH_AARCH64, []uint32{261}}, {unix.AUDIT_ARCH_ARM, []uint32{369}}},
}

// limitsLack returns why the limits of other processes cannot be kept from a command, or "".
func limitsLack() string {
	refuses := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&refuses)))
	switch {
	case callABIs[runtime.GOARCH] == nil:
		return "Vizier has no filter of system calls for " + runtime.GOARCH
	case no != 0:
		return "this host's kernel has no filters of system calls (seccomp), or they are switched off"
	default:
		return ""
	}
}

// keepLimits refuses this thread, and what it becomes and starts, to set the limits of a process (prlimit64):
// Landlock does not stop that, and a limit ends a process as a signal does. A process's own are set without a
// pid, and can be set. Nobody can undo it.
func keepLimits() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if why := limitsLack(); why != "" {
		return errors.New(why)
	}
	filter := limitFilter(callABIs[runtime.GOARCH])
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Without the flag, older kernels would slow the command down.
	if _, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, uintptr(unsafe.Pointer(&program))); no != 0 {
		return fmt.Errorf("filter of system calls: %w", no)
	}
	return nil
}

// Where the filter finds a call, and its arguments on a little-endian machine. The system itself only looks at
// the lower half of a pid.
const (
	callNumber  = 0
	callArch    = 4
	pidArgument = 16
	newLimitLow = 32
	newLimitTop = 36
)

// limitFilter returns the filter for a machine with the given ABIs. It refuses every call of another one, whose numbers
// it does not know.
func limitFilter(abis []callABI) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(to uint32, skip, otherwise int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(skip), Jf: uint8(otherwise), K: to}
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	refuse := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	out := []unix.SockFilter{load(callArch)}
	for _, a := range abis {
		calls := []unix.SockFilter{load(callNumber)}
		for i, number := range a.prlimit {
			calls = append(calls, equal(number, len(a.prlimit)-i, 0)) // over the others and over allow
		}
		calls = append(calls, allow,
			load(pidArgument), equal(0, 4, 0),
			load(newLimitLow), equal(0, 0, 3),
			load(newLimitTop), equal(0, 0, 1),
			allow,
			refuse)
		out = slices.Concat(out, []unix.SockFilter{equal(a.arch, 0, len(calls))}, calls)
	}
	return append(out, refuse)
}

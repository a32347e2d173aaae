// Package kinfo parses what sysctl(3) reports about processes in layouts that
// no library supports. It is pure, so that it can be tested on every system.
package kinfo

import (
	"bytes"
	"encoding/binary"
)

// Process is an entry of the process table of FreeBSD.
type Process struct {
	PID, Parent, Session int
	Started              int64 // microseconds since 1970, by the clock as it is set now
	Zombie, Stopped      bool
}

// Offsets and values of struct kinfo_proc (sys/user.h) with 64-bit pointers.
// The system keeps the layout from release to release.
const (
	freeBSDSize    = 1088
	offSize        = 0
	offPID         = 72
	offParent      = 76
	offSession     = 88
	offStartSec    = 336
	offStartMicros = 344
	offState       = 388

	stateStopped = 4
	stateZombie  = 5
)

// FreeBSD parses the table that kern.proc returns. It stops at an entry with
// another layout.
func FreeBSD(table []byte) (all []Process) {
	for ; len(table) >= freeBSDSize; table = table[freeBSDSize:] {
		number := func(at int) int { return int(int32(binary.LittleEndian.Uint32(table[at:]))) }
		if number(offSize) != freeBSDSize {
			return all
		}
		long := func(at int) int64 { return int64(binary.LittleEndian.Uint64(table[at:])) }
		all = append(all, Process{PID: number(offPID), Parent: number(offParent), Session: number(offSession),
			Started: long(offStartSec)*1_000_000 + long(offStartMicros), Zombie: table[offState] == stateZombie, Stopped: table[offState] == stateStopped})
	}
	return all
}

// Args parses the value of kern.procargs2 on macOS: the number of arguments,
// the program's path, padding, the arguments, the environment and, after an
// empty string, what the system adds. The environment is empty if the system
// hides it, as it does for its own programs.
func Args(b []byte) (program string, environ []byte) {
	if len(b) < 4 {
		return "", nil
	}
	count := int(int32(binary.LittleEndian.Uint32(b)))
	path, rest, found := bytes.Cut(b[4:], []byte{0})
	if !found {
		return "", nil
	}
	rest = bytes.TrimLeft(rest, "\x00")
	for range count {
		if _, rest, found = bytes.Cut(rest, []byte{0}); !found {
			return string(path), nil
		}
	}
	if end := bytes.Index(rest, []byte{0, 0}); end >= 0 {
		rest = rest[:end+1]
	}
	if len(rest) > 0 && rest[0] == 0 {
		rest = nil
	}
	return string(path), rest
}

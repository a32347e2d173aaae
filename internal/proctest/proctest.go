// Package proctest lists live processes for tests that wait until none of theirs is left.
package proctest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Process is a live process whose environment this user may read.
type Process struct {
	PID     int
	Environ []string // as NAME=value
}

// All returns the processes of /proc. It lists them again until no new one appears: a process
// that ended before it was looked at may have started one that the first list does not have.
func All() (found []Process) {
	looked := map[string]bool{}
	for more := true; more; {
		more = false
		names, _ := filepath.Glob("/proc/[0-9]*")
		for _, name := range names {
			if looked[name] {
				continue
			}
			looked[name], more = true, true
			pid, _ := strconv.Atoi(filepath.Base(name))
			if p := Look(pid); p.Environ != nil {
				found = append(found, p)
			}
		}
	}
	return found
}

// Look returns the process of that number; without an environment if it has ended.
func Look(pid int) Process {
	proc := "/proc/" + strconv.Itoa(pid)
	for range 100 {
		text, err := os.ReadFile(proc + "/environ")
		if len(text) > 0 {
			return Process{PID: pid, Environ: strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")}
		}
		// While it executes a program its environment is read as empty, but it has an executable,
		// which a process that has ended has not.
		if _, gone := os.Readlink(proc + "/exe"); err != nil || gone != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return Process{PID: pid}
}

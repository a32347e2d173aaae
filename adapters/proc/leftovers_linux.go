//go:build !portable

package proc

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// adoptsOrphans says whether orphans of a command become children of the
// runner.
const adoptsOrphans = true

// becomeSubreaper makes orphaned descendants children of this process.
var becomeSubreaper = sync.OnceFunc(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })

// leftoverProcesses finds the processes that a command left running. Any such
// process, even a daemon in a session of its own, is now a child of this
// process or a descendant of one, because this process is their subreaper.
type leftoverProcesses struct {
	l    *Local
	used kernel.Used // the resources of those that were reaped
}

func (l *Local) leftoversOf(kernel.AttemptID, Identity) *leftoverProcesses {
	return &leftoverProcesses{l: l}
}

// find returns the live ones, without runners that were started from here or
// from within the command. If patient, it leaves out a process that may be
// about to become a runner, and returns unsure. It reaps dead ones.
func (o *leftoverProcesses) find(patient bool) (left []process, unsure bool) {
	if !hasChildren() {
		return nil, false
	}
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	me, _ := readProcess(os.Getpid())
	var roots []process
	for _, p := range children() {
		if o.l.own[p.pid] || p.session == me.session || !p.signalable() {
			continue // started by some part of this process
		}
		if p.zombie {
			var u syscall.Rusage
			if n, _ := syscall.Wait4(p.pid, nil, syscall.WNOHANG, &u); n == p.pid {
				o.used = o.used.Plus(usedBy(&u))
			}
			continue
		}
		switch is, maybe := p.runner(); {
		case maybe && patient:
			unsure = true
		case !is:
			roots = append(roots, p)
		}
	}
	if len(roots) == 0 {
		return nil, unsure
	}
	return descendants(roots, processes()), unsure
}

// hasChildren reports whether this process has any child, dead or alive.
func hasChildren() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != unix.ECHILD
}

// children returns the processes whose parent is this process.
func children() []process {
	const tasks = "/proc/self/task"
	d, err := os.Open(tasks)
	if err != nil {
		return nil
	}
	defer d.Close()
	threads, _ := d.Readdirnames(-1)
	var all []process
	for _, t := range threads {
		list, err := os.ReadFile(tasks + "/" + t + "/children")
		if err != nil {
			continue // the thread has ended, and another one has its children
		}
		for _, field := range bytes.Fields(list) {
			pid, _ := strconv.Atoi(string(field))
			if p, ok := readProcess(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

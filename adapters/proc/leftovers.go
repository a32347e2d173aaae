package proc

import (
	"os"
	"syscall"
	"time"
)

// leftoverGrace is what a process that outlived its command gets between TERM
// and KILL.
const leftoverGrace = time.Second

// endLeftovers ends and reaps what a command left running. Whatever it was,
// a daemon in a session of its own included, it is a child of this process now,
// or a descendant of one: this process is their subreaper.
func (l *Local) endLeftovers(grace time.Duration) {
	if !hasChildren() {
		return
	}
	const step, killPatience = 2 * time.Millisecond, 5 * time.Second
	told := map[int]uint64{} // whom TERM was sent
	begin := time.Now()
	for {
		left := l.leftovers()
		waited := time.Since(begin)
		if len(left) == 0 || waited > grace+killPatience {
			return // what not even KILL ends is stuck in the kernel
		}
		for _, p := range left {
			switch {
			case waited >= grace:
				p.signal(syscall.SIGKILL)
			case told[p.pid] != p.start:
				told[p.pid] = p.start
				p.signal(syscall.SIGTERM)
				p.signal(syscall.SIGCONT)
			}
		}
		time.Sleep(step)
	}
}

// leftovers are the live processes the last command left, which excludes the
// runners that were started from here or from within the command. It reaps the
// dead.
func (l *Local) leftovers() []process {
	l.mu.Lock()
	defer l.mu.Unlock()
	me, _ := readProcess(os.Getpid())
	var roots []process
	for _, p := range children() {
		switch {
		case l.own[p.pid] || p.session == me.session:
			// Started by this process itself, by whatever part of it.
		case p.zombie:
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil)
		case p.env(envRunner) == "" && p.endable():
			roots = append(roots, p)
		}
	}
	if len(roots) == 0 {
		return nil
	}
	return descendants(roots, processes())
}

// descendants are roots and all live processes below them that can be ended,
// each once. What is below a runner is another job's.
func descendants(roots, table []process) []process {
	below := map[int][]process{}
	for _, p := range table {
		below[p.parent] = append(below[p.parent], p)
	}
	seen := map[int]bool{}
	for _, p := range roots {
		seen[p.pid] = true
	}
	all := roots
	for i := 0; i < len(all); i++ {
		for _, p := range below[all[i].pid] {
			if !seen[p.pid] && !p.zombie && p.env(envRunner) == "" && p.endable() {
				seen[p.pid] = true
				all = append(all, p)
			}
		}
	}
	return all
}

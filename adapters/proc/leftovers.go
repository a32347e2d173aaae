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
		waited := time.Since(begin)
		left, unsure := l.leftovers(waited < grace)
		if len(left) == 0 && !unsure || waited > grace+killPatience {
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
// runners that were started from here or from within the command. While patient
// it leaves out a process that may be about to become a runner, and says so. It
// reaps the dead.
func (l *Local) leftovers(patient bool) (left []process, unsure bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	me, _ := readProcess(os.Getpid())
	var roots []process
	for _, p := range children() {
		if l.own[p.pid] || p.session == me.session || !p.endable() {
			continue // started by this process itself, by whatever part of it
		}
		if p.zombie {
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil)
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
			if seen[p.pid] || p.zombie || !p.endable() {
				continue
			}
			if is, maybe := p.runner(); !is && !maybe {
				seen[p.pid] = true
				all = append(all, p)
			}
		}
	}
	return all
}

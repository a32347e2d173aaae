package proc

import (
	"syscall"
	"time"
)

// leftoverGrace is the time between TERM and KILL for a process that outlived
// its command.
const leftoverGrace = time.Second

// endLeftovers ends the processes that a command left running.
func endLeftovers(of *leftoverProcesses, grace time.Duration) {
	const step, killPatience = 2 * time.Millisecond, 5 * time.Second
	told := map[int]uint64{} // processes that were sent TERM
	begin := time.Now()
	for {
		waited := time.Since(begin)
		left, unsure := of.find(waited < grace)
		if len(left) == 0 && !unsure || waited > grace+killPatience {
			return // a process that survives KILL is stuck in the kernel
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

// descendants returns roots and all live processes below them that can be
// ended, without duplicates. Processes below a runner belong to another job and
// are left out.
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
			if seen[p.pid] || p.zombie || !p.signalable() {
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

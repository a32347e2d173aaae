package proc

import (
	"syscall"
	"time"
)

// leftoverGrace is what a process that outlived its command gets between TERM
// and KILL.
const leftoverGrace = time.Second

// endLeftovers ends what a command left running.
func endLeftovers(of *leftoverProcesses, grace time.Duration) {
	const step, killPatience = 2 * time.Millisecond, 5 * time.Second
	told := map[int]uint64{} // whom TERM was sent
	begin := time.Now()
	for {
		waited := time.Since(begin)
		left, unsure := of.find(waited < grace)
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

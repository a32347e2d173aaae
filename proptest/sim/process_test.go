package sim

import (
	"context"
	"fmt"
	"iter"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// process is a process of the simulated machine. It runs the code of app as a
// coroutine that stands still before each of its effects on the world, until
// the simulation lets it go on or kills it there.
type process struct {
	w      *world
	name   string
	verb   string // what a person asked for
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	at     string      // the effect it stands before
	wait   func() bool // reports whether what it waits for is there; nil: it waits for nothing
	dead   bool        // killed: nothing it still does counts
	ended  bool
	err    error
	pid    int
	host   int
	held   map[kernel.JobID]*handle // the job locks it holds
	runner *app.Runner
	told   bool       // its runner is about to look at its record, after a signal or a heartbeat
	pilot  []*process // the workers of its pilot, which end with it when one is killed
}

// killed unwinds a process that was killed.
type killed struct{}

// spawn makes a process that is about to run main on a host.
func (w *world) spawn(name string, host int, main func(*process) error) *process {
	w.pids++
	p := &process{w: w, name: name, pid: w.pids, host: host, held: map[kernel.JobID]*handle{}}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		defer func() {
			if r := recover(); r != nil && r != any(killed{}) {
				panic(r)
			}
		}()
		p.err = main(p)
	})
	w.processes = append(w.processes, p)
	return p
}

// effect stops the process before an effect. The simulation may hold it up here for
// any time, or kill it.
func (p *process) effect(format string, args ...any) {
	if p.dead {
		panic(killed{})
	}
	p.at = fmt.Sprintf(format, args...)
	if !p.yield(struct{}{}) {
		p.dead = true
		panic(killed{})
	}
}

// await stands still until ready.
func (p *process) await(what string, ready func() bool) {
	p.wait = ready
	p.effect("%s", what)
	p.wait = nil
}

// GoString returns the form in which a drawn history shows it.
func (p *process) GoString() string { return fmt.Sprintf("%d %s, before %q", p.pid, p.name, p.at) }

func (p *process) live() bool     { return !p.dead && !p.ended }
func (p *process) runnable() bool { return p.live() && (p.told || p.wait == nil || p.wait()) }

// run lets p have n effects, or as many as it can before it waits or ends.
func (w *world) run(p *process, n int) {
	for ; n > 0 && p.runnable(); n-- {
		if p.told {
			p.told = false
			p.runner.Check()
			continue
		}
		if p.at != "" {
			w.note("%d %s: %s", p.pid, p.name, p.at)
		}
		if _, more := p.next(); !more {
			w.exit(p)
		}
	}
}

func (w *world) exit(p *process) {
	p.ended = true
	w.release(p)
	w.checkExit(p)
}

// kill kills p, as by kill -9, at the effect that it stands before.
func (w *world) kill(p *process) {
	if !p.live() {
		return
	}
	p.dead = true
	w.release(p)
	p.stop()
	for _, other := range p.pilot {
		w.kill(other)
	}
}

// release does what the operating system does at the end of a process. Its command
// dies with it, unless the command has left its process group.
func (w *world) release(p *process) {
	for i, holder := range w.disk.locks {
		if holder == p {
			w.disk.locks[i] = nil
		}
	}
	for _, h := range p.held {
		h.lock.free(p)
	}
	for _, id := range w.jobIDs() {
		w.lockOf(id).free(p)
	}
	for _, o := range w.orders {
		if o.holder == p {
			o.holder = nil
		}
	}
	for a, c := range w.children {
		if c.parent == p && (!w.daemons || c.result != nil || len(p.pilot) > 0) { // an engine ends all of a pilot
			delete(w.children, a)
		}
	}
	w.processes = without(w.processes, p)
}

func without[T comparable](list []T, v T) []T {
	var out []T
	for _, x := range list {
		if x != v {
			out = append(out, x)
		}
	}
	return out
}

// node is a process's access to the world: its store and its other ports. A
// long-lived scheduler keeps it from verb to verb.
type node struct {
	*process
	home  int // the host that its processes are on
	sched *app.Scheduler
}

func (w *world) node() *node {
	n := &node{}
	n.sched = &app.Scheduler{Executors: map[string]app.Executor{onFarm: farm{n}}, Store: n, Observers: []app.Observer{n}, Executor: n, Worktrees: n, Sentinels: n,
		Limits: w.limits, Now: w.clock}
	return n
}

// startRunner starts a's runner, which inherits the lock.
func (w *world) startRunner(a kernel.AttemptID, l *jobLock) {
	n := w.node()
	p := w.spawn(fmt.Sprintf("runner of %s/%d", a.Job, a.N), l.by, func(*process) error {
		return n.runner.Serve(context.Background(), a, n.held[a.Job])
	})
	n.process = p
	p.runner = &app.Runner{Scheduler: n.sched, Outcomes: n, Workload: n}
	p.held[a.Job] = &handle{p, a, l}
	w.hold(l, p)
	w.spawned[a]++
}

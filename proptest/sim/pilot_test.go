package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// onFarm is the executor of jobs that pilots run.
const onFarm = "farm"

// farm is an executor with pilots, like adapters/proc/cluster: an attempt is an order on the
// shared disk, which a worker of any pilot takes by claiming it. Workers record how it ended,
// and leave the rest to schedulers. A process takes the claim of an attempt before it says that
// it never began, and records its end before it says that it is lost.
type farm struct{ *node }

// order is what is on the disk about an attempt for pilots.
type order struct {
	posted bool     // no worker has noted yet that it took it
	void   bool     // its claim was taken by a process that says that it never began
	holder *process // of the lock of its runner
}

// dueOrders returns the orders that a worker may take.
func (w *world) dueOrders() (due []kernel.AttemptID) {
	for _, a := range slices.SortedFunc(maps.Keys(w.orders), compareAttempts) {
		if o := w.orders[a]; o.posted && !o.void && w.claims[a] == nil {
			due = append(due, a)
		}
	}
	return due
}

// beingTaken returns the jobs of orders that a worker is about to claim.
func (w *world) beingTaken() (ids []kernel.JobID) {
	for _, a := range w.dueOrders() {
		if slices.ContainsFunc(w.processes, func(p *process) bool { return p.at == fmt.Sprintf("claim %s/%d", a.Job, a.N) }) {
			ids = append(ids, a.Job)
		}
	}
	return ids
}

// deliver starts a pilot if orders are due and there is room for one, and reports
// whether it did.
func (w *world) deliver(host int) bool {
	const cores, most = 2, 2
	busy := 0
	for _, p := range w.processes {
		if len(p.pilot) > 0 {
			busy++
		}
	}
	if w.refuse != nil || len(w.dueOrders()) == 0 || busy > (most-1)*cores {
		return false
	}
	var pilot []*process
	for i := range cores {
		n := w.node()
		n.process = w.spawn(fmt.Sprintf("worker %d of a pilot", i+1), host, func(*process) error { farm{n}.work(); return nil })
		pilot = append(pilot, n.process)
	}
	for _, p := range pilot {
		p.pilot = pilot
	}
	return true
}

// work takes due orders, one after another, until there are none.
func (f farm) work() {
	tried := map[kernel.AttemptID]bool{}
	for {
		f.effect("what is due")
		due := slices.DeleteFunc(f.w.dueOrders(), func(a kernel.AttemptID) bool { return tried[a] })
		if len(due) == 0 {
			return
		}
		a := due[f.pid%len(due)]
		tried[a] = true
		f.take(a)
	}
}

// take runs an attempt, unless another process has it by now.
func (f farm) take(a kernel.AttemptID) {
	w, o := f.w, f.w.orders[a]
	f.effect("take %s/%d", a.Job, a.N)
	if !o.posted || o.void || w.claims[a] != nil || w.shared && o.holder != nil {
		return
	}
	if w.shared {
		o.holder = f.process
	}
	w.spawned[a]++
	f.runner = &app.Runner{Outcomes: f, Workload: f}
	w.note("%d %s: %v", f.pid, f.name, f.runner.RunRemote(context.Background(), a))
	f.effect("let go of %s/%d", a.Job, a.N)
	if o.holder == f.process {
		o.holder = nil
	}
}

// Claim claims an attempt for a worker, and notes that the order is taken.
func (f farm) Claim(a kernel.AttemptID) error {
	if err := f.node.Claim(a); err != nil {
		return err
	}
	f.w.orders[a].holder = f.process
	f.effect("note that it is taken")
	f.w.orders[a].posted = false
	return nil
}

func (f farm) Start(_ context.Context, a kernel.AttemptID) error {
	w := f.w
	f.effect("post %s/%d", a.Job, a.N)
	w.perform(kernel.Launch{Attempt: a})
	if w.orders[a] != nil {
		return nil
	}
	if err := w.disk.write(); err != nil {
		return w.refused(a, err)
	}
	w.orders[a] = &order{posted: true}
	return nil
}

// void takes the claim of an attempt, unless a worker has it, and reports whether it did.
func (f farm) void(a kernel.AttemptID) bool {
	if f.w.claims[a] == nil {
		if f.w.orders[a] == nil {
			f.w.orders[a] = &order{}
		}
		f.w.orders[a].void = true
	}
	return f.w.claims[a] == nil
}

func (f farm) Alive(_ context.Context, attempts []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range attempts {
		f.effect("what became of %s/%d", a.Job, a.N)
		out[a] = kernel.Unseen[kernel.Runner]("cannot tell")
		if f.w.blind {
			continue
		}
		if l, err := f.liveness(a); err == nil {
			out[a] = kernel.Seen(kernel.Runner{Liveness: l})
		}
	}
	return out
}

func (f farm) liveness(a kernel.AttemptID) (kernel.Liveness, error) {
	w, o, by := f.w, f.w.orders[a], f.w.claims[a]
	_, ended := w.disk.outcomes[a.Job][a.N]
	silent := w.now.Sub(w.beats[a]).Abs() > lease
	switch {
	case ended:
		return kernel.Dead, nil
	case by == nil && o != nil && !o.void:
		return kernel.Alive, nil
	case by == nil:
		f.void(a)
		return kernel.NeverStarted, nil
	case o.holder != nil && silent && !w.shared: // its pilot is there, and nothing is heard of it
		return kernel.Stalled, nil
	case o.holder != nil, !silent && !w.shared:
		return kernel.Alive, nil
	}
	if err := w.disk.write(); err != nil {
		return kernel.Dead, err
	}
	w.conclude(kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost, Ended: w.now})
	return kernel.Dead, nil
}

func (f farm) Stop(_ context.Context, a kernel.AttemptID) error {
	f.effect("stop %s/%d", a.Job, a.N)
	f.w.perform(kernel.Stop{Attempt: a})
	if !f.void(a) && f.w.claims[a].live() {
		f.w.claims[a].told = true
	}
	return nil
}

// Sweep ends the command of an attempt that has begun. It does not wait for a runner that still
// holds its lock, but returns an error.
func (f farm) Sweep(_ context.Context, a kernel.AttemptID) error {
	w := f.w
	f.effect("sweep %s/%d", a.Job, a.N)
	w.perform(kernel.Sweep{Attempt: a})
	if f.void(a) {
		return nil
	}
	if c := w.children[a]; c != nil && c.result == nil {
		c.result = &kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 137, Class: kernel.Signal, Ended: w.now}
		delete(w.children, a)
	}
	if w.orders[a].holder != nil && w.shared {
		return errors.New("its runner goes on, though it is told to end")
	}
	return nil
}

package app

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// executorOf is the executor that an attempt's job asks for.
func (s *Scheduler) executorOf(snap *kernel.Snapshot, a kernel.AttemptID) Executor {
	j := snap.Job(a.Job)
	if j == nil {
		return s.Executor
	}
	return s.executor(j.Spec.Task.On())
}

func (s *Scheduler) executor(name string) Executor {
	if name == kernel.LocalExecutor {
		return s.Executor
	}
	if e := s.Executors[name]; e != nil {
		return e
	}
	names := append(slices.Sorted(maps.Keys(s.Executors)), kernel.LocalExecutor)
	return noExecutor("there is no executor named " + name + " in the configuration, which has " + strings.Join(names, ", ") +
		": add [executors." + name + "], or submit the job for another one")
}

// alive asks each executor for its own attempts, in one go.
func (s *Scheduler) alive(ctx context.Context, snap *kernel.Snapshot, attempts []kernel.AttemptID, into map[kernel.AttemptID]kernel.Fact[kernel.Runner]) {
	by := map[string][]kernel.AttemptID{}
	for _, a := range attempts {
		name := kernel.LocalExecutor
		if j := snap.Job(a.Job); j != nil {
			name = j.Spec.Task.On()
		}
		by[name] = append(by[name], a)
	}
	for name, own := range by {
		maps.Copy(into, s.executor(name).Alive(ctx, own))
	}
}

// noExecutor stands for an executor that the configuration does not name, or
// not any more. It refuses to start anything and knows nothing.
type noExecutor string

func (e noExecutor) Start(context.Context, kernel.AttemptID) error { return &Refusal{string(e)} }

func (e noExecutor) Alive(_ context.Context, attempts []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := make(map[kernel.AttemptID]kernel.Fact[kernel.Runner], len(attempts))
	for _, a := range attempts {
		out[a] = kernel.Unseen[kernel.Runner](string(e))
	}
	return out
}

func (e noExecutor) Stop(context.Context, kernel.AttemptID) error { return &Refusal{string(e)} }

func (e noExecutor) Sweep(context.Context, kernel.AttemptID) error { return &Refusal{string(e)} }

package app_test

import (
	"context"
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/memstore"
	"github.com/vizier-scheduler/vizier/kernel"
)

// here is an executor that runs each attempt at once: when Start returns, the attempt's
// runner has ended and left its result.
type here struct{ *memstore.Store }

func (h here) Start(_ context.Context, a kernel.AttemptID) error {
	j, err := h.Job(a.Job)
	if err != nil {
		return err
	}
	fmt.Println("run", j.Spec.Task.Args)
	return h.Conclude(kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Produced: j.Spec.Produces})
}

func (h here) Alive(_ context.Context, all []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range all {
		out[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead})
	}
	return out
}

func (h here) Stop(context.Context, kernel.AttemptID) error  { return nil }
func (h here) Sweep(context.Context, kernel.AttemptID) error { return nil }

// A scheduler with a store in memory and an executor of one's own. It uses the ports of this
// package without the files, processes and repositories that Vizier has behind them.
func ExampleScheduler() {
	ctx := context.Background()
	store := memstore.NewVault().Open()
	s := app.Scheduler{Store: store, Observers: []app.Observer{store}, Executor: here{store},
		Now: func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }}

	binary := kernel.Artifact{Kind: kernel.Custom, Name: "binary", Ref: "app"}
	if _, err := s.Submit(ctx, []kernel.NewJob{
		{ID: "build", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"make", "app"}}, Produces: []kernel.Artifact{binary}}},
		{ID: "test", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"make", "test"}}, Needs: []kernel.Artifact{binary}}},
	}, "ann"); err != nil {
		fmt.Println(err)
	}
	for {
		rep, err := s.Tick(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, j := range rep.Snapshot.Jobs() {
			fmt.Println(j.ID, j.State.Status)
		}
		if len(rep.Decisions) == 0 {
			return
		}
	}
	// Output:
	// run [make app]
	// run [make test]
	// build succeeded
	// test running
	// build succeeded
	// test succeeded
	// build succeeded
	// test succeeded
}

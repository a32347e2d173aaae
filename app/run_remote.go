package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// RunRemote runs a, whose lock is held, and records how it ended. It does not
// settle the job or tick: the scheduler, which is on another host, does that.
// If the record is older than the attempt, RunRemote waits for the newer one,
// because a shared file system may show it late.
func (r *Runner) RunRemote(ctx context.Context, a kernel.AttemptID) error {
	const patience = 2 * time.Minute
	job, err := r.Outcomes.Job(a.Job)
	for end := time.Now().Add(patience); err == nil && job.State.Attempt < a.N && time.Now().Before(end) && ctx.Err() == nil; job, err = r.Outcomes.Job(a.Job) {
		pause(ctx, time.Second)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", a.Job, err)
	}
	if err := job.Fence(a); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := r.Workload.Claim(a); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	result := r.run(ctx, &job)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := r.conclude(result)
		if err == nil || errors.Is(err, kernel.ErrStale) || errors.Is(err, kernel.ErrNotFound) || ctx.Err() != nil {
			return err
		}
		pause(ctx, wait)
	}
}

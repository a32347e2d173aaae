package proptest

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Whatever is decided, a job asks for one of its steps. The step never goes back. It goes
// on by at most one, and only when a job that failed for lack of that option runs again.
func TestGrowthIsOneStepForTheRightFailure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		for i := range o.Jobs { // most of them are not about to be tried again
			if j := &o.Jobs[i]; !j.State.Status.Terminal() && oneIn(t, 2, "is due") {
				j.Spec.Task.Executor, j.Spec.Task.Options = "far", []string{"memory=1G,2G,4G", "time=1m,2m"}
				j.State.Status, j.State.RetryAt = kernel.FailedRetryable, o.Now
				j.State.Failure = oneOf(t, "failed with", kernel.ExitFailure, kernel.OutOfMemory, kernel.Timeout, kernel.WorkerLost)
			}
		}
		s := kernel.NewSnapshot(o)
		settled, next := s.Apply(kernel.Settle(s)), s.Apply(kernel.Decide(s))
		for _, j := range s.Jobs() {
			k := next.Job(j.ID)
			was, is := j.State.Grown, k.State.Grown
			for _, c := range []struct {
				by    int
				class kernel.FailureClass
			}{{is.Memory - was.Memory, kernel.OutOfMemory}, {is.Time - was.Time, kernel.Timeout}} {
				again := k.State.Spent != j.State.Spent && settled.Job(j.ID).State.Failure == c.class
				if c.by < 0 || c.by > 1 || c.by == 1 && !again {
					t.Fatalf("%s failed with %s: from %+v to %+v", j.ID, j.State.Failure, was, is)
				}
			}
			for _, o := range k.Asks() {
				if key, value, _ := strings.Cut(o, "="); (key == "memory" || key == "time") && strings.Contains(value, ",") {
					t.Fatalf("%s asks for %s", j.ID, o)
				}
			}
			if !slices.Equal(kernel.Grown{}.At(j.Spec.Task.Options), kernel.Grown{}.At(k.Spec.Task.Options)) {
				t.Fatalf("what %s asks for first changed", j.ID)
			}
		}
	})
}

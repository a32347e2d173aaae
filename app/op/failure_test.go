package op

import (
	"context"
	"errors"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// An operation that was told to end has ended as by a signal, whatever it says itself.
func TestHowAnOperationFails(t *testing.T) {
	n := &Node{}
	n.Operation = "git.commit"
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	why := errors.New("no")
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want Result
	}{
		"by itself":     {t.Context(), why, Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.LaunchFailure, Reason: "git.commit: no"}},
		"told to end":   {gone, why, Result{Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Reason: "git.commit: it was told to end"}},
		"with a reason": {gone, &classed{class: kernel.DataError, error: why}, Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.DataError, Reason: "git.commit: no"}},
	} {
		if got := failure(c.ctx, n, c.err); got.Outcome != c.want.Outcome || got.Exit != c.want.Exit || got.Class != c.want.Class || got.Reason != c.want.Reason {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

package vizier

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
)

// A caller whose context ends while it waits for the lock gets the context's
// error, and ErrBusy only if the lock timeout was reached.
func TestAnInterruptedWaitIsNoBusyScheduler(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	held := fmt.Errorf("begin: %w", &fs.BusyError{})
	if err := busy(ctx, held); !errors.Is(err, app.ErrBusy) {
		t.Error(err)
	}
	cancel()
	if err := busy(ctx, held); !errors.Is(err, context.Canceled) || errors.Is(err, app.ErrBusy) {
		t.Error(err)
	}
	if other := errors.New("no disk"); !errors.Is(busy(ctx, other), other) || errors.Is(busy(ctx, other), app.ErrBusy) || busy(ctx, nil) != nil {
		t.Error("another error is changed")
	}
}

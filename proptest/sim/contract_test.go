package sim

import (
	"context"
	"testing"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/storetest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// bare is a process without a scheduler that the simulation does not hold up.
type bare struct{ *node }

func (b bare) Begin(ctx context.Context) (app.Tx, error) {
	t, err := b.node.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (b bare) Die() {
	b.dead = true
	b.w.release(b.process)
}

// The disk of the simulation keeps the contract of the real store, so that results
// on the simulated disk hold for the real one.
func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store {
		w := newWorld(kernel.Limits{})
		w.impatient = true
		return storetest.Store{Process: func() storetest.Process {
			n := w.node()
			n.process = &process{w: w, name: "test", yield: func(struct{}) bool { return true }, held: map[kernel.JobID]*handle{}}
			return bare{n}
		}}
	})
}

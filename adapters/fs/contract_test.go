package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/storetest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// process is a store behind app's port, as cmd/vizier has it.
type process struct{ *Store }

func (p process) Begin(ctx context.Context) (app.Tx, error) {
	tx, err := p.Store.Begin(ctx)
	if busy := new(BusyError); errors.As(err, &busy) {
		return nil, fmt.Errorf("%w (held by %s)", app.ErrBusy, busy.Holder)
	}
	if err != nil {
		return nil, err
	}
	return tx, nil
}

// Die releases what the system releases when a process is killed.
func (p process) Die() {
	if p.tx != nil {
		_ = p.tx.unlock()
	}
	_ = p.Close()
}

// The contract of app's ports, with and without syncs, and as if jobs waited for very many
// artifacts of each type.
func TestContract(t *testing.T) {
	for name, few := range map[string]int{"full": fewFacts, "relaxed": fewFacts, "many": 1} {
		t.Run(name, func(t *testing.T) {
			if name != "full" {
				oneGoroutine(t) // the race detector has seen its goroutines in full
			}
			storetest.Run(t, func(t *testing.T) storetest.Store {
				dir, o := t.TempDir(), options()
				o.Durable = name != "relaxed"
				return storetest.Store{
					Process: func() storetest.Process {
						s := newStoreWith(t, dir, o)
						s.few = few
						return process{s}
					},
					Spoil: func(id kernel.JobID) {
						if err := os.WriteFile(NewLayout(dir).RecordFile(id), []byte(`{"version":1`), 0o600); err != nil {
							t.Fatal(err)
						}
					},
				}
			})
		})
	}
}

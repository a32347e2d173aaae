package vizier

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
)

// At is the use cases that only look, on the repository as its history says that it was at a
// moment, which their Now is. The others refuse. What it holds open ends with the process.
func (r *Repository) At(ctx context.Context, when fs.Moment) (*app.Scheduler, error) {
	p, err := r.Store.PastAt(ctx, when)
	if err != nil {
		return nil, err
	}
	executors := map[string]app.Executor{}
	for name := range r.Scheduler.Executors {
		executors[name] = p
	}
	now := p.At
	if (when == fs.Moment{}) {
		now = r.Scheduler.Now()
	}
	return &app.Scheduler{
		Store: pastStore{p}, Observers: []app.Observer{p}, Executor: p, Executors: executors, Limits: p.Limits,
		Now: func() time.Time { return now }, NewID: r.Scheduler.NewID,
	}, nil
}

// pastStore is the past behind app's port.
type pastStore struct{ *fs.Past }

func (s pastStore) Begin(context.Context) (app.Tx, error) { return nil, fs.ErrPast }

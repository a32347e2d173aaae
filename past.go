package vizier

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
)

// At returns the reading use cases on the repository as it was, according to
// its history, at a moment, which their Now returns. The other use cases fail.
// Files that it opens are closed when the process ends.
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

// pastStore implements app.Store with a past state.
type pastStore struct{ *fs.Past }

func (s pastStore) Begin(context.Context) (app.Tx, error) { return nil, fs.ErrPast }

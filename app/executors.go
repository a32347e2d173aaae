package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

func (s *Scheduler) unknown(name string) string {
	names := append(slices.Sorted(maps.Keys(s.Executors)), kernel.LocalExecutor)
	return "there is no executor named " + name + " in the configuration, which has " + strings.Join(names, ", ") +
		": add [executors." + name + "], or submit the job for another one"
}

// validator is an executor that can tell, before a job exists, whether it would accept
// the job.
type validator interface {
	// Accepts returns an error if the options are wrong, or the executor is.
	Accepts(options []string) error
}

// handsOut is an executor that hands secrets to jobs.
type handsOut interface {
	// CheckSecret returns an error if a secret's value could not be handed to a job.
	CheckSecret(kernel.Secret) error
}

// Accepts returns an error if the executor that the task names would not accept it: the
// executor is not configured, does not know one of the options, or could not hand out
// one of the secrets. It is called before the job exists.
func (s *Scheduler) Accepts(t kernel.Task) error {
	name := t.On()
	if name != kernel.LocalExecutor && s.Executors[name] == nil {
		return fmt.Errorf("%s: %w", s.unknown(name), kernel.ErrInvalid)
	}
	if name != kernel.LocalExecutor && len(t.Secrets) > 0 {
		return fmt.Errorf("secret %s: secrets are handed to jobs of this host, and the job is for executor %s: have its command fetch them there: %w", t.Secrets[0].Name, name, kernel.ErrInvalid)
	}
	if h, ok := s.executor(name).(handsOut); ok {
		for _, k := range t.Secrets {
			if err := h.CheckSecret(k); err != nil {
				return fmt.Errorf("secret %s: %w: %w", k.Name, err, kernel.ErrInvalid)
			}
		}
	}
	e, ok := s.executor(name).(validator)
	switch {
	case ok:
		if err := e.Accepts(nil); err != nil { // whatever jobs ask for
			return fmt.Errorf("[executors.%s]: %w", name, err)
		}
		steps, err := kernel.CheckGrowth(t.Options)
		for _, options := range steps {
			if err == nil {
				err = e.Accepts(options)
			}
		}
		return err
	case len(t.Options) == 0:
		return nil
	default:
		return fmt.Errorf("executor %s has no options: leave out %s, or choose another executor: %w", name, strings.Join(t.Options, " "), kernel.ErrInvalid)
	}
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

// sender is an Executor that records its requests under the scheduler lock, and sends them
// without it.
type sender interface {
	// Send has the recorded requests sent soon, if there are any.
	Send()
}

// refresher is an Executor whose Alive uses the last answer that it got.
type refresher interface {
	// Refresh gets a new answer. It is called without the scheduler lock.
	Refresh(context.Context) error
}

// send makes executors send the requests that a transaction recorded.
func (s *Scheduler) send() {
	for _, e := range s.Executors {
		if out, ok := e.(sender); ok {
			out.Send()
		}
	}
}

// Refresh makes the executors of running jobs get new answers about their attempts, if
// their Alive does not ask each time. An executor's error is dropped: its Alive says what
// is not known.
func (s *Scheduler) Refresh(ctx context.Context, jobs ...*kernel.Job) {
	asked := map[string]bool{}
	for _, j := range jobs {
		name := j.Spec.Task.On()
		if r, ok := s.Executors[name].(refresher); ok && !asked[name] && j.State.Status == kernel.Running {
			asked[name] = true
			_ = r.Refresh(ctx)
		}
	}
}

// WithRemarks returns snap with what executors say about the attempts that they were given.
func (s *Scheduler) WithRemarks(ctx context.Context, snap *kernel.Snapshot) *kernel.Snapshot {
	s.Refresh(ctx, snap.Jobs()...)
	snap, _ = s.Lost(ctx, snap, true)
	return snap
}

// noExecutor stands for an executor that the configuration does not name, or no
// longer names. It refuses to start anything and knows nothing.
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

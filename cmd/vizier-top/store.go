package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// source is the data that the screen shows, and the actions it offers.
type source interface {
	// Look returns the current jobs.
	Look(context.Context) (*kernel.Snapshot, error)

	// Changed receives a value when Look may return something else.
	Changed() <-chan struct{}

	// Lines reads a job's logs.
	Lines(kernel.JobID) *joblog.Lines

	// Progress returns the last progress that a running attempt reported.
	Progress(kernel.AttemptID) view.Progress

	// Approves returns the lines that say what an approval of a job covers, and what a plan changes of what Vizier runs.
	Approves(context.Context, *kernel.Job) []string

	// Do performs a confirmed action on jobs.
	Do(context.Context, action, []*kernel.Job) error
}

// action is something that can be done to jobs.
type action string

const (
	approve action = "approve"
	reject  action = "reject"
	retry   action = "retry"
	cancel  action = "cancel"
)

// How many ended jobs are shown; how often everything is read again, to find changes that are not reported: records
// that were edited by hand; how often executors are asked if no resident scheduler asks them, and how long their
// answers may take.
const (
	mostEnded = 500
	readAll   = 10 * time.Second
	askEvery  = 5 * time.Second
	patience  = 2 * time.Second
)

// store is the source of a repository. It only reads what has changed.
type store struct {
	r    *vizier.Repository
	who  func() string
	news *watch.File
	turn sync.Mutex // held while using the scheduler, which serves one goroutine at a time

	jobs map[kernel.JobID]kernel.Job
	at   fs.JournalOffset
	read time.Time // when everything was last read

	asked time.Time // when executors were last asked
}

func newStore(r *vizier.Repository, who func() string) *store {
	return &store{r: r, who: who, news: watch.NewFile(r.Store.EventsFile())}
}

// Changed has a value when the event log was written to.
func (s *store) Changed() <-chan struct{} { return s.news.Changed() }

// Look returns the jobs that are shown. It changes nothing, unless a runner is gone and its job has not been settled,
// or jobs of other executors need a resident scheduler.
func (s *store) Look(ctx context.Context) (*kernel.Snapshot, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	err := s.r.Store.InPlace() // else it would go on to read what was removed
	if err == nil && s.jobs != nil {
		_, err = os.Stat(s.r.Store.JobDir(""))
	}
	if err != nil {
		return nil, fmt.Errorf("the jobs are gone: %w", err)
	}
	s.news.Look()
	l := app.Looker{Attended: s.r.Attended, Elsewhere: s.r.Elsewhere, Mine: func() bool { return s.r.Store.Foreign(ctx) == nil },
		All: true, Refresh: time.Since(s.asked) > askEvery, Forbidden: s.r.Outside, Patience: patience}
	if l.Refresh {
		s.asked = time.Now()
	}
	seen, err := s.r.Scheduler.Settled(ctx, l, func() (*kernel.Snapshot, error) { return s.look(ctx) })
	if err == nil && seen.Failed != nil && !errors.Is(seen.Failed, app.ErrBusy) && !errors.Is(seen.Failed, context.DeadlineExceeded) {
		return nil, seen.Failed
	}
	return seen.Snapshot, err
}

// look reads the jobs that changed since the last call, and from time to time all that are shown.
func (s *store) look(ctx context.Context) (*kernel.Snapshot, error) {
	s.r.Refresh()
	ids, now, told := s.r.Store.Changed(s.at)
	s.at = now
	if !told || time.Since(s.read) > readAll {
		if err := s.readAll(ctx); err != nil {
			return nil, err
		}
	} else if len(ids) > 0 {
		snap, err := s.records(ctx, scopeOf(ids))
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if j := snap.Job(id); j != nil {
				s.jobs[id] = *j
			} else {
				delete(s.jobs, id)
			}
		}
	}
	o := kernel.Observation{Now: s.r.Scheduler.Now(), Limits: s.r.Scheduler.Limits, Jobs: make([]kernel.Job, 0, len(s.jobs))}
	for _, j := range s.jobs {
		o.Jobs = append(o.Jobs, j)
	}
	return kernel.TakeSnapshot(o), nil
}

// readAll reads the open jobs, the latest ended ones, and the other jobs of
// their runs.
func (s *store) readAll(ctx context.Context) error {
	newest := kernel.Near{Kind: kernel.Newest, Most: mostEnded}
	for _, st := range kernel.Statuses() {
		newest = newest.With(st)
	}
	jobs := map[kernel.JobID]kernel.Job{}
	runs := map[kernel.RunID]bool{}
	for _, scope := range []kernel.Scope{{}, {Near: []kernel.Near{newest}}} {
		snap, err := s.records(ctx, scope)
		if err != nil {
			return err
		}
		for _, j := range snap.Jobs() {
			jobs[j.ID], runs[j.Spec.Origin.Run] = *j, true
		}
	}
	delete(runs, "")
	var members kernel.Scope
	for run := range runs {
		members.Near = append(members.Near, kernel.Near{Kind: kernel.Members, Run: run})
	}
	if len(members.Near) > 0 {
		snap, err := s.records(ctx, members)
		if err != nil {
			return err
		}
		for _, j := range snap.Jobs() {
			jobs[j.ID] = *j
		}
	}
	s.jobs, s.read = jobs, time.Now()
	return nil
}

func (s *store) records(ctx context.Context, scope kernel.Scope) (*kernel.Snapshot, error) {
	return s.r.Scheduler.Records(ctx, scope)
}

func scopeOf(ids []kernel.JobID) (scope kernel.Scope) {
	scope.Jobs = ids
	for _, id := range ids {
		scope.Near = append(scope.Near, kernel.Near{Kind: kernel.Itself, Job: id})
	}
	return scope
}

// Lines reads a job's logs.
func (s *store) Lines(id kernel.JobID) *joblog.Lines {
	return joblog.NewLines(func(name string) (*os.File, error) { return s.r.Store.OpenLog(id, name) })
}

// Progress returns the last progress that a running attempt reported.
func (s *store) Progress(a kernel.AttemptID) view.Progress { return s.r.Store.Progress(a) }

// Approves returns the lines that say what an approval of a job covers, and what a plan changes of what Vizier runs.
func (s *store) Approves(ctx context.Context, j *kernel.Job) []string {
	lines := answer.Approves(j, j.Spec.Statement(), s.r.Templates())
	if steers, err := answer.Steering(ctx, j, s.r.Git.Steering); err == nil && steers != "" {
		lines = append([]string{"warning: " + steers}, lines...)
	}
	return lines
}

// Do calls the use cases that the commands call, so it refuses what these
// refuse, such as an approval by a job.
func (s *store) Do(ctx context.Context, what action, jobs []*kernel.Job) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	ids := make([]kernel.JobID, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	if what == cancel {
		_, err := s.r.Scheduler.CancelAll(ctx, ids, app.Cancellation{By: s.who(), Cleanup: s.r.Refresh().Jobs.Cancel.CleanupWorktree, Strict: len(ids) == 1})
		return err
	}
	if what == retry {
		var err error
		if len(ids) > 1 {
			ids, err = s.r.Scheduler.WaysOut(ctx, ids)
		}
		if err == nil {
			_, err = s.r.Scheduler.Retry(ctx, s.who(), ids...)
		}
		return err
	}
	for i, id := range ids {
		var err error
		if what == approve {
			_, err = s.r.Scheduler.Approve(ctx, id, kernel.ConsentTo(jobs[i], s.who(), "terminal"))
		} else {
			_, err = s.r.Scheduler.Reject(ctx, id, kernel.Refusal{By: s.who(), How: "terminal"})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// able returns those of jobs that an action applies to.
func able(what action, jobs []*kernel.Job) (out []*kernel.Job) {
	if what == retry && len(jobs) > 1 {
		return view.ToRetry(jobs)
	}
	for _, j := range jobs {
		st := j.State.Status
		yes := false
		switch what {
		case approve, reject:
			yes = st == kernel.WaitingOnApproval
		case cancel:
			yes = st.Active()
		case retry:
			yes = st.Terminal()
		}
		if yes {
			out = append(out, j)
		}
	}
	return out
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/template"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// fake is a repository in memory: the real kernel and app over records in a
// slice, processes that never run and logs in a temporary directory.
type fake struct {
	t          *testing.T
	jobs       []kernel.Job
	unreadable map[kernel.JobID]string
	facts      kernel.Facts
	started    []kernel.AttemptID
	effects    []effect.Record // of every job
	now        time.Time
	minted     int
	dir        string
	busy       bool
	reads      int          // how often the records were read outside of transactions
	onRead     func()       // called before each of these; nil: nothing
	refusal    error        // of every launch
	resident   int          // the process of the resident scheduler
	inside     kernel.JobID // the job that commands run in
	deaf       kernel.JobID // runs on whatever it is told
	env        environment
	config     map[string]string // VIZIER_* settings
	limits     kernel.Limits
}

func newFake(t *testing.T) *fake {
	t.Helper()
	return &fake{t: t, facts: kernel.NewFacts(), unreadable: map[kernel.JobID]string{}, dir: t.TempDir(),
		limits: kernel.Limits{MaxRunning: 100}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), env: environment{"USER=ann"}, config: map[string]string{}}
}

// open returns the repository over w.
func (w *fake) open(context.Context, environment, globals) (*repo, error) {
	live, err := config.Open(config.Sources{Env: func(name string) string { return w.config[name] }}, "")
	if err != nil {
		return nil, err
	}
	cfg := live.Config()
	s := &app.Scheduler{Store: w, Observers: []app.Observer{w}, Executor: w, Worktrees: w, Sentinels: w, Prompts: w,
		Limits: w.limits, Keep: retention.Policy(cfg.GC.Keep), Now: func() time.Time { return w.now }, NewID: w.mint,
		Inside: func(context.Context) (app.Descent, bool) { return app.Descent{Job: w.inside}, w.inside != "" }}
	return &repo{Scheduler: s, Config: cfg, Root: w.dir, Tree: w.dir, Logs: logs(w.dir), Named: template.Loader{Root: w.dir}.Named, Builder: func(who vizier.Asker) *enqueue.Builder {
		return &enqueue.Builder{Scheduler: s, Trees: w, Root: w.dir, Tree: w.dir, Origin: kernel.Origin{Command: who.Command}, By: who.Name,
			Defaults: enqueue.Defaults{Timeout: cfg.Jobs.Timeout, Executor: cfg.Jobs.Executor}}
	},
		Effects:   func(kernel.JobID) ([]effect.Record, error) { return w.effects, nil },
		Resident:  func() int { return w.resident },
		Hindrance: func() vizier.Hindrance { return vizier.Hindrance{} }, Full: func() bool { return false }, Passed: w.passed, Held: func() error { return nil },
		Attended: func() bool { return w.resident != 0 }, Elsewhere: func() bool { return false }}, nil
}

// passed says that looks do without the lock while it is busy.
func (w *fake) passed() *fs.BusyError {
	if !w.busy {
		return nil
	}
	return &fs.BusyError{Holder: "pid 7, vizier submit"}
}

// TreeOf knows no tree but its own.
func (w *fake) TreeOf(string) (root, tree string, err error) { return "", "", os.ErrNotExist }

// HeadBranch is none: there is no git.
func (w *fake) HeadBranch(context.Context, string) (string, error) { return "", nil }

// mint returns the ids 00000001 and so on, filled up with noughts.
func (w *fake) mint() kernel.JobID {
	w.minted++
	return id(w.minted)
}

func id(n int) kernel.JobID { return kernel.JobID(fmt.Sprintf("%08x%024x", n, 0)) }

// run runs a command line and returns the exit code and both streams.
func (w *fake) run(args ...string) (int, string, string) { return w.runIn("", args...) }

func (w *fake) runIn(stdin string, args ...string) (int, string, string) {
	w.t.Helper()
	var out, err bytes.Buffer
	p := program{args: args, stdin: strings.NewReader(stdin), stdout: &out, stderr: &err, env: w.env, open: w.open}
	code := p.runWith(w.t.Context())
	return code, out.String(), err.String()
}

// ok runs a command line that must succeed, and returns its output.
func (w *fake) ok(args ...string) string {
	w.t.Helper()
	code, out, err := w.run(args...)
	if code != 0 {
		w.t.Fatalf("vizier %s: exit %d: %s", strings.Join(args, " "), code, err)
	}
	return out
}

// fails runs a command line that must exit with code, and returns what it says.
func (w *fake) fails(code int, args ...string) string {
	w.t.Helper()
	got, out, err := w.run(args...)
	if got != code {
		w.t.Fatalf("vizier %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, err)
	}
	return err
}

// submit enqueues a job and returns its id.
func (w *fake) submit(flags ...string) kernel.JobID {
	w.t.Helper()
	out := w.ok(append(append([]string{"jobs", "submit"}, flags...), "--", "make", "all")...)
	return w.id(strings.TrimSpace(out))
}

// ref returns what people call the job.
func (w *fake) ref(id kernel.JobID) string { return w.job(id).Ref() }

// id returns the id of the job that people call ref.
func (w *fake) id(ref string) kernel.JobID {
	w.t.Helper()
	for i := range w.jobs {
		if w.jobs[i].Ref() == ref {
			return w.jobs[i].ID
		}
	}
	w.t.Fatalf("no job %s", ref)
	return ""
}

func (w *fake) job(id kernel.JobID) *kernel.Job {
	w.t.Helper()
	for i := range w.jobs {
		if w.jobs[i].ID == id {
			return &w.jobs[i]
		}
	}
	w.t.Fatalf("no job %s", id)
	return nil
}

// end lets the running attempt of a job end; the next tick sees it.
func (w *fake) end(id kernel.JobID, outcome kernel.Outcome) {
	a := w.job(id).Attempt()
	r := kernel.Result{Attempt: a, Outcome: outcome, Ended: w.now}
	if outcome == kernel.OutcomeFailed {
		r.Exit, r.Class, r.Reason = 3, kernel.ExitFailure, "exit status 3"
	} else {
		for _, p := range w.job(id).Spec.Produces {
			if p.Kind == kernel.Custom {
				r.Produced = append(r.Produced, p)
			}
		}
	}
	w.facts.Runners[a], w.facts.Results[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Seen(&r)
}

// settle ends the attempt and ticks.
func (w *fake) settle(id kernel.JobID, outcome kernel.Outcome) {
	w.t.Helper()
	w.end(id, outcome)
	w.tick()
}

func (w *fake) tick() {
	w.t.Helper()
	r, err := w.open(w.t.Context(), nil, globals{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := r.Scheduler.Tick(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// write adds to a log of a job.
func (w *fake) write(id kernel.JobID, stream, text string) {
	w.t.Helper()
	path := logs(w.dir).LogFile(id, stream)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		w.t.Fatal(err)
	}
}

type logs string

func (l logs) JobDir(id kernel.JobID) string { return filepath.Join(string(l), "jobs", string(id)) }
func (logs) Packed(kernel.JobID) string      { return "" }
func (l logs) LogFile(id kernel.JobID, stream string) string {
	return filepath.Join(l.JobDir(id), stream+".log")
}
func (l logs) OpenLog(id kernel.JobID, stream string) (*os.File, error) {
	return os.Open(l.LogFile(id, stream))
}
func (l logs) OutcomeFile(id kernel.JobID) string { return filepath.Join(l.JobDir(id), "outcome.json") }

// The store: a transaction is the fake itself.

func (w *fake) Begin(context.Context) (app.Tx, error) {
	if w.busy {
		return nil, app.ErrBusy
	}
	return w, nil
}

// Read reads no more than the jobs that are named, and everything where more is asked for.
func (w *fake) Read(_ context.Context, scope kernel.Scope) (kernel.Records, error) {
	w.reads++
	if w.onRead != nil {
		w.onRead()
	}
	all, err := w.Load(scope)
	if len(scope.Jobs) > 0 && len(scope.Near) == len(scope.Jobs) && !scope.All {
		all.Narrow = true
		all.Jobs = slices.DeleteFunc(all.Jobs, func(j kernel.Job) bool { return !slices.Contains(scope.Jobs, j.ID) })
	}
	return all, err
}

func (w *fake) Load(kernel.Scope) (kernel.Records, error) {
	return kernel.Records{Jobs: slices.Clone(w.jobs), Unreadable: w.unreadable}, nil
}

func (w *fake) Commit(p kernel.Plan) error {
	next := kernel.NewSnapshot(kernel.Observation{Now: w.now, Jobs: w.jobs, Facts: w.facts}).Apply(p)
	w.jobs = nil
	for _, j := range next.Jobs() {
		w.jobs = append(w.jobs, *j)
	}
	for _, a := range p.Actions() {
		switch a := a.(type) {
		case kernel.Publish:
			w.mark(a.Attempt.Job, a.Artifacts, true)
		case kernel.Reset:
			w.mark(a.Attempt.Job, a.Produces, false)
		case kernel.PurgeFiles:
			w.mark(a.Job, a.Produces, false)
		case kernel.RemoveJob:
			w.mark(a.Job, a.Produces, false)
		}
	}
	return nil
}

// mark makes the job's markers of artifacts appear or go.
func (w *fake) mark(id kernel.JobID, artifacts []kernel.Artifact, appear bool) {
	for _, a := range artifacts {
		jobs := slices.DeleteFunc(slices.Clone(w.facts.Markers[a].Value), func(j kernel.JobID) bool { return j == id })
		if appear {
			jobs = append(jobs, id)
		}
		w.facts.Markers[a] = kernel.Seen(jobs)
	}
}

func (w *fake) Unfinished() []kernel.WorldAction { return nil }
func (w *fake) Done() error                      { return nil }
func (w *fake) Close() error                     { return nil }

// The outside world.

func (w *fake) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	for _, a := range p.Artifacts {
		f.Present[a] = kernel.Seen(w.facts.Present[a].Value)
	}
	for _, a := range p.Markers {
		f.Markers[a] = kernel.Seen(w.facts.Markers[a].Value)
	}
	for _, b := range p.Branches {
		f.Heads[b] = kernel.Seen(w.facts.Heads[b].Value)
	}
	if p.Clean {
		f.Clean = kernel.Seen(w.facts.Clean.Value)
	}
	for _, a := range p.Attempts {
		if r, ok := w.facts.Results[a]; ok {
			f.Results[a] = r
		} else {
			f.Results[a] = kernel.Seen[*kernel.Result](nil)
		}
	}
}

func (w *fake) Start(_ context.Context, a kernel.AttemptID) error {
	if w.refusal == nil {
		w.started = append(w.started, a)
	}
	return w.refusal
}

func (w *fake) Alive(_ context.Context, as []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := maps.Clone(w.facts.Runners)
	for _, a := range as {
		if _, known := out[a]; !known {
			out[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
		}
	}
	return out
}

// Stop makes the attempt end as cancelled.
func (w *fake) Stop(_ context.Context, a kernel.AttemptID) error {
	if a.Job != w.deaf {
		w.end(a.Job, kernel.OutcomeFailed)
	}
	return nil
}

func (w *fake) Sweep(context.Context, kernel.AttemptID) error { return nil }

func (w *fake) RemoveWorktree(context.Context, kernel.Context) kernel.Cleanup {
	return kernel.Cleanup{Status: kernel.CleanupDone}
}

func (w *fake) DropConflict(string, *kernel.Job) error { return nil }

func (w *fake) TendPrompt(*kernel.Job, kernel.PromptName, string, []uint64) (found, archived bool, err error) {
	return true, false, nil
}

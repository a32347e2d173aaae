package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// outcomeRecord is outcome.json: how an attempt ended, written by its runner
// before the record changes.
type outcomeRecord struct {
	Version       int              `json:"version"`
	ID            string           `json:"id"`
	Attempt       int              `json:"attempt"`
	Outcome       string           `json:"outcome"`
	ExitCode      int              `json:"exit_code"`
	FailureClass  string           `json:"failure_class,omitempty"`
	FailureReason *string          `json:"failure_reason"`
	Produced      []artifactRecord `json:"produced"`
	Context       *contextRecord   `json:"context,omitempty"`
	Host          string           `json:"host,omitempty"`
	Enforced      string           `json:"sandbox_enforced,omitempty"`
	Used          *usedRecord      `json:"used,omitempty"`
	PID           int              `json:"pid,omitempty"`
	StartedAt     *stamp           `json:"started_at,omitempty"`
	FinishedAt    stamp            `json:"finished_at"`
	Agent         *agentRecord     `json:"agent,omitempty"`
	Applied       bool             `json:"applied,omitempty"`
	Refused       bool             `json:"refused,omitempty"`

	// The records that the attempt's submissions will become.
	Submitted []json.RawMessage `json:"submitted,omitempty"`
}

// outcomeJob has the fields of the job's record that outcome.json also has, as
// this end leaves them. They are for people and programs; Vizier never reads them.
type outcomeJob struct {
	Status        string         `json:"status"`
	Command       []string       `json:"command"`
	ChildArgs     []string       `json:"child_args"`
	CreatedAt     stamp          `json:"created_at"`
	StdoutPath    string         `json:"stdout_path"`
	StderrPath    string         `json:"stderr_path"`
	Configuration *configRecord  `json:"config_snapshot"`
	Schedule      open[schedule] `json:"schedule"`
	Metadata      open[metadata] `json:"metadata"`
}

// outcomeDocument is outcome.json as it is written.
type outcomeDocument struct {
	outcomeRecord
	*outcomeJob // nil: not known yet
}

// contextRecord is the execution context that an attempt leaves; an empty one
// removes the job's context.
type contextRecord struct {
	Root     string `json:"execution_root,omitempty"`
	Worktree string `json:"worktree_path,omitempty"`
	Name     string `json:"worktree_name,omitempty"`
	Branch   string `json:"worktree_branch,omitempty"`
	Owned    bool   `json:"worktree_owned,omitempty"`
}

func newOutcome(r kernel.Result) outcomeRecord {
	o := outcomeRecord{recordVersion, string(r.Attempt.Job), r.Attempt.N, r.Outcome.String(), r.Exit, r.Class.String(),
		optional(r.Reason), []artifactRecord{}, (*contextRecord)(r.Context), r.Place.Host, r.Place.Sandbox, newUsed(r.Place.Used), r.Place.PID, optionalStamp(r.Started), stamp(r.Ended),
		newAgentRun(r.Agent), r.Applied, r.Refused, nil}
	for _, a := range r.Produced {
		o.Produced = append(o.Produced, artifactRecord(a))
	}
	return o
}

// encodeOutcome returns outcome.json for r. j is the job after that end; nil: it is
// not known yet.
func encodeOutcome(r kernel.Result, j *kernel.Job) ([]byte, error) {
	var doc outcomeDocument
	doc.outcomeRecord = newOutcome(r)
	o := &doc.outcomeRecord
	at := r.Ended
	if at.IsZero() {
		at = time.Unix(0, 0).UTC() // a record needs a time; these jobs are not created yet
	}
	submitted, err := newJobs(r.Submitted, at)
	if err != nil {
		return nil, fmt.Errorf("encode outcome %s: %w", r.Attempt.Job, err)
	}
	o.Submitted = submitted
	if j != nil {
		rec := newRecord(j, at)
		doc.outcomeJob = &outcomeJob{rec.Status, rec.Command, rec.ChildArgs, rec.CreatedAt, rec.StdoutPath, rec.StderrPath, rec.Configuration, rec.Schedule, rec.Metadata}
	}
	b, err := toJSON(doc)
	if err == nil && len(b) > maxRecord && j != nil { // it would be too large to read
		return encodeOutcome(r, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("encode outcome %s: %w", r.Attempt.Job, err)
	}
	return b, nil
}

func decodeOutcome(id kernel.JobID, b []byte) (*kernel.Result, error) {
	var o outcomeRecord
	if err := fromJSON(b, &o); err != nil {
		return nil, jsonError(err)
	}
	return o.result(id)
}

// result returns how an attempt of job id ended.
func (o *outcomeRecord) result(id kernel.JobID) (*kernel.Result, error) {
	var d decoder
	if o.Version > recordVersion {
		d.fail("version", fmt.Errorf("outcome format %d, this program reads up to %d: %w", o.Version, recordVersion, ErrNewer))
	}
	r := &kernel.Result{
		Attempt: kernel.AttemptID{Job: kernel.JobID(o.ID), N: o.Attempt}, Exit: o.ExitCode,
		Outcome: parsed(&d, "outcome", o.Outcome, kernel.ParseOutcome),
		Class:   parsed(&d, "failure_class", o.FailureClass, kernel.ParseFailureClass),
		Reason:  value(o.FailureReason), Context: (*kernel.Context)(o.Context),
		Place: kernel.Place{Host: o.Host, PID: o.PID, Sandbox: o.Enforced, Used: d.used(o.Used)}, Started: stampValue(o.StartedAt), Ended: time.Time(o.FinishedAt), Agent: o.Agent.run(), Applied: o.Applied, Refused: o.Refused,
	}
	if r.Outcome == kernel.NoOutcome || r.Attempt.Job != id {
		d.fail("outcome", fmt.Errorf("it is not an outcome of job %s", id))
	}
	for _, a := range o.Produced {
		d.fail("produced", kernel.Artifact(a).Validate())
		r.Produced = append(r.Produced, kernel.Artifact(a))
	}
	submitted, err := readJobs(o.Submitted)
	d.fail("submitted", err)
	r.Submitted = submitted
	return r, d.err
}

// Conclude records durably how an attempt ended, before its record changes.
func (s *Store) Conclude(r kernel.Result) error {
	if err := s.open(false); err != nil {
		return err
	}
	if !kernel.ValidJobID(string(r.Attempt.Job)) {
		return fmt.Errorf("record outcome: job id %q: %w", r.Attempt.Job, kernel.ErrInvalid)
	}
	b, err := encodeOutcome(r, nil)
	if err != nil {
		return err
	}
	// No lock keeps a runner that lost its job from writing late. The outcome of
	// a later attempt is not lost by that: it has a name of its own, too.
	if err := s.base.writeAs(jobPath(r.Attempt.Job, outcomeName), attemptOutcome(r.Attempt.N), b, s.opts.Durable); err != nil {
		return fmt.Errorf("record outcome of %s: %w", r.Attempt.Job, err)
	}
	return nil
}

// ConcludeOnce records durably how an attempt ended, once: a second caller gets
// kernel.ErrStale. So it may be called on any host, by the runner and by a process
// that takes the runner for lost. It takes no lock.
func (s *Store) ConcludeOnce(r kernel.Result) error {
	if err := s.open(false); err != nil {
		return err
	}
	if !kernel.ValidJobID(string(r.Attempt.Job)) {
		return fmt.Errorf("record outcome: job id %q: %w", r.Attempt.Job, kernel.ErrInvalid)
	}
	if r.Class == kernel.WorkerLost && r.Agent == nil {
		var err error
		if r.Agent, err = s.agentRunOf(r.Attempt); err != nil { // the caller does not know it
			return fmt.Errorf("record outcome: %w", err)
		}
	}
	b, err := encodeOutcome(r, nil)
	if err != nil {
		return err
	}
	// The attempt's own file counts. The job's is for people; but it is read, too, and a file
	// that is cut off would be taken for a damaged outcome of a later attempt.
	err = s.base.writeOnce(jobPath(r.Attempt.Job, attemptOutcome(r.Attempt.N)), jobPath(r.Attempt.Job, outcomeName), b, s.opts.Durable)
	if errors.Is(err, iofs.ErrExist) {
		return fmt.Errorf("record outcome of %s attempt %d: it has one: %w", r.Attempt.Job, r.Attempt.N, kernel.ErrStale)
	}
	if err != nil {
		return fmt.Errorf("record outcome of %s: %w", r.Attempt.Job, err)
	}
	return nil
}

// Job reads one record without the lock: a job's spec never changes. It may be
// called from any goroutine.
func (s *Store) Job(id kernel.JobID) (kernel.Job, error) {
	if err := s.open(false); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return kernel.Job{}, err
	} else if err != nil || !kernel.ValidJobID(string(id)) {
		return kernel.Job{}, fmt.Errorf("job %q: %w", id, kernel.ErrNotFound)
	}
	b, err := s.readRecordFile(id)
	if errors.Is(err, iofs.ErrNotExist) {
		return kernel.Job{}, fmt.Errorf("job %s: %w", id, kernel.ErrNotFound)
	}
	if err != nil {
		return kernel.Job{}, err
	}
	if j, same := s.runs.unchanged(id, b); same {
		return j, nil
	}
	j, _, err := s.decodeRecordFile(id, b)
	if err == nil {
		s.runs.remember(&j, b)
	}
	return j, err
}

// runningJobs are running jobs with the records that this process wrote or read. A runner
// reads the record of its own job again and again.
type runningJobs struct {
	mu   sync.Mutex
	jobs map[kernel.JobID]written
}

type written struct {
	job  kernel.Job
	data []byte
}

// remember keeps the record of a running job, and drops the record of any other.
func (l *runningJobs) remember(j *kernel.Job, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.State.Status != kernel.Running {
		delete(l.jobs, j.ID)
		return
	}
	if l.jobs == nil || len(l.jobs) >= 16 {
		l.jobs = map[kernel.JobID]written{}
	}
	l.jobs[j.ID] = written{*j, data}
}

// unchanged returns the job of a record with the bytes data, if they are the same as
// before.
func (l *runningJobs) unchanged(id kernel.JobID, data []byte) (kernel.Job, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.jobs[id]
	return w.job, ok && bytes.Equal(w.data, data)
}

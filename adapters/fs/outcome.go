package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"slices"
	"strings"
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
	PID           int              `json:"pid,omitempty"`
	StartedAt     *stamp           `json:"started_at,omitempty"`
	FinishedAt    stamp            `json:"finished_at"`
	Agent         *agentRecord     `json:"agent,omitempty"`
	Applied       bool             `json:"applied,omitempty"`

	// The records that the attempt's submissions are going to be.
	Submitted []json.RawMessage `json:"submitted,omitempty"`
}

// outcomeJob is what outcome.json has of the job's record besides, as this end
// leaves it: the rest of the original's copy. It is for readers, and never read
// back.
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

// contextRecord is the execution context that an attempt leaves; the empty one
// takes the job's context away.
type contextRecord struct {
	Root     string `json:"execution_root,omitempty"`
	Worktree string `json:"worktree_path,omitempty"`
	Name     string `json:"worktree_name,omitempty"`
	Branch   string `json:"worktree_branch,omitempty"`
	Owned    bool   `json:"worktree_owned,omitempty"`
}

func newOutcome(r kernel.Result) outcomeRecord {
	o := outcomeRecord{recordVersion, string(r.Attempt.Job), r.Attempt.N, r.Outcome.String(), r.Exit, r.Class.String(),
		optional(r.Reason), []artifactRecord{}, (*contextRecord)(r.Context), r.Place.Host, r.Place.PID, optionalStamp(r.Started), stamp(r.Ended),
		newAgentRun(r.Agent), r.Applied, nil}
	for _, a := range r.Produced {
		o.Produced = append(o.Produced, artifactRecord(a))
	}
	return o
}

// encodeOutcome is outcome.json of r, with what j, nil: not known yet, is then.
func encodeOutcome(r kernel.Result, j *kernel.Job) ([]byte, error) {
	var doc outcomeDocument
	doc.outcomeRecord = newOutcome(r)
	o := &doc.outcomeRecord
	at := r.Ended
	if at.IsZero() {
		at = time.Unix(0, 0).UTC() // a record has a time; that of their creation is still to come
	}
	for _, n := range r.Submitted {
		b, err := encodeRecord(&kernel.Job{ID: n.ID, Created: at, Rev: 1, Part: n.Part, Spec: n.Spec,
			State: kernel.State{Approval: n.Approval, Context: n.Context}}, nil, at)
		if err != nil {
			return nil, fmt.Errorf("encode outcome %s: %w", r.Attempt.Job, err)
		}
		o.Submitted = append(o.Submitted, b)
	}
	if j != nil {
		rec := newRecord(j, at)
		doc.outcomeJob = &outcomeJob{rec.Status, rec.Command, rec.ChildArgs, rec.CreatedAt, rec.StdoutPath, rec.StderrPath, rec.Configuration, rec.Schedule, rec.Metadata}
	}
	b, err := toJSON(doc)
	if err == nil && len(b) > maxRecord && j != nil { // it is to be read
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

// result is how an attempt of job id ended.
func (o *outcomeRecord) result(id kernel.JobID) (*kernel.Result, error) {
	var d decoder
	r := &kernel.Result{
		Attempt: kernel.AttemptID{Job: kernel.JobID(o.ID), N: o.Attempt}, Exit: o.ExitCode,
		Outcome: parsed(&d, "outcome", o.Outcome, kernel.ParseOutcome),
		Class:   parsed(&d, "failure_class", o.FailureClass, kernel.ParseFailureClass),
		Reason:  value(o.FailureReason), Context: (*kernel.Context)(o.Context),
		Place: kernel.Place{Host: o.Host, PID: o.PID}, Started: stampValue(o.StartedAt), Ended: time.Time(o.FinishedAt), Agent: o.Agent.run(), Applied: o.Applied,
	}
	if r.Outcome == kernel.NoOutcome || r.Attempt.Job != id {
		d.fail("outcome", fmt.Errorf("it is not an outcome of job %s", id))
	}
	if o.Version > recordVersion {
		d.fail("version", fmt.Errorf("outcome format %d, this program reads up to %d: %w", o.Version, recordVersion, ErrNewer))
	}
	for _, a := range o.Produced {
		d.fail("produced", kernel.Artifact(a).Validate())
		r.Produced = append(r.Produced, kernel.Artifact(a))
	}
	for _, b := range o.Submitted {
		var head struct {
			ID kernel.JobID `json:"id"`
		}
		_ = json.Unmarshal(b, &head) // the record is read next
		j, _, err := decodeRecord(head.ID, b)
		d.fail("submitted", err)
		r.Submitted = append(r.Submitted, kernel.NewJob{ID: j.ID, Spec: j.Spec, Approval: j.State.Approval, Context: j.State.Context, Part: j.Part})
	}
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
	// No lock keeps a runner that lost its job from writing late: by its own
	// name the outcome of a later attempt is there all the same.
	if err := s.base.writeAs(jobPath(r.Attempt.Job, outcomeName), attemptOutcome(r.Attempt.N), b, s.opts.Durable); err != nil {
		return fmt.Errorf("record outcome of %s: %w", r.Attempt.Job, err)
	}
	return nil
}

// ConcludeOnce records durably how an attempt ended, for good: whoever comes
// second gets kernel.ErrStale. So it may be called on any host, by the runner
// and by who takes the runner for lost. It takes no lock.
func (s *Store) ConcludeOnce(r kernel.Result) error {
	if err := s.open(false); err != nil {
		return err
	}
	if !kernel.ValidJobID(string(r.Attempt.Job)) {
		return fmt.Errorf("record outcome: job id %q: %w", r.Attempt.Job, kernel.ErrInvalid)
	}
	if r.Class == kernel.WorkerLost && r.Agent == nil {
		r.Agent = s.told(r.Attempt) // who takes it for lost knows nothing of that
	}
	b, err := encodeOutcome(r, nil)
	if err != nil {
		return err
	}
	err = s.base.writeNew(jobPath(r.Attempt.Job, attemptOutcome(r.Attempt.N)), b, s.opts.Durable)
	if errors.Is(err, iofs.ErrExist) {
		return fmt.Errorf("record outcome of %s attempt %d: it has one: %w", r.Attempt.Job, r.Attempt.N, kernel.ErrStale)
	}
	if err != nil {
		return fmt.Errorf("record outcome of %s: %w", r.Attempt.Job, err)
	}
	// This one is for people: what counts is the other. But it is read, and in
	// part it would be taken for the outcome of a later attempt that nobody can read.
	_ = s.base.write(jobPath(r.Attempt.Job, outcomeName), b, s.opts.Durable)
	return nil
}

// Job reads one record without the lock: what was asked for never changes. It
// may be called from any goroutine once the store was used.
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
	if j, same := s.runs.as(id, b); same {
		return j, nil
	}
	j, _, err := s.decodeRecordFile(id, b)
	return j, err
}

// launched are the jobs that this process launched, with the records it wrote:
// the one that it runs itself is asked for time and again.
type launched struct {
	mu   sync.Mutex
	jobs map[kernel.JobID]written
}

type written struct {
	job  kernel.Job
	data []byte
}

// note remembers what was written of a job that runs, and forgets others.
func (l *launched) note(j *kernel.Job, data []byte) {
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

// as is the job that data, read from a record, is about, if this process wrote
// it like that.
func (l *launched) as(id kernel.JobID, data []byte) (kernel.Job, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.jobs[id]
	return w.job, ok && bytes.Equal(w.data, data)
}

// Observe answers the probes of files: markers of custom artifacts, conflict
// sentinels, patches and the results of running attempts. Where there is no
// store, nothing exists.
func (s *Store) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	closed := s.open(false)
	for _, a := range p.Markers {
		f.Markers[a] = answer(closed, func() kernel.Fact[[]kernel.JobID] { return s.markers(a) })
	}
	for _, a := range p.Artifacts {
		if a.Kind == kernel.MergeSentinel || a.Kind == kernel.CommandPatch {
			f.Present[a] = answer(closed, func() kernel.Fact[bool] { return s.artifact(a) })
		}
	}
	for _, a := range p.Attempts {
		f.Results[a] = answer(closed, func() kernel.Fact[*kernel.Result] { return s.result(a) })
	}
}

// answer is what look finds in a store that could be opened.
func answer[T any](closed error, look func() kernel.Fact[T]) kernel.Fact[T] {
	var none T
	switch {
	case closed == nil:
		return look()
	case errors.Is(closed, iofs.ErrNotExist):
		return kernel.Seen(none)
	default:
		return kernel.Unseen[T](closed.Error())
	}
}

// artifact reports whether a sentinel or a patch exists.
func (s *Store) artifact(a kernel.Artifact) kernel.Fact[bool] {
	if a.Kind == kernel.CommandPatch {
		if !kernel.ValidJobID(a.Name) {
			return kernel.Seen(false)
		}
		return s.present(jobPath(kernel.JobID(a.Name), patchName))
	}
	name, err := sentinelFile(a.Name)
	if err != nil {
		return kernel.Unseen[bool](err.Error())
	}
	return s.present(name)
}

func (s *Store) present(name string) kernel.Fact[bool] {
	found, err := s.base.exists(name)
	if err != nil {
		return kernel.Unseen[bool](err.Error())
	}
	return kernel.Seen(found)
}

func (s *Store) markers(a kernel.Artifact) kernel.Fact[[]kernel.JobID] {
	names, err := s.base.names(artifactDir(markersDir, a))
	if err != nil {
		return kernel.Unseen[[]kernel.JobID](err.Error())
	}
	var ids []kernel.JobID
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, ".json"); ok && kernel.ValidJobID(id) {
			ids = append(ids, kernel.JobID(id))
		}
	}
	return kernel.Seen(ids)
}

// result is the outcome of the job's latest attempt on record, or of a itself
// where that is another one.
func (s *Store) result(a kernel.AttemptID) kernel.Fact[*kernel.Result] {
	if !kernel.ValidJobID(string(a.Job)) {
		return kernel.Unseen[*kernel.Result](fmt.Sprintf("job id %q is none", a.Job))
	}
	latest := s.outcome(a.Job, outcomeName)
	if latest.Value == nil || latest.Value.Attempt != a {
		if own := s.outcome(a.Job, attemptOutcome(a.N)); own.Value != nil && own.Value.Attempt == a {
			return own
		}
	}
	if !latest.Known || latest.Value != nil && latest.Value.Attempt == a {
		return latest
	}
	lost := kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost, Applied: s.Applied(a), Agent: s.told(a),
		Reason: "its runner ended without a result"}
	if !lost.Applied && lost.Agent == nil {
		return latest
	}
	if lost.Applied {
		lost.Reason += "; what it did is on record"
	}
	return kernel.Seen(&lost)
}

// told is what the agent of an attempt of a workflow node told before anything
// ended; nil: nothing.
func (s *Store) told(a kernel.AttemptID) *kernel.AgentRun {
	b, err := s.base.read(jobPath(a.Job, fmt.Sprintf("%s/%d.result.json", attemptsDir, a.N)), maxRecord)
	if err != nil {
		return nil
	}
	var left struct {
		Attempt string           `json:"attempt"`
		Agent   *kernel.AgentRun `json:"agent"`
	}
	if json.Unmarshal(b, &left) != nil || left.Agent == nil || left.Attempt != fmt.Sprintf("%s/%d", a.Job, a.N) {
		return nil
	}
	if j, err := s.Job(a.Job); err != nil || !j.Spec.Task.Builtin {
		return nil // whatever its command wrote there
	}
	return left.Agent
}

// Applied reports that what the attempt was for is on record as done, whatever
// became of the attempt.
func (s *Store) Applied(a kernel.AttemptID) bool {
	if !kernel.ValidJobID(string(a.Job)) {
		return false
	}
	effects, _ := s.Effects(a.Job) // one that cannot be read shows nothing
	return slices.ContainsFunc(effects, func(e kernel.Effect) bool {
		return e.Attempt == a.N && e.Part == "" && e.State != kernel.Intended
	})
}

func (s *Store) outcome(id kernel.JobID, name string) kernel.Fact[*kernel.Result] {
	name = jobPath(id, name)
	b, err := s.base.read(name, maxRecord)
	if err != nil {
		if ignoreMissing(err) == nil {
			return kernel.Seen[*kernel.Result](nil)
		}
		return kernel.Unseen[*kernel.Result](err.Error())
	}
	r, err := decodeOutcome(id, b)
	if err != nil {
		return kernel.Unseen[*kernel.Result](filepath.Join(vizierDir, name) + ": " + err.Error())
	}
	return kernel.Seen(r)
}

// ClearSentinel drops the mark of an open merge conflict.
func (s *Store) ClearSentinel(slug string) error {
	name, err := sentinelFile(slug)
	if err != nil {
		return err
	}
	if err := s.open(false); err != nil {
		return err
	}
	return s.base.remove(name)
}

package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// builder makes an entry from record actions.
type builder struct {
	s    *Store
	e    entry
	at   map[kernel.JobID]int        // index of the job's group in e
	jobs map[kernel.JobID]*cachedJob // as the plan leaves them; nil: removed
	last kernel.Number               // the largest that the plan gives; 0: none
}

// have returns a job as the actions so far leave it.
func (b *builder) have(id kernel.JobID) (*cachedJob, error) {
	if k, ok := b.jobs[id]; ok {
		return k, nil
	}
	k, err := b.s.cache.entry(id) // as it was loaded
	if err != nil || k == nil {
		return nil, err
	}
	return k, b.s.readForeign(k)
}

func (b *builder) group(id kernel.JobID) *group {
	i, ok := b.at[id]
	if !ok {
		i = len(b.e.groups)
		b.at[id] = i
		b.e.groups = append(b.e.groups, group{job: id})
	}
	return &b.e.groups[i]
}

// does adds file operations to the group of a job; "" is the group of no job.
func (b *builder) does(id kernel.JobID, ops ...fileOp) {
	g := b.group(id)
	g.ops = append(g.ops, ops...)
}

// put adds j's record to the entry, and its state file if that must change. was is the
// coarse state that was written last.
func (b *builder) put(j *kernel.Job, f *foreign, was string) error {
	k := &cachedJob{job: j, foreign: f}
	g := b.group(j.ID)
	g.rev, g.is, g.record = j.Rev, k, nil
	if j.State.Status == kernel.Running { // its runner reads it back
		var err error
		if g.record, err = encodeRecord(j, f, b.e.now); err != nil {
			return err
		}
		g.is = nil
	}
	if word := j.State.Status.Coarse(); word != was || !b.s.stateFileSays(j.ID, word) {
		g.state = word
	}
	b.jobs[j.ID] = k
	b.s.runs.remember(j, g.record)
	return nil
}

// CreateJob adds a record. If there is one already, that is kernel.ErrConflict.
func (b *builder) CreateJob(a kernel.CreateJob) error {
	j := a.Job
	if why := b.s.quarantineReason(j.ID); why != "" {
		return fmt.Errorf("create %s: %s: %w", j.ID, why, kernel.ErrConflict)
	}
	if b.jobs[j.ID] != nil {
		return fmt.Errorf("create %s: there is such a job: %w", j.ID, kernel.ErrConflict)
	}
	for _, name := range []string{jobPath(j.ID, recordName), packFile(j.ID)} {
		if found, err := b.s.base.exists(name); found || err != nil {
			return errors.Join(fmt.Errorf("create %s: there is such a record: %w", j.ID, kernel.ErrConflict), err)
		}
	}
	err := b.put(j, nil, "")
	b.does(j.ID, fileOp{kind: opCreateJob})
	b.last = max(b.last, j.Number)
	return err
}

// NumberJob gives the job of a record its number.
func (b *builder) NumberJob(a kernel.NumberJob) error {
	have, err := b.replaced(a.Job, a.If)
	if err != nil {
		return err
	}
	j := *have.job
	j.Number, j.Part, j.Rev = a.Number, a.Part, a.If+1
	b.last = max(b.last, a.Number)
	return b.put(&j, have.foreign, j.State.Status.Coarse())
}

// replaced returns the job whose record a plan replaces. It is kernel.ErrStale if the
// record is not of the revision that the plan was made for, kernel.ErrConflict if the job
// is in quarantine, and kernel.ErrNotFound if there is no record.
func (b *builder) replaced(id kernel.JobID, over kernel.Revision) (*cachedJob, error) {
	if why := b.s.quarantineReason(id); why != "" {
		return nil, fmt.Errorf("commit %s: %s: %w", id, why, kernel.ErrConflict)
	}
	have, err := b.have(id)
	if err == nil && have == nil {
		if _, _, err = b.s.readRecord(id); err == nil || errors.Is(err, iofs.ErrNotExist) {
			err = kernel.ErrNotFound
		}
	}
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", id, err)
	}
	if have.job.Rev != over {
		return nil, fmt.Errorf("commit %s: revision %d, planned over %d: %w", id, have.job.Rev, over, kernel.ErrStale)
	}
	return have, nil
}

// PutState replaces a record that has the revision it was planned over.
func (b *builder) PutState(a kernel.PutState) error {
	have, err := b.replaced(a.Job, a.If)
	if err != nil {
		return err
	}
	j := *have.job
	before := j.State
	j.State, j.Rev = a.State, a.If+1
	if r := b.s.resultToSettle(&j); r != nil { // as its runner would have recorded it, under both names
		data, err := encodeOutcome(*r, &j)
		if err != nil {
			return err
		}
		b.does(a.Job, fileOp{kind: opWrite, path: jobPath(a.Job, outcomeName), to: attemptOutcome(r.Attempt.N), data: data})
	} else if r := b.s.resultPassedOver(a.Job, before, j.State); r != nil { // the attempt after it is in this commit, too
		data, err := encodeOutcome(*r, nil)
		if err != nil {
			return err
		}
		b.does(a.Job, fileOp{kind: opWrite, path: jobPath(a.Job, attemptOutcome(r.Attempt.N)), data: data})
	} else if ended := j.State.Status.Terminal() || j.State.Status == kernel.FailedRetryable; !ended || !j.State.Exit.Known || j.State.Status == before.Status {
		// the state is not an end, or its end is on record already
	} else if known, err := b.complete(before, &j); known || err != nil { // its runner could not know yet what the job would be
		if err != nil {
			return err
		}
	} else {
		st := &j.State
		r := kernel.Result{Attempt: j.Attempt(), Outcome: st.Outcome, Exit: st.Exit.Code, Class: st.Failure, Reason: st.Reason,
			Place: st.Place, Started: st.Started, Ended: st.Finished}
		if st.Agent != nil && (before.Agent == nil || st.Agent.Runs != before.Agent.Runs) {
			r.Agent = &st.Agent.Last
		}
		data, err := encodeOutcome(r, &j)
		if err != nil {
			return err
		}
		b.does(a.Job, fileOp{kind: opWrite, path: jobPath(a.Job, outcomeName), data: data})
		if before.Status == kernel.Running { // under the attempt's number, too, whether or not its runner wrote one
			b.does(a.Job, fileOp{kind: opWrite, path: jobPath(a.Job, attemptOutcome(r.Attempt.N)), data: data})
		}
	}
	return b.put(&j, have.foreign, before.Status.Coarse())
}

// complete adds j's new state to the outcome that its runner recorded, if it did. It reports
// false if what is on record, or is settled, is not how the attempt ended: it is of an earlier
// attempt, or a success whose submissions were refused when it was settled.
func (b *builder) complete(before kernel.State, j *kernel.Job) (known bool, err error) {
	if !concluded(before, j.State) {
		return false, nil
	}
	known = b.s.tx == nil || b.s.tx.settling == nil || b.s.tx.settling.Attempt != j.Attempt()
	for _, name := range []string{outcomeName, attemptOutcome(j.State.Attempt)} { // the first may be that of a runner that wrote late
		r, unread := b.s.outcome(j.ID, name)
		if unread != nil {
			return true, nil // it stays as it is
		}
		if r == nil {
			continue
		}
		if r.Attempt != j.Attempt() || r.Outcome != j.State.Outcome {
			known = false
			continue
		}
		data, err := encodeOutcome(*r, j)
		if err != nil {
			return false, err
		}
		b.does(j.ID, fileOp{kind: opWrite, path: jobPath(j.ID, outcomeName), data: data})
		return true, nil
	}
	return known, nil
}

// resultPassedOver returns the result that the transaction settles if the job starts again
// at once, so that no state says how the attempt ended; otherwise nil. It returns the
// result once.
func (s *Store) resultPassedOver(id kernel.JobID, before, now kernel.State) *kernel.Result {
	attempt := kernel.AttemptID{Job: id, N: before.Attempt}
	if s.tx == nil || s.tx.settling == nil || s.tx.settling.Attempt != attempt || before.Status != kernel.Running ||
		now.Attempt == before.Attempt && (now.Status.Terminal() || now.Status == kernel.FailedRetryable || now.Status == kernel.Running) {
		return nil
	}
	r := s.tx.settling
	s.tx.settling = nil
	return r
}

// resultToSettle is the result that the transaction records together with the new
// state of j; nil if that state is not what the result leads to. It returns the
// result once.
func (s *Store) resultToSettle(j *kernel.Job) *kernel.Result {
	if s.tx == nil || s.tx.settling == nil || s.tx.settling.Attempt != j.Attempt() || s.tx.settling.Outcome != j.State.Outcome {
		return nil
	}
	r := s.tx.settling
	s.tx.settling = nil
	return r
}

// concluded reports that the runner may have recorded the outcome itself. It did not if the
// job was not running, was cancelled, lost its runner or could not be started.
func concluded(before, after kernel.State) bool {
	return before.Status == kernel.Running && after.Status != kernel.Cancelled &&
		after.Failure != kernel.WorkerLost && after.Failure != kernel.LaunchFailure
}

// markerRecord is the content of a marker; that it exists is what counts.
type markerRecord struct {
	JobID     string `json:"job_id"`
	Attempt   int    `json:"attempt"`
	TypeID    string `json:"type_id"`
	Key       string `json:"key"`
	WrittenAt stamp  `json:"written_at"`
}

// CreateRun writes a manifest.
func (b *builder) CreateRun(a kernel.CreateRun) error {
	name, err := runFile(a.Run)
	b.does("", fileOp{kind: opWrite, path: name, data: a.Manifest})
	return err
}

// RemoveRun removes a manifest.
func (b *builder) RemoveRun(a kernel.RemoveRun) error {
	if name, err := runFile(a.Run); err == nil { // another id has no file here
		b.does("", fileOp{kind: opRemove, path: name}, fileOp{kind: opRemove, path: followedFile(name)})
	}
	return nil
}

// RemoveJob removes a record and everything that belongs to it.
func (b *builder) RemoveJob(a kernel.RemoveJob) error {
	g := b.group(a.Job)
	g.rev, g.is, g.record, g.state = 0, nil, nil, ""
	b.does(a.Job, fileOp{kind: opRemoveJob})
	b.does(a.Job, forget(a.Job, a.Produces)...)
	b.jobs[a.Job] = nil
	return nil
}

// PurgeFiles removes all files of a job except its record.
func (b *builder) PurgeFiles(a kernel.PurgeFiles) error {
	b.does(a.Job, fileOp{kind: opStripJob})
	b.does(a.Job, forget(a.Job, a.Produces)...)
	return nil
}

// Announce queues an event for hooks.
func (b *builder) Announce(a kernel.Announce) error {
	data, err := toLine(newEventRecord(0, a.Event))
	b.does(a.Subject(), fileOp{kind: opWrite, path: pendingFile(a.Event), data: append(data, '\n')})
	return err
}

// Reset puts away what earlier attempts left.
func (b *builder) Reset(a kernel.Reset) error {
	id := a.Attempt.Job
	b.does(id, b.s.reset(a.Attempt)...)
	b.does(id, forget(id, a.Produces)...)
	if have, err := b.have(id); err == nil && have != nil {
		b.does(id, b.s.committedEffects(have.job)...)
	}
	return nil
}

// Rotate keeps logs under their attempt's number.
func (b *builder) Rotate(a kernel.Rotate) error {
	b.does(a.Attempt.Job, b.s.rotate(a.Attempt)...)
	return nil
}

// Publish writes the markers of custom artifacts.
func (b *builder) Publish(a kernel.Publish) error {
	for _, art := range a.Artifacts {
		if art.Kind != kernel.Custom {
			continue
		}
		data, err := newMarker(a.Attempt, art, b.e.now)
		if err != nil {
			return err
		}
		b.does(a.Attempt.Job, fileOp{kind: opWrite, path: artifactFile(markersDir, art, a.Attempt.Job), data: data})
	}
	return nil
}

// newMarker returns the marker of an artifact that an attempt has made.
func newMarker(by kernel.AttemptID, a kernel.Artifact, at time.Time) ([]byte, error) {
	data, err := toLine(markerRecord{string(by.Job), by.N, a.Name, a.Ref, stamp(at)})
	return append(data, '\n'), err
}

// forget removes the markers and payloads of the artifacts that a job produced.
func forget(id kernel.JobID, produces []kernel.Artifact) []fileOp {
	var ops []fileOp
	for _, a := range produces {
		if a.Kind == kernel.Custom {
			ops = append(ops, fileOp{kind: opRemove, path: artifactFile(markersDir, a, id)},
				fileOp{kind: opRemove, path: artifactFile(payloadsDir, a, id)})
		}
	}
	return ops
}

// rotate keeps the logs of an attempt under its number.
func (s *Store) rotate(a kernel.AttemptID) []fileOp {
	var ops []fileOp
	for _, stream := range []string{"stdout", "stderr", "order"} {
		ops = append(ops, fileOp{kind: opRename, path: jobPath(a.Job, stream+".log"), to: rotatedLog(a.Job, stream, a.N)})
		if old := a.N - s.opts.KeepLogs; s.opts.KeepLogs > 0 && old > 0 {
			ops = append(ops, fileOp{kind: opRemove, path: rotatedLog(a.Job, stream, old)})
		}
	}
	return ops
}

// reset removes or renames the files that an attempt left, and leaves empty logs (seed
// 000). Its outcome stays under its number.
func (s *Store) reset(a kernel.AttemptID) []fileOp {
	ops := []fileOp{{kind: opRemove, path: jobPath(a.Job, outcomeName)}, {kind: opRemove, path: jobPath(a.Job, patchName)},
		{kind: opRemove, path: jobPath(a.Job, noInputName)}}
	if a.N == 0 {
		return ops
	}
	ops = append(append(ops, fileOp{kind: opRemoveTree, path: jobPath(a.Job, checkpointDir)}), s.rotate(a)...)
	return append(ops, fileOp{kind: opWrite, path: jobPath(a.Job, "stdout.log")}, fileOp{kind: opWrite, path: jobPath(a.Job, "stderr.log")})
}

func isReadOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, iofs.ErrPermission)
}

package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// entryOf is p as files.
func (s *Store) entryOf(p kernel.Plan) (*builder, error) {
	b := &builder{s: s, at: map[kernel.JobID]int{}, jobs: map[kernel.JobID]*known{}}
	for _, a := range p.Actions {
		if id := a.Subject(); !aboutRun(a) && !kernel.ValidJobID(string(id)) { // it would become a path
			return b, fmt.Errorf("commit %T: job id %q: %w", a, id, kernel.ErrInvalid)
		}
		switch a := a.(type) {
		case kernel.CreateJob:
			j := a.Job
			if why := s.heldOf(j.ID); why != "" {
				return b, fmt.Errorf("create %s: %s: %w", j.ID, why, kernel.ErrConflict)
			}
			if b.jobs[j.ID] != nil {
				return b, fmt.Errorf("create %s: there is such a job: %w", j.ID, kernel.ErrConflict)
			}
			if found, err := s.base.exists(jobPath(j.ID, recordName)); found || err != nil {
				return b, errors.Join(fmt.Errorf("create %s: there is such a record: %w", j.ID, kernel.ErrConflict), err)
			}
			if err := b.put(&j, nil, ""); err != nil {
				return b, err
			}
			g := b.group(j.ID)
			g.ops = append(g.ops, fileOp{kind: opCreateJob})
		case kernel.PutState:
			if err := b.putState(a); err != nil {
				return b, err
			}
		case kernel.CreateRun:
			name, err := runFile(a.Run)
			if err != nil {
				return b, err
			}
			g := b.group("")
			g.ops = append(g.ops, fileOp{kind: opWrite, path: name, data: a.Manifest})
		case kernel.RemoveRun:
			if name, err := runFile(a.Run); err == nil { // another id has no file here
				g := b.group("")
				g.ops = append(g.ops, fileOp{kind: opRemove, path: name}, fileOp{kind: opRemove, path: followedFile(name)})
			}
		case kernel.RemoveJob:
			g := b.group(a.Job)
			g.rev, g.record, g.state = 0, nil, ""
			g.ops = append(append(g.ops, fileOp{kind: opRemoveJob}), forget(a.Job, a.Produces)...)
			b.jobs[a.Job] = nil
		case kernel.Announce:
			data, err := toLine(newEventRecord(0, a.Event))
			if err != nil {
				return b, err
			}
			g := b.group(a.Event.Job)
			g.ops = append(g.ops, fileOp{kind: opWrite, path: pendingFile(a.Event), data: append(data, '\n')})
		case kernel.Strip:
			g := b.group(a.Job)
			g.ops = append(append(g.ops, fileOp{kind: opStripJob}), forget(a.Job, a.Produces)...)
		case kernel.Publish:
			if err := b.publish(a); err != nil {
				return b, err
			}
		case kernel.Reset:
			g := b.group(a.Attempt.Job)
			g.ops = append(append(g.ops, s.reset(a.Attempt)...), forget(a.Attempt.Job, a.Produces)...)
			if have, err := b.have(a.Attempt.Job); err == nil && have != nil {
				g.ops = append(g.ops, s.settled(have.job)...)
			}
		case kernel.Rotate:
			g := b.group(a.Attempt.Job)
			g.ops = append(g.ops, s.rotate(a.Attempt)...)
		default:
			b.e.world = append(b.e.world, a)
		}
	}
	return b, nil
}

// aboutRun reports that a is about a manifest, and so about no job.
func aboutRun(a kernel.Action) bool {
	switch a.(type) {
	case kernel.CreateRun, kernel.RemoveRun:
		return true
	}
	return false
}

type builder struct {
	s    *Store
	e    entry
	at   map[kernel.JobID]int
	jobs map[kernel.JobID]*known // as the plan leaves them; nil: gone
}

// have is a job as the plan so far leaves it.
func (b *builder) have(id kernel.JobID) (*known, error) {
	if k, ok := b.jobs[id]; ok {
		return k, nil
	}
	return b.s.touch(id)
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

// put makes j's record part of the entry. was is the coarse state that was
// written last; a file that says otherwise is repaired.
func (b *builder) put(j *kernel.Job, f *foreign, was string) error {
	data, err := encodeRecord(j, f, b.s.opts.Now())
	if err != nil {
		return err
	}
	g := b.group(j.ID)
	g.rev, g.record = j.Rev, data
	if word := j.State.Status.Coarse(); word != was || !b.s.says(j.ID, word) {
		g.state = word
	}
	b.jobs[j.ID] = &known{job: j, foreign: f}
	b.s.runs.note(j, data)
	return nil
}

func (b *builder) putState(a kernel.PutState) error {
	if why := b.s.heldOf(a.Job); why != "" {
		return fmt.Errorf("commit %s: %s: %w", a.Job, why, kernel.ErrConflict)
	}
	have, err := b.have(a.Job)
	if err == nil && have == nil {
		if _, _, err = b.s.readRecord(a.Job); err == nil || errors.Is(err, iofs.ErrNotExist) {
			err = kernel.ErrNotFound
		}
	}
	if err != nil {
		return fmt.Errorf("commit %s: %w", a.Job, err)
	}
	if have.job.Rev != a.If {
		return fmt.Errorf("commit %s: revision %d, planned over %d: %w", a.Job, have.job.Rev, a.If, kernel.ErrStale)
	}
	j := *have.job
	before := j.State
	j.State, j.Rev = a.State, a.If+1
	if ended := j.State.Status.Terminal() || j.State.Status == kernel.FailedRetryable; ended && j.State.Exit.Known &&
		j.State.Status != before.Status && !concluded(before, j.State) {
		data, err := encodeOutcome(kernel.Result{Attempt: j.Attempt(), Outcome: j.State.Outcome, Exit: j.State.Exit.Code,
			Class: j.State.Failure, Reason: j.State.Reason, Ended: j.State.Finished})
		if err != nil {
			return err
		}
		g := b.group(a.Job)
		g.ops = append(g.ops, fileOp{kind: opWrite, path: jobPath(a.Job, outcomeName), data: data})
	}
	return b.put(&j, have.foreign, before.Status.Coarse())
}

// concluded reports that the runner recorded the outcome itself: it did unless
// the job was not running, was told to end, or never had a runner that could.
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

func (b *builder) publish(a kernel.Publish) error {
	for _, art := range a.Artifacts {
		if art.Kind != kernel.Custom {
			continue
		}
		data, err := toLine(markerRecord{string(a.Attempt.Job), a.Attempt.N, art.Name, art.Ref, stamp(b.s.opts.Now())})
		if err != nil {
			return err
		}
		g := b.group(a.Attempt.Job)
		g.ops = append(g.ops, fileOp{kind: opWrite, path: artifactFile(markersDir, art, a.Attempt.Job), data: append(data, '\n')})
	}
	return nil
}

// forget drops the markers and payloads of what a job produced.
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
	for _, stream := range []string{"stdout", "stderr"} {
		ops = append(ops, fileOp{kind: opRename, path: jobPath(a.Job, stream+".log"), to: rotatedLog(a.Job, stream, a.N)})
		if old := a.N - s.opts.KeepLogs; s.opts.KeepLogs > 0 && old > 0 {
			ops = append(ops, fileOp{kind: opRemove, path: rotatedLog(a.Job, stream, old)})
		}
	}
	return ops
}

// reset puts away what an attempt left, and leaves empty logs (seed 000).
func (s *Store) reset(a kernel.AttemptID) []fileOp {
	ops := []fileOp{{kind: opRemove, path: jobPath(a.Job, outcomeName)}, {kind: opRemove, path: jobPath(a.Job, attemptOutcome(a.N))}, {kind: opRemove, path: jobPath(a.Job, patchName)},
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

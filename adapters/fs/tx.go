package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Tx is a transaction: the scheduler lock, held.
type Tx struct {
	s          *Store
	pos        position
	unfinished []kernel.Action
}

// Load reads the records of scope.
func (t *Tx) Load(scope kernel.Scope) (kernel.Records, error) { return t.s.load(scope) }

// Unfinished are actions on the world that an earlier transaction committed
// and did not see through.
func (t *Tx) Unfinished() []kernel.Action { return t.unfinished }

// Close releases the lock.
func (t *Tx) Close() error { return t.s.lock.unlock() }

// Commit does the record actions of p durably, all or none, and remembers the
// others until Done. Every job that p changes must have been loaded.
func (t *Tx) Commit(p kernel.Plan) error {
	e, err := t.s.entryOf(p)
	if err != nil {
		return err
	}
	if t.pos.end > checkpointSize && t.pos.done {
		if t.pos, err = t.s.log.checkpoint(t.pos); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	start := t.pos.end
	end, err := t.s.log.append(e, start)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	for _, g := range e.groups {
		if err := t.s.applyGroup(g); err != nil {
			return fmt.Errorf("apply %s: %w", g.job, err)
		}
	}
	t.pos.start, t.pos.end, t.pos.done, t.pos.rebooted = start, end, len(e.world) == 0, false
	return t.s.log.setPosition(t.pos)
}

// Done forgets the remembered actions.
func (t *Tx) Done() error {
	t.unfinished = nil
	if t.pos.done {
		return nil
	}
	t.pos.done = true
	return t.s.log.setPosition(t.pos)
}

// recover brings the files to where the journal is, and finds the actions on
// the world that are still to be done. After another boot everything in the
// journal is gone through, and of the actions only those that a boot does not
// settle are kept: nothing that ran then runs now.
func (t *Tx) recover() error {
	if err := t.s.openJournal(); err != nil {
		return err
	}
	log := t.s.log
	pos, rebooted, err := log.position()
	if err != nil {
		return fmt.Errorf("journal mark: %w", err)
	}
	size, err := log.size()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if pos.end > size { // it was emptied, and the mark did not hear of it
		pos.start, pos.end, pos.done = 0, 0, true
	}
	t.pos = pos
	if !pos.done {
		e, _, err := log.read(pos.start)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		t.unfinished = e.world
	}
	for at := pos.end; at < size; {
		e, next, err := log.read(at)
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			if err := log.file.Truncate(at); err != nil {
				return fmt.Errorf("journal: %w", err)
			}
			break
		}
		if err != nil {
			return err
		}
		for _, g := range e.groups {
			if err := t.s.replayGroup(g); err != nil {
				return fmt.Errorf("recover %s: %w", g.job, err)
			}
		}
		t.pos.start, t.pos.end, t.pos.done, t.pos.rebooted = at, next, len(e.world) == 0, rebooted
		t.unfinished = e.world
		at = next
	}
	if t.pos.rebooted {
		t.unfinished = survivors(t.unfinished)
	}
	return log.setPosition(t.pos)
}

// survivors are the actions that another boot does not settle.
func survivors(actions []kernel.Action) []kernel.Action {
	var out []kernel.Action
	for _, a := range actions {
		switch a.(type) {
		case kernel.ClearSentinel, kernel.RemoveWorktree:
			out = append(out, a)
		}
	}
	return out
}

// replayGroup applies g unless the record on disk is already there. Then it
// still goes through g's markers, which only the journal changes: a power
// failure may have kept the record and lost them.
func (s *Store) replayGroup(g group) error {
	j, _, err := s.readRecord(g.job)
	if err != nil || g.record == nil || j.Rev < g.rev {
		return s.applyGroup(g)
	}
	for _, op := range g.ops {
		if !strings.HasPrefix(op.path, markersDir+"/") {
			continue
		}
		if err := s.applyOp(g.job, op); err != nil {
			return err
		}
	}
	return s.writeState(g.job, j.State.Status.Coarse())
}

func (s *Store) applyGroup(g group) error {
	if g.record != nil {
		if err := mkdirAll(s.root, jobPath(g.job, "")); err != nil {
			return err
		}
	}
	for _, op := range g.ops {
		if err := s.applyOp(g.job, op); err != nil {
			return err
		}
	}
	if g.record == nil {
		return nil
	}
	if err := writeFile(s.root, jobPath(g.job, recordName), g.record, false); err != nil {
		return err
	}
	if g.state == "" {
		return nil
	}
	return s.writeState(g.job, g.state)
}

func (s *Store) writeState(id kernel.JobID, word string) error {
	name := jobPath(id, stateName)
	if have, err := readFile(s.root, name, 64); err == nil && string(have) == word+"\n" {
		return nil
	}
	return writeFile(s.root, name, []byte(word+"\n"), false)
}

func (s *Store) applyOp(id kernel.JobID, op fileOp) error {
	switch op.kind {
	case opWrite:
		if err := mkdirAll(s.root, path.Dir(op.path)); err != nil {
			return err
		}
		return writeFile(s.root, op.path, op.data, false)
	case opRemove:
		return ignoreMissing(s.root.Remove(op.path))
	case opRename:
		if _, err := s.root.Lstat(op.to); err == nil {
			return nil
		}
		return ignoreMissing(s.root.Rename(op.path, op.to))
	case opRemoveJob:
		return s.root.RemoveAll(jobPath(id, ""))
	default:
		return fmt.Errorf("unknown file operation %d", op.kind)
	}
}

// entryOf is p as files.
func (s *Store) entryOf(p kernel.Plan) (entry, error) {
	b := builder{s: s, at: map[kernel.JobID]int{}}
	for _, a := range p.Actions {
		switch a := a.(type) {
		case kernel.CreateJob:
			j := a.Job
			if err := b.put(&j, nil, ""); err != nil {
				return b.e, err
			}
		case kernel.PutState:
			if err := b.putState(a); err != nil {
				return b.e, err
			}
		case kernel.RemoveJob:
			g := b.group(a.Job)
			g.ops = append(append(g.ops, fileOp{kind: opRemoveJob}), forget(a.Job, a.Produces)...)
			delete(s.warm.jobs, a.Job)
		case kernel.Publish:
			if err := b.publish(a); err != nil {
				return b.e, err
			}
		case kernel.Reset:
			g := b.group(a.Attempt.Job)
			g.ops = append(append(g.ops, s.reset(a.Attempt)...), forget(a.Attempt.Job, a.Produces)...)
		case kernel.Rotate:
			g := b.group(a.Attempt.Job)
			g.ops = append(g.ops, s.rotate(a.Attempt)...)
		default:
			b.e.world = append(b.e.world, a)
		}
	}
	return b.e, nil
}

type builder struct {
	s  *Store
	e  entry
	at map[kernel.JobID]int
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

// put makes j's record part of the entry. was is the coarse state on disk.
func (b *builder) put(j *kernel.Job, f *foreign, was string) error {
	data, err := encodeRecord(j, f, b.s.opts.Now())
	if err != nil {
		return err
	}
	g := b.group(j.ID)
	g.rev, g.record = j.Rev, data
	if word := j.State.Status.Coarse(); word != was {
		g.state = word
	}
	b.s.warm.jobs[j.ID] = known{*j, f}
	return nil
}

func (b *builder) putState(a kernel.PutState) error {
	have, ok := b.s.warm.jobs[a.Job]
	if !ok {
		return fmt.Errorf("commit %s: %w", a.Job, kernel.ErrNotFound)
	}
	if have.job.Rev != a.If {
		return fmt.Errorf("commit %s: revision %d, planned over %d: %w", a.Job, have.job.Rev, a.If, kernel.ErrStale)
	}
	j := have.job
	before := j.State
	j.State, j.Rev = a.State, a.If+1
	if concluded := before.Status == kernel.Running && j.State.Status != kernel.Cancelled && j.State.Failure != kernel.WorkerLost; !concluded &&
		j.State.Status.Terminal() && j.State.Exit.Known {
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
		data, err := json.Marshal(markerRecord{string(a.Attempt.Job), a.Attempt.N, art.Name, art.Ref, stamp(b.s.opts.Now())})
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
	ops := []fileOp{{kind: opRemove, path: jobPath(a.Job, outcomeName)}, {kind: opRemove, path: jobPath(a.Job, patchName)}}
	if a.N == 0 {
		return ops
	}
	ops = append(ops, s.rotate(a)...)
	return append(ops, fileOp{kind: opWrite, path: jobPath(a.Job, "stdout.log")}, fileOp{kind: opWrite, path: jobPath(a.Job, "stderr.log")})
}

func isReadOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, iofs.ErrPermission)
}

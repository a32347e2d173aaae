package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
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
	cut        error // a plan is in the journal and not in the files: the next Begin completes it
}

// Load reads the records of scope.
func (t *Tx) Load(scope kernel.Scope) (kernel.Records, error) {
	rec, err := t.s.load(t.pos, scope)
	t.s.warm.served, t.s.warm.changed = err == nil, nil
	return rec, err
}

// Changes is what other processes changed since the records were last loaded
// or committed here; false where a Load is needed to know.
func (t *Tx) Changes() (kernel.Changes, bool) { return t.s.changes(t.pos) }

// Unfinished are actions on the world that an earlier transaction committed
// and did not see through.
func (t *Tx) Unfinished() []kernel.Action { return t.unfinished }

// Close releases the lock. It first writes the index, if a new process would
// be slow without: a cache, so that its failure is nobody's.
func (t *Tx) Close() error {
	// A transaction that loaded nothing knows nothing of what others did since.
	x := &t.s.warm
	current := x.epoch == t.pos.epoch && x.end == t.pos.end && x.file == t.pos.index
	if current && t.s.indexDue(t.pos) {
		var err error
		if t.pos, err = t.s.writeIndex(t.pos); err != nil {
			t.s.warm = index{}
		}
	}
	return t.s.lock.unlock()
}

// Commit does the record actions of p durably, all or none, and remembers the
// others until Done. Every job that p changes must have been loaded.
func (t *Tx) Commit(p kernel.Plan) (err error) {
	defer func() {
		if err != nil {
			t.s.warm = index{}
		}
	}()
	if t.cut != nil {
		return fmt.Errorf("an earlier plan of this transaction is not complete: %w", t.cut)
	}
	if !t.s.warm.caught {
		if err := t.s.catchUp(t.pos); err != nil {
			return err
		}
	}
	e, err := t.s.entryOf(p)
	if err != nil {
		return err
	}
	if t.pos.end > checkpointSize && t.pos.done {
		if t.pos, err = t.s.log.checkpoint(t.pos); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		t.s.warm.written = -indexEvery // the index file is of the epoch before
	}
	start := t.pos.end
	end, err := t.s.log.append(e, start)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	for _, g := range e.groups {
		if err := t.s.applyGroup(g); err != nil {
			t.cut = fmt.Errorf("apply %s (the plan is recorded; the next command completes it): %w", g.job, err)
			return t.cut
		}
	}
	t.pos.start, t.pos.end, t.pos.done, t.pos.rebooted, t.pos.dir = start, end, len(e.world) == 0, false, t.s.jobsStamp()
	t.s.warm.epoch, t.s.warm.end, t.s.warm.dir = t.pos.epoch, t.pos.end, t.pos.dir
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
	t.pos = pos
	if pos.end > size { // it was emptied, and the mark did not hear of it
		t.pos.epoch, t.pos.start, t.pos.end, t.pos.done = pos.epoch+1, 0, 0, true
	}
	if !t.pos.done {
		e, _, err := log.read(t.pos.start)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		t.unfinished = e.world
	}
	for at := t.pos.end; at < size; {
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
	if t.pos == pos && !rebooted {
		return nil // a new store gets its mark here: without one its first commit would pass for an earlier boot's
	}
	t.pos.dir = t.s.jobsStamp()
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
	word := j.State.Status.Coarse()
	if s.says(g.job, word) {
		return nil
	}
	return s.base.write(jobPath(g.job, stateName), []byte(word+"\n"), false)
}

// says reports that the state file of id holds word.
func (s *Store) says(id kernel.JobID, word string) bool {
	have, err := s.base.read(jobPath(id, stateName), 64)
	return err == nil && string(have) == word+"\n"
}

func (s *Store) applyGroup(g group) error {
	if g.record == nil {
		return s.applyOps(g)
	}
	d, err := s.base.make(jobPath(g.job, ""))
	if err != nil {
		return err
	}
	defer d.close()
	if err := s.applyOps(g); err != nil {
		return err
	}
	if err := d.write(recordName, g.record, false); err != nil || g.state == "" {
		return err
	}
	return d.write(stateName, []byte(g.state+"\n"), false)
}

func (s *Store) applyOps(g group) error {
	for _, op := range g.ops {
		if err := s.applyOp(g.job, op); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) applyOp(id kernel.JobID, op fileOp) error {
	switch op.kind {
	case opWrite:
		parent, err := s.base.make(path.Dir(op.path))
		if err != nil {
			return err
		}
		defer parent.close()
		return parent.write(path.Base(op.path), op.data, false)
	case opRemove:
		return s.base.remove(op.path)
	case opRename:
		return s.base.renameWithin(op.path, op.to)
	case opRemoveJob:
		return s.removeJob(id)
	default:
		return fmt.Errorf("unknown file operation %d", op.kind)
	}
}

// removeJob drops a job's directory with everything in it; os.Root keeps to it
// whatever links stand there.
func (s *Store) removeJob(id kernel.JobID) error {
	root, err := os.OpenRoot(s.abs(jobsDir))
	if err != nil {
		return err
	}
	return errors.Join(root.RemoveAll(string(id)), root.Close())
}

// entryOf is p as files.
func (s *Store) entryOf(p kernel.Plan) (entry, error) {
	b := builder{s: s, at: map[kernel.JobID]int{}}
	for _, a := range p.Actions {
		if id := a.Subject(); !aboutRun(a) && !kernel.ValidJobID(string(id)) { // it would become a path
			return b.e, fmt.Errorf("commit %T: job id %q: %w", a, id, kernel.ErrInvalid)
		}
		switch a := a.(type) {
		case kernel.CreateJob:
			j := a.Job
			if _, live := s.warm.live[j.ID]; live {
				return b.e, fmt.Errorf("create %s: there is such a job: %w", j.ID, kernel.ErrConflict)
			}
			if found, err := s.base.exists(jobPath(j.ID, recordName)); found || err != nil {
				return b.e, errors.Join(fmt.Errorf("create %s: there is such a record: %w", j.ID, kernel.ErrConflict), err)
			}
			if err := b.put(&j, nil, ""); err != nil {
				return b.e, err
			}
		case kernel.PutState:
			if err := b.putState(a); err != nil {
				return b.e, err
			}
		case kernel.CreateRun:
			name, err := runFile(a.Run)
			if err != nil {
				return b.e, err
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
			s.leaveArchive(a.Job)
			delete(s.warm.live, a.Job)
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

// aboutRun reports that a is about a manifest, and so about no job.
func aboutRun(a kernel.Action) bool {
	switch a.(type) {
	case kernel.CreateRun, kernel.RemoveRun:
		return true
	}
	return false
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
	b.s.warm.live[j.ID] = known{job: *j, foreign: f}
	return nil
}

func (b *builder) putState(a kernel.PutState) error {
	have, ok := b.s.warm.live[a.Job]
	if !ok {
		j, f, err := b.s.readRecord(a.Job)
		if errors.Is(err, iofs.ErrNotExist) {
			err = kernel.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("commit %s: %w", a.Job, err)
		}
		b.s.leaveArchive(a.Job)
		have = known{job: j, foreign: f}
	}
	if have.job.Rev != a.If {
		return fmt.Errorf("commit %s: revision %d, planned over %d: %w", a.Job, have.job.Rev, a.If, kernel.ErrStale)
	}
	j := have.job
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
	ops := []fileOp{{kind: opRemove, path: jobPath(a.Job, outcomeName)}, {kind: opRemove, path: jobPath(a.Job, patchName)},
		{kind: opRemove, path: jobPath(a.Job, noInputName)}}
	if a.N == 0 {
		return ops
	}
	ops = append(ops, s.rotate(a)...)
	return append(ops, fileOp{kind: opWrite, path: jobPath(a.Job, "stdout.log")}, fileOp{kind: opWrite, path: jobPath(a.Job, "stderr.log")})
}

func isReadOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, iofs.ErrPermission)
}

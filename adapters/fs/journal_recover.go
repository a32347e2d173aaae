package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// recover writes the files of changes that only the journal has, and finds the
// world actions that are still to be done. After a reboot it replays the whole
// journal, and keeps only the actions that outlast a boot: no process from before
// the reboot still runs.
// Actions of a newer version that this one does not know are ErrNewer: they stay
// for that version.
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
	if err := t.s.retryQuarantine(); err != nil {
		return err
	}
	holds := len(t.s.quarantine)
	t.pos = pos
	cutShort := 0 < size && size < pos.end // within a boot no crash does that: somebody cut it
	if pos.end > size {                    // the journal was emptied, and the crash came before the mark was written
		t.pos.epoch, t.pos.start, t.pos.end, t.pos.done = pos.epoch+1, 0, 0, true
	}
	var last entry
	if !t.pos.done {
		if last, _, err = log.read(t.pos.start); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	var begun map[kernel.JobID]int64
	if rebooted {
		if begun, err = log.lastStarts(t.pos.end); err != nil {
			return err
		}
	}
	for at := t.pos.end; at < size; {
		e, next, err := log.read(at)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			if err := log.cut(at); err != nil {
				return fmt.Errorf("journal: %w", err)
			}
			break
		}
		if err == nil {
			err = e.known()
		}
		if err != nil {
			return err
		}
		for _, g := range e.groups {
			if from, ok := begun[g.job]; ok && at <= from {
				if g, err = t.s.withoutLaterFiles(g); err != nil {
					return fmt.Errorf("recover %s: %w", g.job, err)
				}
			}
			if err := t.s.replayOrQuarantine(g, e.subject()); err != nil {
				return fmt.Errorf("recover %s: %w", g.job, err)
			}
		}
		t.pos.start, t.pos.end, t.pos.done, t.pos.rebooted = at, next, len(e.world) == 0, rebooted
		t.pos.packs = t.pos.packs || e.does(opPack)
		last, at, t.completed = e, next, true
	}
	if len(t.s.quarantine) != holds {
		if err := t.s.writeQuarantine(); err != nil {
			return err
		}
	}
	if t.unfinished, err = last.actions(); err != nil {
		return err
	}
	if t.pos.rebooted {
		t.unfinished = slices.DeleteFunc(t.unfinished, func(a kernel.WorldAction) bool { return !kernel.OutlastsBoot(a) })
	}
	tail := cutShort
	switch {
	case t.pos.end == 0: // it is empty, or its first entry is torn
		t.lost, err = t.s.journalLost()
	case rebooted && !tail:
		tail, err = t.tailLost()
	}
	if err != nil {
		return err
	}
	if tail { // they were done by then, or were in the entries that are gone
		t.unfinished, t.pos.done, t.lost = nil, true, true
	}
	if t.lost {
		if err := t.recordLoss(); err != nil {
			return err
		}
	}
	if t.pos == pos && !rebooted {
		return nil // a new store counts as rebooted and gets its mark below: without one its first commit would pass for an earlier boot's
	}
	return t.setPosition()
}

// lastStarts returns, for each job, the offset of the last entry from at on in
// which the job is running.
func (j *journal) lastStarts(at int64) (map[kernel.JobID]int64, error) {
	out := map[kernel.JobID]int64{}
	for {
		e, next, err := j.read(at)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for _, g := range e.groups {
			if job, _, err := decodeRecord(g.job, g.record); err == nil && job.State.Status == kernel.Running {
				out[g.job] = at
			}
		}
		at = next
	}
}

// withoutLaterFiles is g without the operations that move or replace files of an
// attempt. The job has started again since, so the files may be those of the later
// attempt, which wrote them durably.
func (s *Store) withoutLaterFiles(g group) (_ group, err error) {
	g.ops = slices.DeleteFunc(slices.Clone(g.ops), func(op fileOp) bool {
		switch {
		case g.record == nil, op.kind == opCreateJob, strings.HasPrefix(op.path, markersDir+"/"):
			return false
		case op.path == jobPath(g.job, outcomeName):
			torn, failed := s.torn(op)
			err = errors.Join(err, failed)
			return !torn
		default:
			return len(op.data) == 0
		}
	})
	return g, err
}

// subject is the first job that e is about. Problems with groups of no job are
// reported as this job's.
func (e entry) subject() kernel.JobID {
	for _, g := range e.groups {
		if g.job != "" {
			return g.job
		}
	}
	return ""
}

// replayGroup applies g unless the record on disk has its revision already. A
// power failure may have kept the record and lost other files of g. So it still
// writes g's markers, which only the journal changes, and files that are torn. It
// leaves whole files alone: they may be later ones.
func (s *Store) replayGroup(g group) error {
	packed, err := s.completePack(g.job)
	lost := g.does(opCreateJob) && errors.Is(err, errPack) // the directory's name did not survive, and that of a pack that never counted did
	if err != nil && !lost && (g.record == nil || !s.neverCounted(g.job, err)) {
		return err
	}
	j, _, err := s.readRecord(g.job)
	switch system, _ := errors.AsType[syscall.Errno](err); system {
	case 0, syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EISDIR:
	case syscall.EIO:
		return fmt.Errorf("%w: %w", errUnread, err)
	default:
		return err // there is a record, which may be newer than g
	}
	if err != nil || g.record == nil || j.Rev < g.rev {
		return s.applyGroup(g)
	}
	for _, op := range g.ops {
		redo := strings.HasPrefix(op.path, markersDir+"/")
		if op.kind == opWrite && !packed && !redo {
			if redo, err = s.torn(op); err != nil {
				return err
			}
		}
		if op.kind == opWrite && op.to != "" && !redo && !packed { // an outcome, which nobody else has recorded
			redo = j.State.Removed.IsZero()
			if j.Rev > g.rev { // by now it may be that of an earlier attempt: then it stays under its own name
				op.path, op.to = jobPath(g.job, op.to), ""
			}
		}
		if !redo {
			continue
		}
		if err := s.applyOp(g.job, op); err != nil {
			return err
		}
	}
	word := j.State.Status.Coarse()
	if packed || s.stateFileSays(g.job, word) {
		return nil
	}
	return s.base.write(jobPath(g.job, stateName), []byte(word+"\n"), false)
}

// torn reports that the file op writes exists and is not valid JSON, though op's
// data is.
func (s *Store) torn(op fileOp) (bool, error) {
	b, err := s.base.read(op.path, maxRecord)
	if err != nil {
		return false, ifUnread(err)
	}
	return json.Valid(op.data) && !json.Valid(b), nil
}

// stateFileSays reports that the state file of id holds word.
func (s *Store) stateFileSays(id kernel.JobID, word string) bool {
	have, err := s.readJobFile(id, stateName, 64)
	return err == nil && string(have) == word+"\n"
}

func (s *Store) applyGroup(g group) error {
	if g.record == nil {
		return s.applyOps(g)
	}
	if !g.does(opCreateJob) {
		if err := s.unpack(g.job); err != nil {
			return err
		}
	}
	d, err := s.base.make(jobPath(g.job, ""))
	if err != nil {
		return err
	}
	defer d.close()
	if err := s.applyOps(g); err != nil {
		return err
	}
	err = d.write(recordName, g.record, false)
	if err == nil && g.state != "" {
		err = d.write(stateName, []byte(g.state+"\n"), false)
	}
	return below(jobPath(g.job, ""), err)
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
		// An event for hooks must be durable before its record is: once the record
		// is there, a missing file means that the hooks were told.
		err = parent.writeAs(path.Base(op.path), op.to, op.data, s.opts.Durable && path.Dir(op.path) == pendingDir)
		return below(path.Dir(op.path), err)
	case opRemove:
		return s.base.remove(op.path)
	case opRename:
		return s.base.renameWithin(op.path, op.to)
	case opRemoveJob:
		return errors.Join(s.base.remove(packFile(id)), s.removeTree(string(id)))
	case opRemoveTree:
		return s.removeTree(strings.TrimPrefix(op.path, jobsDir+"/"))
	case opStripJob:
		return s.stripJob(id)
	case opCreateJob:
		return nil
	case opPack:
		_, err := s.completePack(id)
		return err
	default:
		return fmt.Errorf("unknown file operation %d", op.kind)
	}
}

// removeTree removes a file or directory below the jobs directory, with
// everything in it.
func (s *Store) removeTree(name string) error { return s.base.disk.removeAll(s.abs(jobsDir), name) }

// stripJob removes everything in a job's directory but the files that say that
// there was a job.
func (s *Store) stripJob(id kernel.JobID) error {
	names, err := s.base.names(jobPath(id, ""))
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != recordName && name != stateName && name != lockName {
			err = errors.Join(err, s.removeTree(string(id)+"/"+name))
		}
	}
	return err
}

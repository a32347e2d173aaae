package fs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A change that was committed and cannot be written, because something stands
// in the way of one job's files, must not keep every other job from going on.
// It is held: kept in a file of its own, tried again by whoever takes the lock
// next, and until then its job counts as unreadable, with the reason.
type quarantinedGroup struct {
	job   kernel.JobID // whom it concerns
	why   string
	group group
}

const quarantineFile = journalDir + "/held"

// local reports that an error is about the place that was written to. Others,
// a full disk say, are about the whole store.
func concernsOneFile(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOTDIR, syscall.ELOOP, syscall.EISDIR, syscall.ENOTEMPTY, syscall.EEXIST,
		syscall.EACCES, syscall.EPERM, syscall.EBUSY}, func(e error) bool { return errors.Is(err, e) })
}

// readHeld learns what is held, for a caller that holds the lock.
func (s *Store) readQuarantine() error {
	s.quarantine = nil
	b, err := s.base.read(quarantineFile, 1<<30)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err == nil && (len(b) < 4 || checksum(b[4:]) != binary.LittleEndian.Uint32(b)) {
		err = errShort
	}
	if err == nil {
		r := &reader{b: b[4:]}
		for n := r.count(); n > 0 && r.err == nil; n-- {
			s.quarantine = append(s.quarantine, quarantinedGroup{kernel.JobID(r.bytes()), string(r.bytes()), r.group()})
		}
		err = r.err
	}
	if err != nil {
		return fmt.Errorf("%s, changes that could not be written yet: %w", path.Join(vizierDir, quarantineFile), err)
	}
	return nil
}

// writeHeld remembers what is held. What is held no longer was written without
// a sync, and no journal has it.
func (s *Store) writeQuarantine() error {
	if s.log.sync {
		if err := s.base.disk.syncAll(s.base.fd); err != nil {
			return fmt.Errorf("held changes: %w", err)
		}
	}
	if len(s.quarantine) == 0 {
		return s.base.remove(quarantineFile)
	}
	b := binary.AppendUvarint(make([]byte, 4), uint64(len(s.quarantine)))
	for _, h := range s.quarantine {
		b = h.group.append(putBytes(putBytes(b, []byte(h.job)), []byte(h.why)))
	}
	binary.LittleEndian.PutUint32(b, checksum(b[4:]))
	return s.base.write(quarantineFile, b, s.log.sync)
}

// tryHeld writes what was held and can be written now. What is held of one job
// stays in order.
func (s *Store) retryQuarantine() error {
	if err := s.readQuarantine(); err != nil || len(s.quarantine) == 0 {
		return err
	}
	was := s.quarantine
	s.quarantine = nil
	for _, h := range was {
		if err := s.replayOrQuarantine(h.group, h.job); err != nil {
			s.quarantine = was
			return err
		}
	}
	if len(s.quarantine) == len(was) {
		return nil
	}
	s.dropCache() // the records are news to it
	return s.writeQuarantine()
}

// replayOrHold replays a group, or holds it where it cannot be written and
// where something of its job is held already.
func (s *Store) replayOrQuarantine(g group, about kernel.JobID) error {
	if g.job != "" {
		about = g.job
	}
	why := s.quarantineReason(about)
	if why == "" {
		err := s.replayGroup(g)
		if err == nil || !concernsOneFile(err) {
			return err
		}
		at := s.RecordFile(about)
		if g.job == "" && len(g.ops) > 0 {
			at = s.abs(g.ops[0].path)
		}
		why = fmt.Sprintf("%s: a change that was committed cannot be written: %v; clear the way and the next command writes it", at, err)
	}
	h := quarantinedGroup{about, why, g}
	if !slices.ContainsFunc(s.quarantine, h.same) {
		s.quarantine = append(s.quarantine, h)
	}
	return nil
}

// same reports that the journal was gone through again and came by h again.
func (h quarantinedGroup) same(o quarantinedGroup) bool {
	return h.group.job == o.group.job && h.group.rev == o.group.rev && bytes.Equal(h.group.record, o.group.record) && len(h.group.ops) == len(o.group.ops)
}

// heldOf is why changes of a job are held; "" if none are.
func (s *Store) quarantineReason(id kernel.JobID) string {
	for _, h := range s.quarantine {
		if h.job == id {
			return h.why
		}
	}
	return ""
}

// hideHeld takes the jobs whose changes are held out of what is read.
func (s *Store) hideQuarantined(rec *kernel.Records) {
	for _, h := range s.quarantine {
		if h.job != "" {
			rec.Unreadable[h.job] = h.why
		}
	}
	rec.Jobs = slices.DeleteFunc(rec.Jobs, func(j kernel.Job) bool { return len(s.quarantine) > 0 && s.quarantineReason(j.ID) != "" })
}

package fs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	iofs "io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// quarantinedGroup is a committed change that cannot be written because something
// blocks one job's files: a directory where a file should be, say. It must not
// stop every other job. So it is kept in a file of its own, and the next process
// that takes the lock tries it again. Until then its job counts as unreadable,
// with the reason.
type quarantinedGroup struct {
	job   kernel.JobID // "": a file of no job
	why   string
	group group
}

const quarantineFile = journalDir + "/held"

// castagnoli is the CRC-32C of b.
func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// errUnread says that a job's record is there and cannot be read. What was committed is not written over it.
var errUnread = errors.New("the record cannot be read")

// concernsOneFile reports that an error is about the path that was written to.
// Others, such as a full disk, are about the whole store.
func concernsOneFile(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOTDIR, syscall.ELOOP, syscall.EISDIR, syscall.ENOTEMPTY, syscall.EEXIST,
		syscall.EACCES, syscall.EPERM, syscall.EBUSY, errPack, errUnread}, func(e error) bool { return errors.Is(err, e) })
}

// unread reports that err is of a read that may succeed the next time, as on a disk that fails: what it is about may
// be there, and whole.
func unread(err error) bool {
	_, system := errors.AsType[syscall.Errno](err)
	return system && ignoreMissing(err) != nil && !concernsOneFile(err)
}

// errHeld says that the quarantine cannot be read. Nothing is written then: a change that is in it comes first.
var errHeld = errors.New("changes that could not be written yet")

// readQuarantine reads the quarantine file. The caller holds the lock.
func (s *Store) readQuarantine() (err error) {
	s.quarantine, err = s.quarantined()
	return err
}

// lookAtQuarantine is readQuarantine for a caller that only looks. It passes over a quarantine that cannot be read: Foreign says so.
func (s *Store) lookAtQuarantine() error {
	if err := s.readQuarantine(); !errors.Is(err, errHeld) {
		return err
	}
	return nil
}

// Held returns an error if there are changes that could not be written yet, and these cannot be read: records may be older than
// what was decided, and nothing is written.
func (s *Store) Held() error {
	if err := s.open(false); err != nil {
		return ignoreMissing(err)
	}
	_, err := s.quarantined()
	return err
}

func (s *Store) quarantined() (all []quarantinedGroup, err error) {
	b, err := s.base.read(quarantineFile, 1<<30)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (len(b) < 4 || castagnoli(b[4:]) != binary.LittleEndian.Uint32(b)) {
		err = errShort
	}
	if err == nil {
		r := &reader{b: b[4:]}
		for n := r.count(); n > 0 && r.err == nil; n-- {
			all = append(all, quarantinedGroup{kernel.JobID(r.bytes()), string(r.bytes()), r.group()})
		}
		err = r.err
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %w: %w: put it back as it was or, if you cannot, move it away: those changes are then lost", path.Join(vizierDir, quarantineFile), errHeld, err)
	}
	return all, nil
}

// writeQuarantine writes the quarantine file, or removes it when it would be
// empty. It syncs the store first: a group that left the quarantine was written
// without a sync, and the journal does not have it any more.
func (s *Store) writeQuarantine() error {
	if s.log.sync {
		if err := s.base.syncAll(); err != nil {
			return fmt.Errorf("quarantined changes: %w", err)
		}
	}
	if len(s.quarantine) == 0 {
		return s.base.remove(quarantineFile)
	}
	b := binary.AppendUvarint(make([]byte, 4), uint64(len(s.quarantine)))
	for _, h := range s.quarantine {
		b = h.group.append(putBytes(putBytes(b, []byte(h.job)), []byte(h.why)))
	}
	binary.LittleEndian.PutUint32(b, castagnoli(b[4:]))
	return s.base.write(quarantineFile, b, s.log.sync)
}

// retryQuarantine writes what can be written by now. The groups of one job stay
// in order.
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
	s.dropCache() // it does not know these records
	return s.writeQuarantine()
}

// replayOrQuarantine replays a group. It quarantines the group if it cannot be
// written, or if an earlier one of the same job is in quarantine.
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
		if p, ok := errors.AsType[*iofs.PathError](err); ok {
			if at = p.Path; !path.IsAbs(at) {
				at = s.abs(at)
			}
		} else if errors.Is(err, errPack) {
			at = s.PackFile(about)
		}
		why = fmt.Sprintf("%s: a change that was committed cannot be written: %v; clear the way and the next command writes it", at, err)
	}
	h := quarantinedGroup{about, why, g}
	if !slices.ContainsFunc(s.quarantine, h.same) {
		s.quarantine = append(s.quarantine, h)
	}
	return nil
}

// same reports that h and o are one group, replayed from the journal twice.
func (h quarantinedGroup) same(o quarantinedGroup) bool {
	return h.group.job == o.group.job && h.group.rev == o.group.rev && bytes.Equal(h.group.record, o.group.record) && len(h.group.ops) == len(o.group.ops)
}

// quarantineReason is why changes of a job are in quarantine; "": none are.
func (s *Store) quarantineReason(id kernel.JobID) string {
	for _, h := range s.quarantine {
		if h.job == id {
			return h.why
		}
	}
	return ""
}

// hideQuarantined moves the jobs whose changes are in quarantine from rec.Jobs to
// rec.Unreadable.
func (s *Store) hideQuarantined(rec *kernel.Records) {
	for _, h := range s.quarantine {
		if h.job != "" {
			rec.Unreadable[h.job] = h.why
		}
	}
	if len(s.quarantine) > 0 { // a look at each job copies it
		rec.Jobs = slices.DeleteFunc(rec.Jobs, func(j kernel.Job) bool { return s.quarantineReason(j.ID) != "" })
	}
}

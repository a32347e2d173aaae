package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	iofs "io/fs"
	"os"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// EventReader reads the event log line by line, each line once, over every
// file that it was moved to.
type EventReader struct {
	store *Store
	have  uint64   // the last event that was passed on, or is not wanted; once the log was looked at, it has that number
	file  *os.File // the log when it was last opened; it may have been moved since
	rest  []byte   // the beginning of a line whose end is not written yet

	newest bool               // of the events of before, only the last is wanted
	looked bool               // the log was looked at
	ended  bool               // what the log had then was read: what follows in other files is new, whatever its number
	fresh  bool               // no number was read in the file that is being read
	passed map[fileStamp]bool // the files that the log was moved to and that were read, or are not wanted
}

// Events returns a reader of the events after number seq. If the log ends before that number, it began anew, since
// somebody deleted it: then those are wanted that are still to come. The caller closes it.
func (s *Store) Events(seq uint64) *EventReader { return &EventReader{store: s, have: seq} }

// NewestEvents is Events for who wants the last event of those that are there, and those that are still to come.
func (s *Store) NewestEvents() *EventReader { return &EventReader{store: s, newest: true} }

// Close closes the file that is open.
func (r *EventReader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// Read calls f with every line that was written since the last call, without
// its newline. It leaves out lines that a crash cut off, and events up to the
// number asked for. It passes on lines without a number as they are. If the log was
// deleted, and the numbers begin again, so does it. If the store is not in its place any
// more, the error is that of Store.InPlace.
func (r *EventReader) Read(f func(line []byte) error) error {
	if err := r.store.open(false); err != nil {
		if err = ignoreMissing(err); err == nil {
			r.newest = false // all are still to come
		}
		return err
	}
	if err := r.store.InPlace(); err != nil {
		return err
	}
	for {
		if r.file == nil {
			if err := r.next(f); err != nil || r.file == nil {
				return err
			}
		}
		moved, err := r.moved() // asked before the rest is read: if it was moved, no more is written to it
		if err != nil {
			return err
		}
		if err := r.drain(r.file, f); err != nil || !moved {
			return err
		}
		st, err := sys.Look(int(r.file.Fd()), "")
		r.rest, r.ended, r.passed[fileStamp{st.Modified, st.Size, st.Inode}] = nil, true, true
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
}

// next reads the files that the log was moved to since, oldest first, and opens
// the log.
func (r *EventReader) next(f func([]byte) error) error {
	for {
		file, err := r.store.base.file(eventsFile, os.O_RDONLY)
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
		missed := false
		rotated, err := r.store.rotatedEvents()
		if err == nil {
			err = r.look(file, rotated)
		}
		if err != nil {
			return errors.Join(err, closed(file))
		}
		passed := map[fileStamp]bool{}
		for _, old := range rotated {
			st, err := r.store.base.stampOf(old.name)
			if ignoreMissing(err) != nil {
				return errors.Join(err, closed(file))
			}
			if st == (fileStamp{}) { // it was removed as the oldest
				continue
			}
			if passed[st] = true; r.passed[st] || !r.ended && old.last <= r.have {
				continue
			}
			missed = true
			if err := r.readOld(old.name, f); err != nil {
				return errors.Join(err, closed(file))
			}
			r.have, r.ended = max(r.have, old.last), true
		}
		r.passed = passed
		if !missed || file == nil {
			r.file, r.fresh, r.ended = file, true, r.ended || file == nil
			return nil
		}
		if err := closed(file); err != nil { // the log may have been moved while the others were read
			return err
		}
	}
}

// look makes sure that the log, when it is looked at first, has the number after which events are wanted.
func (r *EventReader) look(file *os.File, rotated []rotatedEvents) error {
	if r.looked {
		return nil
	}
	last := uint64(0)
	if file != nil {
		var err error
		if last, _, _, err = lastEvent(r.store.disk, file); err != nil {
			return err
		}
	}
	for _, old := range rotated {
		last = max(last, old.last)
	}
	if r.newest {
		r.have = max(last, 1) - 1
	}
	r.have, r.looked = min(r.have, last), true
	return nil
}

func closed(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

func (r *EventReader) readOld(name string, f func([]byte) error) error {
	file, err := r.store.base.file(name, os.O_RDONLY)
	if err != nil {
		return ignoreMissing(err) // it was removed as the oldest
	}
	defer file.Close()
	r.rest, r.fresh = nil, true
	return r.drain(file, f)
}

// moved reports that the file that is open is not the log any more, or was emptied.
func (r *EventReader) moved() (bool, error) {
	here, err := r.file.Stat()
	if err != nil {
		return false, err
	}
	if at, err := r.file.Seek(0, io.SeekCurrent); err != nil || here.Size() < at {
		return err == nil, err
	}
	there, err := r.store.base.file(eventsFile, os.O_RDONLY) // by the store's directory, as next opens it: at the path there may be another store
	if errors.Is(err, iofs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	now, err := there.Stat()
	return err == nil && !os.SameFile(here, now), errors.Join(err, there.Close())
}

// drain passes on the rest of file.
func (r *EventReader) drain(file *os.File, f func([]byte) error) error {
	b, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	b = append(r.rest, b...)
	for {
		line, more, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			r.rest = bytes.Clone(b)
			return nil
		}
		b = more
		n := eventSeq(line)
		if n > 0 && r.fresh {
			if r.fresh = false; r.ended && n <= r.have { // the log began anew
				r.have = n - 1
			}
		}
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' || n > 0 && n <= r.have || n == 0 && !json.Valid(line) {
			continue
		}
		r.have = max(r.have, n)
		if err := f(line); err != nil {
			return err
		}
	}
}

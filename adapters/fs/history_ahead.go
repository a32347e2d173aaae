package fs

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// readEntry is an entry with all that can be read without the entries before it.
type readEntry struct {
	pastEntry
	sum     digest
	record  accountRecord
	account history.Account
	jobs    []readRecord // of each group

	unread   error // why there is no record
	unknown  error // why there is no account
	damaged  error // a *SegmentError: the readEntry stands for the entries that cannot be read, and has no other field
	numbered bool  // it is an entry of the history: no opening, and not of a version without a history
}

// readRecord is a record that was read.
type readRecord struct {
	job   *kernel.Job // nil: there is no record, or it cannot be read
	extra *foreign
	err   error

	// plain says that the record has no foreign fields, and has exactly the bytes that
	// this version writes for job at the entry's time.
	plain bool
}

func (e *readEntry) read() {
	if e.damaged != nil {
		return
	}
	e.sum = e.digest()
	e.numbered = e.number > 0 && (e.head == nil || !e.head.Opening)
	if e.numbered {
		if err := fromJSON(e.pastEntry.account, &e.record); err != nil {
			e.unread = fmt.Errorf("entry %d: %w", e.number, jsonError(err))
		} else if e.account, err = e.record.account(); err != nil {
			e.unknown = fmt.Errorf("entry %d, of version %s: %w", e.number, e.record.Program, err)
		}
	}
	e.jobs = make([]readRecord, len(e.groups))
	for i, g := range e.groups {
		if g.record == nil {
			continue
		}
		r := &e.jobs[i]
		*r = readRecordOf(g.job, g.record)
		if e.numbered && r.job != nil && r.extra == nil {
			again, err := encodeRecord(r.job, nil, time.Time(e.record.Written))
			r.plain = err == nil && bytes.Equal(again, g.record)
		}
	}
}

func readRecordOf(id kernel.JobID, b []byte) readRecord {
	j, extra, err := decodeRecord(id, b)
	if err != nil {
		return readRecord{extra: extra, err: err}
	}
	return readRecord{job: &j, extra: extra}
}

// of reports that j would be written as this record. It may be false although that is so.
func (r readRecord) of(j *kernel.Job) bool { return r.plain && reflect.DeepEqual(r.job, j) }

// batchSize is how many entries a goroutine reads at a time.
const batchSize = 64

// batch holds entries that a goroutine reads. It closes done when they are read.
type batch struct {
	entries []readEntry
	done    chan struct{}
}

func (b batch) read() {
	defer close(b.done)
	for i := range b.entries {
		b.entries[i].read()
	}
}

// eachRead is each, but other goroutines read the entries ahead. It goes on after a
// damaged file.
func (p chronicle) eachRead(ctx context.Context, f func(*readEntry) error) error {
	ctx, stop := context.WithCancel(ctx)
	batches := make(chan batch, runtime.GOMAXPROCS(0))
	var err error // of what follows the last batch
	go func() {
		defer close(batches)
		var entries []readEntry
		send := func() {
			b := batch{entries, make(chan struct{})}
			entries = make([]readEntry, 0, batchSize)
			go b.read()
			select {
			case batches <- b:
			case <-ctx.Done():
			}
		}
		add := func(e readEntry) error {
			if entries = append(entries, e); len(entries) == batchSize {
				send()
			}
			return ctx.Err()
		}
		err = p.eachBut(func(e *pastEntry) error { return add(readEntry{pastEntry: *e}) },
			func(bad *SegmentError) error {
				return add(readEntry{pastEntry: pastEntry{file: bad.File}, damaged: bad})
			})
		send()
	}()
	defer func() {
		stop()
		for b := range batches { // no goroutine reads the store after this
			<-b.done
		}
	}()
	for b := range batches {
		<-b.done
		for i := range b.entries {
			if err := f(&b.entries[i]); err != nil {
				return err
			}
		}
	}
	return err
}

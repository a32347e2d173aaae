package fs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The event log is the file events.jsonl, one event a line, and the files that
// it was moved to when it was full, each named after the number of its last
// event. No decision reads it. A write that is cut off loses its line, and no
// line is ever synced.

// eventRecord is one line.
type eventRecord struct {
	Seq        uint64           `json:"seq"`
	At         stamp            `json:"at"`
	Event      kernel.EventKind `json:"event"`
	Job        kernel.JobID     `json:"job,omitempty"`
	Run        kernel.RunID     `json:"run,omitempty"`
	Node       string           `json:"node,omitempty"`
	Name       string           `json:"name,omitempty"`
	Attempt    int              `json:"attempt,omitempty"`
	Generation int              `json:"generation,omitempty"`
	ExitCode   *int             `json:"exit_code,omitempty"`
	Class      string           `json:"failure_class,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	By         string           `json:"by,omitempty"`
	RetryAt    *stamp           `json:"retry_at,omitempty"`
	Agent      *agentRecord     `json:"agent,omitempty"`
	Number     kernel.Number    `json:"number,omitempty"`
	Ref        string           `json:"ref,omitempty"`
}

// AppendEvents appends events to the log, in one write.
func (s *Store) AppendEvents(events []kernel.Event) error {
	if err := s.open(true); err != nil {
		return err
	}
	f, err := s.lockEvents()
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	defer f.Close() // and the lock with it
	last, torn, size, err := lastEvent(s.disk, f)
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	if size == 0 {
		old, err := s.rotatedEvents()
		if err != nil {
			return fmt.Errorf("event log: %w", err)
		}
		for _, r := range old {
			last = r.last
		}
	}
	var b []byte
	if torn {
		b = append(b, '\n')
	}
	for _, e := range events {
		last++
		line, err := toLine(newEventRecord(last, e))
		if err != nil {
			return fmt.Errorf("event log: %w", err)
		}
		b = append(append(b, line...), '\n')
	}
	if err := s.base.disk.write(int(f.Fd()), b); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	if s.opts.EventBytes > 0 && size+int64(len(b)) >= s.opts.EventBytes {
		return s.aside(func() error { return s.rotateEvents(last) })
	}
	return nil
}

func newEventRecord(seq uint64, e kernel.Event) eventRecord {
	r := eventRecord{Seq: seq, At: stamp(e.At), Event: e.Kind, Job: e.Job, Run: e.Run, Number: e.Number, Ref: e.Ref(), Node: e.Node, Name: e.Name, Attempt: e.Attempt,
		Generation: e.Generation, Class: e.Class.String(), Reason: e.Reason, By: e.By, RetryAt: optionalStamp(e.RetryAt)}
	if e.Exit.Known {
		r.ExitCode = &e.Exit.Code
	}
	if a := e.Agent; a != (kernel.EventAgent{}) {
		r.Agent = newAgentRun(&kernel.AgentRun{Agent: a.Agent, Model: a.Model, Session: a.Session, Turns: a.Turns, Usage: a.Usage})
	}
	return r
}

// lockEvents opens the log and takes its lock. Not every writer has the
// scheduler lock.
func (s *Store) lockEvents() (*os.File, error) {
	for {
		f, err := s.base.file(eventsFile, unix.O_RDWR|unix.O_APPEND)
		if errors.Is(err, iofs.ErrNotExist) {
			err = s.aside(func() (err error) {
				f, err = s.base.file(eventsFile, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT)
				return err
			})
		}
		if err != nil {
			return nil, errors.Join(err, closed(f))
		}
		if _, err := retry(func() (int, error) { return 0, unix.Flock(int(f.Fd()), unix.LOCK_EX) }); err != nil {
			f.Close()
			return nil, err
		}
		stays, err := s.isThere(f, eventsFile)
		if stays {
			return f, nil
		}
		if err := errors.Join(err, f.Close()); err != nil { // otherwise it was moved away in between
			return nil, err
		}
	}
}

// eventTail is how many bytes of the log's end are read at first, to find its last number.
const eventTail = 1 << 10

// lastEvent returns the number of the last whole line of a log, and whether an
// incomplete line follows it.
func lastEvent(d disk, f *os.File) (last uint64, torn bool, size int64, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, false, 0, err
	}
	size = info.Size()
	for window := min(size, eventTail); ; window = min(size, 16*window) {
		b := make([]byte, window)
		if _, err := d.readAt(f, b, size-window); err != nil && !errors.Is(err, io.EOF) {
			return 0, false, size, err
		}
		torn = b[len(b)-1] != '\n'
		lines := bytes.Split(b, []byte("\n"))
		for _, line := range slices.Backward(lines[:len(lines)-1]) {
			if n := eventSeq(line); n > 0 {
				return n, torn, size, nil
			}
		}
		if window == size {
			return 0, torn, size, nil
		}
	}
}

// eventSeq returns the number of the event on a line; 0: it has none.
func eventSeq(line []byte) uint64 {
	var e struct {
		Seq uint64 `json:"seq"`
	}
	if fromJSON(line, &e) != nil {
		return 0
	}
	return e.Seq
}

// rotatedEvents is a file that the event log was moved to.
type rotatedEvents struct {
	name string // below .vizier
	last uint64 // number of its last event
}

// rotatedEvents returns the files that the event log was moved to, oldest first.
func (s *Store) rotatedEvents() ([]rotatedEvents, error) {
	names, err := s.base.names(jobsDir)
	var out []rotatedEvents
	for _, name := range names {
		digits := strings.TrimSuffix(strings.TrimPrefix(name, "events."), ".jsonl")
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil && name == "events."+digits+".jsonl" {
			out = append(out, rotatedEvents{jobsDir + "/" + name, n})
		}
	}
	slices.SortFunc(out, func(a, b rotatedEvents) int { return cmp.Compare(a.last, b.last) })
	return out, err
}

// rotateEvents moves the full log away and removes the oldest files that are too
// many.
func (s *Store) rotateEvents(last uint64) error {
	if err := s.base.renameWithin(eventsFile, fmt.Sprintf("%s/events.%020d.jsonl", jobsDir, last)); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	old, err := s.rotatedEvents()
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	for len(old) > 0 && len(old) >= s.opts.EventFiles {
		if err := s.base.remove(old[0].name); err != nil {
			return fmt.Errorf("event log: %w", err)
		}
		old = old[1:]
	}
	return nil
}

package fs

import (
	"errors"
	"fmt"
	"hash/crc32"
	iofs "io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// pendingFile returns the file of an event whose hooks have not run yet. A job.*
// event happens once in an attempt; others may happen more often, and have their
// time in the name. An event about neither a job nor a run is identified by its Name.
func pendingFile(e kernel.Event) string {
	switch {
	case e.Job == "" && e.Run == "":
		return fmt.Sprintf("%s/%08x.%d.%s.json", pendingDir, crc32.ChecksumIEEE([]byte(e.Name)), e.At.UnixMicro(), e.Kind)
	case e.Job == "":
		return fmt.Sprintf("%s/%s.%d.%s.json", pendingDir, e.Run, e.At.UnixMicro(), e.Kind)
	case strings.HasPrefix(string(e.Kind), "job."):
		return fmt.Sprintf("%s/%s.%d.%d.%s.json", pendingDir, e.Job, e.Generation, e.Attempt, e.Kind)
	}
	return fmt.Sprintf("%s/%s.%d.%d.%d.%s.json", pendingDir, e.Job, e.Generation, e.Attempt, e.At.UnixMicro(), e.Kind)
}

// Announce queues an event for hooks that is about neither a job nor a run, and so is
// no part of a commit.
func (s *Store) Announce(e kernel.Event) error {
	if err := s.open(true); err != nil {
		return err
	}
	line, err := toLine(newEventRecord(0, e))
	if err != nil {
		return fmt.Errorf("pending hooks: %w", err)
	}
	return s.aside(func() error {
		parent, err := s.base.make(pendingDir)
		if err != nil {
			return err
		}
		defer parent.close()
		return below(pendingDir, parent.write(path.Base(pendingFile(e)), append(line, '\n'), s.opts.Durable))
	})
}

// Pending returns the events whose hooks have not run yet, sorted by file name. It
// removes files that are no events: nothing could ever acknowledge them. An event that
// cannot be read at the moment stays.
func (s *Store) Pending() ([]kernel.Event, error) {
	if err := s.open(false); err != nil {
		return nil, ignoreMissing(err)
	}
	names, err := s.base.names(pendingDir)
	if err != nil {
		return nil, fmt.Errorf("pending hooks: %w", err)
	}
	slices.Sort(names)
	var out []kernel.Event
	for _, name := range names {
		if !isPending(name) {
			continue
		}
		b, err := s.base.read(pendingDir+"/"+name, maxRecord)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if _, system := errors.AsType[syscall.Errno](err); system && !concernsOneFile(err) { // the file may be an event all the same
			return nil, fmt.Errorf("pending hooks: %w", err)
		}
		e, ok := decodeEvent(b)
		if err != nil || !ok || pendingFile(e) != pendingDir+"/"+name {
			if err := s.base.remove(pendingDir + "/" + name); err != nil {
				return nil, fmt.Errorf("pending hooks: %w", err)
			}
			continue
		}
		out = append(out, e)
	}
	return out, nil
}

// HooksPending reports that Pending may return something. It reads no event.
func (s *Store) HooksPending() bool {
	if s.open(false) != nil {
		return false
	}
	names, err := s.base.names(pendingDir)
	return err != nil || slices.ContainsFunc(names, isPending)
}

// isPending reports whether a name in the queue is that of an event. A hidden file is an
// editor's, or one that is being written.
func isPending(name string) bool {
	return strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".")
}

// Ack removes an event from the queue: its hooks have run.
func (s *Store) Ack(e kernel.Event) error { return s.base.remove(pendingFile(e)) }

// about reports that r names the job or run that it is about, or something else that
// needs a person.
func (r *eventRecord) about() bool {
	if r.Job == "" && r.Run == "" {
		return r.Event == kernel.NeedsAttention && r.Name != ""
	}
	if r.Job == "" {
		run, is := strings.CutPrefix(string(r.Run), "run_")
		return is && kernel.ValidJobID(run)
	}
	return kernel.ValidJobID(string(r.Job))
}

// decodeEvent reads an event that newEventRecord wrote.
func decodeEvent(b []byte) (kernel.Event, bool) {
	var r eventRecord
	if fromJSON(b, &r) != nil || !r.about() {
		return kernel.Event{}, false
	}
	var d decoder
	_, part, _ := strings.Cut(r.Ref, "/")
	e := kernel.Event{At: time.Time(r.At), Kind: r.Event, Job: r.Job, Run: r.Run, Number: r.Number, Part: part, Node: r.Node, Name: r.Name, Attempt: r.Attempt,
		Generation: r.Generation, By: r.By, Class: parsed(&d, "failure_class", r.Class, kernel.ParseFailureClass), Reason: r.Reason, RetryAt: stampValue(r.RetryAt)}
	if r.ExitCode != nil {
		e.Exit = kernel.Exited(*r.ExitCode)
	}
	if a := r.Agent; a != nil {
		e.Agent = kernel.EventAgent{Agent: a.Agent, Model: a.Model, Session: a.Session, Turns: a.Turns, Usage: a.Usage.usage()}
	}
	return e, d.err == nil
}

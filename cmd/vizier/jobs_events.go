package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type eventsCmd struct {
	Jobs   []string `arg:"" optional:"" name:"job" help:"Only events of these jobs and runs: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	Follow bool     `help:"Continue with new events until interrupted."`
	Job    string   `placeholder:"JOB" help:"Only events of this job: its number, such as 12 or 14/NODE, its name, its id or the beginning of it, or @last."`
	OfRun  string   `name:"run" placeholder:"RUN" help:"Only events of this run and its jobs: its number, or its id or the beginning of it."`
	Since  string   `type:"event" placeholder:"SEQ|TIME" help:"Only events after this number, or since then: 90m, 2h or 3d ago, a day such as 2026-11-22, or a time."`
	Format string   `enum:"text,json" default:"text" placeholder:"text|json" help:"json prints one object per line."`
}

func (*eventsCmd) Help() string {
	return "Events are for information only: the truth is in each job's record. With --follow, exits 130 when interrupted."
}

// eventLog reads the event log from some position on.
type eventLog interface {
	Read(f func(line []byte) error) error
	Look()
	Changed() <-chan struct{}
	Close() error
}

// followedLog is a store's event log and the watch on its file.
type followedLog struct {
	*fs.EventReader
	*watch.File
}

// Close closes both.
func (l *followedLog) Close() error { return errors.Join(l.EventReader.Close(), l.File.Close()) }

// eventLine holds the known fields of a line of the event log. Other programs
// may add fields.
type eventLine struct {
	Seq      uint64    `json:"seq"`
	At       time.Time `json:"at"`
	Event    string    `json:"event"`
	Job      string    `json:"job"`
	Run      string    `json:"run"`
	Ref      string    `json:"ref"` // earlier versions did not write it
	Node     string    `json:"node"`
	Name     string    `json:"name"`
	Attempt  int       `json:"attempt"`
	ExitCode *int      `json:"exit_code"`
	Class    string    `json:"failure_class"`
	Reason   string    `json:"reason"`
	By       string    `json:"by"`
	RetryAt  time.Time `json:"retry_at"`
}

// eventPause is how long the event log may go unread if the system does not
// report writes.
const eventPause = time.Second

// Run prints the events.
func (e *eventsCmd) Run(c *call) error {
	seq, from, err := e.since(c)
	if err != nil {
		return usageError(err)
	}
	r, err := c.repoOf(append(slices.Clone(e.Jobs), e.Job, e.OfRun))
	if err != nil {
		return err
	}
	about, missing, err := e.about(c, r)
	if err != nil {
		return err
	}
	log := r.Events(seq)
	defer log.Close()
	if e.Follow {
		c.leavesWithReader()
	}
	if seq > 0 { // the events of what is missing may be before that number
		missing = nil
	}
	for {
		if e.Follow {
			log.Look()
		}
		var lines []eventLine
		var documents [][]byte
		err := log.Read(func(line []byte) error {
			var l eventLine
			_ = json.Unmarshal(line, &l) // fields that cannot be decoded are left out
			missing = slices.DeleteFunc(missing, func(m absent) bool { return m.events(&l) })
			if l.At.Before(from) || slices.ContainsFunc(about, func(s selector) bool { return !s(&l) }) {
				return nil
			}
			lines = append(lines, l)
			if e.Format == "json" {
				documents = append(documents, slices.Clone(line))
			}
			return nil
		})
		c.ui.refs.findAll(lines)
		for i, l := range lines {
			if e.Format == "json" {
				c.ui.document(l.document(documents[i], &c.ui.refs) + "\n")
			} else {
				c.ui.verbatim(l.text(c.ui) + "\n")
			}
		}
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		switch {
		case len(missing) > 0 && (missing[0].over || !e.Follow):
			return missing[0].err
		case c.ui.broken(): // the program says why
			return nil
		case e.Follow:
		default:
			return nil
		}
		again := time.NewTimer(eventPause)
		select {
		case <-c.ctx.Done():
			return exits(130) // an interrupt is the normal way to end it, so print nothing
		case <-log.Changed():
		case <-again.C:
		}
		again.Stop()
	}
}

// since returns the event number after which, or the time from which, events
// are wanted.
func (e *eventsCmd) since(c *call) (seq uint64, from time.Time, err error) {
	if seq, err := strconv.ParseUint(e.Since, 10, 64); err == nil {
		return seq, from, nil
	}
	if from, err = c.since(e.Since, time.Now()); err != nil {
		err = fmt.Errorf("--since %q: expected %s", e.Since, expected("event"))
	}
	return 0, from, err
}

// selector reports whether an event is wanted.
type selector func(*eventLine) bool

// absent is a job or a run that the command line names and for which no event has been read yet.
// If the log has none, the command fails with err.
type absent struct {
	err    error
	events selector
	over   bool // it is not on record, so no event of it can follow
}

// unlogged returns the absent job or run that events selects the events of. unknown is the error
// if it is not on record; nil: it is on record.
func unlogged(what string, events selector, unknown error) absent {
	if unknown != nil {
		return absent{unknown, events, true}
	}
	return absent{kernel.Missing{What: what + " in the event log"}, events, false}
}

// about returns selectors for what the command line names; an event is wanted if all of
// them select it. missing is what needs an event in the log.
func (e *eventsCmd) about(c *call, r *repo) (all []selector, missing []absent, err error) {
	var named []selector
	for _, ref := range e.Jobs {
		s, unknown, err := onRecord(ref, func() (selector, error) {
			_, targets, err := c.targets([]string{ref})
			if err != nil {
				return nil, err
			}
			ids := map[string]bool{}
			if run := targets[0].Run(); targets[0].Whole && run != "" {
				ids[string(run)] = true
			}
			for _, j := range targets[0].Jobs {
				ids[string(j.ID)] = true
			}
			return func(l *eventLine) bool { return ids[l.Job] || ids[l.Run] }, nil
		})
		if err != nil {
			return nil, nil, err
		}
		if unknown != nil {
			missing = append(missing, unlogged("", s, unknown))
		}
		named = append(named, s)
	}
	if named != nil {
		all = append(all, func(l *eventLine) bool {
			return slices.ContainsFunc(named, func(s selector) bool { return s(l) })
		})
	}
	if e.Job != "" {
		s, unknown, err := onRecord(e.Job, func() (selector, error) { return jobEvents(c, r, e.Job) })
		if err != nil {
			return nil, nil, err
		}
		if all = append(all, s); !kernel.ValidJobID(e.Job) {
			missing = append(missing, unlogged("job "+e.Job, s, unknown))
		}
	}
	if e.OfRun != "" {
		s, unknown, err := onRecord(e.OfRun, func() (selector, error) { return runEvents(c, r, e.OfRun) })
		if err != nil {
			return nil, nil, err
		}
		all, missing = append(all, s), append(missing, unlogged("run "+e.OfRun, s, unknown)) // every run has an event, unless its log is gone
	}
	return all, missing, nil
}

// onRecord returns the result of find. If ref is a number that nothing on record has, it
// returns a selector of the events of what had that number, and find's error as unknown.
func onRecord(ref string, find func() (selector, error)) (s selector, unknown, err error) {
	s, err = find()
	if _, _, number := kernel.ParseRef(ref); number && errors.Is(err, kernel.ErrNotFound) {
		return func(l *eventLine) bool { return l.Ref == ref || strings.HasPrefix(l.Ref, ref+"/") }, err, nil
	}
	return s, nil, err
}

// jobEvents selects the events of a job. If ref is its id or the beginning of it, the
// job may be gone.
func jobEvents(c *call, r *repo, ref string) (selector, error) {
	id := ref
	if !kernel.ValidJobID(ref) {
		_, found, err := r.job(c.ctx, ref)
		_, _, number := kernel.ParseRef(ref)
		if err == nil {
			id = string(found)
		} else if number || !errors.Is(err, kernel.ErrNotFound) || strings.Trim(ref, "0123456789abcdef") != "" {
			return nil, err
		}
	}
	return func(l *eventLine) bool { return strings.HasPrefix(l.Job, id) }, nil
}

// runEvents selects the events of a run and its jobs: see jobEvents.
func runEvents(c *call, r *repo, ref string) (selector, error) {
	id := ref
	if _, _, number := kernel.ParseRef(ref); number {
		run, err := r.Scheduler.Run(c.ctx, ref)
		if err != nil {
			return nil, err
		}
		id = string(run)
	}
	return func(l *eventLine) bool {
		return strings.HasPrefix(l.Run, id) || strings.HasPrefix(strings.TrimPrefix(l.Run, "run_"), id)
	}, nil
}

// findAll looks up everything that events mention with one read.
func (x *references) findAll(lines []eventLine) {
	var ids []string
	for _, l := range lines {
		about := l.Job + " " + l.Run + " "
		if l.Ref != "" {
			about = ""
		}
		ids = append(ids, view.IDs(about+l.Reason)...)
	}
	x.find(ids)
}

// document returns the line of the event log. If an earlier version wrote it, it
// lacks the reference of its job or run, which document adds.
func (l eventLine) document(line []byte, refs *references) string {
	id := cmp.Or(l.Job, l.Run)
	rest, whole := bytes.CutSuffix(bytes.TrimSpace(line), []byte("}"))
	if id == "" || l.Ref != "" || !whole {
		return string(line)
	}
	ref := refs.of(id)
	if ref.Number == 0 {
		return string(line)
	}
	more, err := json.Marshal(ref)
	if err != nil {
		return string(line)
	}
	return string(rest) + "," + string(more[1:])
}

// text formats an event as one line that fits the terminal.
func (l eventLine) text(u *ui) string {
	about, name := l.Name, cmp.Or(l.Node, l.Name)
	if id := cmp.Or(l.Job, l.Run); id != "" {
		if about = l.Ref; about == "" {
			about = u.refs.short(id)
		}
		if name != "" && !strings.HasSuffix(about, "/"+name) {
			about += " (" + name + ")"
		}
	}
	var detail []string
	if l.Attempt > 0 {
		detail = append(detail, fmt.Sprintf("attempt %d", l.Attempt))
	}
	if l.Class != "" && l.Class != kernel.ExitFailure.String() {
		detail = append(detail, l.Class)
	}
	switch {
	case l.Reason != "":
		detail = append(detail, l.Reason)
	case l.ExitCode != nil && *l.ExitCode != 0:
		detail = append(detail, fmt.Sprintf("exit code %d", *l.ExitCode))
	}
	if l.By != "" {
		detail = append(detail, "by "+l.By)
	}
	if !l.RetryAt.IsZero() {
		detail = append(detail, "again at "+u.moment(l.RetryAt, u.now()))
	}
	line := fmt.Sprintf("%d  %s  %s  %s", l.Seq, u.moment(l.At, u.now()), l.Event, about)
	if len(detail) > 0 {
		line += "  " + strings.Join(detail, ", ")
	}
	_, word, _ := strings.Cut(l.Event, ".")
	word, _, _ = strings.Cut(word, ".")
	return u.paint(word, cut(u.people(visible(strings.NewReplacer("\n", " ", "\t", " ").Replace(line), "")), u.columns()))
}

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
	"unicode"

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
	Since  string   `placeholder:"SEQ|DURATION" help:"Only events after this number, or not older than this, such as 90s or 2h."`
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
	seq, from, err := e.since(time.Now())
	if err != nil {
		return usageError(err)
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	job, err := e.job(c, r)
	if err != nil {
		return err
	}
	run, err := e.run(c, r)
	if err != nil {
		return err
	}
	named, err := e.named(c)
	if err != nil {
		return err
	}
	log := r.Events(seq)
	defer log.Close()
	if e.Follow {
		c.leavesWithReader()
	}
	found := e.Since != "" || e.OfRun == "" && (e.Job == "" || kernel.ValidJobID(job))
	for {
		log.Look()
		var lines []eventLine
		var documents [][]byte
		err := log.Read(func(line []byte) error {
			var l eventLine
			_ = json.Unmarshal(line, &l) // fields that cannot be decoded are left out
			if !strings.HasPrefix(l.Job, job) || !inRun(l.Run, run) || named != nil && !named[l.Job] && !named[l.Run] || l.At.Before(from) {
				return nil
			}
			found = true
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
		case e.Follow:
		case !found && e.OfRun == "":
			return kernel.Missing{What: "job " + e.Job + " in the event log"}
		case !found: // every run has an event, unless its log is gone
			return kernel.Missing{What: "run " + e.OfRun + " in the event log"}
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
func (e *eventsCmd) since(now time.Time) (seq uint64, from time.Time, err error) {
	if e.Since == "" {
		return 0, from, nil
	}
	if seq, err := strconv.ParseUint(e.Since, 10, 64); err == nil {
		return seq, from, nil
	}
	d, err := time.ParseDuration(e.Since)
	if err != nil || d < 0 {
		return 0, from, fmt.Errorf("--since %q: expected the number of an event, or a duration such as 90s or 2h", e.Since)
	}
	return 0, now.Add(-d), nil
}

// named returns the ids of the jobs and runs that the arguments name, or nil
// without arguments.
func (e *eventsCmd) named(c *call) (map[string]bool, error) {
	if len(e.Jobs) == 0 {
		return nil, nil
	}
	_, targets, err := c.targets(e.Jobs)
	named := map[string]bool{}
	for _, t := range targets {
		if run := t.Run(); t.Whole && run != "" {
			named[string(run)] = true
		}
		for _, j := range t.Jobs {
			named[string(j.ID)] = true
		}
	}
	return named, err
}

// job returns the id, or the beginning of the id, of the job whose events are
// wanted. The job may be gone.
func (e *eventsCmd) job(c *call, r *repo) (string, error) {
	if e.Job == "" || kernel.ValidJobID(e.Job) {
		return e.Job, nil
	}
	_, id, err := r.job(c.ctx, e.Job)
	if errors.Is(err, kernel.ErrNotFound) && strings.Trim(e.Job, "0123456789abcdef") == "" {
		return e.Job, nil
	}
	return string(id), err
}

// run returns the id, or the beginning of the id, of the run whose events are
// wanted: see job.
func (e *eventsCmd) run(c *call, r *repo) (string, error) {
	if _, _, number := kernel.ParseRef(e.OfRun); !number {
		return e.OfRun, nil
	}
	run, err := r.Scheduler.Run(c.ctx, e.OfRun)
	return string(run), err
}

func inRun(run, wanted string) bool {
	return strings.HasPrefix(run, wanted) || strings.HasPrefix(strings.TrimPrefix(run, "run_"), wanted)
}

// findAll looks up everything that events mention with one read.
func (x *references) findAll(lines []eventLine) {
	var ids []string
	for _, l := range lines {
		ids = append(ids, view.IDs(l.Job+" "+l.Run+" "+l.Reason)...)
	}
	x.find(ids)
}

// document returns the line of the event log with the references of what it is
// about.
func (l eventLine) document(line []byte, refs *references) string {
	id := cmp.Or(l.Job, l.Run)
	rest, whole := bytes.CutSuffix(bytes.TrimSpace(line), []byte("}"))
	if id == "" || !whole {
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
		if about = u.refs.short(id); name != "" && !strings.HasSuffix(about, "/"+name) {
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
	return u.paint(word, cut(u.people(strings.Map(printable, line)), u.columns()))
}

// printable replaces control characters, so that a job's output cannot move the
// cursor.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

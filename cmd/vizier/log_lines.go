package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/kernel"
)

// linePrinter prints lines of logs as the flags ask for.
type linePrinter struct {
	out    io.Writer
	stream string         // stdout, stderr or both
	grep   *regexp.Regexp // nil: every line
	stamps bool
	zone   *time.Location // of the stamps

	most  int  // how many of the existing lines are printed, counted from the end; 0: all
	none  bool // none of the existing lines is printed
	held  []string
	flows bool // the existing lines were printed
	any   bool // there was a line, printed or not
}

// stampFormat is RFC 3339 with milliseconds.
const stampFormat = "2006-01-02T15:04:05.000Z07:00"

// line prints one line, preceded by the name of its job unless that is "".
func (p *linePrinter) line(of string, l joblog.Line) error {
	stream := [...]string{"stdout", "stderr"}[l.Stream]
	p.any = true
	if p.stream != "both" && p.stream != stream || p.grep != nil && !p.grep.Match(l.Text) {
		return nil
	}
	var b strings.Builder
	of = plainLine(of)
	if p.stamps {
		at := fmt.Sprintf("%-*s", len("2006-01-02T15:04:05.000Z"), "-")
		if !l.At.IsZero() {
			at = l.At.In(p.zone).Format(stampFormat)
		}
		b.WriteString(at + " ")
	}
	switch {
	case of != "" && p.stream == "both":
		b.WriteString("[" + of + "/" + stream + "] ")
	case of != "":
		b.WriteString("[" + of + "] ")
	case p.stream == "both":
		b.WriteString("[" + stream + "] ")
	}
	b.Write(l.Text)
	b.WriteByte('\n')
	switch {
	case p.flows:
	case p.none:
		return nil
	case p.most > 0:
		if p.held = append(p.held, b.String()); len(p.held)-p.most >= p.most { // 2*p.most may be too large a number
			p.held = append(p.held[:0], p.held[len(p.held)-p.most:]...)
		}
		return nil
	}
	_, err := io.WriteString(p.out, b.String())
	return err
}

// flow prints the last of the existing lines, and makes line print every
// further one at once.
func (p *linePrinter) flow() error {
	held := p.held[max(0, len(p.held)-p.most):]
	p.held, p.flows = nil, true
	_, err := io.WriteString(p.out, strings.Join(held, ""))
	return err
}

// lines reads a job's logs, as much of them as p may print.
func (p *linePrinter) lines(r *repo, id kernel.JobID) *joblog.Lines {
	l := joblog.NewLines(func(name string) (*os.File, error) { return r.Logs.OpenLog(id, name) })
	switch {
	case p.flows:
	case p.none:
		l.Last(1)
	case p.grep == nil: // otherwise, the last matches may be anywhere
		l.Last(p.most)
	}
	return l
}

// earlier shows what attempts of a job wrote whose logs were rotated away before their follower looked at them.
type earlier struct {
	r      *repo
	id     kernel.JobID
	next   int // the first attempt that is not looked for yet
	stream string
	met    func(*os.File) (bool, error)                 // whether the follower reads that log of the stream, or has read it
	show   func(ctx context.Context, open opener) error // shows the logs of one attempt
}

// opener opens the log of a name, such as stdout.
type opener func(name string) (*os.File, error)

// begins returns the first attempt that somebody sees who follows j from now on.
func begins(j *kernel.Job) int {
	if j.State.Status == kernel.Running || j.State.Status.Terminal() {
		return j.State.Attempt
	}
	return j.State.Attempt + 1
}

// before shows the attempts before the latest.
func (e *earlier) before(ctx context.Context, latest int) error {
	for ; e.next < latest; e.next++ {
		open := func(name string) (*os.File, error) { return e.r.Logs.OpenLog(e.id, name+"."+strconv.Itoa(e.next)) }
		log, err := open(e.stream)
		if errors.Is(err, os.ErrNotExist) && e.next == latest-1 { // it is about to be rotated, or there is none
			return nil
		} else if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return wrongLog(err)
		}
		met, err := e.met(log)
		if err = errors.Join(err, log.Close()); err == nil && !met {
			err = e.show(ctx, open)
		}
		if err != nil {
			return wrongLog(err)
		}
	}
	return nil
}

// whole calls f with all lines of the logs that open opens.
func whole(ctx context.Context, open opener, f func(joblog.Line) error) error {
	lines := joblog.NewLines(open)
	_, err := lines.Read(ctx, true, f)
	return errors.Join(err, lines.End(f))
}

// loggedJob is one of several jobs whose lines are merged.
type loggedJob struct {
	name    string
	id      kernel.JobID
	started time.Time
}

// printAll prints the lines of jobs in the order in which they were written, as
// far as that is known. Lines without a recorded time are placed at the start
// of their job. Logs are opened only when their turn comes.
func (p *linePrinter) printAll(ctx context.Context, r *repo, jobs []loggedJob) (err error) {
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b loggedJob) int { return a.started.Compare(b.started) })
	type source struct {
		job  loggedJob
		next func() (joblog.Line, bool)
		line joblog.Line
	}
	var failed error
	var open []*source
	advance := func(s *source) {
		before := cmp.Or(s.line.At, s.job.started)
		line, ok := s.next()
		if s.line = line; !ok {
			open = slices.DeleteFunc(open, func(o *source) bool { return o == s })
		} else if line.At.Before(before) {
			s.line.At = before
		}
	}
	for len(jobs) > 0 || len(open) > 0 {
		var first *source
		for _, s := range open {
			if first == nil || s.line.At.Before(first.line.At) {
				first = s
			}
		}
		if len(jobs) > 0 && (first == nil || !first.line.At.Before(jobs[0].started)) {
			next, stop := iter.Pull(written(ctx, p.lines(r, jobs[0].id), &failed))
			defer stop()
			s := &source{job: jobs[0], next: next}
			open, jobs = append(open, s), jobs[1:]
			advance(s)
			continue
		}
		if err := p.line(first.job.name, first.line); err != nil {
			return err
		}
		advance(first)
	}
	return failed
}

// written yields the existing lines. An error is stored in failed.
func written(ctx context.Context, l *joblog.Lines, failed *error) iter.Seq[joblog.Line] {
	return func(yield func(joblog.Line) bool) {
		hand := func(line joblog.Line) error {
			if !yield(line) {
				return io.EOF
			}
			return nil
		}
		_, err := l.Read(ctx, true, hand)
		if err == nil {
			err = l.End(hand)
		} else {
			_ = l.Close()
		}
		if err != nil && err != io.EOF { //nolint:errorlint // our own, of hand
			*failed = cmp.Or(*failed, fmt.Errorf("read log: %w", err))
		}
	}
}

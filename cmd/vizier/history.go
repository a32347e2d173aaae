package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type historyCmd struct {
	List   historyListCmd   `cmd:"" default:"withargs" help:"Show who did what, when, and what followed."`
	Verify historyVerifyCmd `cmd:"" help:"Check that the history is complete and that deciding it again gives the same results."`
	Export historyExportCmd `cmd:"" help:"Write evidence of a job or a run to one file."`
}

// storeHistory reads the history of a store.
type storeHistory interface {
	History(ctx context.Context, about func(kernel.JobID, []byte) bool, f func(fs.HistoryEntry) error) error
	VerifyHistory(context.Context) (fs.Verification, error)
}

type historyListCmd struct {
	Job    string `arg:"" optional:"" placeholder:"JOB|RUN" help:"Only entries about this job or run: its number, such as 12 or 14/NODE, its name, its id or the beginning of it, or @last."`
	Last   int    `default:"30" placeholder:"N" help:"The last N entries; 0 means all."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"json prints one object per line."`
}

func (*historyListCmd) Help() string {
	return "Each transaction is an entry: what was asked, by whom, and how jobs changed. " +
		"[history] keep and max_bytes in the configuration limit how long entries are kept."
}

// historyLine is a line of `history --format json`: docs/schemas/history.schema.json.
type historyLine struct {
	Entry   uint64          `json:"entry"`
	At      time.Time       `json:"at"`
	Version string          `json:"version"`
	Asked   []historyAsked  `json:"asked"`
	Changes []historyChange `json:"changes"`
	Edited  []kernel.JobID  `json:"edited,omitempty"`

	refs map[kernel.JobID]string // of the jobs that are mentioned
}

type historyAsked struct {
	Verb string         `json:"verb"`
	By   string         `json:"by,omitempty"`
	Jobs []kernel.JobID `json:"jobs,omitempty"`
	Text string         `json:"text,omitempty"`
}

type historyChange struct {
	Job kernel.JobID `json:"job"`
	view.Reference
	Name    string `json:"name"`
	From    string `json:"from"`
	To      string `json:"to"`
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason"`
}

// Run lists the entries.
func (h *historyListCmd) Run(c *call) error {
	r, err := c.repoOf([]string{h.Job})
	if err != nil {
		return err
	}
	about, err := h.about(c, r)
	gone := about != nil && errors.Is(err, kernel.ErrNotFound)
	if err != nil && !gone {
		return err
	}
	none := err
	var lines []historyLine
	err = r.Past.History(c.ctx, about, func(t fs.HistoryEntry) error {
		if lines = append(lines, historyLineOf(t)); h.Last > 0 && len(lines) > h.Last {
			lines = lines[1:]
		}
		return nil
	})
	if len(lines) == 0 && err == nil && gone {
		return none
	}
	if h.Format == "json" {
		for _, l := range lines {
			if failed := c.ui.jsonLine(l); failed != nil {
				return failed
			}
		}
		return err
	}
	if len(lines) == 0 && err == nil {
		c.ui.print("No history is on record")
	} else if len(lines) > 0 {
		c.ui.text(c.ui.history(lines, time.Now()))
	}
	return err
}

// about returns the filter for the entries that are asked for. For a number that
// no job has any more, it returns both a filter and ErrNotFound: the history may
// still have entries about the removed jobs.
func (h *historyListCmd) about(c *call, r *repo) (func(kernel.JobID, []byte) bool, error) {
	if h.Job == "" {
		return func(kernel.JobID, []byte) bool { return true }, nil
	}
	if kernel.ValidJobID(h.Job) { // the job may be gone
		return func(id kernel.JobID, _ []byte) bool { return string(id) == h.Job }, nil
	}
	_, targets, err := r.Scheduler.Targets(c.ctx, []string{h.Job})
	if number, part, _ := strings.Cut(h.Job, "/"); errors.Is(err, kernel.ErrNotFound) {
		if n, odd := strconv.ParseUint(number, 10, 64); odd == nil && n > 0 {
			return numbered(kernel.Number(n), part), err
		}
	}
	if err != nil {
		return nil, err
	}
	wanted, run := map[kernel.JobID]bool{}, ""
	for _, t := range targets {
		for _, j := range t.Jobs {
			wanted[j.ID] = true
		}
		if t.Whole {
			run = string(t.Run())
		}
	}
	return func(id kernel.JobID, record []byte) bool {
		return wanted[id] || run != "" && bytes.Contains(record, []byte(`"`+run+`"`))
	}, nil
}

// numbered returns a filter for the entries about removed jobs that had the number
// n and, unless part is "", that part.
func numbered(n kernel.Number, part string) func(kernel.JobID, []byte) bool {
	had := map[kernel.JobID]bool{}
	return func(id kernel.JobID, record []byte) bool {
		if number, p := fs.RefIn(record); number == n && (part == "" || p == part) {
			had[id] = true
		}
		return had[id]
	}
}

func historyLineOf(t fs.HistoryEntry) historyLine {
	l := historyLine{t.Entry, t.At, t.Program, []historyAsked{}, []historyChange{}, t.Edited, t.Refs}
	for _, a := range t.Asked {
		l.Asked = append(l.Asked, historyAsked(a))
	}
	for _, ch := range t.Changes {
		l.Changes = append(l.Changes, historyChange{ch.Job, view.Reference{Number: ch.Number, Ref: ch.Ref}, ch.Name, ch.From, ch.To, ch.Attempt, ch.Reason})
	}
	return l
}

// history formats entries as a table.
func (u *ui) history(lines []historyLine, now time.Time) string {
	cells := [][]string{{"Entry", "Time", "What", "Followed"}}
	for _, l := range lines {
		head := []string{strconv.FormatUint(l.Entry, 10), u.clock(l.At, now), historyWhat(l)}
		for i, ch := range historyMoves(l) {
			if i > 0 {
				head = []string{"", "", ""}
			}
			cells = append(cells, append(head, ch))
			head = nil
		}
		if head != nil {
			cells = append(cells, append(head, ""))
		}
	}
	return u.table(cells, -1)
}

// mostAsked is how many of the jobs that were asked about stand in a line: each line is as wide as the widest.
const mostAsked = 8

// historyWhat describes the request of an entry in a few words.
func historyWhat(l historyLine) string {
	var parts []string
	for _, a := range l.Asked {
		if a.Verb == "tick" || a.Verb == "settle" {
			continue
		}
		text := strings.ReplaceAll(a.Verb, "_", " ")
		for _, id := range a.Jobs[:min(mostAsked, len(a.Jobs))] {
			text += " " + cmp.Or(l.refs[id], string(id))
		}
		if more := len(a.Jobs) - mostAsked; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		if a.Text != "" {
			text += ": " + a.Text
		}
		if a.By != "" {
			text += " by " + a.By
		}
		parts = append(parts, text)
	}
	if len(l.Edited) > 0 {
		parts = append(parts, fmt.Sprintf("%d edited by hand", len(l.Edited)))
	}
	if len(parts) == 0 {
		return "tick"
	}
	return strings.Join(parts, ", ")
}

// historyMoves describes each job that an entry added or removed, or whose status
// it changed.
func historyMoves(l historyLine) (out []string) {
	for _, ch := range l.Changes {
		ref := cmp.Or(ch.Ref, string(ch.Job))
		switch {
		case ch.To == "":
			out = append(out, ref+" removed")
		case ch.From == "":
			_, to := answer.InShort("", ch.To)
			out = append(out, ref+" "+to)
		case ch.From != ch.To:
			from, to := answer.InShort(ch.From, ch.To)
			out = append(out, ref+" "+from+" → "+to)
		}
	}
	return out
}

type historyVerifyCmd struct {
	File   string `placeholder:"FILE" help:"Check this file, written by history export, instead of a repository."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*historyVerifyCmd) Help() string {
	return "Every entry names the one before it by a digest, and has all inputs of its decision: this command decides each again, and compares byte by byte. " +
		"Then it compares the records with the result of the history. It names changes by hand. " +
		"The exit code is 0 if there are none, 1 if there are. A process that can write the store can rewrite the whole history: if that matters, keep the last digest elsewhere."
}

// verified is `history verify --format json`: docs/schemas/history_verify.schema.json.
type verified struct {
	First     uint64           `json:"first"`
	Last      uint64           `json:"last"`
	Tip       string           `json:"tip"`
	Decisions int              `json:"decisions"`
	Whole     bool             `json:"whole"`
	Findings  []historyFinding `json:"findings"`
	Evidence  *evidenceOf      `json:"evidence,omitempty"`
}

type historyFinding struct {
	Kind     string       `json:"kind"`
	Entry    uint64       `json:"entry"`
	At       *time.Time   `json:"at"`
	Job      kernel.JobID `json:"job,omitempty"`
	File     string       `json:"file,omitempty"`
	Message  string       `json:"message"`
	Recorded string       `json:"recorded,omitempty"`
	Decided  string       `json:"decided,omitempty"`
}

// Run verifies the history.
func (h *historyVerifyCmd) Run(c *call) error {
	debug.SetGCPercent(200) // most of what is allocated is needed to the end of the process
	v, e, err := h.verify(c)
	if err != nil {
		return err
	}
	whole := !slices.ContainsFunc(v.Findings, func(f fs.Finding) bool { return !f.Harmless() })
	if h.Format == "json" {
		doc := verified{v.First, v.Last, v.Tip, v.Decisions, whole, []historyFinding{}, e}
		for _, f := range v.Findings {
			doc.Findings = append(doc.Findings, historyFindingOf(f))
		}
		err = c.ui.json(doc)
	} else {
		if e != nil {
			c.ui.text(e.text())
		}
		c.ui.text(c.ui.verification(v, time.Now()))
	}
	if err == nil && !whole {
		err = exits(1)
	}
	return err
}

// verify verifies the given file or else the repository's history.
func (h *historyVerifyCmd) verify(c *call) (v fs.Verification, e *evidenceOf, err error) {
	if h.File != "" {
		e, v, err = h.verifyFile(c)
		return v, e, err
	}
	r, err := c.repo()
	if err != nil {
		return v, nil, err
	}
	v, err = r.Past.VerifyHistory(c.ctx)
	return v, nil, err
}

func historyFindingOf(f fs.Finding) historyFinding {
	out := historyFinding{Kind: f.Kind, Entry: f.Entry, Job: f.Job, File: f.File, Message: f.Text, Recorded: f.Recorded, Decided: f.Decided}
	if !f.At.IsZero() {
		out.At = &f.At
	}
	return out
}

// verification formats v for people.
func (u *ui) verification(v fs.Verification, now time.Time) string {
	var b strings.Builder
	for _, f := range v.Findings {
		var where []string
		switch {
		case f.Entry > 0 && (f.Kind == fs.FoundGap || f.Kind == fs.FoundBreach):
			where = append(where, "before entry "+strconv.FormatUint(f.Entry, 10))
		case f.Entry > 0:
			where = append(where, "entry "+strconv.FormatUint(f.Entry, 10))
		case v.Last > 0:
			where = append(where, "after entry "+strconv.FormatUint(v.Last, 10))
		}
		if !f.At.IsZero() {
			where = append(where, u.clock(f.At, now))
		}
		if f.Job != "" {
			where = append(where, "job "+cmp.Or(f.Ref, string(f.Job)))
		}
		if len(where) > 0 {
			b.WriteString(strings.Join(where, ", ") + ": ")
		}
		fmt.Fprintf(&b, "%s: %s\n", strings.ReplaceAll(f.Kind, "_", " "), f.Text)
		left, right := "on record", "decided again"
		if f.Kind == fs.FoundEdit || f.Kind == fs.FoundForgery || f.Kind == fs.FoundGap {
			left, right = "now", "history"
		}
		if f.Recorded != "" || f.Decided != "" {
			fmt.Fprintf(&b, "  %-13s %s\n  %-13s %s\n", left, f.Recorded, right, f.Decided)
		}
	}
	switch {
	case v.First == 0 && len(v.Findings) > 0:
		b.WriteString("No entry could be checked\n")
	case v.First == 0:
		b.WriteString("No history is on record\n")
	default:
		entries := fmt.Sprintf("Entries %d to %d", v.First, v.Last)
		if v.First == v.Last {
			entries = fmt.Sprintf("Entry %d", v.First)
		}
		fmt.Fprintf(&b, "%s, %s came out the same again; the last entry is %.16s\n", entries, view.Counted(v.Decisions, "decision"), v.Tip)
	}
	return b.String()
}

package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// HistoryEntry is an entry of the history, for people and programs.
type HistoryEntry struct {
	Entry   uint64
	At      time.Time
	Program string // the version of the program that wrote it
	Asked   []Asked
	Changes []Change
	Edited  []kernel.JobID // jobs whose records somebody else had changed before

	Refs map[kernel.JobID]string // what people call, or called, the jobs that it names
}

// Asked is a request that an entry answers.
type Asked struct {
	Verb string         // as in docs/formats/history.md
	By   string         // who asked; "": nobody in particular
	Jobs []kernel.JobID // the jobs that it names
	Text string         // further details; may be empty
}

// Change is a change of a job's record.
type Change struct {
	Job      kernel.JobID
	Number   kernel.Number
	Ref      string
	Name     string
	From, To string // status; From "": the job is new, or its status was not known; To "": it was removed
	Attempt  int
	Reason   string // what it waits for, or why it ended as it did
}

// History calls f with the entries about a job for which about is true, in order, until f
// returns an error. record is nil if there is none. A damaged file is a *SegmentError;
// History goes on after it.
func (s *Store) History(ctx context.Context, about func(id kernel.JobID, record []byte) bool, f func(HistoryEntry) error) error {
	p, err := s.history(ctx, false)
	if err != nil {
		return err
	}
	known := map[kernel.JobID]standing{}
	next := uint64(1)
	var damage []error
	err = p.eachBut(func(e *pastEntry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		mine := false
		for _, g := range e.groups {
			mine = mine || g.job != "" && about(g.job, g.record)
		}
		for id, record := range e.found() {
			mine = mine || about(id, record)
		}
		if e.number < next || e.head != nil && e.head.Opening {
			mine = false
		}
		was := map[kernel.JobID]standing{}
		for _, g := range e.groups {
			was[g.job] = known[g.job]
			if g.record != nil {
				number, part := RefIn(g.record)
				known[g.job] = standing{statusIn(g.record), number, part}
			}
		}
		next = max(next, e.number+1)
		if !mine {
			return nil
		}
		t, err := toldBy(e, was)
		if err != nil {
			return &SegmentError{e.file, fmt.Errorf("entry %d: %w", e.number, err)}
		}
		for _, a := range t.Asked {
			for _, id := range a.Jobs {
				t.Refs[id] = known[id].ref()
			}
		}
		return f(t)
	}, func(bad *SegmentError) error {
		damage = append(damage, bad)
		return nil
	})
	return errors.Join(append(damage, err)...)
}

// standing is what later entries need to know of a job.
type standing struct {
	status string
	number kernel.Number
	part   string
}

func (s standing) ref() string { return (&kernel.Job{Number: s.number, Part: s.part}).Ref() }

// statusIn returns the status in a record that this program wrote.
func statusIn(record []byte) string {
	_, rest, _ := bytes.Cut(record, []byte("\n  \"status\": \""))
	status, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(status)
}

// RefIn returns the number and the part in a record that this program wrote; 0: the job has no number.
func RefIn(record []byte) (n kernel.Number, part string) {
	head, _, _ := bytes.Cut(record, []byte("\n  \"status\": "))
	_, rest, _ := bytes.Cut(head, []byte("\n  \"number\": "))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	number, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return 0, ""
	}
	if _, rest, parted := bytes.Cut(head, []byte("\n  \"part\": \"")); parted {
		text, _, _ := bytes.Cut(rest, []byte(`"`))
		part = string(text)
	}
	return kernel.Number(number), part
}

func toldBy(e *pastEntry, was map[kernel.JobID]standing) (HistoryEntry, error) {
	t := HistoryEntry{Entry: e.number, Refs: map[kernel.JobID]string{}}
	var r accountRecord
	if len(e.account) > 0 {
		if err := fromJSON(e.account, &r); err != nil {
			return t, jsonError(err)
		}
	}
	t.At, t.Program, t.Edited = time.Time(r.Written), r.Program, slices.Sorted(maps.Keys(r.Found))
	cancelled := map[kernel.JobID]bool{}
	for _, g := range e.groups {
		switch {
		case g.does(opRemoveJob):
			had := was[g.job]
			t.Changes = append(t.Changes, Change{Job: g.job, Number: had.number, Ref: had.ref(), From: had.status})
		case g.record != nil:
			j, _, err := decodeRecord(g.job, g.record)
			if err != nil {
				return t, err
			}
			reason := j.State.Reason
			if j.State.Status.Waiting() {
				reason = j.State.Wait.Detail
			}
			if j.State.Status == kernel.Cancelled {
				cancelled[g.job] = true
			}
			t.Changes = append(t.Changes, Change{g.job, j.Number, j.Ref(), j.Spec.Name, was[g.job].status, j.State.Status.String(), j.State.Attempt, reason})
		}
	}
	for _, step := range r.Steps {
		t.Asked = append(t.Asked, askedOf(step, cancelled))
	}
	return t, nil
}

// askedOf returns the request in a step, for people. A cancelled job is not told as failed,
// however its attempt ended.
func askedOf(step stepRecord, cancelled map[kernel.JobID]bool) Asked {
	var args struct {
		Job    kernel.JobID  `json:"job"`
		By     string        `json:"by"`
		Why    string        `json:"why"`
		Reason string        `json:"reason"`
		Head   string        `json:"head"`
		Result outcomeRecord `json:"result"`
	}
	var several struct {
		Jobs []kernel.JobID `json:"jobs"`
	}
	a := Asked{Verb: step.Verb}
	if step.Args == nil || fromJSON(step.Args.read(), &args) != nil {
		return a
	}
	if a.By = args.By; args.Job != "" {
		a.Jobs = []kernel.JobID{args.Job}
	}
	switch step.Verb {
	case "cancel", "retry", "clean":
		if fromJSON(step.Args.read(), &several) == nil && len(several.Jobs) > 0 {
			a.Jobs = several.Jobs
		}
	case "finish":
		how := args.Result.Outcome
		if cancelled[args.Job] {
			how = kernel.Cancelled.String()
		}
		a.Text = fmt.Sprintf("attempt %d %s", args.Result.Attempt, how)
	case "approve":
		if args.Head != "" {
			a.Text = "commit " + args.Head
		}
	case "refuse":
		a.Text = args.Why
	case "reject":
		a.Text = args.Reason
	}
	return a
}

package view

import (
	"slices"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Field is one column of the list or one line of show.
type Field struct {
	Key     string // in JSON and in configuration
	Label   string // for people
	Default bool   // shown unless the user chose others
}

// Value is a field with its text for one job.
type Value struct {
	Field
	Text string
}

// Paths is what the store knows about a job beyond its record. Paths are
// relative to the repository's root; empty ones are not shown.
type Paths struct {
	Stdout, Stderr, Outcome string
	Hooks                   string // logs of the hooks that ran for the job
	Pack                    string // the file that the job's files are packed in
	Container               string // the command line that starts its container, with placeholders
	Parked                  string // what was kept of worktrees and branches of its run, and how to get it back

	Progress Progress // of the latest attempt

	// Attempts are the job's known attempts, in order. An attempt without an
	// outcome has no end on record.
	Attempts []kernel.Result
}

// Unreadable is a record that cannot be read, and why. It is listed beside the
// good records and never hides them.
type Unreadable struct {
	ID  kernel.JobID `json:"job"`
	Why string       `json:"why"`
}

func unreadable(s *kernel.Snapshot) []Unreadable {
	var out []Unreadable
	for _, id := range s.UnreadableIDs() {
		out = append(out, Unreadable{id, line(s.Unreadable(id))})
	}
	return out
}

// record is what the text of a field is computed from.
type record struct {
	*kernel.Job
	Paths
	standing string // see Standing
	remark   string // of its executor
	prompt   string // see promptRun
	barred   kernel.Barred
}

// Submitted is the standing of a job whose status is running, but whose attempt
// still waits in its executor's queue.
const Submitted = "submitted"

// Standing returns job j's status in one word, or Submitted.
func Standing(s *kernel.Snapshot, j *kernel.Job) string {
	if s.Submitted(j.ID) {
		return Submitted
	}
	return j.State.Status.String()
}

// begun returns j with the time at which its attempt began, or without one.
func begun(s *kernel.Snapshot, j *kernel.Job) *kernel.Job {
	at := s.Began(j)
	if at.Equal(j.State.Started) {
		return j
	}
	other := *j
	other.State.Started = at
	return &other
}

// column is a field and the function that computes its text. An empty text is
// an absent value.
type column struct {
	Field
	text func(record) string
}

func fields(columns []column) []Field {
	out := make([]Field, len(columns))
	for i, c := range columns {
		out[i] = c.Field
	}
	return out
}

// waiting returns the wait with its kind, in the words of the record.
func waiting(r record) string {
	w := r.State.Wait
	if w.Kind == kernel.NoWait || w.Detail == "" {
		return wait(r.Job)
	}
	return w.Kind.String() + ": " + w.Detail
}

func waitedOn(r record) string { return list(r.State.WaitedOn.Kinds(), kernel.WaitKind.String) }

func after(r record) string {
	return list(r.Spec.After, func(id kernel.JobID) string {
		return string(id) + " (" + r.Spec.AfterPolicy(id).String() + ")"
	})
}

func routes(r record) string {
	return list(r.Spec.Routes, func(to kernel.Route) string { return string(to.To) + " (" + to.On.String() + ")" })
}

func routesDeferred(r record) string {
	if !r.State.Deferred {
		return ""
	}
	return "true"
}

func dependencies(r record) string { return list(r.Spec.Needs, kernel.Artifact.String) }
func artifacts(r record) string    { return list(r.Spec.Produces, kernel.Artifact.String) }

func approvalRequired(r record) string {
	if r.State.Approval.State == kernel.NotRequired {
		return ""
	}
	return "true"
}

func tags(r record) string { return list(r.Spec.Tags, kernel.Tag.String) }

// failedAt returns when a job failed for good.
func failedAt(r record) string {
	switch {
	case r.State.Status != kernel.Failed:
		return ""
	case r.State.Finished.IsZero():
		return "unknown"
	}
	return stamp(r.State.Finished)
}

func exitCode(r record) string {
	if !r.State.Exit.Known {
		return ""
	}
	return strconv.Itoa(r.State.Exit.Code)
}

// deadline returns when the attempt under way runs out of time.
func deadline(r record) time.Time {
	if r.State.Status != kernel.Running || r.Spec.Task.Timeout <= 0 || r.State.Started.IsZero() {
		return time.Time{}
	}
	return r.State.Started.Add(r.Spec.Task.Timeout)
}

// WithReference returns keys for a program's document: the job's reference
// fields are added beside its id.
func WithReference(keys []string) []string {
	if slices.Contains(keys, "job") {
		return append(slices.Clone(keys), "number", "ref")
	}
	return keys
}

// numberText returns the job's number, or "" for none.
func numberText(r record) string {
	if r.Number == 0 {
		return ""
	}
	return r.Number.String()
}

// number returns n, or "" for none.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

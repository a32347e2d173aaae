package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/vizier-scheduler/vizier/kernel"
)

// stamp formats t by RFC 3339 in UTC with a numeric offset, as in seed 000's
// example, with as many fractional digits as are needed. The zero time is "".
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999-07:00")
}

// Clock formats a time for people: only the hour if it is on the day of now, else with its day.
// Both are in the reader's time zone.
func Clock(at, now time.Time) string {
	switch {
	case at.Format(time.DateOnly) == now.Format(time.DateOnly):
		return at.Format("15:04")
	case at.Year() == now.Year():
		return at.Format("Jan 2 15:04")
	default:
		return at.Format("Jan 2 2006 15:04")
	}
}

// line returns s on one line, with other control characters visible, as in \x1b: details and
// commands come from outside and must not move a reader's cursor.
func line(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || unicode.IsControl(r) && unicode.IsSpace(r) }), " ") {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// count formats n with separators between thousands.
func count(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// Counted returns n with the noun in the right number: 1 job, 2 jobs.
func Counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return count(n) + " " + noun
}

// argv returns the command that a job is known to run: an ad-hoc job's own
// command, else the command line that enqueued it.
func argv(j *kernel.Job) []string {
	if t := j.Spec.Task; !t.Builtin && len(t.Args) > 0 {
		return t.Args
	}
	return j.Spec.Origin.Command
}

func command(j *kernel.Job) string {
	if args := argv(j); len(args) > 0 {
		return strings.Join(args, " ")
	}
	return "<command unavailable>"
}

// Title returns a job's name for people: the node's name, its id made readable,
// the name it was submitted under, its subject, or the beginning of its
// command.
func Title(j *kernel.Job) string {
	o := j.Spec.Origin
	switch {
	case o.About.Name != "":
		return line(o.About.Name)
	case o.Node != "":
		return line(humanised.Replace(o.Node))
	case j.Spec.Name != "":
		return line(j.Spec.Name)
	case o.Alias != "":
		parts := slices.DeleteFunc([]string{o.Alias, o.Plan, o.Target}, func(s string) bool { return s == "" })
		return line(strings.Join(parts, "/"))
	}
	if args := argv(j); len(args) > 3 {
		return line(strings.Join(args[:3], " ")) + " ..."
	}
	return line(command(j))
}

var humanised = strings.NewReplacer("__", " / ", "_", " ", "-", " ")

// slug returns the plan a job works on, or "".
func slug(j *kernel.Job) string {
	if p := j.Spec.Origin.Plan; p != "" {
		return p
	}
	for _, a := range j.Spec.Produces {
		if a.Kind <= kernel.PlanCommits || a.Kind == kernel.MergeSentinel {
			return a.Name
		}
	}
	return ""
}

// wait returns why a job is not running, or "".
func wait(j *kernel.Job) string {
	st := j.State
	switch {
	case st.Wait.Detail != "":
		return line(st.Wait.Detail)
	case st.Wait.Kind != kernel.NoWait:
		return st.Wait.Kind.String()
	case st.Status == kernel.FailedRetryable:
		return "retry at " + stamp(st.RetryAt)
	case st.Status == kernel.Queued, blocked(st.Status): // refused by its executor; blocked by its own outcome
		return line(st.Reason)
	}
	return ""
}

func blocked(s kernel.Status) bool {
	return s == kernel.BlockedByDependency || s == kernel.BlockedByApproval
}

func locks(ls []kernel.Lock) string {
	return list(ls, func(l kernel.Lock) string {
		if l.Pool() {
			return l.Key + "=" + strconv.Itoa(l.Units)
		}
		return l.Key + ":" + l.Mode.String()
	})
}

func pinned(p kernel.PinnedHead) string {
	if p.Branch == "" {
		return ""
	}
	return p.Branch + "@" + string(p.Commit)
}

func list[T any](in []T, text func(T) string) string { return strings.Join(texts(in, text), ", ") }

// texts returns the text of each value. It is never nil, so that JSON has []
// and not null.
func texts[T any](in []T, text func(T) string) []string {
	out := make([]string, len(in))
	for i, v := range in {
		out[i] = text(v)
	}
	return out
}

// orEmpty returns in, or an empty slice instead of nil.
func orEmpty(in []string) []string {
	if in == nil {
		return []string{}
	}
	return in
}

// nullable returns a pointer to s, or nil if s is empty.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

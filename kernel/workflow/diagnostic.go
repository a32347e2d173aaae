package workflow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Pos is a position in a template file. The zero value is no position.
type Pos struct {
	File string
	Line int // from 1
}

func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Diagnostic is one finding about a template or about its input.
type Diagnostic struct {
	Pos   Pos
	Node  string // the node it is about, if any
	Field string // the path of the key, such as nodes[x].retry.budget
	Msg   string
	Hint  string // what to do about it; may be empty
	More  string // further lines, such as examples of what to type; may be empty
}

// Lines returns the finding as lines of text. Names in it may contain line
// ends.
func (d Diagnostic) Lines() []string {
	s := d.Msg
	if p := d.Pos.String(); p != "" {
		s = p + ": " + s
	}
	if d.Hint != "" {
		s += "; " + d.Hint
	}
	if d.More == "" {
		return []string{s}
	}
	return append([]string{s}, strings.Split(d.More, "\n")...)
}

func (d Diagnostic) String() string { return strings.Join(d.Lines(), "\n") }

// Diagnostics are all findings of a step, in source order. As an error it wraps
// kernel.ErrInvalid.
type Diagnostics []Diagnostic

// Error returns all findings, each on lines of its own.
func (ds Diagnostics) Error() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes errors.Is match kernel.ErrInvalid.
func (ds Diagnostics) Unwrap() error { return kernel.ErrInvalid }

// Together returns the findings of several steps as one error, or nil if there
// are none.
func Together(steps ...error) error {
	var r report
	for _, err := range steps {
		r.merge(Pos{}, err)
	}
	return r.err()
}

// report collects findings.
type report struct{ found Diagnostics }

func (r *report) add(d Diagnostic) { r.found = append(r.found, d) }

func (r *report) addf(pos Pos, format string, args ...any) {
	r.add(Diagnostic{Pos: pos, Msg: fmt.Sprintf(format, args...)})
}

// merge adds the findings of err; any other error becomes a finding at pos.
func (r *report) merge(pos Pos, err error) {
	if found, ok := errors.AsType[Diagnostics](err); ok {
		r.found = append(r.found, found...)
	} else if err != nil {
		r.addf(pos, "%s", err)
	}
}

// err returns the findings in source order, or nil if there are none.
func (r *report) err() error {
	if len(r.found) == 0 {
		return nil
	}
	slices.SortStableFunc(r.found, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line))
	})
	return slices.Compact(r.found)
}

// Suggest returns the known name that name is most likely a misspelling of, or
// "" if none is close enough.
func Suggest(name string, known []string) string {
	best, least := "", 1+max(1, len(name)/3)
	for _, k := range known {
		if d := distance(strings.ReplaceAll(name, "-", "_"), k); d < least || d == least && best != "" && k < best {
			best, least = k, d
		}
	}
	return best
}

func didYouMean(name string, known []string) string {
	if s := Suggest(name, known); s != "" {
		return "did you mean `" + s + "`?"
	}
	return ""
}

// distance returns the number of insertions, deletions, replacements and swaps
// of neighbours that turn a into b, byte by byte.
func distance(a, b string) int {
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}

package kernel

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Number is how people speak of an enqueue: of a single job, or of the jobs of a
// run or of a batch together. Numbers are dense, only grow, and are never used
// again; 0 is none yet, in records of before there were numbers (semantics 28).
type Number uint64

// Ref is the job as people name it: its number and, where others share it, its
// part: the node, the batch line's ref or its place. It is "" before the job has
// a number.
func (j *Job) Ref() string {
	switch {
	case j.Number == 0:
		return ""
	case j.Part == "":
		return j.Number.String()
	default:
		return j.Number.String() + "/" + j.Part
	}
}

func (n Number) String() string { return strconv.FormatUint(uint64(n), 10) }

// PrefixLength is from how many characters on digits are the beginning of an id,
// and no number.
const PrefixLength = 8

// ParseRef is the number and the part that ref names. It is false where ref does
// not begin with a number; digits are a number up to seven of them, and the
// beginning of an id from there on.
func ParseRef(ref string) (n Number, part string, ok bool) {
	digits, part, _ := strings.Cut(ref, "/")
	if len(digits) >= PrefixLength || digits == "" || digits[0] == '0' {
		return 0, "", false
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	return Number(v), part, err == nil
}

// number gives new jobs their numbers. The jobs of a run share one, and so do all
// that belong to none.
func (s *Snapshot) number(jobs []NewJob, into []*Job) error {
	runs, parts := make([]RunID, len(into)), make([]string, len(into))
	for i := range into {
		runs[i], parts[i] = into[i].Spec.Origin.Run, cmp.Or(jobs[i].Part, into[i].Spec.Origin.part())
	}
	taken := map[string]bool{}
	for i, n := range numbers(s.last, runs, parts) {
		j := into[i]
		j.Number, j.Part = n, parts[i]
		if ref := j.Ref(); taken[ref] {
			return fmt.Errorf("enqueue: two jobs are called %s: name the others by a ref as well: %w", ref, ErrInvalid)
		}
		taken[j.Ref()] = true
	}
	return nil
}

// numbers are the numbers after last, one for each group, of the jobs that belong
// to the groups. A job without a part that can be typed gets its place in its group
// as its part, unless it is alone there.
func numbers[G comparable](last Number, groups []G, parts []string) []Number {
	size, place, number := map[G]int{}, map[G]int{}, map[G]Number{}
	for _, g := range groups {
		size[g]++
	}
	out := make([]Number, len(groups))
	for i, g := range groups {
		if !typable(parts[i]) {
			parts[i] = ""
		}
		if number[g] == 0 {
			last++
			number[g] = last
		}
		place[g]++
		if parts[i] == "" && size[g] > 1 {
			parts[i] = strconv.Itoa(place[g])
		}
		out[i] = number[g]
	}
	return out
}

// typable reports that a part is one word as it stands, in a shell and on a
// terminal: whoever chooses a ref may not be whoever reads it.
func typable(part string) bool {
	const most = 64
	return len(part) <= most && !strings.ContainsFunc(part, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-+@:/", r)
	})
}

// part is the node of a run's job. A job that another one submitted belongs to
// its run and is no node of it.
func (o Origin) part() string {
	if o.Parent != "" {
		return ""
	}
	return o.Node
}

// NumberAll numbers the jobs that have none, which are those of before there were
// numbers: in the order of their creation, the jobs of a run together, and those
// that one of its jobs submitted by themselves.
func NumberAll(s *Snapshot) Plan {
	type group struct {
		run    RunID
		parent JobID
		alone  JobID
	}
	var old []*Job
	var groups []group
	var parts []string
	for _, j := range s.jobs {
		if j.Number != 0 {
			continue
		}
		o := &j.Spec.Origin
		g := group{run: o.Run, parent: o.Parent}
		if g == (group{}) {
			g.alone = j.ID
		}
		old, groups, parts = append(old, j), append(groups, g), append(parts, o.part())
	}
	var p Plan
	for i, n := range numbers(s.last, groups, parts) {
		p.add(NumberJob{old[i].ID, old[i].Rev, n, parts[i]})
	}
	return p
}

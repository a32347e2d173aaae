package kernel

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Number identifies an enqueue for people: a single job, or all jobs of a run
// or a batch. Numbers are consecutive, grow, and are never reused. 0 means none
// yet, as in records of versions without numbers (semantics 28).
type Number uint64

// Ref returns the job's name for people: its number and, if other jobs share
// that, "/" and its part, which is the node, the batch line's ref or the
// position. It is "" for a job without a number.
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

// Label returns the job's reference, followed by its name unless the reference
// contains it.
func (j *Job) Label() string {
	if j.Part != "" {
		return j.Ref()
	}
	return j.with(cmp.Or(j.Ref(), string(j.ID)))
}

// with returns called, followed by the job's name in parentheses if it has one.
func (j *Job) with(called string) string {
	for _, n := range []string{j.Spec.Origin.Node, j.Spec.Name} {
		if n != "" {
			return called + " (" + n + ")"
		}
	}
	return called
}

func (n Number) String() string { return strconv.FormatUint(uint64(n), 10) }

// PrefixLength is the number of digits from which a reference is taken for the
// beginning of an id and not for a number.
const PrefixLength = 8

// ParseRef parses a number and an optional part. ok is false if ref does not
// begin with a number of fewer than PrefixLength digits.
func ParseRef(ref string) (n Number, part string, ok bool) {
	digits, part, _ := strings.Cut(ref, "/")
	if len(digits) >= PrefixLength || digits == "" || digits[0] == '0' {
		return 0, "", false
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	return Number(v), part, err == nil
}

// CheckName returns ErrInvalid for a job's name that can never mean the job, since as a reference, or with
// --after, it means something else. Records of earlier versions may have such names.
func CheckName(name string) error {
	if _, _, ok := ParseRef(name); ok {
		return fmt.Errorf("%q: a number always means the job with that number, so this name could never be used: choose another: %w", name, ErrInvalid)
	}
	if name == "@last" {
		return fmt.Errorf("%q: it always means the newest job, so this name could never be used: choose another: %w", name, ErrInvalid)
	}
	if strings.HasPrefix(name, "run:") || strings.HasSuffix(name, ":any") {
		return fmt.Errorf("%q: --after reads run:RUN as the last jobs of a run, and JOB:any as a job's end of any kind, so this name could never be used there: choose another: %w", name, ErrInvalid)
	}
	return nil
}

// number assigns numbers to new jobs. The jobs of a run share a number, and so
// do all jobs that belong to no run.
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

// numbers returns the number of each job: one number for each group, counted
// from last. A job without a typable part gets its position in the group as its
// part, unless it is alone in the group.
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
		if size[g] > 1 {
			parts[i] = PartAt(parts[i], place[g])
		}
		out[i] = number[g]
	}
	return out
}

// PartAt returns what a job is called among those that share its number: part or, if that is not typable, its
// place among them, from 1.
func PartAt(part string, place int) string {
	if part == "" || !typable(part) {
		return strconv.Itoa(place)
	}
	return part
}

// typable reports whether part is one word in a shell and harmless on a
// terminal. The submitter who chooses a part need not be the user who reads it.
func typable(part string) bool {
	const most = 64
	return len(part) <= most && !strings.ContainsFunc(part, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-+@:/", r)
	})
}

// part returns the node of a run's job. A job that another job submitted
// belongs to that job's run but is no node of it.
func (o Origin) part() string {
	if o.Parent != "" {
		return ""
	}
	return o.Node
}

// NumberAll assigns numbers to the jobs that have none because an earlier
// version enqueued them, in order of creation. The jobs of a run share a
// number; those that one of its jobs submitted share another.
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

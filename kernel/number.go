package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// ParseRef is the number and the part that ref names. It is false where ref does
// not begin with a number; digits are a number up to seven of them, and the
// beginning of an id from there on.
func ParseRef(ref string) (n Number, part string, ok bool) {
	const most = 7
	digits, part, _ := strings.Cut(ref, "/")
	if len(digits) > most || digits == "" || digits[0] == '0' {
		return 0, "", false
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	return Number(v), part, err == nil && digits[0] != '+'
}

// number gives new jobs their numbers. The jobs of a run
// share one, and so do all that belong to none.
func (s *Snapshot) number(jobs []NewJob, into []Job) error {
	last := s.last
	of := map[RunID]Number{}
	size := map[Number]int{}
	for i := range into {
		run := into[i].Spec.Origin.Run
		if of[run] == 0 {
			last++
			of[run] = last
		}
		into[i].Number = of[run]
		size[of[run]]++
	}
	place, taken := map[Number]int{}, map[string]bool{}
	for i := range into {
		j := &into[i]
		place[j.Number]++
		j.Part = cmp.Or(jobs[i].Part, j.Spec.Origin.partOf(j.Spec.Origin.Parent == ""))
		if j.Part == "" && size[j.Number] > 1 {
			j.Part = strconv.Itoa(place[j.Number])
		}
		if ref := j.Ref(); taken[ref] {
			return fmt.Errorf("enqueue: two jobs are called %s: name the others by a ref as well: %w", ref, ErrInvalid)
		}
		taken[j.Ref()] = true
	}
	return nil
}

// partOf is the node of a run's job. A job that another one submitted belongs to
// its run and is no node of it.
func (o Origin) partOf(own bool) string {
	if own {
		return o.Node
	}
	return ""
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
	of := func(j *Job) group {
		if o := &j.Spec.Origin; o.Run != "" || o.Parent != "" {
			return group{run: o.Run, parent: o.Parent}
		}
		return group{alone: j.ID}
	}
	var p Plan
	last := s.last
	numbers, size := map[group]Number{}, map[group]int{}
	for _, j := range s.jobs {
		if j.Number == 0 {
			size[of(j)]++
		}
	}
	place := map[group]int{}
	for _, j := range s.jobs {
		if j.Number != 0 {
			continue
		}
		g := of(j)
		if numbers[g] == 0 {
			last++
			numbers[g] = last
		}
		place[g]++
		part := j.Spec.Origin.partOf(j.Spec.Origin.Parent == "")
		if part == "" && size[g] > 1 {
			part = strconv.Itoa(place[g])
		}
		p.add(NumberJob{j.ID, j.Rev, numbers[g], part})
	}
	return p
}

// Numbered are the jobs that a number names, in schedule order.
func (s *Snapshot) Numbered(n Number) []*Job {
	s.near.require(Near{Kind: OfNumber, Number: n})
	return slices.DeleteFunc(slices.Clone(s.jobs), func(j *Job) bool { return j.Number != n })
}

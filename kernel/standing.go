package kernel

import "slices"

// Baseline is the claim that a tick makes beside its plan: the states that the
// plan leads to are as a tick leaves them, with these facts and in this graph.
type Baseline struct {
	graph   *graph
	facts   *Facts
	jobs    []*Job // that the tick judged
	records []RecordAction
	wrote   []write // of records, in schedule order
}

// write is a PutState: of the job at a position, as one of a plan's records.
type write struct{ job, record int32 }

// Remember is s with what its next tick may rely on: that b's judged the same
// jobs, and what is otherwise since. Nothing, where s has other jobs.
func (s *Snapshot) Remember(b *Baseline) *Snapshot {
	if b == nil || b.graph != s.graph {
		return s
	}
	next := *s
	next.stood, next.moved = b.facts, b.against(s.jobs)
	return &next
}

// against is which of jobs are in another state than the claim is about.
func (c *Baseline) against(jobs []*Job) []int32 {
	var others []int32
	wrote := c.wrote
	for i, j := range jobs {
		switch {
		case len(wrote) > 0 && wrote[0].job == int32(i):
			if j.State != c.records[wrote[0].record].(PutState).State {
				others = append(others, int32(i))
			}
			wrote = wrote[1:]
		case j != c.jobs[i] && j.State != c.jobs[i].State:
			others = append(others, int32(i))
		}
	}
	return others
}

// listed are the statuses whose jobs a tick, its probes or its wakes go
// through: there may be few of them among many.
var listed = [...]Status{Queued, WaitingOnLocks, Running, FailedRetryable}

// list makes the lists of s anew.
func (s *Snapshot) list() {
	s.in = [FailedRetryable + 1][]int32{}
	for i, j := range s.jobs {
		if st := j.State.Status; slices.Contains(listed[:], st) {
			s.in[st] = append(s.in[st], int32(i))
		}
	}
}

// moves is s, a copy of was, after the states of some jobs were replaced.
func (s *Snapshot) moves(was *Snapshot, which []int32) {
	if len(which) == 0 {
		return
	}
	slices.Sort(which)
	which = slices.Compact(which)
	if s.stood != nil {
		s.moved = slices.Concat(s.moved, which)
	}
	for _, st := range listed {
		here := func(i int32) bool { return s.jobs[i].State.Status == st }
		if slices.ContainsFunc(which, func(i int32) bool { return here(i) != (was.jobs[i].State.Status == st) }) {
			s.in[st] = relisted(s.in[st], which, here)
		}
	}
}

// relisted is list, where those of which are in it that are here.
func relisted(list, which []int32, here func(int32) bool) []int32 {
	out := make([]int32, 0, len(list)+len(which))
	for _, i := range list {
		for len(which) > 0 && which[0] < i {
			if here(which[0]) {
				out = append(out, which[0])
			}
			which = which[1:]
		}
		if len(which) == 0 || which[0] != i {
			out = append(out, i)
		}
	}
	for _, i := range which {
		if here(i) {
			out = append(out, i)
		}
	}
	return out
}

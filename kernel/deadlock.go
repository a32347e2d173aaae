package kernel

import (
	"fmt"
	"slices"
	"strings"
)

// Cycle is a cycle of jobs that wait for each other. None of them can start.
type Cycle struct {
	Jobs  []JobID    // the first job is repeated at the end
	Lacks []Artifact // what a job of the cycle needs and nothing makes that does not wait for it; none: they only run after each other
	Frees Remedy     // what makes the first of Lacks
	Text  string     // the jobs with their names
}

// DeadlockError is the refusal of a retry after which jobs would wait for each other. It is an ErrConflict.
type DeadlockError struct {
	Of    JobID // the job that was to be retried
	Cycle Cycle
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("cannot retry %s: jobs would wait for each other in a %s; %s first", e.Of, e.Cycle.Text, e.Cycle.Freed())
}

// Freed says what frees the jobs of c, which lack an artifact.
func (c *Cycle) Freed() string {
	if c.Frees.Kind == RetryJob {
		return "retry job " + string(c.Frees.Job)
	}
	return "enqueue another job that makes " + c.Frees.Artifact.String()
}

// Unwrap returns ErrConflict.
func (e *DeadlockError) Unwrap() error { return ErrConflict }

// Cycles returns the cycles among the open jobs. Each job that is in some cycle is in one
// of the returned ones. One that only runs through Spec.After exists if a record was
// edited by hand; one that lacks an artifact may come of the end of another producer.
func (s *Snapshot) Cycles() (all []Cycle) {
	s.requireAll()
	from := make([]int32, len(s.jobs))
	for i := range s.jobs {
		from[i] = int32(i)
	}
	d := s.deadlock(from, func(*Job) bool { return true }, false)
	for _, i := range from {
		if c := d.cycle(i); c != nil {
			all = append(all, *c)
		}
	}
	return all
}

// deadlock holds the jobs that can never start, since whatever could clear one of their
// conditions waits for a job that cannot start either.
type deadlock struct {
	t       *tick
	stuck   map[int32][]edge // by job: to the jobs that cannot start and would clear a condition of it
	visited map[int32]bool   // by cycle
	called  func(*Job) string
}

// edge leads to a job that another one waits for, to make an artifact or, without one, to end.
type edge struct {
	to    int32
	lacks Artifact
}

// deadlock looks at the open jobs that the jobs of from wait for, directly or not, as far
// as they satisfy in. The others are taken to end one day. An artifact that was not observed
// is taken to be missing if missing is set, else to exist.
func (s *Snapshot) deadlock(from []int32, in func(*Job) bool, missing bool) *deadlock {
	type condition struct {
		of  int32
		any []edge // one of them clears it
		met bool
	}
	t := newTick(s)
	var conditions []*condition
	seen, held := make([]bool, len(s.jobs)), make([]int, len(s.jobs)) // held: by how many conditions
	clears := make([][]*condition, len(s.jobs))                       // those that the end of a job clears
	var free []int32
	waits := func(i int32) bool {
		st := t.status(i)
		return !st.Terminal() && st != Running && in(s.jobs[i])
	}
	queue := slices.Clone(from)
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if seen[i] || !waits(i) {
			continue
		}
		seen[i] = true
		t.eachCondition(i, missing, func(any []edge) {
			if slices.ContainsFunc(any, func(e edge) bool { return !waits(e.to) }) {
				return
			}
			c := &condition{of: i, any: any}
			conditions = append(conditions, c)
			held[i]++
			for _, e := range any {
				clears[e.to] = append(clears[e.to], c)
				queue = append(queue, e.to)
			}
		})
		if held[i] == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		for _, c := range clears[i] {
			if !c.met {
				c.met = true
				if held[c.of]--; held[c.of] == 0 {
					free = append(free, c.of)
				}
			}
		}
	}
	d := &deadlock{t: t, stuck: map[int32][]edge{}, visited: map[int32]bool{}, called: (*Job).byID}
	for _, c := range conditions {
		if !c.met {
			d.stuck[c.of] = append(d.stuck[c.of], c.any...)
		}
	}
	return d
}

// eachCondition calls f for each job that i runs after and that has not ended, and for each
// artifact that i needs, that does not exist and that open jobs may make: with the jobs of
// which one has to end. See deadlock for missing.
func (t *tick) eachCondition(i int32, missing bool, f func(any []edge)) {
	for _, id := range t.s.jobs[i].Spec.After {
		if k, ok := t.s.find(id); ok && !t.status(k).Terminal() {
			f([]edge{{to: k}})
		}
	}
	for _, id := range t.s.jobs[i].Spec.AfterAny {
		if k := t.sender(i, id); k >= 0 {
			f([]edge{{to: k}})
		}
	}
	for _, a := range t.s.jobs[i].Spec.Needs {
		if n, _, _ := t.need(i, a); n != producing && !(missing && n == unknown) {
			continue
		}
		var makers []edge
		list, own := t.s.graph.producersFor(i, a)
		for _, p := range list {
			if p != i && (own || !t.s.jobs[p].State.Retired && !t.s.forAnother(p, i, a)) && !t.status(p).Terminal() {
				makers = append(makers, edge{p, a})
			}
		}
		if len(makers) > 0 {
			f(makers)
		}
	}
}

// cycle returns a cycle that job i is in or leads to, or nil. It passes over the jobs that an
// earlier call has visited.
func (d *deadlock) cycle(i int32) *Cycle {
	var path []edge // to each job on the way
	var visit func(e edge) []edge
	visit = func(e edge) []edge {
		if d.visited[e.to] {
			if at := slices.IndexFunc(path, func(p edge) bool { return p.to == e.to }); at >= 0 {
				return append(slices.Clone(path[at+1:]), e)
			}
			return nil
		}
		d.visited[e.to] = true
		path = append(path, e)
		defer func() { path = path[:len(path)-1] }()
		for _, next := range d.stuck[e.to] {
			if found := visit(next); found != nil {
				return found
			}
		}
		return nil
	}
	found := visit(edge{to: i})
	if found == nil {
		return nil
	}
	return d.describe(found)
}

// describe returns the cycle of edges that ends where it began.
func (d *deadlock) describe(edges []edge) *Cycle {
	s := d.t.s
	name := func(i int32) string { return d.called(s.jobs[i]) }
	at := edges[len(edges)-1].to
	c := &Cycle{Jobs: []JobID{s.jobs[at].ID}}
	names, needs := []string{name(at)}, []string{}
	for _, e := range edges {
		if e.lacks != (Artifact{}) {
			if c.Lacks == nil {
				c.Frees = d.t.frees(at, e.lacks)
			}
			c.Lacks = append(c.Lacks, e.lacks)
			needs = append(needs, name(at)+" needs "+e.lacks.String()+" of "+name(e.to))
		}
		at = e.to
		c.Jobs, names = append(c.Jobs, s.jobs[at].ID), append(names, name(at))
	}
	if c.Text = "--after cycle: " + strings.Join(names, " -> "); len(needs) > 0 {
		c.Text = "cycle: " + strings.Join(names, " -> ") + " (" + strings.Join(needs, ", ") + ")"
	}
	return c
}

// frees returns what makes artifact a for job i where only jobs that wait for i may make it now: a new
// job or, if only producers of i's run count, a retry of one that does not wait for i.
func (t *tick) frees(i int32, a Artifact) Remedy {
	list, own := t.s.graph.producersFor(i, a)
	for _, p := range list {
		if own && p != i && t.status(p).Terminal() && !t.s.behind([]int32{p}, i) {
			return Remedy{Kind: RetryJob, Job: t.s.jobs[p].ID}
		}
	}
	r := Remedy{Kind: ProduceArtifact, Artifact: a}
	if j := t.s.jobs[i]; j.Spec.mergesBy(a) && j.Spec.Origin.Branch != "draft/"+j.Spec.Integrates() {
		r.Pinned.Branch = j.Spec.Origin.Branch
	}
	return r
}

// behind reports whether one of jobs depends on job i, directly or not.
func (s *Snapshot) behind(jobs []int32, i int32) bool {
	return slices.Contains(s.graph.closure(jobs, func(k int32, f func(int32)) {
		if k != i {
			s.graph.eachPredecessor(k, f)
		}
	}), i)
}

func (j *Job) byID() string { return j.with(string(j.ID)) }

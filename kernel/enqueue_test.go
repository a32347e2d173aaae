package kernel_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// fresh returns a job to be enqueued.
func fresh(id kernel.JobID, options ...option) kernel.NewJob {
	j := job(id, options...)
	return kernel.NewJob{ID: id, Spec: j.Spec, Approval: j.State.Approval, Context: j.State.Context}
}

func TestEnqueue(t *testing.T) {
	s := snapshot(facts(), job("p"))
	n := fresh("q", after("r", "p", "r"), locks(excl("k"), excl("k"), shared("k")))
	n.Spec.Needs = []kernel.Artifact{{Kind: kernel.PlanDoc, Name: "foo"}, {Kind: kernel.PlanDoc, Name: "foo", Ref: "draft/foo"}, {Kind: kernel.TargetBranch, Name: "main"}}
	n.Spec.Produces = []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "foo"}}
	n.Approval, n.Context = kernel.Require(t0, "bob"), kernel.Context{Root: "w"}
	p, err := kernel.Enqueue(s, []kernel.NewJob{n, fresh("r", transient(kernel.Remove)), fresh("u", routed)})
	if err != nil {
		t.Fatal(err)
	}
	next := s.Apply(p)
	q := *next.Job("q")
	want := job("q", after("p", "r"), needs("plan_doc:foo", "target_branch:main"), produces("plan_branch:foo"), locks(excl("k"), shared("k")))
	want.Number, want.Part = 1, "1"
	want.Created, want.State.Approval, want.State.Context = s.Now(), kernel.Require(t0, "bob"), kernel.Context{Root: "w"}
	want.Spec.Configured = &kernel.Configured{MaxRunning: s.Limits().MaxRunning}
	if !reflect.DeepEqual(q, want) {
		t.Errorf("got %+v\nwant %+v", q, want)
	}
	for _, id := range []kernel.JobID{"r", "u"} {
		if st := next.Job(id).State.Status; st != kernel.Unscheduled {
			t.Errorf("%s is %s", id, st)
		}
	}
	if len(p.Actions()) != 3 || len(next.Jobs()) != 4 {
		t.Errorf("%+v", p)
	}
	if q, r := next.Predecessors("q"), next.Successors("r"); words(q) != "p r" || words(r) != "q" {
		t.Errorf("predecessors %v, successors %v", q, r)
	}
}

// The record of a job names the pools that it asks for, once and by name, with their sizes then.
func TestTheConfigurationThatConcernedAJob(t *testing.T) {
	s := kernel.NewSnapshot(kernel.Observation{Now: t0, Facts: facts(), Limits: kernel.Limits{MaxRunning: 7, Grace: time.Minute,
		Executors: map[string]int{"far": 3}, Pools: map[string]int{"gpu": 4, "disk": 2, "other": 9}}})
	for executor, most := range map[string]int{"": 7, "far": 3, "unlimited": 0} {
		n := fresh("q", locks(pool("gpu", 1), excl("key"), pool("disk", 2), pool("gpu", 2)))
		n.Spec.Task.Executor = executor
		p, err := kernel.Enqueue(s, []kernel.NewJob{n})
		if err != nil {
			t.Fatal(err)
		}
		want := &kernel.Configured{MaxRunning: most, Grace: time.Minute, Pools: []kernel.Capacity{{Pool: "disk", Units: 2}, {Pool: "gpu", Units: 4}}}
		if got := s.Apply(p).Job("q").Spec.Configured; !reflect.DeepEqual(got, want) {
			t.Errorf("on %q: %+v, want %+v", executor, got, want)
		}
	}
}

// A job's requests for one pool are added up, equal ones too, and only those: a lock of the same name is another thing. A
// job on record whose requests were kept apart is the same as one that asks for their sum.
func TestRequestsForOnePoolAreAddedUp(t *testing.T) {
	most := kernel.Limits{Pools: map[string]int{"gpu": 4, "all": math.MaxInt}}
	for _, c := range []struct{ asked, want []kernel.Lock }{
		{[]kernel.Lock{pool("gpu", 1), excl("gpu"), pool("gpu", 1), pool("disk", 1), excl("gpu")}, []kernel.Lock{pool("gpu", 2), excl("gpu"), pool("disk", 1)}},
		{[]kernel.Lock{pool("gpu", 1), pool("gpu", 2)}, []kernel.Lock{pool("gpu", 3)}},
		{[]kernel.Lock{pool("gpu", 2), pool("gpu", 2), pool("gpu", 1)}, nil},
		{[]kernel.Lock{pool("gpu", math.MaxInt), pool("gpu", math.MaxInt)}, nil},
		{[]kernel.Lock{pool("all", math.MaxInt), pool("all", 1)}, []kernel.Lock{pool("all", math.MaxInt)}},
	} {
		key := func(j *kernel.Job) { j.Spec.IdempotencyKey = "k" }
		s := kernel.NewSnapshot(kernel.Observation{Now: t0, Facts: facts(), Limits: most})
		p, err := kernel.Enqueue(s, []kernel.NewJob{fresh("q", locks(c.asked...))})
		if c.want == nil {
			if !errors.Is(err, kernel.ErrInvalid) {
				t.Errorf("%v: %v", c.asked, err)
			}
			continue
		}
		if q := s.Apply(p).Job("q"); err != nil || !slices.Equal(q.Spec.Locks, c.want) {
			t.Errorf("%v: %+v, %v", c.asked, q, err)
		}
		s = kernel.NewSnapshot(kernel.Observation{Now: t0, Facts: facts(), Limits: most, Jobs: []kernel.Job{job("old", locks(c.asked...), key)}})
		if m, err := kernel.Merge(s, []kernel.NewJob{fresh("q", locks(c.asked...), key)}, "ann"); err != nil || m.Same["q"] != "old" {
			t.Errorf("%v: %+v, %v", c.asked, m, err)
		}
	}
}

// Semantics 3.1: all or nothing, and the error names the first problem.
func TestEnqueueRefusals(t *testing.T) {
	const x, y = "custom:t:x", "custom:t:y"
	bad := func(a kernel.Artifact) option { return func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{a} } }
	for _, c := range []struct {
		name string
		news []kernel.NewJob
		err  error
		text string
	}{
		{"no id", []kernel.NewJob{fresh("a"), fresh("")}, kernel.ErrInvalid, "empty job id"},
		{"id of a job", []kernel.NewJob{fresh("p")}, kernel.ErrConflict, "job id p is taken"},
		{"id of an unreadable record", []kernel.NewJob{fresh("torn")}, kernel.ErrConflict, "job id torn is taken"},
		{"id twice", []kernel.NewJob{fresh("a"), fresh("a")}, kernel.ErrConflict, "job id a is taken"},
		{"unknown", []kernel.NewJob{fresh("a", after("nobody"))}, kernel.ErrNotFound, "unknown --after job id: nobody"},
		{"empty", []kernel.NewJob{fresh("a", after(" "))}, kernel.ErrNotFound, "unknown --after job id: <empty>"},
		{"self", []kernel.NewJob{fresh("a", after("a"))}, kernel.ErrInvalid, "invalid --after self dependency: a"},
		{"unreadable", []kernel.NewJob{fresh("a", after("torn"))}, kernel.ErrInvalid, "cannot read job record for --after torn: bad json"},
		{"cycle", []kernel.NewJob{fresh("a", after("b")), fresh("b", after("c")), fresh("c", after("a"))}, kernel.ErrInvalid, "invalid --after cycle: a -> b -> c -> a"},
		{"cycle beside a chain", []kernel.NewJob{fresh("a", after("b")), fresh("b", after("c")), fresh("c", after("b"))}, kernel.ErrInvalid, "invalid --after cycle: b -> c -> b"},
		{"artifact cycle", []kernel.NewJob{fresh("a", needs(x), produces(y)), fresh("b", needs(y), produces(x))}, kernel.ErrInvalid, "invalid cycle: a -> b -> a (a needs custom:t:x of b, b needs custom:t:y of a)"},
		{"mixed cycle", []kernel.NewJob{fresh("a", needs(x)), fresh("b", produces(x), after("a"))}, kernel.ErrInvalid, "a -> b -> a"},
		{"cycle with an old job", []kernel.NewJob{fresh("a", after("old"), produces(x))}, kernel.ErrInvalid, "cycle: the new job -> old -> the new job (old needs custom:t:x of the new job)"},
		{"a name in a cycle with an old job", []kernel.NewJob{fresh("a", after("old"), produces(x), func(j *kernel.Job) { j.Spec.Name = "draft" })}, kernel.ErrInvalid, "cycle: the new job (draft) -> old -> the new job (draft)"},
		{"nodes in a cycle", []kernel.NewJob{fresh("a", after("old"), produces(x), func(j *kernel.Job) { j.Spec.Origin.Node = "one" }), fresh("b")}, kernel.ErrInvalid, "node one: invalid cycle: node one -> old -> node one"},
		{"names in a cycle", []kernel.NewJob{fresh("a", after("b"), func(j *kernel.Job) { j.Spec.Name = "draft" }), fresh("b", after("a"))}, kernel.ErrInvalid, "a (draft) -> b -> a (draft)"},
		{"bad need", []kernel.NewJob{fresh("a", bad(kernel.Artifact{Kind: kernel.Custom, Name: "t"}))}, kernel.ErrInvalid, "need: artifact"},
		{"bad lock", []kernel.NewJob{fresh("a", locks(excl(" ")))}, kernel.ErrInvalid, "lock"},
		{"pool too large", []kernel.NewJob{fresh("a", locks(pool("gpu", 3)))}, kernel.ErrInvalid, "pool gpu has 2 of the 3 units asked for"},
		{"pools too large together", []kernel.NewJob{fresh("a", locks(pool("gpu", 2), kernel.Lock{Key: "gpu", Units: 1}))}, kernel.ErrInvalid, "pool gpu has 2 of the 3 units asked for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := kernel.NewSnapshot(kernel.Observation{Now: t0, Facts: marked(marked(facts(), x), y), Limits: kernel.Limits{Pools: map[string]int{"gpu": 2}},
				Unreadable: map[kernel.JobID]string{"torn": "bad json"}, Jobs: []kernel.Job{job("p"), job("old", needs(x))}})
			p, err := kernel.Enqueue(s, c.news)
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %s", err, c.text)
			}
			if len(p.Actions()) > 0 {
				t.Errorf("and yet it plans %+v", p.Actions())
			}
		})
	}
}

// The search for cycles visits edges, not paths, of which there are 2^60 here.
func TestEnqueueALadder(t *testing.T) {
	news := []kernel.NewJob{fresh("a00"), fresh("b00")}
	for i := 1; i < 60; i++ {
		rung := after(kernel.JobID(fmt.Sprintf("a%02d", i-1)), kernel.JobID(fmt.Sprintf("b%02d", i-1)))
		news = append(news, fresh(kernel.JobID(fmt.Sprintf("a%02d", i)), rung), fresh(kernel.JobID(fmt.Sprintf("b%02d", i)), rung))
	}
	if _, err := kernel.Enqueue(snapshot(facts()), news); err != nil {
		t.Error(err)
	}
}

// An artifact that exists closes no cycle: two jobs may renew each other's
// artifacts.
func TestAPresentArtifactClosesNoCycle(t *testing.T) {
	const x, y = "custom:t:x", "custom:t:y"
	s := snapshot(marked(marked(facts(), x, "gone"), y))
	if _, err := kernel.Enqueue(s, []kernel.NewJob{fresh("a", needs(x), produces(y)), fresh("b", needs(y), produces(x))}); err != nil {
		t.Error(err)
	}
	// Nor does a job that has ended.
	s = snapshot(marked(facts(), x), job("old", is(kernel.Failed), needs(x)))
	if _, err := kernel.Enqueue(s, []kernel.NewJob{fresh("a", after("old"), produces(x))}); err != nil {
		t.Error(err)
	}
}

package kernel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func keyed(key string) option { return func(j *kernel.Job) { j.Spec.IdempotencyKey = key } }

func limits(b kernel.Budget) option { return func(j *kernel.Job) { j.Spec.Budget = b } }

// merged merges, enqueues and ticks, and returns the outcome with the plan that
// led there.
func merged(t *testing.T, s *kernel.Snapshot, news ...kernel.NewJob) (kernel.Merged, *kernel.Snapshot, kernel.Plan) {
	t.Helper()
	m, err := kernel.Merge(s, news, "ann")
	if err != nil {
		t.Fatal(err)
	}
	p, err := kernel.Enqueue(s.Apply(m.Plan), m.New)
	if err != nil {
		t.Fatal(err)
	}
	p = m.Plan.Then(p)
	p = p.Then(kernel.Decide(s.Apply(p)))
	return m, s.Apply(p), p
}

// X05: the same job twice in one batch is one job, and successors of either run
// after it.
func TestOneKeyTwiceInABatch(t *testing.T) {
	m, after, _ := merged(t, snapshot(facts()), fresh("c", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{"a", "b"} }),
		fresh("a", keyed("k"), transient(kernel.Remove)), fresh("b", keyed("k"), transient(kernel.OnDemand), limits(kernel.Budget{Retries: 3})))
	if len(m.Same) != 1 || m.Same["b"] != "a" || after.Job("b") != nil {
		t.Fatalf("%+v", m)
	}
	if c := after.Job("c").Spec.After; len(c) != 1 || c[0] != "a" {
		t.Errorf("c runs after %v", c)
	}
	if a := after.Job("a"); a.Transient() != kernel.OnDemand || a.Budget().Retries != 3 || a.State.Status != kernel.Running {
		t.Errorf("%+v", a)
	}
}

// What is written in another order or twice is the same job in a batch too.
func TestOneKeyTwiceInABatchOfJobsWrittenDifferently(t *testing.T) {
	one := fresh("a", keyed("k"), needs("plan_doc:p", "custom:t:x", "plan_doc:p"))
	two := fresh("b", keyed("k"), needs("plan_doc:p (draft/p)", "custom:t:x"))
	m, s, _ := merged(t, snapshot(facts()), one, two)
	if a := s.Job("a"); len(m.Same) != 1 || m.Same["b"] != "a" || words(labelsOf(a.Spec.Needs)) != "plan_doc:p (draft/p) custom:t:x" {
		t.Errorf("%+v, needs %v", m, a.Spec.Needs)
	}
	if _, err := kernel.Merge(snapshot(facts()), []kernel.NewJob{one, fresh("b", keyed("k"), needs("custom:t:y"))}, "ann"); !errors.Is(err, kernel.ErrConflict) {
		t.Errorf("another job: %v", err)
	}
}

// A job that has succeeded does not run again for a submission. If its files were removed, and what is submitted is not
// transient, that is said.
func TestNotesOfResubmissions(t *testing.T) {
	gone := func(j *kernel.Job) { j.State.Removed = t0 }
	for _, c := range []struct {
		was, now []option
		want     kernel.NotRun
	}{
		{[]option{is(kernel.Succeeded)}, nil, kernel.NotRun{}},
		{[]option{is(kernel.Succeeded), gone}, nil, kernel.NotRun{Status: kernel.Succeeded, Removed: true}},
		{[]option{is(kernel.Succeeded), gone, transient(kernel.Remove)}, []option{transient(kernel.OnDemand)}, kernel.NotRun{}},
		{[]option{is(kernel.Cancelled), gone}, nil, kernel.NotRun{Status: kernel.Cancelled, Removed: true}},
		{[]option{is(kernel.Cancelled), gone, transient(kernel.OnDemand)}, []option{transient(kernel.OnDemand)}, kernel.NotRun{Status: kernel.Cancelled}},
		{[]option{is(kernel.Running), gone}, nil, kernel.NotRun{}},
	} {
		m, err := kernel.Merge(snapshot(facts(), job("a", append(c.was, keyed("k"))...)), []kernel.NewJob{fresh("b", append(c.now, keyed("k"))...)}, "ann")
		if err != nil || m.Note["a"] != c.want {
			t.Errorf("%+v, %v, want %+v", m.Note["a"], err, c.want)
		}
	}
}

func labelsOf(in []kernel.Artifact) (out []string) {
	for _, a := range in {
		out = append(out, a.String())
	}
	return out
}

// X06: an active job is not started again. X07: a job that has succeeded is not
// changed at all.
func TestAResubmittedJobIsTheOneThereWas(t *testing.T) {
	for _, st := range []option{is(kernel.WaitingOnDeps), running(1), is(kernel.Succeeded), is(kernel.Cancelled), is(kernel.BlockedByDependency), due(kernel.ExitFailure)} {
		old := job("a", keyed("k"), after("z"), st)
		m, _, p := merged(t, snapshot(facts(), old, job("z", running(1))), fresh("b", keyed("k"), after("z")))
		if m.Same["b"] != "a" || len(m.Plan.Actions()) > 0 {
			t.Errorf("%s: %+v", old.State.Status, m)
		}
		if len(actionsOf[kernel.CreateJob](p))+len(actionsOf[kernel.Launch](p)) > 0 && old.State.Status != kernel.FailedRetryable {
			t.Errorf("%s: %+v", old.State.Status, p.Actions())
		}
		if wantNote := old.State.Status == kernel.Cancelled || old.State.Status == kernel.BlockedByDependency; (m.Note["a"] != (kernel.NotRun{})) != wantNote {
			t.Errorf("%s: note %+v", old.State.Status, m.Note["a"])
		}
	}
}

// X21: a submission that is not transient runs a transient job. X22: a
// transient one over remove keeps the files and still does not run the job. In
// the other order nothing changes.
func TestTheMoreConservativeModeCounts(t *testing.T) {
	for _, c := range []struct {
		was, now, want kernel.Transient
		status         kernel.Status
	}{
		{kernel.OnDemand, kernel.NotTransient, kernel.NotTransient, kernel.Running},
		{kernel.Remove, kernel.NotTransient, kernel.NotTransient, kernel.Running},
		{kernel.Remove, kernel.OnDemand, kernel.OnDemand, kernel.Unscheduled},
		{kernel.OnDemand, kernel.Remove, kernel.OnDemand, kernel.Unscheduled},
	} {
		s := snapshot(facts(), sleeper("a", keyed("k"), transient(c.was)))
		_, next, p := merged(t, s, fresh("b", keyed("k"), transient(c.now)))
		a := next.Job("a")
		if a.Transient() != c.want || a.State.Status != c.status {
			t.Errorf("%s over %s: %s, %s", c.now, c.was, a.Transient(), a.State.Status)
		}
		if told := tell(s, p); strings.Contains(told, "a job.promoted") != (c.status == kernel.Running) {
			t.Errorf("%s over %s: %s", c.now, c.was, told)
		}
		if c.now > c.was && len(p.Actions()) > 0 {
			t.Errorf("%s over %s: %+v", c.now, c.was, p.Actions())
		}
		// A rewind forgets what happened, not what was asked for.
		back, err := kernel.Retry(snapshot(facts(), func() kernel.Job { j := *a; j.State.Status = kernel.Succeeded; return j }()), "a", "ann")
		if err != nil {
			t.Fatal(err)
		}
		if put := actionsOf[kernel.PutState](back); len(put) != 1 || (put[0].State.Status == kernel.Queued) != (c.want == kernel.NotTransient) {
			t.Errorf("%s over %s, rewound: %+v", c.now, c.was, put)
		}
	}
}

// X13 and C29: a job that has used up its budget stays failed unless the new
// submission has a larger one.
func TestALargerLimitRevives(t *testing.T) {
	old := job("a", keyed("k"), is(kernel.Failed), limits(kernel.Budget{Resumes: 1}), func(j *kernel.Job) {
		j.State.Attempt, j.State.Spent.Resumes, j.State.Failure = 2, 1, kernel.Timeout
	})
	s := snapshot(facts(), old, job("d", after("a"), is(kernel.BlockedByDependency)))
	m, _, p := merged(t, s, fresh("b", keyed("k"), limits(kernel.Budget{Resumes: 1})))
	if len(p.Actions()) > 0 || m.Note["a"] != (kernel.NotRun{Status: kernel.Failed}) {
		t.Errorf("%+v %+v", p.Actions(), m.Note["a"])
	}
	m, next, p := merged(t, s, fresh("b", keyed("k"), limits(kernel.Budget{Resumes: 2})))
	a := next.Job("a")
	if a.State.Status != kernel.Running || a.State.Attempt != 3 || a.State.Generation != 1 || a.Budget().Resumes != 2 || m.Note["a"] != (kernel.NotRun{}) {
		t.Errorf("%+v", a.State)
	}
	if st := next.Job("d").State.Status; st != kernel.WaitingOnDeps || a.Rev != 2 {
		t.Errorf("what depends on it is %s, revision %d", st, a.Rev)
	}
	if got, want := tell(s, p), "a job.rewound 2\na job.running 3\nd job.rewound"; got != want {
		t.Errorf("%s", got)
	}
	s = snapshot(facts(), old, job("d", after("a"), running(1)))
	if _, err := kernel.Merge(s, []kernel.NewJob{fresh("b", keyed("k"), limits(kernel.Budget{Resumes: 2}))}, "ann"); !errors.Is(err, kernel.ErrRunning) {
		t.Errorf("%v", err)
	}
}

// A budget of retries comes with the failures that it is for: a job that was
// submitted without either is retried as the later submission asks.
func TestALargerLimitComesWithItsFailures(t *testing.T) {
	retried := func(n int, classes ...kernel.FailureClass) option {
		return func(j *kernel.Job) {
			j.Spec.Budget.Retries = n
			for _, c := range classes {
				j.Spec.Retry = j.Spec.Retry.On(c)
			}
		}
	}
	for name, first := range map[string]option{"none": retried(0), "another": retried(1, kernel.Timeout)} {
		_, next, _ := merged(t, snapshot(facts(), job("a", keyed("k"), running(1), first)), fresh("b", keyed("k"), retried(2, kernel.ExitFailure)))
		a := next.Job("a")
		if a.Budget().Retries != 2 || !a.Retry().Covers(kernel.ExitFailure, 1) || a.Retry().Covers(kernel.Timeout, 124) != (name == "another") {
			t.Fatalf("%s: %+v, retried on %+v", name, a.Budget(), a.Retry())
		}
		p, err := kernel.Finish(next, kernel.Result{Attempt: a.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure})
		if err != nil {
			t.Fatal(err)
		}
		if st := next.Apply(p).Job("a").State.Status; st != kernel.FailedRetryable {
			t.Errorf("%s: it ended as %s", name, st)
		}
	}
}

// One key for two different jobs is an error, and neither is enqueued.
func TestOneKeyForDifferentJobs(t *testing.T) {
	args := func(a ...string) option { return func(j *kernel.Job) { j.Spec.Task.Args = a } }
	s := snapshot(facts(), job("a", keyed("k"), needs("custom:t:x")), job("z"))
	for _, c := range []struct {
		news []kernel.NewJob
		want string
	}{
		{[]kernel.NewJob{fresh("b", keyed("k"), needs("custom:t:x"), args("false"), locks(excl("l")))}, `key "k" is that of job a, which differs in command, lock or pool`},
		{[]kernel.NewJob{fresh("b", keyed("k"), after("z"))}, "differs in after, need"},
		{[]kernel.NewJob{fresh("b", keyed("k"), needs("custom:t:x"), approval(kernel.Pending, ""))}, "differs in approval"},
		{[]kernel.NewJob{fresh("b", keyed("k"), needs("custom:t:x"), func(j *kernel.Job) { j.Spec.InDoubt = kernel.AskInDoubt })}, "differs in in_doubt"},
		{[]kernel.NewJob{fresh("b", keyed("n")), fresh("c", keyed("n"), args("x"))}, "is that of job b, which differs in command"},
		{[]kernel.NewJob{fresh("b", keyed("n")), fresh("c", keyed("n"), func(j *kernel.Job) { j.Spec.After = []kernel.JobID{"b"} })}, "differs in after"},
	} {
		m, err := kernel.Merge(s, c.news, "ann")
		if !errors.Is(err, kernel.ErrConflict) && !errors.Is(err, kernel.ErrInvalid) || len(m.Plan.Actions())+len(m.New) > 0 {
			t.Errorf("%v, %+v", err, m)
			continue
		}
		if !strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "self dependency") {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

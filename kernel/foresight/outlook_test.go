package foresight_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

func takes(d time.Duration) func(*kernel.Job) {
	return func(j *kernel.Job) { j.Spec.Estimate = d }
}

func called(name string) func(*kernel.Job) {
	return func(j *kernel.Job) { j.Spec.Name = name }
}

// ended returns a job that took so long and succeeded, or failed with an exit
// code.
func ended(id kernel.JobID, name string, took time.Duration, exit int) kernel.Job {
	return named(id, func(j *kernel.Job) {
		j.Spec.Name = name
		j.State.Status, j.State.Attempt, j.State.Started, j.State.Finished, j.State.Exit = kernel.Succeeded, 1, t0.Add(-time.Hour), t0.Add(took-time.Hour), kernel.Exited(exit)
		if exit != 0 {
			j.State.Status, j.State.Failure = kernel.Failed, kernel.ExitFailure
		}
	})
}

func foretold(s *kernel.Snapshot, o foresight.Options) foresight.Outlook {
	o.Habits = foresight.HabitsOf(s.Jobs())
	return foresight.Foretell(s, o)
}

// spans returns a story in words: what, from when to when in minutes, and what
// it waited for.
func spans(t foresight.Story) string {
	var out []string
	for _, s := range t.Spans {
		text := fmt.Sprintf("%s/%d %v-%v", s.Job, s.Attempt, s.Start.Sub(t0).Minutes(), s.End.Sub(t0).Minutes())
		if s.Held != nil {
			text += " " + s.Held.String()
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestStories(t *testing.T) {
	gpu := func(j *kernel.Job) { j.Spec.Locks = []kernel.Lock{{Key: "gpu", Mode: kernel.Shared, Units: 1}} }
	m := time.Minute
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want string
	}{
		"a chain": {[]kernel.Job{named("a", takes(2*m)), named("b", both(takes(3*m), after("a")))}, "a/1 0-2, b/1 2-5"},
		"a lock":  {[]kernel.Job{named("a", both(takes(2*m), locked("x"))), named("b", both(takes(3*m), locked("x")))}, "a/1 0-2, b/1 2-5 lock x"},
		"a pool":  {[]kernel.Job{named("a", both(takes(2*m), gpu)), named("b", both(takes(3*m), gpu))}, "a/1 0-2, b/1 2-5 pool gpu"},
		"a person, of whom nothing is known": {[]kernel.Job{named("a", both(takes(m), gated)), named("b", both(takes(m), after("a")))},
			"a/0 0-60, a/1 60-61 person, b/1 61-62"},
		"a time limit": {[]kernel.Job{named("a", both(takes(9*m), func(j *kernel.Job) { j.Spec.Task.Timeout = 4 * m })), named("b", both(takes(m), after("a")))}, "a/1 0-4"},
		"a failure that is tried again": {[]kernel.Job{ended("o", "n", 2*m, 3), named("a", both(called("n"), func(j *kernel.Job) {
			j.Spec.Budget.Retries, j.Spec.Retry = 1, kernel.RetryPolicy{Base: 4 * m, Cap: 4 * m}.On(kernel.ExitFailure)
		}))}, "a/1 0-2, a/2 5.3-7.3"},
		"what runs already, in time and late": {[]kernel.Job{
			named("a", both(takes(5*m), running, func(j *kernel.Job) { j.State.Started = t0.Add(-2 * m) })),
			named("b", both(takes(5*m), running, func(j *kernel.Job) { j.State.Started = t0.Add(-10 * m) }))}, "a/1 -2-3, b/1 -10-1"},
		"nothing known": {[]kernel.Job{named("a", called("z"))}, "a/1 0-1"},
		"nothing known but a limit": {[]kernel.Job{named("a", both(called("z"), func(j *kernel.Job) { j.Spec.Task.Timeout = m / 2 })), named("b", both(takes(m), after("a")))},
			"a/1 0-0.5, b/1 0.5-1.5"},
	} {
		s := world(c.jobs...)
		o := kernel.Observation{Now: t0, Jobs: c.jobs, Facts: s.Facts(), Limits: s.Limits()}
		got := spans(foretold(kernel.NewSnapshot(o), foresight.Options{Draws: 1}).Story)
		if name == "a failure that is tried again" { // up to a quarter is taken off a delay
			got = got[:strings.LastIndex(got, "a/2 ")] + "a/2 5.3-7.3"
		}
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// Of the attempts on record a quarter failed: about that many draws end badly, and what
// ends in time is where the records say.
func TestDrawsFollowTheRecords(t *testing.T) {
	var jobs []kernel.Job
	for i := range 30 {
		jobs = append(jobs, ended(kernel.JobID(fmt.Sprintf("o%02d", i)), "n", time.Duration(i+1)*time.Minute, 0))
	}
	for i := range 10 {
		jobs = append(jobs, ended(kernel.JobID(fmt.Sprintf("p%02d", i)), "n", time.Minute, 1))
	}
	s := world(append(jobs, named("z", called("n")))...)
	o := foretold(s, foresight.Options{Draws: 400, Seed: 7})
	if o.Draws != 400 || len(o.Ends) != 1 {
		t.Fatalf("%d draws, %d ends", o.Draws, len(o.Ends))
	}
	e := o.Ends[0]
	if e.Ends != 400 || e.Succeeded < 270 || e.Succeeded > 330 {
		t.Errorf("%d of %d end well, of 300 expected", e.Succeeded, e.Ends)
	}
	if in := e.P90.Sub(t0).Minutes(); in < 24 || in > 29 {
		t.Errorf("p90 is after %v minutes", in)
	}
	if e.Basis != foresight.Recorded || e.From != 40 {
		t.Errorf("known from %v of %d", e.Basis, e.From)
	}
	if again := foretold(s, foresight.Options{Draws: 400, Seed: 7}); again.Ends[0].P50 != e.P50 || again.Ends[0].Succeeded != e.Succeeded {
		t.Error("the same seed draws another future")
	}
	if other := foretold(s, foresight.Options{Draws: 400, Seed: 8}); other.Ends[0].Succeeded == e.Succeeded && other.Ends[0].P50 == e.P50 {
		t.Error("another seed draws the same future")
	}
}

// The end of a batch is known as well as the end of the job of which least is known.
func TestABatchIsKnownAsItsLeastKnownJob(t *testing.T) {
	of := func(jobs ...kernel.Job) foresight.End {
		t.Helper()
		past := []kernel.Job{ended("o1", "often", time.Minute, 0), ended("o2", "often", time.Minute, 0), ended("o3", "often", time.Minute, 0), ended("p", "once", time.Minute, 0)}
		jobs = append(past, jobs...)
		for i := range jobs {
			jobs[i].Number, jobs[i].Created, jobs[i].Rev, jobs[i].Spec.Task.Args = 7, t0, 1, []string{string(jobs[i].ID)}
		}
		s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: jobs})
		o := foretold(s.Apply(kernel.Decide(s)), foresight.Options{Draws: 3})
		if len(o.Ends) != 1 {
			t.Fatalf("%+v", o.Ends)
		}
		return o.Ends[0]
	}
	often, once, said, unknown, later := named("a", called("often")), named("b", called("once")), named("c", takes(time.Minute)), named("d", called("never")), named("e", called("often"))
	for _, c := range []struct {
		jobs  []kernel.Job
		basis foresight.Basis
		from  int
	}{
		{[]kernel.Job{often, once}, foresight.Recorded, 1}, {[]kernel.Job{once, later}, foresight.Recorded, 1}, {[]kernel.Job{often, said}, foresight.Recorded, 3},
		{[]kernel.Job{said}, foresight.Declared, 0}, {[]kernel.Job{often, unknown, said}, foresight.Guess, 0},
	} {
		if e := of(slices.Clone(c.jobs)...); e.Basis != c.basis || e.From != c.from {
			t.Errorf("of %d jobs, the first %s: %v from %d, want %v from %d", len(c.jobs), c.jobs[0].ID, e.Basis, e.From, c.basis, c.from)
		}
	}
}

// Six jobs of ten minutes share a pool of one unit: they take an hour, and half of it with two.
func TestWhatMoreWouldBring(t *testing.T) {
	gpu := func(j *kernel.Job) { j.Spec.Locks = []kernel.Lock{{Key: "gpu", Mode: kernel.Shared, Units: 1}} }
	for name, hold := range map[string]func(*kernel.Job){"pool gpu": gpu, "lock x": locked("x")} {
		var jobs []kernel.Job
		for i := range 6 {
			jobs = append(jobs, named(kernel.JobID(fmt.Sprint("j", i)), both(takes(10*time.Minute), hold)))
		}
		o := foretold(world(jobs...), foresight.Options{Draws: 9, Double: 1})
		if o.Draws != 1 {
			t.Errorf("%d draws, and nothing is left to chance", o.Draws)
		}
		u := o.Resources[0]
		if u.String() != name || !u.Tried || u.Doubled != 30*time.Minute || u.Waited != (10+20+30+40+50)*time.Minute || u.Busy < 0.99 {
			t.Errorf("%s: %+v", name, u)
		}
		if len(o.Path) != 6 {
			t.Errorf("the critical path is %v", o.Path)
		}
	}
}

// A job that asks for more than a pool has ends only with twice as much.
func TestWhatMoreWouldFree(t *testing.T) {
	gpu := func(units int) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Spec.Locks = []kernel.Lock{{Key: "gpu", Mode: kernel.Shared, Units: units}} }
	}
	one, two := named("one", both(takes(10*time.Minute), gpu(1))), named("two", both(takes(10*time.Minute), gpu(2)))
	o := foretold(world(one, two, named("three", after("two"))), foresight.Options{Draws: 9, Double: 1})
	if u := o.Resources[0]; u.String() != "pool gpu" || !u.Tried || u.Freed != 2 || o.Ends[1].Ends != 0 {
		t.Errorf("%+v, ends %+v", u, o.Ends)
	}
	if u := foretold(world(one), foresight.Options{Draws: 9, Double: 1}).Resources[0]; u.Freed != 0 {
		t.Errorf("of a job that ends anyway: %+v", u)
	}
}

// A job that needs an artifact which nothing makes does not end, and the
// outlook says what it waits for.
func TestWhatDoesNotEnd(t *testing.T) {
	need := kernel.Artifact{Kind: kernel.Custom, Name: "a", Ref: "b"}
	s := world(named("a", func(j *kernel.Job) {
		j.Spec.Needs, j.Spec.MissingProducer = []kernel.Artifact{need}, kernel.Wait
	}), named("b", after("a")))
	for _, e := range foretold(s, foresight.Options{Draws: 3}).Ends {
		if !e.P50.IsZero() || e.Ends != 0 || e.Waits == "" || !slices.Contains([]string{"awaiting producer for custom:a:b", "waiting on job a"}, e.For) {
			t.Errorf("%+v", e)
		}
	}
}

// Where nobody decides, what waits for a person goes on waiting, whatever is on
// record, or expires.
func TestNobodyDecides(t *testing.T) {
	decided := named("o", func(j *kernel.Job) {
		j.State.Status, j.State.Approval = kernel.Succeeded, kernel.Approval{State: kernel.Approved, RequestedAt: t0.Add(-time.Hour), DecidedAt: t0}
	})
	s := world(decided, named("a", both(takes(time.Minute), gated)), named("b", after("a")), named("c", both(takes(time.Minute), after("d"))), named("d", takes(time.Minute)),
		named("e", both(gated, func(j *kernel.Job) { j.Spec.ApprovalTimeout = time.Minute })))
	o := foretold(s, foresight.Options{Draws: 3, Nobody: true})
	got := map[kernel.JobID]kernel.Status{}
	for _, j := range o.Story.Then.Jobs() {
		got[j.ID] = j.State.Status
	}
	want := map[kernel.JobID]kernel.Status{"o": kernel.Succeeded, "a": kernel.WaitingOnApproval, "b": kernel.WaitingOnDeps, "c": kernel.Succeeded, "d": kernel.Succeeded, "e": kernel.BlockedByApproval}
	if !maps.Equal(got, want) || o.Draws != 1 {
		t.Errorf("%d draws: %v\nwant %v", o.Draws, got, want)
	}
}

// An outlook over some futures tells of each end when half of them, and nine of ten, have come to it, and it tells the future in the
// middle. What twice as much brings is how much sooner the middle one ends then.
func TestAnOutlookIsOfTheFuturesInTheMiddle(t *testing.T) {
	m := time.Minute
	gpu := func(j *kernel.Job) { j.Spec.Locks = []kernel.Lock{{Key: "gpu", Mode: kernel.Shared, Units: 1}} }
	jobs := []kernel.Job{ended("o1", "n", 2*m, 0), ended("o2", "n", 20*m, 0), ended("o3", "n", 5*m, 0), named("a", both(called("n"), gpu)), named("b", both(called("n"), gpu)), named("c", both(called("n"), gpu))}
	of := func(units int) *kernel.Snapshot {
		s := world(jobs...)
		w := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: jobs, Facts: s.Facts(), Limits: kernel.Limits{Pools: map[string]int{"gpu": units}}})
		return w.Apply(kernel.Decide(w))
	}
	habits := foresight.HabitsOf(of(1).Jobs())
	lasts := func(s *kernel.Snapshot, draws int) (at []time.Time) {
		for n := range draws {
			var last time.Time
			for _, end := range foresight.Tell(s, habits.Course(7, n+1)).Ended {
				if end.After(last) {
					last = end
				}
			}
			at = append(at, last)
		}
		slices.SortFunc(at, time.Time.Compare)
		return at
	}
	for draws, c := range map[int]struct{ half, most int }{2: {0, 1}, 3: {1, 2}, 4: {1, 3}, 5: {2, 4}, 10: {4, 8}, 11: {5, 9}} {
		at, with := lasts(of(1), draws), lasts(of(2), draws)
		o := foretold(of(1), foresight.Options{Draws: draws, Seed: 7, Double: 1})
		var all foresight.End
		for _, e := range o.Ends { // the last of the three jobs is c
			all = e
		}
		if !all.P50.Equal(at[c.half]) || !all.P90.Equal(at[c.most]) || !o.Story.Ended["c"].Equal(at[c.half]) {
			t.Errorf("of %d futures half end at %s, most at %s, the story at %s; want %s and %s, of %v", draws, all.P50, all.P90, o.Story.Ended["c"], at[c.half], at[c.most], at)
		}
		if u := o.Resources[0]; u.Doubled != at[c.half].Sub(with[c.half]) || u.Doubled == 0 {
			t.Errorf("of %d futures, twice as much brings %s, want %s", draws, u.Doubled, at[c.half].Sub(with[c.half]))
		}
	}
}

// A job whose duration is a guess has no ETA, and neither have the jobs that
// wait for it, those that never end, and those that would be blocked.
func TestETAs(t *testing.T) {
	never := kernel.Artifact{Kind: kernel.Custom, Name: "a", Ref: "b"}
	requires := func(kind kernel.PreconditionKind, branch string) func(*kernel.Job) {
		return both(takes(time.Minute), func(j *kernel.Job) { j.Spec.Preconditions = []kernel.Precondition{{Kind: kind, Branch: branch}} })
	}
	jobs := []kernel.Job{
		ended("o", "n", 4*time.Minute, 0), ended("p", "n", 9*time.Minute, 0), ended("q", "n", 2*time.Minute, 0),
		named("a", takes(2*time.Minute)), named("b", both(called("n"), after("a"))),
		named("c", called("z")), named("d", both(takes(time.Minute), after("c"))),
		named("e", both(takes(time.Minute), gated)),
		named("f", requires(kernel.CleanWorktree, "")), named("g", requires(kernel.BranchExists, "nope")),
		named("h", both(takes(time.Minute), func(j *kernel.Job) { j.Spec.Needs, j.Spec.MissingProducer = []kernel.Artifact{never}, kernel.Wait })),
		named("i", both(takes(time.Minute), after("h"))),
		named("j", both(takes(time.Minute), gated, func(j *kernel.Job) { j.Spec.ApprovalTimeout = 2 * time.Second })),
		named("k", both(takes(time.Minute), after("j"))),
	}
	for i := range jobs {
		jobs[i].Created, jobs[i].Rev, jobs[i].Spec.Task.Args = t0, 1, []string{string(jobs[i].ID)}
	}
	s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: jobs})
	habits := foresight.HabitsOf(s.Jobs())
	early, asked := foresight.ETAs(s, habits)
	if early != nil || !asked.Clean || !slices.Equal(asked.Branches, []string{"nope"}) || !slices.Equal(asked.Markers, []kernel.Artifact{never}) {
		t.Errorf("asked for %+v", asked)
	}
	seen := kernel.NewFacts()
	seen.Clean, seen.Heads["nope"], seen.Markers[never] = kernel.Seen(true), kernel.Seen(kernel.CommitID("")), kernel.Seen[[]kernel.JobID](nil)
	got, asked := foresight.ETAs(s.WithFacts(seen), habits)
	want := map[kernel.JobID]foresight.ETA{
		"a": {At: t0.Add(2 * time.Minute), Basis: foresight.Declared},
		"b": {At: t0.Add(6 * time.Minute), Basis: foresight.Recorded, From: 3},
		"f": {At: t0.Add(time.Minute), Basis: foresight.Declared},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || !asked.Empty() {
		t.Errorf("%v, asked for %+v\nwant %v", got, asked, want)
	}
}

// What gates will ask for only later is asked for as well, and no runner is.
func TestETAsOfWhatIsAskedLater(t *testing.T) {
	again := both(called("n"), func(j *kernel.Job) {
		j.Spec.Budget.Retries, j.Spec.Retry = 10_000, kernel.RetryPolicy{}.On(kernel.ExitFailure)
	})
	jobs := []kernel.Job{ended("o", "n", time.Minute, 3), named("a", takes(time.Minute)), named("b", both(takes(time.Minute), after("a"), func(j *kernel.Job) {
		j.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.CleanWorktree}}
	})), named("c", again)}
	for i := range jobs {
		jobs[i].Created, jobs[i].Rev, jobs[i].Spec.Task.Args = t0, 1, []string{string(jobs[i].ID)}
	}
	s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: jobs})
	habits := foresight.HabitsOf(s.Jobs())
	if _, asked := foresight.ETAs(s, habits); !asked.Clean || len(asked.Attempts) > 0 {
		t.Errorf("asked for %+v", asked)
	}
	seen := kernel.NewFacts()
	seen.Clean = kernel.Seen(true)
	got, asked := foresight.ETAs(s.WithFacts(seen), habits)
	if _, ends := got["c"]; ends || !got["b"].At.Equal(t0.Add(2*time.Minute)) || !asked.Empty() {
		t.Errorf("%v, asked for %+v", got, asked)
	}
}

// What ends without an attempt is known as well as what ends it.
func TestAnEndWithoutAnAttemptIsKnownAsItsCause(t *testing.T) {
	s := world(named("a", called("z")), named("b", both(takes(time.Minute), gated, after("a"), func(j *kernel.Job) { j.Spec.ApprovalTimeout = time.Minute })), named("c", after("b")),
		named("d", both(takes(time.Minute), running)))
	for _, e := range foretold(s, foresight.Options{Draws: 1}).Ends {
		want := foresight.Guess
		if e.Jobs[0] == "d" {
			want = foresight.Declared
		}
		if e.Basis != want {
			t.Errorf("%v: %v, want %v", e.Jobs, e.Basis, want)
		}
	}
}

// An end is as little known as the decision before it, also if the job then waits for what is known.
func TestAnEndIsKnownAsTheDecisionBefore(t *testing.T) {
	s := world(named("a", both(takes(3*time.Hour), running, locked("x"), func(j *kernel.Job) { j.State.Started = t0 })), named("b", both(takes(time.Minute), gated, locked("x"))))
	want := map[kernel.JobID]foresight.Basis{"a": foresight.Declared, "b": foresight.Guess}
	o := foretold(s, foresight.Options{Draws: 3})
	if got := spans(o.Story); got != "a/1 0-180, b/0 0-60, b/1 180-181 lock x" {
		t.Error(got)
	}
	for _, e := range o.Ends {
		if e.Basis != want[e.Jobs[0]] {
			t.Errorf("%v: %v", e.Jobs, e.Basis)
		}
	}
}

// A job whose runner is gone, and which nobody has settled yet, begins anew; it
// does not go on from where it began.
func TestETAOfAJobWhoseRunnerIsGone(t *testing.T) {
	j := named("a", takes(10*time.Minute))
	j.Created, j.Rev, j.Spec.Task.Args, j.Spec.Idempotent, j.Spec.Budget.Reclaims = t0, 1, []string{"a"}, true, 1
	j.State.Status, j.State.Attempt, j.State.Started = kernel.Running, 1, t0.Add(-4*time.Minute)
	done := kernel.Seen(&kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded})
	for _, c := range []struct {
		liveness kernel.Liveness
		result   kernel.Fact[*kernel.Result]
		want     time.Duration
	}{{kernel.Alive, kernel.Fact[*kernel.Result]{}, 6 * time.Minute}, {kernel.Dead, kernel.Fact[*kernel.Result]{}, 10 * time.Minute}, {kernel.Dead, done, 0}} {
		liveness, want := c.liveness, c.want
		f := kernel.NewFacts()
		f.Runners[j.Attempt()] = kernel.Seen(kernel.Runner{Liveness: liveness})
		if c.result.Known {
			f.Results[j.Attempt()] = c.result
		}
		s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: []kernel.Job{j}, Facts: f, Limits: kernel.Limits{MaxRunning: 1}})
		if got, _ := foresight.ETAs(s, foresight.HabitsOf(nil)); !got["a"].At.Equal(t0.Add(want)) {
			t.Errorf("liveness %d: %v, want in %s", liveness, got["a"], want)
		}
	}
}

// A job that a person must give a secret does not end by itself, nor does what comes after it; others use its slot.
func TestAJobThatLacksASecretDoesNotEnd(t *testing.T) {
	secret := kernel.Secret{Name: "key", Source: "@/none"}
	s := world(named("a", both(takes(time.Minute), func(j *kernel.Job) {
		j.Spec.Task.Secrets = []kernel.Secret{secret}
		j.State.Status, j.State.Refused, j.State.Reason, j.State.RetryAt = kernel.Queued, 3, secret.Unavailable()+"no such file", t0.Add(4*time.Second)
	})), named("b", both(takes(time.Minute), after("a"))), named("c", takes(time.Minute)), named("d", both(takes(time.Minute), after("c"))))
	got, asked := foresight.ETAs(s, foresight.HabitsOf(nil))
	want := map[kernel.JobID]foresight.ETA{"c": {At: t0.Add(time.Minute), Basis: foresight.Declared}, "d": {At: t0.Add(2 * time.Minute), Basis: foresight.Declared}}
	if fmt.Sprint(got) != fmt.Sprint(want) || !asked.Empty() {
		t.Errorf("%v, asked for %+v\nwant %v", got, asked, want)
	}
	story := foresight.Tell(s, foresight.HabitsOf(nil).Course(0, 0))
	if st := story.Then.Job("a").State; st.Status != kernel.Queued || st.Reason != "secret key: no such file" || story.Cut || len(story.Spans) != 2 {
		t.Errorf("it is %s: %s; %+v", st.Status, st.Reason, story.Spans)
	}
}

// What reaches its time limit fails as it would.
func TestATimeLimitIsAFailure(t *testing.T) {
	s := world(named("a", both(takes(9*time.Minute), func(j *kernel.Job) { j.Spec.Task.Timeout = 4 * time.Minute })))
	st := foretold(s, foresight.Options{Draws: 1}).Story.Then.Job("a").State
	if st.Status != kernel.Failed || st.Failure != kernel.Timeout || st.Exit != kernel.Exited(124) || !st.Finished.Equal(t0.Add(4*time.Minute)) {
		t.Errorf("%s, %s, %+v, at %s", st.Status, st.Failure, st.Exit, st.Finished)
	}
}

// Who asks for one future is told the middle of what is known, whatever the seed.
func TestASingleDrawIsTheMedian(t *testing.T) {
	jobs := []kernel.Job{ended("o1", "n", 2*time.Minute, 0), ended("o2", "n", 4*time.Minute, 0), ended("o3", "n", 9*time.Minute, 0), named("a", called("n"))}
	for draws := range 2 {
		for seed := range uint64(8) {
			if got := spans(foretold(world(jobs...), foresight.Options{Draws: draws, Seed: seed}).Story); got != "a/1 0-4" {
				t.Errorf("%d draws, seed %d: %s", draws, seed, got)
			}
		}
	}
}

// Whoever waits for several things waits for the one that others use, whatever became of a third job that only waits
// for it as well.
func TestAStoryTellsWhatIsWaitedFor(t *testing.T) {
	m := time.Minute
	gpu := func(units int) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.Spec.Locks = append(j.Spec.Locks, kernel.Lock{Key: "gpu", Mode: kernel.Shared, Units: units})
		}
	}
	jobs := []kernel.Job{named("a", both(takes(30*m), gpu(1))), named("b", both(takes(m), after("d"), gpu(2))), named("c", takes(2*m)), named("d", takes(m)),
		named("q", both(takes(m), after("c"), locked("k"), gpu(2)))}
	s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: jobs, Facts: world(jobs...).Facts(), Limits: kernel.Limits{Pools: map[string]int{"gpu": 2}}})
	story := foretold(s, foresight.Options{Draws: 1}).Story
	want := map[foresight.Resource]time.Duration{{Kind: foresight.Pool, Name: "gpu"}: 29*m + 29*m} // b from 1 to 30, q from 2 to 31
	if !maps.Equal(story.Waits, want) {
		t.Errorf("waited for %v, want %v: %s", story.Waits, want, spans(story))
	}
}

// The attempts that a job was tried again after count as failed ones, whichever budget they were paid from.
func TestAttemptsBeforeTheLastOneAreKnown(t *testing.T) {
	for _, c := range []struct {
		spent kernel.Budget
		from  int
	}{{kernel.Budget{}, 1}, {kernel.Budget{Retries: 2}, 3}, {kernel.Budget{Resumes: 1}, 2}, {kernel.Budget{Reclaims: 3}, 4}, {kernel.Budget{Retries: 1, Resumes: 1, Reclaims: 1}, 4}} {
		j := ended("o", "n", time.Minute, 0)
		j.State.Spent = c.spent
		next := named("z", called("n"))
		if basis, from := foresight.HabitsOf([]*kernel.Job{&j}).Basis(&next); basis != foresight.Recorded || from != c.from {
			t.Errorf("%+v: %v, from %d, want %d", c.spent, basis, from, c.from)
		}
	}
}

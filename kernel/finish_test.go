package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// budgeted returns a running job with a budget of n for every kind of
// repetition.
func budgeted(n int) kernel.Job {
	j := job("q", running(1))
	j.Spec.Budget = kernel.Budget{Retries: n, Resumes: n, Reclaims: n}
	j.Spec.Resumable = true
	j.Spec.Retry = kernel.RetryPolicy{Exits: kernel.ExitSet{}.With(75)}.On(kernel.Signal)
	return j
}

// Semantics 2, decision 4: N means at most N further executions of that kind,
// whatever was spent of the other kinds. The attempt's number only grows.
func TestBudgets(t *testing.T) {
	for _, c := range []struct {
		name  string
		class kernel.FailureClass
		exit  int
		again bool // whether it runs again
		now   bool // and without a delay
	}{
		{"a class that is named", kernel.Signal, 137, true, false},
		{"an exit code that is named", kernel.ExitFailure, 75, true, false},
		{"another exit code", kernel.ExitFailure, 1, false, false},
		{"that exit code in another class", kernel.OutOfMemory, 75, false, false},
		{"timeout of a resumable job", kernel.Timeout, 124, true, true},
		{"lost runner", kernel.WorkerLost, 1, true, true},
		{"preempted, of a resumable job", kernel.Preempted, 143, true, true},
		{"missing input", kernel.MissingInput, 1, false, false},
		{"effect in doubt", kernel.EffectInDoubt, 1, false, false},
	} {
		for budget := range 4 {
			t.Run(c.name, func(t *testing.T) {
				j, executions := budgeted(budget), 0
				for j.State.Status == kernel.Running && executions < 9 {
					executions++
					s := snapshot(facts(), j)
					r := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Class: c.class, Exit: c.exit}
					p, err := kernel.Finish(s, r)
					if err != nil {
						t.Fatal(err)
					}
					s = s.Apply(p)
					j = *s.Job("q")
					if j.State.Status != kernel.FailedRetryable {
						break
					}
					if c.now != j.State.RetryAt.Equal(s.Now()) {
						t.Errorf("due at %v, ended at %v", j.State.RetryAt, s.Now())
					}
					if d, _ := decided(t, s, "q"); c.now != (d.Next == kernel.Running) {
						t.Errorf("due at %v, at %v it is %s", j.State.RetryAt, s.Now(), d.Next)
					}
					due := kernel.NewSnapshot(kernel.Observation{Now: j.State.RetryAt, Jobs: []kernel.Job{j}, Facts: facts()})
					j = *due.Apply(kernel.Decide(due)).Job("q")
					if j.State.Attempt != executions+1 || !j.State.RetryAt.IsZero() || j.State.Exit.Known || j.State.Failure != kernel.NoFailure {
						t.Fatalf("attempt %d started as %+v", executions+1, j.State)
					}
				}
				want := 1
				if c.again {
					want += budget
				}
				if executions != want || j.State.Status != kernel.Failed || j.State.Failure != c.class || j.State.Exit != kernel.Exited(c.exit) {
					t.Errorf("budget %d: %d executions, %+v", budget, executions, j.State)
				}
			})
		}
	}
}

// The record of an attempt that ended: when, how and why, as its result says and otherwise now.
func TestTheRecordOfAnEnd(t *testing.T) {
	now := t0.Add(time.Hour)
	stop := func(reason string) option {
		return func(j *kernel.Job) { j.State.Stop = kernel.StopRequest{At: t0, By: "ann"}; j.State.Reason = reason }
	}
	for name, c := range map[string]struct {
		is   []option
		r    kernel.Result
		want string
	}{
		"a failure":                 {nil, kernel.Result{Outcome: kernel.OutcomeFailed, Class: kernel.ExitFailure, Exit: 3, Reason: "exit code 3"}, "failed 3 failed exit 'exit code 3' 'exit code 3' 1h0m0s 0s"},
		"no outcome":                {nil, kernel.Result{Class: kernel.ExitFailure, Exit: 3, Reason: "exit code 3"}, "failed 3 failed exit 'exit code 3' 'exit code 3' 1h0m0s 0s"},
		"a success":                 {nil, kernel.Result{Outcome: kernel.OutcomeSucceeded, Started: t0.Add(time.Minute), Ended: t0.Add(2 * time.Minute)}, "succeeded 0 succeeded  '' '' 2m0s 1m0s"},
		"a block":                   {nil, kernel.Result{Outcome: kernel.OutcomeBlocked, Exit: 10, Reason: "a conflict"}, "blocked_by_dependency 10 blocked  'a conflict' 'before' 1h0m0s 0s"},
		"it cancelled itself":       {nil, kernel.Result{Outcome: kernel.OutcomeCancelled, Exit: 143, Reason: "stopped"}, "cancelled 143 cancelled  'stopped' 'before' 1h0m0s 0s"},
		"cancelled":                 {[]option{stop("")}, kernel.Result{Outcome: kernel.OutcomeFailed, Class: kernel.Signal, Exit: 137, Reason: "killed"}, "cancelled 143 cancelled  'cancelled by ann' 'before' 1h0m0s 0s"},
		"cancelled with its run":    {[]option{stop("cancelled by bob, with its run")}, kernel.Result{Outcome: kernel.OutcomeFailed, Class: kernel.Signal, Exit: 137, Reason: "killed"}, "cancelled 143 cancelled  'cancelled by bob, with its run' 'before' 1h0m0s 0s"},
		"it succeeded all the same": {[]option{stop("")}, kernel.Result{Outcome: kernel.OutcomeSucceeded}, "succeeded 0 succeeded  '' '' 1h0m0s 0s"},
	} {
		j := job("a", append(c.is, running(1), func(j *kernel.Job) { j.State.LastError = "before" })...)
		c.r.Attempt = j.Attempt()
		s := kernel.NewSnapshot(kernel.Observation{Now: now, Jobs: []kernel.Job{j}, Facts: facts()})
		p, err := kernel.Finish(s, c.r)
		if err != nil {
			t.Fatal(err)
		}
		st := s.Apply(p).Job("a").State
		got := fmt.Sprintf("%s %d %s %s '%s' '%s' %s %s", st.Status, st.Exit.Code, st.Outcome, st.Failure, st.Reason, st.LastError, st.Finished.Sub(t0), st.Started.Sub(t0))
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// Each kind has its own budget.
func TestBudgetsAreSeparate(t *testing.T) {
	j := budgeted(1)
	for _, class := range []kernel.FailureClass{kernel.Signal, kernel.Timeout, kernel.WorkerLost} {
		s := snapshot(facts(), j)
		p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Class: class})
		if err != nil {
			t.Fatal(err)
		}
		if j = *s.Apply(p).Job("q"); j.State.Status != kernel.FailedRetryable {
			t.Fatalf("%s was not tried again: %+v", class, j.State)
		}
		before := j.State.Spent
		due := kernel.NewSnapshot(kernel.Observation{Now: j.State.RetryAt, Jobs: []kernel.Job{j}, Facts: facts()})
		j = *due.Apply(kernel.Decide(due)).Job("q")
		if j.State.Spent == before || !j.State.Requeued.Equal(due.Now()) {
			t.Errorf("%s: tried again at %v, spent %+v", class, j.State.Requeued, j.State.Spent)
		}
	}
	if j.State.Spent != (kernel.Budget{Retries: 1, Resumes: 1, Reclaims: 1}) {
		t.Errorf("spent %+v", j.State.Spent)
	}
}

// A preempted job continues from its checkpoint, is executed again if its
// budget allows, is asked about if its effect is in doubt, and otherwise has
// failed as after a signal.
func TestPreempted(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*kernel.Job)
		status kernel.Status
		spent  kernel.Budget
	}{
		"resumable":            {func(j *kernel.Job) { j.Spec.Resumable = true }, kernel.Running, kernel.Budget{Resumes: 1}},
		"resumable, none left": {func(j *kernel.Job) { j.Spec.Resumable, j.Spec.Budget.Resumes = true, 0 }, kernel.Failed, kernel.Budget{}},
		"idempotent":           {func(j *kernel.Job) { j.Spec.Idempotent = true }, kernel.Running, kernel.Budget{Reclaims: 1}},
		"signals are retried":  {func(j *kernel.Job) { j.Spec.Budget.Reclaims = 0 }, kernel.Running, kernel.Budget{Retries: 1}},
		"signals are not":      {func(j *kernel.Job) { j.Spec.Budget.Reclaims, j.Spec.Retry = 0, kernel.RetryPolicy{} }, kernel.Failed, kernel.Budget{}},
		"preempted are retried": {func(j *kernel.Job) {
			j.Spec.Budget.Reclaims, j.Spec.Retry = 0, kernel.RetryPolicy{}.On(kernel.Preempted)
		}, kernel.Running, kernel.Budget{Retries: 1}},
		"in doubt": {func(j *kernel.Job) { j.Spec.InDoubt = kernel.AskInDoubt }, kernel.WaitingOnApproval, kernel.Budget{}},
	} {
		j := budgeted(1)
		j.Spec.Resumable = false
		row.change(&j)
		s := snapshot(facts(), j)
		p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Class: kernel.Preempted, Exit: 143})
		if err != nil {
			t.Fatal(err)
		}
		j = *s.Apply(p).Job("q")
		due := kernel.NewSnapshot(kernel.Observation{Now: s.Now().Add(time.Hour), Jobs: []kernel.Job{j}, Facts: facts()})
		st := due.Apply(kernel.Decide(due)).Job("q").State
		if spent := (kernel.Budget{Retries: st.Spent.Retries, Resumes: st.Spent.Resumes, Reclaims: st.Spent.Reclaims}); st.Status != row.status || spent != row.spent {
			t.Errorf("%s: %s, spent %+v", name, st.Status, st.Spent)
		}
	}
}

func TestATimeoutOfAJobThatCannotResumeIsARetry(t *testing.T) {
	j := budgeted(1)
	j.Spec.Resumable = false
	j.Spec.Retry = j.Spec.Retry.On(kernel.Timeout)
	s := snapshot(facts(), j)
	p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Class: kernel.Timeout, Exit: 124})
	if err != nil {
		t.Fatal(err)
	}
	j = *s.Apply(p).Job("q")
	if st := j.State; st.Spent != (kernel.Budget{}) || !st.RetryAt.After(s.Now()) {
		t.Errorf("a retry counts when it happens: %+v", st)
	}
	due := kernel.NewSnapshot(kernel.Observation{Now: j.State.RetryAt, Jobs: []kernel.Job{j}, Facts: facts()})
	if st := due.Apply(kernel.Decide(due)).Job("q").State; st.Spent != (kernel.Budget{Retries: 1}) {
		t.Errorf("%+v", st)
	}
}

// The backoff is base·2^k up to the cap, less at most a quarter. It is the same
// for the same attempt, and differs between attempts.
func TestBackoff(t *testing.T) {
	for _, p := range []kernel.RetryPolicy{{}, {Base: time.Second, Cap: time.Minute}, {Base: time.Hour, Cap: time.Minute}, {Base: 1, Cap: 1 << 62}} {
		base, limit := p.Base, p.Cap
		if base == 0 {
			base, limit = 5*time.Second, 5*time.Minute
		}
		for k := range 80 {
			want := limit
			if k < 62 && base <= limit>>k {
				want = base << k
			}
			a := kernel.AttemptID{Job: "q", N: k + 1}
			got := p.Backoff(a, k)
			if got > want || got < want-want/4 || got != p.Backoff(a, k) {
				t.Errorf("base %v cap %v k %d: %v, want %v less at most a quarter", base, limit, k, got, want)
			}
		}
	}
	seen := map[time.Duration]bool{}
	for n := range 100 {
		seen[kernel.RetryPolicy{}.Backoff(kernel.AttemptID{Job: "q", N: n}, 6)] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 attempts come back at %d moments", len(seen))
	}
}

// The reduction spreads attempts over the whole quarter.
func TestBackoffSpreads(t *testing.T) {
	p := kernel.RetryPolicy{Base: time.Hour, Cap: time.Hour}
	least, most := time.Hour, time.Duration(0)
	for n := range 1000 {
		d := p.Backoff(kernel.AttemptID{Job: "q", N: n}, 0)
		least, most = min(least, d), max(most, d)
	}
	if least > 46*time.Minute || most < 59*time.Minute {
		t.Errorf("a thousand attempts come back after %v to %v", least, most)
	}
}

// A merge closes its plan's cycle when it succeeds. What has closed one stays so, and nothing else does.
func TestWhatClosesACycle(t *testing.T) {
	merge := func(j *kernel.Job) {
		j.Spec.Origin.About.Operation, j.Spec.Origin.Plan = "git.integrate_plan_branch", "foo"
	}
	closed := func(j *kernel.Job) { j.State.Closed = true }
	for name, c := range map[string]struct {
		options []option
		outcome kernel.Outcome
		want    bool
	}{
		"a job":                              {nil, kernel.OutcomeSucceeded, false},
		"a job that fails":                   {nil, kernel.OutcomeFailed, false},
		"a merge":                            {[]option{merge}, kernel.OutcomeSucceeded, true},
		"a merge that fails":                 {[]option{merge}, kernel.OutcomeFailed, false},
		"a merge that is cancelled":          {[]option{merge}, kernel.OutcomeCancelled, false},
		"a merge that has closed one before": {[]option{merge, closed}, kernel.OutcomeFailed, true},
	} {
		done := job("p", produces("plan_doc:foo"), is(kernel.Succeeded), func(j *kernel.Job) { j.Spec.Origin.Plan = "foo" })
		q := job("q", append(c.options, running(1), needs("plan_doc:foo"))...)
		s := snapshot(facts(), done, q)
		p, err := kernel.Finish(s, kernel.Result{Attempt: q.Attempt(), Outcome: c.outcome, Class: map[bool]kernel.FailureClass{true: kernel.ExitFailure}[c.outcome == kernel.OutcomeFailed]})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Apply(p).Job("q").State.Closed; got != c.want {
			t.Errorf("%s: closed %v", name, got)
		}
		if got := s.Apply(p).Job("p").State.Retired; got != (name == "a merge") {
			t.Errorf("%s: what it merges is retired: %v", name, got)
		}
	}
}

func TestExitSet(t *testing.T) {
	set := kernel.ExitSet{}
	for _, code := range []int{0, 63, 64, 75, 255, -1, 256} {
		set = set.With(code)
	}
	for code := -300; code < 600; code++ {
		want := code == 0 || code == 63 || code == 64 || code == 75 || code == 255
		if set.Has(code) != want {
			t.Errorf("%d: %v", code, !want)
		}
	}
}

// How each outcome ends an attempt, with and without a request to stop it.
func TestFinishOutcomes(t *testing.T) {
	ended := t0.Add(30 * time.Minute)
	for _, c := range []struct {
		outcome    kernel.Outcome
		status     kernel.Status
		stopped    kernel.Status
		stoppedEnd kernel.ExitCode
	}{
		{kernel.OutcomeSucceeded, kernel.Succeeded, kernel.Succeeded, kernel.Exited(7)},
		{kernel.OutcomeFailed, kernel.Failed, kernel.Cancelled, kernel.Exited(143)},
		{kernel.OutcomeBlocked, kernel.BlockedByDependency, kernel.Cancelled, kernel.Exited(143)},
		{kernel.OutcomeCancelled, kernel.Cancelled, kernel.Cancelled, kernel.Exited(143)},
		{kernel.NoOutcome, kernel.Failed, kernel.Cancelled, kernel.Exited(143)},
	} {
		j := job("q", running(3), produces("custom:t:x"))
		r := kernel.Result{Attempt: j.Attempt(), Outcome: c.outcome, Exit: 7, Reason: "because", Ended: ended, Produced: artifacts("custom:t:x")}
		s := snapshot(marked(facts(), "custom:t:x"), j)
		p, err := kernel.Finish(s, r)
		if err != nil {
			t.Fatal(err)
		}
		next := s.Apply(p)
		st := next.Job("q").State
		if st.Status != c.status || st.Exit != kernel.Exited(7) || st.Reason != "because" || !st.Finished.Equal(ended) || st.Attempt != 3 {
			t.Errorf("%s: %+v", c.outcome, st)
		}
		if owners := next.Facts().Markers[artifact("custom:t:x")].Value; len(owners) != 1 || owners[0] != "q" {
			t.Errorf("%s: what the attempt produced is owned by %v", c.outcome, owners)
		}
		j.State.Stop = kernel.StopRequest{At: t0, By: "ann"}
		s = snapshot(facts(), j)
		if p, err = kernel.Finish(s, r); err != nil {
			t.Fatal(err)
		}
		if st := s.Apply(p).Job("q").State; st.Status != c.stopped || st.Exit != c.stoppedEnd {
			t.Errorf("%s after a stop: %+v", c.outcome, st)
		}
	}
}

// Seed 001: only the current attempt of a running job may write.
func TestFence(t *testing.T) {
	for _, s := range kernel.Statuses() {
		for n := range 4 {
			j := job("q", is(s))
			j.State.Attempt = 2
			snap := snapshot(facts(), j)
			allowed := s == kernel.Running && n == 2
			finish, err := kernel.Finish(snap, kernel.Result{Attempt: kernel.AttemptID{Job: "q", N: n}, Outcome: kernel.OutcomeSucceeded})
			if errors.Is(err, kernel.ErrStale) == allowed || len(finish.Actions()) > 0 != allowed {
				t.Errorf("finish %s attempt %d: %v %+v", s, n, err, finish)
			}
			refuse, err := kernel.Refuse(snap, kernel.AttemptID{Job: "q", N: n}, "no", false)
			if errors.Is(err, kernel.ErrStale) == allowed || len(refuse.Actions()) > 0 != allowed {
				t.Errorf("refuse %s attempt %d: %v %+v", s, n, err, refuse)
			}
		}
	}
	gone := kernel.AttemptID{Job: "gone", N: 1}
	if _, err := kernel.Finish(snapshot(facts()), kernel.Result{Attempt: gone}); !errors.Is(err, kernel.ErrNotFound) {
		t.Error(err)
	}
	if _, err := kernel.Refuse(snapshot(facts()), gone, "no", false); !errors.Is(err, kernel.ErrNotFound) {
		t.Error(err)
	}
	q := job("q", running(2))
	if err := q.Fence(kernel.AttemptID{Job: "p", N: 2}); !errors.Is(err, kernel.ErrStale) {
		t.Error("another job's attempt passed the fence")
	}
}

// A job started when its runner says so: an executor may have kept it waiting.
func TestAJobStartedWhenItsRunnerBegan(t *testing.T) {
	s := snapshot(facts(), job("q", running(1)))
	began := s.Now().Add(-time.Minute)
	p, err := kernel.Finish(s, kernel.Result{Attempt: kernel.AttemptID{Job: "q", N: 1}, Outcome: kernel.OutcomeSucceeded, Started: began, Ended: s.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if st := s.Apply(p).Job("q").State; !st.Started.Equal(began) || !st.Finished.Equal(s.Now()) {
		t.Errorf("from %v to %v", st.Started, st.Finished)
	}
}

// Seed 000: a job that could not be started stays queued, and a final refusal
// fails it. Its attempt number is not used again.
func TestRefuse(t *testing.T) {
	s := snapshot(facts(), job("q", running(2)))
	p, err := kernel.Refuse(s, kernel.AttemptID{Job: "q", N: 2}, "no such binary", false)
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	if st := s.Job("q").State; st.Status != kernel.Queued || st.Reason != "no such binary" || st.Failure != kernel.LaunchFailure || !st.Started.IsZero() {
		t.Errorf("%+v", st)
	}
	if _, j := decided(t, s, "q"); j.State.Attempt != 3 || j.State.Reason != "" {
		t.Errorf("%+v", j.State)
	}
	s = snapshot(facts(), job("q", running(2)))
	if p, err = kernel.Refuse(s, kernel.AttemptID{Job: "q", N: 2}, "unknown executor", true); err != nil {
		t.Fatal(err)
	}
	if st := s.Apply(p).Job("q").State; st.Status != kernel.Failed || st.Exit != kernel.Exited(1) || !st.Finished.Equal(s.Now()) || st.Reason != "unknown executor" {
		t.Errorf("%+v", st)
	}
	// Like any other end, a final refusal has routes, and is retried if the policy names it.
	again := func(j *kernel.Job) {
		j.Spec.Retry, j.Spec.Budget.Retries = kernel.RetryPolicy{}.On(kernel.RejectedByHost), 1
	}
	for want, o := range map[kernel.Status]option{kernel.Failed: func(*kernel.Job) {}, kernel.FailedRetryable: again} {
		s = snapshot(facts(), job("q", running(2), routesOf(on(kernel.OutcomeFailed, "tell")), o), job("tell", routed, is(kernel.Unscheduled)))
		if p, err = kernel.Refuse(s, kernel.AttemptID{Job: "q", N: 2}, "unknown executor", true); err != nil {
			t.Fatal(err)
		}
		next := s.Apply(p)
		if st, tell := next.Job("q").State, next.Job("tell").State; st.Status != want || st.Failure != kernel.RejectedByHost || tell.Awake != (want == kernel.Failed) {
			t.Errorf("%s, %s; the handler is %s", st.Status, st.Failure, tell.Status)
		}
	}
}

// An attempt whose command the system could not start for now is taken back, by its runner or, if that died after it
// had put this on record, by the next tick. Its budget is not charged.
func TestCommandThatCouldNotBeStarted(t *testing.T) {
	a := kernel.AttemptID{Job: "q", N: 2}
	r := kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 126, Class: kernel.LaunchFailure, Reason: "no processes", Refused: true}
	gone := facts()
	gone.Runners[a], gone.Results[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Seen(&r)
	for name, end := range map[string]func(*kernel.Snapshot) (kernel.Plan, error){
		"by its runner": func(s *kernel.Snapshot) (kernel.Plan, error) { return kernel.Finish(s, r) },
		"by a tick":     func(s *kernel.Snapshot) (kernel.Plan, error) { return kernel.Settle(s), nil },
	} {
		for _, x := range []struct {
			refused int
			with    option
			want    kernel.Status
		}{
			{0, func(*kernel.Job) {}, kernel.Queued},
			{9, func(*kernel.Job) {}, kernel.Queued},
			{0, elsewhere, kernel.Queued},
			{9, elsewhere, kernel.Failed},
			{0, func(j *kernel.Job) { j.State.Stop.At = t0 }, kernel.Cancelled},
		} {
			s := snapshot(gone, job("q", running(2), x.with, func(j *kernel.Job) { j.State.Refused = x.refused }))
			p, err := end(s)
			if err != nil {
				t.Fatal(err)
			}
			st := s.Apply(p).Job("q").State
			if st.Status != x.want || st.Spent != s.Job("q").State.Spent || st.Status == kernel.Queued && (st.Refused != x.refused+1 || st.Reason != r.Reason || st.RetryAt.IsZero() != (x.refused == 0)) {
				t.Errorf("%s, refused %d times before: %+v", name, x.refused, st)
			}
		}
	}
}

// A request to cancel survives if the attempt that it was for never began.
func TestRefusedAndCancelled(t *testing.T) {
	s := snapshot(facts(), job("q", running(2)))
	for _, verb := range []func() (kernel.Plan, error){
		func() (kernel.Plan, error) { return kernel.Cancel(s, "q", "ann", false) },
		func() (kernel.Plan, error) {
			return kernel.Refuse(s, kernel.AttemptID{Job: "q", N: 2}, "it never began", false)
		},
	} {
		p, err := verb()
		if err != nil {
			t.Fatal(err)
		}
		s = s.Apply(p)
	}
	if st := s.Job("q").State; st.Status != kernel.Cancelled || st.Exit != kernel.Exited(143) || st.Reason != "cancelled by ann" {
		t.Errorf("%+v", st)
	}
}

// A job that is refused repeatedly lets others take its place, is launched at
// growing intervals, and starts over with these once one of its attempts has
// run.
func TestRefusedAgain(t *testing.T) {
	lock := kernel.Lock{Key: "k"}
	s := snapshot(facts(), job("a", running(1), locks(lock)), job("b", locks(lock)))
	refuse := func() kernel.State {
		t.Helper()
		p, err := kernel.Refuse(s, s.Job("a").Attempt(), "no room", false)
		if err != nil {
			t.Fatal(err)
		}
		s = s.Apply(p)
		return s.Job("a").State
	}
	if st := refuse(); st.Refused != 1 || !st.RetryAt.IsZero() {
		t.Errorf("%+v", st)
	}
	s = s.Apply(kernel.Decide(s))
	if got := statuses(s); got != "a:running b:waiting_on_locks" {
		t.Error(got)
	}
	st := refuse()
	if wait := st.RetryAt.Sub(s.Now()); st.Refused != 2 || wait <= 0 || wait > time.Second {
		t.Errorf("%+v", st)
	}
	if w := s.Wakes(); !w.At.Equal(st.RetryAt) || w.Poll {
		t.Errorf("%+v", w)
	}
	if e, err := kernel.Explain(s, "a"); err != nil || len(e.Unmet) != 1 || e.Unmet[0].Detail != "its last launch was refused: no room" || len(e.Actions) != 0 {
		t.Errorf("%+v %v", e, err)
	}
	s = s.Apply(kernel.Decide(s))
	if got := statuses(s); got != "a:queued b:running" {
		t.Error(got)
	}
	if again := s.Apply(kernel.Decide(s)); statuses(again) != "a:queued b:running" || again.Job("a").State != s.Job("a").State {
		t.Errorf("a second tick: %s", statuses(again))
	}
	p, err := kernel.Finish(s, kernel.Result{Attempt: s.Job("b").Attempt(), Outcome: kernel.OutcomeSucceeded})
	if err != nil {
		t.Fatal(err)
	}
	s = later(s.Apply(p), st.RetryAt)
	s = s.Apply(kernel.Decide(s))
	if got := statuses(s); got != "a:running b:succeeded" {
		t.Error(got)
	}
	if p, err = kernel.Finish(s, kernel.Result{Attempt: s.Job("a").Attempt(), Outcome: kernel.OutcomeFailed, Class: kernel.ExitFailure}); err != nil {
		t.Fatal(err)
	}
	if st := s.Apply(p).Job("a").State; st.Refused != 0 {
		t.Errorf("%+v", st)
	}
}

// One row for each state of knowledge about a running attempt: what does a tick
// do?
func TestSettle(t *testing.T) {
	j := budgeted(1)
	a := j.Attempt()
	won := &kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded}
	for _, c := range []struct {
		name   string
		runner kernel.Fact[kernel.Runner]
		result kernel.Fact[*kernel.Result]
		want   string // status after the tick
		lost   bool
	}{
		{"nobody asked", kernel.Fact[kernel.Runner]{}, kernel.Seen(won), "running", false},
		{"cannot tell", kernel.Unseen[kernel.Runner]("no"), kernel.Seen(won), "running", false},
		{"unknown", kernel.Seen(kernel.Runner{Liveness: kernel.Unknown}), kernel.Seen(won), "running", false},
		{"alive", kernel.Seen(kernel.Runner{Liveness: kernel.Alive}), kernel.Seen(won), "running", false},
		{"stalled", kernel.Seen(kernel.Runner{Liveness: kernel.Stalled}), kernel.Seen(won), "running", false},
		{"absent", kernel.Seen(kernel.Runner{Liveness: kernel.NeverStarted}), kernel.Seen[*kernel.Result](nil), "running again", false},
		{"absent, and a result of it is on record", kernel.Seen(kernel.Runner{Liveness: kernel.NeverStarted}), kernel.Seen(won), "succeeded", false},
		{"dead, nobody asked for a result", kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Fact[*kernel.Result]{}, "running", false},
		{"dead with a result", kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Seen(won), "succeeded", false},
		{"dead without", kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Seen[*kernel.Result](nil), "running again", true},
		{"ended for its time limit, and had a result", kernel.Seen(kernel.Runner{Liveness: kernel.Dead, Late: true}), kernel.Seen(won), "succeeded", false},
		{"dead, and whether there is a result cannot be told", kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Unseen[*kernel.Result]("too many open files"), "running", false},
		{"dead, result of another attempt", kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Seen(&kernel.Result{Attempt: kernel.AttemptID{Job: "q", N: 9}, Outcome: kernel.OutcomeSucceeded}), "running again", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := facts()
			f.Runners[a], f.Results[a] = c.runner, c.result
			s := snapshot(f, j)
			p := kernel.Decide(s)
			st := s.Apply(p).Job("q").State
			got := st.Status.String()
			if st.Attempt == 2 {
				got += " again"
			}
			if got != c.want {
				t.Errorf("%s: %+v", got, st)
			}
			sweeps := actionsOf[kernel.Sweep](p)
			if c.lost != (len(sweeps) == 1 && sweeps[0].Attempt == a) || c.lost != (st.Spent.Reclaims == 1) {
				t.Errorf("sweeps %v, spent %+v", sweeps, st.Spent)
			}
			rotated := actionsOf[kernel.Rotate](p)
			if c.lost != (len(rotated) == 1 && rotated[0].Attempt == a) {
				t.Errorf("rotated %v", rotated)
			}
		})
	}
	j.Spec.Budget = kernel.Budget{}
	s := snapshot(dead(facts(), a, nil), j, job("r", after("q")))
	expect(t, s, "r", "blocked_by_dependency dependencies: dependency failed for job q (failed)")
	if st := s.Apply(kernel.Decide(s)).Job("q").State; st.Failure != kernel.WorkerLost || st.Exit != kernel.Exited(1) {
		t.Errorf("%+v", st)
	}
}

// The submissions of an attempt are enqueued once, by the commit that settles
// its success, whether that is its runner's or a tick's. Those of an attempt
// that did not succeed are dropped.
func TestSubmissionsOfAnAttempt(t *testing.T) {
	one := kernel.AttemptID{Job: "m", N: 1}
	submits := func(news ...kernel.NewJob) *kernel.Result {
		return &kernel.Result{Attempt: one, Outcome: kernel.OutcomeSucceeded, Produced: artifacts("custom:t:x"), Submitted: news, Ended: t0}
	}
	maker := func() []kernel.Job {
		return []kernel.Job{job("a", keyed("k"), is(kernel.Succeeded)), job("m", running(1), produces("custom:t:x")), job("z", after("m"))}
	}
	good := submits(fresh("n1", after("n2", "m")), fresh("n2"), fresh("n3", keyed("k"), after("n2")))
	good.Submitted[2].Spec.After = nil
	// By its runner.
	s := snapshot(facts(), maker()...)
	p, err := kernel.Finish(s, *good)
	if err != nil {
		t.Fatal(err)
	}
	next := s.Apply(p)
	if got := words(ids(next)); got != "a m n1 n2 z" && got != "a m z n1 n2" || next.Job("m").State.Status != kernel.Succeeded {
		t.Errorf("%s", got)
	}
	if _, err := kernel.Finish(next, *good); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("a second time: %v", err)
	}
	// By a tick, after the runner was killed.
	s = snapshot(dead(facts(), one, good), maker()...)
	if len(s.Submissions()) != 3 {
		t.Errorf("%+v", s.Submissions())
	}
	p = kernel.Decide(s)
	next = s.Apply(p)
	for id, want := range map[kernel.JobID]kernel.Status{"m": kernel.Succeeded, "n1": kernel.WaitingOnDeps, "n2": kernel.Running, "z": kernel.Running} {
		if j := next.Job(id); j == nil || j.State.Status != want {
			t.Errorf("%s: %+v", id, j)
		}
	}
	if again := kernel.Decide(next.WithFacts(s.Facts())); len(actionsOf[kernel.CreateJob](again)) > 0 {
		t.Errorf("%+v", again.Actions())
	}
	// An error in the submissions fails the attempt, and none of them is
	// enqueued.
	for _, bad := range []*kernel.Result{submits(fresh("n1"), fresh("n2", after("nobody"))), submits(fresh("n1", after("n2")), fresh("n2", after("n1"))),
		submits(fresh("n1", keyed("k"), locks(excl("l"))))} {
		s = snapshot(dead(facts(), one, bad), maker()...)
		p = kernel.Decide(s)
		st := s.Apply(p).Job("m").State
		if st.Status != kernel.Failed || st.Failure != kernel.DataError || st.Exit != kernel.Exited(1) || !strings.HasPrefix(st.Reason, "its submissions: ") {
			t.Errorf("%+v", st)
		}
		if len(actionsOf[kernel.CreateJob](p))+len(actionsOf[kernel.Publish](p)) > 0 {
			t.Errorf("%+v", p.Actions())
		}
	}
	failed := *good
	failed.Outcome, failed.Class = kernel.OutcomeFailed, kernel.ExitFailure
	p, err = kernel.Finish(snapshot(facts(), maker()...), failed)
	if err != nil || len(actionsOf[kernel.CreateJob](p)) > 0 {
		t.Errorf("%v, %+v", err, p.Actions())
	}
}

func ids(s *kernel.Snapshot) []kernel.JobID {
	var out []kernel.JobID
	for _, j := range s.Jobs() {
		out = append(out, j.ID)
	}
	return out
}

// A node whose own process was killed has a journal of effects, like one whose
// runner was lost. It is reclaimed unless a retry policy covers the failure,
// and once more if its effect is on record.
func TestAKilledNodeIsReclaimed(t *testing.T) {
	for _, c := range []struct {
		name    string
		class   kernel.FailureClass
		builtin bool
		budget  kernel.Budget
		retry   bool // the class is retried
		spent   kernel.Budget
		applied bool
		want    kernel.FailureClass // the class with which it goes on; NoFailure: it has failed
	}{
		{"killed", kernel.Signal, true, kernel.Budget{Reclaims: 1}, false, kernel.Budget{}, false, kernel.WorkerLost},
		{"out of memory", kernel.OutOfMemory, true, kernel.Budget{Reclaims: 1}, false, kernel.Budget{}, false, kernel.WorkerLost},
		{"a command of a person's", kernel.Signal, false, kernel.Budget{Reclaims: 1}, false, kernel.Budget{}, false, kernel.NoFailure},
		{"its script was", kernel.ExitFailure, true, kernel.Budget{Reclaims: 1}, false, kernel.Budget{}, false, kernel.NoFailure},
		{"no budget", kernel.Signal, true, kernel.Budget{}, false, kernel.Budget{}, false, kernel.NoFailure},
		{"spent", kernel.Signal, true, kernel.Budget{Reclaims: 1}, false, kernel.Budget{Reclaims: 1}, false, kernel.NoFailure},
		{"retried", kernel.Signal, true, kernel.Budget{Retries: 1, Reclaims: 1}, true, kernel.Budget{}, false, kernel.Signal},
		{"retried before", kernel.Signal, true, kernel.Budget{Retries: 1, Reclaims: 1}, true, kernel.Budget{Retries: 1}, false, kernel.WorkerLost},
		{"applied", kernel.Signal, true, kernel.Budget{}, false, kernel.Budget{}, true, kernel.WorkerLost},
		{"applied, and lost", kernel.WorkerLost, true, kernel.Budget{}, false, kernel.Budget{}, true, kernel.WorkerLost},
		{"applied, and lost again", kernel.WorkerLost, true, kernel.Budget{}, false, kernel.Budget{Reclaims: 1}, true, kernel.NoFailure},
	} {
		j := job("q", running(4))
		j.Spec.Task.Builtin, j.Spec.Budget, j.State.Spent = c.builtin, c.budget, c.spent
		if c.retry {
			j.Spec.Retry = j.Spec.Retry.On(c.class)
		}
		s := snapshot(facts(), j)
		p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Class: c.class, Exit: 137, Applied: c.applied})
		if err != nil {
			t.Fatal(err)
		}
		st := s.Apply(p).Job("q").State
		again, lost := st.Status == kernel.FailedRetryable, 0
		if c.want == kernel.WorkerLost {
			lost = 4
		}
		if again != (c.want != kernel.NoFailure) || again && st.Failure != c.want || !again && st.Failure != c.class || st.Lost != lost {
			t.Errorf("%s: %s as %s, lost %d", c.name, st.Status, st.Failure, st.Lost)
		}
	}
}

// Artifacts of an attempt that will be retried are not published. The end of
// the job publishes its artifacts, whatever the outcome.
func TestAnAttemptThatIsTriedAgainPublishesNothing(t *testing.T) {
	a := artifact("custom:t:k")
	for retries, want := range []bool{true, false} {
		j := job("a", running(1), produces("custom:t:k"), func(j *kernel.Job) {
			j.Spec.Budget.Retries, j.Spec.Retry = retries, kernel.RetryPolicy{}.On(kernel.ExitFailure)
		})
		p, err := kernel.Finish(snapshot(facts(), j), kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure, Produced: []kernel.Artifact{a}})
		if err != nil {
			t.Fatal(err)
		}
		published := false
		for _, r := range p.Records {
			_, is := r.(kernel.Publish)
			published = published || is
		}
		if published != want {
			t.Errorf("with %d retries left it publishes: %v", retries, published)
		}
	}
}

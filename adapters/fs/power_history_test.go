package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// deed is a change of the store that must last, made by the disk calls with the numbers
// from, from+1, …, to-1.
type deed struct {
	what     string
	from, to int
}

// lived is a store with a record of its deeds and of its disk calls.
type lived struct {
	*Store
	t     *testing.T
	dir   string
	opts  Options
	rec   *recorder
	deeds []deed
	now   time.Time
	sched *app.Scheduler
	busy  bool // the lock was not free when an attempt was last to be settled

	started  []kernel.AttemptID
	dead     map[kernel.AttemptID]bool
	ended    map[kernel.Event]bool // events that hooks were to run for
	versions map[kernel.JobID]map[kernel.Revision]kernel.Job
}

// live makes a lived store whose journal may only grow a little.
func live(t *testing.T, durable bool) *lived {
	t.Helper()
	dir := t.TempDir()
	l := &lived{t: t, dir: dir, opts: options(), rec: newRecorder(t, dir), now: t0, dead: map[kernel.AttemptID]bool{},
		ended: map[kernel.Event]bool{}, versions: map[kernel.JobID]map[kernel.Revision]kernel.Job{}}
	o := &l.opts
	o.Durable, o.Now, o.EventBytes, o.EventFiles, o.KeepLogs = durable, l.clock, 3000, 2, 1
	l.process()
	return l
}

// process goes on in a new process: it closes the store and opens it anew.
func (l *lived) process() {
	l.t.Helper()
	if l.Store != nil {
		l.must(l.Close())
	}
	l.Store = newStoreWith(l.t, l.dir, l.opts)
	l.Store.disk = l.rec
	l.must(errors.Join(l.open(true), l.openJournal()))
	l.log.limit = 32 << 10
	l.sched = &app.Scheduler{Store: l, Observers: []app.Observer{l.Store}, Executor: l, Worktrees: l, Sentinels: l.Store, Cleaner: l,
		Events: l.Store, Hooks: l, Now: l.clock}
}

func (l *lived) clock() time.Time { return l.now }

// does runs f and notes it as one deed.
func (l *lived) does(what string, f func() error) error {
	from := len(l.rec.calls)
	err := f()
	l.deeds = append(l.deeds, deed{what, from, len(l.rec.calls)})
	return err
}

func (l *lived) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// watched is a transaction whose commits are deeds.
type watched struct {
	*Tx
	l *lived
}

func (l *lived) Begin(ctx context.Context) (app.Tx, error) {
	tx, err := l.Store.Begin(ctx)
	return watched{tx, l}, err
}

// BeginSettling finds the lock free every second time.
func (l *lived) BeginSettling(ctx context.Context, r kernel.Result) (app.Tx, error) {
	if l.busy = !l.busy; l.busy {
		return nil, &BusyError{}
	}
	tx, err := l.Store.BeginSettling(ctx, r)
	return watched{tx, l}, err
}

func (w watched) Commit(p kernel.Plan) error {
	err := w.l.does(fmt.Sprintf("commit %T", p.Actions()[0]), func() error { return w.Tx.Commit(p) })
	for _, a := range p.Actions() {
		if e, ok := a.(kernel.Announce); ok {
			w.l.ended[e.Event] = true
		}
	}
	if w.l.cache == nil {
		return err
	}
	entries, failed := w.l.cache.keys(keyEntry)
	for _, key := range entries {
		id := idIn(key)
		k, failed := w.l.cache.entry(id)
		if failed != nil {
			return errors.Join(err, failed)
		}
		if w.l.versions[id] == nil {
			w.l.versions[id] = map[kernel.Revision]kernel.Job{}
		}
		w.l.versions[id][k.job.Rev] = *k.job
	}
	err = errors.Join(err, failed)
	return err
}

func (l *lived) Start(_ context.Context, a kernel.AttemptID) error {
	l.started = append(l.started, a)
	return nil
}

func (l *lived) Alive(_ context.Context, all []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range all {
		r := kernel.Runner{Liveness: kernel.Alive}
		if l.dead[a] {
			r.Liveness = kernel.Dead
		}
		out[a] = kernel.Seen(r)
	}
	return out
}

func (l *lived) Stop(context.Context, kernel.AttemptID) error  { return nil }
func (l *lived) Sweep(context.Context, kernel.AttemptID) error { return nil }
func (l *lived) RemoveWorktree(context.Context, kernel.Context) kernel.Cleanup {
	return kernel.Cleanup{Status: kernel.CleanupDone}
}
func (l *lived) Wants(k kernel.EventKind) bool { return k != kernel.JobRunning }
func (l *lived) Wake()                         {}
func (l *lived) DropBranch(context.Context, string) (bool, string, error) {
	return false, "", nil
}
func (l *lived) BranchAt(context.Context, string) (bool, string, error) { return false, "", nil }

// Conclude records a runner's outcome, as a deed.
func (l *lived) Conclude(r kernel.Result) error {
	return l.does("conclude", func() error { return l.Store.Conclude(r) })
}

func (l *lived) Beat(kernel.AttemptID) error                 { return nil }
func (l *lived) Acquire(kernel.AttemptID) (io.Closer, error) { return nil, errors.New("one at a time") }

// Claim makes the directory that an executor keeps its claims in.
func (l *lived) Claim(a kernel.AttemptID) error {
	d, err := l.base.make(jobPath(a.Job, attemptsDir))
	if err == nil {
		d.close()
	}
	return err
}

// Run plays a command: it writes to its logs, and records its effect before and after,
// as a node does.
func (l *lived) Run(ctx context.Context, j *kernel.Job) kernel.Result {
	a := j.Attempt()
	if ctx.Err() != nil {
		return kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Ended: l.now}
	}
	for _, stream := range []string{"stdout", "stderr"} {
		f, err := l.base.file(jobPath(a.Job, stream+".log"), os.O_RDWR|os.O_CREATE)
		l.must(err)
		l.must(l.rec.write(int(f.Fd()), []byte(fmt.Sprintln("attempt", a.N))))
		l.must(f.Close())
	}
	r := kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Produced: j.Spec.Produces, Ended: l.now}
	if strings.HasPrefix(j.Spec.Name, "fails") && a.N == 1 {
		r.Outcome, r.Exit, r.Class, r.Produced = kernel.OutcomeFailed, 1, kernel.ExitFailure, nil
	}
	e := effect.Record{Key: fmt.Sprintf("%s%032x", a.Job, j.State.Generation), Operation: "command.run", Job: a.Job,
		Generation: j.State.Generation, Attempt: a.N, Round: effect.Round(&j.State), Begun: l.now}
	l.must(l.does("intend", func() error { return l.RecordEffect(ctx, e) }))
	for _, art := range j.Spec.Produces {
		for _, text := range []string{"a draft", "the text"} {
			l.must(l.does("payload", func() error { return l.WritePayload(a.Job, art, []byte(text)) }))
		}
	}
	e.State, e.Result = effect.Applied, r
	l.must(l.does("apply", func() error { return l.RecordEffect(ctx, e) }))
	return r
}

// serve runs the attempts that were started, and those that they start.
func (l *lived) serve() {
	l.t.Helper()
	for len(l.started) > 0 {
		a := l.started[0]
		l.started = l.started[1:]
		l.process()
		r := &app.Runner{Scheduler: l.sched, Outcomes: l, Workload: l}
		l.must(r.Serve(context.Background(), a, io.NopCloser(nil)))
		l.process()
	}
}

// tell acknowledges half of the pending events, as a process does that runs hooks.
func (l *lived) tell() {
	list, err := l.Pending()
	l.must(err)
	for _, e := range list[:len(list)/2] {
		l.must(l.does("tell", func() error { return l.Ack(e) }))
	}
}

// pack packs jobs that have ended. No reader sees a difference, so it is no deed.
func (l *lived) pack(most int) {
	l.t.Helper()
	packed := func() (n int) {
		ids, err := l.IDs()
		l.must(err)
		for _, id := range ids {
			if l.Packed(id) != "" {
				n++
			}
		}
		return n
	}
	was := packed()
	_, err := packOnce(l.Store, l.now.Add(time.Second), most)
	l.must(err)
	if packed() == was {
		l.t.Errorf("nothing was packed of what had ended by %s", l.now)
	}
}

var powerToken = custom("tok", "a")

// history makes the changes that a store is used for.
func (l *lived) history() {
	t, ctx := l.t, context.Background()
	t.Helper()
	ok := func(_ app.Report, err error) {
		t.Helper()
		l.must(err)
		l.now = l.now.Add(time.Hour)
	}
	job := func(n int, name string, change func(*kernel.Spec)) kernel.NewJob {
		s := kernel.Spec{Name: name, Task: kernel.Task{Args: []string{"true"}}}
		if change != nil {
			change(&s)
		}
		return kernel.NewJob{ID: id(n), Spec: s}
	}
	ok(l.sched.Submit(ctx, []kernel.NewJob{
		job(1, "makes", func(s *kernel.Spec) { s.Produces = []kernel.Artifact{powerToken} }),
		job(2, "needs", func(s *kernel.Spec) { s.Needs = []kernel.Artifact{powerToken} }),
	}, ""))
	l.serve()
	ok(l.sched.Submit(ctx, []kernel.NewJob{job(3, "fails once", func(s *kernel.Spec) {
		s.Budget.Retries, s.Retry = 1, kernel.RetryPolicy{}.On(kernel.ExitFailure)
	})}, ""))
	l.serve()
	l.tell()
	ok(l.sched.Tick(ctx))
	l.serve()
	l.pack(2)
	ok(l.sched.Retry(ctx, "ann", id(1))) // 2, which depends on it, comes back with it
	l.serve()
	l.pack(1)
	large := job(4, "is large", nil) // so that an index is due
	large.Spec.Task.Args, large.Approval = []string{strings.Repeat("x", maxLog)}, kernel.Require(l.now, "ann")
	ok(l.sched.Submit(ctx, []kernel.NewJob{large}, ""))
	ok(l.sched.Reject(ctx, id(4), kernel.Refusal{By: "ann", Reason: "too large"}))
	run, err := l.sched.EnqueueRun(ctx, app.RunRequest{Run: kernel.RunID("run_" + string(id(5))), Manifest: []byte("{}"),
		Jobs: []kernel.NewJob{job(5, "of a run", func(s *kernel.Spec) { s.Origin.Run = kernel.RunID("run_" + string(id(5))) })}})
	ok(run.Report, err)
	lost := l.started[0] // its runner concludes on another host, and then is silent
	l.started = nil
	l.must(l.Claim(lost))
	l.must(l.does("conclude once", func() error {
		return l.ConcludeOnce(kernel.Result{Attempt: lost, Outcome: kernel.OutcomeSucceeded, Ended: l.now})
	}))
	l.dead[lost] = true
	ok(l.sched.Tick(ctx))
	ok(l.sched.GC(ctx, 24*time.Hour))
	ok(l.sched.Submit(ctx, []kernel.NewJob{job(6, "is cancelled", nil), job(7, "comes last", func(s *kernel.Spec) { s.After = []kernel.JobID{id(6)} })}, ""))
	ok(l.sched.Cancel(ctx, id(6), "ann", false))
	l.tell()
	l.serve()
	l.pack(10)
	ok(l.sched.Retry(ctx, "ann", id(6)))
	l.serve()
	l.pack(10)
	l.now = l.now.Add(2 * time.Hour)
	l.sched.Keep = retention.Policy{Count: 3, Bytes: 1 << 30}
	work, err := l.sched.Collect(ctx)
	l.must(err)
	rep, _, err := work.Next(ctx)
	ok(rep, err)
	if len(rep.Applied) == 0 || l.Collected().IsZero() {
		l.t.Errorf("of %d jobs that are to go, %d went", len(work.Jobs), len(rep.Applied))
	}
	ok(l.sched.GC(ctx, time.Minute))
}

// sight is everything that a store shows and that must last.
type sight struct {
	jobs       map[kernel.JobID]kernel.Job
	unreadable []kernel.JobID
	manifests  map[kernel.RunID]string
	markers    []kernel.JobID
	payloads   map[kernel.JobID]string
	results    map[kernel.AttemptID]kernel.Result // of current attempts
	effects    map[kernel.JobID]effect.Record     // of current generations
	pending    []kernel.Event
}

// after returns the store in dir as the next boot finds it.
func (l *lived) after(dir string) *Store {
	o := l.opts
	o.Boot = "boot-2"
	s := NewStore(dir, o)
	s.disk = idle{}
	return s
}

// look opens a store and returns what it holds. It returns an error if the store
// contradicts itself.
func (l *lived) look(dir string) (v sight, err error) {
	s := l.after(dir)
	defer func() { err = errors.Join(err, s.Close()) }()
	tx, err := s.Begin(context.Background())
	if err != nil {
		return v, err
	}
	rec, err := tx.Load(kernel.Scope{All: true})
	if err = errors.Join(err, tx.Close()); err != nil {
		return v, err
	}
	v = sight{jobs: map[kernel.JobID]kernel.Job{}, manifests: map[kernel.RunID]string{}, payloads: map[kernel.JobID]string{},
		results: map[kernel.AttemptID]kernel.Result{}, effects: map[kernel.JobID]effect.Record{}}
	v.unreadable = slices.Sorted(maps.Keys(rec.Unreadable))
	f := kernel.NewFacts()
	probes := kernel.Probes{Markers: []kernel.Artifact{powerToken}}
	for _, j := range rec.Jobs {
		v.jobs[j.ID] = j
		if own, err := s.Job(j.ID); err != nil || !reflect.DeepEqual(own, j) {
			return v, fmt.Errorf("record of %s: %w\n%+v, among the others\n%+v", j.ID, err, own, j)
		}
		if !s.stateFileSays(j.ID, j.State.Status.Coarse()) {
			return v, fmt.Errorf("the state file of %s, which is %s, says otherwise", j.ID, j.State.Status)
		}
		if j.State.Status == kernel.Running {
			probes.Attempts = append(probes.Attempts, j.Attempt())
		}
		if r, _ := s.outcome(j.ID, outcomeName); j.State.Status == kernel.Succeeded && (r == nil || r.Attempt != j.Attempt()) {
			return v, fmt.Errorf("job %s has succeeded, and the outcome on record is %+v", j.ID, r)
		}
		if run := j.Spec.Origin.Run; run != "" {
			b, err := s.Run(run)
			if err != nil {
				return v, err
			}
			v.manifests[run] = string(b)
		}
		if b, err := s.Payload(j.ID, powerToken); err == nil {
			v.payloads[j.ID] = string(b)
		}
		effects, err := s.Effects(j.ID)
		if err != nil {
			return v, err
		}
		for _, e := range effects {
			if e.Generation == j.State.Generation {
				v.effects[j.ID] = e
			}
		}
	}
	s.Observe(context.Background(), probes, &f)
	v.markers = slices.Sorted(slices.Values(f.Markers[powerToken].Value))
	for a, fact := range f.Results {
		if !fact.Known {
			return v, fmt.Errorf("result of %v: %s", a, fact.Err)
		}
		if fact.Value != nil && fact.Value.Attempt == a {
			v.results[a] = *fact.Value
		}
	}
	v.pending, err = s.Pending()
	return v, err
}

// differ returns an error if v is not w. Events that were acknowledged may be pending
// again, and payloads of a job from before its rewind may still be there.
func (l *lived) differ(v, w sight) error {
	for _, e := range w.pending {
		if !slices.Contains(v.pending, e) {
			return fmt.Errorf("nobody is ever told of %+v", e)
		}
	}
	for _, e := range v.pending {
		if !l.ended[e] {
			return fmt.Errorf("somebody is to be told of %+v", e)
		}
	}
	maps.DeleteFunc(v.payloads, func(id kernel.JobID, _ string) bool { return w.payloads[id] == "" && !slices.Contains(v.markers, id) })
	v.pending, w.pending = nil, nil
	if reflect.DeepEqual(v, w) {
		return nil
	}
	return fmt.Errorf("it holds\n%s, and not\n%s", v, w)
}

func (v sight) String() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(v.jobs)) {
		j := v.jobs[id]
		fmt.Fprintf(&b, "  %s revision %d %s/%d generation %d\n", id[28:], j.Rev, j.State.Status, j.State.Attempt, j.State.Generation)
	}
	fmt.Fprintf(&b, "  unreadable %v, markers %v, payloads %v, manifests %v\n  results %v\n  effects %+v\n", v.unreadable, v.markers, v.payloads, v.manifests, v.results, v.effects)
	return b.String()
}

// goesOn asserts that the next command works on a store, and changes nothing else.
func (l *lived) goesOn(dir string) error {
	s := l.after(dir)
	defer s.Close()
	tx, err := s.Begin(context.Background())
	if err != nil {
		return err
	}
	before, err := tx.Load(kernel.Scope{All: true})
	if err == nil {
		err = tx.Commit(kernel.NewPlan(kernel.Create(plain(900))))
	}
	if err == nil {
		err = tx.Done()
	}
	if err = errors.Join(err, tx.Close()); err != nil {
		return fmt.Errorf("the next command: %w", err)
	}
	after, err := l.after(dir).Read(context.Background(), kernel.Scope{All: true})
	if err != nil {
		return err
	}
	byID := func(a, b kernel.Job) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(before.Jobs, byID)
	slices.SortFunc(after.Jobs, byID)
	if n := len(after.Jobs); n == 0 || after.Jobs[n-1].ID != id(900) || !reflect.DeepEqual(after.Jobs[:n-1], before.Jobs) {
		return fmt.Errorf("%d jobs, and after the next command %d", len(before.Jobs), n)
	}
	return nil
}

// cuts goes through the states that power cuts may leave, one cut after each every calls.
// Of the changes that were not synced a cut keeps none, all, and a random part (as many
// random parts as VIZIER_TEST_DRAWS says, or one). For each state judge returns what is
// wrong with the store in dir: the deeds up to call done have happened, and perhaps, if
// not nil, may have. The result is the number of states.
func (l *lived) cuts(every int, judge func(dir string, done int, perhaps *deed) error) (states int) {
	l.t.Helper()
	l.rec.whole(l.t)
	r, draws := drawtest.Of(l.t), 1
	if n, err := strconv.Atoi(os.Getenv("VIZIER_TEST_DRAWS")); err == nil {
		draws = n
	}
	p, seen := newPlatter(), map[string]bool{}
	for n := 0; ; n++ {
		if n%every != 0 && n < len(l.rec.calls) {
			p.do(l.rec.calls[n])
			continue
		}
		done, perhaps := 0, (*deed)(nil)
		for i, d := range l.deeds {
			if d.to <= n {
				done = d.to
			} else if d.from < n {
				perhaps = &l.deeds[i]
			}
		}
		disks := []*platter{p.nothing(), p.everything()}
		for range draws {
			disks = append(disks, p.drawn(r))
		}
		for i, d := range disks {
			files := map[string]string{}
			d.walk(l.rec.root, "", files)
			if key := fmt.Sprint(done, files); seen[key] {
				continue
			} else {
				seen[key] = true
			}
			states++
			dir := lay(l.t, files)
			if err := judge(dir, done, perhaps); err != nil {
				l.t.Errorf("power is cut after call %d, %s; state %d of what is left; %d calls back the last deed was done; under way: %v\n%v",
					n, l.rec.calls[max(n-1, 0)].what, i, n-done, perhaps, err)
				return states
			}
			l.must(os.RemoveAll(dir))
		}
		if n == len(l.rec.calls) {
			return states
		}
		p.do(l.rec.calls[n])
	}
}

// sights returns a function that tells what the store held after n calls.
func (l *lived) sights() func(n int) sight {
	p, at, known := newPlatter(), 0, map[int]sight{}
	return func(n int) sight {
		l.t.Helper()
		if v, ok := known[n]; ok {
			return v
		}
		for ; at < n; at++ {
			p.do(l.rec.calls[at])
		}
		files := map[string]string{}
		p.everything().walk(l.rec.root, "", files)
		dir := lay(l.t, files)
		v, err := l.look(dir)
		l.must(errors.Join(err, os.RemoveAll(dir)))
		known[n] = v
		return v
	}
}

// keeps returns a judge for full durability: every deed that was done is there, the deed
// under way is there whole or not at all, and the next command works. Without
// VIZIER_LONG only every fourth state tries that command.
func (l *lived) keeps() func(dir string, done int, perhaps *deed) error {
	sights, n := l.sights(), 0
	return func(dir string, done int, perhaps *deed) error {
		v, err := l.look(dir)
		if err != nil {
			return err
		}
		want := sights(done)
		if err := l.differ(v, want); err != nil && perhaps != nil {
			if other := l.differ(v, sights(perhaps.to)); other != nil {
				return fmt.Errorf("as before: %w\nas after: %w", err, other)
			}
		} else if err != nil {
			return err
		}
		if n++; n%4 > 0 && !long {
			return nil
		}
		return l.goesOn(dir)
	}
}

// A durable store holds every change that it reported as done, after a power cut at any
// call.
func TestNothingThatWasCommittedIsLostToAPowerCut(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	l := live(t, true)
	l.history()
	every := 2 // to bound the time
	if long {
		every = 1
	}
	t.Logf("%d calls, %d states", len(l.rec.calls), l.cuts(every, l.keeps()))
}

// put commits one plan, which may fail.
func (l *lived) put(actions ...kernel.Action) error { return l.putAfter(func() {}, actions...) }

// putAfter is like put, and calls happens once the records are loaded.
func (l *lived) putAfter(happens func(), actions ...kernel.Action) error {
	l.t.Helper()
	tx, err := l.Begin(context.Background())
	l.must(err)
	_, err = tx.Load(kernel.Scope{All: true})
	l.must(err)
	happens()
	return errors.Join(tx.Commit(kernel.NewPlan(actions...)), tx.Close())
}

// obstruct puts a directory in the place of a job's record, or clears it away, and syncs
// that.
func (l *lived) obstruct(n int, clear bool) {
	l.t.Helper()
	l.must(l.does("obstruct", func() error {
		at := jobPath(id(n), recordName)
		if clear {
			return errors.Join(l.removeTree(string(id(n))+"/"+recordName), l.rec.syncAll(0))
		}
		err := l.base.remove(at)
		d, err2 := l.base.make(at + "/in the way")
		d.close()
		return errors.Join(err, err2, l.rec.syncAll(0))
	}))
}

// The same holds for changes that could not be written for a while, even if the journal
// was emptied meanwhile.
func TestNothingThatIsHeldIsLostToAPowerCut(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	l := live(t, true)
	l.must(l.put(kernel.Create(plain(1)), kernel.Create(plain(2))))
	for n := 1; n <= 2; n++ {
		if l.putAfter(func() { l.obstruct(n, false) }, kernel.PutState{Job: id(n), If: 1, State: kernel.State{Status: kernel.Failed, Reason: "held"}}) == nil {
			t.Fatal("nothing was in the way")
		}
		l.process()
		l.log.limit = 0 // the journal is emptied as soon as possible
		l.must(l.put(kernel.Create(plain(10 + n))))
		l.must(l.put(kernel.Create(plain(20 + n))))
	}
	l.obstruct(1, true)
	l.must(l.put(kernel.Create(plain(31))))
	l.obstruct(2, true)
	l.must(l.put(kernel.Create(plain(32))))
	l.must(l.put(kernel.Create(plain(33))))
	end := l.sights()(len(l.rec.calls))
	for n := 1; n <= 2; n++ {
		if end.jobs[id(n)].State.Reason != "held" {
			t.Errorf("in the end job %d is %+v", n, end.jobs[id(n)])
		}
	}
	keeps := l.keeps()
	n := l.cuts(1, func(dir string, done int, perhaps *deed) error {
		if perhaps != nil && perhaps.what == "obstruct" {
			return nil
		}
		return keeps(dir, done, perhaps)
	})
	t.Logf("%d calls, %d states", len(l.rec.calls), n)
}

// A history is whole after a power cut, also while it is sealed and trimmed, and goes on.
func TestTheHistoryIsWholeAfterAPowerCut(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	l := live(t, true)
	l.log.limit = 1 // each commit seals the one before
	for n := 1; n <= 3; n++ {
		_, err := l.sched.Submit(t.Context(), []kernel.NewJob{{ID: id(n), Spec: plain(n).Spec, Approval: kernel.Require(t0, "ann")}}, "")
		l.must(err)
		_, err = l.sched.Reject(t.Context(), id(n), kernel.Refusal{By: "ann"})
		l.must(err)
	}
	l.KeepHistory(1, 0)
	l.must(l.does("trim", func() error { return l.TrimHistory(t.Context()) }))
	_, err := l.sched.Submit(t.Context(), []kernel.NewJob{{ID: id(4), Spec: plain(4).Spec, Approval: kernel.Require(t0, "ann")}}, "")
	l.must(err)
	l.KeepHistory(0, 0)
	firsts := map[uint64]bool{}
	verified := func(s *Store, entries uint64) error {
		v, err := s.VerifyHistory(context.Background())
		if firsts[v.First] = true; err != nil || len(v.Findings) > 0 || v.Last < entries {
			return fmt.Errorf("of %d entries: %+v, %w", entries, v, err)
		}
		return nil
	}
	l.cuts(1, func(dir string, done int, _ *deed) error {
		entries := uint64(0)
		for _, d := range l.deeds {
			if d.to <= done && strings.HasPrefix(d.what, "commit") {
				entries++
			}
		}
		s := l.after(dir)
		defer s.Close()
		if err := verified(s, entries); err != nil {
			return err
		}
		next := &app.Scheduler{Store: process{s}, Observers: []app.Observer{s}, Executor: l, Now: l.clock}
		if _, err := next.Submit(t.Context(), []kernel.NewJob{{ID: id(900), Spec: plain(900).Spec, Approval: kernel.Require(t0, "ann")}}, ""); err != nil {
			return err
		}
		return verified(s, entries+1)
	})
	if !firsts[1] || len(firsts) < 2 {
		t.Errorf("histories began with entries %v: nothing was dropped", firsts)
	}
}

// An attempt keeps its first outcome over a power cut; a second one is refused.
func TestAnOutcomeIsForGoodAfterAPowerCut(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	l := live(t, true)
	j := plain(1)
	j.State.Status, j.State.Attempt = kernel.Running, 1
	l.must(l.put(kernel.Create(j)))
	l.must(l.Claim(j.Attempt()))
	first := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Ended: l.now}
	second := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost, Ended: l.now}
	l.must(l.does("conclude once", func() error { return l.ConcludeOnce(first) }))
	made, concluded := l.deeds[0].to, l.deeds[1].to
	l.cuts(1, func(dir string, done int, _ *deed) error {
		if done < made {
			return nil
		}
		s, want := l.after(dir), first
		defer s.Close()
		closeTx(t, begin(t, s))
		if d, err := s.base.make(jobPath(j.ID, attemptsDir)); err == nil {
			d.close()
		}
		if err := s.ConcludeOnce(second); err == nil && done < concluded {
			want = second
		} else if !errors.Is(err, kernel.ErrStale) {
			return fmt.Errorf("a second outcome: %w", err)
		}
		f := kernel.NewFacts()
		s.Observe(context.Background(), kernel.Probes{Attempts: []kernel.AttemptID{j.Attempt()}}, &f)
		if r := f.Results[j.Attempt()].Value; r == nil || r.Outcome != want.Outcome {
			return fmt.Errorf("the outcome is %+v, want %+v", f.Results, want)
		}
		return nil
	})
}

// Without syncs a power cut may lose the last changes, of one job more than of another.
// But it leaves no record that nobody wrote, and the next command works.
func TestAfterAPowerCutARelaxedStoreGoesOn(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	l := live(t, false)
	l.history()
	every := 5
	if long {
		every = 1
	}
	n := l.cuts(every, func(dir string, _ int, _ *deed) error {
		rec, err := l.after(dir).Read(context.Background(), kernel.Scope{All: true})
		if err != nil {
			return err
		}
		for _, j := range rec.Jobs {
			if was, ok := l.versions[j.ID][j.Rev]; !ok || !reflect.DeepEqual(was, j) {
				return fmt.Errorf("a record that nobody wrote: %+v", j)
			}
		}
		for id, why := range rec.Unreadable {
			if l.versions[id] == nil || !strings.Contains(why, string(id)) {
				return fmt.Errorf("job %s: %s", id, why)
			}
		}
		return l.goesOn(dir)
	})
	t.Logf("%d calls, %d states", len(l.rec.calls), n)
}

// A file outside the store, such as a prompt, lasts once it was added or moved. During a
// move it is in at least one of the two places.
func TestNoPromptIsLostToAPowerCut(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	dir := t.TempDir()
	l := &lived{t: t, rec: newRecorder(t, dir)}
	d, err := openRoot(l.rec.path, l.rec)
	l.must(err)
	c := Confined{d}
	defer c.Close()
	l.must(l.does("add", func() error { return c.Add("inbox/one", []byte("one")) }))
	l.must(l.does("write", func() error { return c.Write("inbox/why", []byte("because"), true) }))
	l.must(l.does("write", func() error { return c.Write("inbox/why", []byte("therefore"), true) }))
	l.must(l.does("move", func() error { return c.Move("inbox/one", "done/one") }))
	l.must(l.does("move", func() error { return c.Move("done/one", "done/two") }))
	l.must(l.does("add", func() error { return c.Add("inbox/one", []byte("another")) }))

	var at []map[string]string // the files, by the number of calls made
	p := newPlatter()
	for n := 0; n <= len(l.rec.calls); n++ {
		files := map[string]string{}
		p.everything().walk(l.rec.root, "", files)
		maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".tmp") })
		at = append(at, files)
		if n < len(l.rec.calls) {
			p.do(l.rec.calls[n])
		}
	}
	l.cuts(1, func(dir string, done int, perhaps *deed) error {
		have := tree(t, dir)
		maps.DeleteFunc(have, func(name, _ string) bool { return strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".tmp") })
		want := at[done]
		if maps.Equal(have, want) {
			return nil
		}
		if perhaps != nil {
			both := maps.Clone(want)
			maps.Copy(both, at[perhaps.to])
			if maps.Equal(have, at[perhaps.to]) || perhaps.what == "move" && maps.Equal(have, both) {
				return nil
			}
		}
		return fmt.Errorf("there is %v, not %v", have, want)
	})
}

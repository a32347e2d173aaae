// Package storetest is the contract of app.Store, app.Tx and app.Outcomes as
// tests that every implementation passes, on the disk or in memory.
package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Process is the store as one process sees it.
type Process interface {
	app.Store
	app.Outcomes
	app.Observer

	// Die ends the process at once, perhaps within a transaction: it does
	// nothing more, and its locks are free.
	Die()
}

// Store is one store under test.
type Store struct {
	// Process returns a new process, which has read nothing yet. If another
	// one holds the lock, its Begin soon fails with app.ErrBusy.
	Process func() Process

	// Spoil makes the record of a job unreadable; nil: no record can be.
	Spoil func(kernel.JobID)
}

// Run runs the contract over stores that fresh makes, each empty.
func Run(t *testing.T, fresh func(t *testing.T) Store) {
	for _, c := range []struct {
		name string
		test func(*bench)
	}{
		{"empty", testEmpty},
		{"commit", testCommit},
		{"refused plans", testRefused},
		{"revisions", testRevisions},
		{"remove", testRemove},
		{"unfinished", testUnfinished},
		{"death", testDeath},
		{"lock", testLock},
		{"markers", testMarkers},
		{"numbers", testNumbers},
		{"blocked", testBlocked},
		{"deferred", testDeferred},
		{"outcomes", testOutcomes},
		{"scope", testScope},
		{"unreadable", testUnreadable},
		{"history", testHistory},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(&bench{t, fresh(t)}) })
	}
}

// bench is a test on one store.
type bench struct {
	*testing.T
	Store
}

var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func id(n int) kernel.JobID { return kernel.JobID(fmt.Sprintf("%032x", n)) }

// plain returns a new job.
func plain(n int) kernel.Job {
	return kernel.Job{ID: id(n), Created: epoch.Add(time.Duration(n) * time.Second), Rev: 1,
		Spec: kernel.Spec{Name: fmt.Sprint("job ", n), Task: kernel.Task{Args: []string{"true"}}}}
}

func token(key string) kernel.Artifact {
	return kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: key}
}

// put returns the action that changes j's state, and j after it.
func put(j kernel.Job, change func(*kernel.State)) (kernel.PutState, kernel.Job) {
	a := kernel.PutState{Job: j.ID, If: j.Rev, State: j.State}
	change(&a.State)
	j.State, j.Rev = a.State, j.Rev+1
	return a, j
}

func say(why string) func(*kernel.State) { return func(st *kernel.State) { st.Reason = why } }

func end(status kernel.Status) func(*kernel.State) {
	return func(st *kernel.State) { st.Status = status }
}

// begin begins a transaction of p.
func (b *bench) begin(p Process) app.Tx {
	b.Helper()
	tx, err := p.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return tx
}

func (b *bench) load(tx app.Tx, scope kernel.Scope) kernel.Records {
	b.Helper()
	rec, err := tx.Load(scope)
	if err != nil {
		b.Fatal(err)
	}
	return rec
}

func (b *bench) close(tx app.Tx) {
	b.Helper()
	if err := tx.Close(); err != nil {
		b.Fatal(err)
	}
}

// commit runs a whole transaction of p that commits actions.
func (b *bench) commit(p Process, actions ...kernel.Action) {
	b.Helper()
	tx := b.begin(p)
	b.load(tx, kernel.Scope{All: true})
	if err := tx.Commit(kernel.NewPlan(actions...)); err != nil {
		b.Fatal(err)
	}
	if err := tx.Done(); err != nil {
		b.Fatal(err)
	}
	b.close(tx)
}

// holds asserts that the store holds these jobs and no others, however it is
// asked.
func (b *bench) holds(want ...kernel.Job) {
	b.Helper()
	read, err := b.Process().Read(b.Context(), kernel.Scope{All: true})
	if err != nil {
		b.Fatal(err)
	}
	b.are("read", read, want)
	p := b.Process()
	tx := b.begin(p)
	b.are("loaded", b.load(tx, kernel.Scope{All: true}), want)
	b.close(tx)
	for _, j := range want {
		have, err := p.Job(j.ID)
		if err != nil {
			b.Errorf("job %s: %v", j.ID, err)
		}
		b.same(j, have)
	}
}

func (b *bench) are(how string, rec kernel.Records, want []kernel.Job) {
	b.Helper()
	if len(rec.Unreadable) > 0 || rec.Succeeded != 0 {
		b.Errorf("%s: unreadable %v, %d left out", how, rec.Unreadable, rec.Succeeded)
	}
	byID := func(x, y kernel.Job) int { return cmp.Compare(x.ID, y.ID) }
	have := slices.SortedFunc(slices.Values(rec.Jobs), byID)
	want = slices.SortedFunc(slices.Values(want), byID)
	if len(have) != len(want) {
		b.Fatalf("%s: %d jobs, want %d", how, len(have), len(want))
	}
	for i := range want {
		b.same(want[i], have[i])
	}
}

// same asserts that a job came back as it was given.
func (b *bench) same(want, have kernel.Job) {
	b.Helper()
	if !reflect.DeepEqual(want, have) {
		b.Fatalf("a job is\n%+v, want\n%+v", have, want)
	}
}

// observe returns the jobs with a marker of a, as p sees it.
func (b *bench) observe(p Process, a kernel.Artifact) []kernel.JobID {
	b.Helper()
	f := kernel.NewFacts()
	p.Observe(b.Context(), kernel.Probes{Markers: []kernel.Artifact{a}}, &f)
	fact, ok := f.Markers[a]
	if !ok || !fact.Known {
		b.Fatalf("markers of %s: %+v", a, fact)
	}
	return slices.Sorted(slices.Values(fact.Value))
}

func (b *bench) result(p Process, a kernel.AttemptID) *kernel.Result {
	b.Helper()
	f := kernel.NewFacts()
	p.Observe(b.Context(), kernel.Probes{Attempts: []kernel.AttemptID{a}}, &f)
	fact, ok := f.Results[a]
	if !ok || !fact.Known {
		b.Fatalf("result of %v: %+v", a, fact)
	}
	return fact.Value
}

func (b *bench) is(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("error %v, want %v", err, want)
	}
}

func testEmpty(b *bench) {
	p := b.Process()
	_, err := p.Job(id(1))
	b.is(err, kernel.ErrNotFound)
	b.holds()
	tx := b.begin(p)
	if left := tx.Unfinished(); len(left) > 0 {
		b.Errorf("unfinished %v", left)
	}
	if err := errors.Join(tx.Commit(kernel.Plan{}), tx.Done(), tx.Close()); err != nil {
		b.Error(err)
	}
	b.holds()
	if m := b.observe(p, token("none")); len(m) > 0 {
		b.Errorf("markers %v", m)
	}
	if r := b.result(p, kernel.AttemptID{Job: id(1), N: 1}); r != nil {
		b.Errorf("result %+v", r)
	}
}

// All processes see what one process commits, as a whole.
func testCommit(b *bench) {
	one, two := plain(1), plain(2)
	two.Spec.After = []kernel.JobID{one.ID}
	two.Spec.Produces, two.Spec.Needs = []kernel.Artifact{token("a")}, []kernel.Artifact{token("b")}
	two.Spec.Locks = []kernel.Lock{{Key: "k", Mode: kernel.Exclusive}}
	old := b.Process()
	b.commit(old, kernel.Create(one), kernel.Create(two))
	b.holds(one, two)
	other := b.Process()
	a, changed := put(one, say("changed"))
	b.commit(other, a)
	b.holds(changed, two)
	tx := b.begin(old)
	b.are("loaded by who knew it", b.load(tx, kernel.Scope{All: true}), []kernel.Job{changed, two})
	b.close(tx)
}

// A plan happens whole or not at all, and the transaction goes on.
func testRefused(b *bench) {
	one, two := plain(1), plain(2)
	b.commit(b.Process(), kernel.Create(one), kernel.Create(two))
	good, better := put(one, say("good"))
	stale, _ := put(two, say("stale"))
	stale.If = 7
	unknown, _ := put(plain(8), say("unknown"))
	for _, c := range []struct {
		bad  kernel.Action
		want error
	}{{stale, kernel.ErrStale}, {unknown, kernel.ErrNotFound}, {kernel.Create(plain(2)), kernel.ErrConflict}} {
		tx := b.begin(b.Process())
		b.load(tx, kernel.Scope{})
		err := tx.Commit(kernel.NewPlan(good, kernel.Create(plain(3)),
			kernel.Publish{Attempt: one.Attempt(), Artifacts: []kernel.Artifact{token("a")}}, c.bad))
		b.is(err, c.want)
		b.close(tx)
		b.holds(one, two)
		if m := b.observe(b.Process(), token("a")); len(m) > 0 {
			b.Errorf("markers %v of a plan that was refused", m)
		}
	}
	tx := b.begin(b.Process())
	b.load(tx, kernel.Scope{})
	b.is(tx.Commit(kernel.NewPlan(good, stale)), kernel.ErrStale)
	if err := tx.Commit(kernel.NewPlan(good)); err != nil {
		b.Errorf("the good part by itself: %v", err)
	}
	b.close(tx)
	b.holds(better, two)
}

// A revision grows by one with each change, and a change names the revision that
// it was planned over.
func testRevisions(b *bench) {
	j := plain(1)
	p := b.Process()
	first, then := put(j, say("first"))
	b.commit(p, kernel.Create(j), first)
	b.holds(then)
	second, more := put(then, say("second"))
	third, most := put(more, end(kernel.Failed))
	b.commit(p, second, third)
	b.holds(most)
	tx := b.begin(p)
	b.load(tx, kernel.Scope{})
	for _, a := range []kernel.PutState{first, second, third} {
		b.is(tx.Commit(kernel.NewPlan(a)), kernel.ErrStale)
	}
	b.close(tx)
	b.holds(most)
}

func testRemove(b *bench) {
	one, two := plain(1), plain(2)
	one.Spec.Produces, two.Spec.Produces = []kernel.Artifact{token("a")}, []kernel.Artifact{token("a")}
	p := b.Process()
	b.commit(p, kernel.Create(one), kernel.Create(two),
		kernel.Publish{Attempt: kernel.AttemptID{Job: one.ID, N: 1}, Artifacts: one.Spec.Produces},
		kernel.Publish{Attempt: kernel.AttemptID{Job: two.ID, N: 1}, Artifacts: two.Spec.Produces})
	b.commit(b.Process(), kernel.RemoveJob{Job: one.ID, Produces: one.Spec.Produces})
	b.holds(two)
	_, err := p.Job(one.ID)
	b.is(err, kernel.ErrNotFound)
	if m := b.observe(p, token("a")); !slices.Equal(m, []kernel.JobID{two.ID}) {
		b.Errorf("markers %v", m)
	}
	tx := b.begin(p)
	b.load(tx, kernel.Scope{})
	a, _ := put(one, say("gone"))
	b.is(tx.Commit(kernel.NewPlan(a)), kernel.ErrNotFound)
	b.close(tx)
	change, _ := put(two, end(kernel.Failed))
	b.commit(b.Process(), change, kernel.RemoveJob{Job: two.ID, Produces: two.Spec.Produces})
	b.holds()
}

// world returns world actions, which a store only remembers: one of every kind.
func world(n int) []kernel.WorldAction {
	actions := kernel.WorldActions()
	for i, a := range actions {
		v := reflect.New(reflect.TypeOf(a)).Elem()
		fill(v, n)
		actions[i] = v.Interface().(kernel.WorldAction)
	}
	return actions
}

// fill gives every field of an action a value.
func fill(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n+i)
		}
	case reflect.String:
		v.SetString(string(id(n)))
	case reflect.Int:
		v.SetInt(int64(n))
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("storetest cannot fill a " + v.Type().String())
	}
}

// What a plan does to the world is remembered until it is done, across
// processes and reads, or until the next plan is committed.
func testUnfinished(b *bench) {
	tx := b.begin(b.Process())
	b.load(tx, kernel.Scope{})
	if err := tx.Commit(kernel.Plan{Records: []kernel.RecordAction{kernel.Create(plain(1))}, World: world(1)}); err != nil {
		b.Fatal(err)
	}
	b.close(tx)
	b.holds(plain(1))
	b.unfinished(world(1)...)
	tx = b.begin(b.Process())
	b.load(tx, kernel.Scope{})
	if err := tx.Commit(kernel.Plan{Records: []kernel.RecordAction{kernel.Create(plain(2))}, World: world(2)}); err != nil {
		b.Fatal(err)
	}
	b.close(tx)
	b.unfinished(world(2)...)
	tx = b.begin(b.Process())
	if err := tx.Done(); err != nil {
		b.Fatal(err)
	}
	if left := tx.Unfinished(); len(left) > 0 {
		b.Errorf("unfinished after done: %v", left)
	}
	b.close(tx)
	b.unfinished()
}

func (b *bench) unfinished(want ...kernel.WorldAction) {
	b.Helper()
	for range 2 {
		tx := b.begin(b.Process())
		if have := tx.Unfinished(); len(have) != len(want) || len(want) > 0 && !reflect.DeepEqual(have, want) {
			b.Errorf("unfinished %v, want %v", have, want)
		}
		b.close(tx)
	}
}

// A process that dies leaves its lock free, and what it committed stays.
func testDeath(b *bench) {
	p := b.Process()
	b.begin(p)
	p.Die()
	p = b.Process()
	tx := b.begin(p)
	b.load(tx, kernel.Scope{})
	if err := tx.Commit(kernel.Plan{Records: []kernel.RecordAction{kernel.Create(plain(1))}, World: world(1)}); err != nil {
		b.Fatal(err)
	}
	p.Die()
	b.unfinished(world(1)...)
	b.holds(plain(1))
}

// One transaction at a time.
func testLock(b *bench) {
	p := b.Process()
	tx := b.begin(p)
	ctx, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
	defer cancel()
	other := b.Process()
	_, err := other.Begin(ctx)
	b.is(err, app.ErrBusy)
	b.close(tx)
	b.close(b.begin(other))
	b.close(b.begin(p))
}

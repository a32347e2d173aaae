package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Markers say which jobs made an artifact. A reset and a removal remove the
// job's own markers only.
func testMarkers(b *bench) {
	one, two := plain(1), plain(2)
	a, other := token("a"), token("b")
	one.Spec.Produces, two.Spec.Produces = []kernel.Artifact{a, other}, []kernel.Artifact{a}
	doc := kernel.Artifact{Kind: kernel.PlanDoc, Name: "p", Ref: "draft/p"}
	p := b.Process()
	b.commit(p, kernel.Create(one), kernel.Create(two))
	of := func(n int) kernel.AttemptID { return kernel.AttemptID{Job: id(n), N: 1} }
	expect := func(a kernel.Artifact, want ...kernel.JobID) {
		b.Helper()
		if have := b.observe(b.Process(), a); !slices.Equal(have, want) {
			b.Errorf("markers of %s: %v, want %v", a, have, want)
		}
	}
	b.commit(p, kernel.Publish{Attempt: of(1), Artifacts: []kernel.Artifact{a, other, doc}}, kernel.Publish{Attempt: of(2), Artifacts: []kernel.Artifact{a}})
	expect(a, id(1), id(2))
	expect(other, id(1))
	b.commit(p, kernel.Publish{Attempt: of(1), Artifacts: []kernel.Artifact{a}}) // again
	expect(a, id(1), id(2))
	b.commit(p, kernel.Rotate{Attempt: of(1)})
	expect(a, id(1), id(2))
	b.commit(b.Process(), kernel.Reset{Attempt: of(1), Produces: one.Spec.Produces})
	expect(a, id(2))
	expect(other)
	b.commit(p, kernel.Reset{Attempt: of(2), Produces: two.Spec.Produces}, kernel.Publish{Attempt: of(2), Artifacts: []kernel.Artifact{a}})
	expect(a, id(2))
	b.commit(p, kernel.RemoveJob{Job: id(2), Produces: two.Spec.Produces})
	expect(a)
}

// A blocked job may be opened again in the transaction that reads it. So a load
// also returns what the job refers to, even if that has succeeded or is retired.
func testBlocked(b *bench) {
	maker, before, held := plain(1), plain(2), plain(3)
	maker.State.Status, before.State.Status, held.State.Status = kernel.Succeeded, kernel.Succeeded, kernel.BlockedByDependency
	maker.Spec.Produces, maker.State.Retired = []kernel.Artifact{token("a")}, true
	held.Spec.Needs, held.Spec.After = []kernel.Artifact{token("a")}, []kernel.JobID{before.ID}
	b.commit(b.Process(), kernel.Create(maker), kernel.Create(before), kernel.Create(held))
	tx := b.begin(b.Process())
	if rec := b.load(tx, kernel.Scope{}); len(rec.Jobs) != 3 {
		b.Errorf("a blocked job comes without what it refers to: %d jobs, want 3", len(rec.Jobs))
	}
	b.close(tx)
}

// The routes of a job that has ended may still be to be taken. So a load also returns it, and the jobs that they name.
func testDeferred(b *bench) {
	first, second, failed, repair := plain(1), plain(2), plain(3), plain(4)
	for _, j := range []*kernel.Job{&first, &second, &repair} {
		j.State.Status = kernel.Succeeded
	}
	failed.State.Status = kernel.Failed
	for j, to := range map[*kernel.Job]kernel.JobID{&failed: first.ID, &repair: second.ID} {
		j.State.Deferred, j.Spec.Routes = true, []kernel.Route{{On: kernel.OutcomeFailed, To: to}}
	}
	b.commit(b.Process(), kernel.Create(first), kernel.Create(second), kernel.Create(failed), kernel.Create(repair))
	tx := b.begin(b.Process())
	if rec := b.load(tx, kernel.Scope{}); len(rec.Jobs) != 4 {
		b.Errorf("jobs whose routes wait come without what these name: %d jobs, want 4", len(rec.Jobs))
	}
	b.close(tx)
}

// The last number that was given is remembered even after its job is removed.
func testNumbers(b *bench) {
	one, two := plain(1), plain(2)
	one.Number, two.Number, two.Part = 1, 2, "a"
	p := b.Process()
	b.commit(p, kernel.Create(one), kernel.Create(two))
	b.commit(p, kernel.RemoveJob{Job: two.ID})
	for _, p := range []Process{p, b.Process()} {
		tx := b.begin(p)
		for _, scope := range []kernel.Scope{{}, {All: true}, {Near: []kernel.Near{{Kind: kernel.OfNumber, Number: 1}}}} {
			rec := b.load(tx, scope)
			if rec.Last != 2 || rec.Unnumbered || len(rec.Jobs) != 1 || rec.Jobs[0].Number != 1 {
				b.Errorf("%+v brings %+v, want job 1, and 2 as the last number", scope, rec)
			}
		}
		b.close(tx)
	}
}

// Every process reads an outcome as it was recorded, whatever is recorded about
// other attempts. A reset leaves no outcome that could pass for a later attempt's.
func testOutcomes(b *bench) {
	j := plain(1)
	j.State.Status, j.State.Attempt = kernel.Running, 1
	p := b.Process()
	b.commit(p, kernel.Create(j))
	first := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 3, Class: kernel.ExitFailure, Reason: "exit code 3", Ended: epoch}
	if r := b.result(p, first.Attempt); r != nil {
		b.Errorf("a result before there is one: %+v", r)
	}
	expect := func(want kernel.Result) {
		b.Helper()
		if r := b.result(b.Process(), want.Attempt); r == nil || r.Attempt != want.Attempt || r.Outcome != want.Outcome || r.Exit != want.Exit ||
			r.Class != want.Class || r.Reason != want.Reason || !r.Ended.Equal(want.Ended) || !slices.Equal(r.Produced, want.Produced) {
			b.Errorf("result %+v, want %+v", r, want)
		}
	}
	tx := b.begin(b.Process()) // a runner does not wait for the lock
	if err := p.Conclude(first); err != nil {
		b.Fatal(err)
	}
	b.close(tx)
	expect(first)
	b.holds(j) // the record does not change
	second := kernel.Result{Attempt: kernel.AttemptID{Job: j.ID, N: 2}, Outcome: kernel.OutcomeSucceeded, Produced: []kernel.Artifact{token("a")}, Ended: epoch.Add(time.Hour)}
	if err := b.Process().Conclude(second); err != nil {
		b.Fatal(err)
	}
	expect(second)
	if err := p.Conclude(first); err != nil { // a late report of a runner that lost its job
		b.Fatal(err)
	}
	expect(second)
	b.commit(p, kernel.Reset{Attempt: second.Attempt})
	if r := b.result(p, kernel.AttemptID{Job: j.ID, N: 3}); r != nil {
		b.Errorf("a result of the attempt after a reset: %+v", r)
	}
}

// A load returns the open jobs, what they refer to and what is asked for. Other
// jobs that succeeded may be left out, and are counted.
func testScope(b *bench) {
	p := b.Process()
	const old = 40
	var all []kernel.Job
	for n := 1; n <= old; n++ {
		j := plain(n)
		j.Spec.Produces = []kernel.Artifact{token(fmt.Sprint(n))}
		a, now := put(j, func(st *kernel.State) {
			st.Status, st.Reason = kernel.Succeeded, strings.Repeat("long ", 4000)
		})
		b.commit(p, kernel.Create(j), a)
		all = append(all, now)
	}
	failed, after, needs := plain(old+1), plain(old+2), plain(old+3)
	failed.State.Status = kernel.Failed
	after.Spec.After = []kernel.JobID{id(3)}
	needs.Spec.Needs = []kernel.Artifact{token("5")}
	b.commit(p, kernel.Create(failed), kernel.Create(after), kernel.Create(needs))
	all = append(all, failed, after, needs)
	b.holds(all...)
	for _, process := range []Process{p, b.Process()} {
		tx := b.begin(process)
		for _, c := range []struct {
			scope kernel.Scope
			want  []kernel.JobID
		}{
			{kernel.Scope{}, nil},
			{kernel.Scope{Jobs: []kernel.JobID{id(7), id(old + 99), "none"}}, []kernel.JobID{id(7)}},
			{kernel.Scope{Artifacts: []kernel.Artifact{token("9"), token("nobody's")}}, []kernel.JobID{id(9)}},
			{kernel.Scope{}, nil},
		} {
			rec := b.load(tx, c.scope)
			have := map[kernel.JobID]bool{}
			for _, j := range rec.Jobs {
				if have[j.ID] {
					b.Errorf("%+v: job %s twice", c.scope, j.ID)
				}
				have[j.ID] = true
			}
			for _, want := range append(c.want, failed.ID, after.ID, needs.ID, id(3), id(5)) {
				if !have[want] {
					b.Errorf("%+v: job %s is missing", c.scope, want)
				}
			}
			if len(rec.Jobs)+rec.Succeeded != len(all) || len(rec.Unreadable) > 0 {
				b.Errorf("%+v: %d jobs and %d more, of %d; unreadable %v", c.scope, len(rec.Jobs), rec.Succeeded, len(all), rec.Unreadable)
			}
		}
		b.close(tx)
	}
	tx := b.begin(b.Process()) // what was left out can be changed once it was asked for
	b.load(tx, kernel.Scope{Jobs: []kernel.JobID{id(11)}})
	again, now := put(all[10], end(kernel.Queued))
	if err := tx.Commit(kernel.NewPlan(again)); err != nil {
		b.Fatal(err)
	}
	b.close(tx)
	all[10] = now
	b.holds(all...)
}

// A record that makes no sense is reported with the reason, cannot be changed,
// and hides no other.
func testUnreadable(b *bench) {
	if b.Spoil == nil {
		b.Skip("its records cannot be spoiled")
	}
	one, two := plain(1), plain(2)
	b.commit(b.Process(), kernel.Create(one), kernel.Create(two))
	b.Spoil(one.ID)
	p := b.Process()
	read, err := p.Read(b.Context(), kernel.Scope{})
	if err != nil {
		b.Fatal(err)
	}
	tx := b.begin(p)
	for _, rec := range []kernel.Records{read, b.load(tx, kernel.Scope{}), b.load(tx, kernel.Scope{Jobs: []kernel.JobID{one.ID}})} {
		if rec.Unreadable[one.ID] == "" || len(rec.Unreadable) != 1 || len(rec.Jobs) != 1 || rec.Succeeded != 0 {
			b.Errorf("%d jobs, unreadable %v, %d more", len(rec.Jobs), rec.Unreadable, rec.Succeeded)
		}
	}
	if _, err := p.Job(one.ID); err == nil {
		b.Error("a record that makes no sense was read")
	}
	bad, _ := put(one, say("bad"))
	if err := tx.Commit(kernel.NewPlan(bad)); err == nil {
		b.Error("a record that makes no sense was changed")
	}
	good, _ := put(two, say("good"))
	b.load(tx, kernel.Scope{})
	if err := tx.Commit(kernel.NewPlan(good)); err != nil {
		b.Error(err)
	}
	b.close(tx)
}

// Whatever several processes do, even if some die, the store behaves like a map.
func testHistory(b *bench) {
	r := drawtest.Of(b.T)
	model := map[kernel.JobID]kernel.Job{}
	known := []map[kernel.JobID]kernel.Revision{nil, nil, nil} // the revisions that each process has seen
	processes := []Process{b.Process(), b.Process(), b.Process()}
	facts := map[kernel.Near]string{} // what the store was told that all readers were judged by
	for step := range 150 {
		k := r.IntN(len(processes))
		tx := b.begin(processes[k])
		known[k] = map[kernel.JobID]kernel.Revision{}
		for _, j := range b.load(tx, kernel.Scope{All: true}).Jobs {
			known[k][j.ID] = j.Rev
		}
		b.near(r, tx, model)
		asked := b.reads(processes[k], tx, model, facts)
		if len(known[k]) != len(model) {
			b.Fatalf("step %d: process %d knows %d jobs of %d", step, k, len(known[k]), len(model))
		}
		for id, j := range model {
			if known[k][id] != j.Rev {
				b.Fatalf("step %d: process %d knows %s at %d: it is at %d", step, k, id, known[k][id], j.Rev)
			}
		}
		plan, next := randomPlan(r, step, model)
		judged := kernel.NewPlan(plan...)
		judged.Judged = []string{"", "some limits"}[min(r.IntN(3), 1)]
		if h, can := tx.(readFacts); can && judged.Judged != "" {
			judgedBy := map[kernel.Near]string{}
			for n := range asked {
				judgedBy[n] = []string{"", "v0", "v1", kernel.JudgedNone}[r.IntN(4)]
			}
			for n := range reads(model, nil) {
				if _, is := asked[n]; !is && r.IntN(4) == 0 {
					judgedBy[n] = "" // it was observed, and had changed
				}
			}
			for n := range reads(next, nil) {
				if _, is := reads(model, nil)[n]; !is {
					judgedBy[n] = "v2"
				}
			}
			if r.IntN(10) == 0 {
				judgedBy = nil
			}
			facts = Judged(slices.Collect(maps.Values(next)), facts, judgedBy)
			h.JudgedBy(judgedBy)
		}
		if err := tx.Commit(judged); err != nil {
			b.Fatalf("step %d: %v", step, err)
		}
		model = next
		facts = Judged(slices.Collect(maps.Values(model)), facts, map[kernel.Near]string{})
		if known[k] = map[kernel.JobID]kernel.Revision{}; r.IntN(8) == 0 {
			processes[k].Die()
			processes[k], known[k] = b.Process(), nil
			continue
		}
		for id, j := range model {
			known[k][id] = j.Rev
		}
		b.close(tx)
	}
	var all []kernel.Job
	for _, j := range model {
		all = append(all, j)
	}
	b.holds(all...)
}

// near asks a store that can read narrowly for what is near to something, and
// checks the answer against the definition, Pick.
func (b *bench) near(r *rand.Rand, tx app.Tx, model map[kernel.JobID]kernel.Job) {
	b.Helper()
	var all []kernel.Job
	for _, j := range model {
		all = append(all, j)
	}
	slices.SortFunc(all, func(j, k kernel.Job) int { return j.Compare(&k) })
	b.tallies(tx, all)
	for _, n := range randomNear(r, all) {
		rec := b.load(tx, kernel.Scope{Near: []kernel.Near{n}})
		if !rec.Narrow {
			return
		}
		dirty := map[kernel.JobID]bool{}
		for _, id := range rec.Dirty {
			dirty[id] = true
		}
		want, have := map[kernel.JobID]bool{}, map[kernel.JobID]bool{}
		for _, j := range Pick(all, []kernel.Near{n}) {
			want[j.ID] = true
		}
		for _, j := range rec.Jobs {
			if have[j.ID] = true; !want[j.ID] && !dirty[j.ID] {
				b.Fatalf("%+v: job %s is not near", n, j.ID)
			}
			b.same(model[j.ID], j)
		}
		for id := range want {
			if !have[id] {
				b.Fatalf("%+v: job %s is missing", n, id)
			}
		}
	}
}

// readFacts is a transaction of a store that knows which facts jobs read.
type readFacts interface {
	JudgedBy(map[kernel.Near]string)
}

// reads asks a store that can tell which facts jobs read, checks the answer against the jobs,
// and returns it. facts are what the store was told that the jobs were judged by; it may have
// forgotten them.
func (b *bench) reads(p Process, tx app.Tx, model map[kernel.JobID]kernel.Job, facts map[kernel.Near]string) map[kernel.Near]kernel.ReadFact {
	b.Helper()
	rec := b.load(tx, kernel.Scope{Near: []kernel.Near{}, Reads: true})
	if rec.Reads == nil {
		return nil
	}
	left := maps.Clone(rec.Reads)
	for n, want := range reads(model, facts) {
		is, there := left[n]
		if !there && n.Artifact.Kind == kernel.Custom && slices.Contains(rec.Elided, n.Artifact.Name) {
			if ids := b.observe(p, n.Artifact); len(ids) > 0 || want.Judged != kernel.JudgedNone {
				b.Fatalf("%+v is left out: its readers were judged by %q, and its markers are %v", n, want.Judged, ids)
			}
			continue
		}
		if is.Judged == "" {
			want.Judged = ""
		}
		if !there || is != want {
			b.Fatalf("%+v is read as %+v (%t), not as %+v", n, is, there, want)
		}
		delete(left, n)
	}
	if len(left) > 0 {
		b.Fatalf("nobody reads %+v", left)
	}
	return rec.Reads
}

func reads(model map[kernel.JobID]kernel.Job, facts map[kernel.Near]string) map[kernel.Near]kernel.ReadFact {
	return Reads(slices.Collect(maps.Values(model)), facts)
}

// tallies asks a store that can tell for the tally of each number that jobs share, and
// checks the answer against the jobs.
func (b *bench) tallies(tx app.Tx, all []kernel.Job) {
	b.Helper()
	want := map[kernel.Number]kernel.Tally{99: {}}
	for _, j := range all {
		t := want[j.Number]
		if j.Part != "" {
			t.Add(&j)
		}
		want[j.Number] = t
	}
	rec := b.load(tx, kernel.Scope{Near: []kernel.Near{}, Tally: slices.Collect(maps.Keys(want))})
	if rec.Tallies != nil && !maps.Equal(rec.Tallies, want) {
		b.Fatalf("the jobs that share a number stand like this:\n%+v\nand not like this:\n%+v", want, rec.Tallies)
	}
}

// randomNear returns a query of every kind, about jobs that exist.
func randomNear(r *rand.Rand, all []kernel.Job) []kernel.Near {
	if len(all) == 0 {
		return nil
	}
	j, k := all[r.IntN(len(all))], all[r.IntN(len(all))]
	most, run := 1+r.IntN(3), k.Spec.Origin.Run
	a := token(fmt.Sprint(r.IntN(3)))
	return []kernel.Near{
		{Kind: kernel.Itself, Job: j.ID}, {Kind: kernel.Attended}, {Kind: kernel.Due, At: j.State.RetryAt},
		{Kind: kernel.Dependents, Job: j.ID}, {Kind: kernel.Dependents, Job: j.ID, Most: most},
		{Kind: kernel.Consumers, Artifact: a}, {Kind: kernel.RunConsumers, Run: run, Artifact: a}, {Kind: kernel.RunConsumers, Artifact: a},
		{Kind: kernel.Producers, Artifact: a}, {Kind: kernel.RunProducers, Run: run, Artifact: a},
		{Kind: kernel.Contenders, Key: "x"}, {Kind: kernel.Contenders, Key: "x", Most: most}, {Kind: kernel.PoolContenders, Key: "x"}, {Kind: kernel.PoolContenders, Key: "x", Most: most}, {Kind: kernel.Line, Key: kernel.LocalExecutor, Most: most}, {Kind: kernel.Waiters, Most: most},
		{Kind: kernel.Members, Run: "r1", Most: most}, {Kind: kernel.OnBranch, Key: j.Spec.Origin.Branch}, {Kind: kernel.Rivals, Key: j.Spec.Origin.Branch}, {Kind: kernel.Keyed, Key: "k1"}, {Kind: kernel.Stoppers, Run: run},
		{Kind: kernel.Handled, Job: j.ID}, {Kind: kernel.Woken}, {Kind: kernel.NewestRuns, Most: most}, {Kind: kernel.Newest, Most: most}, kernel.Near{Kind: kernel.Newest, Most: most}.With(j.State.Status).With(k.State.Status),
		{Kind: kernel.Outsiders}, {Kind: kernel.Readers, Artifact: a}, {Kind: kernel.Readers, Key: "main"}, {Kind: kernel.Readers, Key: ":clean"},
		{Kind: kernel.Prompts, Key: "/in/inbox/x.running.md"}, {Kind: kernel.OfNumber, Number: k.Number}, {Kind: kernel.OfNumber, Number: k.Number, Key: "a"},
	}
}

// entangle draws relations of a new job to the existing ones.
func entangle(r *rand.Rand, j *kernel.Job, model map[kernel.JobID]kernel.Job) {
	s := &j.Spec
	j.Number, j.Part = kernel.Number(1+r.IntN(3)), []string{"", "a", "b"}[r.IntN(3)]
	s.Origin.Run = []kernel.RunID{"", "r1", "r2"}[r.IntN(3)]
	for id := range model {
		switch r.IntN(20) {
		case 0:
			s.After = append(s.After, id)
		case 1:
			s.Routes = append(s.Routes, kernel.Route{On: kernel.OutcomeFailed, To: id})
		}
	}
	slices.Sort(s.After)
	for n := range 3 {
		if a := token(fmt.Sprint(n)); r.IntN(4) == 0 {
			s.Needs = append(s.Needs, a)
		} else if r.IntN(4) == 0 {
			s.Produces = append(s.Produces, a)
		}
	}
	if r.IntN(3) == 0 {
		s.Locks = []kernel.Lock{{Key: []string{"x", "y"}[r.IntN(2)], Units: r.IntN(2)}}
	}
	switch r.IntN(8) {
	case 0:
		s.Pinned = kernel.PinnedHead{Branch: "main", Commit: "0123456789012345678901234567890123456789"}
	case 1:
		s.Preconditions = []kernel.Precondition{{Kind: kernel.CleanWorktree}, {Kind: kernel.BranchExists, Branch: "main"}}
	case 2:
		s.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists}}
	}
	s.Routed = r.IntN(4) == 0
	if r.IntN(3) == 0 {
		s.FailureMode = kernel.BlockDownstream
	}
	if r.IntN(4) == 0 {
		s.IdempotencyKey = []string{"k1", "k2"}[r.IntN(2)]
	}
	if r.IntN(6) == 0 {
		s.Prompt = &kernel.Prompt{File: "/in/inbox/x.running.md", Rel: "x.prompt.md"}
	}
}

// later returns a time in the next seconds, or hours later: a retry is due then only if the clock was set back.
func later(r *rand.Rand) time.Time {
	return epoch.Add(time.Duration(r.IntN(3))*time.Second + time.Duration(r.IntN(3))*time.Hour)
}

// randomPlan returns a plan over the jobs of model, and the jobs that it leads to. A
// job that it removes is not changed as well: another test covers that.
func randomPlan(r *rand.Rand, step int, model map[kernel.JobID]kernel.Job) ([]kernel.Action, map[kernel.JobID]kernel.Job) {
	var plan []kernel.Action
	next := map[kernel.JobID]kernel.Job{}
	for _, id := range slices.Sorted(maps.Keys(model)) { // a seed makes the same plans again
		j := model[id]
		next[id] = j
		switch {
		case r.IntN(40) == 0:
			plan = append(plan, kernel.RemoveJob{Job: id})
			delete(next, id)
		case r.IntN(6) == 0:
			a, now := put(j, func(st *kernel.State) {
				st.Status = kernel.Statuses()[r.IntN(len(kernel.Statuses()))]
				st.Reason = fmt.Sprint(step)
				if st.Wait = (kernel.WaitReason{}); st.Status.Waiting() {
					st.Wait = []kernel.WaitReason{{Kind: kernel.OnLocks, Detail: "waiting on locks"}, kernel.WaitReasonOf(kernel.OnLocks, "waiting on pool max_running (1 of 1 in use)"),
						kernel.WaitReasonOf(kernel.OnDependencies, "waiting on job "+string(id)), {Kind: kernel.OnDependencies, Detail: "awaiting producer for custom:t:1"}}[r.IntN(4)]
				}
				st.RetryAt = time.Time{}
				if r.IntN(2) == 0 {
					st.RetryAt = later(r)
				}
				st.Finished, st.Outcome = time.Time{}, kernel.NoOutcome
				if st.Status.Terminal() {
					st.Finished = epoch.Add(time.Duration(r.IntN(5)) * time.Second)
				}
				if st.Status == kernel.BlockedByDependency && r.IntN(2) == 0 {
					st.Outcome = kernel.OutcomeBlocked
				}
				st.Approval = kernel.Approval{}
				if r.IntN(2) == 0 {
					st.Approval = kernel.Approval{State: kernel.Pending, ExpiresAt: later(r)}
				}
			})
			plan, next[id] = append(plan, a), now
		}
	}
	j := plain(step + 1)
	if entangle(r, &j, model); r.IntN(3) > 0 {
		plan, next[j.ID] = append(plan, kernel.Create(j)), j
	}
	return plan, next
}

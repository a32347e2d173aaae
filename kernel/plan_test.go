package kernel_test

import (
	"reflect"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A snapshot is in schedule order, by time of creation and then by id, and
// holds each job once.
func TestNewSnapshot(t *testing.T) {
	late := job("a", func(j *kernel.Job) { j.Created = t0.AddDate(0, 0, 1) })
	twice := job("c", func(j *kernel.Job) { j.Created = t0.AddDate(0, 0, 2) })
	in := []kernel.Job{twice, late, job("c"), job("b"), job("c")}
	s := snapshot(facts(), in...)
	var ids []kernel.JobID
	for _, j := range s.Jobs() {
		ids = append(ids, j.ID)
	}
	if words(ids) != "b c a" || !s.Job("c").Created.Equal(t0) || s.Job("d") != nil {
		t.Errorf("jobs %v, c of %v", ids, s.Job("c").Created)
	}
	in[1].State.Status = kernel.Failed
	if s.Job("a").State.Status != kernel.Queued {
		t.Error("the snapshot shares its jobs with the observation")
	}
}

// A job that gets a number is at another revision: what was decided on the one before does nothing.
func TestANumberIsAWriteOfItsOwn(t *testing.T) {
	s := snapshot(facts(), job("a"))
	st := s.Job("a").State
	st.Reason = "after the number"
	for rev, want := range map[kernel.Revision]string{1: "", 2: "after the number", 3: ""} {
		next := s.Apply(kernel.NewPlan(kernel.NumberJob{Job: "a", If: 1, Number: 7, Part: "2"}, kernel.PutState{Job: "a", If: rev, State: st}))
		if j := next.Job("a"); j.Number != 7 || j.Part != "2" || j.State.Reason != want {
			t.Errorf("at revision %d: %+v", rev, j)
		}
	}
	if j := s.Apply(kernel.NewPlan(kernel.NumberJob{Job: "a", If: 2, Number: 7}, kernel.NumberJob{Job: "gone", If: 1, Number: 8})).Job("a"); j.Number != 0 || j.Rev != 1 {
		t.Errorf("a number of another revision: %+v", j)
	}
}

// A draft leads to what its plans lead to one by one, with what was observed between them, and
// leaves the snapshot that it began with as it was.
func TestADraftIsItsPlansOneByOne(t *testing.T) {
	token := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "k"}
	patch := kernel.Artifact{Kind: kernel.CommandPatch, Name: "a"}
	made := kernel.AttemptID{Job: "a", N: 1}
	begin := marked(facts(), token.String())
	begin.Present[patch] = kernel.Seen(true)
	base := snapshot(begin, job("a", func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{token} }), job("b"))
	other := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "other"}
	later := kernel.NewFacts()
	later.Markers[other] = kernel.Seen([]kernel.JobID(nil))
	later.Markers[token] = kernel.Seen([]kernel.JobID(nil)) // as it was before the plan that made it
	st := base.Job("b").State
	st.Reason = "on record"
	plans := []kernel.Plan{
		kernel.NewPlan(kernel.Publish{Attempt: made, Artifacts: []kernel.Artifact{token, other}}),
		kernel.NewPlan(kernel.PutState{Job: "b", If: 1, State: st}),
		kernel.NewPlan(kernel.Reset{Attempt: made, Produces: []kernel.Artifact{token}}),
	}
	d, one := kernel.NewDraft(base), base
	for i, p := range plans {
		d.Add(p)
		one = one.Apply(p)
		if i == 0 {
			d.At(t0.AddDate(0, 0, 1))
			d.Observe(later)
			one = one.At(t0.AddDate(0, 0, 1)).WithFacts(later)
			if owners := d.Snapshot().Facts().Markers; len(owners[token].Value) != 1 || len(owners[other].Value) != 1 {
				t.Errorf("what the plan made is forgotten: %v", owners)
			}
		}
		got := d.Snapshot()
		if !reflect.DeepEqual(got.Facts(), one.Facts()) || !reflect.DeepEqual(got.Jobs(), one.Jobs()) || !got.Now().Equal(one.Now()) {
			t.Errorf("after plan %d the draft has %+v, one by one it is %+v", i, got.Facts(), one.Facts())
		}
	}
	if f := base.Facts(); len(f.Markers) != 1 || len(f.Markers[token].Value) != 0 || !f.Present[patch].Value || base.Job("b").State.Reason != "" {
		t.Errorf("the snapshot before has %+v", f)
	}
}

// Apply does what a store does: it does not write over another revision, nor to
// missing records, but does everything else. The original snapshot stays as it
// is.
func TestApply(t *testing.T) {
	const x = "custom:t:x"
	s := snapshot(marked(facts(), x, "old"), job("a", produces(x)), job("b", after("a")))
	put := func(id kernel.JobID, over kernel.Revision) kernel.Action {
		return kernel.PutState{Job: id, If: over, State: kernel.State{Status: kernel.Failed}}
	}
	a := kernel.AttemptID{Job: "a", N: 1}
	for _, c := range []struct {
		name    string
		actions []kernel.Action
		jobs    string // id, status, revision
		owners  string
	}{
		{"nothing", nil, "a queued 1, b queued 1", "old"},
		{"a state", []kernel.Action{put("a", 1)}, "a failed 2, b queued 1", "old"},
		{"a state twice", []kernel.Action{put("a", 1), put("a", 1)}, "a failed 2, b queued 1", "old"},
		{"another revision", []kernel.Action{put("a", 0), put("b", 2)}, "a queued 1, b queued 1", "old"},
		{"an unknown job", []kernel.Action{put("z", 1), kernel.RemoveJob{Job: "z"}}, "a queued 1, b queued 1", "old"},
		{"a new job", []kernel.Action{kernel.Create(job("0"))}, "0 queued 1, a queued 1, b queued 1", "old"},
		{"a job that is there", []kernel.Action{kernel.Create(job("a", is(kernel.Failed)))}, "a queued 1, b queued 1", "old"},
		{"a removal", []kernel.Action{kernel.RemoveJob{Job: "a"}}, "b queued 1", "old"},
		{"a removal and its marker", []kernel.Action{kernel.Publish{Attempt: a, Artifacts: artifacts(x)}, kernel.RemoveJob{Job: "a"}}, "b queued 1", "old"},
		{"a removal twice", []kernel.Action{kernel.RemoveJob{Job: "a"}, kernel.RemoveJob{Job: "a"}, put("a", 1)}, "b queued 1", "old"},
		{"publishing", []kernel.Action{kernel.Publish{Attempt: a, Artifacts: artifacts(x)}}, "a queued 1, b queued 1", "old a"},
		{"publishing twice", []kernel.Action{kernel.Publish{Attempt: a, Artifacts: artifacts(x)}, kernel.Publish{Attempt: a, Artifacts: artifacts(x)}}, "a queued 1, b queued 1", "old a"},
		{"a reset", []kernel.Action{kernel.Publish{Attempt: a, Artifacts: artifacts(x)}, kernel.Reset{Attempt: a, Produces: artifacts(x)}}, "a queued 1, b queued 1", "old"},
		{"the world", []kernel.Action{kernel.Launch{Attempt: a}, kernel.Stop{Attempt: a}, kernel.Sweep{Attempt: a}, kernel.Rotate{Attempt: a}}, "a queued 1, b queued 1", "old"},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := s.Apply(kernel.NewPlan(c.actions...))
			if got := listed(next); got != c.jobs {
				t.Errorf("jobs %s, want %s", got, c.jobs)
			}
			if got := words(next.Facts().Markers[artifact(x)].Value); got != c.owners {
				t.Errorf("markers of %s, want %s", got, c.owners)
			}
			if listed(s) != "a queued 1, b queued 1" || words(s.Facts().Markers[artifact(x)].Value) != "old" {
				t.Errorf("the snapshot itself became %s", listed(s))
			}
		})
	}
	// Facts that nobody asked for stay unknown.
	s = snapshot(facts(), job("a"))
	if next := s.Apply(kernel.NewPlan(kernel.Publish{Attempt: a, Artifacts: artifacts(x)})); next.Facts().Markers[artifact(x)].Known {
		t.Error("one marker that was published passed for all there are")
	}
}

func listed(s *kernel.Snapshot) string {
	out := ""
	for i, j := range s.Jobs() {
		if i > 0 {
			out += ", "
		}
		out += string(j.ID) + " " + j.State.Status.String() + " " + string(rune('0'+j.Rev))
	}
	return out
}

// A job that is created, judged and rewound in one transaction is written once,
// and world actions come after all records.
func TestThen(t *testing.T) {
	s := snapshot(facts(), job("p", running(1)))
	enqueue, err := kernel.Enqueue(s, []kernel.NewJob{fresh("q")})
	if err != nil {
		t.Fatal(err)
	}
	cancel, err := kernel.Cancel(s.Apply(enqueue), "p", "ann", false)
	if err != nil {
		t.Fatal(err)
	}
	both := enqueue.Then(cancel)
	tick := kernel.Decide(s.Apply(enqueue).Apply(cancel))
	all := both.Then(tick)
	var kinds []string
	for _, a := range all.Actions() {
		kinds = append(kinds, reflect.TypeOf(a).Name()+":"+string(a.Subject()))
	}
	if got := words(kinds); got != "CreateJob:q PutState:p Stop:p Launch:q" {
		t.Errorf("%s", got)
	}
	if q := all.Actions()[0].(kernel.CreateJob).Job; q.State.Status != kernel.Running || q.State.Attempt != 1 || q.Rev != 1 {
		t.Errorf("%+v", q)
	}
	if !reflect.DeepEqual(all.Decisions, tick.Decisions) || !reflect.DeepEqual(all.Then(kernel.Plan{}).Decisions, tick.Decisions) {
		t.Errorf("decisions %+v", all.Decisions)
	}
	for _, p := range []kernel.Plan{enqueue.Then(kernel.Plan{}), (kernel.Plan{}).Then(enqueue)} {
		if !reflect.DeepEqual(p.Actions(), enqueue.Actions()) {
			t.Errorf("with an empty plan: %+v", p.Actions())
		}
	}
	// Two plans decided on one snapshot do not share memory.
	if again := enqueue.Then(cancel).Then(tick); !reflect.DeepEqual(again, all) || len(enqueue.Actions()) != 1 {
		t.Error("Then changed its operands")
	}
}

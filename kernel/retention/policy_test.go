package retention_test

import (
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// retained lists what a retention removes.
func retained(s *kernel.Snapshot, r retention.Policy, sizes map[kernel.JobID]int64, most int) string {
	var ids []kernel.JobID
	for _, a := range actionsOf[kernel.RemoveJob](retention.Apply(s, r, sizes, most)) {
		ids = append(ids, a.Job)
	}
	return words(ids)
}

func hoursAgo(n int) option { return finishedAt(t0.Add(-time.Duration(n) * time.Hour)) }

// ended returns a job that ended so many hours ago.
func ended(id kernel.JobID, hours int, options ...option) kernel.Job {
	return job(id, append([]option{is(kernel.Succeeded), hoursAgo(hours)}, options...)...)
}

// Each bound alone, and all of them: those that ended first go first, whatever
// the order they were enqueued in.
func TestRetainKeepsItsBounds(t *testing.T) {
	sizes := map[kernel.JobID]int64{"a": 10, "b": 20, "c": 30, "d": 40}
	s := snapshot(facts(), ended("a", 5), ended("b", 50), ended("c", 20), ended("d", 2))
	for _, c := range []struct {
		keep retention.Policy
		most int
		want string
	}{
		{retention.Policy{}, 0, ""},
		{retention.Policy{Age: 21 * time.Hour}, 0, "b"},
		{retention.Policy{Age: 19 * time.Hour}, 0, "b c"},
		{retention.Policy{Count: 4}, 0, ""},
		{retention.Policy{Count: 1}, 0, "b c a"},
		{retention.Policy{Bytes: 100}, 0, ""},
		{retention.Policy{Bytes: 99}, 0, "b"},
		{retention.Policy{Bytes: 79}, 0, "b c"},
		{retention.Policy{Age: 40 * time.Hour, Count: 3, Bytes: 79}, 0, "b c"},
		{retention.Policy{Count: 1}, 2, "b c"},
	} {
		if got := retained(s, c.keep, sizes, c.most); got != c.want {
			t.Errorf("%+v, most %d: removes %q, want %q", c.keep, c.most, got, c.want)
		}
		// On record are the sizes of what goes, and of everything else the sum.
		v := retention.Keeping{Policy: c.keep, Sizes: sizes, Most: c.most}
		p, _ := v.Decide(s)
		short := v.Short(s, p)
		want := map[kernel.JobID]int64(nil)
		if c.keep.Bytes > 0 {
			want = map[kernel.JobID]int64{"": 100}
			for _, a := range actionsOf[kernel.RemoveJob](p) {
				want[a.Job] = sizes[a.Job]
				want[""] -= sizes[a.Job]
			}
		}
		if !maps.Equal(short.Sizes, want) {
			t.Errorf("%+v: on record are %v, want %v", c.keep, short.Sizes, want)
		}
		if again, _ := short.Decide(s); !reflect.DeepEqual(again, p) {
			t.Errorf("%+v: by what is on record %v goes, not %v", c.keep, again, p)
		}
	}
	goesOn := snapshot(facts(), ended("a", 5), ended("b", 9, inRun("r")), job("c", is(kernel.Running), inRun("r")))
	if got := retained(goesOn, retention.Policy{Count: 1, Bytes: 10}, sizes, 0); got != "" {
		t.Errorf("a run that goes on does not count: removes %q", got)
	}
	if got := retained(snapshot(facts(), ended("a", 0), job("b", is(kernel.Failed), finishedAt(t0))), retention.Policy{Age: time.Nanosecond, Count: 1, Bytes: 1}, sizes, 0); got != "" {
		t.Errorf("what ended within the hour: removes %q", got)
	}
}

// What nobody asked to remove stays for more reasons than what a GC keeps.
func TestRetainKeepsWhatSomebodyMayComeBackTo(t *testing.T) {
	tight := retention.Policy{Age: 2 * time.Hour, Count: 1, Bytes: 1}
	sizes := map[kernel.JobID]int64{"a": 10, "b": 10, "c": 10}
	owned := func(j *kernel.Job) { j.State.Context = kernel.Context{Worktree: "w", Owned: true} }
	keyed := func(j *kernel.Job) { j.Spec.IdempotencyKey = "k" }
	tombstone := func(j *kernel.Job) { j.State.Removed = t0.Add(-9 * time.Hour) }
	sleeper := func(j *kernel.Job) { j.State.Status, j.Created = kernel.Unscheduled, t0.Add(-9*time.Hour) }
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want string
	}{
		"a worktree":                       {[]kernel.Job{ended("a", 9, owned)}, ""},
		"an idempotency key":               {[]kernel.Job{ended("a", 9, keyed)}, ""},
		"a tombstone":                      {[]kernel.Job{ended("a", 9, tombstone)}, ""},
		"an open job":                      {[]kernel.Job{job("a", is(kernel.Running)), ended("b", 9)}, "b"},
		"before an open job":               {[]kernel.Job{ended("a", 9), job("b", is(kernel.Running), after("a"))}, ""},
		"a sleeper":                        {[]kernel.Job{job("a", sleeper), ended("b", 9)}, "b"},
		"what a sleeper runs after":        {[]kernel.Job{ended("a", 9), job("b", sleeper, after("a"))}, ""},
		"a run":                            {[]kernel.Job{ended("a", 9, inRun("r")), ended("b", 8, inRun("r"))}, "a b"},
		"a run that goes on":               {[]kernel.Job{ended("a", 9, inRun("r")), job("b", is(kernel.Running), inRun("r"))}, ""},
		"a run that ended just now":        {[]kernel.Job{ended("a", 9, inRun("r")), ended("b", 0, inRun("r"))}, ""},
		"a run with a worktree":            {[]kernel.Job{ended("a", 9, inRun("r")), ended("b", 9, inRun("r"), owned)}, ""},
		"a run with a sleeper":             {[]kernel.Job{ended("a", 9, inRun("r")), job("b", sleeper, inRun("r"))}, "b a"},
		"after which a run sleeps that":    {[]kernel.Job{ended("a", 9), job("b", sleeper, inRun("r"), after("a")), ended("c", 9, inRun("r"), owned)}, ""},
		"after which a kept run sleeps":    {[]kernel.Job{ended("a", 9), job("b", sleeper, inRun("r"), after("a")), ended("c", 9, inRun("r")), job("d", after("c"))}, ""},
		"most of it in one run: all of it": {[]kernel.Job{ended("a", 9, inRun("r")), ended("b", 9, inRun("r")), ended("c", 8)}, "a b c"},
	} {
		if got := retained(snapshot(facts(), c.jobs...), tight, sizes, 0); got != c.want {
			t.Errorf("%s: removes %q, want %q", name, got, c.want)
		}
	}
	run := snapshot(facts(), ended("a", 9, inRun("r")), ended("b", 9, inRun("r")), ended("c", 8))
	if got := retained(run, tight, sizes, 1); got != "a b" {
		t.Errorf("a run is not cut in two: removes %q", got)
	}
	o := kernel.Observation{Now: t0, Jobs: []kernel.Job{ended("a", 9)}, Unreadable: map[kernel.JobID]string{"x": "torn"}}
	if got := retained(kernel.NewSnapshot(o), tight, sizes, 0); got != "" {
		t.Errorf("beside an unreadable record: removes %q", got)
	}
}

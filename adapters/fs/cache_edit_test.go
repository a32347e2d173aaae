package fs

import (
	"os"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// status is the status of a job, and why it waits, as its record has them.
func (l *livedStore) status(n int) string {
	l.t.Helper()
	j, _, err := l.s.readRecord(id(n))
	if err != nil {
		l.t.Fatal(err)
	}
	return j.State.Status.String() + ": " + j.State.Wait.Detail
}

func (l *livedStore) tick() {
	l.t.Helper()
	if _, err := l.app.Tick(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

// After an edit of what a job needs, makes or locks, ticks decide as they do without a cache.
func TestATickFollowsAnEdit(t *testing.T) {
	makes := func(a ...kernel.Artifact) kernel.NewJob {
		sp := plain(2).Spec
		sp.Produces = a
		return kernel.NewJob{ID: id(2), Spec: sp, Approval: kernel.Require(t0, "ann")}
	}
	runs := func(a ...kernel.Artifact) kernel.NewJob { return kernel.NewJob{ID: id(2), Spec: makes(a...).Spec} }
	needs := func(n int, a kernel.Artifact) kernel.NewJob {
		sp := plain(n).Spec
		sp.Needs, sp.MissingProducer = []kernel.Artifact{a}, kernel.Wait
		return kernel.NewJob{ID: id(n), Spec: sp}
	}
	locks := func(n int, key string) kernel.NewJob {
		sp := plain(n).Spec
		sp.Locks = []kernel.Lock{{Key: key, Mode: kernel.Exclusive}}
		return kernel.NewJob{ID: id(n), Spec: sp}
	}
	both := func(n int) kernel.NewJob {
		j := locks(n, "held")
		j.Spec.Locks = append(j.Spec.Locks, locks(n, "aaaa").Spec.Locks...)
		return j
	}
	a, b := custom("t", "aaaa"), custom("t", "bbbb")
	for name, c := range map[string]struct {
		jobs []kernel.NewJob
		edit func(*livedStore)
		want string // of job 1
	}{
		"what it needs now ended without it": {[]kernel.NewJob{needs(1, a), runs(b)}, func(l *livedStore) {
			l.edit(1, "aaaa", "bbbb")
			l.tick()
			l.end(2, kernel.OutcomeSucceeded)
		}, "blocked_by_dependency: "},
		"its producer makes no more": {[]kernel.NewJob{makes(a), needs(1, a)}, func(l *livedStore) { l.edit(2, "aaaa", "cccc") }, "waiting_on_deps: awaiting producer"},
		"its producer's record is gone": {[]kernel.NewJob{makes(a), needs(1, a)}, func(l *livedStore) {
			if err := os.Remove(l.s.RecordFile(id(2))); err != nil {
				l.t.Fatal(err)
			}
		}, "waiting_on_deps: awaiting producer"},
		"its lock is free": {[]kernel.NewJob{locks(4, "held"), both(5), locks(1, "aaaa")}, func(l *livedStore) { l.edit(5, "aaaa", "cccc") }, "running: "},
	} {
		t.Run(name, func(t *testing.T) {
			l := emptyStore(t)
			for _, j := range c.jobs {
				l.ask(j)
			}
			c.edit(l)
			l.tick()
			l.tick()
			with := l.status(1)
			l.s.dropCache()
			_ = os.Remove(file(l.dir, cacheFile))
			l.tick()
			if without := l.status(1); with != without || with[:len(c.want)] != c.want {
				t.Errorf("with the cache %s, without it %s", with, without)
			}
		})
	}
}

// An edit that a transaction notices only while it decides counts for the next one: nothing that depended on what the record
// said is near any more.
func TestATickFollowsAnEditThatAnotherNoticedLate(t *testing.T) {
	l := emptyStore(t)
	a, b := custom("t", "aaaa"), custom("t", "bbbb")
	producer, consumer, other := plain(2).Spec, plain(1).Spec, plain(3).Spec
	producer.Produces, consumer.Needs, other.Needs = []kernel.Artifact{a, b}, []kernel.Artifact{a}, []kernel.Artifact{b}
	l.ask(kernel.NewJob{ID: id(2), Spec: producer, Approval: kernel.Require(t0, "ann")})
	l.ask(kernel.NewJob{ID: id(1), Spec: consumer})
	l.ask(kernel.NewJob{ID: id(3), Spec: other, Approval: kernel.Require(t0, "ann")})
	l.s.pause = time.Hour // no patrol finds it
	l.edit(2, "aaaa", "cccc")
	l.tick()
	if before := l.status(1); before != "waiting_on_deps: waiting on custom:t:aaaa" {
		t.Fatalf("the edit was noticed, and the test says nothing: %s", before)
	}
	if _, err := l.app.Approve(t.Context(), id(3), kernel.Consent{By: "bob"}); err != nil {
		t.Fatal(err)
	}
	l.tick()
	if is := l.status(1); is != "blocked_by_dependency: missing custom:t:aaaa" {
		t.Error(is)
	}
}

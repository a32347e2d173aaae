package foresight_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

// whole returns everything that an outlook says, times in minutes from t0.
func whole(o foresight.Outlook, h *foresight.Habits) string {
	var b strings.Builder
	say := func(format string, args ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ;") + "\n")
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return strings.TrimSuffix(fmt.Sprintf("%.2f", t.Sub(t0).Minutes()), ".00")
	}
	for _, e := range o.Ends {
		say("%v end at %s, %s; %d of %d, %d well; %s %d; %s %s", e.Jobs, at(e.P50), at(e.P90), e.Ends, o.Draws, e.Succeeded, e.Basis, e.From, e.Waits, e.For)
	}
	for i, s := range o.Story.Spans {
		if i > 9 && i < len(o.Story.Spans)-1 {
			continue
		}
		held := ""
		if s.Held != nil {
			held = " held by " + s.Held.String()
		}
		say("%d: %s/%d %s-%s %s %s after %d%s", i, s.Job, s.Attempt, at(s.Start), at(s.End), s.Outcome, s.Class, s.After, held)
	}
	for _, j := range o.Story.Then.Jobs() {
		if end, ended := o.Story.Ended[j.ID]; ended {
			by, caused := o.Story.By[j.ID]
			say("%s %s at %s by %d %t", j.ID, j.State.Status, at(end), by, caused)
		}
	}
	attempts, decisions := o.Story.Guessed(h)
	path := fmt.Sprint(o.Path)
	if len(o.Path) > 9 {
		path = fmt.Sprintf("of %d", len(o.Path))
	}
	say("path %v, guessed %d and %d, cut %t", path, attempts, decisions, o.Story.Cut)
	for _, u := range o.Resources {
		say("%s: %d, waited %.2f, busy %.2f, doubled %.2f, freed %d, tried %t", u.Resource, u.Has, u.Waited.Minutes(), u.Busy, u.Doubled.Minutes(), u.Freed, u.Tried)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// What an outlook says of a world, to the last figure.
func TestWholeOutlooks(t *testing.T) {
	m := time.Minute
	uses := func(locks ...kernel.Lock) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Spec.Locks = append(j.Spec.Locks, locks...) }
	}
	pool := func(key string, units int) kernel.Lock {
		return kernel.Lock{Key: key, Mode: kernel.Shared, Units: units}
	}
	limit := func(d time.Duration) func(*kernel.Job) { return func(j *kernel.Job) { j.Spec.Task.Timeout = d } }
	since := func(minutes int) func(*kernel.Job) {
		return func(j *kernel.Job) { j.State.Started = t0.Add(-time.Duration(minutes) * m) }
	}
	on := func(executor string) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Spec.Task.Executor = executor }
	}
	of := func(number int) func(*kernel.Job) { return func(j *kernel.Job) { j.Number = kernel.Number(number) } }
	never := kernel.Artifact{Kind: kernel.Custom, Name: "a", Ref: "b"}
	branch := kernel.Artifact{Kind: kernel.PlanBranch, Name: "p", Ref: "draft/p"}
	needs := func(j *kernel.Job) { j.Spec.Needs, j.Spec.MissingProducer = []kernel.Artifact{never}, kernel.Wait }
	decided := func(id kernel.JobID, state kernel.ApprovalState, took time.Duration) kernel.Job {
		return named(id, func(j *kernel.Job) {
			j.State.Status, j.State.Approval = kernel.Cancelled, kernel.Approval{State: state, RequestedAt: t0.Add(-time.Hour), DecidedAt: t0.Add(took - time.Hour)}
		})
	}
	for name, c := range map[string]struct {
		jobs   []kernel.Job
		limits kernel.Limits
		o      foresight.Options
		want   string
	}{
		"nothing": {nil, kernel.Limits{}, foresight.Options{Draws: 3}, `path [], guessed 0 and 0, cut false`},
		"places here and elsewhere": {[]kernel.Job{named("a", takes(4*m)), named("b", takes(2*m)), named("c", both(takes(6*m), on("far"))), named("d", both(takes(2*m), on("far"))), named("e", both(takes(2*m), on("wide")))},
			kernel.Limits{MaxRunning: 1, Executors: map[string]int{"far": 1}}, foresight.Options{Draws: 3, Double: 9}, `[a] end at 4, 4; 1 of 1, 1 well; declared 0
[b] end at 6, 6; 1 of 1, 1 well; declared 0
[c] end at 6, 6; 1 of 1, 1 well; declared 0
[d] end at 8, 8; 1 of 1, 1 well; declared 0
[e] end at 2, 2; 1 of 1, 1 well; declared 0
0: a/1 0-4 succeeded  after -1
1: c/1 0-6 succeeded  after -1
2: e/1 0-2 succeeded  after -1
3: b/1 4-6 succeeded  after 0 held by slot local
4: d/1 6-8 succeeded  after 1 held by slot far
a succeeded at 4 by 0 true
b succeeded at 6 by 3 true
c succeeded at 6 by 1 true
d succeeded at 8 by 4 true
e succeeded at 2 by 2 true
path [1 4], guessed 0 and 0, cut false
slot far: 1, waited 6.00, busy 1.00, doubled 2.00, freed 0, tried true
slot local: 1, waited 4.00, busy 0.75, doubled 0.00, freed 0, tried true
slot wide: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"people who decide": {[]kernel.Job{named("a", both(takes(2*m), gated)), named("b", both(takes(2*m), gated, after("a"))), named("c", takes(m))},
			kernel.Limits{}, foresight.Options{Draws: 3, Double: 1}, `[a] end at 62, 62; 1 of 1, 1 well; guess 0
[b] end at 124, 124; 1 of 1, 1 well; guess 0
[c] end at 1, 1; 1 of 1, 1 well; declared 0
0: a/0 0-60 succeeded  after -1
1: c/1 0-1 succeeded  after -1
2: a/1 60-62 succeeded  after 0 held by person
3: b/0 62-122 succeeded  after 2
4: b/1 122-124 succeeded  after 3 held by person
a succeeded at 62 by 2 true
b succeeded at 124 by 4 true
c succeeded at 1 by 1 true
path [0 2 3 4], guessed 0 and 2, cut false
person: 1, waited 120.00, busy 0.97, doubled 60.00, freed 0, tried true
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"one decision on record": {[]kernel.Job{decided("o", kernel.Approved, 10*m), named("a", both(takes(2*m), gated))},
			kernel.Limits{}, foresight.Options{Draws: 3}, `[a] end at 12, 12; 1 of 1, 1 well; history 1
0: a/0 0-10 succeeded  after -1
1: a/1 10-12 succeeded  after 0 held by person
a succeeded at 12 by 1 true
path [0 1], guessed 0 and 0, cut false
person: 1, waited 10.00, busy 0.83, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"only refusals on record": {[]kernel.Job{decided("o", kernel.Rejected, 10*m), named("a", gated), named("b", after("a"))},
			kernel.Limits{}, foresight.Options{Draws: 3}, `[a] end at 10, 10; 1 of 1, 0 well; history 1
[b] end at 10, 10; 1 of 1, 0 well; history 1
0: a/0 0-10 blocked  after -1
a blocked_by_approval at 10 by 0 true
b blocked_by_dependency at 10 by 0 true
path [0], guessed 0 and 0, cut false
person: 1, waited 10.00, busy 1.00, doubled 0.00, freed 0, tried false`},
		"pools and locks": {[]kernel.Job{named("a", both(takes(4*m), uses(pool("gpu", 2)))), named("b", both(takes(2*m), uses(pool("gpu", 1)))), named("c", both(takes(6*m), uses(kernel.Lock{Key: "x"}))),
			named("d", both(takes(2*m), uses(kernel.Lock{Key: "y", Mode: kernel.Shared}, kernel.Lock{Key: "x"}))), named("e", both(takes(m), uses(kernel.Lock{Key: "y", Mode: kernel.Shared}, pool("one", 1)))), named("f", both(takes(m), uses(pool("one", 1))))},
			kernel.Limits{Pools: map[string]int{"gpu": 2}}, foresight.Options{Draws: 3, Double: 2}, `[a] end at 4, 4; 1 of 1, 1 well; declared 0
[b] end at 6, 6; 1 of 1, 1 well; declared 0
[c] end at 6, 6; 1 of 1, 1 well; declared 0
[d] end at 8, 8; 1 of 1, 1 well; declared 0
[e] end at 1, 1; 1 of 1, 1 well; declared 0
[f] end at 2, 2; 1 of 1, 1 well; declared 0
0: a/1 0-4 succeeded  after -1
1: c/1 0-6 succeeded  after -1
2: e/1 0-1 succeeded  after -1
3: f/1 1-2 succeeded  after 2 held by pool one
4: b/1 4-6 succeeded  after 0 held by pool gpu
5: d/1 6-8 succeeded  after 1 held by lock x
a succeeded at 4 by 0 true
b succeeded at 6 by 4 true
c succeeded at 6 by 1 true
d succeeded at 8 by 5 true
e succeeded at 1 by 2 true
f succeeded at 2 by 3 true
path [1 5], guessed 0 and 0, cut false
lock x: 1, waited 6.00, busy 1.00, doubled 2.00, freed 0, tried true
pool gpu: 2, waited 4.00, busy 0.62, doubled 0.00, freed 0, tried true
pool one: 1, waited 1.00, busy 0.25, doubled 0.00, freed 0, tried false
lock y: 1, waited 0.00, busy 0.38, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"time limits": {[]kernel.Job{named("a", both(takes(4*m), limit(4*m))), named("b", both(takes(4*m), limit(3*m), after("a"))), named("c", both(takes(9*m), limit(5*m), running, since(3))), named("d", both(takes(2*m), limit(5*m), running, since(7))), named("e", both(takes(8*m), running, since(2), func(j *kernel.Job) { j.State.Stop = kernel.StopRequest{At: t0} }))},
			kernel.Limits{}, foresight.Options{Draws: 3}, `[a] end at 4, 4; 1 of 1, 1 well; declared 0
[b] end at 7, 7; 1 of 1, 0 well; declared 0
[c] end at 2, 2; 1 of 1, 0 well; declared 0
[d] end at 0, 0; 1 of 1, 0 well; declared 0
[e] end at 0, 0; 1 of 1, 0 well; declared 0
0: c/1 -3-2 failed timeout after -1
1: d/1 -7-0 failed timeout after -1
2: e/1 -2-0 cancelled  after -1
3: a/1 0-4 succeeded  after -1
4: b/1 4-7 failed timeout after 3
a succeeded at 4 by 3 true
b failed at 7 by 4 true
c failed at 2 by 0 true
d failed at 0 by 1 true
e cancelled at 0 by 2 true
path [3 4], guessed 0 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"batches": {[]kernel.Job{ended("o1", "n", 3*m, 0), ended("o2", "n", 5*m, 0), ended("p", "k", 7*m, 0), named("a", both(takes(2*m), of(1))), named("b", both(called("n"), of(1), after("a"))), named("c", both(called("k"), of(2))), named("d", both(of(2), needs)),
			named("e", both(of(2), after("d"))), named("f", both(takes(m), of(3), func(j *kernel.Job) { j.Spec.RunsAfter("z", kernel.AfterAnyEnd) })), named("z", both(takes(2*m), limit(m))), named("g", both(of(3), after("z"))),
			func() kernel.Job { j := ended("h", "q", m, 0); j.Number = 1; return j }()},
			kernel.Limits{}, foresight.Options{Draws: 1}, `[a b h] end at 6, 6; 1 of 1, 1 well; history 2
[c d e] end at never, never; 0 of 1, 0 well; history 1; d awaiting producer for custom:a:b
[f g] end at 2, 2; 1 of 1, 0 well; declared 0
[z] end at 1, 1; 1 of 1, 0 well; declared 0
0: a/1 0-2 succeeded  after -1
1: c/1 0-7 succeeded  after -1
2: z/1 0-1 failed timeout after -1
3: f/1 1-2 succeeded  after 2
4: b/1 2-6 succeeded  after 0
a succeeded at 2 by 0 true
b succeeded at 6 by 4 true
c succeeded at 7 by 1 true
f succeeded at 2 by 3 true
g blocked_by_dependency at 1 by 2 true
z failed at 1 by 2 true
path [1], guessed 0 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"some are asked for": {[]kernel.Job{named("a", both(takes(2*m), locked("x"))), named("b", both(takes(4*m), locked("x"))), named("c", takes(30*m)), named("d", both(takes(m), needs))},
			kernel.Limits{}, foresight.Options{Draws: 1, Only: []kernel.JobID{"a", "b", "d"}, Double: 1}, `[a] end at 2, 2; 1 of 1, 1 well; declared 0
[b] end at 6, 6; 1 of 1, 1 well; declared 0
[d] end at never, never; 0 of 1, 0 well; declared 0; d awaiting producer for custom:a:b
0: a/1 0-2 succeeded  after -1
1: c/1 0-30 succeeded  after -1
2: b/1 2-6 succeeded  after 0 held by lock x
a succeeded at 2 by 0 true
b succeeded at 6 by 2 true
c succeeded at 30 by 1 true
path [0 2], guessed 0 and 0, cut false
lock x: 1, waited 2.00, busy 1.00, doubled 2.00, freed 0, tried true
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"chance": {[]kernel.Job{ended("o1", "n", 2*m, 0), ended("o2", "n", 20*m, 0), ended("o3", "n", 6*m, 0), ended("p", "n", 9*m, 3), named("a", both(called("n"), locked("x"))), named("b", both(called("n"), locked("x"), after("a"))), named("c", both(called("n"), locked("x")))},
			kernel.Limits{}, foresight.Options{Draws: 10, Seed: 5, Double: 1}, `[a] end at 7.39, 9; 10 of 10, 7 well; history 4
[b] end at 9, 24.41; 10 of 10, 7 well; history 4
[c] end at 19.73, 36.23; 10 of 10, 7 well; history 4
0: a/1 0-5.28 succeeded  after -1
1: b/1 5.28-10.73 succeeded  after 0
2: c/1 10.73-19.73 failed exit after 1 held by lock x
a succeeded at 5.28 by 0 true
b succeeded at 10.73 by 1 true
c failed at 19.73 by 2 true
path [0 1 2], guessed 0 and 0, cut false
lock x: 1, waited 10.73, busy 1.00, doubled 9.00, freed 0, tried true
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"places": {[]kernel.Job{named("a", takes(2*m)), named("b", takes(2*m)), named("c", takes(2*m))}, kernel.Limits{MaxRunning: 1}, foresight.Options{Draws: 3, Double: 1}, `[a] end at 2, 2; 1 of 1, 1 well; declared 0
[b] end at 4, 4; 1 of 1, 1 well; declared 0
[c] end at 6, 6; 1 of 1, 1 well; declared 0
0: a/1 0-2 succeeded  after -1
1: b/1 2-4 succeeded  after 0 held by slot local
2: c/1 4-6 succeeded  after 1 held by slot local
a succeeded at 2 by 0 true
b succeeded at 4 by 1 true
c succeeded at 6 by 2 true
path [0 1 2], guessed 0 and 0, cut false
slot local: 1, waited 6.00, busy 1.00, doubled 2.00, freed 0, tried true`},
		"places elsewhere": {[]kernel.Job{named("a", both(takes(2*m), on("far"))), named("b", both(takes(2*m), on("far"))), named("c", both(takes(2*m), on("far")))},
			kernel.Limits{Executors: map[string]int{"far": 1}}, foresight.Options{Draws: 3, Double: 1}, `[a] end at 2, 2; 1 of 1, 1 well; declared 0
[b] end at 4, 4; 1 of 1, 1 well; declared 0
[c] end at 6, 6; 1 of 1, 1 well; declared 0
0: a/1 0-2 succeeded  after -1
1: b/1 2-4 succeeded  after 0 held by slot far
2: c/1 4-6 succeeded  after 1 held by slot far
a succeeded at 2 by 0 true
b succeeded at 4 by 1 true
c succeeded at 6 by 2 true
path [0 1 2], guessed 0 and 0, cut false
slot far: 1, waited 6.00, busy 1.00, doubled 2.00, freed 0, tried true`},
		"a lock beside a person": {[]kernel.Job{named("a", both(takes(2*m), gated)), named("b", both(takes(50*m), locked("x"))), named("c", both(takes(50*m), locked("x")))},
			kernel.Limits{}, foresight.Options{Draws: 3, Double: 2}, `[a] end at 62, 62; 1 of 1, 1 well; guess 0
[b] end at 50, 50; 1 of 1, 1 well; declared 0
[c] end at 100, 100; 1 of 1, 1 well; declared 0
0: a/0 0-60 succeeded  after -1
1: b/1 0-50 succeeded  after -1
2: c/1 50-100 succeeded  after 1 held by lock x
3: a/1 60-62 succeeded  after 0 held by person
a succeeded at 62 by 3 true
b succeeded at 50 by 1 true
c succeeded at 100 by 2 true
path [1 2], guessed 0 and 1, cut false
person: 1, waited 60.00, busy 0.60, doubled 0.00, freed 0, tried true
lock x: 1, waited 50.00, busy 1.00, doubled 38.00, freed 0, tried true
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"two locks": {[]kernel.Job{named("a", both(takes(5*m), uses(kernel.Lock{Key: "x"}, kernel.Lock{Key: "y"}))), named("b", both(takes(5*m), uses(kernel.Lock{Key: "x"}, kernel.Lock{Key: "y"})))},
			kernel.Limits{}, foresight.Options{Draws: 3, Double: 1}, `[a] end at 5, 5; 1 of 1, 1 well; declared 0
[b] end at 10, 10; 1 of 1, 1 well; declared 0
0: a/1 0-5 succeeded  after -1
1: b/1 5-10 succeeded  after 0 held by lock x
a succeeded at 5 by 0 true
b succeeded at 10 by 1 true
path [0 1], guessed 0 and 0, cut false
lock x: 1, waited 5.00, busy 1.00, doubled 0.00, freed 0, tried true
lock y: 1, waited 0.00, busy 1.00, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"nothing ends": {[]kernel.Job{named("a", both(takes(2*m), uses(pool("gpu", 3)))), named("b", after("a"))}, kernel.Limits{Pools: map[string]int{"gpu": 2}}, foresight.Options{Draws: 3}, `[a] end at never, never; 0 of 1, 0 well; declared 0; a waiting on pool gpu (needs 3 of 2: more than it has)
[b] end at never, never; 0 of 1, 0 well; declared 0; b waiting on job a
path [], guessed 0 and 0, cut false
pool gpu: 2, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"two are asked at once": {[]kernel.Job{named("a", both(takes(2*m), gated)), named("b", both(takes(2*m), gated, running, since(1), func(j *kernel.Job) {
			j.State.Status, j.State.WaitSince = kernel.WaitingOnApproval, t0.Add(-20*m)
		})), named("c", both(takes(2*m), gated, func(j *kernel.Job) { j.State.Status, j.State.WaitSince = kernel.WaitingOnApproval, t0.Add(-90*m) }))}, kernel.Limits{}, foresight.Options{Draws: 3}, `[a] end at 62, 62; 1 of 1, 1 well; guess 0
[b] end at 42, 42; 1 of 1, 1 well; guess 0
[c] end at 2, 2; 1 of 1, 1 well; guess 0
0: b/0 0-40 succeeded  after -1
1: c/0 0-0 succeeded  after -1
2: a/0 0-60 succeeded  after -1
3: c/1 0-2 succeeded  after 1 held by person
4: b/1 40-42 succeeded  after 0 held by person
5: a/1 60-62 succeeded  after 2 held by person
a succeeded at 62 by 5 true
b succeeded at 42 by 4 true
c succeeded at 2 by 3 true
path [2 5], guessed 0 and 3, cut false
person: 1, waited 100.00, busy 1.00, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"nobody decides": {[]kernel.Job{named("a", both(takes(2*m), gated, func(j *kernel.Job) { j.Spec.ApprovalTimeout = 5 * m })), named("b", takes(10*m)), named("c", both(takes(2*m), gated))},
			kernel.Limits{}, foresight.Options{Draws: 3, Nobody: true}, `[a] end at 5, 5; 1 of 1, 0 well; guess 0
[b] end at 10, 10; 1 of 1, 1 well; declared 0
[c] end at never, never; 0 of 1, 0 well; guess 0; c awaiting human approval
0: a/0 0-never   after -1
1: c/0 0-never   after -1
2: b/1 0-10 succeeded  after -1
a blocked_by_approval at 5 by 0 true
b succeeded at 10 by 2 true
path [2], guessed 0 and 0, cut false
person: 1, waited 15.00, busy 1.00, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"two futures": {[]kernel.Job{ended("o1", "n", 2*m, 0), ended("o2", "n", 20*m, 0), named("a", called("n"))}, kernel.Limits{}, foresight.Options{Draws: 2, Seed: 3}, `[a] end at 8.59, 15; 2 of 2, 2 well; history 2
0: a/1 0-8.59 succeeded  after -1
a succeeded at 8.59 by 0 true
path [0], guessed 0 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"one attempt on record": {[]kernel.Job{ended("o1", "n", 2*m, 0), named("a", called("n"))}, kernel.Limits{}, foresight.Options{Draws: 3}, `[a] end at 2, 2; 1 of 1, 1 well; history 1
0: a/1 0-2 succeeded  after -1
a succeeded at 2 by 0 true
path [0], guessed 0 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"one of two has failed": {[]kernel.Job{ended("o1", "n", 2*m, 0), ended("o2", "n", m, 5), named("a", called("n"))}, kernel.Limits{}, foresight.Options{Draws: 3}, `[a] end at 2, 2; 3 of 3, 3 well; history 2
0: a/1 0-2 succeeded  after -1
a succeeded at 2 by 0 true
path [0], guessed 0 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"two decisions on record": {[]kernel.Job{decided("o", kernel.Approved, 10*m), decided("p", kernel.Rejected, 4*m), named("a", both(takes(2*m), gated))},
			kernel.Limits{}, foresight.Options{Draws: 10}, `[a] end at 7.47, 10.27; 10 of 10, 5 well; history 2
0: a/0 0-5.47 succeeded  after -1
1: a/1 5.47-7.47 succeeded  after 0 held by person
a succeeded at 7.47 by 1 true
path [0 1], guessed 0 and 0, cut false
person: 1, waited 5.47, busy 0.73, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"after a guess": {[]kernel.Job{named("a", nil), named("b", both(takes(m), after("a"))), named("c", both(takes(m), after("b")))}, kernel.Limits{}, foresight.Options{Draws: 1}, `[a] end at 1, 1; 1 of 1, 1 well; guess 0
[b] end at 2, 2; 1 of 1, 1 well; guess 0
[c] end at 3, 3; 1 of 1, 1 well; guess 0
0: a/1 0-1 succeeded  after -1
1: b/1 1-2 succeeded  after 0
2: c/1 2-3 succeeded  after 1
a succeeded at 1 by 0 true
b succeeded at 2 by 1 true
c succeeded at 3 by 2 true
path [0 1 2], guessed 1 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"units that are left": {[]kernel.Job{named("a", both(takes(4*m), uses(pool("gpu", 1)))), named("b", both(takes(6*m), uses(kernel.Lock{Key: "x"}), running, since(1))), named("c", both(takes(m), uses(pool("gpu", 2), kernel.Lock{Key: "x"}))),
			named("d", both(takes(m), after("a"), uses(pool("gpu", 3), kernel.Lock{Key: "x"}))), named("e", both(takes(2*m), running, since(1), uses(pool("mem", 1)))), named("f", both(takes(m), uses(pool("mem", 2), kernel.Lock{Key: "x"})))},
			kernel.Limits{Pools: map[string]int{"gpu": 3, "mem": 3}}, foresight.Options{Draws: 1}, `[a] end at 4, 4; 1 of 1, 1 well; declared 0
[b] end at 5, 5; 1 of 1, 1 well; declared 0
[c] end at 6, 6; 1 of 1, 1 well; declared 0
[d] end at 7, 7; 1 of 1, 1 well; declared 0
[e] end at 1, 1; 1 of 1, 1 well; declared 0
[f] end at 8, 8; 1 of 1, 1 well; declared 0
0: b/1 -1-5 succeeded  after -1
1: e/1 -1-1 succeeded  after -1
2: a/1 0-4 succeeded  after -1
3: c/1 5-6 succeeded  after 0 held by lock x
4: d/1 6-7 succeeded  after 3 held by lock x
5: f/1 7-8 succeeded  after 4 held by lock x
a succeeded at 4 by 2 true
b succeeded at 5 by 0 true
c succeeded at 6 by 3 true
d succeeded at 7 by 4 true
e succeeded at 1 by 1 true
f succeeded at 8 by 5 true
path [0 3 4 5], guessed 0 and 0, cut false
lock x: 1, waited 14.00, busy 1.00, doubled 0.00, freed 0, tried false
pool gpu: 3, waited 0.00, busy 0.38, doubled 0.00, freed 0, tried false
pool mem: 3, waited 0.00, busy 0.12, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"moments": {[]kernel.Job{named("a", both(takes(time.Microsecond), locked("x"))), named("b", both(takes(time.Second/2), locked("x"))), named("c", both(takes(m), limit(1)))},
			kernel.Limits{}, foresight.Options{Draws: 1, Double: 1}, `[a] end at 0, 0; 1 of 1, 1 well; declared 0
[b] end at 0.01, 0.01; 1 of 1, 1 well; declared 0
[c] end at 0, 0; 1 of 1, 0 well; declared 0
0: a/1 0-0 succeeded  after -1
1: c/1 0-0 failed timeout after -1
2: b/1 0-0.01 succeeded  after 0 held by lock x
a succeeded at 0 by 0 true
b succeeded at 0.01 by 2 true
c failed at 0 by 1 true
path [0 2], guessed 0 and 0, cut false
lock x: 1, waited 0.00, busy 1.00, doubled 0.00, freed 0, tried true
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"two locks, one of them shared": {[]kernel.Job{named("a", both(takes(5*m), uses(kernel.Lock{Key: "x"}, kernel.Lock{Key: "y", Mode: kernel.Shared}))), named("b", both(takes(5*m), uses(kernel.Lock{Key: "x"}, kernel.Lock{Key: "y"})))},
			kernel.Limits{}, foresight.Options{Draws: 1, Double: 1}, `[a] end at 5, 5; 1 of 1, 1 well; declared 0
[b] end at 10, 10; 1 of 1, 1 well; declared 0
0: a/1 0-5 succeeded  after -1
1: b/1 5-10 succeeded  after 0 held by lock x
a succeeded at 5 by 0 true
b succeeded at 10 by 1 true
path [0 1], guessed 0 and 0, cut false
lock x: 1, waited 5.00, busy 1.00, doubled 0.00, freed 0, tried true
lock y: 1, waited 0.00, busy 1.00, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"what follows the last end that is asked for": {[]kernel.Job{named("a", takes(10*time.Second)), named("b", takes(4*time.Second)), named("c", both(takes(10*time.Second), after("a"), locked("y")))},
			kernel.Limits{}, foresight.Options{Draws: 1, Only: []kernel.JobID{"a", "b"}}, `[a] end at 0.17, 0.17; 1 of 1, 1 well; declared 0
[b] end at 0.07, 0.07; 1 of 1, 1 well; declared 0
0: a/1 0-0.17 succeeded  after -1
1: b/1 0-0.07 succeeded  after -1
2: c/1 0.17-0.33 succeeded  after 0
a succeeded at 0.17 by 0 true
b succeeded at 0.07 by 1 true
c succeeded at 0.33 by 2 true
path [0], guessed 0 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false
lock y: 1, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"an answer that comes too late": {[]kernel.Job{named("a", both(takes(2*m), gated, func(j *kernel.Job) { j.Spec.ApprovalTimeout = 5 * m })), named("b", takes(10*m))},
			kernel.Limits{}, foresight.Options{Draws: 1}, `[a] end at 5, 5; 1 of 1, 0 well; guess 0
[b] end at 10, 10; 1 of 1, 1 well; declared 0
0: a/0 0-never   after -1
1: b/1 0-10 succeeded  after -1
a blocked_by_approval at 5 by 0 true
b succeeded at 10 by 1 true
path [1], guessed 0 and 0, cut false
person: 1, waited 5.00, busy 0.50, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"an answer to what is asked anew": {[]kernel.Job{named("a", both(takes(2*m), gated)), named("r", both(takes(20*m), limit(10*m), func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "a"}} }))},
			kernel.Limits{}, foresight.Options{Draws: 1}, `[a] end at 72, 72; 1 of 1, 1 well; guess 0
[r] end at 10, 10; 1 of 1, 0 well; declared 0
0: a/0 0-never   after -1
1: r/1 0-10 failed timeout after -1
2: a/0 10-70 succeeded  after 1
3: a/1 70-72 succeeded  after 2 held by person
a succeeded at 72 by 3 true
r failed at 10 by 1 true
path [1 2 3], guessed 0 and 1, cut false
person: 1, waited 70.00, busy 1.00, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"what others asked for earlier, and what they share": {[]kernel.Job{named("a", both(takes(5*m), uses(kernel.Lock{Key: "x"}, kernel.Lock{Key: "s", Mode: kernel.Shared}))), named("b", both(takes(5*m), uses(kernel.Lock{Key: "x"}, kernel.Lock{Key: "y"}))), named("c", both(takes(m), uses(kernel.Lock{Key: "y"}))),
			named("d", both(takes(m), uses(kernel.Lock{Key: "z"}, kernel.Lock{Key: "s"})))},
			kernel.Limits{}, foresight.Options{Draws: 1}, `[a] end at 5, 5; 1 of 1, 1 well; declared 0
[b] end at 10, 10; 1 of 1, 1 well; declared 0
[c] end at 11, 11; 1 of 1, 1 well; declared 0
[d] end at 6, 6; 1 of 1, 1 well; declared 0
0: a/1 0-5 succeeded  after -1
1: b/1 5-10 succeeded  after 0 held by lock x
2: d/1 5-6 succeeded  after 0 held by lock s
3: c/1 10-11 succeeded  after 1 held by lock y
a succeeded at 5 by 0 true
b succeeded at 10 by 1 true
c succeeded at 11 by 3 true
d succeeded at 6 by 2 true
path [0 1 3], guessed 0 and 0, cut false
lock y: 1, waited 10.00, busy 0.55, doubled 0.00, freed 0, tried false
lock x: 1, waited 5.00, busy 0.91, doubled 0.00, freed 0, tried false
lock s: 1, waited 5.00, busy 0.55, doubled 0.00, freed 0, tried false
lock z: 1, waited 0.00, busy 0.09, doubled 0.00, freed 0, tried false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"what ends at the same time": {[]kernel.Job{named("a", takes(m)), named("b", takes(m)), named("c", takes(m)), named("d", takes(m)),
			named("e", both(takes(m), after("a"))), named("f", both(takes(m), after("b"))), named("g", both(takes(m), after("c"))), named("h", both(takes(m), after("d")))},
			kernel.Limits{}, foresight.Options{Draws: 1, Only: []kernel.JobID{"h"}}, `[h] end at 2, 2; 1 of 1, 1 well; declared 0
0: a/1 0-1 succeeded  after -1
1: b/1 0-1 succeeded  after -1
2: c/1 0-1 succeeded  after -1
3: d/1 0-1 succeeded  after -1
4: e/1 1-2 succeeded  after 0
5: f/1 1-2 succeeded  after 1
6: g/1 1-2 succeeded  after 2
7: h/1 1-2 succeeded  after 3
a succeeded at 1 by 0 true
b succeeded at 1 by 1 true
c succeeded at 1 by 2 true
d succeeded at 1 by 3 true
e succeeded at 2 by 4 true
f succeeded at 2 by 5 true
g succeeded at 2 by 6 true
h succeeded at 2 by 7 true
path [3 7], guessed 0 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"what is made": {[]kernel.Job{named("a", both(takes(2*m), func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{branch} })), named("b", both(takes(2*m), func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{branch} }))},
			kernel.Limits{}, foresight.Options{Draws: 1}, `[a] end at 2, 2; 1 of 1, 1 well; declared 0
[b] end at 4, 4; 1 of 1, 1 well; declared 0
0: a/1 0-2 succeeded  after -1
1: b/1 2-4 succeeded  after 0
a succeeded at 2 by 0 true
b succeeded at 4 by 1 true
path [0 1], guessed 0 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"without an end": {[]kernel.Job{ended("o", "n", m, 3), named("a", both(called("n"), func(j *kernel.Job) {
			j.Spec.Budget.Retries, j.Spec.Retry = 10_000, kernel.RetryPolicy{}.On(kernel.ExitFailure)
		}))}, kernel.Limits{}, foresight.Options{Draws: 1}, `[a] end at never, never; 0 of 1, 0 well; history 1; a
0: a/1 0-1 failed exit after -1
1: a/2 1.06-2.06 failed exit after 0
2: a/3 2.19-3.19 failed exit after 1
3: a/4 3.45-4.45 failed exit after 2
4: a/5 4.96-5.96 failed exit after 3
5: a/6 6.99-7.99 failed exit after 4
6: a/7 10.04-11.04 failed exit after 5
7: a/8 14.88-15.88 failed exit after 6
8: a/9 19.78-20.78 failed exit after 7
9: a/10 24.69-25.69 failed exit after 8
360: a/361 1949.04-never   after 359
path of 360, guessed 0 and 0, cut true
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
		"as earlier attempts": {[]kernel.Job{ended("o", "n", 2*m, 3), named("a", both(called("n"), func(j *kernel.Job) {
			j.Spec.Budget.Retries, j.Spec.Retry = 1, kernel.RetryPolicy{}.On(kernel.ExitFailure)
		})), named("b", both(takes(m), after("a")))}, kernel.Limits{}, foresight.Options{Draws: 1}, `[a] end at 4.06, 4.06; 1 of 1, 0 well; history 1
[b] end at 4.06, 4.06; 1 of 1, 0 well; history 1
0: a/1 0-2 failed exit after -1
1: a/2 2.06-4.06 failed exit after 0
a failed at 4.06 by 1 true
b blocked_by_dependency at 4.06 by 1 true
path [0 1], guessed 0 and 0, cut false
slot local: 0, waited 0.00, busy 0.00, doubled 0.00, freed 0, tried false`},
	} {
		for i := range c.jobs {
			j := &c.jobs[i]
			j.Created, j.Rev, j.Spec.Task.Args = t0, 1, []string{string(j.ID)}
		}
		facts := kernel.NewFacts()
		facts.Present[branch] = kernel.Seen(false)
		facts.Markers[never] = kernel.Seen[[]kernel.JobID](nil)
		for i := range c.jobs {
			if j := &c.jobs[i]; j.State.Status == kernel.Running {
				j.State.Attempt = 1
				facts.Runners[j.Attempt()] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
			}
		}
		s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: c.jobs, Facts: facts, Limits: c.limits})
		if got := whole(foretold(s, c.o), foresight.HabitsOf(s.Jobs())); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// What is expected of an attempt: the record of attempts that are most like it, and something late takes a tenth more than it has
// taken.
func TestWhatHabitsTell(t *testing.T) {
	m := time.Minute
	of := func(template, node string) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Spec.Origin.Template.ID, j.Spec.Origin.Node = template, node }
	}
	runs := func(args ...string) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Spec.Task.Args = args }
	}
	past := func(name string, took time.Duration, exit int, more ...func(*kernel.Job)) *kernel.Job {
		j := ended("o", name, took, exit)
		both(more...)(&j)
		return &j
	}
	again := func(p kernel.RetryPolicy, spent kernel.Budget) *kernel.Job {
		return past("n", 0, 0, func(j *kernel.Job) {
			j.Spec.Retry, j.State.Spent, j.State.Status = p, spent, kernel.Cancelled
		})
	}
	builtin := func(j *kernel.Job) { j.Spec.Task.Builtin = true }
	outOfTime := func(j *kernel.Job) { j.State.Failure = kernel.Timeout }
	limit := func(d time.Duration) func(*kernel.Job) { return func(j *kernel.Job) { j.Spec.Task.Timeout = d } }
	for name, c := range map[string]struct {
		past []*kernel.Job
		more func(*kernel.Job)
		ran  time.Duration
		want string
	}{
		"nothing is known":                          {nil, nil, 0, "1m0s succeeded guess 0"},
		"nothing is known of what is late":          {nil, nil, 10 * m, "11m0s succeeded guess 0"},
		"an estimate":                               {[]*kernel.Job{past("n", 4*m, 0)}, takes(2 * m), 0, "2m0s succeeded declared 0"},
		"a moment's estimate":                       {[]*kernel.Job{past("n", 4*m, 0)}, takes(1), 0, "1ns succeeded declared 0"},
		"nothing is known but a moment's limit":     {nil, limit(1), 0, "1ns succeeded guess 0"},
		"a failure after a moment":                  {[]*kernel.Job{past("n", 1, 7)}, nil, 0, "1ns failed exit 7 history 1"},
		"what took a moment longer":                 {[]*kernel.Job{past("n", 9*m, 0), past("n", 5*m+1, 0), past("n", 5*m, 0)}, nil, 5 * m, "7m0s succeeded history 3"},
		"one attempt":                               {[]*kernel.Job{past("n", 4*m, 0)}, nil, 0, "4m0s succeeded history 1"},
		"between two":                               {[]*kernel.Job{past("n", 8*m, 0), past("n", 4*m, 0)}, nil, 0, "6m0s succeeded history 2"},
		"the middle of three":                       {[]*kernel.Job{past("n", 9*m, 0), past("n", 4*m, 0), past("n", 5*m, 0)}, nil, 0, "5m0s succeeded history 3"},
		"only what took longer counts":              {[]*kernel.Job{past("n", 9*m, 0), past("n", 4*m, 0), past("n", 5*m, 0)}, nil, 5 * m, "9m0s succeeded history 3"},
		"all took less":                             {[]*kernel.Job{past("n", 9*m, 0), past("n", 4*m, 0)}, nil, 10 * m, "11m0s succeeded history 2"},
		"it took no time":                           {[]*kernel.Job{past("n", 0, 0)}, nil, 0, "0s succeeded history 1"},
		"its clock went back":                       {[]*kernel.Job{past("n", -m, 0)}, nil, 0, "1m0s succeeded guess 0"},
		"it never began":                            {[]*kernel.Job{past("n", m, 0, func(j *kernel.Job) { j.State.Started = time.Time{} })}, nil, 0, "1m0s succeeded guess 0"},
		"a failure":                                 {[]*kernel.Job{past("n", 4*m, 7)}, nil, 0, "4m0s failed exit 7 history 1"},
		"a failure does not count beside a success": {[]*kernel.Job{past("n", 4*m, 7), past("n", 5*m, 0)}, nil, 0, "5m0s succeeded history 2"},
		"a success between failures":                {[]*kernel.Job{past("n", 4*m, 7), past("n", 5*m, 0), past("n", 4*m, 7)}, nil, 0, "5m0s succeeded history 3"},
		"it had no reason":                          {[]*kernel.Job{again(kernel.RetryPolicy{}, kernel.Budget{Retries: 1})}, nil, 0, "1m0s failed exit 1 guess 0"},
		"a failure that was retried":                {[]*kernel.Job{again(kernel.RetryPolicy{}.On(kernel.OutOfMemory), kernel.Budget{Retries: 1})}, nil, 0, "1m0s failed oom 1 guess 0"},
		"the last class":                            {[]*kernel.Job{again(kernel.RetryPolicy{}.On(kernel.Preempted), kernel.Budget{Retries: 1})}, nil, 0, "1m0s failed preempted 1 guess 0"},
		"the first class":                           {[]*kernel.Job{again(kernel.RetryPolicy{}.On(kernel.ExitFailure), kernel.Budget{Retries: 1})}, nil, 0, "1m0s failed exit 1 guess 0"},
		"an exit code":                              {[]*kernel.Job{again(kernel.RetryPolicy{Exits: kernel.ExitSet{}.With(3)}, kernel.Budget{Retries: 1})}, nil, 0, "1m0s failed exit 3 guess 0"},
		"time ran out":                              {[]*kernel.Job{again(kernel.RetryPolicy{}, kernel.Budget{Resumes: 1})}, nil, 0, "1m0s failed timeout 124 guess 0"},
		"its worker was lost":                       {[]*kernel.Job{again(kernel.RetryPolicy{}, kernel.Budget{Reclaims: 1})}, nil, 0, "1m0s failed worker_lost 1 guess 0"},
		"its earlier attempts were as long":         {[]*kernel.Job{past("n", 4*m, 7, func(j *kernel.Job) { j.State.Spent.Retries = 2 })}, nil, 0, "4m0s failed exit 1 history 3"},
		"a limit ended it, and there is none now":   {[]*kernel.Job{past("n", 4*m, 124, outOfTime)}, nil, 0, "1m0s succeeded guess 0"},
		"a limit ended it that is longer now":       {[]*kernel.Job{past("n", 4*m, 124, outOfTime), past("n", 4*m, 7)}, limit(5 * m), 0, "4m0s failed exit 7 history 1"},
		"a limit ended it that is as long now":      {[]*kernel.Job{past("n", 4*m, 124, outOfTime)}, limit(4 * m), 0, "4m0s failed timeout 124 history 1"},
		"another name, the same command":            {[]*kernel.Job{past("m", 4*m, 0, runs("x"))}, nil, 0, "4m0s succeeded history 1"},
		"another command":                           {[]*kernel.Job{past("m", 4*m, 0, runs("x", "y"))}, nil, 0, "1m0s succeeded guess 0"},
		"the name before the command":               {[]*kernel.Job{past("m", 4*m, 0, runs("x")), past("n", 2*m, 0, runs("y"))}, nil, 0, "2m0s succeeded history 1"},
		"the node before the name":                  {[]*kernel.Job{past("m", 4*m, 0, of("t", "a")), past("n", 2*m, 0)}, of("t", "a"), 0, "4m0s succeeded history 1"},
		"another node":                              {[]*kernel.Job{past("m", 4*m, 0, of("t", "b")), past("m", 3*m, 0, of("s", "a")), past("m", 2*m, 0, of("", "a")), past("m", 2*m, 0, of("t", ""))}, of("t", "a"), 0, "1m0s succeeded guess 0"},
		"neither a template nor a node":             {[]*kernel.Job{past("m", 4*m, 0, of("t", ""))}, of("t", ""), 0, "1m0s succeeded guess 0"},
		"an operation of another node":              {[]*kernel.Job{past("n", 4*m, 0, builtin)}, builtin, 0, "1m0s succeeded guess 0"},
		"what was cancelled":                        {[]*kernel.Job{past("n", 4*m, 0, func(j *kernel.Job) { j.State.Status = kernel.Cancelled })}, nil, 0, "1m0s succeeded guess 0"},
	} {
		j := named("z", both(called("n"), runs("x"), func(j *kernel.Job) { j.State.Attempt = 1 }))
		if c.more != nil {
			c.more(&j)
		}
		h := foresight.HabitsOf(c.past)
		end, took := h.Course(0, 0).Attempt(&j, c.ran)
		basis, from := h.Basis(&j)
		outcome := end.Outcome.String()
		if end.Outcome == kernel.OutcomeFailed {
			outcome += fmt.Sprintf(" %v %d", end.Class, end.Exit)
		}
		if got := fmt.Sprintf("%v %s %v %d", took, outcome, basis, from); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What is expected of a person: half of the decisions on record took less, and it is a yes unless all of them were a no.
// A decision begins when what the job comes after has ended.
func TestWhatPeopleAreExpectedToDecide(t *testing.T) {
	m := time.Minute
	decided := func(state kernel.ApprovalState, took time.Duration, after ...kernel.JobID) *kernel.Job {
		j := named("o", func(j *kernel.Job) {
			j.Spec.After = after
			j.State.Approval = kernel.Approval{State: state, RequestedAt: t0, DecidedAt: t0.Add(took)}
		})
		return &j
	}
	first := named("first", func(j *kernel.Job) { j.State.Status, j.State.Finished = kernel.Succeeded, t0.Add(6*m) })
	late := named("late", func(j *kernel.Job) { j.State.Status, j.State.Finished = kernel.Succeeded, t0.Add(20*m) })
	undated := decided(kernel.Approved, 0)
	undated.State.Approval.DecidedAt = time.Time{}
	for name, c := range map[string]struct {
		past []*kernel.Job
		want string
	}{
		"nothing":                  {nil, "true 1h0m0s, 0 on record"},
		"one":                      {[]*kernel.Job{decided(kernel.Approved, 8*m)}, "true 8m0s, 1 on record"},
		"a no":                     {[]*kernel.Job{decided(kernel.Rejected, 8*m)}, "false 8m0s, 1 on record"},
		"a yes and a no":           {[]*kernel.Job{decided(kernel.Approved, 8*m), decided(kernel.Rejected, 4*m)}, "true 6m0s, 2 on record"},
		"two of three are a no":    {[]*kernel.Job{decided(kernel.Rejected, 8*m), decided(kernel.Rejected, 4*m), decided(kernel.Approved, 6*m)}, "true 6m0s, 3 on record"},
		"nobody has decided":       {[]*kernel.Job{decided(kernel.Pending, 8*m), decided(kernel.Expired, 8*m), undated}, "true 1h0m0s, 0 on record"},
		"after the one before":     {[]*kernel.Job{decided(kernel.Approved, 8*m, "first"), &first}, "true 2m0s, 1 on record"},
		"before the one before":    {[]*kernel.Job{decided(kernel.Approved, 8*m, "late", "gone"), &late}, "true 8m0s, 1 on record"},
		"after the last of those":  {[]*kernel.Job{decided(kernel.Approved, 8*m, "first", "late"), &first, &late}, "true 2m0s, 1 on record"},
		"in the order of duration": {[]*kernel.Job{decided(kernel.Approved, 8*m), decided(kernel.Approved, 2*m), decided(kernel.Approved, 3*m)}, "true 3m0s, 3 on record"},
		"before it was asked for":  {[]*kernel.Job{decided(kernel.Approved, -m)}, "true 0s, 1 on record"},
	} {
		j := named("z", nil)
		h := foresight.HabitsOf(c.past)
		grants, takes := h.Course(0, 0).Decision(&j)
		if got := fmt.Sprintf("%t %v, %d on record", grants, takes, h.Decisions()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	h := foresight.HabitsOf([]*kernel.Job{decided(kernel.Approved, 8*m), decided(kernel.Rejected, 4*m), decided(kernel.Approved, 8*m), decided(kernel.Approved, 8*m)})
	yes := 0
	for n := range 400 {
		j := named("z", nil)
		if grants, _ := h.Course(3, n+1).Decision(&j); grants {
			yes++
		}
	}
	if yes < 280 || yes > 320 {
		t.Errorf("%d of 400 decisions are a yes, of 300 expected", yes)
	}
}

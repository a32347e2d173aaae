package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What follows from each kind of evidence.
func TestJudge(t *testing.T) {
	in := func(state State, word, node string) *Job {
		return &Job{ID: "7", State: state, Word: word, Reason: "Resources", Node: node}
	}
	ordered := evidence{ordered: true, submitted: "7", lease: time.Minute}
	with := func(e evidence, change func(*evidence)) evidence { change(&e); return e }
	asked := func(e evidence, j *Job) evidence { e.asked, e.job = true, j; return e }
	away := func(e evidence) evidence { e.unreachable = "cluster c: gone"; return e }
	cut := func(e evidence) evidence { e.cut, e.unreachable = true, "cluster c: host b is away"; return e }
	begun := with(ordered, func(e *evidence) { e.host, e.began = "n1", time.Unix(50, 0) })
	held := with(begun, func(e *evidence) { e.held = true })
	leases := with(begun, func(e *evidence) { e.noLocks = true })
	silent := func(e evidence, d time.Duration) evidence { e.silent = d; return e }
	for _, c := range []struct {
		name string
		e    evidence
		want string // unseen, void, or the liveness
		lost kernel.FailureClass
		ends kernel.Outcome
		says string
	}{
		{name: "an outcome", e: evidence{ended: true}, want: "dead"},
		{name: "claimed for nobody", e: evidence{void: "forgotten"}, want: "absent", says: "forgotten"},
		{name: "no order yet", e: evidence{}, want: "alive", says: "being submitted"},
		{name: "no order, and none for long", e: evidence{age: time.Hour}, want: "void", says: "was lost"},
		{name: "an order in the outbox", e: evidence{ordered: true, posted: true}, want: "alive", says: "being submitted"},
		{name: "refused for now", e: evidence{ordered: true, posted: true, said: "not now"}, want: "alive", says: "not now"},
		{name: "an order, and nobody to ask", e: away(evidence{ordered: true, posted: true}), want: "alive", says: "cluster c: gone"},
		{name: "never taken, and who found out has not recorded that yet", e: evidence{void: notTaken + "no such thing"}, lost: kernel.RejectedByHost, ends: kernel.OutcomeFailed, want: "void", says: "no such thing"},
		{name: "submitted", e: ordered, want: "alive", says: "submitted to cluster c"},
		{name: "submitted, nobody to ask", e: away(ordered), want: "alive", says: "cluster c: gone"},
		{name: "pending for good", e: asked(ordered, &Job{ID: "7", State: Stuck, Reason: "PartitionConfig"}), want: "alive", says: "PartitionConfig (its job is 7), which does not pass by itself"},
		{name: "never submitted", e: asked(with(ordered, func(e *evidence) { e.submitted = "" }), nil), want: "alive"},
		{name: "taken from the queue, and who saw it has not recorded that yet", e: evidence{void: "taken off cluster c by its owner"}, ends: kernel.OutcomeCancelled, says: "its owner"},
		{name: "never submitted, long ago", e: asked(with(ordered, func(e *evidence) { e.submitted, e.age = "", time.Hour }), nil), want: "void"},
		{name: "forgotten", e: asked(ordered, nil), want: "void", says: "forgot"},
		{name: "pending", e: asked(ordered, in(Pending, "PENDING", "")), want: "alive", says: "pending on cluster c: Resources (its job is 7)"},
		{name: "starting", e: asked(ordered, in(Running, "RUNNING", "n1")), want: "alive", says: "starting"},
		{name: "taken from the queue", e: asked(ordered, in(Cancelled, "CANCELLED", "")), want: "void", ends: kernel.OutcomeCancelled, says: "by its owner or an administrator"},
		{name: "cancelled on a node before it began", e: asked(ordered, in(Cancelled, "CANCELLED", "n1")), want: "void"},
		{name: "ended before it began", e: asked(ordered, in(Failed, "FAILED", "n1")), want: "void", says: "FAILED"},
		{name: "runs", e: asked(held, in(Running, "RUNNING", "n1")), want: "alive"},
		{name: "runs, nobody to ask", e: away(held), want: "alive"},
		{name: "runs though given up", e: asked(held, in(Lost, "NODE_FAIL", "n1")), want: "alive", says: "its runner lives"},
		{name: "runs though forgotten", e: asked(held, nil), want: "alive"},
		{name: "gone", e: asked(begun, in(Lost, "NODE_FAIL", "n1")), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed, says: "NODE_FAIL"},
		{name: "gone and forgotten", e: asked(begun, nil), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed},
		{name: "gone, out of time", e: asked(begun, in(Timeout, "TIMEOUT", "n1")), lost: kernel.Timeout, ends: kernel.OutcomeFailed},
		{name: "gone, its pilot out of time", e: asked(with(begun, func(e *evidence) { e.packed, e.advice = true, order{Packed: true}.unlimited() }), in(Timeout, "TIMEOUT", "n1")), lost: kernel.Timeout, ends: kernel.OutcomeFailed, says: "by the time limit of its pilot (job 7: TIMEOUT): with a timeout of its own it begins only where that much is left"},
		{name: "gone, out of memory", e: asked(begun, in(OutOfMemory, "OUT_OF_MEMORY", "n1")), lost: kernel.OutOfMemory, ends: kernel.OutcomeFailed},
		{name: "gone, removed", e: asked(begun, in(Cancelled, "CANCELLED", "n1")), ends: kernel.OutcomeCancelled},
		{name: "gone with its pilot, which was removed", e: asked(with(begun, func(e *evidence) { e.packed = true }), in(Cancelled, "CANCELLED", "n1")), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed, says: "CANCELLED"},
		{name: "gone, preempted", e: asked(begun, in(Preempted, "PREEMPTED", "n1")), lost: kernel.Preempted, ends: kernel.OutcomeFailed, says: "preempted on node n1"},
		{name: "its lock is free, its job runs", e: asked(begun, in(Running, "RUNNING", "n1")), want: "alive"},
		{name: "its lock is free for long, its job runs", e: asked(silent(begun, 2*time.Minute), in(Running, "RUNNING", "n1")), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed},
		{name: "its lock is free, nobody to ask", e: away(begun), want: "alive"},
		{name: "its lock is free for long, nobody to ask", e: away(silent(begun, time.Hour)), want: "unseen"},
		{name: "lease: heard of", e: asked(leases, in(Running, "RUNNING", "n1")), want: "alive"},
		{name: "lease: heard of though given up", e: asked(leases, in(Lost, "NODE_FAIL", "n1")), want: "alive", says: "its runner was heard of"},
		{name: "lease: its job has ended, its result is not seen yet", e: asked(leases, in(Succeeded, "COMPLETED", "n1")), want: "alive", says: "its result is not seen here yet"},
		{name: "its job has ended, its result is not seen yet", e: asked(held, in(Succeeded, "COMPLETED", "n1")), want: "alive", says: "its result is not seen here yet"},
		{name: "silent, and the cluster was asked before that", e: silent(begun, 2*time.Minute), want: "alive", says: "looked for"},
		{name: "lease: just over", e: asked(silent(leases, 70*time.Second), in(Lost, "NODE_FAIL", "n1")), want: "alive"},
		{name: "lease: over", e: asked(silent(leases, 80*time.Second), in(Lost, "NODE_FAIL", "n1")), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed},
		{name: "lease: over, forgotten", e: asked(silent(leases, 80*time.Second), nil), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed},
		{name: "lease: over, its job runs", e: asked(silent(leases, time.Hour), in(Running, "RUNNING", "n1")), want: "stalled"},
		{name: "its host alone cannot be asked", e: cut(ordered), want: "alive", says: "host b"},
		{name: "its host alone cannot be asked for long", e: cut(with(ordered, func(e *evidence) { e.age = time.Hour })), want: "void", says: "host b"},
		{name: "runs, its host cannot be asked", e: cut(held), want: "alive"},
		{name: "its lock is free for long, its host cannot be asked", e: cut(silent(begun, time.Hour)), want: "unseen"},
		{name: "lease: over, nobody to ask", e: away(silent(leases, time.Hour)), want: "unseen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.e.judge("c")
			said := v.unseen + v.void + v.runner.Remark
			got := map[kernel.Liveness]string{kernel.Alive: "alive", kernel.Dead: "dead", kernel.NeverStarted: "absent", kernel.Stalled: "stalled"}[v.runner.Liveness]
			switch {
			case v.unseen != "":
				got = "unseen"
			case v.void != "":
				got = "void"
			}
			if v.lost != nil {
				said += v.lost.Reason
				if v.lost.Class != c.lost || v.lost.Outcome != c.ends {
					t.Errorf("it ends as %+v", v.lost)
				}
			} else if c.ends != kernel.NoOutcome {
				t.Errorf("it is not over: %+v", v)
			}
			if lives := got == "alive" || got == "stalled"; v.runner.Began.IsZero() != (!lives || c.e.host == "") {
				t.Errorf("it began at %v", v.runner.Began)
			}
			if got != c.want || !strings.Contains(said, c.says) {
				t.Errorf("%q, saying %q", got, said)
			}
		})
	}
}

// Of several jobs of one name the one that still does something counts.
func TestListing(t *testing.T) {
	l := answer{Jobs: []Job{{ID: "12", Name: "a", State: Running}, {ID: "11", Name: "a", State: Failed}, {ID: "9", Name: "b", State: Failed}, {ID: "8", Name: "b", State: Pending}}}.listing()
	if len(l.jobs) != 2 || l.jobs["a"].ID != "12" || l.jobs["b"].ID != "8" {
		t.Errorf("%+v", l.jobs)
	}
}

package slurm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What follows from each kind of evidence.
func TestJudge(t *testing.T) {
	in := func(state, node string) *batchJob {
		return &batchJob{id: "7", state: state, reason: "Resources", node: node}
	}
	ordered := evidence{ordered: true, submitted: "7", lease: time.Minute}
	with := func(e evidence, change func(*evidence)) evidence { change(&e); return e }
	asked := func(e evidence, j *batchJob) evidence { e.asked, e.job = true, j; return e }
	away := func(e evidence) evidence { e.unreachable = "cluster c: gone"; return e }
	begun := with(ordered, func(e *evidence) { e.host = "n1" })
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
		{name: "pending for good", e: asked(ordered, &batchJob{id: "7", state: "PENDING", reason: "PartitionConfig"}), want: "alive", says: "PartitionConfig (its job is 7), which does not pass by itself"},
		{name: "never submitted", e: asked(with(ordered, func(e *evidence) { e.submitted = "" }), nil), want: "alive"},
		{name: "taken from the queue, and who saw it has not recorded that yet", e: evidence{void: "taken off cluster c by scancel"}, ends: kernel.OutcomeCancelled, says: "scancel"},
		{name: "never submitted, long ago", e: asked(with(ordered, func(e *evidence) { e.submitted, e.age = "", time.Hour }), nil), want: "void"},
		{name: "forgotten", e: asked(ordered, nil), want: "void", says: "forgot"},
		{name: "pending", e: asked(ordered, in("PENDING", "")), want: "alive", says: "pending on cluster c: Resources (its job is 7)"},
		{name: "starting", e: asked(ordered, in("RUNNING", "n1")), want: "alive", says: "starting"},
		{name: "taken from the queue", e: asked(ordered, in("CANCELLED", "")), want: "void", ends: kernel.OutcomeCancelled, says: "scancel"},
		{name: "cancelled on a node before it began", e: asked(ordered, in("CANCELLED", "n1")), want: "void"},
		{name: "ended before it began", e: asked(ordered, in("FAILED", "n1")), want: "void", says: "FAILED"},
		{name: "runs", e: asked(held, in("RUNNING", "n1")), want: "alive"},
		{name: "runs, nobody to ask", e: away(held), want: "alive"},
		{name: "runs though given up", e: asked(held, in("NODE_FAIL", "n1")), want: "alive", says: "its runner lives"},
		{name: "runs though forgotten", e: asked(held, nil), want: "alive"},
		{name: "gone", e: asked(begun, in("NODE_FAIL", "n1")), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed, says: "NODE_FAIL"},
		{name: "gone and forgotten", e: asked(begun, nil), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed},
		{name: "gone, out of time", e: asked(begun, in("TIMEOUT", "n1")), lost: kernel.Timeout, ends: kernel.OutcomeFailed},
		{name: "gone, out of memory", e: asked(begun, in("OUT_OF_MEMORY", "n1")), lost: kernel.OutOfMemory, ends: kernel.OutcomeFailed},
		{name: "gone, removed", e: asked(begun, in("CANCELLED", "n1")), ends: kernel.OutcomeCancelled},
		{name: "its lock is free, its job runs", e: asked(begun, in("RUNNING", "n1")), want: "alive"},
		{name: "its lock is free for long, its job runs", e: asked(silent(begun, 2*time.Minute), in("RUNNING", "n1")), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed},
		{name: "its lock is free, nobody to ask", e: away(begun), want: "alive"},
		{name: "its lock is free for long, nobody to ask", e: away(silent(begun, time.Hour)), want: "unseen"},
		{name: "lease: heard of", e: asked(leases, in("RUNNING", "n1")), want: "alive"},
		{name: "lease: heard of though given up", e: asked(leases, in("NODE_FAIL", "n1")), want: "alive", says: "its runner was heard of"},
		{name: "lease: its job has ended, its result is not seen yet", e: asked(leases, in("COMPLETED", "n1")), want: "alive", says: "its result is not seen here yet"},
		{name: "its job has ended, its result is not seen yet", e: asked(held, in("COMPLETED", "n1")), want: "alive", says: "its result is not seen here yet"},
		{name: "silent, and the cluster was asked before that", e: silent(begun, 2*time.Minute), want: "alive", says: "looked for"},
		{name: "lease: just over", e: asked(silent(leases, 70*time.Second), in("NODE_FAIL", "n1")), want: "alive"},
		{name: "lease: over", e: asked(silent(leases, 80*time.Second), in("NODE_FAIL", "n1")), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed},
		{name: "lease: over, forgotten", e: asked(silent(leases, 80*time.Second), nil), lost: kernel.WorkerLost, ends: kernel.OutcomeFailed},
		{name: "lease: over, its job runs", e: asked(silent(leases, time.Hour), in("RUNNING", "n1")), want: "stalled"},
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
			if got != c.want || !strings.Contains(said, c.says) {
				t.Errorf("%q, saying %q", got, said)
			}
		})
	}
}

// Of several jobs of one name the one that still does something counts.
func TestParseJobs(t *testing.T) {
	jobs := parseJobs("12|RUNNING|None|n1|vizier-1-a-1\n11|FAILED|NonZeroExitCode|n2|vizier-1-a-1\n9|PENDING|Nodes required for job are DOWN, DRAINED or reserved|  |vizier-1-b-2\n" +
		"8|RUNNING|None|n1|somebody else's\n\ntorn|line\n")
	if len(jobs) != 2 || jobs["vizier-1-a-1"].id != "12" || jobs["vizier-1-b-2"].reason != "Nodes required for job are DOWN, DRAINED or reserved" {
		t.Errorf("%+v", jobs)
	}
}

func TestOptions(t *testing.T) {
	site := Settings{Partition: "main", CPUs: 2, Time: "90m", Options: []string{"--constraint=gpu"}}
	for _, c := range []struct {
		ask  []string
		want string // the options, or what the error says
	}{
		{nil, "--cpus-per-task=2 --partition=main --time=90 --constraint=gpu"},
		{[]string{"partition=short", "time=1-12:00", "--exclusive"}, "--cpus-per-task=2 --partition=short --time=1-12:00 --constraint=gpu --exclusive"},
		{[]string{"memory=4G", "gres=gpu:1", "cpus=8"}, "--cpus-per-task=8 --gres=gpu:1 --mem=4G --partition=main --time=90 --constraint=gpu"},
		{[]string{"cpu=8"}, "KEY one of account, cpus, gres"},
		{[]string{"cpus=0"}, "expected a positive number"},
		{[]string{"memory="}, "expected KEY=VALUE"},
		{[]string{"-p"}, "expected KEY=VALUE"},
		{[]string{"--"}, "expected --NAME"},
		{[]string{"--job-name=x"}, "Vizier depends on it"},
		{[]string{"--job=x"}, "Vizier depends on it"}, // as getopt shortens it
		{[]string{"--array=1-9"}, "Vizier depends on it"},
		{[]string{"--comment=a\nb"}, "expected --NAME"},
	} {
		got, err := site.with(c.ask)
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if err == nil && text != c.want || err != nil && !strings.Contains(text, c.want) {
			t.Errorf("%q: %q, want %q", c.ask, text, c.want)
		}
	}
	if !slices.Equal(site.Options, []string{"--constraint=gpu"}) {
		t.Error("what a job asks for stays")
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "0:30": 30 * time.Second, "2:00:01": 2*time.Hour + time.Second,
		"1-00:00:00": 24 * time.Hour, "UNLIMITED": -1, "INVALID": -1, "": -1} {
		got, ok := duration(text)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %s, %v", text, got, ok)
		}
	}
}

func TestClientEnv(t *testing.T) {
	got := clientEnv([]string{"A=b", "SLURM_CONF=c", "SLURM_JOB_ID=1", "SLURM_MEM_PER_CPU=9", "SQUEUE_FORMAT=x", "SBATCH_ACCOUNT=us", "LC_ALL=de"})
	if want := []string{"A=b", "SLURM_CONF=c", "SBATCH_ACCOUNT=us", "LC_ALL=C"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
)

// TestWhatIfIsWhatHappens draws jobs, asks what would follow if one or two things
// happened, lets them happen, and compares every job. What is refused is refused both
// times.
func TestWhatIfIsWhatHappens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newFake(t)
		w.limits = kernel.Limits{MaxRunning: rapid.IntRange(2, 5).Draw(r, "places"), Pools: map[string]int{"p": 2}}
		for range rapid.IntRange(2, 7).Draw(r, "jobs") { // a cycle of dependencies is refused
			w.run(append(append([]string{"jobs", "submit"}, drawnFlags(r, len(w.jobs))...), "--", "true")...)
		}
		if len(w.jobs) > 0 && rapid.Bool().Draw(r, "merge") { // what a template makes: it takes the plan's tokens with it
			w.ok("jobs", "submit", "--name", "merge", "--need", "custom:t:k", "--missing-producer", "wait", "--", "true")
			w.jobs[len(w.jobs)-1].Spec.Origin = kernel.Origin{Plan: "a", Branch: "draft/a", About: kernel.NodeInfo{Operation: "git.integrate_plan_branch"}}
		}
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			changes := w.drawnChanges(r)
			args := []string{"what-if", "--format", "json"}
			for _, c := range changes {
				args = append(args, c.flags...)
			}
			minted := w.minted
			code, out, said := w.run(args...)
			w.minted = minted // what is submitted now has the ids that were foreseen
			if code == 2 {
				if len(changes) == 1 && changes[0].refused && changes[0].do(r) {
					r.Fatalf("vizier %v is refused (%s), and it happened", args, said)
				}
				continue
			}
			want := map[kernel.JobID]string{}
			for i := range w.jobs {
				want[w.jobs[i].ID] = stands(&w.jobs[i])
			}
			var doc answer.Foreseen
			if err := json.Unmarshal([]byte(out), &doc); err != nil {
				r.Fatal(err)
			}
			for _, j := range doc.Jobs {
				want[j.Job] = fmt.Sprint(j.Then.Status, " ", j.Then.Attempt, " ", j.Then.Reason)
			}
			possible := true
			for _, c := range changes {
				if possible = possible && c.do(r); !possible {
					break
				}
			}
			if !possible {
				continue
			}
			for i := range w.jobs {
				if j := &w.jobs[i]; stands(j) != want[j.ID] {
					r.Fatalf("after %v job %s is %s, and what-if said %s", args, j.Ref(), stands(j), want[j.ID])
				}
			}
			if len(want) != len(w.jobs) {
				r.Fatalf("after %v there are %d jobs, and what-if said %d", args, len(w.jobs), len(want))
			}
		}
	})
}

// stands returns how j stands, in the words of what-if, which does not know who
// decides.
func stands(j *kernel.Job) string {
	st := &j.State
	reason := st.Wait.Detail
	if reason == "" && st.Status.Terminal() {
		reason = st.Reason
	}
	return strings.NewReplacer("ann", "what-if", "exit status", "exit code").Replace(fmt.Sprint(st.Status, " ", st.Attempt, " ", reason))
}

// change is something that may happen, for what-if and for real.
type change struct {
	flags   []string
	refused bool                // where what-if refuses it, it is refused
	do      func(*rapid.T) bool // false: it cannot be had
}

// drawnChanges returns one or two changes, in the order in which what-if has
// them happen.
func (w *fake) drawnChanges(r *rapid.T) []change {
	kinds := []string{"pool", "release", "submit", "retry", "cancel", "reject", "approve", "merge", "fail", "succeed", "after"}
	first := rapid.IntRange(0, len(kinds)-1).Draw(r, "first")
	second := rapid.IntRange(first, len(kinds)-1).Draw(r, "second")
	out := []change{w.drawnChange(r, kinds[first])}
	if second > first && rapid.Bool().Draw(r, "two") {
		out = append(out, w.drawnChange(r, kinds[second]))
	}
	return out
}

func (w *fake) drawnChange(r *rapid.T, kind string) change {
	ref := w.jobs[rapid.IntRange(0, len(w.jobs)-1).Draw(r, "job")].Ref()
	switch kind {
	case "pool":
		units := rapid.IntRange(0, 4).Draw(r, "units")
		return change{[]string{"--pool", fmt.Sprint("p=", units)}, false, func(*rapid.T) bool {
			w.limits.Pools = map[string]int{"p": units}
			w.tick()
			return true
		}}
	case "release":
		key := rapid.SampledFrom([]string{"x", "y", "p"}).Draw(r, "key")
		return change{[]string{"--release", key}, false, func(*rapid.T) bool {
			for i := range w.jobs {
				if j := &w.jobs[i]; j.State.Status == kernel.Running {
					j.Spec.Locks = slices.DeleteFunc(slices.Clone(j.Spec.Locks), func(l kernel.Lock) bool { return l.Key == key })
				}
			}
			w.tick()
			return true
		}}
	case "submit":
		file := filepath.Join(w.dir, "batch.jsonl")
		lines := `{"ref":"one","command":["true"],"after":["` + ref + `"],"lock":["x"]}` + "\n" + `{"ref":"two","command":["true"],"after":["one"],"produce":["custom:t:k"]}` + "\n"
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			r.Fatal(err)
		}
		return change{[]string{"--submit", file}, true, func(*rapid.T) bool {
			code, _, _ := w.runIn(lines, "jobs", "submit", "--batch")
			return code == 0
		}}
	case "merge":
		return change{[]string{"--merge", "draft/a"}, false, func(*rapid.T) bool {
			for i := range w.jobs {
				if j := &w.jobs[i]; j.Spec.Integrates() != "" && j.State.Status == kernel.Running {
					w.settle(j.ID, kernel.OutcomeSucceeded)
					return true
				}
			}
			return false // only what runs can be made to end
		}}
	case "fail", "succeed":
		outcome := map[string]kernel.Outcome{"succeed": kernel.OutcomeSucceeded, "fail": kernel.OutcomeFailed}[kind]
		flags := map[string][]string{"succeed": {"--succeed", ref}, "fail": {"--fail", ref + ":3"}}[kind]
		return change{flags, false, func(*rapid.T) bool {
			id := w.id(ref)
			if w.job(id).State.Status != kernel.Running {
				return false
			}
			w.settle(id, outcome)
			return true
		}}
	case "after":
		time := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 2 * time.Hour}).Draw(r, "time")
		return change{[]string{"--after", time.String()}, false, func(*rapid.T) bool {
			w.now = w.now.Add(time)
			w.tick()
			return true
		}}
	default:
		return change{[]string{"--" + kind, ref}, true, func(*rapid.T) bool {
			id := w.id(ref)
			code, _, _ := w.run("jobs", kind, ref)
			if j := w.job(id); kind == "cancel" && j.State.Status == kernel.Running { // its runner obeys
				w.settle(id, kernel.OutcomeCancelled)
			}
			return code == 0
		}}
	}
}

// drawnFlags returns those of a job that may depend on the i before it.
func drawnFlags(r *rapid.T, i int) (flags []string) {
	for k := 1; k <= i; k++ {
		if rapid.IntRange(0, 2).Draw(r, "after") == 0 {
			flags = append(flags, "--after", fmt.Sprint(k))
		}
	}
	if rapid.Bool().Draw(r, "approval") {
		flags = append(flags, "--approval")
		if rapid.Bool().Draw(r, "expires") {
			flags = append(flags, "--approval-timeout", "1h")
		}
	}
	if rapid.Bool().Draw(r, "lock") {
		flags = append(flags, "--lock", rapid.SampledFrom([]string{"x", "y"}).Draw(r, "key"))
	}
	if rapid.Bool().Draw(r, "pool") {
		flags = append(flags, "--pool", "p")
	}
	if rapid.Bool().Draw(r, "retries") {
		flags = append(flags, "--retries", "1")
	}
	if rapid.Bool().Draw(r, "needs") {
		flags = append(flags, "--need", "custom:t:k", "--missing-producer", "wait")
	} else if rapid.Bool().Draw(r, "produces") {
		flags = append(flags, "--produce", "custom:t:k")
	}
	return flags
}

func TestWhatIfNeedsAnIf(t *testing.T) {
	w := newFake(t)
	w.submit("--approval")
	for _, c := range []struct{ args, says string }{
		{"", "name at least one change"},
		{"--approve 7", `no job "7"`},
		{"--pool gpu", "write NAME=N"},
		{"--fail 1:x", "the exit code is not a number"},
		{"--fail 1:300", "exit code from 1 to 255"},
		{"--succeed 1 --approve 1", ""},
		{"--approve 1 --reject 1", "job 1 has ended"},
	} {
		code, _, said := w.run(append([]string{"what-if"}, strings.Fields(c.args)...)...)
		if (code == 2) != (c.says != "") || !strings.Contains(said, c.says) {
			t.Errorf("what-if %s: exit %d, says %q", c.args, code, said)
		}
	}
	if st := w.jobs[0].State; st.Status != kernel.WaitingOnApproval || st.Approval.State != kernel.Pending {
		t.Errorf("what-if changed the job: %+v", st)
	}
}

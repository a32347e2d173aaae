package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
)

// TestWhatIfIsWhatHappens draws jobs, asks what would follow if something happened,
// lets it happen, and compares every job. What is refused is refused both times.
func TestWhatIfIsWhatHappens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newFake(t)
		for range rapid.IntRange(2, 7).Draw(r, "jobs") { // a cycle of dependencies is refused
			w.run(append(append([]string{"jobs", "submit"}, drawnFlags(r, len(w.jobs))...), "--", "true")...)
		}
		n := len(w.jobs)
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			ref := fmt.Sprint(rapid.IntRange(1, n).Draw(r, "job"))
			id := w.id(ref)
			verb := rapid.SampledFrom([]string{"approve", "reject", "cancel", "retry", "succeed", "fail"}).Draw(r, "verb")
			code, out, said := w.run("what-if", "--"+verb, ref, "--format", "json")
			if code == 2 {
				if verb == "succeed" || verb == "fail" {
					continue
				}
				if code, _, _ := w.run("jobs", verb, ref); code == 0 {
					r.Fatalf("what-if --%s %s is refused (%s), and it happened", verb, ref, said)
				}
				continue
			}
			want := map[kernel.JobID]string{}
			for i := range w.jobs {
				want[w.jobs[i].ID] = w.jobs[i].State.Status.String()
			}
			var doc answer.Foreseen
			if err := json.Unmarshal([]byte(out), &doc); err != nil {
				r.Fatal(err)
			}
			for _, j := range doc.Jobs {
				want[j.Job] = j.Then.Status
			}
			switch verb {
			case "succeed", "fail":
				if w.job(id).State.Status != kernel.Running {
					continue // only what runs can be made to end
				}
				w.settle(id, map[string]kernel.Outcome{"succeed": kernel.OutcomeSucceeded, "fail": kernel.OutcomeFailed}[verb])
			default:
				if code, _, said := w.run("jobs", verb, ref); code != 0 {
					r.Fatalf("what-if --%s %s says %s, and it fails: %s", verb, ref, out, said)
				}
				if j := w.job(id); verb == "cancel" && j.State.Status == kernel.Running { // its runner obeys
					w.settle(id, kernel.OutcomeCancelled)
				}
			}
			for i := range w.jobs {
				if j := &w.jobs[i]; j.State.Status.String() != want[j.ID] {
					r.Fatalf("after %s %s job %s is %s, and what-if said %s", verb, ref, j.Ref(), j.State.Status, want[j.ID])
				}
			}
		}
	})
}

// drawnFlags are those of a job that may depend on the i before it.
func drawnFlags(r *rapid.T, i int) (flags []string) {
	for k := 1; k <= i; k++ {
		if rapid.IntRange(0, 2).Draw(r, "after") == 0 {
			flags = append(flags, "--after", fmt.Sprint(k))
		}
	}
	if rapid.Bool().Draw(r, "approval") {
		flags = append(flags, "--approval")
	}
	if rapid.Bool().Draw(r, "lock") {
		flags = append(flags, "--lock", rapid.SampledFrom([]string{"x", "y"}).Draw(r, "key"))
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
		{"", "what if what"},
		{"--approve 7", `no job "7"`},
		{"--pool gpu", "write NAME=N"},
		{"--fail 1:x", "the exit code is no number"},
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

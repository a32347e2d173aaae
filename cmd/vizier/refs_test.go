package main

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Ids of jobs and runs become references where they are words of their own, and
// stay in paths, names, artifacts and where nobody knows them.
func TestReferencesInText(t *testing.T) {
	const one, two, gone = "0199d3a4b5c670008000000000000001", "0199d3a4b5c670008000000000000002", "0199d3a4b5c670008000000000000003"
	reads := 0
	x := references{read: func(jobs []kernel.JobID, runs []kernel.RunID) []*kernel.Job {
		reads++
		return []*kernel.Job{
			{ID: one, Number: 12},
			{ID: two, Number: 14, Part: "merge", Spec: kernel.Spec{Origin: kernel.Origin{Run: "run_" + one, Node: "merge"}}},
		}
	}}
	for text, want := range map[string]string{
		"job " + one + " is failed":                   "job 12 is failed",
		one + ", " + two + "\n":                       "12, 14/merge\n",
		"(`vizier retry " + two + "`)":                "(`vizier retry 14/merge`)",
		"run_" + one + "/merge goes on":               "14/merge goes on",
		"run run_" + one + ": it ended. " + one + ".": "run 14: it ended. 12.",
		".vizier/jobs/" + one + "/stdout.log":         ".vizier/jobs/" + one + "/stdout.log",
		one + "/stdout.log":                           one + "/stdout.log",
		"custom:set:" + one:                           "custom:set:" + one,
		"draft-" + one + " run_" + one + ".json":      "draft-" + one + " run_" + one + ".json",
		one + one:                                     one + one,
		"KEY=" + one:                                  "KEY=" + one,
		gone + " and run_" + gone:                     gone + " and run_" + gone,
	} {
		if got := x.text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	before := reads
	x.text(one + " " + two + " " + gone)
	if reads != before {
		t.Error("what is known, or known to be unknown, is read again")
	}
	if got := (&references{}).text("job " + one); got != "job "+one {
		t.Errorf("without a repository: %q", got)
	}
}

// A job of a store that is older than numbers, and one that is not on record, go by their ids.
func TestWhatAJobIsCalledInAList(t *testing.T) {
	name := label(kernel.NewSnapshot(kernel.Observation{Jobs: []kernel.Job{{ID: "numbered", Number: 14, Part: "merge"}, {ID: "old"}}}))
	for id, want := range map[kernel.JobID]string{"numbered": "14/merge", "old": "old", "gone": "gone"} {
		if got := name(id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

// What each of many jobs is called is not looked up one by one.
func TestReferencesOfManyJobsAreReadAtOnce(t *testing.T) {
	w := newFake(t)
	for range 20 {
		w.submit("--approval")
	}
	w.reads = 0
	if out := w.ok("cancel", "--all", "--yes"); out != "20 jobs cancelled\n" {
		t.Error(out)
	}
	if w.reads > 5 {
		t.Errorf("the records were read %d times", w.reads)
	}
}

// Documents that list ids say what each is called, and advise what people type.
func TestDocumentsSayWhatTheirIDsAreCalled(t *testing.T) {
	w := newFake(t)
	a := w.submit("--name", "a", "--approval")
	b := w.submit("--name", "b", "--after", string(a))
	if out := w.ok("show", "b"); strings.Contains(out, "Front end") {
		t.Errorf("a front end that is none: %s", out)
	}
	var why explanation
	decode(t, w.ok("why", "b", "--json"), &why)
	if u := why.Unmet; len(u) != 1 || u[0].Job != a || u[0].Ref != "1" {
		t.Errorf("unmet %+v", u)
	}
	if acts := why.Actions; len(acts) != 1 || strings.Join(acts[0].Command, " ") != "vizier jobs approve 1" {
		t.Errorf("actions %+v", acts)
	}
	var yes approved
	decode(t, w.ok("jobs", "approve", "1", "--json"), &yes)
	if yes.Refs[a] != "1" {
		t.Errorf("approve: %v", yes.Refs)
	}
	w.settle(a, kernel.OutcomeFailed)
	var again retried
	decode(t, w.ok("retry", "1", "--json"), &again)
	if again.Refs[a] != "1" || again.Refs[b] != "2" {
		t.Errorf("retry: %v", again.Refs)
	}
}

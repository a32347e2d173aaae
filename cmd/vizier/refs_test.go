package main

import (
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

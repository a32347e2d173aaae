package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A flag that would count for nothing is refused: whoever typed it would take the answer for another one.
func TestFlagsWithoutEffectAreRefused(t *testing.T) {
	w := newFake(t)
	if code, _, err := w.runIn(strings.Repeat(`{"command":["true"]}`+"\n", 2), "submit", "--batch"); code != 0 {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--fields has no effect on a run or a batch: leave it out, or name one of its jobs, such as 1/1", []string{"show", "1", "--fields", "name"}},
		{"--format table has no effect on a run or a batch", []string{"show", "1", "--format", "table"}},
		{"--fields has no effect with --raw", []string{"show", "1/1", "--json", "--raw", "--fields", "name"}},
		{"--fields has no effect with --raw", []string{"ls", "--json", "--raw", "--fields", "name"}},
		{"--fields has no effect with --format list", []string{"ls", "--format", "list", "--fields", "name"}},
		{"--days has no effect with --keep", []string{"jobs", "gc", "--keep", "--days", "7"}},
		{"--missing-producer wait has no effect on a job that needs no artifact", []string{"submit", "--missing-producer", "wait", "--", "true"}},
	} {
		has(t, w.fails(2, c.args...), c.want)
	}
	has(t, w.ok("show", "1", "--json", "--fields", "name"), `"total": 2`)
	w.ok("show", "1/1", "--format", "table", "--fields", "name")
}

// A run that is named beside jobs leaves of them what belongs to it, as every other filter of a list does.
func TestTheRunOfAListIsAFilter(t *testing.T) {
	w := newFake(t)
	if code, _, err := w.runIn(strings.Repeat(`{"command":["true"]}`+"\n", 2), "submit", "--batch"); code != 0 {
		t.Fatal(err)
	}
	w.submit()
	for args, want := range map[string]string{"1 --run 2": "", "--run 1": "1/1 1/2", "1/1 2 --run 1": "1/1", "1 2": "1/1 1/2 2", "2 --run 2": "2"} {
		got := strings.Fields(w.ok(append([]string{"ls", "-q"}, strings.Fields(args)...)...))
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("ls %s: %q, want %q", args, got, want)
		}
	}
}

// To cancel what has ended exits alike, whether a job, several or a batch is named.
func TestACancelOfNothingFails(t *testing.T) {
	w := newFake(t)
	if code, _, err := w.runIn(strings.Repeat(`{"command":["true"]}`+"\n", 2), "submit", "--batch"); code != 0 {
		t.Fatal(err)
	}
	alone, open := w.submit(), w.submit("--approval")
	for _, id := range []kernel.JobID{w.id("1/1"), w.id("1/2"), alone} {
		w.settle(id, kernel.OutcomeSucceeded)
	}
	has(t, w.fails(1, "cancel", string(alone)), "nothing to cancel: job 2 has ended")
	has(t, w.fails(1, "cancel", "1"), "nothing to cancel: 1 has ended")
	has(t, w.fails(1, "cancel", "1", "2"), "nothing to cancel: 1, 2 have ended")
	w.ok("cancel", "2", w.ref(open))
	w.ok("cancel", "--all", "--yes")
}

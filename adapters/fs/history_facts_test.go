package fs

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// Facts are read from an account as they were observed, each known and unknown.
func TestFactsOfAnAccount(t *testing.T) {
	first, second := kernel.AttemptID{Job: id(1), N: 2}, kernel.AttemptID{Job: id(2), N: 1}
	known := kernel.NewFacts()
	known.Present[kernel.Artifact{Kind: kernel.PlanBranch, Name: "p"}] = kernel.Seen(true)
	known.Markers[custom("t", "k")] = kernel.Seen([]kernel.JobID{id(1), id(2)})
	known.Heads["main"] = kernel.Seen(kernel.CommitID("c0ffee"))
	known.Head, known.Merging, known.Clean = kernel.Seen("main"), kernel.Seen("merge"), kernel.Seen(true)
	known.Runners[first] = kernel.Seen(kernel.Runner{Liveness: kernel.Stalled, Remark: "slow", Heard: t0, Late: true, Pending: true, Stuck: true})
	known.Results[first] = kernel.Seen[*kernel.Result](nil)
	known.Sandbox = kernel.Seen(kernel.Enforcement{Files: "no files", Network: "no network"})
	const why = "git is gone"
	unknown := kernel.NewFacts()
	unknown.Present[kernel.Artifact{Kind: kernel.PlanBranch, Name: "p"}] = kernel.Unseen[bool](why)
	unknown.Markers[custom("t", "k")] = kernel.Unseen[[]kernel.JobID](why)
	unknown.Heads["main"] = kernel.Unseen[kernel.CommitID](why)
	unknown.Head, unknown.Merging, unknown.Clean = kernel.Unseen[string](why), kernel.Unseen[string](why), kernel.Unseen[bool](why)
	unknown.Runners[second] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead})
	unknown.Results[second] = kernel.Unseen[*kernel.Result](why)
	unknown.Sandbox = kernel.Unseen[kernel.Enforcement](why)
	for name, want := range map[string]kernel.Facts{"known": known, "unknown": unknown} {
		for i, v := 0, reflect.ValueOf(want); i < v.NumField(); i++ {
			if f := v.Field(i); f.IsZero() || f.Kind() == reflect.Map && f.Len() == 0 {
				t.Errorf("%s: %s is left out here", name, v.Type().Field(i).Name)
			}
			alone := kernel.NewFacts() // with no other, it is written all the same
			reflect.ValueOf(&alone).Elem().Field(i).Set(v.Field(i))
			same(t, name+" "+v.Type().Field(i).Name, alone)
		}
		same(t, name, want)
	}
}

func same(t *testing.T, name string, want kernel.Facts) {
	t.Helper()
	r, err := newFactsRecord(want)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if got, err := r.facts(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v\nwant %+v, %v", name, got, want, err)
	}
}

// Of a long value only the beginning is shown, with a mark that the rest is cut off.
func TestLongValuesAreCutOff(t *testing.T) {
	for length, want := range map[int]string{118: strings.Repeat("x", 118) + `"`, 119: strings.Repeat("x", 119) + "…", 500: strings.Repeat("x", 119) + "…"} {
		if got := fieldText("name", map[string]any{"name": strings.Repeat("x", length)}); got != `name "`+want {
			t.Errorf("of %d: %s", length, got)
		}
	}
}

// Facts that cannot be written are an error of the account, not facts that were not seen.
func TestFactsThatCannotBeWritten(t *testing.T) {
	a := kernel.AttemptID{Job: id(1), N: 1}
	f := kernel.NewFacts()
	f.Results[a] = kernel.Seen(&kernel.Result{Attempt: a, Submitted: []kernel.NewJob{{ID: id(2), Spec: kernel.Spec{Task: kernel.Task{Args: []string{strings.Repeat("x", maxRecord)}}}}}})
	if _, err := newAccount(history.Account{Steps: []history.Step{{Facts: f}}}); !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// A record that cannot be read is an error of the verification, which forgets what it knew of the job.
func TestARecordThatCannotBeVerified(t *testing.T) {
	v := newVerifier("")
	j := kernel.Job{ID: id(1), Created: t0, Spec: plain(1).Spec}
	torn := errors.New("torn")
	if err := v.put(j.ID, []byte("{}"), readRecord{job: &j}); err != nil {
		t.Fatal(err)
	}
	known := func() bool {
		k, err := v.store.cache.entry(j.ID)
		if err != nil {
			t.Fatal(err)
		}
		return k != nil
	}
	if !known() {
		t.Fatal("it is not known")
	}
	if err := v.put(j.ID, []byte("{"), readRecord{err: torn}); !errors.Is(err, torn) || known() {
		t.Errorf("%v, known %v", err, known())
	}
}

// Of facts that several accounts tell, the newest count.
func TestTheNewestFactsCount(t *testing.T) {
	w := newPastState()
	var want kernel.Facts
	for n := range 3 {
		f := kernel.NewFacts()
		f.Present[kernel.Artifact{Kind: kernel.PlanBranch, Name: "p"}] = kernel.Seen(n == 1)
		f.Markers[custom("t", "k")] = kernel.Seen([]kernel.JobID{id(n)})
		f.Heads["main"] = kernel.Seen(kernel.CommitID(fmt.Sprint(n)))
		f.Head, f.Merging, f.Clean = kernel.Seen(fmt.Sprint("main", n)), kernel.Seen(fmt.Sprint("merge", n)), kernel.Seen(n == 1)
		f.Sandbox = kernel.Seen(kernel.Enforcement{Files: fmt.Sprint("no files", n)})
		if n == 2 { // it tells of some only
			f = kernel.NewFacts()
			f.Head, want.Head = kernel.Unseen[string]("git is gone"), kernel.Unseen[string]("git is gone")
		} else {
			want = f
		}
		r, err := newFactsRecord(f)
		if err != nil {
			t.Fatal(err)
		}
		line, err := toLine(map[string]any{"steps": []any{map[string]any{"facts": r}}})
		if err != nil {
			t.Fatal(err)
		}
		w.told = append(w.told, line)
	}
	if got, err := w.facts(); err != nil || !reflect.DeepEqual(got, kernel.Facts{Present: want.Present, Markers: want.Markers, Heads: want.Heads, Head: want.Head, Clean: want.Clean, Merging: want.Merging, Sandbox: want.Sandbox}) {
		t.Errorf("%+v\nwant %+v, %v", got, want, err)
	}
	w.told[1] = []byte(`{"steps":[{"facts":1}]}`)
	if _, err := w.facts(); err == nil || !strings.HasPrefix(err.Error(), "the facts on record cannot be read: ") {
		t.Errorf("%v", err)
	}
}

package kernel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func refs(s *kernel.Snapshot) map[kernel.JobID]string {
	out := map[kernel.JobID]string{}
	for _, j := range s.Jobs() {
		out[j.ID] = j.Ref()
	}
	return out
}

func wantRefs(t *testing.T, s *kernel.Snapshot, want map[kernel.JobID]string) {
	t.Helper()
	got := refs(s)
	for id, ref := range want {
		if got[id] != ref {
			t.Errorf("%s is %q, want %q", id, got[id], ref)
		}
	}
}

func put(t *testing.T, s *kernel.Snapshot, jobs ...kernel.NewJob) *kernel.Snapshot {
	t.Helper()
	p, err := kernel.Enqueue(s, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return s.Apply(p)
}

// A name that always means another job is refused where it is given; a decision on record that has one stands.
func TestNamesThatMeanOtherJobs(t *testing.T) {
	for name, fine := range map[string]bool{"12": false, "1": false, "12/x": false, "@last": false, "run:1": false, "run:": false, "x:any": false, ":any": false, "run": true, "any": true, "re-run:1": true, "x:anything": true, "": true, "0": true, "01": true, "12a": true, "12345678": true, "a/1": true} {
		if err := kernel.CheckName(name); (err == nil) != fine || err != nil && !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	n := fresh("a")
	n.Spec.Name = "12"
	if s := put(t, snapshot(facts()), n); s.Job("a").Spec.Name != "12" {
		t.Error("the job has no name")
	}
}

func TestEveryEnqueueHasANumber(t *testing.T) {
	of := func(id kernel.JobID, run kernel.RunID, node string, parent kernel.JobID) kernel.NewJob {
		n := fresh(id)
		n.Spec.Origin.Run, n.Spec.Origin.Node, n.Spec.Origin.Parent = run, node, parent
		return n
	}
	named := fresh("c")
	named.Part = "lint"
	s := snapshot(facts())
	s = put(t, s, fresh("a"))
	s = put(t, s, fresh("b"), named)
	s = put(t, s, of("d", "run_1", "draft", ""), of("e", "run_2", "draft", ""), of("f", "run_2", "merge", ""))
	s = put(t, s, of("g", "run_2", "", "e"))
	s = put(t, s, of("h", "run_2", "", "e"), of("i", "run_2", "", "e"))
	wantRefs(t, s, map[kernel.JobID]string{"a": "1", "b": "2/1", "c": "2/lint", "d": "3/draft", "e": "4/draft", "f": "4/merge", "g": "5", "h": "6/1", "i": "6/2"})

	odd := []kernel.NewJob{fresh("k"), fresh("l"), fresh("m"), fresh("n"), fresh("o")}
	longest := strings.Repeat("x", 64)
	odd[0].Part, odd[1].Part, odd[2].Part, odd[3].Part, odd[4].Part = "a b", "x\n  vizier jobs approve 1", "\x1b[31mrot", longest, longest+"x"
	wantRefs(t, put(t, s, odd...), map[kernel.JobID]string{"k": "7/1", "l": "7/2", "m": "7/3", "n": "7/" + longest, "o": "7/5"})
	clash := fresh("x")
	clash.Part = "2"
	if _, err := kernel.Enqueue(s, []kernel.NewJob{clash, fresh("y")}); !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("a ref that is another job's place: %v", err)
	}
	s = s.Apply(kernel.Plan{Records: []kernel.RecordAction{kernel.RemoveJob{Job: "h"}, kernel.RemoveJob{Job: "i"}}})
	alone := fresh("j")
	alone.Part = "a b"
	wantRefs(t, put(t, s, alone), map[kernel.JobID]string{"j": "7"}) // nor does a refused enqueue use one up
}

func TestJobsOfBeforeGetNumbers(t *testing.T) {
	old := func(id kernel.JobID, run kernel.RunID, node string, parent kernel.JobID) *kernel.Job {
		j := job(id)
		j.Spec.Origin.Run, j.Spec.Origin.Node, j.Spec.Origin.Parent = run, node, parent
		return &j
	}
	var jobs []kernel.Job
	for _, j := range []*kernel.Job{old("a", "", "", ""), old("b", "run_1", "draft", ""), old("c", "", "", ""), old("d", "run_1", "merge", ""),
		old("e", "run_1", "", "b"), old("f", "run_1", "", "b"), old("g", "", "", "c")} {
		jobs = append(jobs, *j)
	}
	s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: jobs})
	next := s.Apply(kernel.NumberAll(s))
	wantRefs(t, next, map[kernel.JobID]string{"a": "1", "b": "2/draft", "c": "3", "d": "2/merge", "e": "4/1", "f": "4/2", "g": "5"})
	if p := kernel.NumberAll(next); !p.Empty() {
		t.Errorf("numbered again: %v", p)
	}
	wantRefs(t, put(t, next, fresh("h")), map[kernel.JobID]string{"h": "6"})
}

func TestReferences(t *testing.T) {
	for ref, want := range map[string]struct {
		n    kernel.Number
		part string
		ok   bool
	}{
		"12": {12, "", true}, "12/merge": {12, "merge", true}, "12/a/b": {12, "a/b", true}, "1234567": {1234567, "", true},
		"12345678": {}, "0": {}, "012": {}, "+1": {}, "-1": {}, "1x": {}, "": {}, "/x": {}, "run_1": {}, "x/1": {},
	} {
		if n, part, ok := kernel.ParseRef(ref); n != want.n && ok || part != want.part && ok || ok != want.ok {
			t.Errorf("%q: %v %q %v, want %v", ref, n, part, ok, want)
		}
	}
}

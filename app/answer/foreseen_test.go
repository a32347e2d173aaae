package answer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// A story says what it assumes, and nothing where it assumes nothing.
func TestAssumed(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	snap := kernel.NewSnapshot(kernel.Observation{Now: at, Facts: kernel.NewFacts(), Jobs: []kernel.Job{{ID: "a", Created: at, Rev: 1}, {ID: "b", Created: at, Rev: 1}}})
	attempt := func(id kernel.JobID, n int) foresight.Span {
		return foresight.Span{Job: id, Attempt: n, Start: at, End: at.Add(time.Minute)}
	}
	first := Assumed{"attempt", foresight.DefaultDuration.Seconds(), 1}
	decision := Assumed{"decision", foresight.DefaultDecision.Seconds(), 1}
	for name, c := range map[string]struct {
		spans []foresight.Span
		want  []Assumed
	}{
		"nothing":    {nil, []Assumed{}},
		"an attempt": {[]foresight.Span{attempt("a", 1)}, []Assumed{first}},
		"a decision": {[]foresight.Span{attempt("a", 0)}, []Assumed{decision}},
		"both":       {[]foresight.Span{attempt("a", 0), attempt("a", 1), attempt("b", 1), attempt("b", 2)}, []Assumed{{"attempt", first.Seconds, 2}, decision}},
	} {
		got := AssumedOf(foresight.Story{Then: snap, Spans: c.spans}, foresight.HabitsOf(nil))
		if !slices.Equal(got, c.want) || got == nil {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestWhatIsAssumedInALine(t *testing.T) {
	for want, all := range map[string][]Assumed{
		"": nil,
		"Assumed: 1m30s for each unknown attempt (2)\n":                                       {{"attempt", 90, 2}},
		"Assumed: 1m30s for each unknown attempt (2), 2h for each decision of a person (1)\n": {{"attempt", 90, 2}, {"decision", 7200, 1}},
	} {
		if got := AssumedText(all); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Jobs that change are rows, with the time until they end if that is asked for. One that is gone stays with its name.
func TestWhatIsForeseenAsATable(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ends := at.Add(90 * time.Second)
	f := Foreseen{Now: at, Jobs: []ForeseenJob{
		{Reference: view.Reference{Ref: "1"}, Name: "a", Was: &ForeseenStep{Status: "queued"}, Then: &ForeseenStep{Status: "succeeded", Reason: "done"}, Ends: &ends},
		{Reference: view.Reference{Ref: "2"}, Name: "b", Was: &ForeseenStep{Status: "queued"}},
		{Reference: view.Reference{Ref: "3"}, Name: "c", Then: &ForeseenStep{Status: "queued"}},
	}}
	for toTheEnd, want := range map[bool]string{
		false: "[[# Name Now Then Reason] [1 a waiting succeeded done] [2 b waiting removed ] [3 c - waiting ]]",
		true:  "[[# Name Now Then In Reason] [1 a waiting succeeded 1m30s done] [2 b waiting removed  ] [3 c - waiting  ]]",
	} {
		if got := fmt.Sprint(f.Cells(toTheEnd)); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	for most, left := range map[int]int{0: 3, 3: 3, 2: 2} {
		g := f
		if g.First(most); len(g.Jobs) != left || g.More != 3-left {
			t.Errorf("the first %d: %d jobs and %d more", most, len(g.Jobs), g.More)
		}
	}
}

// A job whose standing changes is said to end when the story says so or, to the end, when the change itself ends it.
func TestForeseenOf(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	in := func(now time.Time, all ...kernel.Job) *kernel.Snapshot {
		return kernel.NewSnapshot(kernel.Observation{Now: now, Facts: kernel.NewFacts(), Jobs: all})
	}
	job := func(id kernel.JobID, st kernel.Status, wait, reason string) kernel.Job {
		return kernel.Job{ID: id, Created: at, Rev: 1, Spec: kernel.Spec{Name: "name of " + string(id)}, State: kernel.State{Status: st, Wait: kernel.WaitReason{Detail: wait}, Reason: reason, Attempt: 1}}
	}
	f := foresight.Forecast{
		Now:  in(at, job("a", kernel.Queued, "its turn", "an earlier reason"), job("b", kernel.Queued, "", ""), job("c", kernel.Failed, "", "exit code 3"), job("same", kernel.Queued, "", "")),
		Then: in(at.Add(time.Minute), job("a", kernel.Succeeded, "", ""), job("b", kernel.Cancelled, "", "by ann"), job("d", kernel.Queued, "", "not over"), job("same", kernel.Queued, "", "")),
	}
	story := foresight.Story{Ended: map[kernel.JobID]time.Time{"a": at.Add(time.Hour)}}
	for toTheEnd, want := range map[bool]string{
		false: "[a name of a: queued its turn, succeeded , at 13:00] [b name of b: queued , cancelled by ann, at -] [d name of d: -, queued , at -] [c name of c: failed exit code 3, -, at -] ",
		true:  "[a name of a: queued its turn, succeeded , at 13:00] [b name of b: queued , cancelled by ann, at 12:00] [d name of d: -, queued , at -] [c name of c: failed exit code 3, -, at -] ",
	} {
		doc := ForeseenOf(f, story, toTheEnd)
		if !doc.Now.Equal(at) || !doc.At.Equal(at.Add(time.Minute)) {
			t.Errorf("now %s, then %s", doc.Now, doc.At)
		}
		got := ""
		for _, j := range doc.Jobs {
			step := func(s *ForeseenStep) string {
				if s == nil {
					return "-"
				}
				return s.Status + " " + s.Reason
			}
			ends := "-"
			if j.Ends != nil {
				ends = j.Ends.Format("15:04")
			}
			got += fmt.Sprintf("[%s %s: %s, %s, at %s] ", j.Job, j.Name, step(j.Was), step(j.Then), ends)
		}
		if got != want {
			t.Errorf("to the end %v:\n%s\nwant\n%s", toTheEnd, got, want)
		}
	}
	if doc := ForeseenOf(foresight.Forecast{Now: f.Now, Then: f.Now}, foresight.Story{}, true); doc.Jobs == nil || len(doc.Jobs) > 0 {
		t.Errorf("of nothing: %+v", doc.Jobs)
	}
}

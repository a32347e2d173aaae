package answer

import (
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
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

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// A grid fits any terminal that has room for what does not give way, by the width
// of its letters; nobody's eyes get all of it.
func TestGridFits(t *testing.T) {
	g := grid{indent: "  ", shrink: []int{2, 1}, cells: [][]string{
		{"12", "名前がとても長い仕事です", "waits for a lock that another job holds, and so on", ""},
		{"7", "naïve ✓ job", "", "x"},
	}}
	whole := g.text(0)
	for _, want := range []string{"名前がとても長い仕事です", "and so on", "naïve ✓ job"} {
		has(t, whole, want)
	}
	for width := 30; width < 120; width++ {
		text := g.text(width)
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if w := displaywidth.String(line); w > width {
				t.Errorf("%d columns: %d are used by %q", width, w, line)
			}
			if strings.TrimRight(line, " ") != line {
				t.Errorf("%d columns: blanks at the end of %q", width, line)
			}
		}
		if full := text == whole; full != (width >= displaywidth.String(strings.SplitN(whole, "\n", 2)[0])+len("  x")) {
			t.Errorf("%d columns: whole is %v\n%s", width, full, text)
		}
	}
}

// If no column is named, the widest one is narrowed, but never the first, which
// people type. Without a terminal nothing is cut, and a long text does not
// widen its column.
func TestAGridWithoutATerminal(t *testing.T) {
	long := strings.Repeat("long ", 20) + "end"
	g := grid{indent: "  ", shrink: []int{1}, cells: [][]string{{"1", long, "vizier tail 1"}, {"12", "exit 3", "vizier tail 12"}}}
	if got, want := g.text(0), "  1   "+long+"  vizier tail 1\n  12  exit 3  vizier tail 12\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTheWidestColumnGivesWay(t *testing.T) {
	g := grid{cells: [][]string{{"14/merge_integrate", "short", "a long text that goes on and on", "x"}}}
	if got, want := g.text(40), "14/merge_integrate  short  a long te…  x\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := g.text(10), "14/merge_integrate  sh…  a …  x\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Sentences go on below, set in, and a command to type stays a line.
func TestProseFolds(t *testing.T) {
	text := "Not met:\n  - approval: waits for a person to decide\n\nTo start it:\n  vizier retry 12/a-node-with-a-name\n"
	want := "Not met:\n  - approval: waits for\n    a person to decide\n\nTo start it:\n  vizier retry 12/a-node-with-a-name\n"
	if got := prose(text, 24); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := prose(text, 0); got != text {
		t.Errorf("no terminal: %q", got)
	}
}

// Values that are too long go on below where they begin, and no word is cut.
func TestBlocksHang(t *testing.T) {
	text := "Command:  vizier run approve --name loud\nDigest:   0123456789012345678901234567890123456789\nName: x\n"
	want := "Command:  vizier run approve\n          --name loud\nDigest:   0123456789012345678901234567890123456789\nName: x\n"
	if got := hung(text, 30); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := hung(text, 0); got != text {
		t.Errorf("no terminal: %q", got)
	}
}

// Where labels are wide, values that are too long go on below these.
func TestBlocksHangBelowWideLabels(t *testing.T) {
	text := "Workflow template version: the second of them\nName:                      x\n"
	want := "Workflow template version:\n  the second of them\nName:                      x\n"
	if got := hung(text, 40); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A schedule and a simulation fit a terminal of 40 columns, and without one nothing is left out.
func TestSchedulesAndSimulationsFit(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	then := now.Add(time.Hour)
	saves := 3600.0
	job := kernel.Job{ID: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1", Number: 12, Part: "merge_conflict_resolution", Created: now}
	job.Spec.Name, job.Spec.Origin.Plan, job.Spec.Origin.Node = "merge conflict resolution", "a-long-slug", "merge_conflict_resolution"
	job.State.Status, job.State.Wait.Detail = kernel.WaitingOnApproval, "awaiting human approval to execute it again"
	v := view.ScheduleOf(kernel.NewSnapshot(kernel.Observation{Now: now, Jobs: []kernel.Job{job}}), view.ScheduleOptions{Label: func(kernel.JobID) string { return job.Ref() }})
	ref := view.ReferenceOf(&job)
	span := simulatedSpan{Reference: ref, Name: job.Spec.Name, Start: now, End: then, WaitedFor: "pool a-long-name"}
	doc := simulated{Now: now, Draws: 9,
		Ends:      []simulatedEnd{{Reference: ref, Name: job.Spec.Name, Ends: 9, Succeeded: 3, Basis: new("recorded"), From: 12, P50: &then, P90: &then}},
		Path:      []simulatedSpan{span},
		Resources: []simulatedDemand{{Kind: "pool", Name: "a-long-name", Has: 2, Waited: saves, Busy: 1, Doubled: &saves}},
	}
	for _, width := range []int{40, 0} {
		c := &call{ui: &ui{width: width, zone: time.UTC, now: func() time.Time { return now }}}
		text := c.summary(v, v.Rows, []string{"eta 1h (of 12 before)"}) + c.simulation(doc)
		for line := range strings.Lines(text) {
			if w := displaywidth.String(strings.TrimSuffix(line, "\n")); width > 0 && w > width {
				t.Errorf("%d columns are used by %q", w, line)
			}
		}
		for _, whole := range []string{"merge conflict resolution", "a-long-slug", "waited for pool a-long-name", "busy 100%"} {
			if strings.Contains(text, whole) != (width == 0) {
				t.Errorf("%d columns, %q:\n%s", width, whole, text)
			}
		}
	}
}

func TestTimesForPeople(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	u := &ui{zone: time.FixedZone("", 2*60*60), now: func() time.Time { return now }}
	for text, want := range map[string]string{
		"due since 2026-03-01T10:00:00Z, for 2h":          "due since 12:00, for 2h",
		"2026-02-28T22:30:00.123456+00:00":                "00:30",
		"1 failed at 2025-03-01T12:00:00+00:00 for 3s":    "1 failed at Mar 1 2025 14:00 for 3s",
		"a 2026-03-01T12:00:00Z, b 2026-03-01T12:01:00Z.": "a 14:00, b 14:01.",
		"log-2026-03-01T12:00:00Z.txt and T, T-T, 1-T":    "log-2026-03-01T12:00:00Z.txt and T, T-T, 1-T",
		"2026-13-01T12:00:00Z":                            "2026-13-01T12:00:00Z",
	} {
		if got := u.clocks(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for want, at := range map[string]time.Time{
		"14:00": now, "00:30": now.Add(-13*time.Hour - 30*time.Minute), "Feb 28 23:00": now.Add(-15 * time.Hour), "Mar 1 2025 14:00": now.AddDate(-1, 0, 0),
	} {
		if got := u.clock(at, now); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
	c := &call{ui: u}
	for text, want := range map[string]time.Time{
		"": {}, "90m": now.Add(-90 * time.Minute), "3d": now.Add(-72 * time.Hour), "2026-02-27": time.Date(2026, 2, 26, 22, 0, 0, 0, time.UTC),
		"09:15": time.Date(2026, 3, 1, 7, 15, 0, 0, time.UTC), "2026-02-27T10:00:00Z": time.Date(2026, 2, 27, 10, 0, 0, 0, time.UTC),
	} {
		if got, err := c.since(text, now); err != nil || !got.Equal(want) {
			t.Errorf("since %q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-3h", "-1d", "3x"} {
		if _, err := c.since(text, now); err == nil {
			t.Errorf("since %q is no error", text)
		}
	}
}

package view_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

var update = flag.Bool("update", false, "rewrite the pictures of testdata")

func took(minutes int) func(*kernel.Job) {
	return func(j *kernel.Job) {
		j.State.Started, j.State.Finished = j.Created, j.Created.Add(time.Duration(minutes)*time.Minute)
	}
}

// Every line of a picture is as it was when somebody last looked at it.
func TestPictures(t *testing.T) {
	t.Parallel()
	titled := func(name string) func(*kernel.Job) { return func(j *kernel.Job) { j.Spec.Name = name } }
	shown := snap( // a path that takes longest without being the longest; arrows that pass columns; a circle; what is not on record
		job("base", 0, kernel.Succeeded, took(1), numbered(1, "")), job("slow", 1, kernel.Succeeded, took(30), after("base"), numbered(1, "slow")),
		job("fast", 2, kernel.Failed, took(2), after("base")), job("then", 3, kernel.Succeeded, took(2), after("fast")),
		job("run", 40, kernel.Running, after("slow", "base"), func(j *kernel.Job) { j.State.Started, j.State.Attempt = noon.Add(50*time.Minute), 1 }),
		job("end", 41, kernel.WaitingOnApproval, after("run", "then", "base"), titled(`<end> "of" a & 'b' that takes a long name`), needs(t, "custom:tok:x", "plan_doc:p")),
		job("far", 42, kernel.WaitingOnDeps, after("end", "gone", "base")), job("lost", 43, kernel.BlockedByDependency, after("fast"), numbered(1, "lost")),
		job("c1", 44, kernel.WaitingOnDeps, after("c3")), job("c2", 45, kernel.WaitingOnDeps, after("c1")), job("c3", 46, kernel.WaitingOnDeps, after("c2", "c3")),
		job("alone", 47, kernel.Queued), job("off", 48, kernel.Cancelled), job("made", 49, kernel.Running, makes(t, "custom:made:x")), job("uses", 50, kernel.WaitingOnDeps, needs(t, "custom:made:x")),
		job("other", 51, kernel.Queued), job("sleeps", 52, kernel.Unscheduled))
	var mesh []kernel.Job
	for i := range 24 {
		j := job(fmt.Sprintf("j%d", i), i, kernel.Status(i%9))
		for k := 1; k <= 3 && i-k*k >= 0; k++ {
			after(kernel.JobID(fmt.Sprintf("j%d", i-k*k)))(&j)
		}
		mesh = append(mesh, j)
	}
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for name, got := range map[string]string{
		"all":  view.ScheduleOf(shown, view.ScheduleOptions{All: true}).SVG(),
		"open": view.ScheduleOf(shown, view.ScheduleOptions{}).SVG(),
		"mesh": view.ScheduleOf(snap(mesh...), view.ScheduleOptions{All: true}).SVG(),
		"gantt": view.Gantt(`a <title> & "more"`, noon, []view.Bar{{Row: "a", Start: at(-10), End: at(5), Status: "succeeded", Text: "a & b"}, {Row: strings.Repeat("long ", 8), Start: at(5), End: at(10), Status: "failed"},
			{Row: "a", Start: at(10), End: at(100), Critical: true, Status: "running", Text: "<c>"}, {Row: "last", Start: at(100), End: at(100), Status: "blocked_by_dependency"}}),
		"gantt of nothing": view.Gantt("nothing", noon, nil),
	} {
		drawn(t, got)
		file := filepath.Join("testdata", "picture", strings.ReplaceAll(name, " ", "_")+".svg")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: go test ./kernel/view -run TestPictures -update rewrites it; look at it before you commit it", file)
			equal(t, strings.Split(got, "\n"), strings.Split(string(want), "\n"))
		}
	}
}

// The thick line follows the chain that takes longest: what has ended takes as long as it took, what runs as long as it has been
// running, and everything else as long as the ended jobs did on average. Of equals the first counts.
func TestWhichChainIsCritical(t *testing.T) {
	t.Parallel()
	runs := func(minutes int) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.State.Started, j.State.Attempt = noon.Add(time.Duration(60-minutes)*time.Minute), 2
			j.State.Finished = j.State.Started.Add(-time.Minute) // of the attempt before
		}
	}
	root, other := job("root", 0, kernel.Succeeded, took(20)), job("other", 1, kernel.Failed, took(10))
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want string
	}{
		"less than the average":     {[]kernel.Job{root, other, job("waits", 2, kernel.WaitingOnDeps, after("root")), job("runs", 3, kernel.Running, runs(14), after("root"))}, "do root, do waits"},
		"more than the average":     {[]kernel.Job{root, other, job("waits", 2, kernel.WaitingOnDeps, after("root")), job("runs", 3, kernel.Running, runs(16), after("root"))}, "do root, do runs"},
		"without a record a minute": {[]kernel.Job{job("r", 0, kernel.Queued), job("waits", 2, kernel.WaitingOnDeps, after("r")), job("runs", 3, kernel.Running, runs(2), after("r"))}, "do r, do runs"},
		"and not more":              {[]kernel.Job{job("r", 0, kernel.Queued), job("waits", 2, kernel.WaitingOnDeps, after("r")), job("runs", 3, kernel.Running, runs(0), after("r"))}, "do r, do waits"},
		"a single job":              {[]kernel.Job{job("a", 0, kernel.WaitingOnDeps, needs(t, "custom:tok:x"))}, ""},
		"equals":                    {[]kernel.Job{job("a", 0, kernel.Queued), job("b", 1, kernel.WaitingOnDeps, after("a")), job("c", 2, kernel.Queued), job("d", 3, kernel.WaitingOnDeps, after("c"))}, "do a, do b"},
	} {
		var got []string
		for line := range strings.SplitSeq(view.ScheduleOf(snap(c.jobs...), view.ScheduleOptions{All: true}).SVG(), "\n") {
			if title, is := strings.CutPrefix(line, "<g><title>"); is && strings.Contains(line, `stroke-width="3.5"`) {
				title, _, _ = strings.Cut(title, "&#10;")
				got = append(got, title)
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// A picture that is larger than programs draw declares a smaller size, with all of it in view.
func TestAPictureIsScaledDown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		long int
		want string
	}{{58, `width="15744" height="118" viewBox="0 0 15744 118"`}, {59, `width="16000" height="117" viewBox="0 0 16016 118"`}} {
		var jobs []kernel.Job
		for i := range c.long {
			jobs = append(jobs, job(fmt.Sprintf("j%d", i), i, kernel.WaitingOnDeps))
			if i > 0 {
				after(kernel.JobID(fmt.Sprintf("j%d", i-1)))(&jobs[i])
			}
		}
		if svg := view.ScheduleOf(snap(jobs...), view.ScheduleOptions{}).SVG(); !strings.Contains(svg, c.want) {
			t.Errorf("a chain of %d: %.200s\nwant %s", c.long, svg, c.want)
		}
	}
}

// A text that is too long for its columns ends with a sign; wide characters take two of them, and marks none.
func TestTextsThatFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"ab", 1, "…"}, {"名前", 4, "名前"}, {"名前", 3, "名…"}, {"名前", 2, "…"}, {"a名", 2, "a…"},
		{"\u1100\u1100", 3, "\u1100…"}, {"\u10ffx\u10ff", 3, "\u10ffx\u10ff"}, {"\u1200\u1200", 2, "\u1200\u1200"}, {"\uff00\uff00", 2, "\uff00\uff00"}, {"\uff01\uff01", 3, "\uff01…"}, {"\uff60\uff60", 3, "\uff60…"}, {"\uff61\uff61", 2, "\uff61\uff61"},
		{"\U0001f2ff\U0001f2ff", 2, "\U0001f2ff\U0001f2ff"}, {"\U0001f300\U0001f300", 3, "\U0001f300…"}, {"\U0001faff\U0001faff", 3, "\U0001faff…"}, {"\U0001fb00\U0001fb00", 2, "\U0001fb00\U0001fb00"},
		{"a\u0301b\u200cc\u200dd", 4, "a\u0301b\u200cc\u200dd"},
	} {
		if got := view.Fit(c.text, c.columns); got != c.want {
			t.Errorf("%+q in %d columns: %+q, want %+q", c.text, c.columns, got, c.want)
		}
	}
}

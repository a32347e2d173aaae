package trace_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/trace"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// The cases of the recommendation: what is malformed is none, and what a later version
// adds is left out.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		parent: parent,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":       "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03":       parent,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":       parent,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later": parent,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later": "",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":       "",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":       "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":       "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":       "",
		"00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01":        "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1":        "",
		"zz-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":       "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331":          "",
		"": "",
	} {
		if got := trace.Parse(text).String(); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestWhatIsSaidIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c trace.Context
		copy(c.Trace[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "trace"))
		copy(c.Span[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "span"))
		c.Trace[0], c.Span[7] = max(c.Trace[0], 1), max(c.Span[7], 1)
		c.Sampled = rapid.Bool().Draw(t, "sampled")
		if got := trace.Parse(c.String()); got != c {
			t.Fatalf("%v was read as %v", c, got)
		}
		_ = trace.Parse(rapid.String().Draw(t, "anything"))
	})
}

var t0 = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a moment

func job(run kernel.RunID, traceparent string) *kernel.Job {
	return &kernel.Job{ID: "j", Created: t0, Number: 7, Spec: kernel.Spec{Name: "build", Origin: kernel.Origin{Run: run, TraceParent: traceparent},
		Task: kernel.Task{Args: []string{"/usr/bin/make", "all"}}}}
}

func ended(n int, o kernel.Outcome, from, to time.Duration) *kernel.Result {
	return &kernel.Result{Attempt: kernel.AttemptID{Job: "j", N: n}, Outcome: o, Started: t0.Add(from), Ended: t0.Add(to), Exit: 3, Class: kernel.ExitFailure, Reason: "exit code 3",
		Place: kernel.Place{PID: 1, Host: "h"}}
}

func at(kind kernel.EventKind, attempt, generation int, after time.Duration) kernel.Event {
	return kernel.Event{Kind: kind, Job: "j", Attempt: attempt, Generation: generation, At: t0.Add(after), Reason: "why"}
}

// show returns the spans without what only tells more of them.
func show(spans []trace.Span) string {
	var out []string
	for _, s := range spans {
		text := fmt.Sprintf("%s %v-%v", s.Name, s.Start.Sub(t0), s.End.Sub(t0))
		if s.Failed {
			text += " failed: " + s.Message
		}
		for _, a := range s.Attributes {
			if a.Key == "cicd.pipeline.task.run.result" || a.Key == "cicd.pipeline.result" || a.Key == "vizier.generation" || a.Key == "vizier.attempt" {
				text += fmt.Sprint(" ", a.Value)
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestWhatAnEventEnds(t *testing.T) {
	s := time.Second
	for name, c := range map[string]struct {
		e    kernel.Event
		r    *kernel.Result
		want string
	}{
		"a success":             {at(kernel.JobSucceeded, 1, 0, 9*s), ended(1, kernel.OutcomeSucceeded, 2*s, 8*s), "build attempt 2s-8s 1; build 0s-8s success 0"},
		"one of two failures":   {at(kernel.JobFailedRetryable, 1, 0, 9*s), ended(1, kernel.OutcomeFailed, 2*s, 8*s), "build attempt 2s-8s failed: exit code 3 1"},
		"a failure":             {at(kernel.JobFailedFinal, 2, 0, 9*s), ended(2, kernel.OutcomeFailed, 2*s, 8*s), "build attempt 2s-8s failed: exit code 3 2; build 0s-8s failed: exit code 3 failure 0"},
		"a lost runner":         {at(kernel.JobFailedFinal, 1, 0, 9*s), &kernel.Result{}, "build attempt 9s-9s failed: why 1; build 0s-9s failed: why failure 0"},
		"a cancel, not started": {at(kernel.JobCancelled, 0, 0, 9*s), nil, "build 0s-9s cancellation 0"},
		"a cancel later":        {at(kernel.JobCancelled, 1, 0, 9*s), ended(1, kernel.OutcomeFailed, 2*s, 8*s), "build attempt 2s-8s failed: exit code 3 1; build 0s-9s cancellation 0"},
		"a block":               {at(kernel.JobBlocked, 0, 1, 9*s), nil, "build 0s-9s skip 1"},
		"a retry after it":      {at(kernel.JobRewound, 1, 1, 20*s), ended(1, kernel.OutcomeFailed, 2*s, 8*s), "build attempt 2s-8s failed: exit code 3 1; build 0s-8s failed: exit code 3 failure 0"},
		"a retry of none":       {at(kernel.JobRewound, 0, 1, 20*s), nil, ""},
		"a start":               {at(kernel.JobRunning, 1, 0, 9*s), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := show(trace.Job(job("", ""), c.e, c.r)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// Told at its end or when it is taken back, it is the same.
func TestWhatWasToldIsTheSame(t *testing.T) {
	j, r := job("r", ""), ended(1, kernel.OutcomeFailed, time.Second, 2*time.Second)
	first := trace.Job(j, at(kernel.JobFailedFinal, 1, 0, 3*time.Second), r)
	again := trace.Job(j, at(kernel.JobRewound, 1, 1, 9*time.Second), r)
	if !reflect.DeepEqual(first, again) {
		t.Errorf("\n got %+v\nwant %+v", again, first)
	}
}

func TestTheTreeOfSpans(t *testing.T) {
	end := at(kernel.JobSucceeded, 1, 0, time.Minute)
	r := ended(1, kernel.OutcomeSucceeded, 0, time.Second)
	for name, c := range map[string]struct{ run, parent string }{"alone": {"", ""}, "of a run": {"run_1", ""}, "of a submitter": {"", parent}, "of a submitter's run": {"run_1", parent}} {
		t.Run(name, func(t *testing.T) {
			from := trace.Parse(c.parent)
			j := job(kernel.RunID(c.run), c.parent)
			spans := trace.Job(j, end, r)
			attempt, own := spans[0], spans[1]
			top := own
			if c.run != "" {
				run := trace.Run(j, "draft x", kernel.Event{Kind: kernel.RunSucceeded, Run: kernel.RunID(c.run), At: t0.Add(time.Minute)})[0]
				if own.Parent != run.ID || run.Trace != own.Trace || show([]trace.Span{run}) != "draft x 0s-1m0s success" {
					t.Errorf("the run %+v, its job %+v", run, own)
				}
				top = run
			}
			if top.Parent != from.Span || attempt.Parent != own.ID || attempt.Trace != own.Trace {
				t.Errorf("top %+v, job %+v, attempt %+v", top, own, attempt)
			}
			if from != (trace.Context{}) && own.Trace != from.Trace {
				t.Errorf("trace %x, the submitter's is %x", own.Trace, from.Trace)
			}
			if told := trace.Of(j, 1, true); told.Span != attempt.ID || told.Trace != attempt.Trace || !told.Sampled {
				t.Errorf("the command was told %v, the span is %+v", told, attempt)
			}
			// What it submits is a part of it.
			child := job("", trace.Of(j, 1, true).String())
			if s := trace.Job(child, end, nil)[0]; s.Parent != attempt.ID || s.Trace != attempt.Trace {
				t.Errorf("what it submitted is %+v", s)
			}
			if got := trace.Of(j, 1, false).String(); got != c.parent {
				t.Errorf("without spans the command was told %q", got)
			}
		})
	}
}

// A trace that nobody wants to see has no spans, and goes on as such.
func TestATraceThatIsNotSampled(t *testing.T) {
	unsampled := strings.TrimSuffix(parent, "1") + "0"
	j := job("run_1", unsampled)
	if got := trace.Job(j, at(kernel.JobSucceeded, 0, 0, 0), nil); got != nil {
		t.Errorf("got %+v", got)
	}
	if got := trace.Run(j, "x", kernel.Event{Kind: kernel.RunSucceeded, Run: "run_1"}); got != nil {
		t.Errorf("got %+v", got)
	}
	if got := trace.Of(j, 1, true).String(); got != unsampled {
		t.Errorf("the command was told %q", got)
	}
}

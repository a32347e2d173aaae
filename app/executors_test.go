package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// other is an executor that knows one option.
type other struct{ *memory }

func (o other) Accepts(options []string) error {
	if len(options) == 0 || slices.Equal(options, []string{"queue=fast"}) {
		return nil
	}
	return kernel.ErrInvalid
}

// A task that its executor would not accept is refused before there is a job.
func TestWhatExecutorsAccept(t *testing.T) {
	m := newMemory()
	s := m.scheduler()
	s.Executors = map[string]Executor{"far": other{m}, "plain": m}
	for _, c := range []struct {
		on      string
		options []string
		want    string // a part of the error; "": there is none
	}{
		{"", nil, ""}, {"far", nil, ""}, {"plain", nil, ""}, {"local", nil, ""},
		{"gone", nil, "no executor named gone in the configuration, which has far, plain, local"},
		{"far", []string{"queue=fast"}, ""}, {"far", []string{"queue=slow"}, "invalid"},
		{"plain", []string{"queue=fast"}, "executor plain has no options: leave out queue=fast"},
		{"", []string{"queue=fast"}, "executor local has no options"},
	} {
		err := s.Accepts(kernel.Task{Executor: c.on, Options: c.options})
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q %v: %v, want %q", c.on, c.options, err, c.want)
		}
	}
}

// Each executor is asked about its own attempts, and starts and ends them. If an executor
// is no longer configured, its launches are refused for good and its runners are unknown.
func TestAttemptsAreTheirExecutors(t *testing.T) {
	on := func(name string, more func(*kernel.Job)) func(*kernel.Job) {
		return func(j *kernel.Job) {
			if j.Spec.Task.Executor = name; more != nil {
				more(j)
			}
		}
	}
	near := newMemory(job("a", on("far", running(1))), job("b", on("gone", running(1))), job("c", running(1)), job("d", on("far", nil)), job("e", on("gone", nil)))
	far := newMemory()
	far.alive = kernel.Dead
	s := near.scheduler()
	s.Executors = map[string]Executor{"far": far}
	if _, err := s.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(near.calls, "start d/1") || !slices.Contains(far.calls, "start d/1") || !slices.Contains(far.calls, "sweep a/1") || slices.Contains(near.calls, "sweep a/1") {
		t.Errorf("here %q, there %q", near.calls, far.calls)
	}
	if st := near.jobs["e"].State; st.Status != kernel.Failed || !strings.Contains(st.Reason, "no executor named gone") {
		t.Errorf("e is %+v", st)
	}
	for _, id := range []kernel.JobID{"b", "c"} {
		if st := near.jobs[id].State; st.Status != kernel.Running || st.Attempt != 1 {
			t.Errorf("%s is %+v", id, st)
		}
	}
	snap, err := s.Records(context.Background(), kernel.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	s.Executors["far"] = &keeper{memory: far}
	if s.WithRemarks(t.Context(), snap); s.Executors["far"].(*keeper).asked != 1 {
		t.Errorf("the other executor was asked %d times", s.Executors["far"].(*keeper).asked)
	}
	if f := s.WithRemarks(t.Context(), snap).Facts().Runners[kernel.AttemptID{Job: "b", N: 1}]; f.Known || !strings.Contains(f.Err, "gone") {
		t.Errorf("of b it is said %+v", f)
	}
}

// A job that ended after it was read is not reported as lost: a command that reads many
// jobs may take longer than a short job runs.
func TestAJobThatEndedSinceIsNotLost(t *testing.T) {
	m := newMemory(job("a", running(1)), job("b", running(1)))
	m.alive = kernel.Dead
	s := m.scheduler()
	snap, err := s.Snapshot(t.Context(), kernel.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	ended := m.jobs["a"]
	ended.State = kernel.State{Status: kernel.Succeeded, Attempt: 1}
	m.jobs["a"] = ended
	seen, lost := s.Lost(t.Context(), snap, false)
	if !slices.Equal(lost, []kernel.JobID{"b"}) || seen.Remark("a") != "" || seen.Remark("b") == "" {
		t.Errorf("lost are %q; it is said of a %q, of b %q", lost, seen.Remark("a"), seen.Remark("b"))
	}
}

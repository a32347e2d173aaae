package kernel_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The name of a prompt follows the status of its job, whatever led to that; a
// rewind takes the name back.
func TestTheNameOfAPromptFollowsItsJob(t *testing.T) {
	j := job("q", func(j *kernel.Job) {
		j.Spec.Prompt = &kernel.Prompt{Rel: "x.prompt.md", File: "/h/inbox/x.running.md", Inode: 1}
	})
	s := snapshot(facts(), j)
	tend := func(want kernel.PromptName) {
		t.Helper()
		p := kernel.Decide(s)
		got := actionsOf[kernel.TendPrompt](p)
		if len(got) != 1 || got[0].Name != want {
			t.Fatalf("%v, want %s", got, want)
		}
		if launches := actionsOf[kernel.Launch](p); len(launches) > 0 {
			for _, a := range p.Actions() { // jobs without their input must not start
				if _, first := a.(kernel.TendPrompt); first {
					break
				}
				if _, launch := a.(kernel.Launch); launch {
					t.Fatal("launched before the prompt was seen to")
				}
			}
		}
		s = s.Apply(p)
		if !s.Job("q").HoldsPrompt() {
			t.Error("the file is given up before it is named")
		}
		answer, err := kernel.Tended(s, got[0], true, want == kernel.ErrorPrompt)
		if err != nil {
			t.Fatal(err)
		}
		s = s.Apply(answer)
		if again := actionsOf[kernel.TendPrompt](kernel.Decide(s)); len(again) != 0 {
			t.Errorf("tended, and again %v", again)
		}
	}
	tend(kernel.RunningPrompt)
	a := s.Job("q").Attempt()
	p, err := kernel.Finish(s, kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure})
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	tend(kernel.ErrorPrompt)
	if s.Job("q").HoldsPrompt() {
		t.Error("it ended, and still holds its prompt")
	}
	if p, err = kernel.Retry(s, "q", "ann"); err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	tend(kernel.RunningPrompt)
	if p, err = kernel.Finish(s, kernel.Result{Attempt: s.Job("q").Attempt(), Outcome: kernel.OutcomeSucceeded}); err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	tend(kernel.DonePrompt)
}

// A prompt that is gone before anything has begun fails its whole run, and
// nothing is launched.
func TestWithoutItsPromptARunFails(t *testing.T) {
	run := func(j *kernel.Job) { j.Spec.Origin.Run = "r" }
	first := job("a", run)
	last := job("b", run, func(j *kernel.Job) {
		j.Spec.After, j.Spec.Prompt = []kernel.JobID{"a"}, &kernel.Prompt{Rel: "x.prompt.md", File: "/h/inbox/x.running.md"}
	})
	other := job("c")
	s := snapshot(facts(), first, last, other)
	s = s.Apply(kernel.Decide(s))
	launch := s.Job("a").Attempt()
	p, err := kernel.Tended(s, kernel.TendPrompt{Job: "b", Name: kernel.RunningPrompt}, false, false)
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	for _, id := range []kernel.JobID{"a", "b"} {
		if st := s.Job(id).State; st.Status != kernel.Failed || st.Failure != kernel.MissingInput || st.Reason == "" {
			t.Errorf("%s is %+v", id, st)
		}
	}
	if s.Job("a").Fence(launch) == nil {
		t.Error("the first job may still start")
	}
	if s.Job("c").State.Status == kernel.Failed {
		t.Error("a job of no run failed with it")
	}
	if again := actionsOf[kernel.TendPrompt](kernel.Decide(s)); len(again) != 0 {
		t.Errorf("%v", again)
	}
}

// Cancelling the job that stands for a prompt cancels its run.
func TestCancellingAPromptCancelsItsRun(t *testing.T) {
	run := func(j *kernel.Job) { j.Spec.Origin.Run = "r" }
	s := snapshot(facts(), job("a", run), job("b", run, func(j *kernel.Job) {
		j.Spec.After, j.Spec.Prompt = []kernel.JobID{"a"}, &kernel.Prompt{}
	}), job("c"))
	s = s.Apply(kernel.Decide(s))
	p, err := kernel.Cancel(s, "b", "ann", false)
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	if a, b, c := s.Job("a").State, s.Job("b").State, s.Job("c").State; a.Stop.At.IsZero() || b.Status != kernel.Cancelled || !c.Stop.At.IsZero() || c.Status == kernel.Cancelled {
		t.Errorf("%s %v, %s, %s", a.Status, a.Stop, b.Status, c.Status)
	}
}

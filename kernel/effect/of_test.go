package effect_test

import (
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

func TestEffectsOfAPlainCommandAreItsAttempt(t *testing.T) {
	at := kernel.State{Attempt: 2, Started: time.Unix(1, 0)}
	with := func(change func(*kernel.State)) kernel.State { st := at; change(&st); return st }
	for name, c := range map[string]struct {
		state kernel.State
		want  string // its state; "": no effect
	}{
		"never started": {kernel.State{}, ""},
		"refused":       {with(func(st *kernel.State) { st.Failure = kernel.LaunchFailure }), ""},
		"running":       {with(func(st *kernel.State) { st.Status = kernel.Running }), "intent"},
		"succeeded": {with(func(st *kernel.State) {
			st.Status, st.Exit, st.Outcome = kernel.Succeeded, kernel.Exited(0), kernel.OutcomeSucceeded
		}), "committed"},
		"failed": {with(func(st *kernel.State) {
			st.Status, st.Exit, st.Failure = kernel.Failed, kernel.Exited(3), kernel.ExitFailure
		}), "committed"},
		"lost": {with(func(st *kernel.State) {
			st.Status, st.Exit, st.Failure = kernel.Failed, kernel.Exited(1), kernel.WorkerLost
		}), "intent"},
	} {
		all := effect.Of(&kernel.Job{ID: "a", State: c.state}, nil)
		switch {
		case c.want == "" && len(all) == 0:
		case len(all) != 1 || all[0].State.String() != c.want || all[0].Attempt != 2:
			t.Errorf("%s: %+v, want %q", name, all, c.want)
		}
	}
}

func TestEffectsOfANodeAreThoseOfItsJournal(t *testing.T) {
	j := kernel.Job{ID: "a", Spec: kernel.Spec{Task: kernel.Task{Builtin: true}}, State: kernel.State{Status: kernel.Succeeded, Attempt: 1, Exit: kernel.Exited(0)}}
	journal := []effect.Record{{Key: "k", Attempt: 1, State: effect.Applied}}
	if all := effect.Of(&j, journal); len(all) != 1 || all[0].State != effect.Committed || journal[0].State != effect.Applied {
		t.Errorf("%+v of %+v", all, journal)
	}
	if all := effect.Of(&j, nil); len(all) != 0 {
		t.Errorf("%+v of an empty journal", all)
	}
}

// A message names the effect of its last trailer, whatever is before it.
func TestTheEffectThatAMessageNames(t *testing.T) {
	for message, want := range map[string]string{
		"": "", "subject\n\nbody\n": "", "subject\n\nVizier-Effect: a": "a", "subject\n\nVizier-Effect: a\r\nSigned-off-by: Ann\n": "a",
		"subject\n\nVizier-Effect: a\n\nVizier-Effect: b\n": "b", "subject\n\n\tVizier-Effect: a": "a", "subject\n\nNo Vizier-Effect: a\n": "",
	} {
		if got := effect.Named(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
		if got := effect.Named(effect.Without(message)); got != "" {
			t.Errorf("%q: %q is left", message, got)
		}
	}
	if got := effect.Without("a\n\n Vizier-Effect: x\nb\nVizier-Effect: y"); got != "a\n\nb\n" {
		t.Errorf("%q is left", got)
	}
}

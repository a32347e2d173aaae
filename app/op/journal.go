package op

import (
	"context"
	"errors"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/event"
)

// Effects is the journal of side effects: what an attempt is about to do, and
// its result.
type Effects interface {
	// Effect returns the record of a job's effect, or nil if there is none.
	Effect(job kernel.JobID, key string) (*effect.Record, error)

	// RecordEffect replaces the record durably, atomically with the check that
	// e's attempt is current. It fails with kernel.ErrStale if the attempt is
	// not.
	RecordEffect(ctx context.Context, e effect.Record) error
}

// Events is the log in which an attempt reports what it took over from an
// earlier one. No decision depends on it.
type Events interface{ AppendEvents([]kernel.Event) error }

// finder checks whether an earlier attempt made an effect. If so, it also
// returns the result of that effect.
type finder func(context.Context, *Env, *Node) (effect.Finding, Result, error)

// gatePart is the part that is the effect of a node's gate scripts; for a merge
// it is followed by the commit that they judge. The part of the operation
// itself is "".
const gatePart = "gate"

// once makes a side effect of n unless an earlier attempt did. Every operation
// with a side effect goes through it: the intent is on record before run is
// called, and the result after. The kernel judges the record that an earlier
// attempt left; look reports what can be observed (nil: nothing can).
func once(ctx context.Context, env *Env, n *Node, part string, look finder, run operation) (Result, error) {
	e := effect.Record{Key: effectKey(n, part), Operation: n.performs(), Part: part,
		Job: n.Job.ID, Generation: n.Job.State.Generation, Attempt: n.Job.State.Attempt, Round: effect.Round(&n.Job.State), Begun: env.Now().UTC()}
	old, err := env.Effects.Effect(e.Job, e.Key)
	if err != nil {
		return Result{}, &classed{kernel.DataError, err}
	}
	what, err := effect.Recover(&n.Job, old)
	if err != nil {
		return Result{}, err
	}
	if old != nil {
		e.Merge = old.Merge
	}
	if what == effect.CatchUp {
		caughtUp(env, n, part, fmt.Sprintf("attempt %d did, and its result is on record", old.Attempt))
		return resultOnRecord(old.Result), nil
	}
	if what == effect.Reconcile {
		var seen effect.Finding
		var made Result
		if look != nil {
			if seen, made, err = look(ctx, env, n); err != nil {
				return Result{}, fmt.Errorf("look for what an earlier attempt did: %w", err)
			}
		}
		switch effect.Resolve(&n.Job, old, seen) {
		case effect.CatchUp:
			err := applied(ctx, env, n, e, made)
			if err == nil {
				caughtUp(env, n, part, made.Reason)
			}
			return made, err
		case effect.StillInDoubt:
			return inDoubt(n, old), nil
		case effect.Execute, effect.Reconcile: // it is executed below
		}
	}
	if err := UntilRoom(ctx, func() error { return env.Effects.RecordEffect(ctx, e) }); err != nil {
		return Result{}, err
	}
	begun := *n
	begun.again = what == effect.Reconcile
	r, err := run(ctx, env, &begun)
	if ctx.Err() != nil || r.Class == kernel.EffectInDoubt {
		return r, err // it was cut off, or a part of it was: its progress is unknown
	}
	done := r
	if err != nil {
		done = failure(ctx, n, err)
		done.Merge = r.Merge
	}
	return r, errors.Join(err, applied(ctx, env, n, e, done))
}

// caughtUp reports that the effect of an earlier attempt is taken over and not
// made again, and how that is known.
func caughtUp(env *Env, n *Node, part, how string) {
	what := fmt.Sprintf("%s is not executed again: %s", n.named(part), how)
	fmt.Fprintln(env.Stderr, what)
	if env.Events != nil {
		_ = env.Events.AppendEvents([]kernel.Event{event.CaughtUp(&n.Job, env.Now(), what)}) // the error is ignored: the event is history, and the journal of effects says the same
	}
}

// applied records the result of e. It returns an error if the attempt is no longer
// current. A full disk is no error: the result goes to the runner, which waits
// until there is room.
func applied(ctx context.Context, env *Env, n *Node, e effect.Record, r Result) error {
	e.State = effect.Applied
	if r.Merge != (effect.Merge{}) { // else an earlier attempt may have merged
		e.Merge = r.Merge
	}
	e.Result = kernel.Result{Attempt: n.Job.Attempt(), Outcome: r.Outcome, Exit: r.Exit, Class: r.Class, Reason: r.Reason,
		Produced: r.Produced, Context: r.Context, Agent: env.told, Ended: env.Now().UTC()}
	err := env.Effects.RecordEffect(ctx, e)
	if err != nil && !errors.Is(err, kernel.ErrStale) {
		fmt.Fprintln(env.Stderr, "warning:", err)
		return nil
	}
	return err
}

// recordGateFailure records that n's operation succeeded but its gate did not, so that a
// retry executes the operation again.
func recordGateFailure(ctx context.Context, env *Env, n *Node, r Result) error {
	e, err := env.Effects.Effect(n.Job.ID, effectKey(n, ""))
	if err != nil || e == nil {
		return err
	}
	e.Attempt, e.Round = n.Job.State.Attempt, effect.Round(&n.Job.State)
	return applied(ctx, env, n, *e, r)
}

// resultOnRecord converts the result of an effect on record.
func resultOnRecord(r kernel.Result) Result {
	return Result{Outcome: r.Outcome, Exit: r.Exit, Class: r.Class, Reason: r.Reason, Produced: r.Produced, Context: r.Context, Agent: r.Agent}
}

// inDoubt returns the result of an attempt that must not repeat what e may have
// done.
func inDoubt(n *Node, e *effect.Record) Result {
	why := fmt.Sprintf("attempt %d was cut off in %s, and whether it was done cannot be told", e.Attempt, n.named(e.Part))
	if n.Job.Spec.InDoubtPolicy() != kernel.AskInDoubt {
		why += fmt.Sprintf(": see what it did, and `vizier retry %s` executes it again", n.Job.ID)
	}
	return Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.EffectInDoubt, Reason: why}
}

// performs returns the name of n's operation or control policy.
func (n *Node) performs() string {
	if n.Operation != "" {
		return n.Operation
	}
	return n.Control
}

// named returns the name of what n performs, or of a part of that.
func (n *Node) named(part string) string {
	if part != "" {
		return "the " + part + " of " + n.performs()
	}
	return n.performs()
}

// repeatable is the finder of operations that continue where an earlier attempt was
// cut off and have the same result, so that they can simply be executed again.
func repeatable(context.Context, *Env, *Node) (effect.Finding, Result, error) {
	return effect.NotMade, Result{}, nil
}

// commitMade is the finder of operations that commit: it looks for the commit
// with the trailer of n's effect.
func commitMade(ctx context.Context, env *Env, n *Node) (effect.Finding, Result, error) {
	if err := env.Git.DropStaleLocks(n.Dir, n.Job.State.Started); err != nil {
		return effect.Undecidable, Result{}, err
	}
	head, err := env.Git.HeadCommit(ctx, n.Dir)
	if err != nil {
		return effect.Undecidable, Result{}, err
	}
	id, err := committed(ctx, env, n, head, effectKey(n, ""))
	if err != nil || id == "" {
		return effect.NotMade, Result{}, err
	}
	return effect.Made, ok(fmt.Sprintf("commit %s of an earlier attempt stands", short(id))), nil
}

// promptMade is repeatable, unless a script makes the prompt.
func promptMade(_ context.Context, _ *Env, n *Node) (effect.Finding, Result, error) {
	if n.arg("command", "script") != "" {
		return effect.Undecidable, Result{}, nil
	}
	return effect.NotMade, Result{}, nil
}

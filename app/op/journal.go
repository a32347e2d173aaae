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
// what came of it.
type Effects interface {
	// Effect is what is on record of a job's effect; nil: nothing.
	Effect(job kernel.JobID, key string) (*effect.Record, error)

	// RecordEffect replaces that, durably, in one step with the check that e's
	// attempt is current: kernel.ErrStale if it is not.
	RecordEffect(ctx context.Context, e effect.Record) error
}

// Events is where an attempt tells of what it took over from an earlier one.
// Nothing depends on it.
type Events interface{ AppendEvents([]kernel.Event) error }

// finder looks whether an earlier attempt made an effect. The result is that of
// one it finds made.
type finder func(context.Context, *Env, *Node) (effect.Finding, Result, error)

// gatePart is the effect of the scripts of a node's gates, of a merge with the
// commit that they judge; the operation's own has no name.
const gatePart = "gate"

// once makes a side effect of n unless an earlier attempt did. Every operation
// with one goes through here: what run is about to do is on record before it
// does it, and what came of it after. The kernel judges what an earlier attempt
// left there; look says what the world shows of it, nil: nobody can tell.
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
	if what == effect.CatchUp {
		caughtUp(env, n, part, fmt.Sprintf("attempt %d did, and its result is on record", old.Attempt))
		return taken(old.Result), nil
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
	if err := env.Effects.RecordEffect(ctx, e); err != nil {
		return Result{}, err
	}
	r, err := run(ctx, env, n)
	if ctx.Err() != nil || r.Class == kernel.EffectInDoubt {
		return r, err // it was cut off, or a part of it was: how far it got is not known
	}
	done := r
	if err != nil {
		done = failure(ctx, n, err)
	}
	return r, errors.Join(err, applied(ctx, env, n, e, done))
}

// caughtUp tells that what an earlier attempt did is not done again, and how
// that is known.
func caughtUp(env *Env, n *Node, part, how string) {
	what := fmt.Sprintf("%s is not executed again: %s", n.named(part), how)
	fmt.Fprintln(env.Stderr, what)
	if env.Events != nil {
		_ = env.Events.AppendEvents([]kernel.Event{event.CaughtUp(&n.Job, env.Now(), what)}) // it is history: the journal of effects says the same
	}
}

// applied records what came of e. That the attempt is not current any more is
// an error. That there is no room is none: the result goes to the runner, which
// waits for room.
func applied(ctx context.Context, env *Env, n *Node, e effect.Record, r Result) error {
	e.State = effect.Applied
	e.Result = kernel.Result{Attempt: n.Job.Attempt(), Outcome: r.Outcome, Exit: r.Exit, Class: r.Class, Reason: r.Reason,
		Produced: r.Produced, Context: r.Context, Agent: env.told, Ended: env.Now().UTC()}
	err := env.Effects.RecordEffect(ctx, e)
	if err != nil && !errors.Is(err, kernel.ErrStale) {
		fmt.Fprintln(env.Stderr, "warning:", err)
		return nil
	}
	return err
}

// fell records that n's operation succeeded and its gate did not, so that a
// retry executes the operation again.
func fell(ctx context.Context, env *Env, n *Node, r Result) error {
	e, err := env.Effects.Effect(n.Job.ID, effectKey(n, ""))
	if err != nil || e == nil {
		return err
	}
	e.Attempt, e.Round = n.Job.State.Attempt, effect.Round(&n.Job.State)
	return applied(ctx, env, n, *e, r)
}

// taken is the result that an effect on record had.
func taken(r kernel.Result) Result {
	return Result{Outcome: r.Outcome, Exit: r.Exit, Class: r.Class, Reason: r.Reason, Produced: r.Produced, Context: r.Context, Agent: r.Agent}
}

// inDoubt is the end of an attempt that may not execute what e's may have done.
func inDoubt(n *Node, e *effect.Record) Result {
	why := fmt.Sprintf("attempt %d was cut off in %s, and whether it was done cannot be told", e.Attempt, n.named(e.Part))
	if n.Job.Spec.InDoubtPolicy() != kernel.AskInDoubt {
		why += fmt.Sprintf(": see what it did, and `vizier retry %s` executes it again", n.Job.ID)
	}
	return Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.EffectInDoubt, Reason: why}
}

// performs is the name of n's operation or control policy.
func (n *Node) performs() string {
	if n.Operation != "" {
		return n.Operation
	}
	return n.Control
}

// named is what n performs, or a part of that.
func (n *Node) named(part string) string {
	if part != "" {
		return "the " + part + " of " + n.performs()
	}
	return n.performs()
}

// goesOn is the finder of operations that, executed again, go on where an
// earlier attempt was cut off and come to the same.
func goesOn(context.Context, *Env, *Node) (effect.Finding, Result, error) {
	return effect.NotMade, Result{}, nil
}

// commitMade finds the commit that bears the trailer of n's effect.
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

// promptMade is goesOn, unless a script makes the prompt.
func promptMade(_ context.Context, _ *Env, n *Node) (effect.Finding, Result, error) {
	if n.arg("command", "script") != "" {
		return effect.Undecidable, Result{}, nil
	}
	return effect.NotMade, Result{}, nil
}

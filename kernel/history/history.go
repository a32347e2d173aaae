// Package history holds the account of a transaction, and decides the
// transaction again by it.
package history

import (
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Verb is one question to the kernel with its arguments, in the form in which
// it goes on record. The answer depends on the snapshot alone.
type Verb interface {
	Decide(*kernel.Snapshot) (kernel.Plan, error)

	// Scope returns the records that the verb needs besides those that every
	// tick needs.
	Scope() kernel.Scope
}

// Seen says which records a step was decided on.
type Seen uint8

// The values of Seen.
const (
	SeenNear Seen = iota // those near to what changed
	SeenOpen             // open jobs, and jobs that these refer to
	SeenAll              // every job
)

// Step is one verb of a transaction. It was decided on the snapshot that the
// steps before it led to.
type Step struct {
	Verb  Verb
	Facts kernel.Facts // only what differs from the facts of the steps before
	Seen  Seen
}

// Account is everything that a plan was decided on, besides the records.
type Account struct {
	At         time.Time // the moment of the transaction
	Limits     kernel.Limits
	Unjudged   []kernel.JobID          // jobs that changed after a tick last judged them
	Unreadable map[kernel.JobID]string // records that could not be read, and why
	Steps      []Step

	// ByFacts says that, of the jobs that wait for something that no job makes, only
	// those among Unjudged were judged. For the others, nothing had changed.
	ByFacts bool

	// Carried is how many of the plan's world actions were left over from
	// earlier transactions. They come first in the plan.
	Carried int
}

// Source reads records as they were before the transaction.
type Source func(kernel.Scope) (kernel.Records, error)

// Decide decides the transaction again. It fails with the error of read or of
// the first verb that refuses.
func (a Account) Decide(read Source) (kernel.Plan, error) {
	r := redecision{account: a, read: read}
	for _, step := range a.Steps {
		r.scope = both(r.scope, step.Verb.Scope())
	}
	r.near = append(EveryTick(a.At), Named(r.scope)...)
	if !a.ByFacts {
		r.near = append(r.near, kernel.Near{Kind: kernel.Outsiders})
	}
	for _, id := range a.Unjudged {
		r.near = append(r.near, kernel.Near{Kind: kernel.Itself, Job: id})
	}
	r.near = append(r.near, a.asked(r.scope)...)
	for _, step := range a.Steps {
		if err := r.do(step); err != nil {
			return kernel.Plan{}, err
		}
	}
	return r.plan, nil
}

// asked returns the records that a tick usually asks for after having seen
// those of scope. Loading them at once saves deciding twice.
func (a Account) asked(scope kernel.Scope) []kernel.Near {
	var near []kernel.Near
	for _, id := range scope.Jobs {
		near = append(near, kernel.Near{Kind: kernel.Dependents, Job: id}, kernel.Near{Kind: kernel.Consumers, Artifact: kernel.Artifact{Kind: kernel.CommandPatch, Name: string(id)}})
	}
	if a.Limits.MaxRunning > 0 {
		near = append(near, kernel.Near{Kind: kernel.Line, Key: kernel.LocalExecutor, Most: a.Limits.MaxRunning + 1 + len(scope.Jobs)})
	}
	return near
}

// redecision is the state of one call of Account.Decide.
type redecision struct {
	account Account
	read    Source
	scope   kernel.Scope
	near    []kernel.Near
	seen    Seen
	base    *kernel.Snapshot // before the transaction; nil: not loaded
	snap    *kernel.Snapshot // the snapshot that the steps so far lead to
	plan    kernel.Plan
}

// do decides step on the records that it was decided on. While the verb lacks
// records, do loads only those: all open ones could raise questions that the
// transaction did not observe.
func (r *redecision) do(step Step) error {
	if r.base == nil || step.Seen > r.seen {
		if err := r.load(max(step.Seen, r.seen)); err != nil {
			return err
		}
	}
	r.snap = r.snap.WithFacts(step.Facts)
	for {
		plan, err := step.Verb.Decide(r.snap)
		near, whole := r.snap.Lacks()
		switch {
		case whole:
			if err := r.load(SeenOpen); err != nil {
				return err
			}
			continue
		case len(near) > 0:
			rec, err := r.records(kernel.Scope{Near: near})
			if err != nil {
				return err
			}
			r.near = append(r.near, near...)
			r.base, r.snap = r.base.With(rec, near), r.snap.With(rec, near)
			continue
		case err != nil:
			return err
		}
		r.plan, r.snap = r.plan.Then(plan), r.snap.Apply(plan)
		return nil
	}
}

// load takes a new base snapshot of the records that seen names, and applies
// the plan of the steps so far to it.
func (r *redecision) load(seen Seen) error {
	scope := kernel.Scope{Near: r.near}
	if seen != SeenNear {
		scope = both(r.scope, Besides(r.near))
		scope.All = seen == SeenAll
	}
	rec, err := r.records(scope)
	if err != nil {
		return err
	}
	o := kernel.Observation{Now: r.account.At, Limits: r.account.Limits, Jobs: rec.Jobs, Archived: rec.Succeeded,
		Unreadable: rec.Unreadable, Last: rec.Last}
	if seen == SeenNear {
		o.Near, o.Dirty = r.near, r.account.Unjudged
	}
	facts := kernel.NewFacts()
	if r.snap != nil {
		facts = r.snap.Facts()
	}
	r.seen, r.base = seen, kernel.TakeSnapshot(o)
	r.snap = r.base.Apply(r.plan).WithFacts(facts)
	return nil
}

// records reads scope, leaving out the records that the account lists as
// unreadable.
func (r *redecision) records(scope kernel.Scope) (kernel.Records, error) {
	rec, err := r.read(scope)
	if bad := r.account.Unreadable; len(bad) > 0 {
		rec.Jobs = slices.DeleteFunc(rec.Jobs, func(j kernel.Job) bool { _, is := bad[j.ID]; return is })
		rec.Unreadable = bad
	}
	return rec, err
}

// News returns the facts of now that was does not have or has with another
// value. Facts that a runner lives are left out: no decision follows from them.
func News(was, now kernel.Facts) kernel.Facts {
	out := kernel.Facts{
		Present: differing(was.Present, now.Present, same),
		Markers: differing(was.Markers, now.Markers, func(a, b kernel.Fact[[]kernel.JobID]) bool {
			return a.Known == b.Known && a.Err == b.Err && slices.Equal(a.Value, b.Value)
		}),
		Heads:   differing(was.Heads, now.Heads, same),
		Runners: differing(was.Runners, now.Runners, same),
		Results: differing(was.Results, now.Results, same),
	}
	maps.DeleteFunc(out.Runners, func(_ kernel.AttemptID, f kernel.Fact[kernel.Runner]) bool {
		return !f.Value.Gone() && f.Value.Liveness != kernel.Stalled
	})
	if now.Head != was.Head {
		out.Head = now.Head
	}
	if now.Clean != was.Clean {
		out.Clean = now.Clean
	}
	if now.Merging != was.Merging {
		out.Merging = now.Merging
	}
	if now.Sandbox != was.Sandbox {
		out.Sandbox = now.Sandbox
	}
	return out
}

func same[V comparable](a, b kernel.Fact[V]) bool { return a == b }

// differing returns the facts of now that was does not have or has with another
// value.
func differing[K comparable, V any](was, now map[K]kernel.Fact[V], equal func(a, b kernel.Fact[V]) bool) map[K]kernel.Fact[V] {
	out := map[K]kernel.Fact[V]{}
	for k, f := range now {
		if g, ok := was[k]; !ok || !equal(f, g) {
			out[k] = f
		}
	}
	return out
}

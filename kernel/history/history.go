// Package history holds what a transaction puts on record so that it can be
// decided again, and decides it again.
package history

import (
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Verb is a question to the kernel with its arguments, as it is put on record.
// What it answers depends on the snapshot alone.
type Verb interface {
	Decide(*kernel.Snapshot) (kernel.Plan, error)

	// Scope is which records the verb needs besides those that every tick does.
	Scope() kernel.Scope
}

// Seen is which records a step was decided on.
type Seen uint8

// The kinds of Seen.
const (
	SeenNear Seen = iota // those near to what changed
	SeenOpen             // those that are open, and those that these refer to
	SeenAll              // every one
)

// Step is one verb of a transaction, decided on the snapshot that those before
// it led to.
type Step struct {
	Verb  Verb
	Facts kernel.Facts // that the steps before did not know, or knew otherwise
	Seen  Seen
}

// Account is what a plan was decided by, besides the records.
type Account struct {
	At         time.Time // the moment of the transaction
	Limits     kernel.Limits
	Unjudged   []kernel.JobID          // the jobs that changed since a tick judged them
	Unreadable map[kernel.JobID]string // the records that could not be read, and why
	Steps      []Step

	// ByFacts says that of the jobs which wait for something that no job makes only those
	// among Unjudged were judged: for the others nothing had changed.
	ByFacts bool

	// Carried is how many of the plan's first actions on the world earlier
	// transactions left to be done.
	Carried int
}

// Source brings records as they were before the transaction.
type Source func(kernel.Scope) (kernel.Records, error)

// Decide decides the account again. The error is the source's, or that of the
// first verb that refuses.
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

// EveryTick is what every tick looks at, besides what changed and what waits for
// something that no job makes.
func EveryTick(at time.Time) []kernel.Near {
	return []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due, At: at}}
}

// asked is what a tick after most verbs asks for once it has seen what they are about. To
// have it at once saves deciding twice.
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

// redecision is one Account.Decide under way.
type redecision struct {
	account Account
	read    Source
	scope   kernel.Scope
	near    []kernel.Near
	seen    Seen
	base    *kernel.Snapshot // before the transaction; nil: not loaded
	snap    *kernel.Snapshot // as the steps so far leave it
	plan    kernel.Plan
}

// mostRounds is how often a step may ask for more records before it gets all
// that are open.
const mostRounds = 24

func (r *redecision) do(step Step) error {
	if r.base == nil || step.Seen > r.seen {
		if err := r.load(max(step.Seen, r.seen)); err != nil {
			return err
		}
	}
	r.snap = r.snap.WithFacts(step.Facts)
	for round := 1; ; round++ {
		plan, err := step.Verb.Decide(r.snap)
		near, whole := r.snap.Lacks()
		switch {
		case whole || len(near) > 0 && round > mostRounds:
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

// load begins anew with what seen says, and goes on from where the steps so far
// have led.
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

// records are those of scope but for the ones that could not be read then.
func (r *redecision) records(scope kernel.Scope) (kernel.Records, error) {
	rec, err := r.read(scope)
	if bad := r.account.Unreadable; len(bad) > 0 {
		rec.Jobs = slices.DeleteFunc(rec.Jobs, func(j kernel.Job) bool { _, is := bad[j.ID]; return is })
		rec.Unreadable = bad
	}
	return rec, err
}

func both(a, b kernel.Scope) kernel.Scope {
	return kernel.Scope{All: a.All || b.All, Jobs: slices.Concat(a.Jobs, b.Jobs),
		Artifacts: slices.Concat(a.Artifacts, b.Artifacts), Keys: slices.Concat(a.Keys, b.Keys)}
}

// Named is scope as what it names.
func Named(scope kernel.Scope) []kernel.Near {
	var near []kernel.Near
	for _, id := range scope.Jobs {
		near = append(near, kernel.Near{Kind: kernel.Itself, Job: id})
	}
	for _, a := range scope.Artifacts {
		near = append(near, kernel.Near{Kind: kernel.Producers, Artifact: a})
	}
	for _, key := range scope.Keys {
		near = append(near, kernel.Near{Kind: kernel.Keyed, Key: key})
	}
	return near
}

// Besides is what near names that may not be open: to be read with all that is.
func Besides(near []kernel.Near) (scope kernel.Scope) {
	for _, n := range near {
		switch n.Kind {
		case kernel.Itself:
			scope.Jobs = append(scope.Jobs, n.Job)
		case kernel.Producers, kernel.RunProducers:
			scope.Artifacts = append(scope.Artifacts, n.Artifact)
		case kernel.Keyed:
			scope.Keys = append(scope.Keys, n.Key)
		default: // names open jobs alone
		}
	}
	return scope
}

// News is what now knows and was does not, or knows otherwise. That a runner
// lives is left out: nothing follows from it.
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

// differing are the facts of now that was does not have.
func differing[K comparable, V any](was, now map[K]kernel.Fact[V], equal func(a, b kernel.Fact[V]) bool) map[K]kernel.Fact[V] {
	out := map[K]kernel.Fact[V]{}
	for k, f := range now {
		if g, ok := was[k]; !ok || !equal(f, g) {
			out[k] = f
		}
	}
	return out
}

package app

import (
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// verb is a question to the kernel, as a use case asks it.
type verb struct {
	// decide returns the plan, and the verbs that go on record for it: decided
	// one after the other, they lead to the same plan.
	decide func(*kernel.Snapshot) (kernel.Plan, []history.Verb, error)

	also []kernel.Artifact // artifacts to observe besides those that gates read
}

// recorded returns v as a verb that goes on record as itself.
func recorded(v history.Verb) verb {
	return verb{decide: func(s *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		plan, err := v.Decide(s)
		return plan, []history.Verb{v}, err
	}, also: v.Scope().Artifacts}
}

// historian is a Tx that records what plans were decided on.
type historian interface {
	// Explain sets the account of the next commit.
	Explain(history.Account)
}

// condenser is a historian that has a smaller form of what goes on record.
type condenser interface {
	Condense(history.Verb) history.Verb
}

// reader is a Tx that knows which facts jobs read, and what they were judged by.
type reader interface {
	// JudgedBy passes kernel.Outside.JudgedBy of the next commit that a tick Judged.
	// The store forgets other facts.
	JudgedBy(map[kernel.Near]string)
}

// follow applies plan to the transaction's snapshot, and records what it was
// decided on.
func (t *transaction) follow(plan kernel.Plan, by ...history.Verb) {
	t.record(by)
	t.plan, t.snap = t.plan.Then(plan), t.snap.Apply(plan)
	if len(by) > 0 { // without a verb, facts that were observed belong to the next step
		t.known = t.snap.Facts()
	}
}

// followLast is follow for the last plan before a commit: nothing reads the snapshot
// that it leads to, so none is made, and the one that it was decided on makes room.
func (t *transaction) followLast(plan kernel.Plan, by []history.Verb) {
	t.record(by)
	before := t.plan
	t.plan, t.snap = kernel.Plan{}, t.base.WithFacts(t.snap.Facts())
	t.plan = before.Then(plan)
}

// record adds what the next plan was decided on to the account.
func (t *transaction) record(by []history.Verb) {
	seen := history.SeenNear
	switch {
	case t.snap.Narrow():
	case t.all:
		seen = history.SeenAll
	default:
		seen = history.SeenOpen
	}
	for _, v := range by {
		if c, can := t.tx.(condenser); can {
			v = c.Condense(v)
		}
		t.steps = append(t.steps, history.Step{Verb: v, Facts: history.News(t.known, t.snap.Facts()), Seen: seen})
		t.known = t.snap.Facts()
	}
}

// explain passes the account of the plan to the store.
func (t *transaction) explain() {
	a := history.Account{At: t.now, Limits: t.s.Limits, Unjudged: t.base.Unjudged(), Steps: t.steps, ByFacts: t.outside.Reads != nil, Carried: t.carried}
	for _, id := range t.base.UnreadableIDs() {
		if a.Unreadable == nil {
			a.Unreadable = map[kernel.JobID]string{}
		}
		a.Unreadable[id] = t.base.Unreadable(id)
	}
	t.account(a)
	if r, can := t.tx.(reader); can {
		r.JudgedBy(t.outside.JudgedBy(t.snap.Facts()))
	}
}

func (t *transaction) account(a history.Account) {
	if h, can := t.tx.(historian); can {
		h.Explain(a)
	}
}

package app

import (
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// verb is a question to the kernel.
type verb struct {
	// decide answers, and says what goes on record: the verbs that, one after the
	// other, lead to the same plan.
	decide func(*kernel.Snapshot) (kernel.Plan, []history.Verb, error)

	also []kernel.Artifact // that are looked for besides what gates read
}

// recorded is v as a verb.
func recorded(v history.Verb) verb {
	return verb{decide: func(s *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		plan, err := v.Decide(s)
		return plan, []history.Verb{v}, err
	}, also: v.Scope().Artifacts}
}

// historian is a Tx that keeps on record what plans were decided by.
type historian interface {
	// Explain says what the next commit was decided by.
	Explain(history.Account)
}

// reader is a Tx that knows which facts jobs read, and what they were judged by.
type reader interface {
	// JudgedBy is kernel.Outside.JudgedBy of the next commit that a tick Judged. Other
	// facts are forgotten.
	JudgedBy(map[kernel.Near]string)
}

// follow goes on from plan, and notes what it was decided by.
func (t *transaction) follow(plan kernel.Plan, by ...history.Verb) {
	seen := history.SeenNear
	switch {
	case t.snap.Narrow():
	case t.all:
		seen = history.SeenAll
	default:
		seen = history.SeenOpen
	}
	for _, v := range by {
		t.steps = append(t.steps, history.Step{Verb: v, Facts: history.News(t.known, t.snap.Facts()), Seen: seen})
		t.known = t.snap.Facts()
	}
	t.plan, t.snap = t.plan.Then(plan), t.snap.Apply(plan)
	if len(by) > 0 { // what was seen and led to nothing is told with what is decided next
		t.known = t.snap.Facts()
	}
}

// explain tells the store what the plan was decided by.
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

package sim

import (
	"reflect"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// Explain takes the account of the next commit.
func (t *tx) Explain(a history.Account) { t.account = a }

// decideAgain checks that the account of p leads to p when it is decided again.
func (t *tx) decideAgain(p kernel.Plan) {
	again, err := t.account.Decide(t.Load)
	if err != nil {
		t.n.w.fail("%s commits a plan whose verbs refuse when they are asked again: %v", t.n.name, err)
		return
	}
	if want, got := decided(p, t.account.Carried), decided(again, 0); !reflect.DeepEqual(want, got) {
		t.n.w.fail("%s commits %+v; decided again by %+v it is %+v", t.n.name, want, t.account, got)
	}
}

// decided returns the part of p that the kernel decides: without the creation of
// runs, events for hooks, sweeps, which are done before the commit, and actions that
// earlier transactions left to be done.
func decided(p kernel.Plan, carried int) (out kernel.Plan) {
	for _, a := range p.Records {
		switch a.(type) {
		case kernel.Announce, kernel.CreateRun:
		default:
			out.Records = append(out.Records, a)
		}
	}
	for _, a := range p.World[carried:] {
		if _, swept := a.(kernel.Sweep); !swept {
			out.World = append(out.World, a)
		}
	}
	return out
}

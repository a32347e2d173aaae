package kernel

import "testing"

// Each row of the table of gates says what clears its verdicts and what a
// person can do. Package proptest checks that jobs waiting for a gate which
// reads facts are woken.
func TestRowsOfGatesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range gates {
		if g.name == "" || seen[g.name] || g.check == nil || g.clears == nil || g.remedy == nil {
			t.Errorf("the row of gate %q lacks something, or is there twice", g.name)
		}
		seen[g.name] = true
		recorded := g.kind == OnApproval // what it reads goes on record, and decides nothing
		if (g.reads == nil) != (g.wakes == nil) != recorded || (g.reads == nil) != (g.has == nil) {
			t.Errorf("gate %q reads facts and nobody looks after them, or the other way about", g.name)
		}
		if !g.onWait.Waiting() || g.onBlocked.Active() && g.onBlocked != g.onWait {
			t.Errorf("gate %q leaves jobs %s and %s", g.name, g.onWait, g.onBlocked)
		}
	}
	for _, k := range waitKindNames.Values()[1:] {
		found := false
		for _, g := range gates {
			found = found || g.kind == k
		}
		if !found {
			t.Errorf("no gate makes a job wait for %s", k)
		}
	}
}

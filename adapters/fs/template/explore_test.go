package template_test

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

// No history of a shipped flow leaves it waiting for nothing, hides a failure,
// skips an approval round or uses an artifact that does not exist yet. Every
// node runs in some history.
func TestShippedFlowsHaveNoFaults(t *testing.T) {
	l := installed(t)
	for name, set := range inputs {
		_, jobs := run(t, l, name, set)
		x, err := foresight.Explore(jobs, foresight.MostStates, func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d nodes, %d states", name, len(jobs), x.States)
		if !x.Complete {
			t.Errorf("%s has more than %d states", name, foresight.MostStates)
		}
		for _, f := range x.Falls {
			t.Errorf("%s: %s", name, f.Scenario(jobs, func(id kernel.JobID) string { return strings.TrimPrefix(string(id), name+".") }))
		}
	}
}

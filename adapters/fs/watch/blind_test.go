package watch

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A watcher that reports nothing misses nothing if nothing is asked for. So a
// resident scheduler with nothing to look after can leave.
func TestABlindWatcher(t *testing.T) {
	w := &Watcher{}
	if fresh, complete := w.Watch(kernel.Probes{}); fresh || !complete {
		t.Errorf("of nothing: fresh %v, complete %v", fresh, complete)
	}
	if fresh, complete := w.Watch(kernel.Probes{Branches: []string{"main"}}); fresh || complete {
		t.Errorf("of a branch: fresh %v, complete %v", fresh, complete)
	}
}

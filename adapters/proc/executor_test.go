package proc

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestStartRunsTheCommandAndRecordsItsEnd(t *testing.T) {
	w := setup(t, "sh", "-c", "echo out; echo err >&2; exit 3")
	a := w.launch()
	wantResult(t, w.outcome(a), kernel.OutcomeFailed, 3, kernel.ExitFailure, "exit code 3")
	w.eventually("dead", func() bool { return w.liveness(a) == kernel.Dead })
	if w.log("stdout") != "out\n" || w.log("stderr") != "err\n" {
		t.Fatalf("logs %q and %q", w.log("stdout"), w.log("stderr"))
	}
}

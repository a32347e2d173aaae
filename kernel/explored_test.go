package kernel_test

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

// The history of a fault is a scenario that, when played, leads to the fault.
func TestExploredHistoriesArePlayed(t *testing.T) {
	branch := "plan_branch:foo(draft/foo)"
	for name, c := range map[string]struct {
		jobs []string
		want string // a line of the last answer
	}{
		"left open":    {[]string{"a on=failed:m", "b after=m", "m routed"}, "b: waiting_on_deps (dependencies: waiting on job m)"},
		"of a failure": {[]string{"a produces=custom:t:m produces_failed=custom:t:m", "b needs=custom:t:m"}, "b: running -> succeeded exit=0"},
		"silent":       {[]string{"a", "b after=a after_any=a"}, "b: running -> succeeded exit=0"},
		"passed round": {[]string{"a approval retries=1 retry_on=timeout", "b after=a after_any=a on=failed:a:2"}, "b: waiting_on_deps -> running attempt=1"},
		"too early":    {[]string{"a produces=" + branch, "b needs=" + branch}, "b: queued -> running attempt=1"},
	} {
		w := newStage(t)
		var jobs []kernel.NewJob
		for _, line := range c.jobs {
			n := w.spec(line)
			n.Spec.Origin.Run = "run_x"
			jobs = append(jobs, n)
		}
		x, err := foresight.Explore(jobs, foresight.MostStates, func() bool { return false })
		if err != nil || len(x.Falls) == 0 {
			t.Fatalf("%s: %v, %d faults", name, err, len(x.Falls))
		}
		played := play(t, x.Falls[0].Scenario(jobs, func(id kernel.JobID) string { return string(id) }))
		if !strings.Contains(played, c.want) || strings.Contains(played, "error") {
			t.Errorf("%s: no line %q in\n%s", name, c.want, played)
		}
	}
}

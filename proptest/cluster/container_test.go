package cluster

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/podmantest"
)

// Jobs in containers run on nodes, by themselves and packed, and end there as they do here: none
// is left after a cancel, nor after their runner was killed with all that the cluster knows of.
func TestContainersOnNodes(t *testing.T) {
	podmantest.Setup(t)
	for _, executor := range []string{"lab", "packed"} {
		t.Run(executor, func(t *testing.T) {
			r := newRepo(t)
			submit := func(script string) string { return r.submit(executor, script, "--container", podmantest.Image) }
			none := func() string {
				if left := podmantest.Containers(t); left != "" {
					return "left: " + left
				}
				return ""
			}
			one := func() string {
				if len(strings.Fields(podmantest.Containers(t))) != 1 {
					return "no container runs"
				}
				return ""
			}
			if job := r.becomes(submit("cat /inside; pwd; exit 5"), "failed"); job["exit_code"] != "5" {
				t.Error(job)
			}
			if out := r.v("tail", "@last", "--stream", "stdout"); strings.TrimSpace(out) != r.dir {
				t.Errorf("it printed %q", out)
			}
			cancelled := submit("trap '' TERM; while :; do sleep 1; done")
			r.eventually(one)
			r.v("cancel", cancelled)
			r.becomes(cancelled, "cancelled")
			r.eventually(none)

			lost := submit("exec sleep 600")
			r.eventually(one)
			number := r.sh(`sed 's/.*"job":"\([0-9]*\)".*/\1/' .vizier/jobs/` + lost + `/attempts/1.order.json`)
			if executor == "packed" {
				number = r.pilots("running")[0]
			}
			r.killBatchJob(number)
			if job := r.becomes(lost, "failed"); job["failure_class"] != "worker_lost" {
				t.Error(job)
			}
			r.eventually(none)
		})
	}
}

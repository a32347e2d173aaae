package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/podmantest"
)

// Jobs in containers run on nodes, by themselves and packed, and on hosts by ssh, and end there as they do here. No
// container is left after a cancel, or after the runner and everything the cluster knows of was killed.
func TestContainersOnNodes(t *testing.T) {
	t.Parallel()
	podmantest.Setup(t, func(name, value string) { // not t.Setenv, which parallel tests cannot use
		if err := os.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Unsetenv(name) })
	})
	for _, executor := range []string{"lab", "packed", "boxes"} {
		t.Run(executor, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			if executor == "boxes" { // ssh does not pass on this test's environment
				needsHosts(t)
				r.write("there", fmt.Sprintf("#!/bin/sh\nexport CONTAINERS_CONF=%s CONTAINERS_STORAGE_CONF=%s\nexec %s \"$@\"\n", os.Getenv("CONTAINERS_CONF"), os.Getenv("CONTAINERS_STORAGE_CONF"), bin))
				r.sh("chmod +x there")
				r.write(".vizier/config.toml", fmt.Sprintf("[executors.boxes]\nkind = \"ssh\"\nhosts = [\"a\"]\nssh = [\"ssh\", \"-F\", \"%s/config\"]\nprogram = \"%s/there\"\npoll = \"500ms\"\nlease = \"5s\"\ntimeout = \"40s\"\n", server.dir, r.dir)+general)
			}
			submit := func(script string) string { return r.submit(executor, script, "--container", podmantest.Image) }
			none := func(job string) func() string {
				return func() string {
					if left := podmantest.Containers(t); strings.Contains(left, job) {
						return "left: " + left
					}
					return ""
				}
			}
			one := func(job string) func() string {
				return func() string {
					if !strings.Contains(podmantest.Containers(t), job) {
						return "no container runs"
					}
					return ""
				}
			}
			if job := r.becomes(submit("cat /inside; pwd; exit 5"), "failed"); job["exit_code"] != "5" {
				t.Error(job)
			}
			if out := r.v("tail", "@last", "--stream", "stdout"); strings.TrimSpace(out) != r.dir {
				t.Errorf("it printed %q", out)
			}
			cancelled := submit("trap '' TERM; while :; do sleep 1; done")
			r.eventually(one(cancelled))
			r.v("cancel", cancelled)
			r.becomes(cancelled, "cancelled")
			r.eventually(none(cancelled))

			lost := submit("exec sleep 600")
			r.eventually(one(lost))
			switch executor {
			case "lab":
				r.killBatchJob(r.sh(`sed 's/.*"job":"\([0-9]*\)".*/\1/' .vizier/jobs/` + lost + `/attempts/1.order.json`))
			case "packed":
				r.killBatchJob(r.pilots("running")[0])
			default:
				r.sh(`kill -9 $(sed 's/.*"pid":\([0-9]*\).*/\1/' .vizier/jobs/cluster/boxes.hosts/*/*-` + lost + `-1.json)`)
			}
			if job := r.becomes(lost, "failed"); job["failure_class"] != "worker_lost" {
				t.Error(job)
			}
			r.eventually(none(lost))
		})
	}
}

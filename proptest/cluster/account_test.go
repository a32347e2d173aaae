package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// accounts is a sacct that gives the same figures for every job, and notes what it is asked about.
const accounts = `#!/bin/sh
while [ "$1" != -j ]; do shift; done
echo "$2" >>"$0.asked"
for id in $(echo "$2" | tr , ' '); do
	echo "$id|$(squeue -h -t all -j "$id" -o %j)|FAILED||00:03.000||n1"
	echo "$id.batch|batch|CANCELLED|5|00:01.500|67108864|n1"
	echo "$id.0|srun|COMPLETED|2|00:01.500|33554432|n1"
done
`

// If the runner, which measures an attempt, was killed with it, the attempt has the figures of Slurm's
// accounts. Otherwise it has its runner's, and the accounts are not asked about it.
func TestAccountsOfAKilledRunner(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sacct"), []byte(accounts), 0o755); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "PATH="+dir+":"+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	r.becomes(r.submit("lab", "exit 3"), "failed")
	id := r.submit("lab", "kill -9 $PPID; sleep 100")
	if job := r.becomes(id, "failed"); job["failure_class"] != "worker_lost" {
		t.Errorf("%v", job)
	}
	if got := r.v("show", id, "--fields", "attempts,cpu,memory"); !strings.Contains(got, ", CPU 3.0s, memory 64M") ||
		!strings.Contains(got, "CPU time:    3.0s") || !strings.Contains(got, "Peak memory: 64M") {
		t.Errorf("show says\n%s", got)
	}
	var doc struct {
		Attempts []struct {
			CPUSeconds float64 `json:"cpu_seconds"`
			PeakMemory int64   `json:"peak_memory_bytes"`
		}
	}
	out := r.v("show", id, "--raw", "--format", "json")
	if err := json.Unmarshal([]byte(out), &struct{ Job any }{&doc}); err != nil || len(doc.Attempts) != 1 || doc.Attempts[0].CPUSeconds != 3 || doc.Attempts[0].PeakMemory != 64<<20 {
		t.Errorf("%+v, %v\n%s", doc, err, out)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "sacct.asked"))
	about := slices.Compact(strings.Split(strings.TrimSpace(string(asked)), "\n")) // several processes may ask at the same moment
	if err != nil || len(about) != 1 || strings.Contains(about[0], ",") {
		t.Errorf("sacct was asked about %q, %v", about, err)
	}
}

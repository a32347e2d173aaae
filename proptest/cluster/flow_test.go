package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The main job with its agents on the cluster: a specification becomes a plan,
// a change and a commit on main.
func TestStagesWithTheirAgentsOnTheCluster(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.v("init")
	r.write(".vizier/config.toml", config+"executor = \"lab\"\n\n[agents.default]\nagent = \"builtin\"\n")
	r.write(".vizier/prompts/DRAFT_PROMPTS.md", "1. Write greet.sh.\n")
	r.write(".vizier/prompts/APPROVE_PROMPTS.md", "Implement the plan.\n```sh\necho 'echo hello' >greet.sh\necho \"$SLURMD_NODENAME $SLURM_JOB_NAME\" >where\n```\n")
	r.write("ci.sh", "#!/bin/sh\nsh greet.sh | grep -q hello\n")
	r.sh("chmod +x ci.sh && echo effects/ >>.gitignore && git add -A && git commit -q -m 'use vizier'")
	r.v("run", "merge", "--name", "greet", "--target", "main", "--cicd-script", "./ci.sh")
	r.v("run", "approve", "--name", "greet")
	r.write("effects/SPEC.md", "Write a greeting.\n")
	r.v("run", "draft", "--file", "effects/SPEC.md", "--name", "greet")
	r.eventually(func() string {
		for _, j := range parseList(t, r.v("jobs", "list", "--all", "--format", "json")) {
			switch j["status"] {
			case "waiting_on_approval":
				r.v("jobs", "approve", j["job"])
				return "approved one"
			case "failed", "blocked_by_dependency":
				t.Fatal(j, r.files(j["job"]))
			}
		}
		if r.sh("git show main:greet.sh 2>/dev/null || true") != "echo hello" {
			return "no greet.sh on main:\n" + r.v("jobs", "list")
		}
		return ""
	})
	where := r.sh("git show main:where")
	if !strings.HasPrefix(where, "n") || !strings.Contains(where, "vizier-") {
		t.Errorf("the agent ran at %q", where)
	}
	orders, _ := filepath.Glob(filepath.Join(r.dir, ".vizier/jobs/*/attempts/*.order.json"))
	t.Logf("%d attempts ran on the cluster", len(orders))
	if len(orders) < 2 {
		t.Errorf("only %d attempts were given to the cluster", len(orders))
	}
}

// A graph of jobs over the cluster, with locks and with leases, and this machine.
// Each job runs once, on its executor, and after its predecessors. The cluster
// chooses the nodes.
func TestAGraphOverAllExecutors(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	const seed = 7
	jobs := 60
	if long {
		jobs = 200
	}
	random := rand.New(rand.NewPCG(seed, 1))
	var lines strings.Builder
	after, wheres := make([][]int, jobs), make([]string, jobs)
	for i := range jobs {
		for range random.IntN(3) {
			if k := random.IntN(max(i, 1)); k < i && !slices.Contains(after[i], k) {
				after[i] = append(after[i], k)
			}
		}
		var refs []string
		for _, k := range after[i] {
			refs = append(refs, fmt.Sprintf("%q", fmt.Sprint("g", k)))
		}
		where := []string{"lab", "lab", "leases", "local"}[random.IntN(4)]
		wheres[i] = where
		// Each job checks that its predecessors have ended, and says on which node it runs.
		script := ""
		for _, k := range after[i] {
			script += fmt.Sprintf("grep -q end $VIZIER_ROOT/effects/g%d || exit 9; ", k)
		}
		script += fmt.Sprintf(`echo "${SLURMD_NODENAME:-here}" >$VIZIER_ROOT/node%d; `, i) + effect(fmt.Sprint("g", i), "")
		fmt.Fprintf(&lines, "{\"ref\": \"g%d\", \"executor\": %q, \"after\": [%s], \"command\": [\"sh\", \"-c\", %q]}\n", i, where, strings.Join(refs, ", "), script)
	}
	if _, errs, err := r.try(lines.String(), "jobs", "submit", "--batch"); err != nil {
		t.Fatal(err, errs)
	}
	r.eventually(func() string {
		counts := map[string]int{}
		for _, j := range parseList(t, r.v("jobs", "list", "--all", "--format", "json", "--fields", "job,status")) {
			counts[j["status"]]++
			if j["status"] == "failed" {
				t.Fatal(r.job(j["job"]), r.files(j["job"]))
			}
		}
		if counts["succeeded"] != jobs {
			return fmt.Sprint(counts)
		}
		return ""
	})
	for i := range jobs {
		r.happened(fmt.Sprint("g", i))
		node := strings.TrimSpace(r.read(fmt.Sprint("node", i)))
		if local := wheres[i] == "local"; local != (node == "here") || !local && !slices.Contains([]string{"n1", "n2", "n3"}, node) {
			t.Errorf("a job for %s ran on %q", wheres[i], node)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(r.dir, "effects")); len(left) != jobs {
		t.Errorf("%d effects", len(left))
	}
}

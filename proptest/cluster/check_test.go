package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster/slurm"
)

// checked returns what Check finds wrong with the cluster after change.
func checked(t *testing.T, change func(*cluster.Cluster)) string {
	t.Helper()
	r := newRepo(t)
	e, _ := r.executor("lab")
	c := e.(*cluster.Cluster)
	r.sh("mkdir .vizier/jobs")
	change(c)
	var found []string
	for _, f := range c.Check(context.Background()) {
		if f.Next == "" {
			t.Errorf("no next step: %+v", f)
		}
		found = append(found, f.Problem)
	}
	return strings.Join(found, "; ")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if got := checked(t, func(*cluster.Cluster) {}); got != "" {
		t.Errorf("a cluster that is well: %s", got)
	}
	for want, change := range map[string]func(*cluster.Cluster){
		"would be refused: cluster lab: sbatch": func(c *cluster.Cluster) { c.Engine = slurm.Settings{Partition: "moon", Dir: c.Root} },
		"without having seen":                   func(c *cluster.Cluster) { c.Settings.Program = "/no/such/vizier" },
	} {
		if got := checked(t, change); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	t.Run("locks", func(t *testing.T) { // of this host do not hold on the node
		fake := filepath.Join(t.TempDir(), "vizier")
		script := "#!/bin/sh\necho '{\"host\": \"far\", \"now\": \"2001-01-01T00:00:00Z\"}' >$2/seen.new && touch -d '90 seconds ago' $2/seen.new && mv $2/seen.new $2/seen\n"
		if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		got := checked(t, func(c *cluster.Cluster) { c.Settings.Program = fake })
		if !strings.Contains(got, "the clock of node far is ") || !strings.Contains(got, "a lock of this host's does not hold on node far") ||
			!strings.Contains(got, "what node far writes is seen here 1m") {
			t.Error(got)
		}
	})
}

// A check without a controller, or without Slurm's tools. These tests change the environment of the
// process, so they are not parallel.
func TestCheckWithout(t *testing.T) {
	t.Run("controller", func(t *testing.T) {
		atLength(t)
		conf, err := os.ReadFile(os.Getenv("SLURM_CONF"))
		if err != nil {
			t.Fatal(err)
		}
		other := filepath.Join(t.TempDir(), "slurm.conf")
		lines := strings.Split(string(conf), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "SlurmctldPort=") {
				lines[i] = "SlurmctldPort=1"
			}
		}
		if err := os.WriteFile(other, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("SLURM_CONF", other)
		if got := checked(t, func(*cluster.Cluster) {}); !strings.Contains(got, "it cannot be asked") {
			t.Error(got)
		}
	})
	t.Run("tools", func(t *testing.T) {
		git, err := exec.LookPath("git")
		if err != nil {
			t.Fatal(err)
		}
		r := newRepo(t)
		e, _ := r.executor("lab")
		t.Setenv("PATH", filepath.Dir(git)+"-none")
		got := e.(*cluster.Cluster).Check(context.Background())
		if len(got) != 1 || got[0].Problem != "sbatch is not on PATH here" {
			t.Error(got)
		}
	})
}

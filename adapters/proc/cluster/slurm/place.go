package slurm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
)

// Place is the batch job that a process on a node is in.
type Place struct{}

// Job implements cluster.Place.
func (Place) Job() (name, id string, known bool) {
	return os.Getenv("SLURM_JOB_NAME"), os.Getenv("SLURM_JOB_ID"), true
}

// Cores implements cluster.Place.
func (Place) Cores() int {
	for _, name := range []string{"SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// Stands implements cluster.Place. A preempted job still runs until its grace time is over,
// so only its preemption time tells that it is preempted.
func (Place) Stands(ctx context.Context) (state cluster.State, left time.Duration, err error) {
	const patience = 5 * time.Second
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	cmd := exec.CommandContext(ctx, "squeue", "-h", "-j", os.Getenv("SLURM_JOB_ID"), "-O", "State:24,PreemptTime:24,TimeLeft:24")
	cmd.Env, cmd.WaitDelay = clientEnv(os.Environ()), time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", 0, err
	}
	return stands(string(out))
}

// stands parses the output of squeue: a state, when the job was preempted, and how long
// it may still run.
func stands(out string) (state cluster.State, left time.Duration, err error) {
	f := strings.Fields(out)
	if len(f) < 3 {
		return "", 0, fmt.Errorf("squeue says %q", out)
	}
	if state = stateOf(f[0], ""); f[1] != "N/A" || state == cluster.Preempted {
		return cluster.Preempted, 0, nil
	}
	if f[0] != "RUNNING" {
		return "", 0, nil // it ends, and COMPLETING does not say how
	}
	if f[2] == "UNLIMITED" {
		return cluster.Running, cluster.Endless, nil
	}
	left, ok := duration(f[2])
	if !ok {
		return "", 0, fmt.Errorf("squeue says %q", out)
	}
	return cluster.Running, left, nil
}

// duration reads [D-]HH:MM:SS and shorter forms, as squeue writes them.
func duration(text string) (time.Duration, bool) {
	days, clock, ok := strings.Cut(text, "-")
	if !ok {
		days, clock = "0", text
	}
	sum, err := strconv.Atoi(days)
	if err != nil {
		return 0, false
	}
	for i, part := range append([]string{"0", "0"}, strings.Split(clock, ":")...)[strings.Count(clock, ":"):] {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return 0, false
		}
		if i == 0 {
			sum = sum*24 + n
		} else {
			sum = sum*60 + n
		}
	}
	return time.Duration(sum) * time.Second, true
}

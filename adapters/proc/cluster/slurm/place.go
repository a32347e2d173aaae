package slurm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
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

// Left implements cluster.Place.
func (Place) Left(ctx context.Context) (left time.Duration, running bool, err error) {
	const patience = 5 * time.Second
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	cmd := exec.CommandContext(ctx, "squeue", "-h", "-j", os.Getenv("SLURM_JOB_ID"), "-o", "%T %L")
	cmd.Env, cmd.WaitDelay = clientEnv(os.Environ()), time.Second
	out, err := cmd.Output()
	if err != nil {
		return 0, false, err
	}
	state, text, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	left, ok := duration(text)
	running = state == "RUNNING"
	if state == "" || running && !ok {
		return 0, running, fmt.Errorf("squeue says %q", out)
	}
	return left, running, nil
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

// Package slurm runs jobs on a Slurm cluster by its client programs. Their text formats
// are stable over its versions; their JSON is not.
package slurm

import (
	"context"
	"errors"
	"os/exec"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Kind is what the configuration calls this engine.
const Kind = "slurm"

// Settings are the engine, with a site's options for every job. The zero value of each
// leaves it to the cluster.
type Settings struct {
	Partition, Account, QOS, Time, Memory, Gres string
	CPUs                                        int
	Options                                     []string // further ones: KEY=VALUE as a job has them, or sbatch's own, --NAME or --NAME=VALUE

	Dir string // where its client programs run; absolute
}

// Accepts implements cluster.Engine.
func (s Settings) Accepts(options []string) error {
	_, err := s.with(options)
	return err
}

// Missing implements cluster.Engine.
func (Settings) Missing() *cluster.Finding {
	for _, name := range []string{"sbatch", "squeue", "scancel"} {
		if _, err := exec.LookPath(name); err != nil {
			return &cluster.Finding{Problem: name + " is not on PATH here", Next: "install Slurm's client programs on this host, or put them on PATH"}
		}
	}
	return nil
}

// Mend implements cluster.Engine.
func (Settings) Mend(cluster.Question) string {
	return "see that slurmctld runs (`scontrol ping`), and that this host has its slurm.conf or SLURM_CONF names it"
}

// Rehearse asks the cluster whether it would take a job.
func (s Settings) Rehearse(ctx context.Context) error {
	own, err := s.with(nil)
	if err == nil {
		_, err = s.call(ctx, "#!/bin/sh\n", append([]string{"sbatch", "--test-only"}, own...)...)
	}
	return err
}

// Submit implements cluster.Engine. The job gets SIGTERM half a minute before its time is over.
func (s Settings) Submit(ctx context.Context, r cluster.Request) (string, error) {
	own, err := s.with(r.Options)
	if err != nil {
		return "", &cluster.Refusal{Kind: cluster.Never, Said: kernel.Said(err)}
	}
	log := strings.ReplaceAll(r.Log, "%", "%%") // it is a pattern to sbatch
	args := []string{"sbatch", "--parsable", "--no-requeue", "--job-name=" + r.Name, "--chdir=" + r.Dir, "--signal=B:TERM@30", "--output=" + log, "--open-mode=append"}
	out, err := s.call(ctx, "#!/bin/sh\nexec "+cluster.Quote(r.Argv)+"\n", append(args, own...)...)
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";")
	if id == "" {
		return "", errors.New("sbatch printed no number")
	}
	return id, nil
}

// List implements cluster.Engine.
func (s Settings) List(ctx context.Context, prefix string) ([]cluster.Job, error) {
	out, err := s.call(ctx, "", "squeue", "--me", "-h", "-t", "all", "-o", "%i|%T|%r|%N|%j")
	if refused, is := errors.AsType[*cluster.Refusal](err); is { // List never returns a refusal: the cluster could not be asked
		return nil, errors.New("squeue: " + refused.Said)
	}
	return parseJobs(out, prefix), err
}

// Cancel implements cluster.Engine.
func (s Settings) Cancel(ctx context.Context, jobs []cluster.Job) error {
	return s.scancel(ctx, jobs)
}

// Nudge makes the runners of jobs look at the record.
func (s Settings) Nudge(ctx context.Context, jobs []cluster.Job) error {
	return s.scancel(ctx, jobs, "--batch", "--signal=USR1")
}

func (s Settings) scancel(ctx context.Context, jobs []cluster.Job, how ...string) error {
	argv := append([]string{"scancel", "--quiet"}, how...)
	for _, j := range jobs {
		argv = append(argv, j.ID)
	}
	_, err := s.call(ctx, "", argv...)
	return err
}

// parseJobs parses the output of squeue.
func parseJobs(out, prefix string) (jobs []cluster.Job) {
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "|", 5)
		if len(f) < 5 || !strings.HasPrefix(f[4], prefix) {
			continue
		}
		jobs = append(jobs, cluster.Job{ID: f[0], Name: strings.TrimSpace(f[4]), State: stateOf(f[1], f[2]), Word: f[1], Reason: f[2], Node: strings.TrimSpace(f[3])})
	}
	return jobs
}

// stateOf returns the state for Slurm's word and reason.
func stateOf(word, reason string) cluster.State {
	switch word {
	case "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "CONFIGURING":
		if stuck(reason) {
			return cluster.Stuck
		}
		return cluster.Pending
	case "COMPLETED":
		return cluster.Succeeded
	case "FAILED":
		return cluster.Failed
	case "CANCELLED":
		return cluster.Cancelled
	case "TIMEOUT", "DEADLINE":
		return cluster.Timeout
	case "OUT_OF_MEMORY":
		return cluster.OutOfMemory
	case "PREEMPTED":
		return cluster.Preempted
	case "BOOT_FAIL", "NODE_FAIL", "REVOKED":
		return cluster.Lost
	default:
		return cluster.Running
	}
}

// stuck reports that Slurm will not begin with a job that waits for this reason unless
// somebody changes the job or the cluster.
func stuck(reason string) bool {
	switch reason {
	case "PartitionConfig", "BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown", "PartitionInactive", "InvalidAccount", "InvalidQOS",
		"AccountNotAllowed", "QOSNotAllowed", "DependencyNeverSatisfied", "ReservationDeleted", "ReservationInvalid", "JobHeldUser", "JobHeldAdmin":
		return true
	}
	return false
}

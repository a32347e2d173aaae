package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// errAway is a controller that cannot be asked.
var errAway = errors.New("its controller cannot be asked")

// recess is how long nothing is asked after a question that went unanswered:
// each one costs its deadline, and people may wait.
const recess = 5 * time.Second

// away reports that the controller did not answer a moment ago, whoever asked,
// and what was said instead.
func (c *Cluster) away() (reason string, away bool) {
	b, err := sys.ReadRegular(c.awayFile(), maxOrder)
	if err != nil {
		return "", false
	}
	at, reason, _ := strings.Cut(string(b), " ")
	since, err := time.Parse(time.RFC3339Nano, at)
	passed := time.Since(since)
	return reason, err == nil && passed >= 0 && passed < recess
}

// gone notes that the controller did not answer.
func (c *Cluster) gone(reason string) {
	_ = os.WriteFile(c.awayFile(), []byte(time.Now().Format(time.RFC3339Nano)+" "+reason), 0o600)
}

func (c *Cluster) awayFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".away") }

// call runs a client program within a deadline of its own.
func (c *Cluster) call(ctx context.Context, stdin, name string, args ...string) (string, error) {
	if reason, away := c.away(); away {
		return "", fmt.Errorf("cluster %s: %w: %s", c.Name, errAway, reason)
	}
	limit := orDefault(c.Settings.Timeout, DefaultTimeout)
	caller := ctx
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = clientEnv(os.Environ())
	cmd.Dir = c.Root
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	errs := complaints{enough: stop}
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	var text string
	switch {
	case errors.Is(err, exec.ErrNotFound):
		text = name + " is not on PATH here: install Slurm's client programs on this host"
	case caller.Err() != nil: // who asked has no more patience, which says nothing of the controller
		return "", fmt.Errorf("cluster %s: %w: %w", c.Name, errAway, caller.Err())
	case patient(errs.String()): // it would go on asking for minutes
		return "", fmt.Errorf("cluster %s: %s: %w", c.Name, name, &clientError{complaint(errs.String())})
	case ctx.Err() != nil:
		text = fmt.Sprintf("%s did not answer within %s", name, limit)
	default:
		if text = complaint(errs.String()); text == "" {
			text = err.Error()
		}
		if !unreachable(text) {
			return "", fmt.Errorf("cluster %s: %s: %w", c.Name, name, &clientError{text})
		}
	}
	c.gone(text)
	return "", fmt.Errorf("cluster %s: %w: %s", c.Name, errAway, text)
}

// clientError is what a client program said when it refused.
type clientError struct{ text string }

func (e *clientError) Error() string { return e.text }

// clientEnv is the environment of a client program: without what a job of
// Slurm's would be told, which sbatch takes for its own options, and in English.
func clientEnv(environ []string) []string {
	kept := []string{"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"}
	env := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "SLURM_") && !slices.Contains(kept, name) || name == "LC_ALL" ||
			strings.HasPrefix(name, "SQUEUE_") || strings.HasPrefix(name, "SCANCEL_")
	})
	return append(env, "LC_ALL=C")
}

// complaint is what a client program said, on one line.
func complaint(stderr string) string {
	var lines []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		for _, who := range []string{"sbatch: ", "squeue: ", "scancel: ", "error: ", "fatal: ", "slurm_load_jobs error: "} {
			line = strings.TrimPrefix(line, who)
		}
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// complaints are what a client program says. One that says that it is going to ask
// again for as long as it takes has said enough.
type complaints struct {
	text   bytes.Buffer
	enough func()
}

func (c *complaints) String() string { return c.text.String() }

func (c *complaints) Write(b []byte) (int, error) {
	n, err := c.text.Write(b)
	if patient(c.String()) {
		c.enough()
	}
	return n, err
}

func patient(text string) bool { return mentions(text, "sleeping and retrying") }

// full reports that a request was refused because there are too many: it passes.
func full(text string) bool {
	return patient(text) || mentions(text, "MaxSubmit", "temporarily unable to accept job", "Resource temporarily unavailable", "rate limit", "Too many")
}

// unreachable reports that a complaint is about the way to the controller.
func unreachable(text string) bool {
	return mentions(text, "Unable to contact slurm controller", "Connection refused", "Socket timed out", "connect failure",
		"Zero Bytes were transmitted", "backup controller in standby mode", "Communication connection failure",
		"Could not establish a configuration source", "Protocol authentication error", "Unable to connect")
}

// hopeless reports that a request will be refused however often it is made.
func hopeless(text string) bool {
	return mentions(text, "Invalid partition", "Invalid account", "Invalid qos", "Requested node configuration is not available",
		"More processors requested than permitted", "Requested time limit is invalid", "Invalid generic resource",
		"Memory required by task is not available", "Node count specification invalid", "CPU count", "Invalid feature specification",
		"Invalid reservation", "Invalid license", "unrecognized option", "Invalid --", "invalid option", "Invalid argument",
		"Invalid time limit", "Invalid numeric value", "is ambiguous", "doesn't allow an argument", "requires an argument",
		"User's group not permitted to use this partition", "Invalid node name", "Invalid job credential")
}

func mentions(text string, of ...string) bool {
	return slices.ContainsFunc(of, func(s string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(s)) })
}

// submit hands the attempt to the cluster and returns its number there.
func (c *Cluster) submit(ctx context.Context, a kernel.AttemptID, o order) (string, error) {
	own, err := c.asked(a)
	if err != nil {
		return "", &Refused{err.Error()}
	}
	return c.sbatch(ctx, o.Name, c.Files.RunnerLog(a), "__node --attempt "+label(a), own)
}

// sbatch submits a batch job that runs this program.
func (c *Cluster) sbatch(ctx context.Context, name, log, arguments string, own []string) (string, error) {
	args := []string{"--parsable", "--no-requeue", "--job-name=" + name, "--chdir=" + c.Root, "--signal=B:TERM@30", "--output=" + log, "--open-mode=append"}
	script := "#!/bin/sh\nexec " + quote(c.program()) + " " + arguments + "\n"
	out, err := c.call(ctx, script, "sbatch", append(args, own...)...)
	var said *clientError
	if errors.As(err, &said) && hopeless(said.text) {
		return "", &Refused{fmt.Sprintf("cluster %s refuses it: %s", c.Name, said.text)}
	}
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";")
	if id == "" {
		return "", fmt.Errorf("cluster %s: sbatch printed no number", c.Name)
	}
	return id, nil
}

func (c *Cluster) program() string {
	if c.Settings.Program != "" {
		return c.Settings.Program
	}
	return c.Local.Exe
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// batchJob is a line of squeue.
type batchJob struct{ id, state, reason, node, name string }

// listing is one answer about all jobs of this user.
type listing struct {
	asked time.Time
	jobs  map[string]batchJob // by name; of several, the one that matters most
}

// jobPrefix begins the names of all batch jobs of Vizier's.
const jobPrefix = "vizier-"

const squeueFormat = "%i|%T|%r|%N|%j"

// listFile is the cluster's latest answer: when it was asked, by the clock of the
// file server, and the lines of squeue.
func (c *Cluster) listFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".queue") }

// refresh asks for every job of this user and puts the answer where every process
// finds it. No lock of the scheduler's may be held.
func (c *Cluster) refresh(ctx context.Context) (listing, error) {
	if err := os.MkdirAll(c.Files.ClusterDir(), 0o700); err != nil {
		return listing{}, err
	}
	now := c.clock()
	out, err := c.call(ctx, "", "squeue", "--me", "-h", "-t", "all", "-o", squeueFormat)
	if err != nil {
		return listing{}, err
	}
	l := listing{now, parseJobs(out)}
	var own strings.Builder
	own.WriteString(now.Format(time.RFC3339Nano) + "\n")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "|"+jobPrefix) {
			own.WriteString(line)
		}
	}
	return l, sys.ReplaceFile(c.listFile(), []byte(own.String()))
}

// Refresh asks the cluster how its jobs stand, unless it was asked a moment ago: Alive
// goes by the answer. No lock of the scheduler's may be held.
func (c *Cluster) Refresh(ctx context.Context) error {
	const moment = time.Second
	if l := c.recorded(); l.jobs != nil && c.clock().Sub(l.asked).Abs() < moment {
		return nil
	}
	_, err := c.refresh(ctx)
	return err
}

// recorded is the latest answer. It asks nobody.
func (c *Cluster) recorded() listing {
	b, err := os.ReadFile(c.listFile())
	if err != nil {
		return listing{}
	}
	first, rest, _ := strings.Cut(string(b), "\n")
	asked, err := time.Parse(time.RFC3339Nano, first)
	if err != nil {
		return listing{}
	}
	return listing{asked, parseJobs(rest)}
}

func parseJobs(out string) map[string]batchJob {
	jobs := map[string]batchJob{}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "|", 5)
		if len(f) < 5 || !strings.HasPrefix(f[4], jobPrefix) {
			continue
		}
		j := batchJob{f[0], f[1], f[2], f[3], strings.TrimSpace(f[4])}
		if have, twice := jobs[j.name]; !twice || have.ended() && !j.ended() {
			jobs[j.name] = j
		}
	}
	return jobs
}

// ended reports that the cluster is done with the job.
func (j batchJob) ended() bool {
	switch j.state {
	case "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT":
		return true
	}
	return false
}

// stuck reports that the cluster will not begin with a job that waits unless
// somebody changes the job or the cluster.
func (j batchJob) stuck() bool {
	switch j.reason {
	case "PartitionConfig", "BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown", "PartitionInactive", "InvalidAccount", "InvalidQOS",
		"AccountNotAllowed", "QOSNotAllowed", "DependencyNeverSatisfied", "ReservationDeleted", "ReservationInvalid", "JobHeldUser", "JobHeldAdmin":
		return true
	}
	return false
}

// waits reports that the cluster has not begun with the job.
func (j batchJob) waits() bool {
	switch j.state {
	case "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "CONFIGURING":
		return true
	}
	return false
}

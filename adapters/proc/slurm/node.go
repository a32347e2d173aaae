package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Node is the part of an attempt's runner that only a cluster asks for: it
// holds the attempt's lock, is heard of, and hears that it is fenced off.
type Node struct {
	files   Files
	attempt kernel.AttemptID
	order   order
	lock    *os.File // nil: locks mean nothing here
	packed  func()   // notes that this pilot has it; nil: it is no pilot
	begun   bool
}

// Begin makes this process, which the cluster started, the one that may claim
// the attempt. Where another runs it, or the order is not this batch job's, it
// is kernel.ErrStale, and nothing was touched.
func Begin(files Files, a kernel.AttemptID) (*Node, error) {
	o, err := readOrder(files.OrderFile(a))
	if err != nil {
		return nil, fmt.Errorf("run %s: the order for it is not there; do this host and the scheduler's see the same files? %w", label(a), err)
	}
	if name := os.Getenv("SLURM_JOB_NAME"); name != o.Name || o.Attempt != label(a) {
		return nil, fmt.Errorf("run %s: batch job %q is not the one that was ordered, %q: %w", label(a), name, o.Name, kernel.ErrStale)
	}
	n := &Node{files: files, attempt: a, order: o}
	if n.lock, err = lockBeat(files, a, o); err != nil {
		return nil, err
	}
	return n, nil
}

// Locks reports that locks of other hosts hold on this one.
func (n *Node) Locks() bool { return !n.order.NoLocks }

// Begun is to be called once the attempt is claimed.
func (n *Node) Begun() {
	n.begun = true
	_ = sys.Touch(n.files.BeatFile(n.attempt))
	if n.packed != nil {
		n.packed()
	}
}

// Close lets go of the lock, and tells the scheduler's host to look. One that
// has not begun leaves no trace.
func (n *Node) Close() error {
	if n.begun {
		_ = sys.Touch(n.files.BeatFile(n.attempt))
		_ = sys.Touch((&Cluster{Files: n.files}).bell())
	}
	if n.lock == nil {
		return nil
	}
	return n.lock.Close()
}

// Beat is heard of every second until ctx ends. It calls check, which looks at
// what the record says, and stop once the attempt is fenced off, or when it
// could not be heard of for so long that it counts as gone.
func (n *Node) Beat(ctx context.Context, check func(), stop func(error)) {
	const every = time.Second
	path := n.files.BeatFile(n.attempt)
	heard := make(chan struct{}, 1)
	go func() { // a file system that hangs holds up only this
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
			_, fenced, err := beatOf(path)
			if fenced {
				stop(errors.New("another attempt took its place: it was fenced off"))
			}
			if err == nil && sys.Touch(path) == nil {
				select {
				case heard <- struct{}{}:
				default:
				}
			}
			check()
		}
	}()
	late := time.NewTimer(n.order.Lease)
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
			late.Reset(n.order.Lease)
		case <-late.C:
			stop(fmt.Errorf("the shared file system did not answer for %s, and the attempt may have been taken for lost", n.order.Lease))
		}
	}
}

// Terminated is why the cluster asked this runner to end, as far as it can be
// found out: its batch job's time limit or something else. A controller that
// does not answer is asked again, as long as there is time before it kills.
func (n *Node) Terminated(ctx context.Context) error {
	const patience, pause, notice = 15 * time.Second, time.Second, 2 * time.Minute
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	other := fmt.Errorf("cluster %s asked it to end (SIGTERM): by scancel, for another job's sake or to free the node", n.order.Cluster)
	for ctx.Err() == nil {
		state, left, err := timeLeft(ctx)
		switch {
		case err == nil && state == "RUNNING" && left <= notice:
			return &proc.LimitError{Reason: "ended by the time limit of its job on cluster " + n.order.Cluster}
		case err == nil:
			return other
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return other
}

// timeLeft is the state of this batch job, and how long it may still run.
func timeLeft(ctx context.Context) (state string, left time.Duration, err error) {
	const patience = 5 * time.Second
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	cmd := exec.CommandContext(ctx, "squeue", "-h", "-j", os.Getenv("SLURM_JOB_ID"), "-o", "%T %L")
	cmd.Env, cmd.WaitDelay = clientEnv(os.Environ()), time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", 0, err
	}
	state, text, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	left, ok := duration(text)
	if state == "" || state == "RUNNING" && !ok {
		return state, 0, fmt.Errorf("squeue says %q", out)
	}
	return state, left, nil
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

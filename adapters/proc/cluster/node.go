package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Node is the part of an attempt's runner that is only needed on a cluster: it
// holds the attempt's lock, gives signs of life, and learns when it is fenced off.
type Node struct {
	files   Files
	attempt kernel.AttemptID
	order   order
	place   Place
	lock    *os.File // nil: locks do not hold here
	packed  func()   // notes that this pilot runs the attempt; nil: no pilot runs it
	begun   bool
}

// Place tells a process on a node about the engine's job that it is in.
type Place interface {
	// Job returns that job; known is false if the engine does not say.
	Job() (name, id string, known bool)

	// Stands returns the state of the job: Running, with how long it may still run,
	// Preempted, or "" if it ends in another way.
	Stands(context.Context) (state State, left time.Duration, err error)

	// Cores returns how many cores the job has on this node; 0: unknown.
	Cores() int
}

// Begin makes this process, which the cluster started, the one that may claim
// the attempt. If another process runs it, or the order is for another job, the
// error is kernel.ErrStale, and nothing has changed.
func Begin(files Files, placeOf func(kind string) Place, a kernel.AttemptID) (*Node, error) {
	o, err := readOrder(files.OrderFile(a))
	if err != nil {
		return nil, fmt.Errorf("run %s: the order for it is not there; do this host and the scheduler's see the same files? %w", label(a), err)
	}
	place := placeOf(o.Kind)
	if name, _, known := place.Job(); known && name != o.Name || o.Attempt != label(a) {
		return nil, fmt.Errorf("run %s: job %q is not the one that was ordered, %q: %w", label(a), name, o.Name, kernel.ErrStale)
	}
	n := &Node{files: files, attempt: a, order: o, place: place}
	if n.lock, err = lockBeat(files, a, o); err != nil {
		return nil, err
	}
	return n, nil
}

// Locks reports that locks of other hosts hold on this one.
func (n *Node) Locks() bool { return !n.order.NoLocks }

// Begun must be called once the attempt is claimed.
func (n *Node) Begun() {
	n.begun = true
	_ = sys.Touch(n.files.BeatFile(n.attempt))
	if n.packed != nil {
		n.packed()
	}
}

// Close releases the lock, and tells the scheduling host to look. A Node that has
// not begun leaves no trace.
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

// Beat gives a sign of life every second until ctx ends. It also calls check, which
// looks at the record. It calls stop when the attempt is fenced off, or has given
// no sign of life for so long that it counts as lost.
func (n *Node) Beat(ctx context.Context, check func(), stop func(error)) {
	const every = time.Second
	path := n.files.BeatFile(n.attempt)
	heard := make(chan struct{}, 1)
	go func() { // a file system that hangs blocks only this goroutine
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

// Terminated returns why the cluster asked this runner to end, as far as that can be
// found out: its job's time limit, another job that needs the place, or something
// else. It asks a cluster that does not answer again, as long as there is time before
// the cluster kills the job.
func (n *Node) Terminated(ctx context.Context) error {
	const patience, pause, notice = 15 * time.Second, time.Second, 2 * time.Minute
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	other := fmt.Errorf("cluster %s asked it to end (SIGTERM): it was cancelled there", n.order.Cluster)
	const untold = 3 * time.Second // a cluster may end a job first, and note why after that
	for begun := time.Now(); ctx.Err() == nil; {
		state, left, err := n.place.Stands(ctx)
		switch {
		case err == nil && state == Preempted:
			return &proc.EndedError{Class: kernel.Preempted, Reason: "preempted on cluster " + n.order.Cluster}
		case err == nil && state == Running && left <= notice:
			return &proc.EndedError{Class: kernel.Timeout, Reason: "ended by the time limit of its " + n.order.runsIn() + " on cluster " + n.order.Cluster + n.order.unlimited()}
		case err == nil && state == "" && time.Since(begun) < untold:
		case err == nil || errors.Is(err, errNoTelling):
			return other
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return other
}

// Endless is how long a job without a limit may still run.
const Endless = time.Duration(math.MaxInt64)

// errNoTelling says that a place does not know how long its job may run.
var errNoTelling = errors.New("this job was not told how long it may run")

// EnvPlace is the place of a job that knows only what its environment says.
type EnvPlace struct{}

// Variables that tell a job what Place returns, for engines without another way.
const (
	envUntil = "VIZIER_JOB_UNTIL" // when the cluster ends the job: a time as RFC 3339 has it, or seconds since 1970
	envCores = "VIZIER_JOB_CORES"
)

// Job implements Place.
func (EnvPlace) Job() (name, id string, known bool) { return "", "", false }

// Stands implements Place.
func (EnvPlace) Stands(context.Context) (state State, left time.Duration, err error) {
	text := os.Getenv(envUntil)
	if s, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Running, time.Until(time.Unix(s, 0)), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", 0, errNoTelling
	}
	return Running, time.Until(at), nil
}

// Cores implements Place.
func (EnvPlace) Cores() int {
	n, _ := strconv.Atoi(os.Getenv(envCores))
	return max(n, 0)
}

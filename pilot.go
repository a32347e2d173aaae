package vizier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/kernel"
)

// servePilot implements the hidden entry point `__pilot EXECUTOR NAME`: a job
// of a cluster that runs attempts from an executor's outbox, one at a time on
// each of its cores. Each core has a worker process, since a process runs one
// command at a time. It ends when its workers have found nothing to do for a
// while.
func servePilot(args []string, stderr io.Writer, env Environment) int {
	if err := pilot(args, stderr, env); err != nil {
		fmt.Fprintln(stderr, "vizier pilot:", err)
		return 1
	}
	return 0
}

func pilot(args []string, stderr io.Writer, env Environment) error {
	if len(args) == 0 {
		return fmt.Errorf("expected an executor and a name: %w", kernel.ErrInvalid)
	}
	_, c, err := clusterHere(args[0], env)
	if err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	place, until := placeOf(c.Kind), ""
	name, _, _ := place.Job()
	if len(args) > 1 { // earlier versions do not pass it
		name = args[1]
	}
	if at := cluster.Until(context.Background(), place); !at.IsZero() {
		until = at.Format(time.RFC3339)
	}
	var workers []*exec.Cmd
	for range c.Cores(place) {
		worker := exec.Command(own, "__worker", args[0], name, until)
		worker.Stderr = stderr
		if err = worker.Start(); err != nil {
			break
		}
		workers = append(workers, worker)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	go func() {
		for s := range signals {
			for _, worker := range workers {
				_ = worker.Process.Signal(s) // the worker may have ended
			}
		}
	}()
	failed := make([]error, len(workers))
	var all sync.WaitGroup
	for i, worker := range workers {
		all.Go(func() { failed[i] = worker.Wait() })
	}
	all.Wait()
	c.Ring() // what it leaves is for another pilot
	return errors.Join(append(failed, err)...)
}

// serveWorker implements the hidden entry point `__worker EXECUTOR PILOT
// UNTIL`. It runs attempts one after another, and takes none after UNTIL; "":
// no limit.
func serveWorker(args []string, stderr io.Writer, env Environment) int {
	debug.SetGCPercent(50)
	if err := work(args, stderr, env); err != nil {
		fmt.Fprintln(stderr, "vizier worker:", err)
		return 1
	}
	return 0
}

// How long a worker waits for something to do: what depends on an attempt that
// has just ended is due a moment later.
const (
	workerLinger = 5 * time.Second
	workerPause  = 50 * time.Millisecond
)

func work(args []string, stderr io.Writer, env Environment) error {
	if len(args) != 3 {
		return fmt.Errorf("expected an executor, a pilot and a time: %w", kernel.ErrInvalid)
	}
	w, c, err := clusterHere(args[0], env)
	if err != nil {
		return err
	}
	until, _ := time.Parse(time.RFC3339, args[2])
	w.hosts.Probe()
	var now current
	ended, pilot := now.hear(), os.Getppid()
	over := func() bool {
		return ended.Load() || os.Getppid() != pilot || !until.IsZero() && time.Now().After(until)
	}
	for idle := time.Now(); !over() && time.Since(idle) < workerLinger; time.Sleep(workerPause) {
		for _, a := range c.Due() {
			if over() {
				return nil
			}
			node, err := c.BeginPacked(a, placeOf(c.Kind), args[1])
			if err == nil {
				err = w.runOnNode(node, a, &now)
			}
			if err != nil && !errors.Is(err, kernel.ErrStale) { // another worker can take it
				fmt.Fprintln(stderr, "vizier worker:", err)
				continue
			}
			if err == nil {
				idle = time.Now()
			}
		}
	}
	return nil
}

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
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/kernel"
)

// servePilot implements the hidden entry point `__pilot EXECUTOR NAME`: a job
// of a cluster that runs attempts from an executor's outbox, one at a time on
// each of its cores. Where there are several, each has a worker process, since
// a process runs one command at a time. It ends when nothing was found to do
// for a while.
func servePilot(args []string, stderr io.Writer, env Environment) int {
	debug.SetGCPercent(50)
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
	w, c, err := clusterHere(args[0], env)
	if err != nil {
		return err
	}
	place := placeOf(c.Kind)
	name, _, _ := place.Job()
	if len(args) > 1 { // earlier versions do not pass it
		name = args[1]
	}
	defer c.Ring() // what it leaves is for another pilot
	if cores := c.Cores(place); cores > 1 {
		return workers(cores, c, name, cluster.Until(context.Background(), place), stderr)
	}
	var until atomic.Pointer[time.Time] // to ask takes as long as several attempts
	go func() {
		at := cluster.Until(context.Background(), place)
		until.Store(&at)
	}()
	w.work(c, name, stderr, func() bool {
		at := until.Load()
		return at != nil && past(*at)
	})
	return nil
}

// workers runs up to n worker processes until all have ended. A worker ends when it finds
// nothing to do; as long as another has something, the cores are there, and workers are
// started again for what becomes due.
func workers(n int, c *cluster.Cluster, name string, until time.Time, stderr io.Writer) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	end := ""
	if !until.IsZero() {
		end = until.Format(time.RFC3339)
	}
	type ended struct {
		worker *exec.Cmd
		err    error
	}
	running, left := []*exec.Cmd{}, make(chan ended)
	var failed error
	fill := func() {
		for len(running) < n && failed == nil {
			worker := exec.Command(own, "__worker", c.Name, name, end)
			worker.Stderr = stderr
			if failed = worker.Start(); failed == nil {
				running = append(running, worker)
				go func() { left <- ended{worker, worker.Wait()} }()
			}
		}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	look := time.NewTicker(pilotLook)
	defer look.Stop()
	fill()
	for stop := false; len(running) > 0; {
		select {
		case e := <-left:
			running = slices.DeleteFunc(running, func(w *exec.Cmd) bool { return w == e.worker })
			failed = errors.Join(failed, e.err)
		case s := <-signals:
			stop = true
			for _, worker := range running {
				_ = worker.Process.Signal(s) // the worker may have ended
			}
		case <-look.C:
			if !stop && !past(until) && len(running) < n && len(c.Due()) > 0 {
				fill()
			}
		}
	}
	return failed
}

// serveWorker implements the hidden entry point `__worker EXECUTOR PILOT
// UNTIL`. It runs attempts one after another, and takes none after UNTIL; "":
// no limit. It ends with its pilot.
func serveWorker(args []string, stderr io.Writer, env Environment) int {
	debug.SetGCPercent(50)
	err := fmt.Errorf("expected an executor, a pilot and a time: %w", kernel.ErrInvalid)
	if len(args) == 3 {
		var w *world
		var c *cluster.Cluster
		if w, c, err = clusterHere(args[0], env); err == nil {
			until, _ := time.Parse(time.RFC3339, args[2])
			parent := os.Getppid()
			w.work(c, args[1], stderr, func() bool { return os.Getppid() != parent || past(until) })
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "vizier worker:", err)
		return 1
	}
	return 0
}

func past(at time.Time) bool { return !at.IsZero() && time.Now().After(at) }

// How long a worker waits for something to do: what depends on an attempt that
// has just ended is due a moment later. How often a pilot looks for it whose other
// workers have ended.
const (
	pilotLook    = 2 * time.Second
	workerLinger = 5 * time.Second
	workerPause  = 50 * time.Millisecond
)

// work runs attempts of c one after another as the pilot of that name, until it
// is told to end, over says so, or it has found nothing to do for a while.
func (w *world) work(c *cluster.Cluster, pilot string, stderr io.Writer, over func() bool) {
	w.hosts.Probe()
	var now current
	ended := now.hear()
	done := func() bool { return ended.Load() || over() }
	for idle := time.Now(); !done() && time.Since(idle) < workerLinger; time.Sleep(workerPause) {
		for _, a := range c.Due() {
			if done() {
				return
			}
			node, err := c.BeginPacked(a, placeOf(c.Kind), pilot)
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
}

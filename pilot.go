package vizier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/kernel"
)

// servePilot implements the hidden entry point `__pilot EXECUTOR NAME`: a job
// of a cluster that runs attempts from an executor's outbox, one at a time on
// each of its cores. Where there are several, each has a worker process, since
// a process runs one command at a time. It ends when nothing was found to do
// for a while.
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
	limitProcessors()
	if cores := c.Cores(place); cores > 1 {
		return workers(cores, c, name, cluster.HoursOf(context.Background(), place), stderr)
	}
	var hours atomic.Pointer[cluster.Hours] // to ask takes as long as several attempts
	hours.Store(&cluster.Hours{})
	go func() {
		known := cluster.HoursOf(context.Background(), place)
		hours.Store(&known)
	}()
	w.work(c, name, stderr, func() (cluster.Hours, bool) { return *hours.Load(), false })
	return nil
}

// workers runs up to n worker processes until all have ended. It begins with one, and has twice
// as many as long as more is due than they take: of what is short, one runs many before a second
// is there, and workers that wait for a core a fifth of the time are not helped by others. A worker ends
// when it finds nothing to do; as long as another has something, the cores are there, and workers are
// started again for what becomes due.
func workers(n int, c *cluster.Cluster, name string, hours cluster.Hours, stderr io.Writer) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"__worker", c.Name, name, "", ""}
	if !hours.End.IsZero() {
		args = append(args[:3], hours.End.Format(time.RFC3339), hours.Fresh.Format(time.RFC3339))
	}
	type ended struct {
		worker *exec.Cmd
		err    error
	}
	running, left := []*exec.Cmd{}, make(chan ended)
	var failed error
	start := func(more int) {
		for ; more > 0 && len(running) < n && failed == nil; more-- {
			worker := exec.Command(own, args...)
			worker.Stderr = stderr
			if failed = worker.Start(); failed == nil {
				running = append(running, worker)
				go func() { left <- ended{worker, worker.Wait()} }()
			}
		}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	looked, waited := time.Now(), time.Duration(0)
	short := func() bool { // of cores, since it was last called
		before, since := waited, time.Since(looked)
		looked, waited = time.Now(), 0
		for _, worker := range running {
			waited += proc.WaitedForCore(worker.Process.Pid)
		}
		return waited-before > since*time.Duration(len(running))/5
	}
	start(1)
	look := time.NewTimer(pilotGrow)
	defer look.Stop()
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
			if crowded := short(); !stop && !hours.Over() && len(running) < n && len(c.Due()) > 0 {
				if !crowded {
					start(len(running))
				}
				look.Reset(pilotGrow)
			} else {
				look.Reset(pilotLook)
			}
		}
	}
	return failed
}

// serveWorker implements the hidden entry point `__worker EXECUTOR PILOT END
// FRESH`. It runs attempts one after another within these hours of its pilot;
// "": no limit. It ends with its pilot.
func serveWorker(args []string, stderr io.Writer, env Environment) int {
	limitProcessors()
	err := fmt.Errorf("expected an executor, a pilot and its hours: %w", kernel.ErrInvalid)
	if len(args) >= 3 {
		var w *world
		var c *cluster.Cluster
		if w, c, err = clusterHere(args[0], env); err == nil {
			var hours cluster.Hours
			hours.End, _ = time.Parse(time.RFC3339, args[2])
			hours.Fresh, _ = time.Parse(time.RFC3339, args[min(3, len(args)-1)]) // earlier versions do not pass it
			parent := os.Getppid()
			w.work(c, args[1], stderr, func() (cluster.Hours, bool) { return hours, os.Getppid() != parent })
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "vizier worker:", err)
		return 1
	}
	return 0
}

// How long a worker waits for something to do: what depends on an attempt that
// has just ended is due a moment later. How often a pilot looks for it that has fewer
// workers than cores, and when again after it has started some.
const (
	pilotLook    = 2 * time.Second
	pilotGrow    = 50 * time.Millisecond
	workerLinger = 5 * time.Second
	workerPause  = 50 * time.Millisecond
)

// work runs attempts of c one after another as the pilot of that name, until it
// is told to end, stands says that it ends or that its hours are over, or it has
// found nothing to do for a while. Where all that is due is too long for the time
// that is left, it does not count as looking, so that there will be another pilot.
// Of many attempts that end one after another it does not tick for each, where it
// stands in for the resident scheduler: every tick looks at all that wait.
func (w *world) work(c *cluster.Cluster, pilot string, stderr io.Writer, stands func() (hours cluster.Hours, ends bool)) {
	w.hosts.Probe()
	var now current
	ended := now.hear()
	done := func() bool {
		hours, ends := stands()
		return ended.Load() || ends || hours.Over()
	}
	owes, free := false, time.Time{} // a tick for what has ended, and when the next one may be
	standIn := func() {
		const share = 4 // of the time that others have in between
		begun := time.Now()
		w.standIn(context.Background())
		owes, free = false, time.Now().Add(share*time.Since(begun))
	}
	defer func() {
		if owes {
			standIn()
		}
	}()
	tooLong := false // something is due for which too little time is left
	for idle := time.Now(); !done() && time.Since(idle) < workerLinger; time.Sleep(workerPause) {
		before := tooLong
		tooLong = false
		for _, a := range c.Due() {
			if done() {
				return
			}
			hours, _ := stands()
			node, err := c.BeginPacked(a, placeOf(c.Kind), pilot, hours)
			if err == nil {
				if !before && !tooLong {
					c.Looks()
				}
				err = w.runOnNode(node, a, &now)
			}
			switch {
			case err == nil:
				idle, owes = time.Now(), owes || node.Locks()
				if owes && time.Now().After(free) {
					standIn()
				}
			case errors.Is(err, cluster.ErrTooLong):
				tooLong = true
			case !errors.Is(err, kernel.ErrStale): // another worker can take it
				fmt.Fprintln(stderr, "vizier worker:", err)
			}
		}
		if owes { // what depends on what has ended may be all that is left
			standIn()
		}
		if !tooLong {
			c.Looks()
		}
	}
}

// Package cluster runs attempts on hosts that share a file system with this one, by
// an engine that starts jobs there: Slurm, a site's own programs, or ssh.
//
// An attempt is a job of the engine, or runs in a pilot, which is one. The attempt's job
// is identified by its name, made of the repository, the job and the attempt's number.
// The engine's own id is only a hint: a controller that was killed may give it to
// another job. Files on the shared file system decide. Each is made once, by the
// first process on any host: the claim says who runs the attempt, or that nobody will,
// and the outcome says how it ended. The engine is asked only about attempts that have
// neither, with one question for all of them. No answer says nothing about an attempt.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Files says where the files of attempts are, on the file system that the nodes
// share. Paths are absolute.
type Files interface {
	proc.Files
	OrderFile(kernel.AttemptID) string
	BeatFile(kernel.AttemptID) string
	EndFile(kernel.AttemptID) string
	RunnerLog(kernel.AttemptID) string
	ClusterDir() string
}

// Settings are a site's settings for an engine of any kind. The zero value of each is
// its default.
type Settings struct {
	Pack         int // attempts for each pilot; 0: each attempt is a job; PackAuto: as Vizier chooses
	Cores        int // of a pilot, if its node does not say; 0: one
	SubmitRate   int // submissions a second at most; 0: no limit
	MaxSubmitted int // jobs of this repository that the cluster has at once, at most; 0: no limit

	NoLocks bool          // flock does not hold between hosts on the shared file system
	Lease   time.Duration // how long a runner may be silent; 0: DefaultLease
	Poll    time.Duration // between two looks at what runs; 0: DefaultPoll
	Timeout time.Duration // of one question; 0: DefaultTimeout
	Program string        // path of this program on the nodes; "": the same as here
}

// The values of settings that are not given.
const (
	DefaultLease   = time.Minute
	DefaultPoll    = 5 * time.Second
	DefaultTimeout = 10 * time.Second
)

// Cluster is the executor of one cluster. Its methods may be called from any
// goroutine.
type Cluster struct {
	Name     string // as the configuration calls it
	Kind     string // of its engine, as the configuration calls it
	Engine   Engine
	Settings Settings
	Root     string // of the repository; absolute
	Files    Files
	Local    *proc.Local

	// Conclude records the end of an attempt, once; kernel.ErrStale: it is on
	// record already. Asked returns what a job asks of its executor. At most one
	// call of the two runs at a time.
	Conclude func(kernel.Result) error
	Asked    func(kernel.JobID) (options []string, limit time.Duration, err error) // what a job asks for, and its own time limit; 0: none

	// Blind reports that another host schedules, whose locks are not known to hold on this one; nil: none does. A
	// lock that looks free says nothing of a runner then.
	Blind func() bool

	left   atomic.Bool // this process has left errands
	files  sync.Mutex  // held while Conclude or Asked runs
	looked time.Time   // when this process, a pilot, last noted that it looks for something to do

	usedBefore atomic.Bool // this process found the file system usable

	keeping sync.Mutex
	kept    map[kernel.AttemptID]keptOrder
}

// submitting bounds how long an order may be neither in the outbox nor submitted: a
// version without an outbox left it.
const submitting = 10 * time.Minute

// Accepts returns an error if something is wrong with what a job asks of the cluster,
// or with the file system that its attempts would be recorded on.
func (c *Cluster) Accepts(options []string) error {
	if err := c.Engine.Accepts(options); err != nil {
		return err
	}
	return c.usable()
}

// asked returns what a's job asks of the cluster, and its own time limit.
func (c *Cluster) asked(a kernel.AttemptID) (options []string, limit time.Duration, err error) {
	if c.Asked == nil {
		return nil, 0, nil
	}
	c.files.Lock()
	defer c.files.Unlock()
	return c.Asked(a.Job)
}

func (s Settings) lease() time.Duration { return orDefault(s.Lease, DefaultLease) }

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Start leaves an order and an errand, so that the next sender submits a. Whatever
// happens, a is submitted once: a process that finds an order looks for a job of that
// name first.
func (c *Cluster) Start(_ context.Context, a kernel.AttemptID) error {
	if claim, err := c.Local.Claimed(a); err == nil && claim != (proc.Taken{}) {
		return nil
	}
	o, err := c.order(a)
	if errors.Is(err, os.ErrNotExist) {
		o, err = c.writeOrder(a)
	}
	if err == nil && o.Job == "" { // else Alive tells what became of it
		err = c.post(toSubmit, a)
	}
	if err != nil {
		return fmt.Errorf("start %s on cluster %s: %w", label(a), c.Name, err)
	}
	return nil
}

// Stop asks a's runner to end its command. If a has not begun, its job is taken out of
// the queue.
func (c *Cluster) Stop(_ context.Context, a kernel.AttemptID) error {
	if c.ended(a) {
		return nil
	}
	err := c.Local.Void(a, "cancelled before it began")
	switch {
	case err == nil:
		err = c.post(toCancel, a)
		c.ring()
	case errors.Is(err, kernel.ErrStale):
		err = c.post(toSignal, a) // the runner looks at the record by itself; this makes it look now
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", label(a), err)
	}
	return nil
}

// Sweep fences a off, so that its runner ends itself wherever it is, and takes its job
// off the cluster. It waits for the runner's end, unless there are no locks to tell it.
func (c *Cluster) Sweep(ctx context.Context, a kernel.AttemptID) error {
	const step, patience = 20 * time.Millisecond, 10 * time.Second
	if err := c.Local.Void(a, "taken back"); err != nil && !errors.Is(err, kernel.ErrStale) {
		return fmt.Errorf("sweep %s: %w", label(a), err)
	}
	if err := errors.Join(fence(c.Files.BeatFile(a)), c.Local.NoteLost(a), c.post(toCancel, a)); err != nil {
		return fmt.Errorf("sweep %s: %w", label(a), err)
	}
	if c.Settings.NoLocks {
		return nil
	}
	for end := time.Now().Add(patience); ; time.Sleep(step) {
		held, err := proc.Locked(c.Files.BeatFile(a))
		if err == nil && !held {
			return nil
		}
		if err == nil && time.Now().After(end) {
			err = errors.New("its runner goes on, though it is told to end")
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("sweep %s on cluster %s: %w", label(a), c.Name, err)
		}
	}
}

// GivenTo returns the name of the cluster that an attempt was given to; "": none so far.
func GivenTo(files Files, a kernel.AttemptID) string {
	o, err := readOrder(files.OrderFile(a))
	if err != nil {
		return ""
	}
	return o.Cluster
}

func (c *Cluster) ended(a kernel.AttemptID) bool {
	_, err := os.Lstat(c.Files.EndFile(a))
	return err == nil
}

// bell returns the file that runners touch when they end, so that a process that waits
// for them need not look at each.
func (c *Cluster) bell() string { return filepath.Join(c.Files.ClusterDir(), "bell") }

func (c *Cluster) ring() { _ = sys.Touch(c.bell()) }

// Ring makes the processes that wait for runners look at them.
func (c *Cluster) Ring() { c.ring() }

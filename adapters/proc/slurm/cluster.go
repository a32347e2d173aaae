// Package slurm runs attempts on a Slurm cluster.
//
// An attempt is one batch job of Slurm's, known by its name, which is made of
// the repository, the job and the attempt's number; Slurm's own number is a hint,
// since a controller that was killed gives it away again. What decides are files
// on the file system that the nodes share, each made once by whoever is first,
// whatever host it is on: the claim says who runs the attempt, or that nobody
// will, and the outcome says how it ended. Slurm is asked only where there is
// neither, by one squeue for all attempts. Not to be able to ask it is no news.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
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

// Settings are what a site asks for. The zero value of each leaves it to the
// cluster, or to its default.
type Settings struct {
	Partition, Account, QOS, Time, Memory, Gres string
	CPUs                                        int
	Options                                     []string // further ones of sbatch, as --NAME or --NAME=VALUE

	NoLocks bool          // flock does not cross the shared file system
	Lease   time.Duration // how long a runner may be silent; 0: DefaultLease
	Poll    time.Duration // between two looks at what runs; 0: DefaultPoll
	Timeout time.Duration // of one call of a client program; 0: DefaultTimeout
	Program string        // this program as the nodes find it; "": as this host does
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
	Settings Settings
	Root     string // of the repository; absolute
	Files    Files
	Local    *proc.Local
	Durable  bool // what is to be submitted is on the disk before it is

	// Conclude records the end of an attempt for good; kernel.ErrStale: it has
	// one. Options are what a job asks of its executor. Neither is called
	// twice at a time.
	Conclude func(kernel.Result) error
	Options  func(kernel.JobID) ([]string, error)

	files sync.Mutex // held while Conclude or Options runs

	mu   sync.Mutex
	seen listing // the latest answer
}

// Refused is a request that the cluster will never fulfil.
type Refused struct{ Reason string }

func (r *Refused) Error() string { return r.Reason }

// submitting bounds how long a submission may be under way, whatever happens.
const submitting = 10 * time.Minute

func (s Settings) lease() time.Duration { return orDefault(s.Lease, DefaultLease) }

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Start submits a, once whatever happens: an order on the disk comes first, and
// who finds one looks the attempt up by its name.
func (c *Cluster) Start(ctx context.Context, a kernel.AttemptID) error {
	if host, void, err := c.Local.Claimed(a); err == nil && host+void != "" {
		return nil
	}
	o, err := c.order(a)
	switch {
	case err == nil && o.Job != "":
		return nil // what became of it, Alive tells
	case err == nil:
		if found, err := c.lookUp(ctx, o.Name); err != nil {
			return c.refuse(a, err)
		} else if found != "" {
			return c.submitted(a, o, found)
		}
	case errors.Is(err, os.ErrNotExist):
		if o, err = c.writeOrder(a); err != nil {
			return fmt.Errorf("start %s on cluster %s: %w", label(a), c.Name, err)
		}
	default:
		return fmt.Errorf("start %s on cluster %s: %w", label(a), c.Name, err)
	}
	id, err := c.submit(ctx, a, o)
	var never *Refused
	if err != nil && !errors.As(err, &never) && !errors.Is(err, errAway) { // it may have been accepted all the same
		id, _ = c.lookUp(ctx, o.Name)
	}
	if id != "" {
		return c.submitted(a, o, id)
	}
	return c.refuse(a, err)
}

// refuse makes a refusal final for the attempt: should the cluster have
// accepted it all the same, it does not start. If it has, it is under way.
func (c *Cluster) refuse(a kernel.AttemptID, why error) error {
	if err := c.Local.Void(a, why.Error()); errors.Is(err, kernel.ErrStale) {
		return nil
	}
	return why
}

// submitted notes the cluster's number for the attempt. It is a hint and not
// worth a failure.
func (c *Cluster) submitted(a kernel.AttemptID, o order, id string) error {
	c.mu.Lock()
	c.seen = listing{} // it lacks the new one
	c.mu.Unlock()
	o.Job = id
	_ = writeJSON(c.Files.OrderFile(a), o, false)
	return nil
}

// Stop asks a's runner to end its command, and takes what has not begun out of
// the queue.
func (c *Cluster) Stop(ctx context.Context, a kernel.AttemptID) error {
	o, err := c.order(a)
	if errors.Is(err, os.ErrNotExist) {
		o.Name = c.jobName(a)
	} else if err != nil {
		return fmt.Errorf("stop %s: %w", label(a), err)
	}
	if c.ended(a) {
		return nil
	}
	err = c.Local.Void(a, "cancelled before it began")
	switch {
	case err == nil:
		_, err = c.call(ctx, "", "scancel", "--quiet", "--me", "--name="+o.Name)
		c.ring()
	case errors.Is(err, kernel.ErrStale):
		// The runner looks at the record by itself; this is to make it look now.
		_, err = c.call(ctx, "", "scancel", "--quiet", "--me", "--batch", "--signal=USR1", "--name="+o.Name)
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", label(a), err)
	}
	return nil
}

// Sweep fences a off, so that its runner ends itself wherever it is, and takes
// it from the cluster. It waits for the runner as far as that can be known.
func (c *Cluster) Sweep(ctx context.Context, a kernel.AttemptID) error {
	const step, patience = 20 * time.Millisecond, 10 * time.Second
	if err := c.Local.Void(a, "taken back"); err != nil && !errors.Is(err, kernel.ErrStale) {
		return fmt.Errorf("sweep %s: %w", label(a), err)
	}
	fenced := fence(c.Files.BeatFile(a))
	_, err := c.call(ctx, "", "scancel", "--quiet", "--me", "--name="+c.jobName(a))
	if err = errors.Join(fenced, err); err != nil {
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

// Owns reports that a was given to this cluster.
func (c *Cluster) Owns(a kernel.AttemptID) bool {
	o, err := c.order(a)
	return err == nil && o.Cluster == c.Name
}

func (c *Cluster) ended(a kernel.AttemptID) bool {
	_, err := os.Lstat(c.Files.EndFile(a))
	return err == nil
}

// bell is the file that runners touch when they end, so that who waits for them
// need not look at each.
func (c *Cluster) bell() string { return filepath.Join(c.Files.ClusterDir(), "bell") }

func (c *Cluster) ring() { _ = sys.Touch(c.bell()) }

package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// maxFile bounds how many bytes of a file are read.
const maxFile = 64 << 20

// order describes a job for the cluster. It is written to the shared file system
// before the job is submitted.
type order struct {
	Attempt string        `json:"attempt"` // JOB/N
	Cluster string        `json:"cluster"`
	Kind    string        `json:"kind,omitempty"` // of its engine; "": Slurm
	Name    string        `json:"name"`           // of the engine's job
	Job     string        `json:"job,omitempty"`  // the engine's id for it
	NoLocks bool          `json:"no_locks,omitempty"`
	Lease   time.Duration `json:"lease_ns"`

	Packed bool          `json:"packed,omitempty"`   // a pilot runs it
	Limit  time.Duration `json:"limit_ns,omitempty"` // the job's own time limit
	Pilot  string        `json:"pilot,omitempty"`    // the name of the pilot that claimed it and added this: see addPilot

	// Said is the cluster's last refusal, in words that Vizier does not know.
	// Refused is how often it refused so, and Next when the job is submitted again.
	Said    string    `json:"said,omitempty"`
	Refused int       `json:"refused,omitempty"`
	Next    time.Time `json:"next,omitzero"`
}

// runsIn names the thing whose time limit also ends the attempt.
func (o order) runsIn() string {
	if o.Packed {
		return "pilot"
	}
	return "job"
}

// unlimited returns how to keep a packed attempt from being cut off by its pilot's end.
func (o order) unlimited() string {
	if o.Packed && o.Limit == 0 {
		return ": with a timeout of its own it begins only where that much is left"
	}
	return ""
}

func label(a kernel.AttemptID) string { return string(a.Job) + "/" + strconv.Itoa(a.N) }

// jobName returns the name of a's job on the cluster. It differs between repositories, and between hosts that
// have one repository at different paths: the order says which name the job has.
func (c *Cluster) jobName(a kernel.AttemptID) string {
	return c.ownPrefix() + string(a.Job) + "-" + strconv.Itoa(a.N)
}

// pilotName matches the names of the jobs of all pilots.
var pilotName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^" + jobPrefix + "[0-9a-f]+-pilot-") }) //nolint:gochecknoglobals // compiled for who needs it

// jobPrefix begins the names of all jobs that Vizier gives to engines.
const jobPrefix = "vizier-"

// ownPrefix begins the names of this repository's jobs.
func (c *Cluster) ownPrefix() string {
	of := sha256.Sum256([]byte(filepath.Clean(c.Root)))
	return jobPrefix + hex.EncodeToString(of[:4]) + "-"
}

// attemptOf returns the attempt whose job has this name. The name may have been given by a host that has the
// repository at another path. It is false for the jobs of pilots and of the doctor.
func attemptOf(name string) (a kernel.AttemptID, is bool) {
	rest, ours := strings.CutPrefix(name, jobPrefix)
	_, of, _ := strings.Cut(rest, "-") // the repository's path
	at := strings.LastIndexByte(of, '-')
	if !ours || at < 0 {
		return a, false
	}
	a, err := proc.ParseAttempt(of[:at] + "/" + of[at+1:])
	return a, err == nil
}

// ours reports that a name is that of a job of this repository. The jobs of pilots count only if a host with the
// repository at the same path gave them their names.
func (c *Cluster) ours(name string) bool {
	if strings.HasPrefix(name, c.ownPrefix()) {
		return true
	}
	a, is := attemptOf(name)
	if !is {
		return false
	}
	_, err := os.Lstat(c.Files.OrderFile(a))
	return err == nil
}

// writeOrder writes the order of a. It need not survive a power failure: an attempt whose
// order is lost is voided in the end, see judge. A job with options of its own does not go
// to a pilot.
func (c *Cluster) writeOrder(a kernel.AttemptID) (order, error) {
	o := order{Attempt: label(a), Cluster: c.Name, Kind: c.Kind, Name: c.jobName(a), NoLocks: c.Settings.NoLocks, Lease: c.Settings.lease()}
	if c.Settings.Pack != 0 && c.Asked != nil {
		options, limit, err := c.asked(a)
		if err != nil {
			return o, err
		}
		o.Packed, o.Limit = len(options) == 0, limit
	}
	path := c.Files.OrderFile(a)
	for _, dir := range []string{filepath.Dir(path), c.Files.ClusterDir()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return o, err
		}
	}
	return o, writeJSON(path, o)
}

// keptOrder is an order as this process last read it.
type keptOrder struct {
	order
	of sys.Looked // the file that had it
}

// order returns the order of a.
func (c *Cluster) order(a kernel.AttemptID) (order, error) {
	o, err := c.orderFile(a)
	return o.order, err
}

// orderFile returns the order of a and what its file is. It reads the file only if that has changed
// since this process last read it: a process that watches many attempts looks at each again and again.
func (c *Cluster) orderFile(a kernel.AttemptID) (keptOrder, error) {
	path := c.Files.OrderFile(a)
	now, err := sys.Look(unix.AT_FDCWD, path)
	if err != nil {
		return keptOrder{}, fmt.Errorf("%s: %w", path, err)
	}
	c.keeping.Lock()
	kept, known := c.kept[a]
	c.keeping.Unlock()
	if known && kept.of == now {
		return kept, nil
	}
	o, err := readOrder(path)
	if err != nil {
		return keptOrder{}, err
	}
	c.keeping.Lock()
	defer c.keeping.Unlock()
	if c.kept == nil {
		c.kept = map[kernel.AttemptID]keptOrder{}
	}
	c.kept[a] = keptOrder{o, now}
	return c.kept[a], nil
}

// keepOnly forgets the orders of other attempts, once they are many.
func (c *Cluster) keepOnly(attempts []kernel.AttemptID) {
	const few = 64
	c.keeping.Lock()
	defer c.keeping.Unlock()
	if len(c.kept) <= 2*len(attempts)+few {
		return
	}
	before := c.kept
	c.kept = make(map[kernel.AttemptID]keptOrder, len(attempts))
	for _, a := range attempts {
		if o, known := before[a]; known {
			c.kept[a] = o
		}
	}
}

func readOrder(path string) (o order, err error) {
	b, err := sys.ReadRegular(path, maxFile)
	if err != nil {
		return o, err
	}
	values := json.NewDecoder(bytes.NewReader(b))
	if err := values.Decode(&o); err != nil {
		return o, fmt.Errorf("%s: %w", path, err)
	}
	_ = values.Decode(&o) // the value that a pilot added; one that was cut off does not count
	return o, nil
}

// addPilot adds the pilot that claimed the attempt to its order, as a second JSON value: that is
// one write, and the file need not be replaced.
func addPilot(path, pilot, job string) error {
	b, err := json.Marshal(struct {
		Pilot string `json:"pilot"`
		Job   string `json:"job"`
	}{pilot, job})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

func readJSON(path string, into any) error {
	b, err := sys.ReadRegular(path, maxFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON replaces the file atomically.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return sys.ReplaceFile(path, append(b, '\n'))
}

// fence tells the runner whose beat file is at path to end itself, by making the
// file one byte long. That needs no room on the disk.
func fence(path string) error {
	if err := os.Truncate(path, 1); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("fence: %w", err)
	}
	return nil
}

// beatOf reads a beat file: when it was last touched, and whether its runner is
// fenced off. It opens the file, which makes a network file system look again.
func beatOf(path string) (at time.Time, fenced bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return time.Time{}, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, false, err
	}
	return info.ModTime(), info.Size() > 0, nil
}

// ahead reports that a time when something began is to come, by more than the clocks of hosts differ: the clock was set
// back since.
func ahead(at, now time.Time) bool { return at.Sub(now) > time.Minute }

// clock returns the time of the file server, so that ages of files are right even
// if the clocks of hosts differ.
func (c *Cluster) clock() time.Time {
	path := filepath.Join(c.Files.ClusterDir(), "clock")
	if sys.Touch(path) == nil {
		if info, err := os.Lstat(path); err == nil {
			return info.ModTime()
		}
	}
	return time.Now()
}

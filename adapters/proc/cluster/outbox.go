package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/kernel"
)

// errand is a request to the cluster. A process that holds the scheduler lock makes
// none: it leaves an errand in the outbox, an empty file, and a sender does it without
// that lock.
type errand struct {
	what    string
	attempt kernel.AttemptID
}

// What an errand may be.
const (
	toSubmit = "submit"
	toCancel = "cancel" // take its job away, whether it waits or runs
	toSignal = "signal" // make its runner look at the record
)

func (c *Cluster) outbox() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".outbox") }

func (c *Cluster) errandFile(e errand) string {
	return filepath.Join(c.outbox(), strings.ReplaceAll(label(e.attempt), "/", "-")+"."+e.what)
}

// post leaves an errand.
func (c *Cluster) post(what string, a kernel.AttemptID) error {
	c.left.Store(true)
	path := c.errandFile(errand{what, a})
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.MkdirAll(c.outbox(), 0o700); err != nil {
			return err
		}
	}
}

// posted reports that an attempt is not submitted yet.
func (c *Cluster) posted(a kernel.AttemptID) bool {
	_, err := os.Lstat(c.errandFile(errand{toSubmit, a}))
	return err == nil
}

// seenTo takes an errand out of the outbox.
func (c *Cluster) seenTo(e errand) { _ = os.Remove(c.errandFile(e)) }

// errands returns the errands in the outbox, in the order of their jobs.
func (c *Cluster) errands() []errand {
	entries, err := os.ReadDir(c.outbox())
	if err != nil {
		return nil // there is no outbox yet
	}
	var all []errand
	for _, entry := range entries {
		name, what, _ := strings.Cut(entry.Name(), ".")
		job, n, _ := strings.Cut(name, "-")
		a, err := proc.ParseAttempt(job + "/" + n)
		if err == nil && slices.Contains([]string{toSubmit, toCancel, toSignal}, what) {
			all = append(all, errand{what, a})
		}
	}
	return all
}

// NeedsSender reports that a sender is needed: this process has left errands since the last call,
// or there are errands and no sender has looked at them for a while.
func (c *Cluster) NeedsSender(while time.Duration) bool {
	if c.left.Swap(false) {
		return true
	}
	info, err := os.Lstat(c.sendingFile())
	return (err != nil || time.Since(info.ModTime()).Abs() > while) && len(c.errands()) > 0
}

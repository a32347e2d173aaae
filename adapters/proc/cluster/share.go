package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// share has the operations that attempts on a cluster need of the shared file system, as
// this host does them.
type share struct {
	makeOnce func(from, to string) error // gives a file a name that is free
	replace  func(from, to string) error // gives a file a name that is taken
	lock     func(path string) (*os.File, error)
}

var ownShare = share{makeOnce: os.Link, replace: os.Rename, lock: proc.TryLock}

// try tests the operations in dir. It returns what is wrong, and what a person can do.
func (s share) try(dir string) *Finding {
	place, err := os.MkdirTemp(dir, "try-")
	if err != nil {
		return &Finding{"files cannot be made in " + dir + ": " + err.Error(), "make room, or mend the directory's owner and mode"}
	}
	defer func() { _ = sys.RemoveTree(place) }()
	at := func(name string) string { return filepath.Join(place, name) }
	for _, name := range []string{"first", "second", "taken"} {
		if err := os.WriteFile(at(name), nil, 0o600); err != nil {
			return &Finding{"files cannot be made in " + dir + ": " + err.Error(), "make room, or mend the directory's owner and mode"}
		}
	}
	const move = "put the repository on a file system that has them, as NFS does"
	if err := s.makeOnce(at("first"), at("once")); err != nil {
		return &Finding{fmt.Sprintf("the file system of %s has no hard links (%v): nothing there can be made once, and so nothing says which node runs an attempt", dir, err),
			move}
	}
	if err := s.makeOnce(at("second"), at("taken")); !errors.Is(err, os.ErrExist) {
		return &Finding{fmt.Sprintf("on the file system of %s a name that is taken is given to a second file (%v): two nodes could run one attempt", dir, err), move}
	}
	if err := s.replace(at("second"), at("taken")); err != nil {
		return &Finding{fmt.Sprintf("the file system of %s does not replace a file by rename: %v", dir, err), move}
	}
	lock, err := s.lock(at("taken"))
	if err != nil {
		return &Finding{fmt.Sprintf("flock does not work on the file system of %s, not even among the processes of this host: %v", dir, err), "mount it with locks"}
	}
	_ = lock.Close()
	return nil
}

// usable tests the shared file system, once for each file system that the repository is on. A
// process does that only once, since a batch has many jobs.
func (c *Cluster) usable() error {
	if c.usedBefore.Load() {
		return nil
	}
	err := c.tried()
	c.usedBefore.Store(err == nil)
	return err
}

func (c *Cluster) tried() error {
	dir := c.Files.ClusterDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	var at unix.Stat_t
	if err := unix.Stat(dir, &at); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	mark, want := filepath.Join(dir, "tried"), fmt.Sprintf("%x %d\n", st.Type, at.Dev)
	if b, err := os.ReadFile(mark); err == nil && string(b) == want {
		return nil
	}
	if f := ownShare.try(dir); f != nil {
		return fmt.Errorf("executor %s cannot be used here: %s: %s: %w", c.Name, f.Problem, f.Next, kernel.ErrInvalid)
	}
	return sys.ReplaceFile(mark, []byte(want))
}

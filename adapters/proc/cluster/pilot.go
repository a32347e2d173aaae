package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A pilot is a job of the engine's that runs attempts out of the outbox, one after another on each of
// its cores, until none is due or its time is nearly over. Who runs an attempt is decided by the
// attempt's claim, as always; a pilot that dies leaves what it has not claimed.

// PackAuto is Settings.Pack where Vizier chooses.
const PackAuto = -1

const (
	autoPack   = 64 // attempts for each pilot, with PackAuto
	autoPilots = 8  // pilots at once, with PackAuto
)

func (c *Cluster) pilotPrefix() string { return c.ownPrefix() + "pilot-" + c.Name + "-" }

// packs reports that a goes to a pilot: what asks for something of its own does not.
func (c *Cluster) packs(a kernel.AttemptID) (bool, error) {
	if c.Settings.Pack == 0 || c.Options == nil {
		return false, nil
	}
	c.files.Lock()
	defer c.files.Unlock()
	own, err := c.Options(a.Job)
	return len(own) == 0, err
}

// pilots are the jobs of pilots that have not ended.
func (c *Cluster) pilots(list listing) (all []Job) {
	for name, j := range list.jobs {
		if strings.HasPrefix(name, c.pilotPrefix()) && !j.ended() {
			all = append(all, j)
		}
	}
	return all
}

// wanted is how many pilots there should be for so many attempts.
func (s Settings) wanted(due int) int {
	if s.Pack == PackAuto {
		return min((due+autoPack-1)/autoPack, autoPilots)
	}
	return (due + s.Pack - 1) / s.Pack
}

// allBusy is how long no pilot has looked for something to do when all count as busy: what
// they run takes long, and what is due is not to wait for its end.
const allBusy = time.Minute

// lookFile is a file whose time is when a pilot last looked for something to do, or was submitted.
func (c *Cluster) lookFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".look") }

// missing is how many pilots are to be submitted for what is due: as many as there should be,
// or one more where all are busy.
func (d *delivery) missing() int {
	pilots := d.c.pilots(d.list)
	if n := d.c.Settings.wanted(len(d.packed)) - len(pilots); n > 0 {
		return n
	}
	if slices.ContainsFunc(pilots, Job.waits) {
		return 0
	}
	if info, err := os.Lstat(d.c.lookFile()); err == nil {
		if left := allBusy - d.c.clock().Sub(info.ModTime()); left > 0 {
			d.putOff(time.Now().Add(left))
			return 0
		}
	}
	return 1
}

// pilot submits the pilots that are missing for what is due.
func (d *delivery) pilot() {
	if len(d.packed) == 0 || d.away != nil {
		return
	}
	c := d.c
	for missing := d.missing(); missing > 0 && d.room(); missing-- {
		name := c.pilotPrefix() + strconv.FormatInt(time.Now().UnixNano(), 36)
		_, err := c.submit(d.ctx, name, filepath.Join(c.Files.ClusterDir(), c.Name+".pilot.log"), nil, "__pilot", c.Name, name)
		if err == nil {
			_ = sys.Touch(c.lookFile())
			d.open++
			c.reopen()
			continue
		}
		for _, e := range d.packed {
			if o, failed := c.order(e.attempt); failed == nil {
				d.failed(e, o, err)
			}
		}
		return
	}
}

// Due are some of the first attempts that wait for a pilot, or for a submission, in any order:
// those who take them are many, and each is to find few that another has taken.
func (c *Cluster) Due() (some []kernel.AttemptID) {
	const most, among, every = 64, 1024, time.Second
	if time.Since(c.looked) > every {
		c.looked = time.Now()
		_ = sys.Touch(c.lookFile())
	}
	for _, e := range c.errands() {
		if e.what == toSubmit && len(some) < among {
			some = append(some, e.attempt)
		}
	}
	rand.Shuffle(len(some), func(i, k int) { some[i], some[k] = some[k], some[i] })
	return some[:min(most, len(some))]
}

// BeginPacked is Begin for an attempt that the pilot of that name takes.
func (c *Cluster) BeginPacked(a kernel.AttemptID, place Place, pilot string) (*Node, error) {
	if !c.posted(a) {
		return nil, fmt.Errorf("run %s: somebody else does: %w", label(a), kernel.ErrStale)
	}
	o, err := c.order(a)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", label(a), err)
	}
	host, void, err := c.Local.Claimed(a)
	if err != nil {
		return nil, err
	}
	if !o.Packed || host+void != "" {
		return nil, fmt.Errorf("run %s: it is not for a pilot: %w", label(a), kernel.ErrStale)
	}
	n := &Node{files: c.Files, attempt: a, order: o, place: place}
	if n.lock, err = lockBeat(c.Files, a, o); err != nil {
		return nil, err
	}
	n.packed = func() {
		_, id, _ := place.Job()
		_ = addPilot(c.Files.OrderFile(a), pilot, cmp.Or(id, pilot))
		c.seenTo(errand{toSubmit, a})
	}
	return n, nil
}

// lockBeat makes the file by which an attempt's runner is heard of, and takes its lock; nil
// where locks mean nothing.
func lockBeat(files Files, a kernel.AttemptID, o order) (*os.File, error) {
	f, err := os.OpenFile(files.BeatFile(a), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", label(a), err)
	}
	if o.NoLocks {
		return nil, nil
	}
	lock, err := proc.TryLock(files.BeatFile(a))
	if errors.Is(err, kernel.ErrConflict) {
		return nil, fmt.Errorf("run %s: it has a runner: %w", label(a), kernel.ErrStale)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", label(a), err)
	}
	return lock, nil
}

// Cores is how many attempts a pilot runs at once: the cores that it was given.
func (c *Cluster) Cores(place Place) int { return cmp.Or(place.Cores(), c.Settings.Cores, 1) }

// Until is when the job of this place should claim nothing more, for want of time; zero: it has
// no time limit, or it cannot be found out.
func Until(ctx context.Context, place Place) time.Time {
	const least, share = time.Minute, 10
	state, left, err := place.Stands(ctx)
	if err != nil || state != Running || left <= 0 || left == Endless {
		return time.Time{}
	}
	return time.Now().Add(left - min(least, left/share))
}

// awaited is what a packed attempt waits for.
func (l *look) awaited() string {
	pilots := l.c.pilots(l.list)
	slices.SortFunc(pilots, func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
	for _, j := range pilots {
		if !j.waits() {
			return "waits for its turn with a pilot on cluster " + l.c.Name
		}
	}
	if len(pilots) > 0 {
		return fmt.Sprintf("waits for a pilot, which is pending on cluster %s%s (its job is %s)", l.c.Name, pilots[0].because(": "), pilots[0].ID)
	}
	return "waits for a pilot on cluster " + l.c.Name
}

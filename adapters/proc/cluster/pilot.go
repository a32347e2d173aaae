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

// A pilot is a job of the engine that runs attempts from the outbox, one after another on each of its
// cores, until none is due or its time is nearly over. The attempt's claim decides who runs it, as
// always. If a pilot dies, attempts that it has not claimed stay in the outbox.

// PackAuto is the value of Settings.Pack that lets Vizier choose.
const PackAuto = -1

const (
	autoPack   = 64 // attempts for each pilot, with PackAuto
	autoPilots = 8  // pilots at once, with PackAuto
)

func (c *Cluster) pilotPrefix() string { return c.ownPrefix() + "pilot-" + c.Name + "-" }

// pilots returns the jobs of pilots that have not ended.
func (c *Cluster) pilots(list listing) (all []Job) {
	for name, j := range list.jobs {
		if strings.HasPrefix(name, c.pilotPrefix()) && !j.ended() {
			all = append(all, j)
		}
	}
	return all
}

// wanted returns how many pilots there should be for due attempts.
func (s Settings) wanted(due int) int {
	if s.Pack == PackAuto {
		return min((due+autoPack-1)/autoPack, autoPilots)
	}
	return (due + s.Pack - 1) / s.Pack
}

// allBusy is after how long without a pilot that looks for something to do all count as busy.
// Their attempts take long, and due attempts should not wait for their ends.
const allBusy = time.Minute

// lookFile returns a file whose time is when a pilot last looked for something to do.
func (c *Cluster) lookFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".look") }

// sentFile returns a file with a line for each time that pilots were submitted since one last
// looked for something to do: the name of the last of them. Its time is that of the last submission.
func (c *Cluster) sentFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".sent") }

// modified returns when a file was last changed; zero: it does not exist, or its time is ahead.
func (c *Cluster) modified(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil || ahead(info.ModTime(), c.clock()) {
		return time.Time{}
	}
	return info.ModTime()
}

// unheard returns how often in a row pilots were submitted and none of them looked for something
// to do, and the time and the name of the last one.
func (c *Cluster) unheard() (times int, last time.Time, name string) {
	last = c.modified(c.sentFile())
	if last.IsZero() || c.modified(c.lookFile()).After(last) {
		return 0, last, ""
	}
	text, _ := os.ReadFile(c.sentFile()) // it may have been removed just now
	names := strings.Fields(string(text))
	if len(names) == 0 {
		return 0, last, ""
	}
	return len(names), last, names[len(names)-1]
}

// sent notes that pilots were submitted, the last one under that name.
func (c *Cluster) sent(name string) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND | unix.O_NOFOLLOW
	if times, _, _ := c.unheard(); times == 0 {
		flags |= os.O_TRUNC
	}
	if f, err := os.OpenFile(c.sentFile(), flags, 0o600); err == nil {
		_, _ = f.WriteString(name + "\n")
		_ = f.Close()
	}
}

// silent describes pilots that ended before they looked for something to do, and the end of the
// last one.
func (c *Cluster) silent(list listing, name string) string {
	text := "cluster " + c.Name + " ended its pilots before they looked for anything to run"
	if j, known := list.jobs[name]; known {
		text += fmt.Sprintf(" (job %s: %s%s)", j.ID, j.called(), j.because(", "))
	}
	return text + ": see " + c.pilotLog() + ", and whether its nodes see the repository and the program"
}

func (c *Cluster) pilotLog() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".pilot.log") }

// missing returns how many pilots to submit for the due attempts: those that are wanted and not
// there, or one more if all are busy.
func (d *delivery) missing() int {
	pilots := d.c.pilots(d.list)
	if n := d.c.Settings.wanted(len(d.packed)) - len(pilots); n > 0 {
		return n
	}
	if slices.ContainsFunc(pilots, Job.waits) {
		return 0
	}
	last := d.c.modified(d.c.lookFile())
	if sent := d.c.modified(d.c.sentFile()); sent.After(last) {
		last = sent
	}
	if left := allBusy - d.c.clock().Sub(last); left > 0 {
		d.putOff(time.Now().Add(left))
		return 0
	}
	return 1
}

// fails reports whether no pilot is submitted now because the last ones ended before they looked
// for something to do. After a few times, the due attempts are refused.
func (d *delivery) fails() bool {
	times, last, name := d.c.unheard()
	if times == 0 || len(d.c.pilots(d.list)) > 0 {
		return false
	}
	if times <= len(tryAgain) {
		left := tryAgain[times-1] - d.c.clock().Sub(last)
		if left > 0 {
			d.putOff(time.Now().Add(left))
		}
		return left > 0
	}
	why := fmt.Sprintf("%s (tried %d times)", d.c.silent(d.list, name), times)
	for _, e := range d.packed {
		d.refuse(e, why)
	}
	_ = os.Remove(d.c.sentFile()) // later attempts are tried anew
	return true
}

// withdraw cancels pilots that cannot start, when nothing is due for them.
func (d *delivery) withdraw() {
	stuck := slices.DeleteFunc(d.c.pilots(d.list), func(j Job) bool { return j.State != Stuck })
	if len(stuck) > 0 {
		_ = d.c.cancel(d.ctx, stuck) // if it fails, the next round tries again
	}
}

// pilot submits the missing pilots for the due attempts.
func (d *delivery) pilot() {
	if d.away != nil {
		return
	}
	if len(d.packed) == 0 {
		d.withdraw()
		return
	}
	if d.fails() {
		return
	}
	c, last := d.c, ""
	defer func() {
		if last != "" {
			c.sent(last)
		}
	}()
	for missing := d.missing(); missing > 0 && d.room(); missing-- {
		name := c.pilotPrefix() + strconv.FormatInt(time.Now().UnixNano(), 36)
		_, err := c.submit(d.ctx, name, c.pilotLog(), nil, "__pilot", c.Name, name)
		if err == nil {
			last = name
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

// Looks notes that a pilot looks for something to do.
func (c *Cluster) Looks() {
	const every = time.Second
	if time.Since(c.looked) > every {
		c.looked = time.Now()
		_ = sys.Touch(c.lookFile())
	}
}

// Due returns some of the first attempts that wait for a pilot, or for a submission, in random
// order: many workers take attempts, and each should find few that another has taken.
func (c *Cluster) Due() (some []kernel.AttemptID) {
	const most, among = 64, 1024
	for _, e := range c.errands() {
		if e.what == toSubmit && len(some) < among {
			some = append(some, e.attempt)
		}
	}
	rand.Shuffle(len(some), func(i, k int) { some[i], some[k] = some[k], some[i] })
	return some[:min(most, len(some))]
}

// ErrTooLong says that an attempt may take longer than a pilot has left.
var ErrTooLong = errors.New("it may take longer than this pilot has left")

// BeginPacked is Begin for an attempt that the pilot of that name takes. The error is ErrTooLong
// if the pilot has too little time left.
func (c *Cluster) BeginPacked(a kernel.AttemptID, place Place, pilot string, hours Hours) (*Node, error) {
	if !c.posted(a) {
		return nil, fmt.Errorf("run %s: somebody else does: %w", label(a), kernel.ErrStale)
	}
	o, err := readOrder(c.Files.OrderFile(a))
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", label(a), err)
	}
	claim, err := c.Local.Claimed(a)
	if err != nil {
		return nil, err
	}
	if !o.Packed || claim != (proc.Taken{}) {
		return nil, fmt.Errorf("run %s: it is not for a pilot: %w", label(a), kernel.ErrStale)
	}
	if hours.tooLong(o.Limit) {
		return nil, fmt.Errorf("run %s: %w", label(a), ErrTooLong)
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

// lockBeat makes the file in which an attempt's runner gives signs of life, and takes its lock.
// The result is nil if locks do not hold between hosts.
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

// Cores returns how many attempts a pilot runs at once: one on each of its cores.
func (c *Cluster) Cores(place Place) int { return cmp.Or(place.Cores(), c.Settings.Cores, 1) }

// Hours are the working hours of a pilot: until Fresh it claims any due attempt, and after End it
// claims none. Zero: its job has no time limit, or that cannot be found out.
type Hours struct{ Fresh, End time.Time }

// HoursOf returns the hours of a pilot that has just begun at place.
func HoursOf(ctx context.Context, place Place) Hours {
	const least, share = time.Minute, 10
	state, left, err := place.Stands(ctx)
	if err != nil || state != Running || left <= 0 || left == Endless {
		return Hours{}
	}
	now := time.Now()
	return Hours{now.Add(left / share), now.Add(left - min(least, left/share))}
}

// Over reports that the pilot has too little time left to claim another attempt.
func (h Hours) Over() bool { return !h.End.IsZero() && time.Now().After(h.End) }

// tooLong reports that an attempt with this time limit is left to the next pilot. A fresh pilot
// takes it in any case: no pilot may have enough time.
func (h Hours) tooLong(limit time.Duration) bool {
	now := time.Now()
	return !h.End.IsZero() && now.After(h.Fresh) && now.Add(limit).After(h.End)
}

// awaited returns what a packed attempt waits for.
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
	if times, _, name := l.c.unheard(); times > 0 {
		return fmt.Sprintf("waits for a pilot: %s (tried %d of %d times)", l.c.silent(l.list, name), times, len(tryAgain)+1)
	}
	return "waits for a pilot on cluster " + l.c.Name
}

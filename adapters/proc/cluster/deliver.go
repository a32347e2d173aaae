package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// The pauses before a job is submitted again that the cluster refused in words that
// Vizier does not know. After the last one, the refusal counts.
var tryAgain = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute}

// How long no job is submitted to a cluster that takes no more: after the first refusal
// in a row, and at most.
const (
	firstPause = time.Second
	mostPause  = time.Minute
)

// Deliver empties the outbox: it submits attempts, cancels jobs and makes runners look
// at the record. It first waits until another sender is done. It returns when to call
// it again for errands that it put off; zero: there are none.
func (c *Cluster) Deliver(ctx context.Context) (again time.Time, err error) {
	if len(c.errands()) == 0 {
		return again, nil
	}
	lock, err := c.sending(ctx)
	if err != nil {
		return again, err
	}
	defer lock.Close()
	_ = sys.Touch(lock.Name())
	all := c.errands()
	if len(all) == 0 {
		return again, nil
	}
	list, err := c.refresh(ctx) // it shows what a sender that died had submitted
	if err != nil {
		return time.Now().Add(recess), err
	}
	d := delivery{c: c, ctx: ctx, list: list, open: c.open(list), lock: lock}
	d.end(all, toCancel, c.cancel)
	d.end(all, toSignal, c.nudge)
	for _, e := range all {
		if e.what == toSubmit && d.away == nil && ctx.Err() == nil {
			d.submit(e)
		}
	}
	d.pilot()
	if d.away != nil {
		d.putOff(time.Now().Add(recess))
	}
	if d.over {
		c.ring()
	}
	return d.again, errors.Join(d.away, ctx.Err())
}

// sending takes the lock of the one sender.
func (c *Cluster) sending(ctx context.Context) (*os.File, error) {
	const step = 10 * time.Millisecond
	path := c.sendingFile()
	if f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
		_ = f.Close()
	}
	for {
		lock, err := proc.TryLock(path)
		if !errors.Is(err, kernel.ErrConflict) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(step):
		}
	}
}

// sendingFile returns the lock file of the one sender. Its time is when a sender last looked,
// or submitted.
func (c *Cluster) sendingFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".sending") }

// delivery is one round of a sender.
type delivery struct {
	c     *Cluster
	ctx   context.Context //nolint:containedctx // of one call
	list  listing
	open  int      // jobs that the cluster has
	lock  *os.File // of the sender; its time is that of the last submission
	again time.Time
	away  error // the cluster cannot be asked
	over  bool  // an attempt ended here

	packed []errand // errands that wait for pilots
}

func (d *delivery) putOff(until time.Time) {
	if d.again.IsZero() || until.Before(d.again) {
		d.again = until
	}
}

// end does all errands of one kind, toCancel or toSignal: many jobs with one call of ask.
func (d *delivery) end(all []errand, what string, ask func(context.Context, []Job) error) {
	const most = 200 // ids on one command line
	var jobs []Job
	var seen []errand
	for _, e := range all {
		if e.what != what {
			continue
		}
		name := d.c.jobName(e.attempt) // not that of the order: in a copy of the repository it is the original's job
		if o, err := d.c.order(e.attempt); err == nil && o.Pilot != "" && what == toSignal {
			name = o.Pilot // the pilot tells its workers; an attempt that must go is fenced off
		}
		if j, known := d.list.jobs[name]; known && !j.ended() && !slices.Contains(jobs, j) {
			jobs = append(jobs, j)
		}
		seen = append(seen, e)
	}
	for some := range slices.Chunk(jobs, most) {
		if d.away != nil {
			return
		}
		if err := ask(d.ctx, some); err != nil && !errors.As(err, new(*Refusal)) { // a refusal means that one of them has just ended
			d.away = err
			return
		}
	}
	for _, e := range seen {
		d.c.seenTo(e)
	}
}

// submit submits an attempt, unless that was done or is not wanted any more.
func (d *delivery) submit(e errand) {
	a := e.attempt
	o, err := d.c.order(a)
	if errors.Is(err, os.ErrNotExist) { // its job is gone
		d.c.seenTo(e)
		return
	}
	if err != nil {
		return // Alive reports it
	}
	if claim, err := d.c.Local.Claimed(a); err != nil || claim != (proc.Taken{}) || o.Job != "" {
		if err == nil {
			d.c.seenTo(e)
		}
		return
	}
	if j, known := d.list.jobs[o.Name]; known {
		d.submitted(e, o, j.ID)
		return
	}
	if now := time.Now(); now.Before(o.Next) && !ahead(o.Next.Add(-slices.Max(tryAgain)), now) {
		d.putOff(o.Next)
		return
	}
	if o.Packed {
		d.packed = append(d.packed, e)
		return
	}
	if !d.room() {
		return
	}
	own, _, err := d.c.asked(a)
	if err != nil {
		d.refuse(e, kernel.Said(err))
		return
	}
	if id, err := d.c.submit(d.ctx, o.Name, d.c.Files.RunnerLog(a), own, "__node", "--attempt", label(a)); err == nil {
		d.open++
		d.submitted(e, o, id)
		d.c.reopen()
	} else {
		d.failed(e, o, err)
	}
}

// failed notes why an attempt was not submitted.
func (d *delivery) failed(e errand, o order, err error) {
	var no *Refusal
	switch {
	case !errors.As(err, &no):
		d.away = err
	case no.Kind == Never:
		d.refuse(e, fmt.Sprintf("cluster %s refuses it: %s", d.c.Name, no.Said))
	case no.Kind == Unclear:
		d.doubt(e, o, no.Said)
	case no.Kind == NotThis:
		o.Said, o.Next = no.Said, time.Now().Add(firstPause+recess)
		_ = writeJSON(d.c.Files.OrderFile(e.attempt), o)
		d.putOff(o.Next)
	default:
		until := d.c.closed().Until
		if until.IsZero() {
			until = d.c.close(no.Said)
		}
		d.putOff(until)
	}
}

// room reports that another batch job may be submitted now. It waits as long as the
// site's rate asks for.
func (d *delivery) room() bool {
	if until := d.c.closed().Until; !until.IsZero() {
		d.putOff(until)
		return false
	}
	if d.c.crowded(d.open) != "" {
		return false // the process that sees a job end sends again
	}
	d.pace()
	return d.ctx.Err() == nil
}

// crowded returns why no more jobs are submitted while the cluster has open ones; "": more may be.
func (c *Cluster) crowded(open int) string {
	if most := c.Settings.MaxSubmitted; most > 0 && open >= most {
		return fmt.Sprintf("cluster %s has %d jobs, max_submitted of [executors.%s] is %d", c.Name, open, c.Name, most)
	}
	if b, is := c.Engine.(bounded); is && open >= b.Slots() {
		return fmt.Sprintf("cluster %s has %d jobs on %d slots", c.Name, open, b.Slots())
	}
	return ""
}

// pace waits until the site allows another submission.
func (d *delivery) pace() {
	rate := d.c.Settings.SubmitRate
	if rate <= 0 {
		return
	}
	if info, err := d.lock.Stat(); err == nil {
		select {
		case <-d.ctx.Done():
		case <-time.After(min(time.Second/time.Duration(rate)-time.Since(info.ModTime()), time.Second)):
		}
	}
	_ = sys.Touch(d.lock.Name())
}

// open returns how many jobs in a list have not ended.
func (c *Cluster) open(list listing) (n int) {
	for name, j := range list.jobs {
		if !j.ended() && c.ours(name) {
			n++
		}
	}
	return n
}

func (d *delivery) submitted(e errand, o order, id string) {
	o.Job, o.Said, o.Refused, o.Next = id, "", 0, time.Time{}
	if err := writeJSON(d.c.Files.OrderFile(e.attempt), o); err == nil { // else it is found by its name
		d.c.seenTo(e)
	}
}

// doubt notes a refusal that may or may not pass.
func (d *delivery) doubt(e errand, o order, said string) {
	if o.Refused >= len(tryAgain) {
		d.refuse(e, fmt.Sprintf("cluster %s refused it %d times: %s", d.c.Name, o.Refused+1, said))
		return
	}
	o.Next = time.Now().Add(tryAgain[o.Refused])
	o.Said, o.Refused = said, o.Refused+1
	_ = writeJSON(d.c.Files.OrderFile(e.attempt), o)
	d.putOff(o.Next)
}

// refuse ends an attempt that the cluster does not take. If the cluster has accepted it
// all the same, it does not start.
func (d *delivery) refuse(e errand, why string) {
	if err := d.c.record(e.attempt, refused(why)); err == nil {
		d.c.seenTo(e)
		d.over = true
	}
}

// closure says that a cluster takes no more jobs for a while.
type closure struct {
	Until time.Time     `json:"until"`
	Said  string        `json:"said"`
	Pause time.Duration `json:"pause_ns"`
}

func (c *Cluster) closedFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".full") }

// closed returns until when, and why, the cluster takes no more jobs. Until is zero once that is over.
func (c *Cluster) closed() (f closure) {
	_ = readJSON(c.closedFile(), &f) // without a file it is zero
	if now := time.Now(); !now.Before(f.Until) || ahead(f.Until.Add(-f.Pause), now) {
		f.Until = time.Time{}
	}
	return f
}

// close submits no more jobs to the cluster for a while, which doubles each time in a row.
func (c *Cluster) close(said string) time.Time {
	f := c.closed()
	f.Pause = min(max(2*f.Pause, firstPause), mostPause)
	f.Until, f.Said = time.Now().Add(f.Pause), said
	_ = writeJSON(c.closedFile(), f)
	return f.Until
}

func (c *Cluster) reopen() { _ = os.Remove(c.closedFile()) }

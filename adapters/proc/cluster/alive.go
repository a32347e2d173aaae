package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/kernel"
)

// evidence is what is known of an attempt when it is judged.
type evidence struct {
	ended     bool          // its outcome is on record
	host      string        // where it was claimed; "": it was not
	began     time.Time     // when, if that is known
	void      string        // why it was voided; "": it was not
	ordered   bool          // its order exists
	posted    bool          // it is still in the outbox
	said      string        // why it is not submitted yet; "": for no special reason
	packed    bool          // a pilot has it; then job is the pilot's
	advice    string        // how to keep its pilot's end from cutting it off
	submitted string        // the cluster's id for it, once it was submitted
	age       time.Duration // of the order
	held      bool          // its runner holds its lock
	silent    time.Duration // since its runner was last heard of
	noLocks   bool          // the shared file system has no locks: a free one means nothing
	lease     time.Duration

	asked       bool   // the cluster was asked after the order was written or, if it began, after its runner was last heard of
	unreachable string // why the cluster cannot be asked at the moment
	cut         bool   // only the part of the cluster that has this attempt cannot be asked
	job         *Job   // the attempt's job in the latest answer; nil: it has none
}

// judgement is what follows from the evidence. void and lost must be recorded
// before anyone is told: void by taking the claim, lost by recording the end.
type judgement struct {
	runner kernel.Runner
	unseen string
	void   string
	lost   *kernel.Result
}

// margin is how much longer than its lease a runner counts as alive: it needs
// the time to end its command.
const margin = 15 * time.Second

// judge decides whether an attempt on cluster lives or is over. It never concludes
// the end from an engine that does not answer.
func (e evidence) judge(cluster string) judgement {
	alive := func(remark string) judgement {
		return judgement{runner: kernel.Runner{Liveness: kernel.Alive, Remark: remark, Pending: e.host == "", Began: e.began}}
	}
	switch {
	case e.ended:
		return judgement{runner: kernel.Runner{Liveness: kernel.Dead}}
	case strings.HasPrefix(e.void, takenOff): // the process that took the claim has not recorded the end yet, or died
		return judgement{lost: cancelled(e.void)}
	case strings.HasPrefix(e.void, notTaken):
		return refused(strings.TrimPrefix(e.void, notTaken))
	case e.void != "":
		return judgement{runner: kernel.Runner{Liveness: kernel.NeverStarted, Remark: e.void}}
	case e.host == "" && !e.ordered && e.age > submitting:
		return judgement{void: "its order for cluster " + cluster + " was lost"}
	case e.host == "" && (!e.ordered || e.posted):
		return alive(cmp.Or(e.said, e.unreachable, "being submitted to cluster "+cluster))
	case e.host == "":
		return e.waiting(cluster, alive)
	default:
		return e.begun(cluster, alive)
	}
}

// waiting judges an attempt that was submitted and has not begun.
func (e evidence) waiting(cluster string, alive func(string) judgement) judgement {
	switch {
	case e.cut && e.age > e.lease+margin:
		return judgement{void: e.unreachable + ", and it had not begun"}
	case e.job == nil && e.unreachable != "":
		return alive(e.unreachable)
	case e.job == nil && (!e.asked || e.submitted == "" && e.age < submitting):
		return alive("submitted to cluster " + cluster)
	case e.job == nil && e.submitted == "":
		return judgement{void: "its submission to cluster " + cluster + " was cut off"}
	case e.job == nil:
		return judgement{void: fmt.Sprintf("cluster %s forgot it before it began (its job was %s)", cluster, e.submitted)}
	case e.job.waits():
		v := alive(fmt.Sprintf("pending on cluster %s%s (its job is %s)", cluster, e.job.because(": "), e.job.ID))
		if e.job.State == Stuck {
			v.runner.Stuck = true
			v.runner.Remark += ", which does not pass by itself"
		}
		if e.unreachable != "" {
			v.runner.Remark += "; now " + e.unreachable
		}
		return v
	case !e.job.ended():
		return alive(fmt.Sprintf("starting on cluster %s (its job is %s)", cluster, e.job.ID))
	case e.job.State == Cancelled && e.job.Node == "": // it was in the queue; on a node, a reused id may be the reason
		why := fmt.Sprintf(takenOff+"%s by its owner or an administrator before it began (its job was %s)", cluster, e.job.ID)
		return judgement{void: why, lost: cancelled(why)}
	default:
		return judgement{void: fmt.Sprintf("cluster %s ended it before it began (job %s: %s%s): see its runner log, and whether its nodes see the repository",
			cluster, e.job.ID, e.job.called(), e.job.because(", "))}
	}
}

// takenOff begins the note in the claim of an attempt that was cancelled on the cluster.
// An attempt that was voided for another reason is submitted anew.
const takenOff = "taken off cluster "

// notTaken begins the note in the claim of an attempt that the cluster will never
// take.
const notTaken = "never taken: "

// refused ends an attempt that the cluster will never take.
func refused(why string) judgement {
	return judgement{void: notTaken + why,
		lost: &kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.RejectedByHost, Reason: why}}
}

func cancelled(why string) *kernel.Result {
	return &kernel.Result{Outcome: kernel.OutcomeCancelled, Exit: 143, Reason: why}
}

// begun judges an attempt that has a runner and no outcome.
func (e evidence) begun(cluster string, alive func(string) judgement) judgement {
	at := "on node " + e.host + " of cluster " + cluster
	gone := e.job != nil && e.job.ended() || e.asked && e.job == nil
	late := e.silent > e.lease+margin
	switch {
	case e.held && !e.noLocks || e.noLocks && e.silent <= e.lease:
		return alive(e.beyond(at))
	case gone && (late || !e.noLocks):
		return judgement{lost: e.end(at)}
	case late && e.unreachable != "":
		return judgement{unseen: e.unreachable}
	case late && e.asked && !e.noLocks:
		return judgement{lost: e.end(at)} // there is no runner, whatever the state of its job
	case late && e.asked:
		return judgement{runner: kernel.Runner{Liveness: kernel.Stalled, Began: e.began,
			Remark: fmt.Sprintf("%s: nothing was heard of its runner for %s", at, e.silent.Round(time.Second))}}
	default:
		return alive(at + ": its runner is being looked for")
	}
}

// beyond returns a remark on a runner that is alive although the cluster is done
// with its job; "" if it is not. If the job ended normally, there is a result that
// this host does not see yet.
func (e evidence) beyond(at string) string {
	switch {
	case e.job == nil || !e.job.ended():
		return ""
	case e.job.State == Succeeded || e.job.State == Failed:
		return fmt.Sprintf("%s: its job %s has ended, and its result is not seen here yet", at, e.job.ID)
	case e.noLocks:
		return fmt.Sprintf("%s: its job %s is %s, but its runner was heard of %s ago", at, e.job.ID, e.job.called(), e.silent.Round(time.Second))
	default:
		return fmt.Sprintf("%s: its job %s is %s, but its runner lives", at, e.job.ID, e.job.called())
	}
}

// end returns the result of an attempt whose runner ended without a result.
func (e evidence) end(at string) *kernel.Result {
	r := kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost, Reason: "its runner " + at + " ended without a result",
		Place: kernel.Place{Host: e.host}, Started: e.began}
	if e.job == nil || !e.job.ended() {
		return &r
	}
	if !e.packed { // a pilot's figures are not those of one attempt
		r.Place.Used = e.job.used()
		if took := e.job.took(); took > 0 && !e.began.IsZero() {
			r.Ended = kernel.Timestamp(e.began.Add(took))
		}
	}
	said := fmt.Sprintf(" (job %s: %s)", e.job.ID, e.job.called())
	r.Reason += said
	if e.packed && e.job.State == Cancelled { // its pilot was cancelled, not the attempt
		return &r
	}
	switch e.job.State { //nolint:exhaustive // the others tell no more
	case Timeout:
		r.Exit, r.Class, r.Reason = 124, kernel.Timeout, "ended "+at+" by its time limit"+said
		if e.packed {
			r.Reason = "ended " + at + " by the time limit of its pilot" + said + e.advice
		}
	case OutOfMemory:
		r.Exit, r.Class, r.Reason = 137, kernel.OutOfMemory, "ended "+at+" for want of memory"+said
	case Preempted:
		r.Exit, r.Class, r.Reason = 143, kernel.Preempted, "preempted "+at+said
	case Cancelled:
		r.Outcome, r.Exit, r.Class = kernel.OutcomeCancelled, 143, kernel.NoFailure
		r.Reason = "taken off " + at + " by its owner or an administrator" + said
	}
	return &r
}

// Alive returns what is known of each attempt. It does not ask the cluster: it uses the
// files and the cluster's latest answer. Before it reports that an attempt is over, it
// takes the claim or records the end, unless another process was first.
func (c *Cluster) Alive(_ context.Context, attempts []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	facts := make(map[kernel.AttemptID]kernel.Fact[kernel.Runner], len(attempts))
	if len(attempts) == 0 {
		return facts
	}
	l := look{c: c, now: c.clock(), list: c.recorded(), closed: c.closed(), blind: c.Blind != nil && c.Blind()}
	if ahead(l.list.asked, l.now) { // else it would count as newer than all that happens
		l.list.asked = time.Time{}
	}
	l.open = c.open(l.list)
	if reason, is := c.away(); is {
		l.unreachable = fmt.Sprintf("cluster %s: %v: %s", c.Name, errAway, reason)
	}
	for _, a := range attempts {
		facts[a] = l.judge(a)
	}
	c.keepOnly(attempts)
	return facts
}

// look is one call of Alive.
type look struct {
	c           *Cluster
	now         time.Time // by the clock of the files
	list        listing
	open        int // jobs that the cluster has
	closed      closure
	blind       bool // locks are not seen here
	unreachable string
	pilots      string // what a packed attempt waits for; "": not asked yet
}

func (l *look) judge(a kernel.AttemptID) kernel.Fact[kernel.Runner] {
	e, err := l.evidence(a)
	if err != nil {
		return kernel.Unseen[kernel.Runner](err.Error())
	}
	v := e.judge(l.c.Name)
	if v.void != "" || v.lost != nil {
		if err := l.c.record(a, v); err != nil {
			return kernel.Unseen[kernel.Runner](err.Error())
		}
		if e, err = l.evidence(a); err != nil {
			return kernel.Unseen[kernel.Runner](err.Error())
		}
		if v = e.judge(l.c.Name); v.void != "" || v.lost != nil { // another process was first, and this host does not see that yet
			v = judgement{runner: kernel.Runner{Liveness: kernel.Alive}}
		}
	}
	if v.unseen != "" {
		return kernel.Unseen[kernel.Runner](v.unseen)
	}
	return kernel.Seen(v.runner)
}

// evidence reads the files of a. If its runner is gone, it looks for the outcome last: so it
// does not miss one that the runner wrote before it ended.
func (l *look) evidence(a kernel.AttemptID) (evidence, error) {
	c := l.c
	e := evidence{noLocks: c.Settings.NoLocks || l.blind, lease: c.Settings.lease(), unreachable: l.unreachable}
	if e.ended = c.ended(a); e.ended {
		return e, nil
	}
	claim, err := c.Local.Claimed(a)
	if err != nil {
		return e, err
	}
	e.host, e.void, e.began = claim.Host, claim.Void, claim.Began
	name, since := c.jobName(a), l.now
	switch o, err := c.orderFile(a); {
	case err == nil:
		since = l.changed(c.Files.OrderFile(a), time.Unix(0, o.of.Modified))
		e.age = l.now.Sub(since)
		name = cmp.Or(o.Pilot, o.Name, name)
		e.ordered, e.submitted, e.packed, e.advice, e.noLocks, e.lease = true, o.Job, o.Pilot != "", o.unlimited(), o.NoLocks || l.blind, o.Lease
		if e.posted = c.posted(a); e.posted {
			e.said = l.held(o.order)
		}
	case !errors.Is(err, os.ErrNotExist):
		return e, err
	}
	if !e.ordered { // it was never written, or lost: as old as the job's directory
		if info, err := os.Lstat(filepath.Dir(filepath.Dir(c.Files.OrderFile(a)))); err == nil {
			if since = info.ModTime(); ahead(since, l.now) {
				since = time.Time{} // it has waited for long
			}
			e.age = l.now.Sub(since)
		}
	}
	if e.host != "" {
		at, _, err := beatOf(c.Files.BeatFile(a))
		if err != nil {
			return e, err
		}
		since = l.changed(c.Files.BeatFile(a), at)
		e.silent = l.now.Sub(since)
		if !e.noLocks {
			if e.held, err = proc.Locked(c.Files.BeatFile(a)); err != nil {
				return e, err
			}
		}
	}
	if j, known := l.list.jobs[name]; known && j.State != Unseen {
		e.job = &j
	} else if known && e.unreachable == "" {
		e.cut, e.unreachable = true, fmt.Sprintf("cluster %s: %s", c.Name, j.Reason)
	}
	e.asked = l.list.asked.After(since.Add(tick)) && e.unreachable == ""
	e.ended = e.host != "" && !e.held && c.ended(a)
	return e, nil
}

// changed returns when a file was last changed, which is at by its own time. If that is ahead, it counts as changed
// now, and the file gets that time: what is awaited after the change is awaited anew, and not for as much longer as the
// clock was set back.
func (l *look) changed(path string, at time.Time) time.Time {
	if !ahead(at, l.now) || os.Chtimes(path, l.now, l.now) != nil {
		return at
	}
	return l.now
}

// tick is longer than the step of any file system's clock.
const tick = 10 * time.Millisecond

// held returns why an order is not submitted yet, "" if there is no special reason.
func (l *look) held(o order) string {
	switch {
	case o.Refused > 0:
		return fmt.Sprintf("cluster %s refuses it: %s (tried %d of %d times)", l.c.Name, o.Said, o.Refused, len(tryAgain)+1)
	case !l.closed.Until.IsZero():
		return fmt.Sprintf("cluster %s takes no more jobs now: %s (asked again at %s)", l.c.Name, l.closed.Said, l.closed.Until.UTC().Format(time.RFC3339))
	case l.c.crowded(l.open) != "":
		return l.c.crowded(l.open)
	case o.Said != "":
		return fmt.Sprintf("cluster %s cannot take it now: %s", l.c.Name, o.Said)
	case o.Packed:
		if l.pilots == "" { // the same for all, and asked for hundreds
			l.pilots = l.awaited()
		}
		return l.pilots
	}
	return ""
}

// record records a judgement before it is reported. If another process was first, the
// judgement is out of date, which is no error.
func (c *Cluster) record(a kernel.AttemptID, v judgement) error {
	if v.void != "" {
		if err := c.Local.Void(a, v.void); err != nil {
			if errors.Is(err, kernel.ErrStale) {
				return nil
			}
			return err
		}
	}
	if v.lost == nil {
		return nil
	}
	r := *v.lost
	r.Attempt = a
	if now := kernel.Timestamp(time.Now()); r.Ended.IsZero() || r.Ended.After(now) {
		r.Ended = now
	}
	c.files.Lock()
	err := c.Conclude(r)
	c.files.Unlock()
	if errors.Is(err, kernel.ErrStale) {
		return nil
	}
	return err
}

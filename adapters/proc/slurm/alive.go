package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/kernel"
)

// evidence is what is known of an attempt when it is judged.
type evidence struct {
	ended     bool          // its outcome is on record
	host      string        // where it was claimed; "": nowhere
	void      string        // why it was voided; "": it was not
	ordered   bool          // it was meant to be submitted
	submitted string        // the cluster's number for it, once it was
	age       time.Duration // of the order
	held      bool          // its runner holds its lock
	silent    time.Duration // since its runner was last heard of
	noLocks   bool          // the shared file system has no locks: a free one means nothing
	lease     time.Duration

	asked       bool      // the cluster was asked
	unreachable string    // why it could not be
	job         *batchJob // what it said; nil: it knows of none
}

// judgement is what follows from the evidence. Void and lost must be recorded
// before anyone is told: void by taking the claim, lost by recording the end.
type judgement struct {
	runner kernel.Runner
	unseen string
	void   string
	lost   *kernel.Result
	ask    bool // the cluster's answer is needed first
}

// margin is how much longer than its lease a runner is waited for, which it
// uses to end its command.
const margin = 15 * time.Second

// judge decides whether an attempt on cluster lives or is over. It never takes a
// controller that does not answer for a sign of the end.
func (e evidence) judge(cluster string) judgement {
	alive := func(remark string) judgement {
		return judgement{runner: kernel.Runner{Liveness: kernel.Alive, Remark: remark}}
	}
	switch {
	case e.ended:
		return judgement{runner: kernel.Runner{Liveness: kernel.Dead}}
	case strings.HasPrefix(e.void, takenOff): // whoever took the claim has not recorded the end yet, or died
		return judgement{lost: cancelled(e.void)}
	case e.void != "":
		return judgement{runner: kernel.Runner{Liveness: kernel.NeverStarted, Remark: e.void}}
	case e.host == "" && !e.ordered:
		return alive("being submitted to cluster " + cluster)
	case !e.asked && e.unreachable == "":
		return judgement{ask: true}
	case e.host == "":
		return e.waiting(cluster, alive)
	default:
		return e.begun(cluster, alive)
	}
}

// waiting judges an attempt that has not begun.
func (e evidence) waiting(cluster string, alive func(string) judgement) judgement {
	switch {
	case e.unreachable != "":
		return judgement{unseen: e.unreachable}
	case e.job == nil && e.submitted == "" && e.age < submitting:
		return alive("being submitted to cluster " + cluster)
	case e.job == nil && e.submitted == "":
		return judgement{void: "its submission to cluster " + cluster + " was cut off"}
	case e.job == nil:
		return judgement{void: fmt.Sprintf("cluster %s forgot it before it began (its job was %s)", cluster, e.submitted)}
	case e.job.waits():
		return alive(fmt.Sprintf("pending on cluster %s: %s (its job is %s)", cluster, e.job.reason, e.job.id))
	case !e.job.ended():
		return alive(fmt.Sprintf("starting on cluster %s (its job is %s)", cluster, e.job.id))
	case e.job.state == "CANCELLED" && e.job.node == "": // from the queue; on a node a reused number may be the reason
		why := fmt.Sprintf(takenOff+"%s by scancel or its administrator before it began (its job was %s)", cluster, e.job.id)
		return judgement{void: why, lost: cancelled(why)}
	default:
		return judgement{void: fmt.Sprintf("cluster %s ended it before it began (job %s: %s, %s): see its runner log, and whether its nodes see the repository",
			cluster, e.job.id, e.job.state, e.job.reason)}
	}
}

// takenOff begins what the claim of an attempt says that is over with it, instead
// of being there to be submitted anew.
const takenOff = "taken off cluster "

func cancelled(why string) *kernel.Result {
	return &kernel.Result{Outcome: kernel.OutcomeCancelled, Exit: 143, Reason: why}
}

// begun judges an attempt that has a runner and no outcome.
func (e evidence) begun(cluster string, alive func(string) judgement) judgement {
	at := "on node " + e.host + " of cluster " + cluster
	gone := e.asked && (e.job == nil || e.job.ended())
	late := e.silent > e.lease+margin
	switch {
	case e.held && !e.noLocks || e.noLocks && e.silent <= e.lease:
		if gone && e.job != nil {
			return alive(fmt.Sprintf("%s: its job %s is %s, but its runner lives", at, e.job.id, e.job.state))
		}
		return alive("")
	case gone && (late || !e.noLocks):
		return judgement{lost: e.end(at)}
	case late && e.unreachable != "":
		return judgement{unseen: e.unreachable}
	case late && !e.noLocks:
		return judgement{lost: e.end(at)} // no runner, whatever its batch job does
	case late:
		return judgement{runner: kernel.Runner{Liveness: kernel.Stalled,
			Remark: fmt.Sprintf("%s: nothing was heard of its runner for %s", at, e.silent.Round(time.Second))}}
	default:
		return alive(at + ": its runner is being looked for")
	}
}

// end is the result of an attempt whose runner is gone without one.
func (e evidence) end(at string) *kernel.Result {
	r := kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost, Reason: "its runner " + at + " ended without a result"}
	if e.job == nil || !e.job.ended() {
		return &r
	}
	said := fmt.Sprintf(" (job %s: %s)", e.job.id, e.job.state)
	switch r.Reason += said; e.job.state {
	case "TIMEOUT", "DEADLINE":
		r.Exit, r.Class, r.Reason = 124, kernel.Timeout, "ended "+at+" by its time limit"+said
	case "OUT_OF_MEMORY":
		r.Exit, r.Class, r.Reason = 137, kernel.OutOfMemory, "ended "+at+" for want of memory"+said
	case "CANCELLED":
		r.Outcome, r.Exit, r.Class = kernel.OutcomeCancelled, 143, kernel.NoFailure
		r.Reason = "taken off " + at + " by scancel or its administrator" + said
	}
	return &r
}

// Alive tells what is known of each attempt. It reads the files first and asks the
// cluster second, so that the cluster's answer is newer. Before it tells that an
// attempt is over it records that: it takes the claim, or records the end, unless
// another process was first.
func (c *Cluster) Alive(ctx context.Context, attempts []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	facts := make(map[kernel.AttemptID]kernel.Fact[kernel.Runner], len(attempts))
	if len(attempts) == 0 {
		return facts
	}
	l := &query{c: c, ctx: ctx, now: c.clock()}
	known := make([]evidence, 0, len(attempts))
	for _, a := range attempts {
		e, err := c.evidence(a, l.now)
		if err != nil {
			facts[a] = kernel.Unseen[kernel.Runner](err.Error())
		}
		known = append(known, e)
	}
	l.begun = time.Now()
	for i, a := range attempts {
		if _, failed := facts[a]; !failed {
			facts[a] = l.judge(a, known[i])
		}
	}
	return facts
}

// query is one call of Alive.
type query struct {
	c     *Cluster
	ctx   context.Context //nolint:containedctx // of one call
	begun time.Time       // after the files were read
	now   time.Time       // by the clock of the files

	list        listing
	asked       bool
	unreachable string
}

func (l *query) judge(a kernel.AttemptID, e evidence) kernel.Fact[kernel.Runner] {
	v := e.judge(l.c.Name)
	if v.ask {
		l.ask(&e, l.c.jobName(a))
		v = e.judge(l.c.Name)
	}
	if v.void != "" || v.lost != nil {
		if err := l.c.record(a, v); err != nil {
			return kernel.Unseen[kernel.Runner](err.Error())
		}
		var err error
		if e, err = l.c.evidence(a, l.now); err != nil {
			return kernel.Unseen[kernel.Runner](err.Error())
		}
		if v = e.judge(l.c.Name); v.ask { // it began after all
			v = judgement{runner: kernel.Runner{Liveness: kernel.Alive}}
		}
	}
	if v.unseen != "" {
		return kernel.Unseen[kernel.Runner](v.unseen)
	}
	return kernel.Seen(v.runner)
}

// ask adds what the cluster says of the batch job of that name. A list that is a
// second old will do if it has the job; that there is none must be a new answer.
func (l *query) ask(e *evidence, name string) {
	if !l.asked {
		list, err := l.c.list(l.ctx, l.begun.Add(-time.Second))
		l.take(list, err)
	}
	if j, known := l.list.jobs[name]; (!known || j.ended()) && l.unreachable == "" && l.list.asked.Before(l.begun) {
		list, err := l.c.list(l.ctx, time.Now())
		l.take(list, err)
	}
	e.asked, e.unreachable = l.unreachable == "", l.unreachable
	if j, known := l.list.jobs[name]; known && e.asked {
		e.job = &j
	}
}

func (l *query) take(list listing, err error) {
	l.asked, l.list = true, list
	if err != nil {
		l.unreachable = err.Error()
	}
}

// evidence reads the files of a. It reads the outcome last: if everything else says
// that the runner is gone, an outcome that it has written is not missed.
func (c *Cluster) evidence(a kernel.AttemptID, now time.Time) (evidence, error) {
	e := evidence{noLocks: c.Settings.NoLocks, lease: c.Settings.lease()}
	if e.ended = c.ended(a); e.ended {
		return e, nil
	}
	var err error
	if e.host, e.void, err = c.Local.Claimed(a); err != nil {
		return e, err
	}
	switch o, err := c.order(a); {
	case err == nil:
		e.ordered, e.submitted, e.noLocks, e.lease = true, o.Job, o.NoLocks, o.Lease
	case !errors.Is(err, os.ErrNotExist):
		return e, err
	}
	if info, err := os.Lstat(c.Files.OrderFile(a)); err == nil {
		e.age = now.Sub(info.ModTime())
	}
	if e.host != "" {
		at, _, err := beatOf(c.Files.BeatFile(a))
		if err != nil {
			return e, err
		}
		e.silent = now.Sub(at)
		if !e.noLocks {
			if e.held, err = proc.Locked(c.Files.BeatFile(a)); err != nil {
				return e, err
			}
		}
	}
	e.ended = c.ended(a)
	return e, nil
}

// record records a judgement, before anybody is told of it. If another process was
// first, the judgement is out of date, which is no error.
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
	r.Attempt, r.Ended = a, time.Now().UTC().Truncate(time.Microsecond)
	c.files.Lock()
	err := c.Conclude(r)
	c.files.Unlock()
	if errors.Is(err, kernel.ErrStale) {
		return nil
	}
	return err
}

package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Explanation says why a job is not running and what would start it.
type Explanation struct {
	Job     JobID
	Status  Status
	Since   time.Time // how long the first unmet gate has held it up; zero: unknown
	Unmet   []Unmet   // every unmet condition, in gate order
	Actions []Remedy  // the smallest set that would start the job; empty: it needs nobody
	Root    *RootFailure
}

// Unmet is one condition that does not hold.
type Unmet struct {
	Kind     WaitKind
	Detail   string // the scheduler's own words
	Final    bool   // it blocks: it never clears by itself
	Job      JobID  // the job it is about, if any
	Artifact Artifact
	Clears   string // who or what can clear it, in words
}

// Remedy is something a person can do.
type Remedy struct {
	Command []string // arguments of vizier; empty: Text says what to do
	Text    string
}

// RootFailure is the job whose failure a blocked job goes back to.
type RootFailure struct {
	Job    JobID
	Status Status
	Detail string
}

// Explain computes every unmet gate of a job by the code that decides.
func Explain(s *Snapshot, id JobID) (Explanation, error) {
	_, s = settle(s)
	i, ok := s.find(id)
	if !ok {
		return Explanation{}, fmt.Errorf("explain %s: %w", id, ErrNotFound)
	}
	t := newTick(s)
	t.watch = i
	t.judgeAll()
	x := explainer{t: t, seen: map[int32]bool{}}
	e := Explanation{Job: id, Status: s.jobs[i].State.Status, Since: s.jobs[i].State.WaitSince}
	switch st := s.jobs[i].State; {
	case st.Status == Running:
		e.Unmet = heldUp(s.facts.Runners[s.jobs[i].Attempt()])
	case st.Status == Unscheduled && t.at(i) == Unscheduled:
		e.Unmet = []Unmet{x.asleep(s.jobs[i])}
	case t.at(i) == Queued, st.Status == Queued && st.Refused > 0: // it was refused, and asks again, at once or after a while
		e.Unmet = []Unmet{{Detail: "its last launch was refused: " + st.Reason, Clears: "time: tried again " + again(st.RetryAt)}}
	case st.Status == FailedRetryable && s.now.Before(st.RetryAt):
		e.Unmet = []Unmet{{Detail: "next attempt at " + st.RetryAt.Format(time.RFC3339) + " after: " + orElse(st.Reason, st.Failure.String()), Clears: "time"}}
	case st.Status == Failed, st.Status == Cancelled:
		e.Root = &RootFailure{id, st.Status, orElse(st.Reason, st.Status.String())}
		x.add(Remedy{Command: []string{"jobs", "retry", string(id)}})
	case st.Status != Succeeded:
		e.Unmet = x.unmet(i)
		x.remedies(i)
		if st.Status.Terminal() {
			e.Root = x.root(i)
		}
	}
	e.Actions = x.actions
	return e, nil
}

func again(at time.Time) string {
	if at.IsZero() {
		return "soon"
	}
	return "at " + at.Format(time.RFC3339)
}

// heldUp is what an executor says of an attempt that it was given.
func heldUp(r Fact[Runner]) []Unmet {
	switch {
	case r.Err != "":
		return []Unmet{{Detail: "its runner cannot be asked for: " + r.Err, Clears: "its executor, once it can be asked again"}}
	case r.Value.Remark != "":
		return []Unmet{{Detail: r.Value.Remark, Clears: "its executor"}}
	case r.Value.Liveness == Stalled:
		return []Unmet{{Detail: "its runner has not been heard of for longer than it should be", Clears: "its executor, once it is heard of or known to be gone"}}
	}
	return nil
}

// Remark is what a running job's executor says that holds its attempt up, as far
// as it was asked; else "".
func (s *Snapshot) Remark(id JobID) string {
	j := s.Job(id)
	if j == nil || j.State.Status != Running {
		return ""
	}
	for _, u := range heldUp(s.facts.Runners[j.Attempt()]) {
		return u.Detail
	}
	return ""
}

type explainer struct {
	t       *tick
	seen    map[int32]bool
	actions []Remedy
}

func (x *explainer) add(r Remedy) {
	if !slices.ContainsFunc(x.actions, func(have Remedy) bool {
		return slices.Equal(have.Command, r.Command) && (len(r.Command) > 0 || have.Text == r.Text)
	}) {
		x.actions = append(x.actions, r)
	}
}

func (x *explainer) asleep(j *Job) Unmet {
	if j.Spec.Routed {
		return Unmet{Detail: "sleeps until a route starts it", Clears: "a node that ends with the outcome its route names"}
	}
	return Unmet{Detail: "nobody needs it", Clears: "a job that depends on it and is not transient"}
}

// unmet lists the conditions of job i that do not hold. Its place in the queue
// for locks is the one it has in this tick.
func (x *explainer) unmet(i int32) []Unmet {
	locks := x.t.locks
	if x.t.watch == i {
		x.t.locks = x.t.watched
	}
	defer func() { x.t.locks = locks }()
	var out []Unmet
	for _, g := range gates {
		for from := 0; ; {
			v, next := g.check(x.t, i, from)
			if v.outcome == passed {
				break
			}
			from = next
			out = append(out, Unmet{g.kind, v.detail, v.outcome == blocked, v.job, v.artifact, x.clears(i, g.kind, v)})
		}
	}
	if len(x.t.s.jobs[i].Spec.Task.Args) == 0 {
		out = append(out, Unmet{Kind: OnDependencies, Detail: "missing child args", Final: true, Clears: "a new submission: this record has no command"})
	}
	return out
}

func (x *explainer) clears(i int32, k WaitKind, v verdict) string {
	switch {
	case v.outcome == blocked && k == OnApproval && x.t.s.jobs[i].State.Approval.Doubt:
		return "a retry"
	case v.outcome == blocked && k == OnApproval:
		return "a retry, which asks for the approval anew"
	case v.outcome == blocked && v.job != "":
		return "a retry of what failed"
	case v.outcome == blocked && k == OnDependencies:
		return "a job that produces it, then a retry"
	case v.outcome == blocked:
		return "a new submission"
	case v.job != "":
		return "job " + x.describe(v.job)
	case k == OnDependencies && strings.HasPrefix(v.detail, "awaiting"):
		return "any job that produces it"
	case k == OnApproval:
		return "a person"
	case k == OnLocks:
		return x.holders(i)
	case k == OnPinnedHead:
		p := x.t.s.jobs[i].Spec.Pinned
		return "branch " + p.Branch + " at " + string(p.Commit)
	default:
		return "the repository"
	}
}

func (x *explainer) describe(id JobID) string {
	j := x.t.s.Job(id)
	if j == nil {
		return string(id)
	}
	return j.label() + ", " + j.State.Status.String()
}

// holders names the running jobs, and the older waiting ones, whose locks keep
// job i out.
func (x *explainer) holders(i int32) string {
	mine := x.t.s.jobs[i].Spec.Locks
	var names []string
	running := 0
	for k, j := range x.t.s.jobs {
		if x.t.at(int32(k)) == Running {
			running++
		}
		holds := x.t.at(int32(k)) == Running || x.t.at(int32(k)) == WaitingOnLocks && int32(k) < i
		if int32(k) == i || !holds {
			continue
		}
		for _, l := range j.Spec.Locks {
			if slices.ContainsFunc(mine, func(m Lock) bool {
				return m.Key == l.Key && m.Pool() == l.Pool() && (m.Pool() || m.Mode == Exclusive || l.Mode == Exclusive)
			}) {
				names = append(names, x.describe(j.ID)+" ("+l.Key+")")
				break
			}
		}
	}
	if len(names) == 0 {
		return strconv.Itoa(running) + " running jobs: the next that ends makes room"
	}
	return "job " + strings.Join(names, "; ")
}

// remedies collects what a person must do before job i can start: its own
// unmet conditions and, where it waits for other jobs, theirs.
func (x *explainer) remedies(i int32) {
	if x.seen[i] {
		return
	}
	x.seen[i] = true
	j := x.t.s.jobs[i]
	switch st := x.t.at(i); {
	case st == Failed || st == Cancelled || st == BlockedByApproval || st == BlockedByDependency && j.State.Outcome == OutcomeBlocked:
		x.add(Remedy{Command: []string{"jobs", "retry", string(j.ID)}})
		if st == BlockedByApproval && !j.State.Approval.Doubt {
			x.add(Remedy{Command: []string{"jobs", "approve", string(j.ID)}})
		}
		return
	case st == Running || st == Succeeded || st == FailedRetryable:
		return
	}
	for _, u := range x.unmet(i) {
		x.remedy(i, u)
	}
}

func (x *explainer) remedy(i int32, u Unmet) {
	j := x.t.s.jobs[i]
	switch u.Kind {
	case OnDependencies:
		if k, ok := x.t.s.find(u.Job); ok {
			if x.t.at(k) == Succeeded { // it ended well without what it declared
				x.add(Remedy{Command: []string{"jobs", "retry", string(u.Job)}})
				return
			}
			x.remedies(k)
			return
		}
		switch {
		case u.Job != "" && x.t.s.unreadable[u.Job] != "":
			x.add(Remedy{Text: "mend the record of job " + string(u.Job) + ": " + x.t.s.unreadable[u.Job]})
		case u.Job != "":
			x.add(Remedy{Text: "submit the work again: the record of job " + string(u.Job) + " is gone"})
		case u.Artifact.Name != "":
			x.add(Remedy{Text: "queue a job that produces " + u.Artifact.String()})
		}
		if u.Final {
			x.add(Remedy{Command: []string{"jobs", "retry", string(j.ID)}})
		}
	case OnPinnedHead:
		x.add(Remedy{Text: "move branch " + j.Spec.Pinned.Branch + " to " + string(j.Spec.Pinned.Commit)})
	case OnPreconditions:
		x.add(Remedy{Text: "clear the precondition: " + u.Detail})
	case OnApproval:
		x.add(Remedy{Command: []string{"jobs", "approve", string(j.ID)}})
	}
}

// root follows what blocks job i back to the first job that failed by itself.
func (x *explainer) root(i int32) *RootFailure {
	for range x.t.s.jobs {
		j := x.t.s.jobs[i]
		st := x.t.at(i)
		if st != BlockedByDependency {
			return &RootFailure{j.ID, st, orElse(j.State.Reason, orElse(j.State.Wait.Detail, st.String()))}
		}
		next := int32(-1)
		var own Unmet
		for _, u := range x.unmet(i) {
			if !u.Final {
				continue
			}
			own = u
			if k, ok := x.t.s.find(u.Job); ok && x.t.at(k).Terminal() && x.t.at(k) != Succeeded {
				next = k
				break
			}
		}
		if next < 0 {
			return &RootFailure{j.ID, st, orElse(j.State.Reason, orElse(own.Detail, j.State.Wait.Detail))}
		}
		i = next
	}
	return nil
}

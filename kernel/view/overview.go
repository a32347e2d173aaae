package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Overview is the state of everything at a glance: what needs a person, what
// runs, what waits and for what, and what failed lately. Its JSON is
// docs/schemas/status.schema.json.
type Overview struct {
	Attention   []Item       `json:"attention"` // what needs a person, the longest first
	Running     []Item       `json:"running"`   // in the order in which they started
	Places      int          `json:"places"`    // how many jobs may run on this machine at once; 0: no limit
	Waiting     []Item       `json:"waiting"`   // in schedule order, without what only waits for an item of Attention in its own run
	Failed      []Item       `json:"failed"`    // the newest first
	FailedSince time.Time    `json:"failed_since"`
	Unreadable  []Unreadable `json:"unreadable,omitempty"`
}

// Item is a line of an overview: a job, a run or a prompt.
type Item struct {
	Reference
	Job       kernel.JobID     `json:"job,omitempty"` // the job, or the one of a run that the line is about
	Run       kernel.RunID     `json:"run,omitempty"`
	Name      string           `json:"name"`
	Status    string           `json:"status,omitempty"` // how the job stands, see Standing
	Kind      kernel.Attention `json:"kind,omitempty"`   // why it needs a person
	Since     *time.Time       `json:"since,omitempty"`  // when it began to need a person, to run or to wait, or when it failed
	Until     *time.Time       `json:"until,omitempty"`  // when it continues by itself
	What      string           `json:"what,omitempty"`   // what runs, what it waits for, or why it failed
	Done      int              `json:"done,omitempty"`   // of a run: jobs that succeeded
	Total     int              `json:"total,omitempty"`  // of a run; 0: a single job, or not counted
	Remaining int64            `json:"remaining_seconds,omitempty"`
	ETA       *ETA             `json:"eta,omitempty"`          // when it is expected to end; null: not known
	Took      int64            `json:"took_seconds,omitempty"` // of what failed
	ExitCode  *int             `json:"exit_code,omitempty"`    // of what failed
	Command   []string         `json:"command,omitempty"`      // what to type
	File      string           `json:"file,omitempty"`         // of a prompt
}

// ETA is when something is expected to end, and what the estimate is based on:
// a declared duration, or the history of so many attempts.
type ETA struct {
	At    time.Time `json:"at"`
	Basis string    `json:"basis"`
	From  int       `json:"from,omitempty"`
}

// In returns e for people, relative to now.
func (e *ETA) In(now time.Time) string {
	text := "eta " + kernel.Brief(max(0, e.At.Sub(now)))
	if e.From > 0 {
		return text + " (of " + count(e.From) + " before)"
	}
	return text + " (declared)"
}

// OverviewOptions are what an overview needs besides the records.
type OverviewOptions struct {
	FailedSince time.Time // earlier failures are left out
	Prompts     []RefusedPrompt

	// Wholes are the tallies of all jobs of the runs with these numbers,
	// including jobs that the snapshot leaves out. A run without an entry is
	// not counted.
	Wholes map[kernel.Number]kernel.Tally

	// Progress returns the last progress that a running attempt reported; nil:
	// progress is not shown.
	Progress func(kernel.AttemptID) Progress

	// Idle is why nothing starts a job that nothing holds up; "": something does.
	Idle string
}

// RefusedPrompt is a prompt in an inbox that could not be made into a run.
type RefusedPrompt struct {
	Path    string // of the file
	Again   string // the file name under which it would be tried again; "": it has that name
	Tracked string // what git is to track no more before it runs; "": nothing
	Why     string
	Since   time.Time
}

// next returns the command that helps.
func (p RefusedPrompt) next() []string {
	switch {
	case p.Tracked != "":
		return []string{"git", "rm", "--cached", "-f", "--", p.Tracked}
	case p.Again != "":
		return []string{"mv", p.Path, p.Again}
	}
	return []string{"vizier", "inbox", "status"}
}

// OverviewOf returns the overview of s. A runner counts as stalled if the
// snapshot's facts say so; see kernel.Liveness.
func OverviewOf(s *kernel.Snapshot, o OverviewOptions) Overview {
	x := overview{s: s, o: o, routed: slices.ContainsFunc(s.Jobs(), kernel.Near{Kind: kernel.Woken}.Selects), tells: map[kernel.JobID]telling{}}
	v := Overview{Attention: []Item{}, Running: []Item{}, Waiting: []Item{}, Failed: []Item{}, FailedSince: o.FailedSince, Unreadable: unreadable(s), Places: s.Limits().MaxRunning}
	for _, g := range x.groups() {
		var running, waiting []*kernel.Job
		stuck := map[kernel.JobID]bool{}
		for _, j := range g {
			item, needs := x.attention(j)
			if needs {
				v.Attention, stuck[j.ID] = append(v.Attention, item), true
			}
			switch st := j.State.Status; {
			case st == kernel.Running:
				running = append(running, j)
			case needs || j.State.Wait.Cause == kernel.JobNotEnded && stuck[j.State.Wait.Job]:
				stuck[j.ID] = true
			case st.Active():
				waiting = append(waiting, j)
			case x.failed(j):
				v.Failed = append(v.Failed, x.failure(j))
			}
		}
		switch {
		case len(running) > 0:
			v.Running = append(v.Running, x.running(running))
		case len(waiting) > 0:
			v.Waiting = append(v.Waiting, x.waiting(waiting))
		}
	}
	for _, p := range o.Prompts {
		v.Attention = append(v.Attention, Item{Name: line(p.Path), Kind: kernel.NeedsCorrection, Since: instant(p.Since), What: line(p.Why), File: p.Path, Command: p.next()})
	}
	slices.SortStableFunc(v.Attention, bySince)
	slices.SortStableFunc(v.Running, bySince)
	slices.SortStableFunc(v.Failed, func(a, b Item) int { return bySince(b, a) })
	return v
}

// bySince puts the oldest first, and before it what has no time.
func bySince(a, b Item) int {
	switch {
	case a.Since == nil && b.Since == nil:
		return 0
	case a.Since == nil:
		return -1
	case b.Since == nil:
		return 1
	}
	return a.Since.Compare(*b.Since)
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// overview makes the lines of an Overview.
type overview struct {
	s      *kernel.Snapshot
	o      OverviewOptions
	routed bool // a job that only a route starts is active: failures may yet be reversed

	tells map[kernel.JobID]telling // see told
	asked []kernel.JobID           // those of tells that are being found out
	again bool                     // the first of them was asked about again
}

// groups returns the jobs grouped by number, in schedule order.
func (x *overview) groups() (out [][]*kernel.Job) {
	at := map[kernel.Number]int{}
	for _, j := range x.s.Jobs() {
		k, known := at[j.Number]
		if !known || j.Number == 0 {
			k = len(out)
			at[j.Number], out = k, append(out, nil)
		}
		out[k] = append(out[k], j)
	}
	return out
}

// outgrown reports whether j waits for a larger pool on record, and the pool is larger
// now: nobody has ticked since.
func (x *overview) outgrown(j *kernel.Job) bool {
	return j.Needs() == kernel.NeedsPool && x.s.Asleep(j.ID)[j.ID] == ""
}

// outgrows returns that j, which waits for locks, asks for more units than a pool has now, or "". Its
// record may be older than the configuration.
func (x *overview) outgrows(j *kernel.Job) string {
	if j.State.Status != kernel.WaitingOnLocks {
		return ""
	}
	free := kernel.NewLockTable(x.s.Limits())
	why, _, cause := free.Denied(j.Spec.Task.On(), j.Spec.Locks)
	if cause != kernel.PoolTooSmall {
		return ""
	}
	return why
}

// pending reports whether the end of j is not final yet.
func (x *overview) pending(j *kernel.Job) bool { return x.routed && x.s.Pending(j.ID) != "" }

// item returns the line of a job by itself.
func (x *overview) item(j *kernel.Job) Item {
	return Item{Reference: ReferenceOf(j), Job: j.ID, Run: j.Spec.Origin.Run, Name: Title(j), Status: Standing(x.s, j)}
}

// NeedsYou reports whether j needs a person now, as an overview says it.
func NeedsYou(s *kernel.Snapshot, j *kernel.Job) bool {
	x := overview{s: s, routed: true}
	_, needs := x.attention(j)
	return needs
}

// FailedOrBlocked returns the jobs that a retry of all failed ones begins with. Among them are those that are blocked by themselves
// and need a person only for a retry, once what blocks them is seen to, such as changes in a checkout. A merge in conflict is
// not: somebody has to resolve that, and a retry would begin anew.
func FailedOrBlocked(s *kernel.Snapshot) (out []*kernel.Job) {
	x := overview{s: s, routed: true}
	resolvers := map[kernel.JobID]bool{}
	for _, j := range s.Jobs() {
		if gate := s.HandedOnTo(j); gate != nil && j.Needs() == kernel.NeedsResolution {
			resolvers[gate.ID] = true
		}
	}
	for _, j := range s.Jobs() {
		it, needs := x.attention(j)
		if j.State.Status == kernel.Failed || needs && it.Kind == kernel.NeedsUnblocking && it.Command[1] == "retry" && !resolvers[j.ID] {
			out = append(out, j)
		}
	}
	return out
}

// attention returns the line of what j needs a person for, if it needs one.
func (x *overview) attention(j *kernel.Job) (Item, bool) {
	st, it := &j.State, x.item(j)
	needs := func(kind kernel.Attention, since time.Time, what string, command ...string) (Item, bool) {
		it.Kind, it.Since, it.What = kind, instant(since), line(what)
		it.Command = append(append([]string{"vizier"}, command...), called(j))
		return it, true
	}
	switch kind := j.Needs(); {
	case st.Status == kernel.Running && st.Stop.At.IsZero():
		if r := x.s.Facts().Runners[j.Attempt()].Value; r.Liveness == kernel.Stalled {
			return needs(kernel.NeedsRunner, r.Heard, x.s.Remark(j.ID), "cancel")
		}
	case kind == "" && x.outgrows(j) != "":
		return needs(kernel.NeedsPool, st.WaitSince, x.outgrows(j), "why")
	case kind == "", st.Status.Terminal() && (x.pending(j) || x.s.HandedOn(j) || x.s.BlockedBy(j) != nil):
	case kind == kernel.NeedsApproval && st.Approval.Over(x.s.Now()): // the next tick ends it
	case kind == kernel.NeedsApproval:
		if at := st.Approval.ExpiresAt; !at.IsZero() {
			it.Until = &at
		}
		return needs(kind, st.WaitSince, byElse(x.s, j), "jobs", "approve")
	case st.Status == kernel.WaitingOnApproval:
		return needs(kind, st.WaitSince, strings.TrimSuffix(st.Wait.Detail+", "+byElse(x.s, j), ", "), "jobs", "approve")
	case x.outgrown(j):
	case kind == kernel.NeedsPool:
		return needs(kind, st.WaitSince, st.Wait.Detail, "why") // which names what to do besides cancelling it
	case kind == kernel.NeedsSecret:
		return needs(kind, j.Created, st.Reason, "why")
	case st.Status == kernel.Failed:
		return needs(kind, st.Finished, j.WhyEnded(x.s.Now()), "retry")
	case x.s.ConflictBefore(j) != nil: // `vizier why` says how to resolve the other conflict
		return needs(kind, st.Finished, st.Reason, "why")
	default:
		what, _, _ := strings.Cut(st.Reason, ", `git add") // the rest is in Command
		it, yes := needs(kind, st.Finished, what, "retry")
		if kind == kernel.NeedsResolution {
			it.Command[len(it.Command)-1] = called(x.s.Resolver(j))
		}
		return it, yes
	}
	return it, false
}

// byElse says who has to approve j, such as "by somebody else than Ann"; "": anybody may.
func byElse(s *kernel.Snapshot, j *kernel.Job) string {
	if by := s.Barred(j).Else(); by != "" {
		return "by " + by
	}
	return ""
}

// whole turns the line of a job into one of all the jobs that share its number.
func (x *overview) whole(it Item, j *kernel.Job) Item {
	if j.Part == "" {
		return it
	}
	it.Reference = ReferenceTo(j.Number)
	it.Name = RunName(j)
	if t, known := x.o.Wholes[j.Number]; known {
		it.Done, it.Total = t.Statuses[kernel.Succeeded], t.Total()
	}
	return it
}

// running returns the line for the running jobs of one number. It is about a
// job that has begun, if there is one.
func (x *overview) running(jobs []*kernel.Job) Item {
	j := slices.MinFunc(jobs, func(a, b *kernel.Job) int {
		if begun := x.s.Submitted(a.ID); begun != x.s.Submitted(b.ID) {
			if begun {
				return 1
			}
			return -1
		}
		return a.State.Started.Compare(b.State.Started)
	})
	it := x.item(j)
	since := cmp.Or(x.s.Began(j), j.State.Started)
	it.Since = instant(since)
	if j.Part != "" {
		it.What = line(j.Part)
	}
	if more := len(jobs) - 1; more > 0 {
		it.What += " and " + count(more) + " more"
	}
	var p Progress
	if len(jobs) == 1 {
		p = x.progress(j)
		it.Remaining = p.remaining(x.s.Now().Sub(since))
	}
	if going := Going(x.s, j, p); going != "" {
		between := ", "
		if j.State.Stop.At.IsZero() && x.s.Remark(j.ID) != "" {
			between = ": "
		}
		it.What = strings.TrimPrefix(it.What+between+going, between)
	}
	return x.whole(it, j)
}

func (x *overview) progress(j *kernel.Job) Progress {
	if x.o.Progress == nil {
		return Progress{}
	}
	return x.o.Progress(j.Attempt())
}

// Going returns what there is to say of a running job with progress p: that it is
// being cancelled, or what its executor remarks, and how far it is. It may be "".
func Going(s *kernel.Snapshot, j *kernel.Job, p Progress) string {
	how := s.Remark(j.ID)
	if !j.State.Stop.At.IsZero() {
		how = "is being cancelled"
	}
	if text := p.String(); text != "" {
		how = strings.TrimPrefix(how+", "+text, ", ")
	}
	return line(how)
}

// remaining returns how many seconds are left if the rest goes at the speed of
// what was done in the time after; 0: not known.
func (p Progress) remaining(after time.Duration) int64 {
	if p.Done == nil || p.Total == nil || *p.Done <= 0 || *p.Total <= *p.Done {
		return 0
	}
	return int64(after.Seconds() * float64(*p.Total-*p.Done) / float64(*p.Done))
}

// waiting returns the line for the waiting jobs of one number.
func (x *overview) waiting(jobs []*kernel.Job) Item {
	j := jobs[0]
	it := x.item(j)
	it.Since, it.What = instant(j.State.WaitSince), x.waitsFor(j)
	if at := j.Delayed(x.s.Now()); !at.IsZero() {
		it.Until = &at
	}
	if it.What == "" {
		it.What = cmp.Or(x.o.Idle, "about to start")
	}
	if more := len(jobs) - 1; more > 0 {
		it.What += " (and " + count(more) + " more)"
	}
	return x.whole(it, j)
}

// waitsFor describes what j waits for, in a few words.
func (x *overview) waitsFor(j *kernel.Job) string {
	st := &j.State
	var what string
	switch w := st.Wait; {
	case w.Cause == kernel.JobNotEnded:
		what = "after " + string(w.Job)
		if p := x.s.Job(w.Job); p != nil {
			what = "after " + Short(p)
		}
	case st.Status == kernel.FailedRetryable:
		return "automatic retry after: " + line(j.WhyEnded(x.s.Now()))
	case x.outgrown(j):
		return "the next tick: its pool is larger now"
	case x.outgrows(j) != "":
		return x.outgrows(j)
	case w.Cause == kernel.ExecutorFull:
		return "a place among those that run"
	default:
		what = wait(j)
	}
	if st.Approval.State == kernel.Pending && st.Status != kernel.WaitingOnApproval {
		what += ", then approval"
	}
	return strings.TrimPrefix(what, ", then ")
}

// Short returns j's reference, with its name if the reference does not contain
// it.
func Short(j *kernel.Job) string {
	if j.Part != "" {
		return called(j)
	}
	return called(j) + " " + Title(j)
}

// failed reports whether j failed lately, for good, and by itself. A failure
// that only follows from another one is shown by that other one; one that follows
// from what was cancelled elsewhere is shown by the first job that it blocks, and jobs
// that block each other by the first of them.
func (x *overview) failed(j *kernel.Job) bool {
	st := &j.State
	switch at := cmp.Or(st.Finished, st.WaitSince); {
	case at.Before(x.o.FailedSince):
		return false
	case st.Status == kernel.Failed, st.Status == kernel.BlockedByApproval:
		return !x.pending(j)
	case st.Status != kernel.BlockedByDependency, EndedBadly(j):
		return false
	}
	x.asks(j)
	by := x.blockers(j)
	tells := x.tellOf(by)
	shown := !among(by, j) && (tells == untold || tells == goesRound && x.again)
	if shown {
		x.tells[j.ID] = told
	}
	for _, id := range x.asked { // what goes round may be told now
		if x.tells[id] == goesRound {
			delete(x.tells, id)
		}
	}
	x.asked, x.again = x.asked[:0], false
	return shown
}

// blockers returns the jobs whose ends keep j, which is blocked, from starting.
func (x *overview) blockers(j *kernel.Job) (out []*kernel.Job) {
	by := x.s.Predecessors(j.ID)
	switch w := j.State.Wait; w.Cause {
	case kernel.ArtifactMissing: // what a producer made outdates the failures before it
		by = x.s.Producers(j.ID, w.Artifact)
		for n, id := range slices.Backward(by) {
			if x.s.Job(id).State.Status == kernel.Succeeded {
				by = by[n:]
				break
			}
		}
	case kernel.RunStopped:
		by = []kernel.JobID{w.Job}
	default:
	}
	for _, id := range by {
		if p := x.s.Job(id); p != nil && p.State.Status.Terminal() && p.State.Status != kernel.Succeeded && !slices.Contains(j.Spec.AfterAny, id) {
			out = append(out, p)
		}
	}
	return out
}

// among reports whether one of jobs shares j's number.
func among(jobs []*kernel.Job, j *kernel.Job) bool {
	return j.Number != 0 && slices.ContainsFunc(jobs, func(p *kernel.Job) bool { return p.Number == j.Number })
}

// telling is whether an overview tells of what ended a job.
type telling uint8

const (
	untold    telling = iota
	told              // a line of it does
	goesRound         // that is being found out, and leads back to a job of which it is
)

// told returns whether an overview tells of what ended p: a person who cancelled it knows.
func (x *overview) told(p *kernel.Job) telling {
	switch {
	case p.State.Status == kernel.Cancelled:
		return untold
	case p.State.Status != kernel.BlockedByDependency, EndedBadly(p):
		return told
	}
	if known, asked := x.tells[p.ID]; asked {
		x.again = x.again || known == goesRound && p.ID == x.asked[0]
		return known
	}
	x.asks(p)
	by := x.blockers(p)
	tells := x.tellOf(by)
	if tells == untold && !among(by, p) { // p has a line itself
		tells = told
	}
	x.tells[p.ID] = tells
	return tells
}

// asks notes that whether an overview tells of what ended p is being found out.
func (x *overview) asks(p *kernel.Job) {
	x.tells[p.ID] = goesRound
	x.asked = append(x.asked, p.ID)
}

// tellOf returns the most that is told of what ended one of jobs.
func (x *overview) tellOf(jobs []*kernel.Job) telling {
	most := untold
	for _, p := range jobs {
		switch x.told(p) {
		case told:
			return told
		case goesRound:
			most = goesRound
		case untold:
		}
	}
	return most
}

// Printed reports whether j failed after it was launched, so that its output may say more.
func Printed(j *kernel.Job) bool {
	st := &j.State
	return st.Status == kernel.Failed && st.Exit.Known && st.Failure != kernel.LaunchFailure && st.Failure != kernel.RejectedByHost
}

// failure returns the line of a job that failed.
func (x *overview) failure(j *kernel.Job) Item {
	st, it := &j.State, x.item(j)
	it.Since, it.What = instant(cmp.Or(st.Finished, st.WaitSince)), line(j.WhyEnded(x.s.Now()))
	if w := &st.Wait; st.Status == kernel.BlockedByDependency && w.Cause == kernel.ArtifactMissing && j.Spec.MissingProducer == kernel.Wait && len(x.s.Producers(j.ID, w.Artifact)) == 0 {
		it.What = "awaiting producer for " + w.Artifact.String() // those that failed are no longer on record
	}
	it.Command = []string{"vizier", "why", called(j)}
	if st.Exit.Known && st.Status == kernel.Failed {
		it.ExitCode = &st.Exit.Code
		if Printed(j) {
			it.Command[1] = "tail"
		}
		if st.Failure == kernel.ExitFailure {
			it.What = strings.Replace(it.What, "exit code ", "exit ", 1)
		}
	}
	if !st.Started.IsZero() && st.Finished.After(st.Started) {
		it.Took = int64(st.Finished.Sub(st.Started) / time.Second)
	}
	return it
}

// Progress returns how many jobs of a run have succeeded, such as 4/15, or ""
// for a single job or a run that was not counted.
func (it Item) Progress() string {
	if it.Total == 0 {
		return ""
	}
	return strconv.Itoa(it.Done) + "/" + strconv.Itoa(it.Total)
}

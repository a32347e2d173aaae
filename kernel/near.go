package kernel

import (
	"maps"
	"slices"
	"time"
)

// Near names jobs by their relation to something, so that a store can find them by key.
// A decision about one job among many is made on a snapshot of the jobs near it.
type Near struct {
	Kind     NearKind
	Job      JobID
	Run      RunID
	Artifact Artifact
	Key      string    // of a lock, of an idempotent submission, the name of an executor, or a part of a number
	At       time.Time // of Due
	Number   Number
	Most     int    // of the kinds that say so: at most this many, the first in schedule order
	Among    uint16 // of Newest: a bit for each status
}

// Has reports whether n names jobs of a status.
func (n Near) Has(st Status) bool { return n.Among == 0 || n.Among&(1<<st) != 0 }

// With returns n with the jobs of a status added.
func (n Near) With(st Status) Near {
	n.Among |= 1 << st
	return n
}

// NearKind is the relation of a Near's jobs to what it names.
type NearKind uint8

// The kinds. Open jobs are those that a tick may still change.
const (
	Itself         NearKind = iota // the job of that id
	Attended                       // see Job.attended
	Due                            // the jobs whose Delay is over at At, see Job.Due; and the one whose is over next
	Dependents                     // the open jobs that run after a job; with Most, the first Most that are not running
	Consumers                      // the jobs that need an artifact: those that are open, or that a new producer opens again
	RunConsumers                   // those of them that use a producer of their own run; Most as for Dependents
	Producers                      // the jobs that declare an artifact
	RunProducers                   // those of them that belong to a run
	Contenders                     // the jobs that wait for the lock of that key; with Most, only the first Most
	Line                           // the first Most that wait for a slot of an executor
	Waiters                        // the first Most that wait for locks, pools or slots
	Members                        // the first Most of a run's jobs that are active; all of the run if it has fewer active ones
	Keyed                          // the jobs with an idempotency key
	Stoppers                       // the jobs that failed and whose failure stops a run
	Handled                        // the jobs whose failure stops a run, and is handled by a given job
	Prompts                        // the jobs that hold the prompt file named by Key
	Woken                          // the active jobs that only a route starts, and those whose routes wait
	Newest                         // the last Most in schedule order, of all statuses or of those in Among
	NewestRuns                     // the jobs of the last Most runs, by the schedule order of their first jobs
	OfNumber                       // the jobs of a number; with a Key, the one that has that part of it
	Outsiders                      // the open jobs that are judged by facts that no job makes
	PoolContenders                 // as Contenders, for the pool of that key
	OnBranch                       // of the runs for the branch named by Key: the open jobs and the blocked merges
	Rivals                         // those of OnBranch that wait for the branch, as far as their records tell
	Readers                        // those of the Outsiders that read an artifact, or the branch or other fact that Key names: see Job.Reads
)

// partial records which jobs a partial snapshot was loaded with, and which further jobs
// decisions looked for. A decision that lacked jobs is thrown away and made again once the
// store has loaded them.
type partial struct {
	known   map[Near]bool
	most    map[Near]int   // by a Near without its Most: the largest Most that was loaded
	created map[JobID]bool // jobs that the store does not have yet
	lacks   map[Near]bool
	asking  map[JobID]bool // jobs whose gates read facts that were not observed
	all     bool           // the snapshot has every job nevertheless: see Snapshot.Tracked
	whole   bool           // a decision reads every job
}

// Lacks returns the jobs that decisions on s needed and s does not hold; whole says that they
// need every job. A snapshot of all jobs lacks nothing.
func (s *Snapshot) Lacks() (near []Near, whole bool) {
	if !s.Narrow() {
		return nil, false
	}
	return slices.Collect(maps.Keys(s.near.lacks)), s.near.whole
}

// Narrow reports whether s holds only some of the jobs.
func (s *Snapshot) Narrow() bool { return s.near != nil && !s.near.all }

// Held returns the jobs that s holds, in schedule order: all jobs, unless s is Narrow.
// They must not be changed.
func (s *Snapshot) Held() []*Job { return s.jobs }

// With returns s with what a store found for near. Jobs that s holds already stay as
// they are.
func (s *Snapshot) With(rec Records, near []Near) *Snapshot {
	next, jobs := *s, rec.Jobs
	next.last = max(s.last, rec.Last)
	next.dirty, next.created = slices.Clip(next.dirty), slices.Clip(next.created) // they are those of s
	known := make(map[JobID]bool, len(s.dirty))
	for _, id := range s.dirty {
		known[id] = true
	}
	for _, id := range rec.Dirty {
		if !known[id] {
			next.dirty, next.created = append(next.dirty, id), append(next.created, id)
		}
	}
	if len(rec.Unreadable) > 0 {
		next.unreadable = merged(s.unreadable, rec.Unreadable)
	}
	next.near = newPartial(near)
	maps.Copy(next.near.known, s.near.known)
	for n, most := range s.near.most {
		next.near.most[n] = max(next.near.most[n], most)
	}
	next.near.asking, next.near.created = maps.Clone(s.near.asking), maps.Clone(s.near.created)
	next.jobs = slices.Clone(s.jobs)
	for k := range jobs {
		if _, have := s.graph.index[jobs[k].ID]; !have {
			next.jobs = append(next.jobs, &jobs[k])
		}
	}
	sortJobs(next.jobs)
	next.regraph()
	return &next
}

// require notes that a decision needs the jobs of n, unless s holds them.
func (x *partial) require(n Near) {
	if x == nil || x.all || x.known[n] || x.created[n.Job] {
		return
	}
	if requireAll := n; n.Most > 0 { // s may hold more of them, or all
		if requireAll.Most = 0; x.known[requireAll] || x.most[requireAll] >= n.Most {
			return
		}
	}
	x.lacks[n] = true
}

// learn notes that s holds the jobs of n.
func (x *partial) learn(n Near) {
	x.known[n] = true
	if most := n; n.Most > 0 {
		most.Most = 0
		x.most[most] = max(x.most[most], n.Most)
	}
}

func newPartial(near []Near) *partial {
	x := &partial{known: map[Near]bool{}, most: map[Near]int{}, lacks: map[Near]bool{}, asking: map[JobID]bool{}, created: map[JobID]bool{}}
	for _, n := range near {
		x.learn(n)
	}
	return x
}

// Tracked returns s prepared for incremental ticks: they judge only jobs whose verdict may
// differ after what is applied from now on, decide the same and cost less. s must hold all
// jobs, and a tick must have judged it. Facts that gates read and that were not observed are
// in Probes.
func (s *Snapshot) Tracked() *Snapshot {
	next := *s
	next.near = newPartial(nil)
	next.near.all = true
	next.unchanged = false
	return &next
}

// requireAll notes that a decision needs every job.
func (s *Snapshot) requireAll() {
	if s.near != nil {
		s.near.whole = true
	}
}

// find returns the position of job id. It notes that the decision depends on whether the
// job exists.
func (s *Snapshot) find(id JobID) (int32, bool) {
	i, ok := s.graph.index[id]
	if !ok {
		s.near.require(Near{Kind: Itself, Job: id})
	}
	return i, ok
}

// lacksJob reports whether a store may have a job that s does not hold.
func (s *Snapshot) lacksJob(id JobID) bool {
	return s.near != nil && s.near.lacks[Near{Kind: Itself, Job: id}]
}

// requireSome notes that a decision will need the first of ids once it has the jobs that it
// lacks now: 32 of them, or as many as it has looked at before if that is more. They are then
// loaded together, and the decision is not repeated for each. If the first of ids was already
// noted, requireSome does nothing: code that lists all conditions calls it for each job, and
// must not look ahead from each.
func (s *Snapshot) requireSome(ids []JobID, before int) {
	if len(ids) > 0 && s.lacksJob(ids[0]) {
		return
	}
	for _, id := range ids[:min(len(ids), max(32, before))] {
		s.find(id)
	}
}

// Members returns the jobs of a run, in schedule order: all of them, or enough to tell
// that the run has not ended.
func (s *Snapshot) Members(run RunID) []*Job {
	var out []*Job
	active := false
	for _, j := range s.jobs {
		if j.Spec.Origin.Run == run {
			out, active = append(out, j), active || j.State.Status.Active()
		}
	}
	if !active {
		s.near.require(Near{Kind: Members, Run: run, Most: len(out) + 1})
	}
	return out
}

// ask notes that a gate of j reads a fact that was not observed.
func (s *Snapshot) ask(j *Job, asked bool) {
	if s.near != nil && !asked {
		s.near.asking[j.ID] = true
	}
}

// Selects reports whether n names j, judged by j alone. If n names only the first Most of
// such jobs, j may come after them.
func (n Near) Selects(j *Job) bool {
	switch n.Kind {
	case Itself:
		return j.ID == n.Job
	case Attended:
		return j.attended()
	case Due:
		_, ok := j.Due()
		return ok
	case Outsiders:
		return j.outside()
	case Readers:
		facts, _ := j.Reads()
		return slices.Contains(facts, n)
	case Dependents:
		return j.Open() && (n.Most == 0 || j.State.Status != Running) && slices.Contains(j.Spec.After, n.Job)
	case Consumers, RunConsumers:
		return j.Consumes() && (n.Most == 0 || j.Open() && j.State.Status != Running) && slices.Contains(j.Spec.Needs, n.Artifact)
	case Producers:
		return slices.Contains(j.Spec.Produces, n.Artifact)
	case RunProducers:
		return j.Spec.Origin.Run == n.Run && slices.Contains(j.Spec.Produces, n.Artifact)
	case Contenders, PoolContenders:
		q := queue{n.Key, n.Kind == PoolContenders}
		return j.State.Status == WaitingOnLocks && slices.ContainsFunc(j.Spec.Locks, func(l Lock) bool { return l.queue() == q })
	case Line:
		return j.State.Status == WaitingOnLocks && j.inLine() && j.Spec.Task.On() == n.Key
	case Waiters:
		return j.State.Status == WaitingOnLocks
	case Members:
		return j.Spec.Origin.Run == n.Run
	case OnBranch:
		return (j.Open() || j.mergeBlocked()) && j.onBranch() && j.Spec.Origin.Branch == n.Key
	case Rivals:
		return j.Spec.takesBranch() && j.Spec.Origin.Branch == n.Key && j.State.Status.Waiting() && j.reachesBranch()
	case Keyed:
		return j.Spec.IdempotencyKey == n.Key
	case Woken:
		return j.woken()
	case Newest:
		return n.Has(j.State.Status)
	case NewestRuns:
		return j.Spec.Origin.Run != ""
	case Stoppers:
		return j.stops()
	case Handled:
		return j.Spec.FailureMode == BlockDownstream && slices.ContainsFunc(j.Spec.Routes, func(r Route) bool { return r.To == n.Job })
	case OfNumber:
		return j.Number == n.Number && (n.Key == "" || j.Part == n.Key)
	case Prompts:
		return j.HoldsPrompt() && j.Spec.Prompt.File == n.Key
	default:
		return false
	}
}

// Consumes reports whether what j needs still matters: j is open, or a new producer would
// open it again.
func (j *Job) Consumes() bool {
	return j.Open() || j.Spec.MissingProducer == Wait && j.neverRan()
}

// woken reports whether j may send others back soon: only a route starts it, and it runs or is about to; or its routes wait.
func (j *Job) woken() bool { return j.Spec.Routed && j.State.Status.Active() || j.State.Deferred }

// stops reports whether j failed and stops its run, or the run of a job that handles the
// failure.
func (j *Job) stops() bool {
	return j.State.Status == Failed && j.Spec.FailureMode == BlockDownstream
}

// attended reports whether every tick must judge j: its runner may have died, its
// prompt's file name is out of date, or it is entangled.
func (j *Job) attended() bool {
	return j.State.Status == Running || j.entangled() ||
		j.Spec.Prompt != nil && j.State.Status.PromptName() != j.State.Prompt.Named
}

// entangled reports whether the fate of j (whether it sleeps, its files are removed, or routes
// wait) depends on the whole graph.
func (j *Job) entangled() bool {
	if j.deferred() {
		return true
	}
	if j.Transient() != NotTransient {
		return j.Open() && j.State.Status != Running ||
			j.Transient() == Remove && j.State.Status == Succeeded && j.State.Removed.IsZero()
	}
	return j.Spec.Origin.Ephemeral && !j.Open()
}

package kernel

import (
	"maps"
	"slices"
	"time"
)

// Fact is one observation of the outside world, or the reason there is none.
// The zero value means that it was never asked for.
type Fact[T any] struct {
	Value T
	Known bool   // asked and answered
	Err   string // asked, and the observation failed: Value means nothing
}

// Seen returns a fact that was observed.
func Seen[T any](v T) Fact[T] { return Fact[T]{Value: v, Known: true} }

// Unseen returns a fact that could not be observed, and why.
func Unseen[T any](why string) Fact[T] { return Fact[T]{Err: why} }

func (f Fact[T]) asked() bool { return f.Known || f.Err != "" }

// Facts answer Probes. What is absent was not asked for.
type Facts struct {
	Present map[Artifact]Fact[bool]     // every kind but custom
	Markers map[Artifact]Fact[[]JobID]  // custom: the jobs whose marker exists
	Heads   map[string]Fact[CommitID]   // local branch; "" : no such branch
	Head    Fact[string]                // the branch checked out; "" : detached
	Clean   Fact[bool]                  // whether the main checkout is clean, apart from Vizier's own files
	Merging Fact[string]                // "merge", "cherry-pick" … in progress there; "" : nothing
	Runners map[AttemptID]Fact[Runner]  // of running attempts
	Results map[AttemptID]Fact[*Result] // of running attempts; nil: none on record
	Sandbox Fact[Enforcement]           // what this host enforces
}

// Scope says which records a read must bring besides the open ones and those
// that open ones refer to: among these the producers of what they need, and the
// runs that ended without a stage's token that they need.
type Scope struct {
	Near      []Near     // not nil: only these, if the store can tell; All, Jobs, Artifacts and Keys do not count then
	All       bool       // every record
	Jobs      []JobID    // these
	Artifacts []Artifact // and every producer of these
	Keys      []string   // and the jobs that have these idempotency keys
	Tally     []Number   // and how the jobs of each of these stand, if the store can tell
	Reads     bool       // and which facts open jobs read and no job makes, if the store can tell
}

// Records is one consistent read of a store.
type Records struct {
	Jobs       []Job
	Unreadable map[JobID]string // why, with the record's path
	Succeeded  int              // jobs that ended well and were not asked for

	Narrow bool           // only what Scope.Near asked for was read
	Dirty  []JobID        // of a narrow read: jobs with a change that no tick has taken into account yet
	Counts map[Status]int // of a narrow read of the Newest: how many jobs have each status
	Judged string         // of a narrow read: Plan.Judged of the last tick; "": not all jobs were judged

	Tallies map[Number]Tally // of Scope.Tally; nil: the store cannot tell

	Reads map[Near]ReadFact // of Scope.Reads, by the Near of a fact's readers; nil: the store cannot tell

	// Elided are types of custom artifacts, at least one of which is awaited. Of these, Reads
	// leaves out artifacts that did not exist when their readers were judged, and do not exist now.
	Elided []string

	Last       Number // the last number that was given
	Unnumbered bool   // there may be jobs without a number: the store is older than numbers
}

// Observation is what the adapters hand over.
type Observation struct {
	Now        time.Time // taken in UTC and whole microseconds, as records have it
	Limits     Limits
	Jobs       []Job
	Archived   int              // jobs that succeeded and are not among Jobs
	Unreadable map[JobID]string // records that exist but make no sense, and why
	Facts      Facts

	Near   []Near         // not nil: Jobs holds only the jobs that these name
	Counts map[Status]int // as in Records
	Dirty  []JobID        // the jobs among Jobs that no tick has judged as they are
	Last   Number         // the last number that was given
}

// Snapshot is everything a decision may depend on, seen at one moment under
// the scheduler lock. It cannot be changed once made.
type Snapshot struct {
	now        time.Time
	limits     Limits
	jobs       []*Job // in schedule order
	archived   int
	unreadable map[JobID]string
	facts      *Facts
	touched    []Action // what applied plans do to artifacts; a later observation may not show it yet
	graph      *graph
	lists
	counts  map[Status]int
	last    Number   // the last number that was given
	near    *partial // nil: these are all jobs there are
	dirty   []JobID  // of a partial snapshot: jobs that changed since a tick judged them
	created []JobID  // the jobs in dirty that are new, or whose last judgement is not known

	// unchanged says that the facts which no job makes have not changed since all of
	// their readers were judged.
	unchanged bool
}

// NewSnapshot sorts, copies and indexes an observation. If several records have
// the same id, which no store allows, the oldest counts. Jobs' slices are shared
// with the observation and must not be changed afterwards.
func NewSnapshot(o Observation) *Snapshot {
	o.Jobs = slices.Clone(o.Jobs)
	return TakeSnapshot(o)
}

// TakeSnapshot is NewSnapshot without the copy: the caller gives o.Jobs away
// and must neither change nor move them afterwards.
func TakeSnapshot(o Observation) *Snapshot {
	jobs := make([]*Job, len(o.Jobs))
	for i := range o.Jobs {
		jobs[i] = &o.Jobs[i]
	}
	sortJobs(jobs)
	g := newGraph(jobs)
	if len(g.index) < len(jobs) {
		seen := map[JobID]bool{}
		jobs = slices.DeleteFunc(jobs, func(j *Job) bool {
			again := seen[j.ID]
			seen[j.ID] = true
			return again
		})
		g = newGraph(jobs)
	}
	s := &Snapshot{now: Timestamp(o.Now), limits: o.Limits, jobs: jobs, unreadable: o.Unreadable, archived: o.Archived, facts: &o.Facts, graph: g, dirty: o.Dirty, created: o.Dirty, counts: o.Counts, last: o.Last}
	for _, j := range jobs {
		s.last = max(s.last, j.Number)
	}
	if o.Near != nil {
		s.near = newPartial(o.Near)
		s.graph.near = s.near
	}
	s.index()
	return s
}

// Timestamp returns t as records have it: in UTC, to the microsecond. Code that reads a clock
// for the kernel passes on this value.
func Timestamp(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

// Now returns the moment of the observation.
func (s *Snapshot) Now() time.Time { return s.now }

// At returns s at another moment, with nothing else observed.
func (s *Snapshot) At(now time.Time) *Snapshot {
	next := *s
	next.now = Timestamp(now)
	return &next
}

// Later returns s, which holds all jobs, at another moment: with new limits and facts, and
// with the new state, number and revision of the given jobs, which must not be changed
// afterwards. A job that s does not hold, or one with another spec, needs a new snapshot.
func (s *Snapshot) Later(now time.Time, limits Limits, facts Facts, jobs []Job) *Snapshot {
	next := s.own()
	next.now, next.limits, next.facts, next.touched = Timestamp(now), limits, &facts, nil
	var moved []move
	for k := range jobs {
		if i, ok := s.graph.index[jobs[k].ID]; ok {
			moved = append(moved, move{i, next.jobs[i]})
			next.jobs[i], next.last = &jobs[k], max(next.last, jobs[k].Number)
		}
	}
	next.reindex(moved)
	return next
}

// Limits returns the limits that the snapshot was made with.
func (s *Snapshot) Limits() Limits { return s.limits }

// Jobs returns all jobs in schedule order. They must not be changed.
func (s *Snapshot) Jobs() []*Job {
	s.requireAll()
	return s.jobs
}

// Job returns the job of that id, or nil. It must not be changed.
func (s *Snapshot) Job(id JobID) *Job {
	if i, ok := s.find(id); ok {
		return s.jobs[i]
	}
	return nil
}

// Unjudged returns the jobs that changed since a tick judged them, if s is Narrow.
func (s *Snapshot) Unjudged() []JobID { return s.dirty }

// Counts returns how many jobs have each status, if s does not hold all jobs; nil:
// not known.
func (s *Snapshot) Counts() map[Status]int { return s.counts }

// Unreadable returns why the record of id makes no sense, or "".
func (s *Snapshot) Unreadable(id JobID) string { return s.unreadable[id] }

// Archived returns how many jobs succeeded that the snapshot does not hold.
func (s *Snapshot) Archived() int { return s.archived }

// LastNumber returns the last number that was given to a job, a run or a batch.
func (s *Snapshot) LastNumber() Number { return s.last }

// UnreadableIDs returns the jobs whose records make no sense, in order.
func (s *Snapshot) UnreadableIDs() []JobID { return slices.Sorted(maps.Keys(s.unreadable)) }

// Facts returns the observations so far. They must not be changed.
func (s *Snapshot) Facts() Facts { return *s.facts }

// WithFacts returns s with further observations; a later answer replaces an
// earlier one.
func (s *Snapshot) WithFacts(f Facts) *Snapshot {
	next, all := *s, *s.facts
	next.facts = &all
	if f.tellsOfWorld() {
		next.unchanged = false
	}
	if len(s.touched) > 0 && len(f.Present)+len(f.Markers) > 0 {
		f.Present, f.Markers = maps.Clone(f.Present), maps.Clone(f.Markers)
		for _, a := range s.touched {
			f, _ = f.after(a, true)
		}
	}
	all.Present = merged(s.facts.Present, f.Present)
	all.Markers = merged(s.facts.Markers, f.Markers)
	all.Heads = merged(s.facts.Heads, f.Heads)
	all.Runners = merged(s.facts.Runners, f.Runners)
	all.Results = merged(s.facts.Results, f.Results)
	for _, one := range []struct{ have, got *Fact[string] }{{&all.Head, &f.Head}, {&all.Merging, &f.Merging}} {
		if one.got.asked() {
			*one.have = *one.got
		}
	}
	if f.Clean.asked() {
		all.Clean = f.Clean
	}
	if f.Sandbox.asked() {
		all.Sandbox = f.Sandbox
	}
	return &next
}

// tellsOfWorld reports whether f holds facts other than those of runners and results.
func (f *Facts) tellsOfWorld() bool {
	return len(f.Present)+len(f.Markers)+len(f.Heads) > 0 || f.Head.asked() || f.Merging.asked() || f.Clean.asked() || f.Sandbox.asked()
}

func merged[K comparable, V any](a, b map[K]V) map[K]V {
	if len(b) == 0 {
		return a
	}
	out := make(map[K]V, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// after returns f as it is once a is done, and whether it differs. It copies maps before it
// changes them, unless own says that they belong to the caller.
func (f Facts) after(a Action, own bool) (Facts, bool) {
	var markers, present bool
	switch a := a.(type) {
	case RemoveJob:
		f.Markers, markers = withMarkers(f.Markers, a.Job, a.Produces, false, own)
		f.Present, present = without(f.Present, Artifact{Kind: CommandPatch, Name: string(a.Job)}, own)
	case PurgeFiles:
		f.Markers, markers = withMarkers(f.Markers, a.Job, a.Produces, false, own)
		f.Present, present = without(f.Present, Artifact{Kind: CommandPatch, Name: string(a.Job)}, own)
	case Publish:
		f.Markers, markers = withMarkers(f.Markers, a.Attempt.Job, a.Artifacts, true, own)
	case Reset:
		f.Markers, markers = withMarkers(f.Markers, a.Attempt.Job, a.Produces, false, own)
		f.Present, present = without(f.Present, Artifact{Kind: CommandPatch, Name: string(a.Attempt.Job)}, own)
	case ClearSentinel:
		f.Present, present = without(f.Present, Artifact{Kind: MergeSentinel, Name: a.Slug}, own)
	default: // makes no artifact appear or go
	}
	return f, markers || present
}

// without returns m with a gone, if it was there, and whether that is a change.
func without(m map[Artifact]Fact[bool], a Artifact, own bool) (map[Artifact]Fact[bool], bool) {
	if f := m[a]; !f.Known || !f.Value {
		return m, false
	}
	if !own {
		m = maps.Clone(m)
	}
	m[a] = Seen(false)
	return m, true
}

// withMarkers returns m after job's markers of artifacts were made or removed, and
// whether that is a change. Artifacts that were not asked about are not in m and stay out.
func withMarkers(m map[Artifact]Fact[[]JobID], job JobID, artifacts []Artifact, appear, own bool) (map[Artifact]Fact[[]JobID], bool) {
	changed := false
	for _, a := range artifacts {
		f, ok := m[a]
		if !ok || !f.Known || slices.Contains(f.Value, job) == appear {
			continue
		}
		if !own && !changed {
			m = maps.Clone(m)
		}
		changed = true
		f.Value = slices.DeleteFunc(slices.Clone(f.Value), func(id JobID) bool { return id == job })
		if appear {
			f.Value = append(f.Value, job)
		}
		m[a] = f
	}
	return m, changed
}

// NewFacts returns Facts with empty maps, for observers to fill.
func NewFacts() Facts {
	return Facts{
		Present: map[Artifact]Fact[bool]{}, Markers: map[Artifact]Fact[[]JobID]{}, Heads: map[string]Fact[CommitID]{},
		Runners: map[AttemptID]Fact[Runner]{}, Results: map[AttemptID]Fact[*Result]{},
	}
}

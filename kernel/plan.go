package kernel

import (
	"maps"
	"slices"
	"time"
)

// Decision is the scheduler's judgement of one job.
type Decision struct {
	Job    JobID
	From   Status
	Next   Status
	Reason WaitReason
}

// Plan is what to do about a snapshot. It is data, which can be printed,
// stored, applied or thrown away.
type Plan struct {
	Decisions []Decision     // one for each job that a tick changes, in schedule order
	Records   []RecordAction // performed first, all or none
	World     []WorldAction  // performed after the records are durable, in order

	// Judged is the limits by which a tick decided, or "" if the plan is not a
	// tick's. The store keeps it, so that the next tick under the same limits
	// judges only what has changed since.
	Judged string
}

// NewPlan returns the plan to perform actions.
func NewPlan(actions ...Action) Plan {
	var p Plan
	p.add(actions...)
	return p
}

func (p *Plan) add(actions ...Action) {
	for _, a := range actions {
		a.addTo(p)
	}
}

// Empty reports whether p has no actions.
func (p Plan) Empty() bool { return len(p.Records)+len(p.World) == 0 }

// Actions returns all actions of p, in order.
func (p Plan) Actions() []Action {
	var out []Action
	for _, a := range p.Records {
		out = append(out, a)
	}
	for _, a := range p.World {
		out = append(out, a)
	}
	return out
}

// Write makes w perform p's record actions, up to the first error.
func (p Plan) Write(w RecordWriter) error {
	for _, a := range p.Records {
		if err := a.write(w); err != nil {
			return err
		}
	}
	return nil
}

// Then returns p followed by q, where q was decided on the snapshot that p
// leads to. If both write the state of a job, only the last write remains, so
// that a job created and judged in one transaction is written once.
func (p Plan) Then(q Plan) Plan {
	d := Draft{plan: Plan{Records: make([]RecordAction, 0, len(p.Records)+len(q.Records))}, last: map[JobID]int{}}
	d.add(p)
	d.add(q)
	return d.plan
}

// Apply returns the snapshot that p leads to, as far as the kernel can know: a
// launched job runs, a published artifact exists. Actions over another
// revision than the snapshot's change nothing, as in the store.
func (s *Snapshot) Apply(p Plan) *Snapshot {
	if p.Empty() && (p.Judged == "" || len(s.dirty) == 0) {
		return s
	}
	next := s.own()
	next.apply(p, nil)
	return next
}

// own returns a copy of s that apply may change.
func (s *Snapshot) own() *Snapshot {
	next := *s
	next.jobs = slices.Clone(s.jobs)
	next.lists = s.lists.clone()
	next.dirty, next.created, next.touched = slices.Clip(s.dirty), slices.Clip(s.created), slices.Clip(s.touched)
	return &next
}

// apply changes s, which must not be shared, into what p leads to. *own says whether the
// maps of its facts are not shared either; a nil own means that they stay shared.
func (s *Snapshot) apply(p Plan, own *bool) {
	if p.Empty() {
		if p.Judged != "" {
			s.dirty, s.created = nil, nil
		}
		return
	}
	touched, reshaped := len(s.touched), false
	var moved []move
	for _, a := range p.Records {
		switch a := a.(type) {
		case CreateJob:
			if _, exists := s.graph.index[a.Job.ID]; !exists {
				j := a.Job
				s.jobs, s.last = append(s.jobs, j), max(s.last, j.Number)
				s.markCreated(j.ID)
				reshaped = true
			}
		case PutState:
			if i, ok := s.graph.index[a.Job]; ok && s.jobs[i] != nil && s.jobs[i].Rev == a.If {
				j := *s.jobs[i]
				moved = append(moved, move{i, s.jobs[i]})
				j.State, j.Rev = a.State, a.If+1
				s.jobs[i] = &j
				s.markDirty(j.ID)
			}
		case NumberJob:
			s.last = max(s.last, a.Number)
			if i, ok := s.graph.index[a.Job]; ok && s.jobs[i] != nil && s.jobs[i].Rev == a.If {
				j := *s.jobs[i]
				j.Number, j.Part, j.Rev = a.Number, a.Part, a.If+1
				s.jobs[i] = &j
				s.markDirty(j.ID)
			}
		case RemoveJob:
			if i, ok := s.graph.index[a.Job]; ok && s.jobs[i] != nil {
				gone := s.jobs[i]
				s.jobs[i] = nil
				s.touch(RemoveJob{gone.ID, gone.Spec.Produces}, own)
				reshaped = true
			}
		case Publish, Reset, PurgeFiles:
			s.touch(a, own)
		default: // changes nothing that a snapshot has
		}
	}
	for _, a := range p.World {
		if a, ok := a.(ClearSentinel); ok {
			s.touch(a, own)
		}
	}
	if reshaped {
		s.jobs = slices.DeleteFunc(s.jobs, func(j *Job) bool { return j == nil })
		sortJobs(s.jobs)
		s.regraph()
	} else {
		s.reindex(moved)
	}
	if p.Judged != "" {
		s.dirty, s.created = nil, nil
		s.unchanged = len(s.touched) == touched
	}
}

// markDirty notes that job id changed since a tick judged it. A snapshot of all
// jobs needs no such notes: every tick on it judges all.
func (s *Snapshot) markDirty(id JobID) {
	if s.near != nil {
		s.dirty = append(s.dirty, id)
	}
}

// markCreated is markDirty for a new job.
func (s *Snapshot) markCreated(id JobID) {
	if s.near != nil {
		s.dirty, s.created = append(s.dirty, id), append(s.created, id)
		s.near.created[id] = true
	}
}

// touch applies what a does to artifacts to the facts, now and after every later
// observation: the plan with a may not be on the disk when that observation is made.
func (s *Snapshot) touch(a Action, own *bool) {
	if own != nil && !*own {
		f := *s.facts
		f.Present, f.Markers = maps.Clone(f.Present), maps.Clone(f.Markers)
		s.facts, *own = &f, true
	}
	f, changed := s.facts.after(a, own != nil)
	s.facts = &f
	s.unchanged = s.unchanged && !changed
	s.touched = append(s.touched, a)
}

// Draft is a growing plan with the snapshot that it leads to. Adding to it
// costs only as much as what is added, while Then copies the whole plan.
type Draft struct {
	plan Plan
	last map[JobID]int // index in plan.Records of a job's write, into which later writes are merged
	s    *Snapshot
	own  bool // s is a copy that belongs to the draft
	maps bool // and so are the maps of its facts that plans change
}

// NewDraft returns an empty draft for s.
func NewDraft(s *Snapshot) *Draft { return &Draft{last: map[JobID]int{}, s: s} }

// Plan returns everything that was added, combined as by Then.
func (d *Draft) Plan() Plan { return d.plan }

// Snapshot returns the snapshot that the plan leads to. It is valid until the
// next Add.
func (d *Draft) Snapshot() *Snapshot { return d.s }

// Add adds q, which was decided on the draft's snapshot.
func (d *Draft) Add(q Plan) {
	d.add(q)
	if !d.own && !q.Empty() {
		d.s, d.own = d.s.own(), true
	}
	if d.own {
		d.s.apply(q, &d.maps)
	}
}

// At sets the moment of the draft's snapshot.
func (d *Draft) At(now time.Time) { d.s = d.s.At(now) }

// Observe adds observations to the draft's snapshot, as WithFacts does.
func (d *Draft) Observe(f Facts) { d.s = d.s.WithFacts(f) }

func (d *Draft) add(q Plan) {
	out := &d.plan
	if len(q.Decisions) > 0 {
		out.Decisions = q.Decisions
	}
	if !q.Empty() || q.Judged != "" {
		out.Judged = q.Judged
	}
	out.World = append(out.World, q.World...)
	for _, a := range q.Records {
		switch a := a.(type) {
		case CreateJob:
			d.last[a.Job.ID] = len(out.Records)
		case PutState:
			at, again := d.last[a.Job]
			if !again {
				d.last[a.Job] = len(out.Records)
				break
			}
			switch earlier := out.Records[at].(type) {
			case CreateJob:
				j := *earlier.Job
				j.State = a.State
				out.Records[at] = CreateJob{&j}
			case PutState:
				earlier.State = a.State
				out.Records[at] = earlier
			default: // last refers to no others
			}
			continue
		default: // writes no state
		}
		out.Records = append(out.Records, a)
	}
}

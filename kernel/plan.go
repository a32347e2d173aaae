package kernel

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

// Draft is a growing plan with the snapshot that it leads to. Adding to it
// costs only as much as what is added, while Then copies the whole plan.
type Draft struct {
	plan Plan
	last map[JobID]int // index in plan.Records of a job's write, into which later writes are merged
	s    *Snapshot
	own  bool // s is a copy that belongs to the draft
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
		d.s.apply(q)
	}
}

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

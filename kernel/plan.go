package kernel

// Decision is the scheduler's judgement of one job. What it does not change,
// the job's record says already.
type Decision struct {
	Job    JobID
	From   Status
	Next   Status
	Reason WaitReason
}

// Plan is what to do about a snapshot: data, to be printed, stored, applied or
// thrown away.
type Plan struct {
	Decisions []Decision     // one for every job that a tick changes, in schedule order
	Records   []RecordAction // done first, all or none
	World     []WorldAction  // done after that, in order

	// Judged is the limits by which a tick decided. The store keeps it, so that the next
	// tick under the same limits looks only at what has changed since. "": the plan is
	// not a tick's.
	Judged string
}

// NewPlan is the plan to do actions.
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

// Empty reports that p does nothing.
func (p Plan) Empty() bool { return len(p.Records)+len(p.World) == 0 }

// Actions are all that p does, in order.
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

// Write has w do p's record actions, up to the first error.
func (p Plan) Write(w RecordWriter) error {
	for _, a := range p.Records {
		if err := a.write(w); err != nil {
			return err
		}
	}
	return nil
}

// Then is p followed by q, where q was decided on the snapshot that p leads
// to. States of one job that p and q both write become one write, so that a
// job created and judged in one transaction is written once.
func (p Plan) Then(q Plan) Plan {
	d := Draft{plan: Plan{Records: make([]RecordAction, 0, len(p.Records)+len(q.Records))}, last: map[JobID]int{}}
	d.add(p)
	d.add(q)
	return d.plan
}

// Draft is a plan that grows, and the snapshot that it leads to. Adding to it
// costs what is added, where Then makes the whole plan anew.
type Draft struct {
	plan Plan
	last map[JobID]int // the record write of a job that a later one merges into
	s    *Snapshot
	own  bool // s is the draft's
}

// NewDraft is a draft that does nothing to s yet.
func NewDraft(s *Snapshot) *Draft { return &Draft{last: map[JobID]int{}, s: s} }

// Plan is all that was added, as by Then.
func (d *Draft) Plan() Plan { return d.plan }

// Snapshot is what the plan leads to, until more is added.
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
			default: // last names no others
			}
			continue
		default: // writes no state
		}
		out.Records = append(out.Records, a)
	}
}

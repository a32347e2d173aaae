package kernel

import "cmp"

// Action is one effect: on the records or on the rest of the world.
//
//sumtype:decl
type Action interface {
	Subject() JobID // the job it is about; "" for those of runs
	addTo(*Plan)
}

// RecordAction is an effect on the records. A store does all of a plan's or
// none, whatever order they stand in.
//
//sumtype:decl
type RecordAction interface {
	Action
	write(RecordWriter) error
}

// RecordWriter does record actions. It has a method for each, so that a store
// which knows too few of them does not compile.
type RecordWriter interface {
	CreateJob(CreateJob) error
	PutState(PutState) error
	NumberJob(NumberJob) error
	CreateRun(CreateRun) error
	RemoveRun(RemoveRun) error
	RemoveJob(RemoveJob) error
	PurgeFiles(PurgeFiles) error
	Publish(Publish) error
	Announce(Announce) error
	Reset(Reset) error
	Rotate(Rotate) error
}

// The record actions.
type (
	// CreateJob adds a record. Plans and snapshots share the job: it never changes.
	CreateJob struct{ Job *Job }

	// PutState replaces a job's state if its revision is still If.
	PutState struct {
		Job   JobID
		If    Revision
		State State
	}

	// NumberJob gives a job that has none its number, if its revision is still If.
	NumberJob struct {
		Job    JobID
		If     Revision
		Number Number
		Part   string
	}

	// CreateRun adds a run's manifest, which only its runtime reads.
	CreateRun struct {
		Run      RunID
		Manifest []byte
	}

	// RemoveRun drops a run's manifest.
	RemoveRun struct{ Run RunID }

	// RemoveJob drops a record with everything below its directory and the
	// markers and payloads of what it produced.
	RemoveJob struct {
		Job      JobID
		Produces []Artifact
	}

	// PurgeFiles drops all of a job but its record: logs, outcome, patch, and the
	// markers and payloads of what it produced.
	PurgeFiles struct {
		Job      JobID
		Produces []Artifact
	}

	// Publish makes custom artifacts exist.
	Publish struct {
		Attempt   AttemptID
		Artifacts []Artifact
	}

	// Announce leaves an event to the operator's hooks. That of a run is announced
	// with the record of one of its jobs, whose change ended it.
	Announce struct {
		Event  Event
		Beside JobID // of a run's event
	}

	// Reset puts away what earlier attempts left: logs are kept under the
	// attempt's number; outcome, patch, markers and payloads go.
	Reset struct {
		Attempt  AttemptID
		Produces []Artifact
	}

	// Rotate keeps the logs of an attempt under its number before the next
	// one starts.
	Rotate struct{ Attempt AttemptID }
)

// Create is the action that adds the record of j.
func Create(j Job) CreateJob { return CreateJob{&j} }

func (a CreateJob) Subject() JobID  { return a.Job.ID }
func (a PutState) Subject() JobID   { return a.Job }
func (a NumberJob) Subject() JobID  { return a.Job }
func (a CreateRun) Subject() JobID  { return "" }
func (a RemoveRun) Subject() JobID  { return "" }
func (a RemoveJob) Subject() JobID  { return a.Job }
func (a PurgeFiles) Subject() JobID { return a.Job }
func (a Publish) Subject() JobID    { return a.Attempt.Job }
func (a Announce) Subject() JobID   { return cmp.Or(a.Event.Job, a.Beside) }
func (a Reset) Subject() JobID      { return a.Attempt.Job }
func (a Rotate) Subject() JobID     { return a.Attempt.Job }

func (a CreateJob) addTo(p *Plan)  { p.Records = append(p.Records, a) }
func (a PutState) addTo(p *Plan)   { p.Records = append(p.Records, a) }
func (a NumberJob) addTo(p *Plan)  { p.Records = append(p.Records, a) }
func (a CreateRun) addTo(p *Plan)  { p.Records = append(p.Records, a) }
func (a RemoveRun) addTo(p *Plan)  { p.Records = append(p.Records, a) }
func (a RemoveJob) addTo(p *Plan)  { p.Records = append(p.Records, a) }
func (a PurgeFiles) addTo(p *Plan) { p.Records = append(p.Records, a) }
func (a Publish) addTo(p *Plan)    { p.Records = append(p.Records, a) }
func (a Announce) addTo(p *Plan)   { p.Records = append(p.Records, a) }
func (a Reset) addTo(p *Plan)      { p.Records = append(p.Records, a) }
func (a Rotate) addTo(p *Plan)     { p.Records = append(p.Records, a) }

func (a CreateJob) write(w RecordWriter) error  { return w.CreateJob(a) }
func (a PutState) write(w RecordWriter) error   { return w.PutState(a) }
func (a NumberJob) write(w RecordWriter) error  { return w.NumberJob(a) }
func (a CreateRun) write(w RecordWriter) error  { return w.CreateRun(a) }
func (a RemoveRun) write(w RecordWriter) error  { return w.RemoveRun(a) }
func (a RemoveJob) write(w RecordWriter) error  { return w.RemoveJob(a) }
func (a PurgeFiles) write(w RecordWriter) error { return w.PurgeFiles(a) }
func (a Publish) write(w RecordWriter) error    { return w.Publish(a) }
func (a Announce) write(w RecordWriter) error   { return w.Announce(a) }
func (a Reset) write(w RecordWriter) error      { return w.Reset(a) }
func (a Rotate) write(w RecordWriter) error     { return w.Rotate(a) }

package kernel

import "cmp"

// Action is one change, either to the records or to the rest of the world.
//
//sumtype:decl
type Action interface {
	Subject() JobID // the job it is about; "" for actions on runs
	addTo(*Plan)
}

// RecordAction is a change to the records. A store does all record actions of
// a plan or none of them, so their order does not matter.
//
//sumtype:decl
type RecordAction interface {
	Action
	write(RecordWriter) error
}

// RecordWriter performs record actions. It has one method for each, so a store
// that lacks one does not compile.
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
	// CreateJob adds a record. Plans and snapshots share the job and never
	// change it.
	CreateJob struct{ Job *Job }

	// PutState replaces a job's state if its revision is still If.
	PutState struct {
		Job   JobID
		If    Revision
		State State
	}

	// NumberJob gives its number to a job that has none, if its revision is
	// still If.
	NumberJob struct {
		Job    JobID
		If     Revision
		Number Number
		Part   string
	}

	// CreateRun adds a run's manifest. The kernel does not read it.
	CreateRun struct {
		Run      RunID
		Manifest []byte
	}

	// RemoveRun deletes a run's manifest.
	RemoveRun struct{ Run RunID }

	// RemoveJob deletes a record with its directory, and the markers and
	// payloads of what the job produced.
	RemoveJob struct {
		Job      JobID
		Produces []Artifact
	}

	// PurgeFiles deletes everything of a job except its record: logs, outcome,
	// patch, and the markers and payloads of what it produced.
	PurgeFiles struct {
		Job      JobID
		Produces []Artifact
	}

	// Publish creates the markers of custom artifacts.
	Publish struct {
		Attempt   AttemptID
		Artifacts []Artifact
	}

	// Announce queues an event for the operator's hooks. The event of a run is
	// stored with the record of the job whose change ended the run.
	Announce struct {
		Event  Event
		Beside JobID // for the event of a run: the job whose record it is stored with
	}

	// Reset clears what earlier attempts left. Logs are kept under the
	// attempt's number; outcome, patch, markers and payloads are deleted.
	Reset struct {
		Attempt  AttemptID
		Produces []Artifact
	}

	// Rotate renames the logs of an attempt to its number before the next
	// attempt starts.
	Rotate struct{ Attempt AttemptID }
)

// Create returns the action that adds the record of j.
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

package kernel

// Action is one effect on the world. The set is closed.
//
//sumtype:decl
type Action interface{ Subject() JobID }

// The actions of records. A store does all of a plan's or none, whatever
// order they stand in.
type (
	// CreateJob adds a record.
	CreateJob struct{ Job Job }

	// PutState replaces a job's state if its revision is still If.
	PutState struct {
		Job   JobID
		If    Revision
		State State
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

	// Strip drops all of a job but its record: logs, outcome, patch, and the
	// markers and payloads of what it produced.
	Strip struct {
		Job      JobID
		Produces []Artifact
	}

	// Publish makes custom artifacts exist.
	Publish struct {
		Attempt   AttemptID
		Artifacts []Artifact
	}

	// Announce leaves the end of a job to the operator's hooks.
	Announce struct{ Event Event }

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

// The actions on the rest of the world, done in order after the records are
// durable. Each may be repeated after a crash.
type (
	// Launch starts the executor for an attempt already recorded as running.
	Launch struct{ Attempt AttemptID }

	// Stop ends an attempt's processes: TERM to the group, grace, KILL.
	Stop struct{ Attempt AttemptID }

	// Sweep ends what a lost attempt's runner may have left running.
	Sweep struct{ Attempt AttemptID }

	// ClearSentinel drops an open merge conflict's mark.
	ClearSentinel struct {
		Job  JobID
		Slug string
	}

	// RemoveWorktree takes a job's own worktree away, never the only copy of
	// work. What came of it goes to CleanedUp.
	RemoveWorktree struct {
		Job     JobID
		Context Context
		Cancel  bool // asked for by a cancel, not by a rewind
	}
)

// Subject is the job an action is about.
func (a CreateJob) Subject() JobID      { return a.Job.ID }
func (a CreateRun) Subject() JobID      { return "" }
func (a RemoveRun) Subject() JobID      { return "" }
func (a PutState) Subject() JobID       { return a.Job }
func (a RemoveJob) Subject() JobID      { return a.Job }
func (a Strip) Subject() JobID          { return a.Job }
func (a Announce) Subject() JobID       { return a.Event.Job }
func (a Publish) Subject() JobID        { return a.Attempt.Job }
func (a Reset) Subject() JobID          { return a.Attempt.Job }
func (a Rotate) Subject() JobID         { return a.Attempt.Job }
func (a Launch) Subject() JobID         { return a.Attempt.Job }
func (a Stop) Subject() JobID           { return a.Attempt.Job }
func (a Sweep) Subject() JobID          { return a.Attempt.Job }
func (a ClearSentinel) Subject() JobID  { return a.Job }
func (a RemoveWorktree) Subject() JobID { return a.Job }

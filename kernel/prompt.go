package kernel

import (
	"fmt"
	"time"
)

// Prompt is the prompt file that a job stands for (seed 004). The job is the one
// that its run ends in, so that what becomes of the job became of the prompt.
type Prompt struct {
	Owner      string // git_owner
	Repository string // repo_name
	Branch     string // the branch that the prompt is meant for
	File       string // absolute path of the claimed prompt, *.running.md
	Rel        string // path of the prompt as it was dropped, below the inbox
	Reason     string // why the job was made
	Archive    bool   // a copy goes to failed/ if the run fails
	SHA256     string // of the content, in hex
	Inode      uint64 // of the file, which its renames keep
	Claimed    time.Time
}

// PromptName is which of its names the file of a prompt has.
type PromptName uint8

// The names, in the order of a prompt's life.
const (
	NewPrompt     PromptName = iota // dropped, and nobody's yet
	RunningPrompt                   // claimed; its run is not over
	DonePrompt                      // its run succeeded
	ErrorPrompt                     // its run did not, or it could not be started
)

var promptNames = NewNames[PromptName]("prompt name", "prompt", "running", "done", "error")

// PromptState is what is known of a prompt's file.
type PromptState struct {
	Named    PromptName // the last name that was given; NewPrompt: not looked at yet
	Archived bool       // there is a copy below failed/
}

// PromptName is the name that the prompt of a job is to have, by its status.
func (s Status) PromptName() PromptName {
	switch {
	case s == Succeeded:
		return DonePrompt
	case s.Terminal():
		return ErrorPrompt
	default:
		return RunningPrompt
	}
}

// HoldsPrompt reports that the claimed file is still this job's: the run is
// not over, or the file does not say so yet.
func (j *Job) HoldsPrompt() bool {
	return j.Spec.Prompt != nil && (j.Open() || j.State.Prompt.Named != j.State.Status.PromptName())
}

// promptUpdates are the actions that give prompts the names which the tick's
// statuses call for.
func (t *tick) promptUpdates() []WorldAction {
	var out []WorldAction
	for _, i := range t.s.graph.prompts {
		j := t.s.jobs[i]
		if want := t.status(i).PromptName(); want != j.State.Prompt.Named {
			out = append(out, TendPrompt{j.ID, want})
		}
	}
	return out
}

// Tended records what came of a TendPrompt. If there was no prompt to begin
// with, nothing of the run starts: it fails for want of its input.
func Tended(s *Snapshot, a TendPrompt, found, archived bool) (Plan, error) {
	j := s.Job(a.Job)
	if j == nil || j.Spec.Prompt == nil {
		return Plan{}, fmt.Errorf("tend the prompt of %s: %w", a.Job, ErrNotFound)
	}
	if !found && j.State.Prompt.Named == NewPrompt && j.Open() {
		return s.withoutInput(j), nil
	}
	st := j.State
	st.Prompt = PromptState{a.Name, archived}
	return NewPlan(PutState{j.ID, j.Rev, st}), nil
}

// withoutInput fails the run of j. Jobs of it run only where an earlier copy of
// the prompt failed: these are stopped.
func (s *Snapshot) withoutInput(j *Job) Plan {
	var p Plan
	s.requireAll()
	for _, k := range s.jobs {
		if k != j && (j.Spec.Origin.Run == "" || k.Spec.Origin.Run != j.Spec.Origin.Run) || !k.Open() {
			continue
		}
		st := k.State
		st.Status, st.Finished, st.Exit, st.Outcome = Failed, s.now, Exited(1), OutcomeFailed
		st.Failure, st.Reason = MissingInput, "the prompt was gone before it could be read: "+j.Spec.Prompt.File
		st.Wait, st.WaitSince, st.RetryAt = WaitReason{}, time.Time{}, time.Time{}
		if k.State.Status == Running {
			p.add(Sweep{k.Attempt()})
		}
		if k == j {
			st.Prompt = PromptState{Named: ErrorPrompt}
		}
		p.add(PutState{k.ID, k.Rev, st})
	}
	return p
}

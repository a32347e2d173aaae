package kernel

import (
	"fmt"
	"time"
)

// Prompt is the prompt file that a job stands for (seed 004). The job is the
// last one of its run, so its end is the end of the prompt.
type Prompt struct {
	Owner      string // git_owner
	Repository string // repo_name
	Branch     string // the branch that the prompt is for
	File       string // absolute path of the claimed file, *.running.md
	Rel        string // path of the prompt as it was dropped, relative to the inbox
	Reason     string // why the job was made
	Archive    bool   // copy the prompt to failed/ if the run fails
	SHA256     string // of the content, in hex
	Inode      uint64 // inode number of the file, which renaming keeps
	Claimed    time.Time
}

// PromptName is one of the names that the file of a prompt has during its life.
type PromptName uint8

// The names, in the order of a prompt's life.
const (
	NewPrompt     PromptName = iota // dropped, not claimed
	RunningPrompt                   // claimed; its run is not over
	DonePrompt                      // its run succeeded
	ErrorPrompt                     // its run failed or could not be started
)

var promptNames = NewNames[PromptName]("prompt name", "prompt", "running", "done", "error")

// PromptState is what is known about a prompt's file.
type PromptState struct {
	Named    PromptName // the last name that it was given; NewPrompt: not tended yet
	Archived bool       // there is a copy below failed/
}

// PromptName returns the name that the prompt of a job with status s should
// have.
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

// HoldsPrompt reports whether the claimed file still belongs to this job: the
// run is not over, or the file has not been renamed accordingly.
func (j *Job) HoldsPrompt() bool {
	return j.Spec.Prompt != nil && (j.Open() || j.State.Prompt.Named != j.State.Status.PromptName())
}

// promptUpdates returns the actions that rename prompts as the tick's statuses
// demand.
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

// Tended records the result of a TendPrompt. If the prompt was gone before
// anything of its run started, the run fails with MissingInput.
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

// withoutInput fails the run of j. Jobs of the run can be running only if an
// earlier attempt to copy the prompt failed; they are ended.
func (s *Snapshot) withoutInput(j *Job) Plan {
	var p Plan
	s.requireAll()
	for _, k := range s.jobs {
		if k != j && (j.Spec.Origin.Run == "" || k.Spec.Origin.Run != j.Spec.Origin.Run) || !k.Open() {
			continue
		}
		st := k.State
		st.Status, st.Finished, st.Exit, st.Outcome = Failed, s.now, Exited(1), OutcomeFailed
		st.Failure, st.Reason = MissingInput, "the prompt was removed or changed before it could be copied: "+j.Spec.Prompt.File
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

package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Step is what somebody is to do: a command, or a sentence, or both, where the sentence is what to show: it says
// who may run the command, or what to look at before.
type Step struct {
	Command []string
	Text    string
}

// Steps returns how to apply actions, in their order. Jobs to retry are named in one command: a retry of some
// of them may wake others, which a second command would be refused for. What one step does for several actions is there once.
func Steps(actions []kernel.Remedy) (out []Step) {
	for i, r := range actions {
		command, text := remedy(r)
		switch {
		case i > 0 && r.Kind == kernel.RetryJob && actions[i-1].Kind == kernel.RetryJob:
			out[len(out)-1].Command = append(out[len(out)-1].Command, string(r.Job))
		case text == "" || !slices.ContainsFunc(out, func(s Step) bool { return s.Text == text }): // a draft makes all of a plan
			out = append(out, Step{command, text})
		}
	}
	return out
}

// remedy returns the step that applies r.
func remedy(r kernel.Remedy) (command []string, text string) {
	switch r.Kind {
	case kernel.RetryJob:
		return []string{"vizier", "retry", string(r.Job)}, ""
	case kernel.ApproveJob:
		command = []string{"vizier", "jobs", "approve", string(r.Job)}
		if r.Pinned.Commit != "" {
			changed := string(r.Pinned.Commit)
			if r.Asked != "" {
				changed = string(r.Asked + "..." + r.Pinned.Commit)
			}
			command = append(command, "--head", string(r.Pinned.Commit))
			text = "branch " + r.Pinned.Branch + " has moved: look at `" + kernel.CommandLine("git", "log", "--left-right", changed) + "`, then `" + strings.Join(command, " ") + "`"
		}
		if by := r.Barred.Else(); by != "" {
			text = cmp.Or(text, strings.Join(command, " ")) + ", by " + by
		}
		return command, text
	case kernel.MendRecord:
		return nil, "fix the record of job " + string(r.Job) + ": " + r.Detail
	case kernel.SubmitAgain:
		return nil, "submit the work again: the record of job " + string(r.Job) + " " + r.Detail
	case kernel.ProduceArtifact:
		if plan, ok := strings.CutPrefix(r.Artifact.Ref, "approve:"); ok && r.Artifact.Kind == kernel.Custom && r.Artifact.Name == kernel.StageToken {
			command = []string{"vizier", "run", "approve", "--name", plan}
			if r.Pinned.Branch != "" {
				command = append(command, "--branch", r.Pinned.Branch)
			}
			return command, ""
		}
		if a := r.Artifact; (a.Kind == kernel.PlanBranch || a.Kind == kernel.PlanDoc) && a.Ref == "draft/"+a.Name {
			return nil, "draft the plan: `" + kernel.CommandLine("vizier", "run", "draft", "--name", a.Name) + "` with `--spec-text` or `--file`"
		} else if (a.Kind == kernel.PlanBranch || a.Kind == kernel.PlanDoc) && a.Ref != "" {
			return nil, "draft the plan on branch " + a.Ref + ": `" + kernel.CommandLine("vizier", "run", "draft", "--name", a.Name, "--branch", a.Ref) + "` with `--spec-text` or `--file`; or bring it to that branch with git"
		}
		return nil, "queue a job that produces " + r.Artifact.String()
	case kernel.MoveBranch:
		return nil, "move branch " + r.Pinned.Branch + " to " + string(r.Pinned.Commit)
	case kernel.CleanTree:
		return nil, "commit or put away what `git status` names in the main working tree"
	case kernel.MakeBranch:
		if r.Pinned.Commit != "" {
			return []string{"git", "branch", r.Pinned.Branch, string(r.Pinned.Commit)}, ""
		}
		return nil, "make branch " + r.Pinned.Branch + ", as `" + kernel.CommandLine("git", "branch", "--", r.Pinned.Branch) + "` does at the commit that is checked out"
	case kernel.MeetCondition:
		return nil, "clear the precondition: " + r.Detail
	case kernel.SeeToAgent:
		return nil, r.Detail
	case kernel.EnlargePool:
		return nil, "enlarge pool " + r.Detail + " to " + strconv.Itoa(r.Units) + " in the configuration, or cancel job " + string(r.Job) + " and submit it with less"
	case kernel.SeeToSecret:
		return nil, "see to what secret " + r.Detail + " of job " + string(r.Job) + " comes from: its launch is tried again by itself"
	case kernel.SeeToRunner:
		return nil, "see whether the host of job " + string(r.Job) + " is reachable and its runner not stopped, or cancel it"
	case kernel.AwaitEnd:
		return nil, "wait until job " + string(r.Job) + " has ended, or cancel it: the retry takes it along"
	}
	return nil, ""
}

// InOrder reports whether actions work only in their order: a job that has ended asks
// for its approval only after a retry, and gets it only for a branch that is there; it may be retried only once what it needs is made and what it takes along has ended.
func InOrder(actions []kernel.Remedy) bool {
	if slices.ContainsFunc(actions, func(r kernel.Remedy) bool { return r.Kind == kernel.MakeBranch && r.Pinned.Commit != "" }) {
		return true
	}
	retry := slices.IndexFunc(actions, func(r kernel.Remedy) bool { return r.Kind == kernel.RetryJob })
	return retry >= 0 && (slices.ContainsFunc(actions[retry:], func(r kernel.Remedy) bool { return r.Kind == kernel.ApproveJob }) ||
		slices.ContainsFunc(actions[:retry], func(r kernel.Remedy) bool { return r.Kind == kernel.ProduceArtifact || r.Kind == kernel.AwaitEnd }))
}

// NotRun explains why job id, which was submitted again, does not run again,
// and which command would run it.
func NotRun(id kernel.JobID, n kernel.NotRun) string {
	retry := "`vizier retry " + string(id) + "`"
	switch {
	case n.Removed:
		return "it succeeded, and its files were removed since: " + retry + " makes them again"
	case n.Status == kernel.Failed:
		return "it failed: a larger limit of executions, or " + retry + ", runs it again"
	default:
		return "it is " + n.Status.String() + ": " + retry + " runs it again"
	}
}

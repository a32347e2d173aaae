package kernel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What a record could not hold, or git would not take, is refused before there is a job.
func TestJobsThatAreRefused(t *testing.T) {
	bad := kernel.Artifact{Kind: kernel.PlanBranch, Name: "a\xff"}
	for want, change := range map[string]func(*kernel.Spec){
		`slug "a..b": git takes no such name, for it has ..`: func(s *kernel.Spec) { s.Origin.Plan, s.Origin.About.Operation = "a..b", "plan.persist" },
		`slug "a/b": the name of a plan has no /`:            func(s *kernel.Spec) { s.Origin.Plan, s.Origin.About.Operation = "a/b", "plan.persist" },
		`produce: artifact "plan_branch:a (draft/a..b)": "draft/a..b": git takes no such name`: func(s *kernel.Spec) {
			s.Produces = []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "a", Ref: "draft/a..b"}}
		},
		`precondition: branch "-x": git takes no such name`: func(s *kernel.Spec) { s.Pinned = kernel.PinnedHead{Branch: "-x", Commit: "c"} },
		`precondition: branch "x.": git takes no such name`: func(s *kernel.Spec) {
			s.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists, Branch: "x."}}
		},
		`produce: `: func(s *kernel.Spec) { s.Produces = []kernel.Artifact{bad} },
		`need: `:    func(s *kernel.Spec) { s.Needs = []kernel.Artifact{bad} },
	} {
		spec := kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}
		change(&spec)
		spec.IdempotencyKey = "k"
		if _, _, err := kernel.Submit(kernel.NewSnapshot(kernel.Observation{}), []kernel.NewJob{{ID: "a", Spec: spec}}, "ann"); !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("with a key: %v; want %s", err, want)
		}
		_, err := kernel.Enqueue(kernel.NewSnapshot(kernel.Observation{}), []kernel.NewJob{{ID: "a", Spec: spec}})
		if !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	for _, o := range []kernel.Origin{{Plan: "a/b", About: kernel.NodeInfo{Operation: "worktree.prepare"}}, {Plan: "a..b", About: kernel.NodeInfo{Operation: "agent.invoke"}}, {About: kernel.NodeInfo{Operation: "plan.persist"}}} {
		if _, err := kernel.Enqueue(kernel.NewSnapshot(kernel.Observation{}), []kernel.NewJob{{ID: "a", Spec: kernel.Spec{Origin: o}}}); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := kernel.CheckRef("a\xff"); err == nil || !strings.Contains(err.Error(), "it is not UTF-8, as records are") {
		t.Errorf("%v", err)
	}
	none := kernel.NewSnapshot(kernel.Observation{Jobs: []kernel.Job{{ID: "a"}}})
	for _, id := range []kernel.JobID{"a", "b"} {
		if p, err := kernel.Tended(none, kernel.TendPrompt{Job: id}, true, false); !errors.Is(err, kernel.ErrNotFound) || !p.Empty() {
			t.Errorf("the prompt of %s: %v", id, err)
		}
	}
	for want, c := range map[string]kernel.Cycle{
		"retry job a": {Frees: kernel.Remedy{Kind: kernel.RetryJob, Job: "a"}},
		"enqueue another job that makes custom:t:k": {Frees: kernel.Remedy{Kind: kernel.ProduceArtifact, Artifact: kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "k"}}},
	} {
		if got := c.Freed(); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

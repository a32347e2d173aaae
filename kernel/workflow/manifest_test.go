package workflow_test

import (
	"encoding/json"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

func TestManifestDocument(t *testing.T) {
	_, m := compile(t, wrap(`{"id": "commit", "uses": "cap.env.builtin.git.stage_commit", "args": {"message": "m"},
		"produces": {"succeeded": [{"plan_doc": {"slug": "foo"}}], "blocked": [{"merge_sentinel": {"slug": "foo"}}]}, "on": {"succeeded": ["gate"]}}`,
		gateNode(`"on": {"failed": ["commit"]}, "retry": {"mode": "until_gate", "budget": 2}, "gates": [{"kind": "script", "script": "x", "policy": "retry"}]`)), nil)
	m.PolicyHash = "HASH"
	got, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "run_id": "run_1",
 "template_selector": "draft",
 "template_id": "t",
 "template_version": "v1",
 "policy_snapshot_hash": "HASH",
 "policy": {
  "failure_mode": "continue_independent",
  "missing_producer": "block"
 },
 "params": {
  "n": "2",
  "slug": "foo"
 },
 "nodes": {
  "commit": {
   "node_id": "commit",
   "job_id": "id-commit",
   "uses": "cap.env.builtin.git.stage_commit",
   "kind": "builtin",
   "args": {
    "message": "m"
   },
   "executor_operation": "git.stage_commit",
   "gates": [],
   "retry": {
    "mode": "never",
    "budget": 0
   },
   "needs": [],
   "routes": {
    "blocked": [],
    "cancelled": [],
    "failed": [],
    "succeeded": [
     {
      "node_id": "gate",
      "mode": "propagate_context"
     }
    ]
   },
   "artifacts_by_outcome": {
    "blocked": [
     {
      "merge_sentinel": {
       "slug": "foo"
      }
     }
    ],
    "cancelled": [],
    "failed": [],
    "succeeded": [
     {
      "plan_doc": {
       "branch": "draft/foo",
       "slug": "foo"
      }
     }
    ]
   }
  },
  "gate": {
   "node_id": "gate",
   "job_id": "id-gate",
   "uses": "control.gate.stop_condition",
   "kind": "gate",
   "args": {},
   "control_policy": "gate.stop_condition",
   "gates": [
    {
     "kind": "script",
     "policy": "retry",
     "script": "x"
    }
   ],
   "retry": {
    "mode": "until_gate",
    "budget": 2
   },
   "needs": [],
   "routes": {
    "blocked": [],
    "cancelled": [],
    "failed": [
     {
      "node_id": "commit",
      "mode": "retry_job"
     }
    ],
    "succeeded": []
   },
   "artifacts_by_outcome": {
    "blocked": [],
    "cancelled": [],
    "failed": [],
    "succeeded": []
   }
  }
 }
}`
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
}

func TestArtifactRecordsRoundTrip(t *testing.T) {
	for _, label := range []string{"plan_branch:s (draft/s)", "plan_doc:s (b)", "plan_commits:s (b)", "target_branch:main", "merge_sentinel:s", "command_patch:j", "custom:t:k:l"} {
		a, err := kernel.ParseArtifact(label)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := workflow.RecordOf(a).Artifact(); err != nil || back != a {
			t.Errorf("%s came back as %s, %v", a, back, err)
		}
	}
	for _, bad := range []workflow.ArtifactRecord{{}, {"plan": {"slug": "s"}}, {"custom": {"type_id": "t"}}, {"plan_doc": {"slug": "s"}, "plan_branch": {"slug": "s"}}} {
		if a, err := bad.Artifact(); err == nil {
			t.Errorf("%v became %s", bad, a)
		}
	}
}

// A node works with the text of what it needs, or only waits for it.
func TestReads(t *testing.T) {
	text := func(name string) kernel.Artifact {
		return kernel.Artifact{Kind: kernel.Custom, Name: name, Ref: "main"}
	}
	for _, c := range []struct {
		operation string
		args      map[string]string
		needs, of string
		want      bool
	}{
		{"agent.invoke", nil, "prompt_text", "prompt_text", true},
		{"agent.invoke", nil, "prompt_text", "plan_text", false},
		{"agent.invoke", nil, "stage_token", "stage_token", false},
		{"plan.persist", nil, "plan_text", "plan_text", true},
		{"plan.persist", nil, "stage_token", "stage_token", false},
		{"plan.persist", map[string]string{"plan_body": "its own"}, "plan_text", "plan_text", false},
		{"git.commit", map[string]string{"message": "read_payload(commit_message)"}, "commit_message", "commit_message", true},
		{"git.stage_commit", map[string]string{"commit_message": "read_payload(m:main)"}, "m", "m", true},
		{"git.commit", map[string]string{"message": "read_payload(other)"}, "commit_message", "commit_message", false},
		{"git.commit", map[string]string{"message": "fixed"}, "commit_message", "commit_message", false},
		{"command.run", nil, "plan_text", "plan_text", false},
		{"agent.invoke", nil, "stage_token", "prompt_text", false},
	} {
		n := workflow.ManifestNode{Operation: c.operation, Args: c.args, Needs: []workflow.ArtifactRecord{workflow.RecordOf(text(c.needs))}}
		if got := n.Reads(text(c.of)); got != c.want {
			t.Errorf("%s %v that needs %s reads %s: %v", c.operation, c.args, c.needs, c.of, got)
		}
	}
}

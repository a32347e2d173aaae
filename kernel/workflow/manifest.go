package workflow

import (
	"fmt"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Manifest describes the nodes of a run for the runtime that executes them
// (.vizier/jobs/runs/RUN.json). It is plain data.
type Manifest struct {
	Run        kernel.RunID            `json:"run_id"`
	Selector   string                  `json:"template_selector"`
	TemplateID string                  `json:"template_id"`
	Version    string                  `json:"template_version"`
	PolicyHash string                  `json:"policy_snapshot_hash"`
	Policy     ManifestPolicy          `json:"policy"`
	Params     map[string]string       `json:"params"`
	Nodes      map[string]ManifestNode `json:"nodes"`
}

// ManifestPolicy holds the rules of a template for all its nodes.
type ManifestPolicy struct {
	FailureMode     string `json:"failure_mode"`
	MissingProducer string `json:"missing_producer"`
}

// ManifestNode is one node of a run, expanded.
type ManifestNode struct {
	Node      string                      `json:"node_id"`
	Name      string                      `json:"name,omitempty"`
	Job       kernel.JobID                `json:"job_id"`
	Uses      string                      `json:"uses"`
	Kind      string                      `json:"kind"`
	Args      map[string]string           `json:"args"`
	Operation string                      `json:"executor_operation,omitempty"`
	Control   string                      `json:"control_policy,omitempty"`
	Gates     []ManifestGate              `json:"gates"`
	Retry     ManifestRetry               `json:"retry"`
	Needs     []ArtifactRecord            `json:"needs"`
	Routes    map[string][]ManifestRoute  `json:"routes"`
	Artifacts map[string][]ArtifactRecord `json:"artifacts_by_outcome"`
}

// Reads reports whether n does its work with the text of a, a custom artifact:
// a prompt, a plan or the message of a commit. Other nodes may only wait for it.
func (n ManifestNode) Reads(a kernel.Artifact) bool {
	needed := slices.ContainsFunc(n.Needs, func(r ArtifactRecord) bool {
		need, err := r.Artifact()
		return err == nil && need == a
	})
	if !needed {
		return false
	}
	switch n.Operation {
	case opAgent:
		return a.Name == promptText
	case opPlan:
		return a.Name == "plan_text" && n.arg("plan_body", "plan_text", "content") == ""
	case opCommit, opStageCommit:
		sel, ok := Payload(n.arg("message", "commit_message"))
		return ok && Selects(sel, a)
	}
	return false
}

// ManifestGate is a gate of a node; which fields it has depends on its kind.
type ManifestGate struct {
	Kind        string            `json:"kind"`
	Policy      string            `json:"policy"`
	Script      string            `json:"script,omitempty"`
	AutoResolve bool              `json:"auto_resolve,omitempty"`
	Required    bool              `json:"required,omitempty"`
	ID          string            `json:"id,omitempty"`
	Args        map[string]string `json:"args,omitempty"`
}

// ManifestRetry is a node's retry rule: at most Budget further executions.
type ManifestRetry struct {
	Mode   string `json:"mode"`
	Budget int    `json:"budget"`
}

// ManifestRoute is one edge of on.OUTCOME.
type ManifestRoute struct {
	Node string    `json:"node_id"`
	Mode RouteMode `json:"mode"`
}

// RouteMode is what an edge does when its node ends with its outcome.
type RouteMode string

// The modes of routes.
const (
	// PropagateContext hands the execution context on to the target; the target
	// waits for the node because of its after edge. A dormant target is woken.
	PropagateContext RouteMode = "propagate_context"
	// RetryJob rewinds the target and what depends on it, or wakes it.
	RetryJob RouteMode = "retry_job"
)

// ArtifactRecord is an artifact as job records and manifests write it: its
// kind and its fields.
type ArtifactRecord map[string]map[string]string

// RecordOf returns the record of a.
func RecordOf(a kernel.Artifact) ArtifactRecord {
	return ArtifactRecord{a.Kind.String(): identityOf(a)}
}

// Artifact is the inverse of RecordOf.
func (r ArtifactRecord) Artifact() (kernel.Artifact, error) {
	if len(r) == 1 {
		for kind, fields := range r {
			k, err := kernel.ParseArtifactKind(kind)
			if err != nil {
				return kernel.Artifact{}, fmt.Errorf("artifact record: %w", err)
			}
			names := artifactFields[k]
			a := kernel.Artifact{Kind: k, Name: fields[names[0]], Ref: fields[names[1]]}.Canonical()
			return a, a.Validate()
		}
	}
	return kernel.Artifact{}, fmt.Errorf("artifact record with %d kinds: %w", len(r), kernel.ErrInvalid)
}

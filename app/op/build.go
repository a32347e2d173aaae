package op

import (
	"context"
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// buildMaterializeStep writes down one step of a build, and makes sure that its
// plan's branch, a document for the plan and its target branch exist. If the
// node names no step, the step is the node itself.
func buildMaterializeStep(ctx context.Context, env *Env, n *Node) (Result, error) {
	step := struct {
		Build    string    `json:"build_id"`
		Step     string    `json:"step_key"`
		Slug     string    `json:"slug,omitempty"`
		Branch   string    `json:"branch,omitempty"`
		Target   string    `json:"target,omitempty"`
		Pipeline string    `json:"pipeline,omitempty"`
		Job      string    `json:"job_id"`
		Node     string    `json:"node_id"`
		Written  time.Time `json:"materialized_at"`
	}{n.arg("build_id"), n.arg("step_key"), n.arg("slug"), n.arg("branch"), n.arg("target"), n.arg("pipeline"),
		string(n.Job.ID), n.Node, n.Job.Created.UTC()}
	if step.Build == "" {
		step.Build, step.Step = string(n.Job.Spec.Origin.Run), n.Node
	}
	if step.Build == "" {
		step.Build = string(n.Job.ID)
	}
	for _, name := range []string{step.Build, step.Step} {
		if name == "" || fileName(name) != name {
			return Result{}, fmt.Errorf("build_id or step_key %q: expected letters, digits, - and _, at most 60: %w", name, kernel.ErrInvalid)
		}
	}
	var produced []kernel.Artifact
	if step.Slug != "" && step.Branch != "" {
		if slugOf(step.Slug) != step.Slug {
			return Result{}, fmt.Errorf("slug %q: expected lower-case letters, digits and hyphens, at most 32: %w", step.Slug, kernel.ErrInvalid)
		}
		if err := ensureBranch(ctx, env, n, step.Branch); err != nil {
			return Result{}, fmt.Errorf("branch %s: %w", step.Branch, err)
		}
		if doc := planFile(step.Slug); !present(n.Dir, doc) {
			text := planDocument("pln_"+string(n.Job.ID), step.Slug, step.Branch, "Step "+step.Step+" of build "+step.Build+".", "")
			if err := writeIn(ctx, n.Dir, doc, []byte(text), 0o644); err != nil {
				return Result{}, err
			}
		}
		produced = append(produced, kernel.Artifact{Kind: kernel.PlanBranch, Name: step.Slug, Ref: step.Branch},
			kernel.Artifact{Kind: kernel.PlanDoc, Name: step.Slug, Ref: step.Branch})
	}
	if step.Target != "" {
		if err := ensureBranch(ctx, env, n, step.Target); err != nil {
			return Result{}, fmt.Errorf("target branch %s: %w", step.Target, err)
		}
		produced = append(produced, kernel.Artifact{Kind: kernel.TargetBranch, Name: step.Target})
	}
	file := plansDir + "/builds/" + step.Build + "/steps/" + step.Step + "/materialized.json"
	if err := writeJSON(ctx, n.Dir, file, step, 0o644); err != nil {
		return Result{}, err
	}
	r := ok("step in " + file)
	var err error
	r.Produced, err = n.besides(produced...)
	return r, err
}

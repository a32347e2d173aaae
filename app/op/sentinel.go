package op

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// sentinel is the mark of an open merge conflict (original 3.9, and the place
// of the merge).
type sentinel struct {
	Slug     string    `json:"slug"`
	Source   string    `json:"source_branch"`
	Target   string    `json:"target_branch"`
	Job      string    `json:"job_id"`
	Node     string    `json:"node_id"`
	Run      string    `json:"run_id"`
	Worktree string    `json:"worktree,omitempty"` // relative to the repository's root
	Files    []string  `json:"files,omitempty"`    // in conflict, relative to the worktree
	Created  time.Time `json:"created_at"`

	Left map[string]string `json:"left,omitempty"` // the state in which the merge left each file, from look

	Undone bool `json:"undone,omitempty"` // the gate has said that somebody undid the merge
}

// writeSentinel writes s as n's.
func writeSentinel(env *Env, n *Node, s sentinel) error {
	s.Job, s.Node, s.Run, s.Created = string(n.Job.ID), n.Node, string(n.Job.Spec.Origin.Run), env.Now().UTC()
	return keepSentinel(env, &s)
}

func keepSentinel(env *Env, s *sentinel) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("mark of the merge conflict of %s: %w", s.Slug, err)
	}
	return env.Files.WriteSentinel(s.Slug, append(data, '\n'))
}

// readSentinel returns the mark of a plan's open conflict, or nil if there is
// none.
func readSentinel(env *Env, slug string) (*sentinel, error) {
	data, err := env.Files.Sentinel(slug)
	if err != nil || data == nil {
		return nil, err
	}
	s := new(sentinel)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, &classed{kernel.DataError, fmt.Errorf("mark of the merge conflict of %s: %w", slug, err)}
	}
	s.Worktree = belowRoot(s.Worktree)
	return s, nil
}

// sentinelWrite marks a merge conflict as open.
func sentinelWrite(_ context.Context, env *Env, n *Node) (Result, error) {
	slug, source := mergeOf(n)
	target := n.arg("target", "target_branch")
	if target == "" {
		target = n.Job.Spec.Origin.Target
	}
	if err := writeSentinel(env, n, sentinel{Slug: slug, Source: source, Target: target}); err != nil {
		return Result{}, err
	}
	r := ok("the merge of " + slug + " is marked as in conflict")
	var err error
	r.Produced, err = n.besides(kernel.Artifact{Kind: kernel.MergeSentinel, Name: slug})
	return r, err
}

// sentinelClear removes that mark, if there is one.
func sentinelClear(_ context.Context, env *Env, n *Node) (Result, error) {
	slug, _ := mergeOf(n)
	if err := env.Files.ClearSentinel(slug); err != nil && !errors.Is(err, kernel.ErrNotFound) {
		return Result{}, err
	}
	return ok("no merge conflict of " + slug + " is open"), nil
}

// mergeOf returns the plan whose merge n is about and the plan's branch, "" if
// unknown.
func mergeOf(n *Node) (slug, source string) {
	o := n.Job.Spec.Origin
	source = n.arg("branch", "source_branch", "plan_branch")
	slug = n.arg("slug", "plan")
	if source == "" && slug != "" {
		source = "draft/" + slug
	}
	if source == "" {
		source = o.Branch
	}
	if slug == "" {
		slug = o.Plan
	}
	if slug == "" {
		slug, _ = strings.CutPrefix(source, "draft/")
		slug = fileName(slug)
	}
	if slug == "" {
		slug = string(n.Job.ID)
	}
	if source == "" && o.Plan != "" {
		source = "draft/" + o.Plan
	}
	return slug, source
}

package main

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// cdCmd stands for a command that earlier versions had. It tells scripts that
// still call it what to use instead.
type cdCmd struct {
	Plan     string `arg:"" optional:"" help:"Plan."`
	Branch   string `help:"Branch of the plan."`
	PathOnly bool   `help:"Print the path only."`
}

// Run always fails.
func (x *cdCmd) Run(*call) error {
	if x.Plan == "" {
		return usageError(errors.New("plan argument is required for vizier cd"))
	}
	return &failure{class: class{"deprecated", 1, "vizier show JOB --format json tells where a job works"},
		err: errors.New("vizier cd is deprecated; use scheduler-managed jobs instead")}
}

// plans returns the plans that have a branch.
func (c *call) plans() []candidate {
	r, err := c.repo()
	if err != nil {
		return nil
	}
	tips, err := r.Git.Branches(c.ctx, "draft/")
	if err != nil {
		return nil
	}
	var out []candidate
	for _, branch := range slices.Sorted(maps.Keys(tips)) {
		out = append(out, candidate{strings.TrimPrefix(branch, "draft/"), branch})
	}
	return out
}

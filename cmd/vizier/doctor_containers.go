package main

import (
	"context"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// checkContainers checks whether jobs can run in containers on this host. It does
// so only if an open job needs a container or an engine is configured.
func (r *repo) checkContainers(_ context.Context, s *kernel.Snapshot) ([]app.Finding, error) {
	waits := func(j *kernel.Job) bool {
		return j.Open() && j.Spec.Task.Container != "" && j.Spec.Task.On() == kernel.LocalExecutor
	}
	meant := func(s config.Setting) bool { return strings.HasPrefix(s.Key, "containers.") && s.Origin != "default" }
	if !slices.ContainsFunc(s.Jobs(), waits) && !slices.ContainsFunc(r.Config.Settings(), meant) {
		return nil, nil
	}
	if problem, next := r.Doctor.containers(); problem != "" {
		return []app.Finding{{Path: "containers.engine", Problem: problem, Next: next}}, nil
	}
	return nil, nil
}

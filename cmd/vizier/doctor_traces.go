package main

import (
	"context"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// checkTraces looks whether spans arrive where the configuration has them sent.
func (r *repo) checkTraces(context.Context, *kernel.Snapshot) ([]app.Finding, error) {
	if problem, next := r.Doctor.traces(); problem != "" {
		return []app.Finding{{Path: "otel.endpoint", Problem: problem, Next: next}}, nil
	}
	return nil, nil
}

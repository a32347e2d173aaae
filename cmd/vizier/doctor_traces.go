package main

import (
	"context"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// checkTraces checks whether spans arrive at the configured collector.
func (r *repo) checkTraces(context.Context, *kernel.Snapshot) ([]app.Finding, error) {
	if problem, next := r.Doctor.traces(); problem != "" {
		return []app.Finding{{Path: "otel.endpoint", Problem: problem, Next: next}}, nil
	}
	return nil, nil
}

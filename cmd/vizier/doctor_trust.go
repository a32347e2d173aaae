package main

import (
	"context"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// checkApprovals looks for approvals that are of something else than their jobs
// do: a job that is open waits for a person again, and one that is not was
// changed since.
func checkApprovals(_ context.Context, s *kernel.Snapshot) ([]app.Finding, error) {
	var out []app.Finding
	for _, j := range s.Jobs() {
		why := j.Unsealed()
		if why == "" || !j.Open() && j.Seal() != kernel.Broken {
			continue
		}
		f := app.Finding{Path: ".vizier/jobs/" + string(j.ID), Problem: why, Next: "vizier show " + string(j.ID)}
		if j.Open() && j.State.Status != kernel.Running {
			f.Next += ", then vizier jobs approve or reject it"
		}
		out = append(out, f)
	}
	return out, nil
}

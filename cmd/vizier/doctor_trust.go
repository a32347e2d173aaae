package main

import (
	"context"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// checkApprovals looks for jobs that differ from what was approved, and for open
// ones whose approval does not say what it covers. If such a job is open, it waits
// for a person again; otherwise it was changed after it had ended.
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

package vizier

import (
	"context"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Evidence returns a file that proves what became of jobs, and how that was
// decided: see VerifyEvidence. about is how the requester named the jobs.
func (r *Repository) Evidence(ctx context.Context, about string, ids []kernel.JobID) ([]byte, error) {
	return r.Store.Export(ctx, about, ids, func(ctx context.Context, marks []string) ([]fs.EvidenceCommit, error) {
		names, objects, err := r.Git.Commits(ctx, marks)
		out := make([]fs.EvidenceCommit, len(names))
		for i := range names {
			out[i] = fs.EvidenceCommit{ID: names[i], Object: objects[i]}
		}
		return out, err
	})
}

// VerifyEvidence verifies a file made by Evidence. It needs no repository.
func VerifyEvidence(ctx context.Context, file []byte) (fs.Evidence, fs.Verification, error) {
	return fs.VerifyEvidence(ctx, version(), file)
}

package git

import (
	"context"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Branches are the tips of the local branches whose short names begin with
// prefix, a path that ends in "/".
func (r *Repo) Branches(ctx context.Context, prefix string) (map[string]kernel.CommitID, error) {
	out, err := r.cli.read(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/"+prefix)
	if err != nil {
		return nil, fmt.Errorf("list branches: %w", err)
	}
	tips := map[string]kernel.CommitID{}
	for line := range strings.Lines(string(out)) {
		if commit, ref, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			tips[strings.TrimPrefix(ref, "refs/heads/")] = kernel.CommitID(commit)
		}
	}
	return tips, nil
}

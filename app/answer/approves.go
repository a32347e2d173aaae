package answer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Manifests reads the manifests of runs.
type Manifests interface {
	Manifest(kernel.RunID) ([]byte, error)
}

// Approves returns the lines that say what an approval of j covers: those of statement, the
// commit of the branch that it is about, and the arguments of j's node from the manifest whose
// digest is in the statement.
func Approves(j *kernel.Job, statement string, manifests Manifests) []string {
	lines, o := view.Approves(j, statement), &j.Spec.Origin
	if o.Manifest == "" {
		return lines
	}
	data, err := manifests.Manifest(o.Run)
	var m workflow.Manifest
	if err != nil || kernel.DigestOf(string(data)) != o.Manifest || json.Unmarshal(data, &m) != nil {
		return append(lines, "# the manifest has changed since the job was made: it will not run")
	}
	args := m.Nodes[o.Node].Args
	for _, name := range slices.Sorted(maps.Keys(args)) {
		lines = append(lines, "arg "+strconv.QuoteToASCII(name)+" "+strconv.QuoteToASCII(args[name]))
	}
	return lines
}

// Steering says what the plan of j, which is open, changes of what Vizier runs after the plan's merge; "": nothing. changed
// returns the files below .vizier that a branch changes.
func Steering(ctx context.Context, j *kernel.Job, changed func(ctx context.Context, branch, target string) ([]string, error)) (string, error) {
	o := &j.Spec.Origin
	if !j.Open() || o.Plan == "" {
		return "", nil
	}
	branch := kernel.Artifact{Kind: kernel.PlanBranch, Name: o.Plan, Ref: o.Branch}.Branch()
	files, err := changed(ctx, branch, o.Target)
	if err != nil || len(files) == 0 {
		return "", err
	}
	what := files[0]
	if more := len(files) - 1; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("plan %s changes %s, and so what Vizier runs after the merge: %s", o.Plan, what,
		kernel.CommandLine("git", "diff", cmp.Or(o.Target, "HEAD")+"..."+branch, "--", ".vizier")), nil
}

package answer

import (
	"encoding/json"
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

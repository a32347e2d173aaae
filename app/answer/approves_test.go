package answer

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// manifests are those of runs; the others cannot be read.
type manifests map[kernel.RunID]string

func (m manifests) Manifest(id kernel.RunID) ([]byte, error) {
	text, there := m[id]
	if !there {
		return nil, errors.New("disk on fire")
	}
	return []byte(text), nil
}

// What an approval covers has the arguments of the node, unless the manifest is not the one of the statement.
func TestApproves(t *testing.T) {
	b, err := json.Marshal(workflow.Manifest{Nodes: map[string]workflow.ManifestNode{"n": {Args: map[string]string{"b": "2", "a": "one\n"}}, "other": {Args: map[string]string{"c": "3"}}}})
	if err != nil {
		t.Fatal(err)
	}
	text, other := string(b), "{}"
	const statement, changed = "vizier approval 1\njob x\n", "# the manifest has changed since the job was made: it will not run"
	for name, c := range map[string]struct {
		of    kernel.Digest // the digest in the statement; "": the job has no manifest
		all   manifests
		lines []string
	}{
		"no manifest":           {"", nil, nil},
		"the manifest":          {kernel.DigestOf(text), manifests{"r": text}, []string{`arg "a" "one\n"`, `arg "b" "2"`}},
		"another manifest":      {kernel.DigestOf(other), manifests{"r": text}, []string{changed}},
		"one of another run":    {kernel.DigestOf(text), manifests{"q": text}, []string{changed}},
		"one that is no record": {kernel.DigestOf("x"), manifests{"r": "x"}, []string{changed}},
	} {
		j := kernel.Job{ID: "j", Spec: kernel.Spec{Origin: kernel.Origin{Run: "r", Node: "n", Manifest: c.of}}}
		if got, want := Approves(&j, statement, c.all), append(slices.Clone(view.Statement(statement)), c.lines...); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	j := kernel.Job{ID: "j", Spec: kernel.Spec{Origin: kernel.Origin{Branch: "b"}}, State: kernel.State{Approval: kernel.Approval{State: kernel.Pending, Head: "c"}}}
	if got := Approves(&j, statement, nil); !slices.Contains(got, `branch "b" "c"`) {
		t.Errorf("the branch is not in %q", got)
	}
}

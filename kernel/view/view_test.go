package view_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vizier-scheduler/vizier/kernel"
)

var noon = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

// job returns a job created the given number of minutes after noon.
func job(id string, minute int, st kernel.Status, edit ...func(*kernel.Job)) kernel.Job {
	j := kernel.Job{ID: kernel.JobID(id), Created: noon.Add(time.Duration(minute) * time.Minute), Rev: 1}
	j.State.Status = st
	j.Spec.Name = "do " + id
	for _, e := range edit {
		e(&j)
	}
	return j
}

func after(ids ...kernel.JobID) func(*kernel.Job) {
	return func(j *kernel.Job) { j.Spec.After = append(j.Spec.After, ids...) }
}

func needs(t testing.TB, labels ...string) func(*kernel.Job) {
	return func(j *kernel.Job) { j.Spec.Needs = append(j.Spec.Needs, parse(t, labels)...) }
}

func makes(t testing.TB, labels ...string) func(*kernel.Job) {
	return func(j *kernel.Job) { j.Spec.Produces = append(j.Spec.Produces, parse(t, labels)...) }
}

func parse(t testing.TB, labels []string) []kernel.Artifact {
	t.Helper()
	var out []kernel.Artifact
	for _, l := range labels {
		a, err := kernel.ParseArtifact(l)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

func snap(jobs ...kernel.Job) *kernel.Snapshot {
	return kernel.NewSnapshot(kernel.Observation{Now: noon.Add(time.Hour), Jobs: jobs})
}

func equal[T any](t *testing.T, got, want T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// text compares a drawing with what is expected, both without the margin.
func text(t *testing.T, got, want string) {
	t.Helper()
	equal(t, strings.Split(strings.TrimRight(got, "\n"), "\n"), strings.Split(strings.Trim(want, "\n"), "\n"))
}

// valid holds doc against a schema of docs/schemas and returns its JSON.
func valid(t testing.TB, schema string, doc any) string {
	t.Helper()
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(filepath.Join("..", "..", "docs", "schemas", schema))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %v\n%s", schema, err, raw)
	}
	return string(raw)
}

// properties returns the names that a schema describes at the end of path.
func properties(t *testing.T, schema string, path ...string) map[string]any {
	t.Helper()
	c := jsonschema.NewCompiler()
	s, err := c.Compile(filepath.Join("..", "..", "docs", "schemas", schema))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range path {
		if p == "items" {
			s = s.Items2020
		} else {
			s = s.Properties[p]
		}
	}
	out := map[string]any{}
	for name := range s.Properties {
		out[name] = nil
	}
	return out
}

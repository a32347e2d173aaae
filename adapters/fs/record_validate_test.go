package fs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// The store's own check agrees with a library that knows all of JSON Schema, on sound
// records and on records with a value changed anywhere.
func TestTheShapeIsTheSchema(t *testing.T) {
	oneGoroutine(t)
	lib := schema(t, "job_record")
	own, err := newSchemaCheck()
	if err != nil {
		t.Fatal(err)
	}
	f := &filler{chance: drawtest.Of(t)}
	wrong := []any{nil, true, "", "x", "2026-01-01T00:00:00Z", json.Number("-1"), json.Number("1.5"), json.Number("1e3"), []any{}, []any{"a", "a"}, map[string]any{}, map[string]any{"kind": "x"}}
	checked, refused := 0, 0
	for range 60 {
		j := f.job()
		b := encode(t, &j, nil)
		var places [][]any
		walkJSON(parseObject(t, b), nil, func(at []any) { places = append(places, at) })
		for range 60 {
			m := parseObject(t, b)
			at := places[f.chance.IntN(len(places))]
			if v := f.chance.IntN(len(wrong) + 1); v < len(wrong) {
				setJSON(m, at, wrong[v])
			} else if key, ok := at[0].(string); ok && len(at) == 1 {
				delete(m, key)
			}
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			v, err := decodeJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			theirs, ours := holds(t, lib, text), own.problems(v)
			if (theirs == nil) != (len(ours) == 0) {
				t.Fatalf("the library says %v, the shape %q\n%s", theirs, ours, text)
			}
			checked++
			if theirs != nil {
				refused++
			}
		}
	}
	if refused < checked/10 || refused == checked {
		t.Errorf("%d of %d were refused", refused, checked)
	}
}

func walkJSON(v any, at []any, visit func([]any)) {
	if len(at) > 0 {
		visit(append([]any(nil), at...))
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			walkJSON(e, append(at, k), visit)
		}
	case []any:
		for i, e := range v {
			walkJSON(e, append(at, i), visit)
		}
	}
}

func setJSON(v any, at []any, to any) {
	for _, step := range at[:len(at)-1] {
		switch k := step.(type) {
		case string:
			v = v.(map[string]any)[k]
		case int:
			v = v.([]any)[k]
		}
	}
	switch k := at[len(at)-1].(type) {
	case string:
		v.(map[string]any)[k] = to
	case int:
		v.([]any)[k] = to
	}
}

func intakeJob(n int) kernel.Job {
	j := plain(n)
	j.Spec.Prompt = &kernel.Prompt{Owner: "o", Repository: "r", Branch: "main", File: "/home/x/inbox/a.running.md", Rel: "a.prompt.md",
		Reason: "new_prompt", SHA256: "ab", Inode: 7, Claimed: t0}
	return j
}

// Validate finds every breach of the contract of seed 004, and none in a sound store.
func TestValidate(t *testing.T) {
	oneGoroutine(t)
	for name, c := range map[string]struct {
		breakIt func(t *testing.T, s *Store, dir string)
		want    string
	}{
		"sound": {func(*testing.T, *Store, string) {}, ""},
		"torn":  {func(t *testing.T, s *Store, dir string) { cut(t, s.RecordFile(id(1))) }, "job.json"},
		"state": {func(t *testing.T, s *Store, dir string) {
			writeAt(t, file(dir, jobPath(id(1), stateName)), "running\n")
		}, `the file state beside it says "running", it says "queued"`},
		"gone":   {func(t *testing.T, s *Store, dir string) { os.Remove(file(dir, jobPath(id(1), stateName))) }, "the file state beside it"},
		"word":   {edited(`"state": "queued"`, `"state": "running"`), "means \"queued\""},
		"schema": {edited(`"retries": 0`, `"retries": -1`), "retries: -1 is out of range"},
		"inbox":  {edited(`a.running.md"`, `b.running.md"`), "does not end in"},
		"success": {edited("null,\n  \"stdout_path\"", "null,\n  \"processed_path\": \"/x\",\n  \"stdout_path\""),
			"the run has not succeeded"},
		"twice":  {func(t *testing.T, s *Store, dir string) { commit(t, s, kernel.Create(intakeJob(2))) }, "holds the same prompt"},
		"id":     {edited(`"id": "`+string(id(1)), `"id": "`+string(id(2))), "it says id"},
		"job id": {edited(`"job_id": "`+string(id(1)), `"job_id": "`+string(id(2))), "is not the id"},
		"owner":  {edited(`"git_owner": "o"`, `"git_owner": ""`), "git_owner"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir)
			commit(t, s, kernel.Create(intakeJob(1)))
			c.breakIt(t, s, dir)
			problems, n, err := newStore(t, dir).Validate(context.Background())
			if err != nil || n == 0 {
				t.Fatalf("%d records, %v", n, err)
			}
			said := ""
			for _, p := range problems {
				said += fmt.Sprintf("%s: %s\n", p.Path, p.Text)
			}
			if (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
				t.Errorf("found %q, want %q", said, c.want)
			}
		})
	}
}

// edited changes a record by hand.
func edited(old, now string) func(*testing.T, *Store, string) {
	return func(t *testing.T, s *Store, _ string) {
		t.Helper()
		text := contentOf(t, s.RecordFile(id(1)))
		changed := strings.Replace(text, old, now, 1)
		if changed == text {
			t.Fatalf("no %s in %s", old, text)
		}
		writeAt(t, s.RecordFile(id(1)), changed)
	}
}

func cut(t *testing.T, path string) {
	t.Helper()
	text := contentOf(t, path)
	writeAt(t, path, text[:len(text)/2])
}

// A missing store is sound.
func TestValidateNothing(t *testing.T) {
	if p, n, err := newStore(t, t.TempDir()).Validate(context.Background()); err != nil || n != 0 || len(p) != 0 {
		t.Errorf("%v %d %v", p, n, err)
	}
}

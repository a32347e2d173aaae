package vector

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/vizier-scheduler/vizier/app/wire"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/proptest"
)

var update = flag.Bool("update", false, "rewrite docs/vectors and their schema")

const (
	dir        = "../../docs/vectors"
	schemaFile = "../../docs/schemas/vector.schema.json"
)

// files returns the vectors of docs/vectors by their names.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(name), ".json")] = raw
	}
	return out
}

// The kernel's results for the input in each file are those in the file. The kernel
// reads the input from the file, as one in another language would.
func TestVectors(t *testing.T) {
	for name, raw := range files(t) {
		v, err := givenBy(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		v.Follows = follow(v.Given)
		if got := wire.Indented(v); !bytes.Equal(got, raw) || v.Name != name {
			t.Errorf("%s: the kernel makes something else of it: look at\n%s\nand run -update if that is right", name, difference(raw, got))
		}
	}
}

// givenBy returns the vector in raw without what follows.
func givenBy(raw []byte) (v Vector, err error) {
	t, err := wire.Parsed(raw)
	if err != nil {
		return v, err
	}
	delete(t.(map[string]any), "follows")
	return v, wire.Fill(reflect.ValueOf(&v).Elem(), t)
}

// difference shows where two texts begin to differ.
func difference(want, got []byte) string {
	a, b := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	around := func(lines []string) string {
		return strings.Join(lines[min(len(lines), max(0, at-4)):min(len(lines), at+6)], "\n  ")
	}
	return "want\n  " + around(a) + "\ngot\n  " + around(b)
}

// The files are those that the cases make.
func TestFilesAreTheCases(t *testing.T) {
	have := files(t)
	for _, v := range cases() {
		v.Follows = follow(v.Given)
		want := wire.Indented(v)
		if *update {
			if err := os.WriteFile(filepath.Join(dir, v.Name+".json"), want, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if !bytes.Equal(have[v.Name], want) {
			t.Errorf("%s.json is not what its case makes: run -update\n%s", v.Name, difference(have[v.Name], want))
		}
		delete(have, v.Name)
	}
	for name := range have {
		if *update {
			if err := os.Remove(filepath.Join(dir, name+".json")); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("%s.json has no case", name)
	}
}

// The schema is generated from the types, and every vector conforms to it.
func TestVectorsConformToTheSchema(t *testing.T) {
	if want := schema(); *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if have, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(have, want) {
		t.Errorf("vector.schema.json is not what the types say: run -update (%v)\n%s", err, difference(have, want))
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range files(t) {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"name": "x", "about": "y", "given": {"snapshot": {"now": "2026-01-01T12:00:00Z", "jbos": []}}, "follows": {}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Validate(doc) == nil {
		t.Error("the schema takes anything")
	}
}

// Everything that decisions consist of occurs in some vector: every gate, every word
// of the enumerations in decisions, and every action of a plan except those of stores
// and of retention.
func TestVectorsCoverTheKernel(t *testing.T) {
	said := map[string]bool{}
	named := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, e := range v {
				if word, ok := e.(string); ok {
					said[key+"="+word] = true
				}
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	for name, raw := range files(t) {
		doc, err := wire.Parsed(raw)
		if err != nil {
			t.Fatal(err)
		}
		walk(doc)
		named[name] = true
	}
	for _, g := range kernel.Gates() {
		if name := "gate-" + strings.ReplaceAll(g.Name, " ", "-"); !named[name] {
			t.Errorf("no vector %s holds a job up at that gate", name)
		}
	}
	want := func(key string, words []string, except ...string) {
		for _, w := range words {
			if w != "" && !slices.Contains(except, w) && !said[key+"="+w] {
				t.Errorf("no vector has %q: %q", key, w)
			}
		}
	}
	want("next", wire.WordsOf(reflect.TypeFor[kernel.Status]()), "queued", "cancelled", "unscheduled")
	want("status", wire.WordsOf(reflect.TypeFor[kernel.Status]()))
	want("kind", wire.WordsOf(reflect.TypeFor[kernel.WaitKind]()))
	want("cause", wire.WordsOf(reflect.TypeFor[kernel.WaitCause]()), "other")
	want("kind", wire.WordsOf(reflect.TypeFor[kernel.RemedyKind]()))
	want("missing_producer", wire.WordsOf(reflect.TypeFor[kernel.MissingProducer]()), "block")
	want("failure_mode", wire.WordsOf(reflect.TypeFor[kernel.FailureMode]()), "continue_independent")
	want("transient", wire.WordsOf(reflect.TypeFor[kernel.Transient]()), "none")
	want("mode", wire.WordsOf(reflect.TypeFor[kernel.LockMode]()), "exclusive")
	want("outcome", wire.WordsOf(reflect.TypeFor[kernel.Outcome]()))
	want("name", wire.WordsOf(reflect.TypeFor[kernel.PromptName]()), "prompt")
	want("liveness", wire.WordsOf(reflect.TypeFor[kernel.Liveness]()), "unknown")
	var actions []string
	for _, a := range kernel.WorldActions() {
		actions = append(actions, wire.Snake(reflect.TypeOf(a).Name()))
	}
	want("action", append(actions, "create_job", "put_state", "publish", "purge_files", "reset", "rotate"))
	for _, state := range []string{"pending", "approved", "rejected", "expired"} {
		want("state", []string{state})
	}
}

// random returns n snapshots, the same each time. Some of them have a request.
func random(n int) []Given {
	out := make([]Given, n)
	for i := range out {
		o := proptest.World.Example(i)
		out[i].Snapshot = wire.SnapshotOf(o)
		if len(o.Jobs) == 0 {
			continue
		}
		j := o.Jobs[i%len(o.Jobs)]
		out[i].Request = []*Request{nil, nil, {Retry: &Retry{j.ID, "ann"}}, {Cancel: &Cancel{j.ID, "ann", true}}, {Reject: &Reject{j.ID, "ann", "script", "no"}},
			{Approve: &Approve{j.ID, kernel.Consent{By: "bob"}}}, {Submit: &Submit{[]kernel.NewJob{{ID: "new", Spec: j.Spec}}, "ann"}}}[i%7]
	}
	return out
}

// The JSON of a snapshot holds everything that decisions depend on: decoding it
// leads to the same results.
func TestNothingOfASnapshotIsLost(t *testing.T) {
	for i, g := range random(500) {
		var again Given
		if err := wire.Read(wire.Compact(g), &again); err != nil {
			t.Fatalf("seed %d: %v", i, err)
		}
		if want, got := wire.Indented(follow(g)), wire.Indented(follow(again)); !bytes.Equal(want, got) {
			t.Fatalf("seed %d: something else follows\n%s", i, difference(want, got))
		}
	}
}

// Every field of a vector's input is written, and read again unchanged.
func TestEveryFieldIsWritten(t *testing.T) {
	for _, v := range []any{&kernel.Job{}, &kernel.Limits{}, &kernel.Result{}, &kernel.Runner{}, &kernel.NewJob{}, &kernel.Enforcement{}} {
		full := reflect.ValueOf(v).Elem()
		fillAll(full)
		again := reflect.New(full.Type())
		if err := wire.Read(wire.Compact(full.Interface()), again.Interface()); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(full.Interface(), again.Elem().Interface()) {
			t.Errorf("%+v\nis read as\n%+v", full.Interface(), again.Elem().Interface())
		}
	}
}

// fillAll gives every field of v a value that is not zero.
func fillAll(v reflect.Value) {
	for _, special := range []any{noon, kernel.WaitSet{}.With(kernel.OnLocks).With(kernel.OnApproval), artifact("plan_doc:foo (draft/foo)"),
		kernel.RetryPolicy{Exits: kernel.ExitSet{}.With(255), Base: 1, Cap: 2}.On(kernel.Signal), kernel.AttemptID{Job: "a/b", N: 3}} {
		if reflect.TypeOf(special) == v.Type() {
			v.Set(reflect.ValueOf(special))
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAll(v.Index(0))
	case reflect.Map:
		key, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillAll(key)
		fillAll(e)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, e)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("a <b> & \"c\"\n")
	case reflect.Float64:
		v.SetFloat(0.1)
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else {
			v.SetUint(1)
		}
	}
}

// Files that are not vectors are refused with the position of the error.
func TestOddVectorsAreRefused(t *testing.T) {
	for raw, want := range map[string]string{
		`{"given": {"snapshot": {"nwo": 1}}}`:                                     "given: snapshot: nwo: no such field",
		`{"given": {"snapshot": {"jobs": [{"state": {"status": "odd"}}]}}}`:       `given: snapshot: jobs: [0]: state: status: "odd" is none of queued,`,
		`{"given": {"snapshot": {"jobs": 7}}}`:                                    "given: snapshot: jobs: 7 is no []kernel.Job",
		`{"given": {"snapshot": {"facts": {"runners": {"a": {"known": true}}}}}}`: `"a" is no JOB/N`,
		`{"given": {"snapshot": {"now": "noon"}}}`:                                "given: snapshot: now: ",
		`{"given": 7}`: "given: 7 is no vector.Given",
	} {
		if _, err := givenBy([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

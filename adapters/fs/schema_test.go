package fs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

const schemas = "../../docs/schemas/"

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	s, err := c.Compile(schemas + name + ".schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func holds(t *testing.T, s *jsonschema.Schema, b []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// The records of all kinds of jobs that the store writes hold to the schema.
func TestWrittenRecordsHoldToTheSchema(t *testing.T) {
	oneGoroutine(t)
	s := schema(t, "job_record")
	f := &filler{chance: drawtest.Of(t)}
	dir := t.TempDir()
	store := newStore(t, dir)
	var actions []kernel.Action
	for n := range 300 {
		j := f.job()
		if n == 0 {
			j = fullJob()
		}
		if n == 1 {
			j = plain(1)
		}
		j.ID = id(n + 1)
		actions = append(actions, kernel.Create(j))
	}
	commit(t, store, actions...)
	for n := range actions {
		b := []byte(contentOf(t, store.RecordFile(id(n+1))))
		if err := holds(t, s, b); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
	}
}

func TestTheSchemaRefusesBrokenRecords(t *testing.T) {
	oneGoroutine(t)
	s := schema(t, "job_record")
	if err := holds(t, s, change(t, 1, "version")); err != nil {
		t.Fatal(err)
	}
	if err := holds(t, s, withForeign(t, change(t, 1, "version"))); err != nil {
		t.Errorf("foreign fields: %v", err)
	}
	for _, c := range []struct {
		value any
		path  string
	}{
		{2, "version"}, {nil, "version"}, {"short", "id"}, {strings.Repeat("F", 32), "id"}, {0, "revision"}, {"paused", "status"},
		{"waiting", "state"}, {nil, "command"}, {"ls", "child_args"}, {nil, "created_at"}, {"2026-01-01", "created_at"},
		{"2026-13-01T00:00:00.000000Z", "created_at"}, {"2026-01-01T00:00:00.000000+01:00", "updated_at"}, {"1", "exit_code"}, {-1, "attempt"},
		{-1, "retries"}, {-1, "grown.memory"}, {-1, "used.memory"}, {"1", "used.cpu"}, {"", "failure_reason"}, {"luck", "failure_class"}, {"done", "outcome"}, {"/etc/passwd", "stdout_path"},
		{"../x", "outcome_path"}, {map[string]any{}, "stop"}, {false, "awake"}, {map[string]any{"transient": "none"}, "amended"}, {nil, "task"}, {"90", "task.timeout"}, {"1 day", "task.grace"},
		{[]any{300}, "again.retry_exits"}, {[]any{"luck"}, "again.retry_on"}, {-1, "again.max_retries"},
		{[]any{map[string]any{"job_id": "x"}}, "schedule.after"}, {[]any{map[string]any{"artifact": map[string]any{}}}, "schedule.dependencies"},
		{[]any{map[string]any{"custom": map[string]any{"type_id": "a:b", "key": "k"}}}, "schedule.artifacts"},
		{[]any{map[string]any{"moon": map[string]any{}}}, "schedule.artifacts"}, {[]any{map[string]any{"key": ""}}, "schedule.locks"},
		{map[string]any{"branch": "x"}, "schedule.pinned_head"}, {map[string]any{"required": true, "state": "no"}, "schedule.approval"},
		{[]any{map[string]any{"on": "monday", "job_id": "x"}}, "schedule.routes"}, {"none", "schedule.transient"},
		{map[string]any{"kind": "weather", "detail": ""}, "schedule.wait_reason"}, {[]any{"locks", "locks"}, "schedule.waited_on"},
		{0, "metadata.workflow_node_attempt"}, {"spotless", "metadata.cancel_cleanup_status"}, {7, "metadata.plan"},
	} {
		if err := holds(t, s, change(t, c.value, strings.Split(c.path, ".")...)); err == nil {
			t.Errorf("%s may be %v", c.path, c.value)
		}
	}
	for key := range parseObject(t, change(t, 1, "version")) {
		m := parseObject(t, change(t, 1, "version"))
		delete(m, key)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		optional := []string{"name", "rerouted", "routes_deferred", "lost_attempt", "refused", "outcome", "failure_class", "stop", "removed_at", "awake", "amended",
			"job_id", "git_owner", "repo_name", "branch_name", "inbox_file", "inbox_rel", "processed_path", "archived_path",
			"pid", "host", "sandbox_enforced", "used", "grown", "stalled_attempt", "agent", "number", "part", "agent_total", "config_snapshot"} // the last: earlier versions do not write it
		if err := holds(t, s, b); (err == nil) != slices.Contains(optional, key) {
			t.Errorf("without %s: %v", key, err)
		}
	}
}

func TestWrittenOutcomesHoldToTheSchema(t *testing.T) {
	oneGoroutine(t)
	s := schema(t, "outcome")
	f := &filler{chance: drawtest.Of(t)}
	for range 300 {
		var r kernel.Result
		f.fields(reflect.ValueOf(&r).Elem())
		r.Attempt.Job = id(1)
		if r.Outcome == kernel.NoOutcome {
			r.Outcome = kernel.OutcomeSucceeded
		}
		b, err := encodeOutcome(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := holds(t, s, b); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		back, err := decodeOutcome(id(1), b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if d := diff(r, *back); d != "" {
			t.Fatalf("decode(encode(result)) differs:\n%s", d)
		}
	}
	for _, bad := range []string{`{}`, `{"version":1,"id":"x","attempt":1,"outcome":"failed","exit_code":1,"failure_reason":null,"produced":[],"finished_at":null}`} {
		if holds(t, s, []byte(bad)) == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}

func TestAttemptSchema(t *testing.T) {
	s := schema(t, "attempt")
	for doc, ok := range map[string]bool{
		`{"host":"h","boot":"b","pid":12,"start":345}`:                                                      true,
		`{"host":"h","boot":"b","pid":12,"start":345,"child":{"host":"h","boot":"b","pid":13,"start":400}}`: true,
		`{"host":"h","boot":"b","pid":12,"start":345,"child":null      }`:                                   true,
		`{"host":"h","boot":"b","pid":0,"start":345}`:                                                       false,
		`{"host":"h","boot":"","pid":0,"start":0,"void":"taken back"}`:                                      true,
		`{"host":"h","boot":"b","pid":12,"start":345,"void":""}`:                                            false,
		`{"host":"h","boot":"b","pid":12}`:                                                                  false,
		`{"host":"h","boot":"b","pid":12,"start":345,"child":{}}`:                                           false,
	} {
		if err := holds(t, s, []byte(doc)); (err == nil) != ok {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

// jsonKeys calls visit with the path of every key of t's JSON.
func jsonKeys(t reflect.Type, path string, visit func(string)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[stamp]() || t == reflect.TypeFor[artifactRecord]() || t == reflect.TypeFor[outcomeRecord]() && path != "" || t.Kind() != reflect.Struct:
		return
	case strings.HasPrefix(t.Name(), "open["):
		jsonKeys(t.Field(0).Type, path, visit)
		return
	}
	for i := range t.NumField() {
		if t.Field(i).Anonymous {
			jsonKeys(t.Field(i).Type, path, visit)
			continue
		}
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		at := strings.TrimPrefix(path+"."+key, ".")
		visit(at)
		jsonKeys(t.Field(i).Type, at, visit)
	}
}

// schemaKeys calls visit with the path of every property of a schema. It follows references
// to definitions and properties of the record's schema, but not to whole documents.
func schemaKeys(node any, path string, shared map[string]any, visit func(string)) {
	m, ok := node.(map[string]any)
	if !ok {
		return
	}
	if ref, ok := m["$ref"].(string); ok {
		for _, of := range []string{"$defs", "properties"} {
			if _, name, found := strings.Cut(ref, "#/"+of+"/"); found {
				schemaKeys(shared[of].(map[string]any)[name], path, shared, visit)
			}
		}
	}
	if props, ok := m["properties"].(map[string]any); ok {
		for key, sub := range props {
			at := strings.TrimPrefix(path+"."+key, ".")
			visit(at)
			schemaKeys(sub, at, shared, visit)
		}
	}
	schemaKeys(m["items"], path, shared, visit)
	if any, ok := m["anyOf"].([]any); ok {
		for _, sub := range any {
			schemaKeys(sub, path, shared, visit)
		}
	}
}

// Every key of a record is in its schema and its page, and the schema names no
// other.
func TestEveryKeyIsDocumented(t *testing.T) {
	data, err := os.ReadFile(schemas + "job_record.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	shared := map[string]any(parseObject(t, data))
	for _, c := range []struct {
		typ          reflect.Type
		schema, page string
	}{
		{reflect.TypeFor[record](), "job_record", "job"},
		{reflect.TypeFor[outcomeDocument](), "outcome", "outcome"},
		{reflect.TypeFor[effectRecord](), "effect", "effects"},
	} {
		written, named := map[string]bool{}, map[string]bool{}
		jsonKeys(c.typ, "", func(k string) { written[k] = true })
		raw, err := os.ReadFile(schemas + c.schema + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		schemaKeys(map[string]any(parseObject(t, raw)), "", shared, func(k string) { named[k] = true })
		page := contentOf(t, "../../docs/formats/"+c.page+".md")
		for k := range written {
			if !named[k] {
				t.Errorf("%s is not in %s.schema.json", k, c.schema)
			}
			if inner := strings.HasPrefix(k, "schedule.") || strings.HasPrefix(k, "metadata.") || strings.HasPrefix(k, "config_snapshot."); inner && c.page != "job" {
				continue // the record's page has them
			}
			if last := k[strings.LastIndex(k, ".")+1:]; !strings.Contains(page, "`"+last+"`") && !strings.Contains(page, "`"+k+"`") {
				t.Errorf("%s is not in docs/formats/%s.md", k, c.page)
			}
		}
		for k := range named {
			if !written[k] {
				t.Errorf("%s.schema.json names %s, which no record has", c.schema, k)
			}
		}
		if len(written) < 10 {
			t.Errorf("found %d keys in %s", len(written), c.typ)
		}
	}
}

// The schema knows every word of the kernel's enumerations.
func TestTheSchemaKnowsEveryWord(t *testing.T) {
	raw := contentOf(t, schemas+"job_record.schema.json")
	words := func(of func(n int) fmt.Stringer) {
		for n := range 64 {
			w := of(n).String()
			if strings.Contains(w, "(") {
				return
			}
			if w != "" && w != "none" && !strings.Contains(raw, `"`+w+`"`) {
				t.Errorf("the schema does not know %q", w)
			}
		}
	}
	words(func(n int) fmt.Stringer { return kernel.Status(n) })
	words(func(n int) fmt.Stringer { return kernel.Outcome(n) })
	words(func(n int) fmt.Stringer { return kernel.FailureClass(n) })
	words(func(n int) fmt.Stringer { return kernel.WaitKind(n) })
	words(func(n int) fmt.Stringer { return kernel.ApprovalState(n) })
	words(func(n int) fmt.Stringer { return kernel.LockMode(n) })
	words(func(n int) fmt.Stringer { return kernel.PreconditionKind(n) })
	words(func(n int) fmt.Stringer { return kernel.MissingProducer(n) })
	words(func(n int) fmt.Stringer { return kernel.FailureMode(n) })
	words(func(n int) fmt.Stringer { return kernel.Transient(n) })
	words(func(n int) fmt.Stringer { return kernel.CleanupStatus(n) })
	words(func(n int) fmt.Stringer { return max(kernel.PromptName(n), kernel.RunningPrompt) })
	words(func(n int) fmt.Stringer { return max(kernel.InDoubt(n), kernel.AskInDoubt) })
	for _, s := range kernel.Statuses() {
		if !strings.Contains(raw, `"`+s.Coarse()+`"`) {
			t.Errorf("the schema does not know %q", s.Coarse())
		}
	}
}

func TestEveryPathIsOnTheLayoutPage(t *testing.T) {
	page := contentOf(t, "../../docs/formats/layout.md")
	l := NewLayout("/r")
	a := kernel.AttemptID{Job: "ID"}
	for _, name := range []string{lockFile, plansFile, markFile, cacheFile, sentinelsDir, runsDir, markersDir, payloadsDir,
		jobPath("ID", recordName), jobPath("ID", stateName), jobPath("ID", outcomeName), jobPath("ID", patchName), jobPath("ID", effectsDir),
		strings.TrimPrefix(l.LockFile("ID"), "/r/.vizier/"), strings.TrimPrefix(l.LogFile("ID", "stdout"), "/r/.vizier/"),
		strings.Replace(strings.TrimPrefix(l.ClaimFile(a), "/r/.vizier/"), "0", "N", 1),
		strings.Replace(strings.TrimPrefix(l.ResultFile(a), "/r/.vizier/"), "0", "N", 1),
		strings.Replace(rotatedLog("ID", "stdout", 0), "0", "N", 1)} {
		if strings.HasPrefix(name, "/") || !strings.Contains(page, "`"+name) {
			t.Errorf("%s is not in docs/formats/layout.md", name)
		}
	}
}

package fs

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

func encode(t testing.TB, j *kernel.Job, f *foreign) []byte {
	t.Helper()
	b, err := encodeRecord(j, f, t0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func diff(a, b any) string { return cmp.Diff(a, b, cmp.AllowUnexported(kernel.WaitSet{})) }

// Every field of a job has its place in job.json. The filler finds the fields by
// reflection, and a field without a place would come back empty.
func TestRecordKeepsEveryField(t *testing.T) {
	j := fullJob()
	eachLeaf(reflect.ValueOf(j), "job", func(path string, v reflect.Value) {
		if v.IsZero() && !slack(path) {
			t.Errorf("the filler left %s empty", path)
		}
	})
	b := encode(t, &j, nil)
	if shown, err := Record(&j, t0); err != nil || string(shown) != string(b) {
		t.Errorf("%v: what is shown is not the record:\n%s", err, shown)
	}
	got, f, err := decodeRecord(j.ID, b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if d := diff(j, got); d != "" {
		t.Errorf("decode(encode(job)) differs:\n%s\n%s", d, b)
	}
	if f != nil {
		t.Errorf("the record's own fields count as foreign: %+v", f)
	}
}

// slack reports whether a full job may leave the leaf empty: not every kind of artifact,
// precondition and lock uses every field.
func slack(path string) bool {
	for _, s := range []string{".Ref", ".Kind", ".Preconditions[", ".Locks["} {
		if strings.Contains(path, s) {
			return true
		}
	}
	return false
}

func eachLeaf(v reflect.Value, path string, visit func(string, reflect.Value)) {
	switch {
	case v.Kind() == reflect.Struct && v.NumField() > 0 && v.Type().Field(0).IsExported():
		for i := range v.NumField() {
			eachLeaf(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case v.Kind() == reflect.Slice && v.Len() > 0:
		for i := range v.Len() {
			eachLeaf(v.Index(i), path+"["+string(rune('0'+i))+"]", visit)
		}
	default:
		visit(path, v)
	}
}

func TestRecordOfAnyJobIsTheIdentity(t *testing.T) {
	oneGoroutine(t)
	f := &filler{chance: drawtest.Of(t)}
	for range 2000 {
		j := f.job()
		b := encode(t, &j, nil)
		got, _, err := decodeRecord(j.ID, b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if d := diff(j, got); d != "" {
			t.Fatalf("decode(encode(job)) differs:\n%s\n%s", d, b)
		}
		if again := encode(t, &got, nil); string(again) != string(b) {
			t.Fatalf("encoded twice differs:\n%s", cmp.Diff(string(b), string(again)))
		}
	}
}

// foreignFields returns unknown fields for every level that keeps them. Some differ from
// a known one only by case.
func foreignFields() map[string]map[string]any {
	return map[string]map[string]any{
		"":         {"x_top": "kept", "Status": "failed", "ID": "another", "big": json.Number("12345678901234567890.50")},
		"task":     {"x_task": []any{"a", nil, true}, "ENV": []any{"FOREIGN=1"}},
		"again":    {"x_again": map[string]any{"deep": map[string]any{"er": "1"}}},
		"schedule": {"x_schedule": nil, "Waited_On": []any{"nonsense"}},
		"metadata": {"x_metadata": "<&>\u2028", "Plan": "another"},
	}
}

func parseObject(t testing.TB, b []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func withForeign(t testing.TB, b []byte) []byte {
	t.Helper()
	m := parseObject(t, b)
	for level, fields := range foreignFields() {
		at := m
		if level != "" {
			at = m[level].(map[string]any)
		}
		for k, v := range fields {
			at[k] = v
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestForeignFieldsSurviveARewrite(t *testing.T) {
	j := fullJob()
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(j))
	writeAt(t, s.RecordFile(j.ID), string(withForeign(t, []byte(contentOf(t, s.RecordFile(j.ID))))))

	got := find(t, read(t, newStore(t, dir)), j.ID)
	if d := diff(j, got); d != "" {
		t.Fatalf("foreign fields change what is read:\n%s", d)
	}
	s = newStore(t, dir)
	for range 3 {
		commit(t, s, put(got, func(st *kernel.State) { st.Reason += "!" }))
		got = find(t, read(t, s), j.ID)
	}
	after := parseObject(t, []byte(contentOf(t, s.RecordFile(j.ID))))
	for level, fields := range foreignFields() {
		at := after
		if level != "" {
			at = after[level].(map[string]any)
		}
		for k, want := range fields {
			if have, ok := at[k]; !ok || !reflect.DeepEqual(have, want) {
				t.Errorf("%q of %q: have %v, want %v", k, level, have, want)
			}
		}
	}
	if got.Rev != j.Rev+3 || !strings.HasSuffix(got.State.Reason, "!!!") {
		t.Errorf("the rewrites did not come through: revision %d, reason %q", got.Rev, got.State.Reason)
	}
}

// A record with fields of a later version has them, wherever they are.
func TestForeignFieldsAreNoneOnlyIfThereAreNone(t *testing.T) {
	some := map[string]json.RawMessage{"x": nil}
	for a := range 5 {
		for b := range 5 {
			var in [5]map[string]json.RawMessage
			in[a], in[b] = some, some
			if (&foreign{in[0], in[1], in[2], in[3], in[4]}).empty() {
				t.Errorf("those in %d and %d are none", a, b)
			}
		}
	}
	if !(*foreign)(nil).empty() || !(&foreign{}).empty() {
		t.Error("there are some where there are none")
	}
}

// A record is lines, for people and their tools.
func TestARecordEndsWithALine(t *testing.T) {
	j := plain(1)
	if b, err := Record(&j, t0); err != nil || !bytes.HasSuffix(b, []byte("}\n")) || bytes.HasSuffix(b, []byte("\n\n")) {
		t.Errorf("%q, %v", b, err)
	}
}

// What has a key that is not known, or may have one, is told from what has not.
func TestUnknownKeys(t *testing.T) {
	for text, want := range map[string]bool{
		``: false, `[1]`: false, `{}`: false, `{"a":1}`: false, `{"a":{"b":1},"c":[]}`: false,
		`{"b":1}`: true, `{"a":1,"b":2}`: true, `{"A":1}`: true, `{"b":1,"a":2}`: true, `{"a":1`: false, `{"a":`: true, `{"a":1,`: true, `{1`: true,
	} {
		if got := hasUnknown([]byte(text), map[string]bool{"a": true, "c": true}); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

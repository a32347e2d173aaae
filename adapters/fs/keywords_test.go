package fs

import (
	"regexp"
	"strings"
	"testing"
)

// TestKeywordsOfSchemas checks each keyword of the published schemas against a good and a bad value.
func TestKeywordsOfSchemas(t *testing.T) {
	for _, c := range []struct{ schema, good, bad, want string }{
		{`{"type": "object"}`, `{}`, `[]`, "the record: [] is not of type object"},
		{`{"type": ["null", "string"]}`, `null`, `3`, "the record: 3 is not of type [null string]"},
		{`{"type": "integer"}`, `3.0`, `3.5`, "3.5 is not of type integer"},
		{`{"type": "number"}`, `3.5`, `"3"`, `"3" is not of type number`},
		{`{"type": "boolean"}`, `true`, `null`, "null is not of type boolean"},
		{`{"type": "array"}`, `[]`, `{}`, "{} is not of type array"},
		{`{"const": "a"}`, `"a"`, `"b"`, `"b" is not "a"`},
		{`{"enum": ["a", 1]}`, `1`, `2`, "2 is none of the known words"},
		{`{"anyOf": [{"type": "null"}, {"type": "string"}]}`, `""`, `3`, "3 is none of what may stand here"},
		{`{"required": ["a", "b"]}`, `{"a": 1, "b": 2}`, `{"a": 1}`, "b: missing"},
		{`{"properties": {"a": {"type": "string"}}}`, `{"b": 1}`, `{"a": 1}`, "a: 1 is not of type string"},
		{`{"properties": {"a": {"properties": {"b": {"const": 1}}}}}`, `{"a": {"b": 1}}`, `{"a": {"b": 2}}`, "a.b: 2 is not 1"},
		{`{"properties": {"a": {}}, "additionalProperties": false}`, `{"a": 1}`, `{"a": 1, "b": 2}`, "b: unknown"},
		{`{"properties": {"a": {}}, "additionalProperties": {"type": "null"}}`, `{"a": 1, "b": null}`, `{"b": 2}`, "b: 2 is not of type null"},
		{`{"properties": {"a": {}}, "additionalProperties": true}`, `{"b": 1}`, ``, ""},
		{`{"minProperties": 1}`, `{"a": 1}`, `{}`, "0 keys, which is not what may stand here"},
		{`{"maxProperties": 1}`, `{"a": 1}`, `{"a": 1, "b": 2}`, "2 keys, which is not what may stand here"},
		{`{"items": {"type": "string"}}`, `["a"]`, `["a", 1]`, "[1]: 1 is not of type string"},
		{`{"minItems": 2}`, `[1, 2]`, `[1]`, ": too short"},
		{`{"uniqueItems": true}`, `["a", "b", 1]`, `["a", "b", "a"]`, `: "a" stands twice`},
		{`{"pattern": "^a+$"}`, `"aa"`, `"ab"`, `"ab" does not look like what may stand here`},
		{`{"minLength": 2}`, `"éé"`, `"é"`, `"é" does not look like what may stand here`},
		{`{"format": "date-time"}`, `"2026-01-02T03:04:05.6Z"`, `"2026-01-02"`, "does not look like what may stand here"},
		{`{"minimum": 1}`, `1`, `0.9`, "0.9 is out of range"},
		{`{"maximum": 1}`, `1`, `1.1`, "1.1 is out of range"},
		{`{"pattern": "x", "minimum": 1, "required": ["a"], "items": {}}`, `true`, ``, ""},
		{`{"$ref": "#/$defs/d", "$defs": {"d": {"const": 1}}}`, `1`, `2`, "2 is not 1"},
		{`{"$ref": "other.json"}`, `1`, `2`, "2 is not 1"},
		{`{"$ref": "#/$defs/none"}`, ``, `2`, "the schema refers to #/$defs/none, which this program does not know"},
		{`{"oneOf": []}`, ``, `2`, "the schema says oneOf, which this program does not know"},
		{`{"title": "t", "description": "d", "$id": "i", "$schema": "s"}`, `2`, ``, ""},
		{`{"type": "null"}`, `null`, `"` + strings.Repeat("x", 80) + `"`, strings.Repeat("x", 59) + "... is not of type null"},
	} {
		schema, err := decodeJSON([]byte(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		patterns := map[string]*regexp.Regexp{}
		one, err := decodeJSON([]byte(`{"const": 1}`))
		if err != nil {
			t.Fatal(err)
		}
		s := &schemaCheck{root: schema.(map[string]any), patterns: patterns, others: map[string]*schemaCheck{"other.json": {root: one.(map[string]any), patterns: patterns}}}
		problems := func(text string) []string {
			v, err := decodeJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return s.problems(v)
		}
		if c.good != "" && len(problems(c.good)) > 0 {
			t.Errorf("%s: %s: %q", c.schema, c.good, problems(c.good))
		}
		if c.bad == "" {
			continue
		}
		if got := problems(c.bad); len(got) != 1 || !strings.HasSuffix(got[0], c.want) {
			t.Errorf("%s: %s: %q, want %q", c.schema, c.bad, got, c.want)
		}
	}
}

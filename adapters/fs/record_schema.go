package fs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	published "github.com/vizier-scheduler/vizier/docs/schemas"
)

// schemaCheck checks values against a JSON Schema. It knows the keywords that the
// published schema of records uses. A library is not used because the one that
// the tests use costs more at every start of the program than everything else.
type schemaCheck struct {
	root     map[string]any
	patterns map[string]*regexp.Regexp
	others   map[string]*schemaCheck // other schemas, by the file name in a $ref
}

// newSchemaCheck returns a check against the published schema of job.json.
func newSchemaCheck() (*schemaCheck, error) {
	s := &schemaCheck{others: map[string]*schemaCheck{}}
	for _, name := range []string{"job_record.schema.json", "artifact.schema.json"} {
		b, err := published.Records.ReadFile(name)
		if err != nil {
			return nil, err
		}
		v, err := decodeJSON(b)
		root, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, fmt.Errorf("%s is no schema: %w", name, err)
		}
		if s.root == nil {
			s.root, s.patterns = root, map[string]*regexp.Regexp{}
			continue
		}
		s.others[name] = &schemaCheck{root: root, patterns: s.patterns}
	}
	return s, nil
}

// decodeJSON reads one JSON value. It keeps numbers as they are written.
func decodeJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, jsonError(err)
	}
	if d.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

// problems says what is wrong with v and where, one string for each problem.
func (s *schemaCheck) problems(v any) []string { return s.check(s.root, v, "") }

func (s *schemaCheck) check(schema map[string]any, v any, at string) []string {
	var out []string
	bad := func(format string, args ...any) {
		if at == "" {
			at = "the record"
		}
		out = append(out, at+": "+fmt.Sprintf(format, args...))
	}
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		want := schema[key]
		switch key {
		case "$schema", "$id", "$defs", "title", "description":
		case "$ref":
			out = append(out, s.checkRef(want.(string), v, at)...)
		case "anyOf":
			if !slices.ContainsFunc(want.([]any), func(one any) bool { return len(s.check(one.(map[string]any), v, at)) == 0 }) {
				bad("%s is none of what may stand here", short(v))
			}
		case "type":
			if !isType(want, v) {
				bad("%s is not of type %v", short(v), want)
			}
		case "const":
			if !reflect.DeepEqual(want, v) {
				bad("%s is not %s", short(v), short(want))
			}
		case "enum":
			if !slices.ContainsFunc(want.([]any), func(one any) bool { return reflect.DeepEqual(one, v) }) {
				bad("%s is none of the known words", short(v))
			}
		case "required", "properties", "additionalProperties", "minProperties", "maxProperties":
			if o, ok := v.(map[string]any); ok {
				out = append(out, s.checkObject(key, schema, o, at)...)
			}
		case "items", "minItems", "uniqueItems":
			if l, ok := v.([]any); ok {
				out = append(out, s.checkList(key, want, l, at)...)
			}
		case "pattern", "minLength", "format":
			if text, ok := v.(string); ok && !s.matchesText(key, want, text) {
				bad("%s does not look like what may stand here", short(v))
			}
		case "minimum", "maximum":
			if n, ok := v.(json.Number); ok && !within(key, want.(json.Number), n) {
				bad("%s is out of range", n)
			}
		default:
			bad("the schema says %s, which this program does not know", key)
		}
	}
	return out
}

// checkRef checks v against the schema that a $ref names.
func (s *schemaCheck) checkRef(ref string, v any, at string) []string {
	if other := s.others[ref]; other != nil {
		return other.check(other.root, v, at)
	}
	defs, _ := s.root["$defs"].(map[string]any)
	def, ok := defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	if !ok {
		return []string{at + ": the schema refers to " + ref + ", which this program does not know"}
	}
	return s.check(def, v, at)
}

func (s *schemaCheck) checkObject(key string, schema, o map[string]any, at string) []string {
	var out []string
	props, _ := schema["properties"].(map[string]any)
	switch key {
	case "required":
		for _, name := range schema[key].([]any) {
			if _, there := o[name.(string)]; !there {
				out = append(out, member(at, name.(string))+": missing")
			}
		}
	case "properties":
		for _, name := range slices.Sorted(maps.Keys(props)) {
			if v, there := o[name]; there {
				out = append(out, s.check(props[name].(map[string]any), v, member(at, name))...)
			}
		}
	case "minProperties", "maxProperties":
		if !within(strings.TrimSuffix(key, "Properties")+"imum", schema[key].(json.Number), json.Number(fmt.Sprint(len(o)))) {
			out = append(out, at+": "+fmt.Sprint(len(o))+" keys, which is not what may stand here")
		}
	case "additionalProperties":
		for _, name := range slices.Sorted(maps.Keys(o)) {
			if _, known := props[name]; known {
				continue
			}
			if more, ok := schema[key].(map[string]any); ok {
				out = append(out, s.check(more, o[name], member(at, name))...)
			} else if schema[key] == false {
				out = append(out, member(at, name)+": unknown")
			}
		}
	}
	return out
}

func (s *schemaCheck) checkList(key string, want any, l []any, at string) []string {
	var out []string
	switch key {
	case "items":
		for i, v := range l {
			out = append(out, s.check(want.(map[string]any), v, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case "minItems":
		if !within("minimum", want.(json.Number), json.Number(fmt.Sprint(len(l)))) {
			out = append(out, at+": too short")
		}
	case "uniqueItems":
		for i := range l {
			if slices.ContainsFunc(l[:i], func(v any) bool { return reflect.DeepEqual(v, l[i]) }) {
				out = append(out, at+": "+short(l[i])+" stands twice")
			}
		}
	}
	return out
}

func (s *schemaCheck) matchesText(key string, want any, text string) bool {
	switch key {
	case "pattern":
		p := want.(string)
		if s.patterns[p] == nil {
			s.patterns[p] = regexp.MustCompile(p)
		}
		return s.patterns[p].MatchString(text)
	case "minLength":
		return within("minimum", want.(json.Number), json.Number(fmt.Sprint(utf8.RuneCountInString(text))))
	default: // date-time
		_, err := time.Parse(time.RFC3339Nano, text)
		return err == nil
	}
}

func within(key string, limit, n json.Number) bool {
	a, okA := new(big.Rat).SetString(n.String())
	b, okB := new(big.Rat).SetString(limit.String())
	if !okA || !okB {
		return false
	}
	if key == "minimum" {
		return a.Cmp(b) >= 0
	}
	return a.Cmp(b) <= 0
}

func isType(want, v any) bool {
	if all, ok := want.([]any); ok {
		return slices.ContainsFunc(all, func(one any) bool { return isType(one, v) })
	}
	switch v := v.(type) {
	case nil:
		return want == "null"
	case bool:
		return want == "boolean"
	case string:
		return want == "string"
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	case json.Number:
		n, ok := new(big.Rat).SetString(v.String())
		return want == "number" || want == "integer" && ok && n.IsInt()
	default:
		return false
	}
}

func member(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// short returns a value as text for a message.
func short(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "it"
	}
	if len(b) > 60 {
		b = append(b[:60:60], "..."...)
	}
	return string(b)
}

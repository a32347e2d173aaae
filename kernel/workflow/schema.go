package workflow

import (
	"maps"
	"slices"
	"strings"
)

// A contract's schema is a small subset of JSON Schema: true or false, or a
// table of type, required, properties, additionalProperties (a boolean),
// const, enum and pattern, the last only as ^literal$ or ^(a|b)$. It is
// checked against an artifact's identity, a table of strings.

var (
	schemaKeys  = []string{"type", "required", "properties", "additionalProperties", "const", "enum", "pattern"}
	schemaTypes = []string{"object", "string", "number", "integer", "boolean", "array", "null"}
)

// sane returns why s is not a schema of the subset, or "".
func sane(s Value, path string) string {
	if s.Kind == Bool {
		return ""
	}
	if s.Kind != Table {
		return path + " must be a table or a boolean, not " + s.Kind.String()
	}
	for _, f := range s.Fields {
		at, v := path+"."+f.Key, f.Value
		bad := ""
		switch f.Key {
		case "type":
			if v.Kind != String || !slices.Contains(schemaTypes, v.Text) {
				bad = "must be one of " + strings.Join(schemaTypes, ", ")
			}
		case "required":
			if v.Kind != List || slices.ContainsFunc(v.List, func(e Value) bool { return e.Kind != String }) {
				bad = "must be a list of strings"
			}
		case "properties":
			if v.Kind != Table {
				bad = "must be a table"
			}
			for _, p := range v.Fields {
				if why := sane(p.Value, at+"."+p.Key); why != "" {
					return why
				}
			}
		case "additionalProperties":
			if v.Kind != Bool {
				bad = "must be a boolean"
			}
		case "enum":
			if v.Kind != List || len(v.List) == 0 {
				bad = "must be a list that is not empty"
			}
		case "pattern":
			if _, ok := alternatives(v); !ok {
				bad = "must have the form ^literal$ or ^(a|b)$"
			}
		case "const":
		default:
			bad = "is not supported; known keys are " + strings.Join(schemaKeys, ", ")
		}
		if bad != "" {
			return at + " " + bad
		}
	}
	return ""
}

// alternatives returns the strings that a pattern of the subset matches.
func alternatives(v Value) ([]string, bool) {
	p, ok := strings.CutPrefix(v.Text, "^")
	p, ok2 := strings.CutSuffix(p, "$")
	if v.Kind != String || !ok || !ok2 {
		return nil, false
	}
	list := []string{p}
	if inner, ok := strings.CutPrefix(p, "("); ok {
		if inner, ok = strings.CutSuffix(inner, ")"); !ok {
			return nil, false
		}
		list = strings.Split(inner, "|")
	}
	for _, s := range list {
		if strings.ContainsAny(s, `\.+*?()|[]{}^$`) {
			return nil, false
		}
	}
	return list, true
}

// conforms returns why identity does not conform to s, a valid schema, or "".
func conforms(s Value, identity map[string]string, path string) string {
	if s.Kind == Bool {
		if s.Text == "true" {
			return ""
		}
		return path + " is not allowed"
	}
	for _, f := range s.Fields {
		switch v := f.Value; f.Key {
		case "type":
			if v.Text != "object" {
				return path + " is an object, not of type " + v.Text
			}
		case "required":
			for _, r := range v.List {
				if _, ok := identity[r.Text]; !ok {
					return path + "." + r.Text + " is required"
				}
			}
		case "properties":
			for _, p := range v.Fields {
				if text, ok := identity[p.Key]; ok {
					if why := textConforms(p.Value, text, path+"."+p.Key); why != "" {
						return why
					}
				}
			}
		case "additionalProperties":
			known, _ := s.field("properties")
			for _, key := range slices.Sorted(maps.Keys(identity)) {
				if _, ok := known.field(key); !ok && v.Text == "false" {
					return path + "." + key + " is not allowed"
				}
			}
		default: // const, enum and pattern do not apply to a table
			if f.Key != "pattern" {
				return path + " does not match " + f.Key
			}
		}
	}
	return ""
}

// textConforms is conforms for a single string.
func textConforms(s Value, text, path string) string {
	if s.Kind == Bool {
		return conforms(s, nil, path)
	}
	is := func(v Value) bool { return v.Kind == String && v.Text == text }
	for _, f := range s.Fields {
		ok := true
		switch v := f.Value; f.Key {
		case "type":
			if v.Text != "string" {
				return path + " is a string, not of type " + v.Text
			}
		case "const":
			ok = is(v)
		case "enum":
			ok = slices.ContainsFunc(v.List, is)
		case "pattern":
			list, _ := alternatives(v)
			ok = slices.Contains(list, text)
		}
		if !ok {
			return path + " value `" + text + "` does not match " + f.Key
		}
	}
	return ""
}

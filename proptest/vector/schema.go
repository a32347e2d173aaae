package vector

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app/wire"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// published maps types to their published schemas.
var published = map[reflect.Type]string{
	reflect.TypeFor[view.ListDocument](): "jobs_list.schema.json",
	reflect.TypeFor[view.Status]():       "job_status.schema.json",
}

// required are the fields that every object of a type has.
var required = map[reflect.Type][]string{
	reflect.TypeFor[Vector]():          {"name", "about", "given", "follows"},
	reflect.TypeFor[Given]():           {"snapshot"},
	reflect.TypeFor[wire.Snapshot]():   {"now"},
	reflect.TypeFor[Follows]():         {"tick", "list", "overview"},
	reflect.TypeFor[kernel.Job]():      {"id", "created", "state"},
	reflect.TypeFor[kernel.State]():    {"status"},
	reflect.TypeFor[kernel.Decision](): {"job", "from", "next"},
}

// schema returns the JSON Schema of vectors, generated from the types.
func schema() []byte {
	d := describer{defs: map[string]any{}}
	root := d.describe(reflect.TypeFor[Vector]())
	return wire.Written(map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "A conformance vector",
		"description": "A snapshot, what may be asked of it, and what the kernel makes of both: see docs/vectors/README.md. What is absent is zero, empty or false. Names are those of the Go types in docs/api.txt.",
		"$ref":        root["$ref"], "$defs": d.defs,
	}, "  ")
}

type describer struct{ defs map[string]any }

// describe returns the schema of values of t.
func (d *describer) describe(t reflect.Type) map[string]any {
	t = wire.Stands(reflect.Zero(t)).Type()
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": "^-?([0-9.]+(h|m|s|ms|µs|ns))+$"}
	case reflect.TypeFor[kernel.Artifact]():
		return map[string]any{"type": "string", "pattern": "^(" + strings.Join(wire.WordsOf(reflect.TypeFor[kernel.ArtifactKind]()), "|") + "):."}
	case reflect.TypeFor[kernel.AttemptID]():
		return map[string]any{"type": "string", "pattern": "^.*/[0-9]+$"}
	case reflect.TypeFor[[]byte]():
		return map[string]any{"type": "string"}
	case reflect.TypeFor[kernel.RecordAction]():
		return d.oneOf(kernel.CreateJob{}, kernel.PutState{}, kernel.NumberJob{}, kernel.CreateRun{}, kernel.RemoveRun{}, kernel.RemoveJob{},
			kernel.PurgeFiles{}, kernel.Publish{}, kernel.Announce{}, kernel.Reset{}, kernel.Rotate{})
	case reflect.TypeFor[kernel.WorldAction]():
		var all []kernel.Action
		for _, a := range kernel.WorldActions() {
			all = append(all, a)
		}
		return d.oneOf(all...)
	}
	if t == reflect.TypeFor[view.Overview]() {
		return overview()
	}
	if name, ok := published[t]; ok {
		return map[string]any{"$ref": name}
	}
	if words := wire.WordsOf(t); words != nil {
		return map[string]any{"enum": slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })}
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.object(t, "")
	case reflect.Pointer:
		return d.describe(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.describe(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.describe(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		return map[string]any{"type": "integer"}
	}
}

// overview returns the schema of a view.Overview: status.schema.json without
// the parts about the program that prints it.
func overview() map[string]any {
	properties, needs := map[string]any{}, []string{}
	for f := range reflect.TypeFor[view.Overview]().Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		properties[name] = map[string]any{"$ref": "status.schema.json#/properties/" + name}
		if options == "" {
			needs = append(needs, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": needs, "additionalProperties": false}
}

// object returns the schema of a struct. If it is an action, the schema
// includes the action's name.
func (d *describer) object(t reflect.Type, action string) map[string]any {
	name := wire.Snake(t.Name())
	if strings.HasPrefix(t.Name(), "Fact[") { // its name includes that of its type argument, with the package
		of := t.Field(0).Type
		for of.Name() == "" {
			of = of.Elem()
		}
		name = "fact_" + wire.Snake(of.Name())
	}
	ref := map[string]any{"$ref": "#/$defs/" + name}
	if _, known := d.defs[name]; known {
		return ref
	}
	d.defs[name] = nil // in progress, since a type may contain itself
	properties := map[string]any{}
	needs := slices.Clone(required[t])
	if action != "" {
		properties["action"] = map[string]any{"const": action}
		needs = append(needs, "action")
	}
	for f := range t.Fields() {
		properties[wire.Snake(f.Name)] = d.describe(f.Type)
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needs) > 0 {
		out["required"] = needs
	}
	d.defs[name] = out
	return ref
}

// oneOf returns the schema of an action of one of these types.
func (d *describer) oneOf(actions ...kernel.Action) map[string]any {
	var out []any
	for _, a := range actions {
		t := reflect.TypeOf(a)
		out = append(out, d.object(t, wire.Snake(t.Name())))
	}
	return map[string]any{"oneOf": out}
}

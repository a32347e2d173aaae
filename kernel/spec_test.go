package kernel

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// eachField calls f with the path of every field below v, and a function that
// sets it to something other than its zero value.
func eachField(v reflect.Value, path string, f func(path string, set func())) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		f(path, func() { v.Set(reflect.ValueOf(time.Unix(1, 0))) })
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			eachField(v.Field(i), name, f)
		}
	default:
		f(path, func() { setAny(v) })
	}
}

func setAny(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		setAny(v.Index(0))
	case reflect.Array:
		setAny(v.Index(0))
	case reflect.Struct:
		setAny(v.Field(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		panic("no value for " + v.Type().String())
	}
}

// Two submissions with one key that differ in any field are a conflict. The
// exceptions are named here, with the reasons.
func TestOneKeyForJobsThatDiffer(t *testing.T) {
	except := map[string]string{
		"IdempotencyKey": "the key itself",
		"Origin":         "where a job comes from is not what it is",
		"Transient":      "the more conservative one counts",
		"Budget":         "the larger one counts",
		"Retry":          "follows the budget",
		"FailureMode":    "of templates, whose jobs have no key",
		"Routes":         "of templates, whose jobs have no key",
		"ProducesOn":     "of templates, whose jobs have no key",
		"Routed":         "of templates, whose jobs have no key",
		"OwnsContext":    "of templates, whose jobs have no key",
		"Configured":     "not asked for, but found",
		"Estimate":       "nothing is decided by it",
		"Prompt":         "of templates, whose jobs have no key",
		"Task.Builtin":   "of templates, whose jobs have no key",
		"Task.Grace":     "of templates, whose jobs have no key",
	}
	used := map[string]bool{}
	var spec Spec
	eachField(reflect.ValueOf(&spec).Elem(), "", func(path string, set func()) {
		spec = Spec{}
		set()
		differs := errors.Is(conflict("j", &Spec{}, &spec, NotRequired, NotRequired), ErrConflict)
		for prefix := range except {
			if path == prefix || strings.HasPrefix(path, prefix+".") {
				used[prefix] = true
				if differs {
					t.Errorf("%s is told to differ, and is excepted: %s", path, except[prefix])
				}
				return
			}
		}
		if !differs {
			t.Errorf("jobs that differ in %s pass for the same: name it in conflict, or here with a reason", path)
		}
	})
	for prefix := range except {
		if !used[prefix] {
			t.Errorf("there is no %s to be excepted", prefix)
		}
	}
}

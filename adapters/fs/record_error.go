package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/kernel"
)

// fieldError says that a field has a wrong value.
type fieldError struct {
	field string // as a path: schedule.locks
	err   error
}

func (e *fieldError) Error() string { return fmt.Sprintf("field %q: %v", e.field, e.err) }

// blame returns err with the field that caused it. The decoder names the field
// for some types only.
func blame[T any](b []byte, err error) error {
	var all map[string]json.RawMessage
	if json.Unmarshal(b, &all) != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one, err := json.Marshal(map[string]json.RawMessage{name: all[name]})
		if err != nil {
			continue
		}
		var v T
		if err = json.Unmarshal(one, &v); err == nil {
			continue
		}
		var inner *fieldError
		if errors.As(err, &inner) {
			return &fieldError{name + "." + inner.field, inner.err}
		}
		return &fieldError{name, plainJSON(err)}
	}
	return err
}

// jsonError returns err in plain words, with the field.
func jsonError(err error) error {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) && typ.Field != "" {
		return &fieldError{typ.Field, plainJSON(err)}
	}
	return plainJSON(err)
}

func plainJSON(err error) error {
	var typ *json.UnmarshalTypeError
	var syn *json.SyntaxError
	switch {
	case errors.As(err, &typ):
		want := typ.Type.Kind().String()
		if want == "struct" || want == "map" {
			want = "object"
		}
		return fmt.Errorf("expected %s, found %s", want, typ.Value)
	case errors.As(err, &syn):
		return fmt.Errorf("not JSON at byte %d: %w", syn.Offset, err)
	default:
		return err
	}
}

// writable refuses text that JSON cannot hold: it would change, and another
// command would run than the one that was asked for.
func writable(sp *kernel.Spec) error {
	one := func(s string) []string { return []string{s} }
	for _, f := range []struct {
		name   string
		values []string
	}{
		{"command", sp.Origin.Command}, {"child_args", sp.Task.Args}, {"task.env", sp.Task.Env}, {"task.pass_env", sp.Task.PassEnv}, {"task.secrets", secretTexts(sp.Task.Secrets)},
		{"task.worktree", one(sp.Task.Tree)}, {"task.dir", one(sp.Task.Dir)}, {"task.executor", one(sp.Task.Executor)}, {"task.container", one(sp.Task.Container)}, {"name", one(sp.Name)}, {"idempotency_key", one(sp.IdempotencyKey)},
	} {
		for _, v := range f.values {
			if !utf8.ValidString(v) {
				return fmt.Errorf("%s: %+q is not UTF-8 text: %w", f.name, v, kernel.ErrInvalid)
			}
		}
	}
	return nil
}

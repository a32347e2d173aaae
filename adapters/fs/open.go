package fs

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// open is a JSON object of known fields T that keeps the fields it does not
// know and writes them back, so that a newer or foreign writer loses nothing.
type open[T any] struct {
	V     T
	extra map[string]json.RawMessage
}

func (o *open[T]) UnmarshalJSON(b []byte) error {
	o.extra = nil
	if known := fieldsOf(reflect.TypeFor[T]()); hasUnknown(b, known) {
		// The decoder would take a foreign field for one of ours that differs
		// by case alone, so it does not get to see them.
		var ours map[string]json.RawMessage
		if err := json.Unmarshal(b, &ours); err != nil {
			return err
		}
		o.extra = map[string]json.RawMessage{}
		for name, v := range ours {
			if !known[name] {
				o.extra[name] = v
				delete(ours, name)
			}
		}
		var err error
		if b, err = json.Marshal(ours); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(b, &o.V); err != nil {
		return blame[T](b, err)
	}
	return nil
}

// hasUnknown reports whether the object b has a key that is not known. It
// reads tokens at the top level only.
func hasUnknown(b []byte, known map[string]bool) bool {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return true
		}
		if key, ok := t.(string); !ok || !known[key] {
			return true
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return true
		}
	}
	return false
}

func (o open[T]) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(o.V)
	if err != nil || len(o.extra) == 0 {
		return b, err
	}
	more, err := json.Marshal(o.extra)
	if err != nil {
		return nil, err
	}
	if len(b) == 2 {
		return more, nil
	}
	return append(append(b[:len(b)-1], ','), more[1:]...), nil
}

var fieldNames sync.Map // reflect.Type -> map[string]bool

func fieldsOf(t reflect.Type) map[string]bool {
	if known, ok := fieldNames.Load(t); ok {
		return known.(map[string]bool)
	}
	known := make(map[string]bool, t.NumField())
	for i := range t.NumField() {
		tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[tag] = true
	}
	fieldNames.Store(t, known)
	return known
}

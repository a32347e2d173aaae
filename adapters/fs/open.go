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
	if err := json.Unmarshal(b, &o.V); err != nil {
		return err
	}
	o.extra = nil
	if !hasUnknown(b, fieldsOf(reflect.TypeFor[T]())) {
		return nil
	}
	if err := json.Unmarshal(b, &o.extra); err != nil {
		return err
	}
	for name := range fieldsOf(reflect.TypeFor[T]()) {
		delete(o.extra, name)
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

package fs

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// open is a JSON object of known fields T that keeps the fields it does not
// know and writes them back, so that a newer or foreign writer loses nothing.
type open[T any] struct {
	V     T                          `json:",embed"`
	Extra map[string]json.RawMessage `json:",embed"`
}

// members is open without its methods, for the decoder's own treatment.
type members[T any] open[T]

// UnmarshalJSONFrom reads any object that Vizier or a strict writer may have
// written. What it refuses goes to UnmarshalJSON, which has better error messages.
func (o *open[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonv2.UnmarshalDecode(d, (*members[T])(o))
}

// MarshalJSONTo writes all fields. Its receiver is a pointer, or each object would be copied.
func (o *open[T]) MarshalJSONTo(e *jsontext.Encoder) error {
	return jsonv2.MarshalEncode(e, (*members[T])(o))
}

// layout is how records are written: unknown fields come last and in order, a nil
// list is null, and omitempty has the meaning that it has in encoding/json.
var layout = jsonv2.JoinOptions(jsonv2.Deterministic(true), jsonv2.FormatNilSliceAsNull(true), jsonv1.OmitEmptyWithLegacySemantics(true), //nolint:gochecknoglobals // constant
	jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true), jsontext.PreserveRawStrings(true), jsontext.WithIndent("  "))

// toJSON is v as a file: indented, with a newline at its end.
func toJSON(v any) ([]byte, error) {
	b, err := jsonv2.Marshal(v, layout)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// line is how a line of a file is written.
var line = jsonv2.JoinOptions(jsonv1.OmitEmptyWithLegacySemantics(true), jsontext.PreserveRawStrings(true)) //nolint:gochecknoglobals // constant

// toLine is v as a line of a file, without the newline at its end.
func toLine(v any) ([]byte, error) { return jsonv2.Marshal(v, line) }

// fromJSON reads b into v: by the fast decoder, or by the tolerant one if that fails.
func fromJSON(b []byte, v any) error {
	if jsonv2.Unmarshal(b, v) == nil {
		return nil
	}
	reflect.ValueOf(v).Elem().SetZero()
	return json.Unmarshal(b, v)
}

// UnmarshalJSON also reads what strict JSON forbids, such as a field that is
// there twice, and describes errors in plain words.
func (o *open[T]) UnmarshalJSON(b []byte) error {
	o.Extra = nil
	if known := fieldsOf(reflect.TypeFor[T]()); hasUnknown(b, known) {
		// The decoder ignores case, and would take a foreign field for one of
		// ours. So it does not get to see foreign fields.
		var ours map[string]json.RawMessage
		if err := json.Unmarshal(b, &ours); err != nil {
			return err
		}
		o.Extra = map[string]json.RawMessage{}
		for name, v := range ours {
			if !known[name] {
				o.Extra[name] = v
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

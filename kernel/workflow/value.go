package workflow

import "slices"

// ValueKind is the kind of a parsed value.
type ValueKind uint8

// The kinds that a template may hold. Other is a kind of the file's language
// that templates do not use, such as a date or null.
const (
	Other ValueKind = iota
	Table
	List
	String
	Int
	Bool
	Float
)

var valueKindNames = [...]string{"another kind of value", "a table", "a list", "a string", "an integer", "a boolean", "a float"}

func (k ValueKind) String() string { return valueKindNames[k] }

// Value is a parsed file or a part of it, independent of the file's language.
type Value struct {
	Pos    Pos
	Kind   ValueKind
	Text   string  // of a scalar
	List   []Value // of a list
	Fields []Field // of a table, in source order
}

// Field is a key of a table and its value.
type Field struct {
	Key   string
	Pos   Pos
	Value Value
}

// field returns the value of key in a table.
func (v Value) field(key string) (Value, bool) {
	for _, f := range v.Fields {
		if f.Key == key {
			return f.Value, true
		}
	}
	return Value{}, false
}

// equal compares two values without their positions. The order of a table's
// keys is not significant.
func (v Value) equal(w Value) bool {
	if v.Kind != w.Kind || v.Text != w.Text || len(v.Fields) != len(w.Fields) || !slices.EqualFunc(v.List, w.List, Value.equal) {
		return false
	}
	for _, f := range v.Fields {
		other, ok := w.field(f.Key)
		if !ok || !f.Value.equal(other) {
			return false
		}
	}
	return true
}

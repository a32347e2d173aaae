// Package wire writes values of the kernel as JSON and reads them again, for a kernel
// that is elsewhere: in a browser, or in another language. It is not the form of
// records, which is the store's.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Snapshot is a kernel.Observation of all jobs.
type Snapshot struct {
	Now        time.Time
	Limits     kernel.Limits
	Jobs       []kernel.Job
	Archived   int
	Unreadable map[kernel.JobID]string
	Facts      kernel.Facts
	Last       kernel.Number
}

// SnapshotOf returns the part of o that is written.
func SnapshotOf(o kernel.Observation) Snapshot {
	return Snapshot{o.Now, o.Limits, o.Jobs, o.Archived, o.Unreadable, o.Facts, o.Last}
}

// Taken returns what is written of s, which must hold all jobs.
func Taken(s *kernel.Snapshot) Snapshot {
	o := kernel.Observation{Now: s.Now(), Limits: s.Limits(), Archived: s.Archived(), Facts: s.Facts()}
	for _, j := range s.Jobs() {
		o.Jobs = append(o.Jobs, *j)
	}
	for _, id := range s.UnreadableIDs() {
		if o.Unreadable == nil {
			o.Unreadable = map[kernel.JobID]string{}
		}
		o.Unreadable[id] = s.Unreadable(id)
	}
	return SnapshotOf(o)
}

// Kernel returns s as the kernel decides on it.
func (s Snapshot) Kernel() *kernel.Snapshot {
	return kernel.NewSnapshot(kernel.Observation{Now: s.Now, Limits: s.Limits, Jobs: s.Jobs, Archived: s.Archived, Unreadable: s.Unreadable, Facts: s.Facts, Last: s.Last})
}

// How values of the kernel look in JSON. A struct is an object of its fields, their
// names in lower case with underscores. Fields that are zero are left out, except for
// those of the types in always. Enumerations are their words, times RFC 3339, durations
// as in Go, artifacts their labels, an attempt is JOB/N. Documents of package view have
// the JSON that they have everywhere. Keys are sorted, so that equal values give equal
// texts.

// Stands returns the value that is written for v, if v is of a type that the kernel
// keeps packed; else v itself.
func Stands(v reflect.Value) reflect.Value {
	if t := v.Type(); t != reflect.TypeFor[kernel.WaitSet]() && t != reflect.TypeFor[kernel.RetryPolicy]() {
		return v // without a copy
	}
	switch x := v.Interface().(type) {
	case kernel.WaitSet:
		return reflect.ValueOf(x.Kinds())
	case kernel.RetryPolicy:
		p := policy{Base: x.Base, Cap: x.Cap}
		for c := kernel.NoFailure; x.Classes>>c > 0; c++ {
			if x.Classes&(1<<c) != 0 {
				p.Classes = append(p.Classes, c)
			}
		}
		for code := range 256 {
			if x.Exits.Has(code) {
				p.Exits = append(p.Exits, code)
			}
		}
		return reflect.ValueOf(p)
	default:
		return v
	}
}

// packed is the inverse of Stands, for the types that Stands changes.
func packed(v reflect.Value) reflect.Value {
	switch x := v.Interface().(type) {
	case []kernel.WaitKind:
		var w kernel.WaitSet
		for _, k := range x {
			w = w.With(k)
		}
		return reflect.ValueOf(w)
	case policy:
		p := kernel.RetryPolicy{Base: x.Base, Cap: x.Cap}
		for _, c := range x.Classes {
			p = p.On(c)
		}
		for _, code := range x.Exits {
			p.Exits = p.Exits.With(code)
		}
		return reflect.ValueOf(p)
	default:
		return v
	}
}

// policy is a kernel.RetryPolicy with its sets as lists.
type policy struct {
	Classes []kernel.FailureClass
	Exits   []int
	Base    time.Duration
	Cap     time.Duration
}

// livenesses are the words of kernel.Liveness, which the kernel prints nowhere.
var livenesses = []string{kernel.Unknown: "unknown", kernel.Alive: "alive", kernel.Dead: "dead", kernel.NeverStarted: "never_started", kernel.Stalled: "stalled"}

// WordsOf returns the words of an enumeration in order from 0; nil: t is none. They must not
// be changed.
func WordsOf(t reflect.Type) []string {
	if t.Kind() != reflect.Uint8 {
		return nil
	}
	if known, ok := words.Load(t); ok {
		return known.([]string)
	}
	out := enumerated(t)
	words.Store(t, out)
	return out
}

// words and places cache the results of WordsOf and placesOf, by type.
var words, places sync.Map

func enumerated(t reflect.Type) []string {
	if t == reflect.TypeFor[kernel.Liveness]() {
		return livenesses
	}
	if !t.Implements(reflect.TypeFor[fmt.Stringer]()) {
		return nil
	}
	var out []string
	for v := reflect.New(t).Elem(); ; v.SetUint(v.Uint() + 1) {
		word := v.Interface().(fmt.Stringer).String()
		if strings.Contains(word, "(") { // past the last: it prints with its number
			return out
		}
		out = append(out, word)
	}
}

// Snake returns the name of a Go field in JSON.
func Snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(name[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// ofView reports whether t is a document of package view, which has its own JSON.
func ofView(t reflect.Type) bool { return strings.HasSuffix(t.PkgPath(), "/kernel/view") }

// texts are the structs that are written as strings.
var texts = []reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[kernel.Artifact](), reflect.TypeFor[kernel.AttemptID]()}

// text returns v as a string, if it is written as one.
func text(v reflect.Value) (string, bool) {
	if v.Kind() == reflect.Struct && !slices.Contains(texts, v.Type()) {
		return "", false // without a copy
	}
	switch x := v.Interface().(type) {
	case time.Time:
		return x.Format(time.RFC3339Nano), true
	case time.Duration:
		return x.String(), true
	case kernel.Artifact:
		return x.String(), true
	case kernel.AttemptID:
		return string(x.Job) + "/" + strconv.Itoa(x.N), true
	case []byte:
		return string(x), true
	}
	if words := WordsOf(v.Type()); words != nil {
		return words[v.Uint()], true
	}
	if v.Kind() == reflect.String {
		return v.String(), true
	}
	return "", false
}

// tree returns v in the types that encoding/json reads JSON into.
func tree(v reflect.Value) any {
	v = Stands(v)
	if s, ok := text(v); ok {
		return s
	}
	if ofView(v.Type()) {
		return viewed(v.Interface())
	}
	switch v.Kind() {
	case reflect.Struct:
		out := map[string]any{}
		fields(v, out)
		return out
	case reflect.Pointer:
		return tree(v.Elem())
	case reflect.Interface: // an action
		out := map[string]any{"action": Snake(v.Elem().Type().Name())}
		fields(v.Elem(), out)
		return out
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			out = append(out, tree(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			key, _ := text(it.Key())
			out[key] = tree(it.Value())
		}
		return out
	default:
		return v.Interface()
	}
}

// always are the types of fields that are written even if they are zero, such as a job's
// status. A field with the tag `wire:"always"` is, too.
var always = []reflect.Type{reflect.TypeFor[kernel.Status](), reflect.TypeFor[kernel.State](), reflect.TypeFor[kernel.RemedyKind]()}

// fields puts those fields of v into out that are written.
func fields(v reflect.Value, out map[string]any) {
	for i := range v.NumField() {
		f := v.Field(i)
		empty := f.IsZero() || (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0
		if !empty || slices.Contains(always, f.Type()) || v.Type().Field(i).Tag.Get("wire") == "always" {
			out[Snake(v.Type().Field(i).Name)] = tree(f)
		}
	}
}

// viewed returns a document of package view as a tree.
func viewed(doc any) any {
	raw, err := json.Marshal(doc)
	if err != nil {
		panic(err) // impossible: they hold nothing that JSON cannot express
	}
	out, err := Parsed(raw)
	if err != nil {
		panic(err)
	}
	return out
}

// Parsed returns a JSON document as a tree whose numbers are as they were written.
func Parsed(raw []byte) (out any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&out)
	return out, err
}

// Compact returns v as JSON on one line.
func Compact(v any) []byte { return Written(tree(reflect.ValueOf(v)), "") }

// Indented returns v as JSON on many lines.
func Indented(v any) []byte { return Written(tree(reflect.ValueOf(v)), "  ") }

// Written returns a tree as JSON with its keys in order, and its end of line.
func Written(t any, indent string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(t); err != nil {
		panic(err) // impossible: a tree holds nothing that JSON cannot express
	}
	return b.Bytes()
}

// Read sets v, a pointer, to what raw says. A field that v does not have is an error.
func Read(raw []byte, v any) error {
	t, err := Parsed(raw)
	if err != nil {
		return err
	}
	return Fill(reflect.ValueOf(v).Elem(), t)
}

// Fill sets v to what t says.
func Fill(v reflect.Value, t any) error {
	if to := Stands(v).Type(); to != v.Type() {
		w := reflect.New(to).Elem()
		err := Fill(w, t)
		v.Set(packed(w))
		return err
	}
	if s, ok := t.(string); ok {
		return fillText(v, s)
	}
	if ofView(v.Type()) {
		return json.Unmarshal(Written(t, ""), v.Addr().Interface())
	}
	switch t := t.(type) {
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(t)
			return nil
		}
	case json.Number:
		return fillNumber(v, t)
	case []any:
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), len(t), len(t)))
			for i, e := range t {
				if err := Fill(v.Index(i), e); err != nil {
					return fmt.Errorf("[%d]: %w", i, err)
				}
			}
			return nil
		}
	case map[string]any:
		return fillObject(v, t)
	}
	return fmt.Errorf("%v is no %s", t, v.Type())
}

func fillNumber(v reflect.Value, n json.Number) error {
	switch {
	case v.CanInt():
		i, err := n.Int64()
		v.SetInt(i)
		return err
	case v.CanUint():
		i, err := strconv.ParseUint(n.String(), 10, 64)
		v.SetUint(i)
		return err
	case v.CanFloat():
		f, err := n.Float64()
		v.SetFloat(f)
		return err
	}
	return fmt.Errorf("%s is no %s", n, v.Type())
}

// placesOf returns the indices of a struct's fields by their names in JSON.
func placesOf(t reflect.Type) map[string]int {
	if known, ok := places.Load(t); ok {
		return known.(map[string]int)
	}
	at := map[string]int{}
	for i := range t.NumField() {
		at[Snake(t.Field(i).Name)] = i
	}
	places.Store(t, at)
	return at
}

func fillObject(v reflect.Value, t map[string]any) error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fillObject(v.Elem(), t)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range slices.Sorted(maps.Keys(t)) {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			if err := errors.Join(fillText(k, key), Fill(e, t[key])); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			v.SetMapIndex(k, e)
		}
		return nil
	case reflect.Struct:
		at := placesOf(v.Type())
		for _, key := range slices.Sorted(maps.Keys(t)) {
			i, ok := at[key]
			if !ok {
				return fmt.Errorf("%s: no such field", key)
			}
			if err := Fill(v.Field(i), t[key]); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	default:
		return fmt.Errorf("an object is no %s", v.Type())
	}
}

// fillText is the inverse of text.
func fillText(v reflect.Value, s string) (err error) {
	switch v.Interface().(type) {
	case time.Time:
		var at time.Time
		at, err = time.Parse(time.RFC3339Nano, s)
		v.Set(reflect.ValueOf(at))
		return err
	case time.Duration:
		var d time.Duration
		d, err = time.ParseDuration(s)
		v.SetInt(int64(d))
		return err
	case kernel.Artifact:
		var a kernel.Artifact
		a, err = kernel.ParseArtifact(s)
		v.Set(reflect.ValueOf(a))
		return err
	case kernel.AttemptID:
		i := strings.LastIndexByte(s, '/')
		n, err := strconv.Atoi(s[i+1:])
		if i < 0 || err != nil {
			return fmt.Errorf("%q is no JOB/N", s)
		}
		v.Set(reflect.ValueOf(kernel.AttemptID{Job: kernel.JobID(s[:i]), N: n}))
		return nil
	case []byte:
		v.SetBytes([]byte(s))
		return nil
	}
	if words := WordsOf(v.Type()); words != nil {
		i := slices.Index(words, s)
		if i < 0 {
			return fmt.Errorf("%q is none of %s", s, strings.Join(words, ", "))
		}
		v.SetUint(uint64(i))
		return nil
	}
	if v.Kind() != reflect.String {
		return fmt.Errorf("%q is no %s", s, v.Type())
	}
	v.SetString(s)
	return nil
}

package fs

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"reflect"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// codec writes values of one type in a compact form for the cache. It walks
// the type by reflection, so a field added to the kernel is never forgotten;
// the fingerprint of the type tells a file of another shape apart.
type codec struct {
	put func([]byte, reflect.Value) []byte
	get func(*reader, reflect.Value)
}

var (
	timeType    = reflect.TypeFor[time.Time]()      //nolint:gochecknoglobals // a constant of the process
	waitSetType = reflect.TypeFor[kernel.WaitSet]() //nolint:gochecknoglobals // likewise

	// Made only once the cache is used.
	jobCodec       = sync.OnceValue(func() codec { return newCodec(reflect.TypeFor[kernel.Job]()) })     //nolint:gochecknoglobals // derived from a type
	jobFingerprint = sync.OnceValue(func() uint64 { return fingerprint(reflect.TypeFor[kernel.Job]()) }) //nolint:gochecknoglobals // likewise
)

func newCodec(t reflect.Type) codec {
	switch t {
	case timeType:
		return codec{putTime, getTime}
	case waitSetType:
		return codec{putWaitSet, getWaitSet}
	}
	switch t.Kind() {
	case reflect.String:
		return codec{
			func(b []byte, v reflect.Value) []byte {
				return append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...)
			},
			func(r *reader, v reflect.Value) { v.SetString(r.string()) },
		}
	case reflect.Bool:
		return codec{
			func(b []byte, v reflect.Value) []byte {
				if v.Bool() {
					return append(b, 1)
				}
				return append(b, 0)
			},
			func(r *reader, v reflect.Value) { v.SetBool(r.byte() == 1) },
		}
	case reflect.Int, reflect.Int64:
		return codec{
			func(b []byte, v reflect.Value) []byte { return binary.AppendVarint(b, v.Int()) },
			func(r *reader, v reflect.Value) { v.SetInt(r.int()) },
		}
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return codec{
			func(b []byte, v reflect.Value) []byte { return binary.AppendUvarint(b, v.Uint()) },
			func(r *reader, v reflect.Value) { v.SetUint(r.uint()) },
		}
	case reflect.Float64:
		return codec{
			func(b []byte, v reflect.Value) []byte { return binary.AppendUvarint(b, math.Float64bits(v.Float())) },
			func(r *reader, v reflect.Value) { v.SetFloat(math.Float64frombits(r.uint())) },
		}
	case reflect.Slice:
		return sliceCodec(t)
	case reflect.Pointer:
		return pointerCodec(t)
	case reflect.Array:
		return arrayCodec(t)
	case reflect.Struct:
		return structCodec(t)
	default:
		panic(fmt.Sprintf("fs: the cache cannot hold a %s", t))
	}
}

func sliceCodec(t reflect.Type) codec {
	elem := newCodec(t.Elem())
	return codec{
		func(b []byte, v reflect.Value) []byte {
			b = binary.AppendUvarint(b, uint64(v.Len()))
			for i := range v.Len() {
				b = elem.put(b, v.Index(i))
			}
			return b
		},
		func(r *reader, v reflect.Value) {
			n := int(r.count())
			if n == 0 {
				return
			}
			s := reflect.MakeSlice(t, n, n)
			for i := range n {
				elem.get(r, s.Index(i))
			}
			v.Set(s)
		},
	}
}

func pointerCodec(t reflect.Type) codec {
	elem := newCodec(t.Elem())
	return codec{
		func(b []byte, v reflect.Value) []byte {
			if v.IsNil() {
				return append(b, 0)
			}
			return elem.put(append(b, 1), v.Elem())
		},
		func(r *reader, v reflect.Value) {
			if r.byte() == 1 {
				v.Set(reflect.New(t.Elem()))
				elem.get(r, v.Elem())
			}
		},
	}
}

func arrayCodec(t reflect.Type) codec {
	elem := newCodec(t.Elem())
	return codec{
		func(b []byte, v reflect.Value) []byte {
			for i := range t.Len() {
				b = elem.put(b, v.Index(i))
			}
			return b
		},
		func(r *reader, v reflect.Value) {
			for i := range t.Len() {
				elem.get(r, v.Index(i))
			}
		},
	}
}

// structCodec writes bits that say which fields are not zero, and then these fields. Most
// fields are zero.
func structCodec(t reflect.Type) codec {
	fields := make([]codec, t.NumField())
	for i := range fields {
		if !t.Field(i).IsExported() {
			panic(fmt.Sprintf("fs: the cache cannot hold field %s of %s", t.Field(i).Name, t))
		}
		fields[i] = newCodec(t.Field(i).Type)
	}
	size := (len(fields) + 7) / 8
	return codec{
		func(b []byte, v reflect.Value) []byte {
			at := len(b)
			b = append(b, make([]byte, size)...)
			for i := range fields {
				if field := v.Field(i); !field.IsZero() {
					b[at+i/8] |= 1 << (i % 8)
					b = fields[i].put(b, field)
				}
			}
			return b
		},
		func(r *reader, v reflect.Value) {
			for at, set := range r.take(size) {
				for ; set != 0; set &= set - 1 {
					i := at*8 + bits.TrailingZeros8(set)
					if i >= len(fields) {
						r.b, r.err = nil, errCache
						return
					}
					fields[i].get(r, v.Field(i))
				}
			}
		},
	}
}

// putTime writes microseconds since 1970, which is all that records hold.
func putTime(b []byte, v reflect.Value) []byte {
	return binary.AppendVarint(b, v.Interface().(time.Time).UnixMicro())
}

func getTime(r *reader, v reflect.Value) {
	v.Set(reflect.ValueOf(time.UnixMicro(r.int()).UTC()))
}

func putWaitSet(b []byte, v reflect.Value) []byte {
	kinds := v.Interface().(kernel.WaitSet).Kinds()
	b = append(b, byte(len(kinds)))
	for _, k := range kinds {
		b = append(b, byte(k))
	}
	return b
}

func getWaitSet(r *reader, v reflect.Value) {
	var w kernel.WaitSet
	for n := r.byte(); n > 0 && r.err == nil; n-- {
		w = w.With(kernel.WaitKind(r.byte()))
	}
	v.Set(reflect.ValueOf(w))
}

// take is the next n bytes.
func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.b, r.err = nil, errShort
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errShort
		return 0
	}
	r.b = r.b[n:]
	return v
}

// fingerprint changes whenever a field of t, however deep, changes its name,
// type or place.
func fingerprint(t reflect.Type) uint64 {
	h := fnv.New64a()
	var buf []byte
	tell := func(texts ...string) {
		buf = buf[:0]
		for _, text := range texts {
			buf = append(buf, text...)
		}
		_, _ = h.Write(buf)
	}
	told := map[reflect.Type]bool{timeType: true}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		tell(t.String(), " ", t.Kind().String(), ";")
		switch t.Kind() {
		case reflect.Slice, reflect.Array, reflect.Pointer:
			walk(t.Elem())
		case reflect.Struct:
			if told[t] {
				return
			}
			told[t] = true
			for i := range t.NumField() {
				f := t.Field(i)
				tell(f.Name, ":")
				walk(f.Type)
			}
		default: // has no parts
		}
	}
	walk(t)
	return h.Sum64()
}

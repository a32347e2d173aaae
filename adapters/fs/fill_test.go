package fs

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// filler fills values of kernel types by reflection, so that a field added
// later is filled without a change here. Without chance every field gets a value of
// its own that is not its zero value.
type filler struct {
	chance *rand.Rand // nil: fill everything
	n      int64
}

// fullJob has every field filled.
func fullJob() kernel.Job { return (&filler{}).job() }

func (f *filler) job() kernel.Job {
	var j kernel.Job
	f.fill(reflect.ValueOf(&j).Elem())
	if j.ID == "" {
		j.ID = id(1)
	}
	if j.Created.IsZero() {
		j.Created = t0
	}
	if f.chance == nil { // a succeeded job has no reason for a failure
		j.State.Status = kernel.Failed
	}
	j.Rev = max(j.Rev, 1)
	return j
}

func (f *filler) next() int64 { f.n++; return f.n }

// skip reports whether to leave a field at its zero value.
func (f *filler) skip() bool { return f.chance != nil && f.chance.IntN(3) == 0 }

func (f *filler) pick(n int) int {
	if f.chance != nil {
		return f.chance.IntN(n)
	}
	return int(f.next()) % n
}

var awkward = []string{"", "ä", "日本", " ", "\n", "\"", "\\", "<&>", "\u2028", "\x00", "\x7f", "\ufffd", "../", strings.Repeat("x", 300)}

func (f *filler) text() string {
	s := fmt.Sprintf("text %d", f.next())
	if f.chance != nil {
		s += awkward[f.chance.IntN(len(awkward))]
	}
	return s
}

func (f *filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(t0.Add(time.Duration(f.next()) * 1001 * time.Microsecond)))
	case time.Duration:
		v.SetInt(int64(time.Duration(f.next()) * 1500 * time.Millisecond))
	case kernel.JobID:
		v.SetString(string(id(int(f.next()))))
	case kernel.WaitSet:
		var w kernel.WaitSet
		for _, k := range []kernel.WaitKind{kernel.OnLocks, kernel.OnDependencies, kernel.OnApproval}[f.pick(2):] {
			w = w.With(k)
		}
		v.Set(reflect.ValueOf(w))
	case kernel.ExitSet:
		v.Set(reflect.ValueOf(kernel.ExitSet{}.With(int(f.next()) % 256).With(255)))
	case kernel.ExitCode:
		v.Set(reflect.ValueOf(kernel.Exited(int(f.next()))))
	case kernel.Artifact:
		v.Set(reflect.ValueOf(f.artifact()))
	case kernel.Lock:
		v.Set(reflect.ValueOf(kernel.Lock{Key: f.text(), Mode: kernel.LockMode(f.pick(2)), Units: f.pick(3)}))
	case kernel.Secret:
		v.Set(reflect.ValueOf(kernel.Secret{Name: fmt.Sprintf("SECRET_%d", f.next()), Source: "print " + strings.ReplaceAll(f.text(), "\x00", "")}))
	case kernel.Precondition:
		v.Set(reflect.ValueOf(f.precondition()))
	case kernel.RetryPolicy:
		f.fields(v)
		p := v.Addr().Interface().(*kernel.RetryPolicy)
		p.Classes = 0
		*p = p.On(kernel.Timeout).On(kernel.RejectedByHost)
	default:
		f.generic(v)
	}
	f.tidy(v)
}

func (f *filler) generic(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		f.fields(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		n := 2
		if f.chance != nil {
			n = 1 + f.chance.IntN(3)
		}
		s := reflect.MakeSlice(v.Type(), n, n)
		for i := range n {
			f.fill(s.Index(i))
		}
		v.Set(s)
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(1 + f.pick(enumSize(v)-1)))
	case reflect.Int, reflect.Int64:
		v.SetInt(f.next())
	case reflect.Float64:
		v.SetFloat(float64(f.next()) / 3)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.next()))
	default:
		panic("the filler does not know " + v.Type().String())
	}
}

func (f *filler) fields(v reflect.Value) {
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			panic(fmt.Sprintf("%s has the unexported field %s: the filler needs a case for it", v.Type(), v.Type().Field(i).Name))
		}
		if !f.skip() {
			f.fill(v.Field(i))
		}
	}
}

// tidy makes v one of the values that the kernel makes.
func (f *filler) tidy(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *kernel.StopRequest:
		if p.At.IsZero() {
			*p = kernel.StopRequest{}
		}
	case *kernel.NewJob:
		if p.ID == "" {
			p.ID = id(int(f.next()))
		}
	case *kernel.Spec:
		p.AfterAny = nil
		if len(p.After) > 1 || f.chance != nil && len(p.After) > 0 {
			p.AfterAny = p.After[:1]
		}
		slices.SortFunc(p.Tags, func(a, b kernel.Tag) int { return strings.Compare(a.Key, b.Key) })
		p.Tags = slices.CompactFunc(p.Tags, func(a, b kernel.Tag) bool { return a.Key == b.Key })
	case *kernel.Amendment:
		if !p.Made {
			*p = kernel.Amendment{}
		}
	case *kernel.Approval:
		if p.State == kernel.NotRequired {
			*p = kernel.Approval{}
		}
	case *kernel.Products:
		if p.On == kernel.NoOutcome {
			p.On = kernel.OutcomeFailed
		}
		if len(p.Artifacts) == 0 {
			p.Artifacts = []kernel.Artifact{f.artifact()}
		}
	case *kernel.Route:
		if p.On == kernel.NoOutcome {
			p.On = kernel.OutcomeFailed
		}
		if p.To == "" {
			p.To = id(int(f.next()))
		}
	}
}

// enumSize counts the named values of v's type: one out of range prints with
// its number.
func enumSize(v reflect.Value) int {
	probe := reflect.New(v.Type()).Elem()
	for n := range 256 {
		probe.SetUint(uint64(n))
		if strings.Contains(probe.Interface().(fmt.Stringer).String(), "(") {
			return n
		}
	}
	panic("no end to " + v.Type().String())
}

func (f *filler) artifact() kernel.Artifact {
	a := kernel.Artifact{Kind: kernel.ArtifactKind(f.pick(7)), Name: fmt.Sprintf("näme-%d", f.next())}
	switch {
	case a.Kind == kernel.Custom:
		a.Ref = fmt.Sprintf("key: %d/../ä", f.next())
	case a.Kind <= kernel.PlanCommits:
		a.Ref = fmt.Sprintf("draft/%d", f.next())
	}
	return a
}

func (f *filler) precondition() kernel.Precondition {
	p := kernel.Precondition{Kind: kernel.PreconditionKind(f.pick(3)), Branch: f.text()}
	if p.Kind == kernel.CustomPrecondition {
		p.ID = f.text()
	}
	return p
}

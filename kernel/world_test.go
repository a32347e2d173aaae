package kernel

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// declarations returns the declarations of this package without its tests.
func declarations(t *testing.T) (all []ast.Decl) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f.Decls...)
	}
	return all
}

// receivers returns the types of this package that have a method with that
// name.
func receivers(t *testing.T, method string) []string {
	t.Helper()
	var out []string
	for _, d := range declarations(t) {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == method {
			out = append(out, fn.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	slices.Sort(out)
	return out
}

// witness is a Performer that notes what it is asked to do.
type witness struct{ did WorldAction }

func (w *witness) Launch(a Launch) Plan                 { w.did = a; return NewPlan(a) }
func (w *witness) Stop(a Stop) Plan                     { w.did = a; return NewPlan(a) }
func (w *witness) Sweep(a Sweep) Plan                   { w.did = a; return NewPlan(a) }
func (w *witness) ClearSentinel(a ClearSentinel) Plan   { w.did = a; return NewPlan(a) }
func (w *witness) RemoveWorktree(a RemoveWorktree) Plan { w.did = a; return NewPlan(a) }
func (w *witness) TendPrompt(a TendPrompt) Plan         { w.did = a; return NewPlan(a) }

// Every world action has one row, found by its name and by its type.
func TestEveryWorldActionHasARow(t *testing.T) {
	var have []string
	for _, a := range WorldActions() {
		have = append(have, reflect.TypeOf(a).Name())
		b, err := ReadWorldAction(WorldActionName(a), func(any) error { return nil })
		if err != nil || b != a {
			t.Errorf("%T is read as %T (%v)", a, b, err)
		}
		var w witness
		if p := Perform(&w, a); w.did != a || len(p.World) != 1 || p.World[0] != a || len(p.Records) > 0 {
			t.Errorf("%T: %T was done, and answered %+v", a, w.did, p)
		}
	}
	slices.Sort(have)
	if want := receivers(t, "world"); !slices.Equal(have, want) {
		t.Errorf("the table has %v, and there are %v", have, want)
	}
}

// The names in journals never change.
func TestNamesOfWorldActions(t *testing.T) {
	want := []string{"kernel.Launch", "kernel.Stop", "kernel.Sweep", "kernel.ClearSentinel", "kernel.RemoveWorktree", "kernel.TendPrompt"}
	var have []string
	for _, a := range WorldActions() {
		have = append(have, WorldActionName(a))
	}
	for _, name := range want {
		if !slices.Contains(have, name) {
			t.Errorf("journals that hold %s are not read any more", name)
		}
	}
	if slices.Sort(have); len(slices.Compact(have)) != len(WorldActions()) {
		t.Error("two actions have one name")
	}
}

// Every record action goes to the writer's method for it.
func TestEveryRecordActionIsWritten(t *testing.T) {
	methods := reflect.TypeFor[RecordWriter]()
	var want []string
	for i := range methods.NumMethod() {
		want = append(want, methods.Method(i).Name)
	}
	if have := receivers(t, "write"); !slices.Equal(have, want) {
		t.Errorf("record actions %v, methods %v", have, want)
	}
	if all := slices.Sorted(slices.Values(append(receivers(t, "world"), receivers(t, "write")...))); !slices.Equal(all, receivers(t, "addTo")) {
		t.Errorf("actions %v, of which %v belong to the records or the world", receivers(t, "addTo"), all)
	}
}

// An action that this version does not know is an error, and so is one whose
// fields cannot be read.
func TestReadWorldActionsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		name, want string
		fill       func(any) error
	}{
		{"nonsense", "action nonsense is not known", func(any) error { return nil }},
		{WorldActionName(Launch{}), "action " + WorldActionName(Launch{}) + ": no such field", func(any) error { return errors.New("no such field") }},
	} {
		if a, err := ReadWorldAction(c.name, c.fill); a != nil || err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, %v", c.name, a, err)
		}
	}
}

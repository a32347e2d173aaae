package kernel

import (
	"go/ast"
	"testing"
)

// Every value of an enumeration has a name, which is empty if it is not
// written, and every enumeration has a table.
func TestEveryValueHasAWord(t *testing.T) {
	values, words := map[string]int{}, map[string]int{}
	for _, d := range declarations(t) {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		of := "" // the enumeration of a block of constants
		for _, spec := range g.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if len(v.Values) == 1 {
				of = ""
				if id, ok := v.Values[0].(*ast.Ident); ok && id.Name == "iota" && v.Type != nil {
					of = v.Type.(*ast.Ident).Name
				}
				if c, ok := v.Values[0].(*ast.CallExpr); ok {
					if x, ok := c.Fun.(*ast.IndexExpr); ok && x.X.(*ast.Ident).Name == "NewNames" {
						words[x.Index.(*ast.Ident).Name] = len(c.Args) - 1
					}
				}
			}
			if of != "" && ast.IsExported(v.Names[0].Name) {
				values[of]++
			}
		}
	}
	for _, own := range []string{"Liveness", "NearKind"} { // their names are never written or read
		delete(values, own)
	}
	for of, n := range values {
		if words[of] != n {
			t.Errorf("%s has %d values and %d words", of, n, words[of])
		}
	}
	if len(words) < 15 || len(values) != len(words) {
		t.Errorf("found %d enumerations and %d tables", len(values), len(words))
	}
}

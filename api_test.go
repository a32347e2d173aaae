package vizier_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/api.txt")

const apiFile = "docs/api.txt"

// docs/api.txt lists what the kernel exports, so that a change of what others
// build on is a difference that somebody reads.
func TestKernelAPIIsListed(t *testing.T) {
	got := "# What package kernel exports; docs/embedding.md says what of it is stable. `go test . -update` rewrites this list.\n" + strings.Join(kernelAPI(t), "\n") + "\n"
	if *update {
		if err := os.MkdirAll(filepath.Dir(apiFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(apiFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	have, now := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for _, line := range have {
		if !slices.Contains(now, line) {
			t.Errorf("- %s", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(have, line) {
			t.Errorf("+ %s", line)
		}
	}
	t.Errorf("%s differs from the kernel's exported API; if that is meant, rewrite it with -update", apiFile)
}

// kernelAPI returns one line for each exported name, field and method, sorted.
func kernelAPI(t *testing.T) []string {
	files, err := filepath.Glob("kernel/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no kernel", err)
	}
	var api []string
	fset := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			api = append(api, exported(fset, d)...)
		}
	}
	slices.Sort(api)
	return slices.Compact(api)
}

func exported(fset *token.FileSet, d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d.Recv.List[0].Type)) {
			return nil
		}
		d.Body, d.Doc = nil, nil
		return []string{source(fset, d)}
	case *ast.GenDecl:
		var api []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() {
						api = append(api, d.Tok.String()+" "+n.Name)
					}
				}
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					api = append(api, typeLines(fset, s)...)
				}
			}
		}
		return api
	}
	return nil
}

// typeLines returns a type's head and a line for each of its exported fields.
func typeLines(fset *token.FileSet, s *ast.TypeSpec) []string {
	head := "type " + s.Name.Name
	if s.TypeParams != nil {
		head += "[…]"
	}
	st, ok := s.Type.(*ast.StructType)
	if !ok {
		return []string{head + " " + source(fset, s.Type)}
	}
	api := []string{head + " struct"}
	for _, f := range st.Fields.List {
		for _, n := range f.Names {
			if n.IsExported() {
				api = append(api, head+" struct, "+n.Name+" "+source(fset, f.Type))
			}
		}
	}
	return api
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// source returns a node as Go source on one line.
func source(fset *token.FileSet, n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, fset, n); err != nil {
		panic(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

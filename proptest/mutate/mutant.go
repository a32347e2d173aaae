package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mutant is one small change of one file.
type mutant struct {
	pkg      goPackage
	file     string // absolute
	src      string
	from, to int // the part of src that is replaced
	by       string
	kind     string
	runs     int // the offset in src that a test executes if it executes the mutant
}

// mutantsOf lists the mutants of a file.
func mutantsOf(path string) ([]mutant, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	w := finder{path: path, src: string(src), at: func(p token.Pos) int { return fset.Position(p).Offset }}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			ast.Inspect(d, w.visit)
		case *ast.GenDecl:
			if d.Tok == token.CONST || d.Tok == token.VAR {
				ast.Inspect(d, w.visit)
			}
		}
	}
	return w.found, nil
}

type finder struct {
	path, src string
	at        func(token.Pos) int
	found     []mutant
	hints     map[ast.Node]bool // capacities, on which only time depends
	cases     []condition
}

// condition is the condition of a case. Coverage counts it with the code that runs if it holds, so
// begins is the beginning of the switch, which runs whenever the condition is checked.
type condition struct{ from, to, begins token.Pos }

func (w *finder) text(n ast.Node) string { return w.src[w.at(n.Pos()):w.at(n.End())] }

func (w *finder) add(kind string, from, to token.Pos, by string) {
	runs := from
	for _, c := range w.cases {
		if c.from <= from && from < c.to {
			runs = c.begins
		}
	}
	w.found = append(w.found, mutant{file: w.path, src: w.src, from: w.at(from), to: w.at(to), by: by, kind: kind, runs: w.at(runs)})
}

// swaps are the operators that are replaced, and what replaces them.
var swaps = map[token.Token]string{token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+"}

func (w *finder) visit(n ast.Node) bool {
	if n != nil && w.hints[n] {
		return false
	}
	switch n := n.(type) {
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			for _, e := range c.(*ast.CaseClause).List {
				w.cases = append(w.cases, condition{e.Pos(), e.End(), n.Pos()})
			}
		}
	case *ast.IfStmt:
		w.add("condition negated", n.Cond.Pos(), n.Cond.End(), "!("+w.text(n.Cond)+")")
	case *ast.BinaryExpr:
		if by, ok := swaps[n.Op]; ok {
			w.add("operator changed", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), by)
		}
	case *ast.ExprStmt:
		w.add("call left out", n.Pos(), n.End(), "")
	case *ast.IncDecStmt:
		w.add("count left out", n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			w.add("assignment left out", n.Pos(), n.End(), "")
		}
	case *ast.DeferStmt:
		w.add("defer left out", n.Pos(), n.End(), "")
	case *ast.BranchStmt:
		if n.Tok != token.FALLTHROUGH {
			w.add(n.Tok.String()+" left out", n.Pos(), n.End(), "")
		}
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(n.Value, 0, 32); n.Kind == token.INT && err == nil {
			w.add("off by one", n.Pos(), n.End(), fmt.Sprint(v+1))
		}
	case *ast.ReturnStmt:
		w.returns(n)
	case *ast.CallExpr:
		w.hint(n)
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && w.text(s) == "errors.Join" && len(n.Args) > 1 {
			for _, a := range n.Args {
				w.add("error dropped", a.Pos(), a.End(), "nil")
			}
		}
	}
	return true
}

// hint notes the capacity of a slice or of a map in a call of make. The capacity of
// a channel is no hint, since its meaning depends on it.
func (w *finder) hint(n *ast.CallExpr) {
	if f, ok := n.Fun.(*ast.Ident); !ok || f.Name != "make" {
		return
	}
	if w.hints == nil {
		w.hints = map[ast.Node]bool{}
	}
	if _, isMap := n.Args[0].(*ast.MapType); isMap && len(n.Args) == 2 || len(n.Args) == 3 {
		w.hints[n.Args[len(n.Args)-1]] = true
	}
}

// returns swaps booleans and drops errors, and the calls that they come from.
func (w *finder) returns(n *ast.ReturnStmt) {
	for i, r := range n.Results {
		last := i == len(n.Results)-1
		switch r := r.(type) {
		case *ast.Ident:
			switch {
			case r.Name == "true":
				w.add("boolean swapped", r.Pos(), r.End(), "false")
			case r.Name == "false":
				w.add("boolean swapped", r.Pos(), r.End(), "true")
			case last && strings.HasPrefix(r.Name, "err"):
				w.add("error dropped", r.Pos(), r.End(), "nil")
			}
		case *ast.CallExpr:
			if last {
				w.add("error dropped", r.Pos(), r.End(), "nil")
			}
		}
	}
}

// mutated returns the text of the file with the mutant.
func (m mutant) mutated() string { return m.src[:m.from] + m.by + m.src[m.to:] }

func (m mutant) line(offset int) int { return 1 + strings.Count(m.src[:offset], "\n") }

// place returns the line of the mutant, and runsAt the line that a test executes if
// it executes the mutant.
func (m mutant) place() string  { return m.placeOf(m.from) }
func (m mutant) runsAt() string { return m.placeOf(m.runs) }

func (m mutant) placeOf(offset int) string {
	return fmt.Sprintf("%s/%s:%d", m.pkg.rel(), filepath.Base(m.file), m.line(offset))
}

// diff returns the lines that differ.
func (m mutant) diff() string {
	begin := strings.LastIndexByte(m.src[:m.from], '\n') + 1
	end := m.to + strings.IndexByte(m.src[m.to:]+"\n", '\n')
	lines := func(sign, text string) string { return sign + strings.ReplaceAll(text, "\n", "\n"+sign) + "\n" }
	return lines("-", m.src[begin:end]) + lines("+", m.src[begin:m.from]+m.by+m.src[m.to:end])
}

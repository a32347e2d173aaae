package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one small change of one file.
type mutant struct {
	n        int // its number, as package switches knows it
	dir      string
	file     string // absolute
	src      string
	from, to int // the part of src that is replaced
	by       string
	kind     string
}

// source is a file whose types are known.
type source struct {
	dir, path, text string // the package's path in the module; the file's; what is in it
	fset            *token.FileSet
	file            *ast.File
	pkg             *types.Package
	info            *types.Info
}

// mutantsOf lists the mutants of a file, numbered from next, and returns the text of
// the file with a switch for each of them.
func mutantsOf(s source, next int) ([]mutant, string) {
	w := finder{source: s, next: next, skip: map[ast.Node]bool{}, names: map[string]string{}}
	for _, i := range s.file.Imports {
		if p := s.info.PkgNameOf(i); p != nil {
			w.names[p.Imported().Path()] = p.Name()
		}
	}
	for _, d := range s.file.Decls {
		ast.Inspect(d, w.visit)
	}
	if len(w.found) == 0 {
		return nil, s.text
	}
	slices.SortStableFunc(w.edits, func(a, b edit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to // the outer one first
	})
	text := render(s.text, w.edits, 0, len(s.text))
	name := w.at(s.file.Name.End())
	return w.found, text[:name] + `; import switches_ "` + module + `/proptest/mutate/switches"` + text[name:] // no line moves
}

// edit replaces a part of a text; inside returns a part of it, edited.
type edit struct {
	from, to int
	text     func(inside func(from, to int) string) string
}

// render returns a part of a text with the edits in it, which are in order.
func render(text string, edits []edit, from, to int) string {
	var b strings.Builder
	for len(edits) > 0 {
		e := edits[0]
		n := 1
		for n < len(edits) && edits[n].from < e.to {
			n++
		}
		if within := edits[1:n]; e.from >= from && e.to <= to {
			b.WriteString(text[from:e.from] + e.text(func(from, to int) string { return render(text, within, from, to) }))
			from = e.to
			edits = edits[n:]
		} else {
			edits = edits[1:]
		}
	}
	return b.String() + text[from:to]
}

type finder struct {
	source
	next  int
	found []mutant
	edits []edit
	skip  map[ast.Node]bool // what must be a constant or a statement of its own, and capacities, on which only time depends
	names map[string]string // of imported packages, by their paths
}

func (w *finder) at(p token.Pos) int           { return w.fset.Position(p).Offset }
func (w *finder) text(n ast.Node) string       { return w.source.text[w.at(n.Pos()):w.at(n.End())] }
func (w *finder) typeOf(e ast.Expr) types.Type { return w.info.TypeOf(e) }

// add adds a mutant that replaces a part of the file, and returns its number.
func (w *finder) add(kind string, from, to token.Pos, by string) int {
	n := w.next + len(w.found)
	w.found = append(w.found, mutant{n: n, dir: w.dir, file: w.path, src: w.source.text, from: w.at(from), to: w.at(to), by: by, kind: kind})
	return n
}

// wrap puts a switch around a node.
func (w *finder) wrap(n ast.Node, before, after string) {
	from, to := w.at(n.Pos()), w.at(n.End())
	w.edits = append(w.edits, edit{from, to, func(inside func(from, to int) string) string { return before + inside(from, to) + after }})
}

// call puts a call of a function of switches around an expression.
func (w *finder) call(e ast.Expr, function string, n int) {
	w.wrap(e, fmt.Sprintf("switches_.%s(%d, ", function, n), ")")
}

// leaveOut adds a mutant without a statement.
func (w *finder) leaveOut(what string, s ast.Stmt) {
	if !w.skip[s] {
		w.wrap(s, fmt.Sprintf("if switches_.Keep(%d) { ", w.add(what+" left out", s.Pos(), s.End(), "")), " }")
	}
}

func (w *finder) visit(n ast.Node) bool {
	if _, statement := n.(ast.Stmt); !statement && w.skip[n] {
		return false
	}
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.StructType, *ast.InterfaceType:
		return false
	case *ast.ArrayType:
		w.skip[n.Len] = true
	case *ast.CompositeLit:
		w.keys(n)
	case *ast.ForStmt:
		w.skip[n.Init], w.skip[n.Post] = true, true
	case *ast.SwitchStmt:
		w.skip[n.Init] = true
	case *ast.TypeSwitchStmt:
		w.skip[n.Init], w.skip[n.Assign] = true, true
	case *ast.CommClause:
		w.skip[n.Comm] = true
	case *ast.IfStmt:
		w.skip[n.Init] = true
		if w.isBool(n.Cond) {
			w.call(n.Cond, "Bool", w.add("condition negated", n.Cond.Pos(), n.Cond.End(), "!("+w.text(n.Cond)+")"))
		}
	case *ast.BinaryExpr:
		w.operator(n)
	case *ast.ExprStmt:
		if c, ok := n.X.(*ast.CallExpr); ok && w.text(c.Fun) != "panic" { // after which nothing need return
			w.leaveOut("call", n)
		}
	case *ast.IncDecStmt:
		w.leaveOut("count", n)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			w.leaveOut("assignment", n)
		}
	case *ast.DeferStmt:
		w.leaveOut("defer", n)
	case *ast.BranchStmt:
		if n.Tok != token.FALLTHROUGH {
			w.leaveOut(n.Tok.String(), n)
		}
	case *ast.BasicLit:
		w.constant(n)
	case *ast.ReturnStmt:
		w.returns(n)
	case *ast.CallExpr:
		w.hint(n)
		if w.text(n.Fun) == "errors.Join" && len(n.Args) > 1 {
			for _, a := range n.Args {
				w.drop(a)
			}
		}
	}
	return true
}

// keys skips the keys of arrays and slices, which are constants.
func (w *finder) keys(n *ast.CompositeLit) {
	switch w.typeOf(n).Underlying().(type) {
	case *types.Array, *types.Slice:
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				w.skip[kv.Key] = true
			}
		}
	}
}

// isBool reports whether an expression has the type bool, and is not a constant.
func (w *finder) isBool(e ast.Expr) bool {
	b, ok := w.typeOf(e).(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0 && w.info.Types[e].Value == nil
}

// swaps are the operators that are replaced, what replaces them, and the functions
// that do so.
var swaps = map[token.Token]struct{ by, function string }{token.EQL: {"!=", "Bool"}, token.NEQ: {"==", "Bool"}, token.LSS: {"<=", "Less"},
	token.LEQ: {"<", "LessOrEqual"}, token.GTR: {">=", "More"}, token.GEQ: {">", "MoreOrEqual"}, token.LAND: {"||", "And"}, token.LOR: {"&&", "Or"},
	token.ADD: {"-", "Plus"}, token.SUB: {"+", "Minus"}}

func (w *finder) operator(n *ast.BinaryExpr) {
	swap, ok := swaps[n.Op]
	if !ok || w.info.Types[n].Value != nil {
		return
	}
	between, after := ", ", ")"
	switch n.Op {
	case token.ADD, token.SUB:
		name, ok := w.number(n)
		if !ok {
			return
		}
		swap.function += "[" + name + "]"
	case token.EQL, token.NEQ:
		between = " " + n.Op.String() + " "
	case token.LAND, token.LOR:
		between, after = ", func() bool { return ", "})"
	default:
		if isParam(w.typeOf(n.X)) || isParam(w.typeOf(n.Y)) {
			return
		}
	}
	if n.Op != token.ADD && n.Op != token.SUB && !w.isBool(n) {
		return
	}
	m := w.add("operator changed", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), swap.by)
	from, x, y, to := w.at(n.Pos()), w.at(n.X.End()), w.at(n.Y.Pos()), w.at(n.End())
	w.edits = append(w.edits, edit{from, to, func(inside func(from, to int) string) string {
		return fmt.Sprintf("switches_.%s(%d, ", swap.function, m) + inside(from, x) + between + inside(y, to) + after
	}})
}

func isParam(t types.Type) bool {
	_, ok := t.(*types.TypeParam)
	return ok
}

// number returns the name of an expression's type, if that is a number.
func (w *finder) number(e ast.Expr) (string, bool) {
	t := w.typeOf(e)
	if t == nil || isParam(t) {
		return "", false
	}
	b, ok := t.Underlying().(*types.Basic)
	if !ok || b.Info()&(types.IsInteger|types.IsFloat) == 0 {
		return "", false
	}
	return w.name(t)
}

// name returns how this file writes a type, if it can.
func (w *finder) name(t types.Type) (string, bool) {
	ok := true
	name := types.TypeString(t, func(p *types.Package) string {
		if p == w.pkg {
			return ""
		}
		name, imported := w.names[p.Path()]
		ok = ok && imported
		return name
	})
	return name, ok && !strings.Contains(name, "untyped")
}

// constant adds a mutant with the next number.
func (w *finder) constant(n *ast.BasicLit) {
	v, err := strconv.ParseInt(n.Value, 0, 32)
	if name, ok := w.number(n); ok && n.Kind == token.INT && err == nil {
		w.call(n, "Constant["+name+"]", w.add("off by one", n.Pos(), n.End(), strconv.FormatInt(v+1, 10)))
	}
}

// hint skips the capacity of a slice or of a map in a call of make. The capacity of
// a channel is no hint, since its meaning depends on it.
func (w *finder) hint(n *ast.CallExpr) {
	if w.text(n.Fun) != "make" {
		return
	}
	if _, isMap := n.Args[0].(*ast.MapType); isMap && len(n.Args) == 2 || len(n.Args) == 3 {
		w.skip[n.Args[len(n.Args)-1]] = true
	}
}

// returns swaps booleans and drops errors, and the calls that they come from.
func (w *finder) returns(n *ast.ReturnStmt) {
	for i, r := range n.Results {
		last := i == len(n.Results)-1
		switch r := r.(type) {
		case *ast.Ident:
			if swapped, ok := map[string]string{"true": "false", "false": "true"}[r.Name]; ok && types.Identical(w.typeOf(r), types.Typ[types.Bool]) {
				w.call(r, "Bool", w.add("boolean swapped", r.Pos(), r.End(), swapped))
			} else if last && strings.HasPrefix(r.Name, "err") {
				w.drop(r)
			}
		case *ast.CallExpr:
			if last {
				w.drop(r)
			}
		}
	}
}

// drop replaces an expression by nil.
func (w *finder) drop(e ast.Expr) {
	t := w.typeOf(e)
	switch t.Underlying().(type) {
	case *types.Interface, *types.Pointer, *types.Slice, *types.Map, *types.Signature, *types.Chan:
	default:
		return
	}
	if name, ok := w.name(t); ok && !isParam(t) {
		w.wrap(e, fmt.Sprintf("switches_.Result(%d, func() %s { return ", w.add("error dropped", e.Pos(), e.End(), "nil"), name), " })")
	}
}

// place returns the line of the mutant.
func (m mutant) place() string {
	return fmt.Sprintf("%s/%s:%d", m.dir, filepath.Base(m.file), 1+strings.Count(m.src[:m.from], "\n"))
}

// diff returns the lines that differ.
func (m mutant) diff() string {
	begin := strings.LastIndexByte(m.src[:m.from], '\n') + 1
	end := m.to + strings.IndexByte(m.src[m.to:]+"\n", '\n')
	lines := func(sign, text string) string { return sign + strings.ReplaceAll(text, "\n", "\n"+sign) + "\n" }
	return lines("-", m.src[begin:end]) + lines("+", m.src[begin:m.from]+m.by+m.src[m.to:end])
}

package vizier_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/vizier-scheduler/vizier"

// satellites stand beside the kernel: they know it and not each other.
var satellites = []string{"kernel/foresight", "kernel/view", "kernel/workflow", "kernel/inbox", "kernel/event", "kernel/effect", "kernel/history", "kernel/retention", "kernel/trace"}

// mayImport is the whole architecture: which layers of this module each layer
// may import, besides itself. Everything below adapters/X is the layer
// adapters/X, so that adapters cannot know each other.
var mayImport = map[string][]string{
	"kernel":   {},
	"adapters": kernels("docs", "internal"),
	"":         kernels("app", "adapters"),
	"app":      kernels(),
	"cmd":      kernels("", "app", "adapters"),
	"proptest": kernels("app", "adapters"),
	"docs":     {},
	"internal": {},
}

func init() {
	for _, s := range satellites {
		mayImport[s] = []string{"kernel"}
	}
}

// kernels returns the kernel with its satellites, and more.
func kernels(more ...string) []string {
	return slices.Concat([]string{"kernel"}, satellites, more)
}

// pureStd is what the kernel may use of the standard library: packages whose
// functions depend on nothing but their arguments.
var pureStd = []string{"cmp", "container/heap", "crypto/sha256", "encoding/hex", "errors", "fmt", "hash", "hash/fnv", "iter", "maps", "math", "path", "path",
	"slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8"}

// impure are the functions that an import list cannot catch.
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Local", "LoadLocation"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

type goPackage struct {
	ImportPath, Dir                    string
	GoFiles, CgoFiles, IgnoredGoFiles  []string
	Imports, TestImports, XTestImports []string
}

func goList(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,IgnoredGoFiles,Imports,TestImports,XTestImports", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// layerOf returns the layer of a package and, for an adapter, which one.
func layerOf(pkg string) (layer, adapter string) {
	rest := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	parts := strings.Split(rest, "/")
	switch {
	case parts[0] == "kernel" && len(parts) > 1:
		return parts[0] + "/" + parts[1], ""
	case parts[0] == "adapters" && len(parts) > 1:
		return parts[0], parts[1]
	default:
		return parts[0], ""
	}
}

// forbidden says why from may not import imp, or "".
func forbidden(from, imp string) string {
	layer, adapter := layerOf(from)
	if imp != module && !strings.HasPrefix(imp, module+"/") {
		if strings.HasPrefix(layer, "kernel") && !slices.Contains(pureStd, imp) {
			return "the kernel imports only pure packages of the standard library"
		}
		return ""
	}
	to, toAdapter := layerOf(imp)
	allowed, known := mayImport[layer]
	switch {
	case !known:
		return "layer " + layer + " has no row in mayImport"
	case layer == to && layer == "adapters" && adapter != toAdapter:
		return "adapters do not know each other"
	case layer == to || slices.Contains(allowed, to):
		return ""
	case from == module+"/app/storetest" && imp == module+"/internal/drawtest": // a suite of tests draws as other tests do
		return ""
	default:
		return layer + " may import only " + strings.Join(allowed, ", ")
	}
}

func TestLayersImportDownwardOnly(t *testing.T) {
	for _, p := range goList(t) {
		for _, imp := range p.Imports {
			if why := forbidden(p.ImportPath, imp); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imp, why)
			}
		}
	}
}

// The rules themselves are tried on imports that must not be.
func TestForbiddenImportsAreSeen(t *testing.T) {
	for _, c := range []struct {
		from, imp string
		allowed   bool
	}{
		{"kernel", "time", true},
		{"kernel", "os", false},
		{"kernel", "sync", false},
		{"kernel", "github.com/google/go-cmp/cmp", false},
		{"kernel", module + "/kernel/view", false},
		{"kernel", module + "/app", false},
		{"kernel/view", module + "/kernel", true},
		{"kernel/view", "os", false},
		{"adapters/fs", module + "/kernel", true},
		{"adapters/fs", module + "/adapters/fs/record", true},
		{"adapters/fs", module + "/adapters/git", false},
		{"adapters/fs", module + "/app", false},
		{"adapters/fs", module + "/internal/sys", true},
		{"internal/sys", module + "/kernel", false},
		{"app", module + "/internal/sys", false},
		{"app", module + "/internal/drawtest", false},
		{"app/storetest", module + "/internal/drawtest", true},
		{"app", module + "/kernel", true},
		{"app", module + "/adapters/fs", false},
		{"cmd/vizier", module + "/adapters/fs", true},
		{"cmd/vizier", module + "/proptest", false},
		{"proptest/sim", module + "/app", true},
		{"misc", module + "/kernel", false},
	} {
		if why := forbidden(module+"/"+c.from, c.imp); (why == "") != c.allowed {
			t.Errorf("%s imports %s: allowed %v, want %v (%s)", c.from, c.imp, why == "", c.allowed, why)
		}
	}
}

func TestKernelIsPure(t *testing.T) {
	files := 0
	for _, p := range goList(t) {
		if layer, _ := layerOf(p.ImportPath); !strings.HasPrefix(layer, "kernel") {
			continue
		}
		if len(p.CgoFiles)+len(p.IgnoredGoFiles) > 0 {
			t.Errorf("%s: cgo or build constraints in the kernel: %v %v", p.ImportPath, p.CgoFiles, p.IgnoredGoFiles)
		}
		for _, name := range p.GoFiles {
			files++
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			impurities(f, func(n ast.Node, what string) {
				t.Errorf("%s/%s: %s in the kernel", path.Base(p.ImportPath), fset.Position(n.Pos()), what)
			})
		}
	}
	if files == 0 {
		t.Fatal("found no kernel")
	}
}

// impurities reports what makes a function more than a function of its
// arguments.
func impurities(f *ast.File, bad func(ast.Node, string)) {
	names := map[string]string{} // local name of an import → its path
	for _, imp := range f.Imports {
		p := strings.Trim(imp.Path.Value, `"`)
		local := path.Base(p)
		if imp.Name != nil {
			local = imp.Name.Name
		}
		if local == "." || local == "_" {
			bad(imp, "an import as "+local)
		}
		names[local] = p
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			bad(n, "a goroutine")
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			bad(n, "a channel")
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				bad(n, "an init function")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(impure[names[x.Name]], n.Sel.Name) {
				bad(n, x.Name+"."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "print" || x.Name == "println") {
				bad(n, x.Name)
			}
		}
		return true
	})
}

func TestImpuritiesAreSeen(t *testing.T) {
	for want, body := range map[string]string{
		"a goroutine":      `func f() { go f() }`,
		"a channel":        `var c chan int`,
		"an init function": `func init() {}`,
		"clock.Now":        `import clock "time"; var t = clock.Now()`,
		"time.Local":       `import "time"; var l = time.Local`,
		"fmt.Println":      `import "fmt"; func f() { fmt.Println() }`,
		"println":          `func f() { println() }`,
		"an import as .":   `import . "time"`,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		impurities(f, func(_ ast.Node, what string) { got = append(got, what) })
		if !slices.Contains(got, want) {
			t.Errorf("%s: saw %q, want %q", body, got, want)
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	for _, p := range goList(t) {
		var with []string
		files := slices.Concat(p.GoFiles, p.CgoFiles)
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				with = append(with, name)
			}
		}
		if len(files) > 0 && len(with) != 1 {
			t.Errorf("%s: package comments in %v, want exactly one", p.ImportPath, with)
		}
	}
}

// os.RemoveAll empties what is mounted below a directory, and stops at a directory that is read-only.
func TestTreesAreRemovedByOneFunction(t *testing.T) {
	for _, p := range goList(t) {
		if layer, _ := layerOf(p.ImportPath); layer == "internal" || layer == "proptest" {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") && strings.Contains(string(text), ".RemoveAll(") {
				t.Errorf("%s/%s calls RemoveAll: sys.RemoveTree looks first what is mounted there", p.ImportPath, name)
			}
		}
	}
}

// unquoted returns the commands of a message, between backquotes, that get a word of their own from elsewhere, as it is.
// Ids of jobs and runs need no quotes.
func unquoted(message string) (found []string) {
	for i, part := range strings.Split(message, "`") {
		first, _, more := strings.Cut(part, " ")
		command := i%2 == 1 && more && slices.Contains([]string{"git", "chmod", "rm", "mv", "umount", "cd"}, first)
		added := i == strings.Count(message, "`") && strings.TrimRight(part, " =") != part // a string, to the end of this one
		if command && (added || strings.ContainsRune(part, '%')) {
			found = append(found, part)
		}
	}
	return found
}

// Commands that people are to paste are made by kernel.CommandLine, which quotes what a shell would take for something else.
func TestCommandsToPasteAreQuoted(t *testing.T) {
	for message, want := range map[string]bool{
		"run `git -C %s stash`": true, "see it with `git show ": true, "`vizier retry %s`, then `chmod u+rwX %s`": true,
		"run `git status` in %s, then `vizier retry %s`": false, "run `%s`": false, "`git gc --prune=now`, of %s": false,
	} {
		if got := unquoted(message); (len(got) > 0) != want {
			t.Errorf("%s: found %q", message, got)
		}
	}
	for _, p := range goList(t) {
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING {
					value, _ := strconv.Unquote(text.Value)
					for _, command := range unquoted(value) {
						t.Errorf("%s/%s: %q is put together without kernel.CommandLine", p.ImportPath, name, command)
					}
				}
				return true
			})
		}
	}
}

package template

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// shape formats a value on one line, each part with its line number.
func shape(v workflow.Value) string {
	var in []string
	for _, e := range v.List {
		in = append(in, shape(e))
	}
	for _, f := range v.Fields {
		in = append(in, fmt.Sprintf("%s@%d=%s", f.Key, f.Pos.Line, shape(f.Value)))
	}
	text := v.Text
	if len(in) > 0 || v.Kind == workflow.List || v.Kind == workflow.Table {
		text = "(" + strings.Join(in, " ") + ")"
	}
	return fmt.Sprintf("%s:%d%s", strings.Fields(v.Kind.String())[1], v.Pos.Line, text)
}

func TestValuesAndTheirLines(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "table:1()",
		"a = 1\nb = true\nc = 1.5\n":             "table:1(a@1=integer:11 b@2=boolean:2true c@3=float:31.5)",
		"\n\na = 'x' # = y\n\n# b\nb=2":          "table:1(a@3=string:3x b@6=integer:62)",
		"a = [1, # one\n 2,\n\n [3,\n4]]\nb = 1": "table:1(a@1=list:1(integer:11 integer:22 list:4(integer:43 integer:54)) b@6=integer:61)",
		"a = {b = 1, c = {d = [1, 2]}}\ne = {}":  "table:1(a@1=table:1(b@1=integer:11 c@1=table:1(d@1=list:1(integer:11 integer:12))) e@2=table:2())",
		"a = \"\"\"\nx\n\"\"\"\nb = '''\ny'z\n'''\nc = \"\"\"q\"\"\"\"\nd = ''": "table:1(a@1=string:1x\n b@4=string:4y'z\n c@7=string:7q\" d@8=string:8)",
		"a = \"x\\\"y\"\nb = '\\'\nc = 1":                                       "table:1(a@1=string:1x\"y b@2=string:2\\ c@3=integer:31)",
		"a = \"\"\"\\\n  x\"\"\"\nb = 1":                                        "table:1(a@1=string:1x b@3=integer:31)",
		"a.b.c = 1\na.d = 2\n'e f'.\"g\\th\" = 3\n'\"' = 4":                     "table:1(a@1=table:1(b@1=table:1(c@1=integer:11) d@2=integer:22) e f@3=table:3(g\th@3=integer:33) \"@4=integer:44)",
		"[a]\nb = 1\n[a.c]\nd = 2\n[e . f]\ng = 3\n":                            "table:1(a@1=table:1(b@2=integer:21 c@3=table:3(d@4=integer:42)) e@5=table:5(f@5=table:5(g@6=integer:63)))",
		"[[a]]\nb = 1\n[[a.c]]\nd = 2\n[[a.c]]\nd = 3\n[a.e]\nf = 4\n\n[[a]]\nb = 5\n[[a.c]]\nd = 6\n": "table:1(a@1=list:1(table:1(b@2=integer:21 c@3=list:3(table:3(d@4=integer:42) table:5(d@6=integer:63)) e@7=table:7(f@8=integer:84)) " +
			"table:10(b@11=integer:115 c@12=list:12(table:12(d@13=integer:136)))))",
		"a = \"\"\"\r\nx\r\n\"\"\"\r\nb = '''\r\ny\r\n'''\r\n": "table:1(a@1=string:1x\n b@4=string:4y\n)", // as git writes it with core.autocrlf
		"[\"a]b\"]\n\tc\t=\t1\r\nd = 2":                        "table:1(a]b@1=table:1(c@2=integer:21 d@3=integer:32))",
		"a = [\"x]\",\n 'y,[',\n 2]\nb = 3":                    "table:1(a@1=list:1(string:1x] string:2y,[ integer:32) b@4=integer:43)",
		"a = [1 # one\n, 2\n, 3\n]\n[b]\nc = 4":                "table:1(a@1=list:1(integer:11 integer:22 integer:33) b@5=table:5(c@6=integer:64))",
		"\n'\\t' = 1\n\"\\t\" = 2\n'a' = 3":                    "table:1(\\t@2=integer:21 \t@3=integer:32 a@4=integer:43)",
		"z = 1\ny = 2\nx = {b = 1, a = 2}":                     "table:1(z@1=integer:11 y@2=integer:22 x@3=table:3(a@3=integer:32 b@3=integer:31))",
		"a = [ {b = 1},\n {b = 2,}, ]\nc = 1":                  "table:1(a@1=list:1(table:1(b@1=integer:11) table:2(b@2=integer:22)) c@3=integer:31)",
	} {
		v, err := parseTOML("t.toml", text)
		if err != nil {
			if !strings.Contains(text, ",}") { // not valid in every version of TOML
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if got := shape(v); got != want || v.Pos.File != "t.toml" {
			t.Errorf("%q\n got %s\nwant %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"{}": "table:1()", "\n[\n1, 2.5, 1e3, 1E3, \"x\",\ntrue, false, null]": "list:2(integer:31 float:32.5 float:31e3 float:31E3 string:3x boolean:4true boolean:4false kind:4)",
		"{\"a\": {\n\"b\": [1,\n2]},\n\"c\":\n\"\"}": "table:1(a@1=table:1(b@2=list:2(integer:21 integer:32)) c@4=string:5)",
	} {
		v, err := parseJSON("t.json", []byte(text))
		if got := strings.ReplaceAll(shape(v), "another", "kind"); err != nil || got != want {
			t.Errorf("%q\n got %s, %v\nwant %s", text, got, err, want)
		}
	}
}

func TestWhatIsNoJSON(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "t.json:1: invalid JSON template t.json: unexpected EOF",
		"[1":                        "unexpected EOF",
		"[1,":                       "unexpected EOF",
		"{\"a\"":                    "unexpected EOF",
		"{\"a\":":                   "unexpected EOF",
		"{\"a\": [":                 "unexpected EOF",
		"\n[1,]":                    "t.json:2: invalid JSON",
		"{1: 2}":                    "invalid JSON",
		"{\"a\": x}":                "invalid JSON",
		"[}":                        "invalid JSON",
		"[1] 2":                     "something follows the template",
		"[[1] 2]":                   "invalid JSON",
		"{\"a\": {\"b\"":            "unexpected EOF",
		strings.Repeat("[", 66):     "more than 64 levels of nesting",
		strings.Repeat(`{"a":`, 66): "more than 64 levels of nesting",
	} {
		if _, err := parseJSON("t.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, deep := range []string{strings.Repeat("[", 65) + strings.Repeat("]", 65), strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64)} {
		if _, err := parseJSON("t.json", []byte(deep)); err != nil {
			t.Errorf("%.9s: %v", deep, err)
		}
	}
}

// TOML that is nested too deeply is refused, with its line.
func TestDeepTOML(t *testing.T) {
	for _, text := range []string{"a = " + strings.Repeat("[", 90) + strings.Repeat("]", 90), "a = " + strings.Repeat("{a = ", 90) + "1" + strings.Repeat("}", 90), "[[" + strings.Repeat("a.", 90) + "a]]", "a = " + strings.Repeat("[", 100000)} {
		if _, err := parseTOML("t.toml", "# a comment\n"+text); err == nil || err.Error() != "t.toml:2: invalid TOML template t.toml: more than 64 levels of nesting" {
			t.Errorf("%.12s: %v", text, err)
		}
	}
}

func lay(t *testing.T, files map[string]string) Loader {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Loader{Root: root}
}

const leafText = "id = \"l\"\nversion = \"v1\"\n[[nodes]]\nid = \"a\"\nkind = \"gate\"\nuses = \"control.terminal\"\n"

// A name that a person types is a path, an alias, the name of a file, or
// matches nothing. In the last case the error says what may have been meant.
func TestFind(t *testing.T) {
	l := lay(t, map[string]string{".vizier/workflows/my-flow.toml": leafText, ".vizier/workflows/notes.txt": "", ".vizier/workflows/dir.toml/x": "", ".vizier/workflows/other.toml": "odd",
		".vizier/t.toml": leafText})
	if got := l.Named(); !slices.Equal(got, []Named{{"my-flow", ".vizier/workflows/my-flow.toml"}, {"other", ".vizier/workflows/other.toml"}}) {
		t.Errorf("names %v", got)
	}
	if none := (Loader{Root: t.TempDir()}).Named(); none != nil {
		t.Errorf("names %v", none)
	}
	commands := map[string]string{"ali-as": "l@v1", "other": "file:.vizier/t.toml", "gone": "./nowhere.toml"}
	for flow, want := range map[string]Resolved{
		"My_Flow":             {".vizier/workflows/my-flow.toml", "file:.vizier/workflows/my-flow.toml", "my_flow"},
		"other":               {".vizier/t.toml", "file:.vizier/t.toml", "other"},
		"my  --flow_":         {".vizier/workflows/my-flow.toml", "file:.vizier/workflows/my-flow.toml", "my_flow"},
		"./.vizier/t.toml":    {"./.vizier/t.toml", "file:.vizier/t.toml", ""},
		"file:.vizier/t.toml": {".vizier/t.toml", "file:.vizier/t.toml", ""},
	} {
		if got, err := l.Find(flow, commands); err != nil || filepath.ToSlash(got.Path) != want.Path || got.Selector != want.Selector || got.Alias != want.Alias {
			t.Errorf("%s: %+v, %v", flow, got, err)
		}
	}
	for flow, want := range map[string]Unresolved{"my-flwo": {Near: "my-flow"}, "draft": {Shipped: true}, "alias_": {Near: "ali-as"}, "gone": {}, "nothing-like-it": {}} {
		_, err := l.Find(flow, commands)
		var u *Unresolved
		if flow == "gone" {
			if err == nil || errors.As(err, &u) || !strings.Contains(err.Error(), "alias `gone` resolves to `./nowhere.toml` but no readable template source was found") {
				t.Errorf("%s: %v", flow, err)
			}
			continue
		}
		if !errors.As(err, &u) || u.Near != want.Near || u.Shipped != want.Shipped || len(u.Names) != 0 == want.Shipped || !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), "unable to resolve FLOW") {
			t.Errorf("%s: %+v, %v", flow, u, err)
		}
	}
}

// The user's own directory has templates too, which those of the repository
// hide.
func TestGlobal(t *testing.T) {
	text := func(id string) string { return strings.Replace(leafText, `"l"`, `"`+id+`"`, 1) }
	l := lay(t, map[string]string{".vizier/workflows/both.toml": text("both"), ".vizier/t.toml": text("hidden")})
	l.Global = lay(t, map[string]string{"both.toml": text("other"), "hidden.toml": text("hidden"), "own.toml": text("own"), "own.json": "{}"}).Root
	own, hidden := filepath.Join(l.Global, "own.toml"), filepath.Join(l.Global, "hidden.toml")
	if got := l.Named(); !slices.Equal(got, []Named{{"both", filepath.Join(".vizier", "workflows", "both.toml")}, {"hidden", hidden}, {"own", own}}) {
		t.Errorf("names %v", got)
	}
	for flow, want := range map[string]Resolved{
		"both":      {".vizier/workflows/both.toml", "file:.vizier/workflows/both.toml", "both"},
		"Own":       {own, "file:" + filepath.ToSlash(own), "own"},
		"hidden@v1": {".vizier/t.toml", "hidden@v1", ""},
		"own@v1":    {own, "own@v1", ""},
		"alias":     {own, "own@v1", "alias"},
	} {
		got, err := l.Find(flow, map[string]string{"alias": "own@v1"})
		if err != nil || filepath.ToSlash(got.Path) != filepath.ToSlash(want.Path) || got.Selector != want.Selector || got.Alias != want.Alias {
			t.Errorf("%s: %+v, %v", flow, got, err)
		} else if _, err := l.Load(got.Path); err != nil {
			t.Errorf("%s: %v", flow, err)
		}
	}
	var u *Unresolved
	if _, err := l.Find("onw", nil); !errors.As(err, &u) || u.Near != "own" {
		t.Errorf("%v", err)
	}
	if _, err := l.Find("none@v1", nil); err == nil || !strings.Contains(err.Error(), "no template in .vizier, .vizier/workflows or "+l.Global+" has this id and version") {
		t.Errorf("%v", err)
	}
	l.Global = ""
	if _, err := l.Find("own", nil); !errors.As(err, &u) {
		t.Errorf("%v", err)
	}
}

func TestSelectors(t *testing.T) {
	l := lay(t, map[string]string{".vizier/workflows/one.toml": leafText, ".vizier/bad.toml": "odd", ".vizier/two.txt": leafText, ".vizier/d.toml/x": ""})
	if r, err := l.Resolve("l@v1", nil); err != nil || r.Path != filepath.Join(".vizier", "workflows", "one.toml") || r.Selector != "l@v1" || r.Alias != "" {
		t.Errorf("%+v %v", r, err)
	}
	for flow, want := range map[string]string{
		" ": "FLOW cannot be empty", "file: ": "file selector is missing a path", "l@v2": "no template in .vizier or .vizier/workflows has this id and version; these could not be read:\n", "m@v1": "these could not be read",
		"@v1": "unable to resolve FLOW `@v1`; pass file:", "l@": "unable to resolve FLOW `l@`; pass", "a.v12": "legacy selector `a.v12` is unsupported; use `a@v12`", "a.v": "unable to resolve FLOW `a.v`; pass", ".v1": "workflow source",
		"a.vx": "unable to resolve FLOW `a.vx`; pass", "a.v1x": "unable to resolve FLOW `a.v1x`; pass", "a.b.v2": "use `a.b@v2`",
	} {
		if _, err := l.Resolve(flow, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flow, err)
		}
	}
	if err := os.Remove(filepath.Join(l.Root, ".vizier", "bad.toml")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Resolve("l@v2", nil); err == nil || strings.Contains(err.Error(), "could not be read") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(l.Root, ".vizier", "again.toml"), []byte(leafText), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Resolve("l@v1", nil); err == nil || !strings.HasSuffix(err.Error(), "is ambiguous; matching files: "+filepath.Join(".vizier", "again.toml")+", "+filepath.Join(".vizier", "workflows", "one.toml")) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(l.Root, ".vizier", "z.toml"), []byte(leafText), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Resolve("l@v1", nil); err == nil || !strings.HasSuffix(err.Error(), ": "+filepath.Join(".vizier", "again.toml")+", "+filepath.Join(".vizier", "workflows", "one.toml")+", "+filepath.Join(".vizier", "z.toml")) {
		t.Errorf("%v", err)
	}
	file := Loader{Root: filepath.Join(l.Root, ".vizier", "again.toml")}
	if _, err := file.Resolve("l@v1", nil); err == nil || !strings.HasPrefix(err.Error(), "look for template `l@v1`: ") {
		t.Errorf("where there is no directory to look in: %v", err)
	}
}

// The part of a template that could be read, if it or its stages have findings,
// can be processed further.
func TestLoad(t *testing.T) {
	l := lay(t, map[string]string{"good.toml": leafText, "bad.toml": leafText + "odd = 1\n", "not.toml": "=",
		"imports.toml": "id = \"i\"\nversion = \"v1\"\nodd = 1\n[[imports]]\nname = \"a\"\npath = \"good.toml\"\n", "root.toml": "id = \"i\"\nversion = \"v1\"\n[[imports]]\nname = \"a\"\npath = \" \"\n",
		"big.toml": strings.Repeat("#", maxBytes+1), "full.toml": leafText + strings.Repeat("#", maxBytes-len(leafText)), ".vizier/workflow/x.toml": leafText, ".vizier/workflows/x.json": "{}", "dir.toml/x": ""})
	if src, err := l.Load("good.toml"); err != nil || src.ID.Value != "l" {
		t.Errorf("%v %v", src, err)
	}
	if src, err := l.Load("full.toml"); err != nil || src == nil {
		t.Errorf("%v", err)
	}
	var found workflow.Diagnostics
	for name, want := range map[string]string{"bad.toml": "unknown key `odd`", "imports.toml": "unknown key `odd`", "root.toml": "import `a` has an empty path"} {
		if src, err := l.Load(name); src == nil || !errors.As(err, &found) || len(found) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v", name, src, err)
		}
	}
	for name, want := range map[string]string{"not.toml": "invalid TOML", "big.toml": "is larger than 4194304 bytes",
		".vizier/workflow/x.toml": "is in a directory that is no longer read", ".vizier/workflows/x.json": "holds .toml templates only", "dir.toml": "is not a file", "gone.toml": "does not resolve to a readable file: no such file or directory",
		"/": "is not a file", "/etc/hostname": "is outside repository root " + l.Root} {
		if src, err := l.Load(name); src != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v", name, src, err)
		}
	}
	l.Global = t.TempDir()
	path := filepath.Join(l.Global, "g.toml")
	if err := os.WriteFile(path, []byte(leafText), 0o644); err != nil {
		t.Fatal(err)
	}
	if src, err := l.Load(path); err != nil || src.File != path {
		t.Errorf("%+v %v", src, err)
	}
	if r, err := l.Resolve(path, nil); err != nil || r.Selector != path {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := l.Load("/etc/hostname"); err == nil || !strings.HasSuffix(err.Error(), " and global workflow directory "+l.Global) {
		t.Errorf("%v", err)
	}
}

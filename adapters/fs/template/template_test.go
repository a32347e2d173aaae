package template_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/fs/template"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// repo returns a loader for a repository with the given files.
func repo(t *testing.T, files map[string]string) template.Loader {
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
	return template.Loader{Root: root}
}

func wants(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

const leaf = "id = \"l\"\nversion = \"v1\"\n[[nodes]]\nid = \"a\"\nkind = \"gate\"\nuses = \"control.terminal\"\n"

func TestANULByteIsRefused(t *testing.T) {
	for _, text := range []string{strings.Replace(leaf, `id = "a"`, `id = "a\u0000"`, 1), leaf + "args = { script = \"a\\u0000b\" }\n"} {
		if _, err := template.Parse("t.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), "t.toml:") || !strings.Contains(err.Error(), "has a NUL byte, which no program can be given") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Every finding names the line of the key it is about, in both languages.
func TestFindingsNameLines(t *testing.T) {
	_, err := template.Parse("t.toml", []byte(`# a comment
id = "t" # = "x"
version = 7.5
"odd key" = 1
params.one = 'a = "b" # c'
params.two = """
many
lines = 1 \
"""
params.three = [1,
  2]

[policy.dependencies]
  missing_producers = "wait"

[[nodes]]
id = "a"
uses = "control.terminal"
args = { x = "{", y = [], "z.z" = 1.5 }
needs = [
  { plan_doc = { slug = "s" } },
  # a comment ]
  { plan_dock = { slug = "s" } },
]
[nodes.on]
suceeded = []
[[nodes.locks]]
key = "k"
mode = "shared"
[[nodes.locks]]
key = "l"

[[nodes]]
id = "b"
uses = "x"
kind = 1979-05-27 07:32:00
[nodes.retry]
bugdet = 1
`))
	for _, want := range []string{
		"t.toml:3: expected a string, found a float",
		"t.toml:4: unknown key `odd key` in the template",
		"t.toml:10: expected a string, found a list",
		"t.toml:14: unknown key `missing_producers` in policy.dependencies; did you mean `missing_producer`?",
		"t.toml:19: expected a string, found a list",
		"t.toml:19: expected a string, found a float",
		"t.toml:23: unknown key `plan_dock` in nodes[a].needs[1]; did you mean `plan_doc`?",
		"t.toml:26: unknown key `suceeded` in nodes[a].on; did you mean `succeeded`?",
		"t.toml:30: missing key `mode` in nodes[a].locks[1]",
		"t.toml:36: expected a string, found another kind of value",
		"t.toml:38: unknown key `bugdet` in nodes[b].retry; did you mean `budget`?",
	} {
		wants(t, err, want)
	}
	if err != nil && strings.Count(err.Error(), "\n") != 10 {
		t.Errorf("findings:\n%v", err)
	}
	_, err = template.Parse("t.json", []byte("{\n \"id\": \"t\",\n \"version\": \"v1\",\n \"nodes\": [\n  {\"id\": \"a\",\n   \"users\": 1}]}"))
	wants(t, err, "t.json:6: unknown key `users` in nodes[a]; did you mean `uses`?")
	if err != nil && strings.Contains(err.Error(), "missing") {
		t.Errorf("what follows from it is told too: %v", err)
	}
}

func TestSyntaxErrorsNameLines(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"t.toml":     {"id = \"x\"\nversion = \n", "t.toml:2: invalid TOML template t.toml: "},
		"twice.toml": {"id = \"x\"\nid = \"y\"\n", "twice.toml:2: invalid TOML template twice.toml: "},
		"t.json":     {"{\n\"id\": \"x\",\n}", "invalid JSON template t.json: "},
		"cut.json":   {"{\"id\": \"x\"", "cut.json:1: invalid JSON template cut.json: unexpected EOF"},
		"two.json":   {"{} {}", "two.json:1: invalid JSON template two.json: something follows the template"},
		"deep.json":  {strings.Repeat("[", 100) + strings.Repeat("]", 100), "more than 64 levels of nesting"},
		"list.json":  {"[]", "list.json:1: expected a table for the template, found a list"},
		"t.yaml":     {"", "unsupported template source t.yaml; expected .toml or .json"},
	} {
		_, err := template.Parse(name, []byte(c.text))
		wants(t, err, c.want)
	}
}

func TestIntegersAndBooleansAreText(t *testing.T) {
	src, err := template.Parse("t.toml", []byte("id = \"t\"\nversion = \"v1\"\n[params]\nn = 3\nyes = true\nhex = 0x10\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []workflow.Entry{
		{Key: "n", Text: workflow.Text{Value: "3", Pos: workflow.Pos{File: "t.toml", Line: 4}}},
		{Key: "yes", Text: workflow.Text{Value: "true", Pos: workflow.Pos{File: "t.toml", Line: 5}}},
		{Key: "hex", Text: workflow.Text{Value: "16", Pos: workflow.Pos{File: "t.toml", Line: 6}}},
	} {
		if src.Params[i] != want {
			t.Errorf("param %d is %+v, want %+v", i, src.Params[i], want)
		}
	}
}

func TestImportsStayInside(t *testing.T) {
	importing := func(path string) string {
		return "id = \"r\"\nversion = \"v1\"\n[[imports]]\nname = \"s\"\npath = \"" + path + "\"\n"
	}
	outside := filepath.Join(t.TempDir(), "out.toml")
	if err := os.WriteFile(outside, []byte(leaf), 0o644); err != nil {
		t.Fatal(err)
	}
	l := repo(t, map[string]string{
		"a/ok.toml":       importing("../b/leaf.toml"),
		"b/leaf.toml":     leaf,
		"escape.toml":     importing("../../../../../../../../etc/hostname"),
		"absolute.toml":   importing(outside),
		"linked.toml":     importing("link.toml"),
		"self.toml":       importing("self.toml"),
		"around/one.toml": importing("./two.toml"),
		"around/two.toml": importing("../around/one.toml"),
		"dir.toml":        importing("a"),
		"gone.toml":       importing("nowhere.toml"),
		"empty.toml":      importing(""),
	})
	if err := os.Symlink(outside, filepath.Join(l.Root, "link.toml")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Load("a/ok.toml"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"absolute.toml":   "absolute.toml:5: workflow source `" + outside + "` is outside repository root " + l.Root,
		"linked.toml":     "link.toml` is outside repository root",
		"self.toml":       "self.toml:5: workflow import cycle detected: self.toml -> self.toml",
		"around/one.toml": "around/two.toml:5: workflow import cycle detected: around/one.toml -> around/two.toml -> around/one.toml",
		"dir.toml":        "a` is not a file",
		"gone.toml":       "nowhere.toml` does not resolve to a readable file: no such file or directory",
		"empty.toml":      "import `s` has an empty path",
	} {
		_, err := l.Load(name)
		wants(t, err, want)
	}
	if _, err := l.Load("escape.toml"); err == nil {
		t.Error("an import left the repository")
	}
	l.Global = filepath.Dir(outside)
	if _, err := l.Load("absolute.toml"); err != nil {
		t.Errorf("T16: a file of the global directory: %v", err)
	}
	l.Global = t.TempDir()
	_, err := l.Load(outside)
	wants(t, err, "is outside repository root "+l.Root+" and global workflow directory "+l.Global) // T17
}

// T1 and T10 to T17. T2 to T9 are tests of the pure package: nothing in them
// is about files.
func TestResolve(t *testing.T) {
	l := repo(t, map[string]string{
		".vizier/workflows/draft.toml":  strings.Replace(leaf, `"l"`, `"template.stage.draft"`, 1),
		".vizier/workflows/broken.toml": "id = 1.5\n",
		".vizier/workflows/old.json":    `{"id": "o", "version": "v1"}`,
		".vizier/workflow/older.toml":   leaf,
		".vizier/one.toml":              strings.Replace(leaf, `"l"`, `"twice"`, 1),
		".vizier/two.toml":              strings.Replace(leaf, `"l"`, `"twice"`, 1),
		"my flow.toml":                  leaf,
	})
	commands := map[string]string{"draft": "file:.vizier/workflows/draft.toml", "by-id": "template.stage.draft@v1", "gone": "file:.vizier/gone.toml"}
	for flow, want := range map[string]template.Resolved{
		"draft":                           {Path: ".vizier/workflows/draft.toml", Selector: "file:.vizier/workflows/draft.toml", Alias: "draft"},
		"By_ID":                           {Path: ".vizier/workflows/draft.toml", Selector: "template.stage.draft@v1", Alias: "by_id"},
		"template.stage.draft@v1":         {Path: ".vizier/workflows/draft.toml", Selector: "template.stage.draft@v1"},
		".vizier/../my flow.toml":         {Path: ".vizier/../my flow.toml", Selector: "file:my flow.toml"},
		"file:my flow.toml":               {Path: "my flow.toml", Selector: "file:my flow.toml"},
		"./.vizier/workflows/broken.toml": {Path: "./.vizier/workflows/broken.toml", Selector: "file:.vizier/workflows/broken.toml"},
	} {
		got, err := l.Resolve(flow, commands)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", flow, got, err)
		}
	}
	for flow, want := range map[string]string{
		" ":                           "FLOW cannot be empty",
		"file:":                       "file selector is missing a path",
		"approve":                     "unable to resolve FLOW `approve`; pass file:<path>, a direct .toml/.json path, a configured [commands] alias, or a canonical template selector (`template.name@vN`)",
		"gone":                        "alias `gone` resolves to `file:.vizier/gone.toml` but no readable template source was found",
		"template.stage.draft.v1":     "legacy selector `template.stage.draft.v1` is unsupported; use `template.stage.draft@v1`",
		"twice@v1":                    "template selector `twice@v1` is ambiguous; matching files: .vizier/one.toml, .vizier/two.toml",
		"nobody@v1":                   "broken.toml:1: expected a string, found a float",
		".vizier/workflow/older.toml": "move it to .vizier/workflows/",
		".vizier/workflows/old.json":  "holds .toml templates only",
		"/etc/hostname":               "is outside repository root",
	} {
		_, err := l.Resolve(flow, commands)
		wants(t, err, want)
	}
}

func TestRootBehindASymbolicLink(t *testing.T) {
	l := repo(t, map[string]string{"leaf.toml": leaf})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(l.Root, link); err != nil {
		t.Fatal(err)
	}
	src, err := template.Loader{Root: link}.Load("leaf.toml")
	if err != nil || src.File != "leaf.toml" {
		t.Errorf("%v, %v", src, err)
	}
}

// A specification is text.
func TestASpecificationThatIsNoText(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]bool{"# A plan\n": true, "a\x00b": false, "\x00": false, "a\xff": false} {
		if err := os.WriteFile(filepath.Join(dir, "spec.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := template.Spec(dir, "spec.md")
		if (err == nil) != want || want && got != text || !want && !strings.Contains(err.Error(), "spec.md is not UTF-8 text") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// A person names a specification, and a directory of them, from where they are or from the root of the working tree.
func TestSpecificationsThatAPersonNames(t *testing.T) {
	root := repo(t, map[string]string{"spec.md": "of the root", "below/spec.md": "below", "below/b-c.MD": "", "below/b/c.md": "", "below/a.txt": "", "none/a.txt": "", "big.md": strings.Repeat("#", 1<<20+1),
		"full.md": strings.Repeat("#", 1<<20), "links/a.md": ""}).Root
	outside := t.TempDir()
	if err := os.Symlink("a.md", filepath.Join(root, "links", "b.md")); err != nil {
		t.Fatal(err)
	}
	all := []template.SpecFile{{File: "below/b-c.MD", Stem: "b-c"}, {File: "below/b/c.md", Stem: "b/c"}, {File: "below/spec.md", Stem: "spec"}}
	for _, row := range []struct {
		from, path, want string // want: the text, or what the error says
		ok               bool
	}{
		{root, "spec.md", "of the root", true},
		{filepath.Join(root, "below"), "spec.md", "below", true},
		{filepath.Join(root, "below"), "big.md", "big.md is larger than 1048576 bytes", false}, // only the root has it
		{filepath.Join(root, "below"), filepath.Join(root, "spec.md"), "of the root", true},
		{outside, "spec.md", "of the root", true},
		{outside, "below", "below is not a regular file", false},
		{outside, "gone.md", "no such file or directory", false},
		{outside, "full.md", strings.Repeat("#", 1<<20), true},
	} {
		t.Chdir(row.from)
		got, err := template.Spec(root, row.path)
		if row.ok != (err == nil) || row.ok && got != row.want || !row.ok && (got != "" || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s from %s: %.20q, %v", row.path, row.from, got, err)
		}
	}
	for _, row := range []struct {
		from, dir, want string // want: what the error says
	}{
		{outside, "below", ""},
		{root, "./below", ""},
		{filepath.Join(root, "none"), filepath.Join(root, "below"), ""},
		{filepath.Join(root, "below"), "none", "no .md file is in it"},
		{root, "..", "outside the repository"},
		{root, outside, "outside the repository"},
		{root, "spec.md", "it is no directory"},
		{root, "gone", "no such file or directory"},
		{root, "links", "links/b.md is a symbolic link"},
	} {
		t.Chdir(row.from)
		got, err := template.Specs(root, row.dir)
		if row.want == "" && (err != nil || !slices.Equal(got, all)) || row.want != "" && (got != nil || !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s from %s: %v, %v", row.dir, row.from, got, err)
		}
	}
	t.Chdir(filepath.Join(root, "below"))
	l := template.Loader{Root: root}
	if err := os.WriteFile(filepath.Join(root, "below", "flow.toml"), []byte(leaf), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Find("./flow.toml", nil); err != nil || got.Selector != "file:below/flow.toml" {
		t.Errorf("a template from where they are: %+v, %v", got, err)
	}
}

func TestUnreadableFile(t *testing.T) {
	l := repo(t, map[string]string{"big.toml": strings.Repeat("#", 5<<20)})
	_, err := l.Load("big.toml")
	wants(t, err, "is larger than")
	_, err = l.Load("gone.toml")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

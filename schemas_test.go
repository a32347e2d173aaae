package vizier_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// wordsOf returns the words of an enumeration: one out of range prints with its
// number.
func wordsOf[T interface {
	~uint8
	fmt.Stringer
}]() []string {
	var out []string
	for v := T(0); !strings.Contains(v.String(), "("); v++ {
		if v.String() != "" {
			out = append(out, v.String())
		}
	}
	return out
}

// schemaFiles returns the schemas that programs are promised, by file name.
func schemaFiles(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("docs/schemas/*.schema.json")
	if err != nil || len(names) < 15 {
		t.Fatalf("%d schemas: %v", len(names), err)
	}
	out := map[string]string{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(name)] = string(b)
	}
	return out
}

// A list of words in a schema that has an enumeration's mark, a word that means
// nothing else, is that enumeration, whole: a value that is added to the kernel
// is added to every schema, and nobody need know which they are.
func TestSchemasHaveTheKernelsWords(t *testing.T) {
	type enum struct {
		mark     string
		words    []string
		besides  string // a word that documents have besides
		unspoken string // a default that documents leave out
	}
	enums := []enum{
		{"pinned_head", wordsOf[kernel.WaitKind](), "", ""},
		{"waiting_on_deps", wordsOf[kernel.Status](), view.Submitted, ""},
		{"oom", wordsOf[kernel.FailureClass](), "", ""},
		{"intent", wordsOf[effect.State](), "", ""},
		{"rerun", wordsOf[kernel.InDoubt](), "", "fail"},
		{"remove", wordsOf[kernel.Transient](), "", "none"},
		{"pending", wordsOf[kernel.ApprovalState](), "not_required", ""},
		{"clean_worktree", wordsOf[kernel.PreconditionKind](), "", ""},
		{"degraded", wordsOf[kernel.CleanupStatus](), "", ""},
		{"block_downstream", wordsOf[kernel.FailureMode](), "", "continue_independent"},
		{"exclusive", wordsOf[kernel.LockMode](), "", ""},
	}
	found := map[string]int{}
	for file, text := range schemaFiles(t) {
		var doc any
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		eachEnum(doc, file, func(path string, words []string) {
			for _, e := range enums {
				if !slices.Contains(words, e.mark) {
					continue
				}
				found[e.mark]++
				for _, want := range e.words {
					if !slices.Contains(words, want) && want != e.unspoken {
						t.Errorf("%s: %v lacks %q, which the kernel has", path, words, want)
					}
				}
				for _, have := range words {
					if have != "" && have != e.besides && !slices.Contains(e.words, have) {
						t.Errorf("%s: the kernel has no %q among %v", path, have, e.words)
					}
				}
			}
		})
	}
	if found["pinned_head"] < 2 || found["waiting_on_deps"] < 3 || len(found) < len(enums) {
		t.Errorf("found %v", found)
	}
}

// eachEnum calls f with every list of words below v.
func eachEnum(v any, path string, f func(path string, words []string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			list, ok := e.([]any)
			if k == "enum" && ok {
				var words []string
				for _, w := range list {
					if s, ok := w.(string); ok {
						words = append(words, s)
					}
				}
				f(path, words)
				continue
			}
			eachEnum(e, path+"."+k, f)
		}
	case []any:
		for i, e := range v {
			eachEnum(e, fmt.Sprintf("%s[%d]", path, i), f)
		}
	}
}

// Every schema is held to what is printed or written by some test, and a
// command that can print JSON has one: its manual page says that it can.
func TestEveryDocumentHasASchema(t *testing.T) {
	tests := ""
	for _, pattern := range []string{"cmd/vizier/*_test.go", "cmd/vizier/testdata/script/*.txtar", "adapters/fs/*_test.go", "adapters/fs/*/*_test.go", "kernel/view/*_test.go", "proptest/*/*_test.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tests += string(b)
		}
	}
	schemas := schemaFiles(t)
	for file := range schemas {
		name := strings.TrimSuffix(file, ".schema.json")
		if !regexp.MustCompile(`(?m)conforms ` + name + `\b|"` + name + `"|` + regexp.QuoteMeta(file)).MatchString(tests) {
			t.Errorf("no test holds a document to %s", file)
		}
	}
	others := map[string]string{ // where the schema is not called after the command
		"jobs-effects": "effects", "jobs-events": "event", "jobs-schedule": "schedule", "show": "job_show", "status": "job_status", "why": "why",
		"inbox-watch": "inbox_once", "history-list": "history", // a document a line
	}
	pages, err := filepath.Glob("docs/cli/vizier-*.1")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`text\|json|json\|text`).Match(b) {
			continue
		}
		command := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(page), "vizier-"), ".1")
		name := strings.ReplaceAll(command, "-", "_")
		if others[command] != "" {
			name = others[command]
		} else if _, short := schemas["jobs_"+name+".schema.json"]; short { // it stands at the top as well
			name = "jobs_" + name
		}
		if _, found := schemas[name+".schema.json"]; !found {
			t.Errorf("vizier %s prints JSON, and docs/schemas has no %s.schema.json", strings.ReplaceAll(command, "-", " "), name)
		}
	}
}

// The help topic names every gate, in the order in which they are asked.
func TestHelpNamesTheGates(t *testing.T) {
	b, err := os.ReadFile("cmd/vizier/help/gates.txt")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, m := range regexp.MustCompile(`(?m)^ +\d+\. ([a-z ]+?)  `).FindAllStringSubmatch(string(b), -1) {
		have = append(have, m[1])
	}
	var want []string
	for _, g := range kernel.Gates() {
		want = append(want, g.Name)
	}
	if !slices.Equal(have, want) {
		t.Errorf("the help has %q, the kernel %q", have, want)
	}
}

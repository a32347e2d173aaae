package vizier_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// variable begins a text of the code that names one: whether it is passed on as
// NAME, NAME= or as the beginning of names.
var variable = regexp.MustCompile(`^VIZIER(_[A-Z_]+)?=?$`)

// The table of what a job sees has every variable that the packages name which
// start commands, and no other.
func TestTheTableOfVariablesIsWhole(t *testing.T) {
	except := map[string]string{
		"VIZIER_RUNNER":          "of the runner, and taken from its command",
		"VIZIER_HOST":            "what a person sets for the program",
		"VIZIER_JOB_UNTIL":       "what a cluster's job is told by the user's own engine",
		"VIZIER_JOB_CORES":       "the same",
		"VIZIER_STATUS":          "of hooks",
		"VIZIER_JOB_NAME":        "of hooks",
		"VIZIER_FAILURE_CLASS":   "of hooks",
		"VIZIER_REASON":          "of hooks",
		"VIZIER_EXIT_CODE":       "of hooks",
		"VIZIER_EVENT":           "of hooks",
		"VIZIER_NEXT":            "of hooks",
		"VIZIER_BY":              "of hooks",
		"VIZIER_AGENT_SHIMS_DIR": "what a person sets for the program",
	}
	said := map[string]bool{}
	for _, pattern := range []string{"adapters/proc/*.go", "adapters/proc/agent/*.go", "adapters/proc/cluster/*.go", "adapters/proc/cluster/*/*.go", "kernel/workflow/*.go", "app/op/*.go", "node.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && variable.MatchString(text) {
						said[strings.TrimSuffix(text, "=")] = true
					}
				}
				return true
			})
		}
	}
	page, err := os.ReadFile("docs/user/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(page), "\n## ")
	listed := map[string]bool{}
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| `") || len(cells) != 5 {
			continue
		}
		for _, m := range regexp.MustCompile("`(VIZIER(?:_[A-Z_]+)?)…?`").FindAllStringSubmatch(cells[1], -1) {
			listed[m[1]] = true
		}
	}
	for name := range said {
		switch _, excepted := except[name]; {
		case !listed[name] && !excepted:
			t.Errorf("%s is not in the table of docs/user/environment.md: say there what it is, or except it here with a reason", name)
		case listed[name] && excepted:
			t.Errorf("%s is in the table, and is excepted: %s", name, except[name])
		}
	}
	for name := range listed {
		if !said[name] {
			t.Errorf("the table has %s, which nothing sets", name)
		}
	}
	for name := range except {
		if !said[name] {
			t.Errorf("there is no %s to be excepted", name)
		}
	}
	if len(listed) < 12 {
		t.Errorf("the table has only %d variables", len(listed))
	}
}

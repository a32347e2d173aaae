package vizier_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunc     = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	scenarioTest = regexp.MustCompile(`^Test\w+$`)
)

// testsOf returns what a directory of the module has to offer as a test:
// functions, and for the program and the kernel their scripts.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", dir, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = true
		}
	}
	for _, pattern := range []string{"testdata/script/*.txtar", "testdata/scenario/*.txt"} {
		scripts, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range scripts {
			out[filepath.Base(name)] = true
		}
	}
	return out
}

// The map of scenarios has a row for every number, and every test it names
// exists in the directory that stands before it.
func TestScenarioMap(t *testing.T) {
	page, err := os.ReadFile("docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, tests, named := map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "Id" || cells[0] == "---" {
			continue
		}
		if len(cells) != 3 || rows[cells[0]] {
			t.Errorf("not a row of its own with three columns: %s", line)
			continue
		}
		rows[cells[0]] = true
		dir, found := "", 0
		for _, m := range span.FindAllStringSubmatch(cells[2], -1) {
			name := m[1]
			if !scenarioTest.MatchString(name) && filepath.Ext(name) == "" {
				if dir = name; tests[dir] == nil {
					tests[dir] = testsOf(t, dir)
				}
				continue
			}
			if found++; !tests[dir][name] {
				t.Errorf("%s: %q has no test %s", cells[0], dir, name)
			}
			named[name] = true
		}
		if found == 0 && !strings.HasPrefix(cells[2], "None") && !strings.HasPrefix(cells[2], "Out of scope: ") {
			t.Errorf("%s: neither a test nor a reason", cells[0])
		}
	}
	for letter, last := range map[string]int{"K": 16, "V": 39, "T": 17, "R": 26, "A": 5, "Q": 5, "P": 25} {
		for i := 1; i <= last; i++ {
			if id := fmt.Sprint(letter, i); !rows[id] {
				t.Errorf("no row for %s", id)
			}
		}
	}
	for letter, last := range map[string]int{"U": 27, "X": 40, "A": 33} {
		for i := 1; i <= last; i++ {
			if id := fmt.Sprintf("%s%02d", letter, i); !rows[id] {
				t.Errorf("no row for %s", id)
			}
		}
	}
	for script := range testsOf(t, "cmd/vizier") {
		if strings.HasPrefix(script, "flow_") && !named[script] {
			t.Errorf("%s belongs to no scenario", script)
		}
	}
}

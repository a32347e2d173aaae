package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const source = `package p

import "errors"

const most = 8

func f(n int, err error) (bool, error) {
	defer unlock()
	if n < most && err == nil {
		count++
		last = n
		sync(n)
		return true, g(n)
	}
	for {
		break
	}
	return false, errors.Join(err, g(n))
}
`

func mutants(t *testing.T) []mutant {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := mutantsOf(path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEveryKindOfMutant(t *testing.T) {
	var got []string
	for _, m := range mutants(t) {
		got = append(got, fmt.Sprintf("%d %s: %s", m.line(m.from), m.kind, m.by))
		if _, err := parser.ParseFile(token.NewFileSet(), "", m.mutated(), 0); err != nil || m.mutated() == source {
			t.Errorf("%s: %v", got[len(got)-1], err)
		}
	}
	for _, want := range []string{"5 off by one: 9", "8 defer left out: ", "9 condition negated: !(n < most && err == nil)", "9 operator changed: <=",
		"9 operator changed: ||", "9 operator changed: !=", "10 count left out: ", "11 assignment left out: ", "12 call left out: ",
		"13 boolean swapped: false", "13 error dropped: nil", "16 break left out: ", "18 boolean swapped: true", "18 error dropped: nil"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q among\n%s", want, strings.Join(got, "\n"))
		}
	}
	if n := len(got); n != 16 { // three are of the last line: each error by itself, and both
		t.Errorf("%d mutants:\n%s", n, strings.Join(got, "\n"))
	}
}

// The capacity of a slice or a map changes only time. That of a channel changes what
// it means, so it is not left alone.
func TestCapacitiesAreLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.go")
	text := "package p\n\nfunc f() {\n\tuse(make([]int, 1, 2+3), make(map[int]int, 4), make(chan int, 5))\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := mutantsOf(path)
	var got []string
	for _, m := range all {
		got = append(got, m.kind+": "+m.by)
	}
	if want := []string{"call left out: ", "off by one: 2", "off by one: 6"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

// A test that executes a switch checks the conditions of its cases.
func TestTheConditionOfACase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.go")
	text := "package p\n\nfunc f(n int) {\n\tswitch {\n\tcase n < 2:\n\t\tn++\n\t}\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := mutantsOf(path)
	var got []string
	for _, m := range all {
		got = append(got, fmt.Sprintf("%d at %d: %s", m.line(m.from), m.line(m.runs), m.kind))
	}
	if want := []string{"5 at 4: operator changed", "5 at 4: off by one", "6 at 6: count left out"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestADiffIsTheLinesThatDiffer(t *testing.T) {
	for _, m := range mutants(t) {
		if m.kind == "call left out" && m.diff() != "-\t\tsync(n)\n+\t\t\n" {
			t.Errorf("%q", m.diff())
		}
	}
}

// The tests of the package itself come first. Packages that do not use it are left
// out.
func TestWhoMayNoticeAMutant(t *testing.T) {
	p := func(name string, imports ...string) goPackage {
		q := goPackage{ImportPath: module + "/" + name, TestGoFiles: []string{"a_test.go"}}
		for _, i := range imports {
			q.Imports = append(q.Imports, module+"/"+i)
		}
		return q
	}
	model := p("proptest/sim")
	model.TestImports = []string{module + "/app"}
	all := []goPackage{p("adapters/fs", "kernel"), p("adapters/git"), p("app", "kernel"), p("cmd/vizier", "app", "adapters/fs"), p("kernel"), model, p("proptest/torture", "app")}
	for name, want := range map[string]string{"kernel": "kernel app proptest/sim cmd/vizier adapters/fs", "app": "app proptest/sim cmd/vizier",
		"adapters/git": "adapters/git", "adapters/fs": "adapters/fs cmd/vizier"} {
		var got []string
		for _, q := range testsOf(p(name), all) {
			got = append(got, q.rel())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}

func TestWhoComesByAMutant(t *testing.T) {
	j := judge{Lines: map[string][]int{}}
	profile := "mode: set\n" + module + "/kernel/job.go:10.20,12.3 2 1\n" + module + "/kernel/job.go:14.2,15.4 1 0\n" + module + "/adapters/proc/run.go:11.2,15.4 1 0\n"
	j.add(test{Name: "TestA"}, [][]byte{[]byte(profile)})
	j.add(test{Name: "TestB", Took: time.Minute}, [][]byte{[]byte(strings.ReplaceAll(profile, "2 1", "2 0"))})
	j.add(test{Name: "TestScripts/c", Forks: true}, [][]byte{[]byte(strings.ReplaceAll(profile, "2 1", "2 0")), []byte(profile)})
	j.add(test{Name: "TestD", Blind: true}, nil)
	all := []string{"^(TestA|TestD)$", "^(TestB)$", "^TestScripts$/^(c)$"}
	for line, want := range map[int][]string{9: all, 10: {"^(TestA|TestD)$", "^TestScripts$/^(c)$"}, 12: {"^(TestA|TestD)$", "^TestScripts$/^(c)$"}, 13: all, 14: {"^(TestD)$"}, 15: {"^(TestD)$"}} {
		for pkg, want := range map[string][]string{"kernel": want, "adapters/proc": {"^(TestD)$", "^TestScripts$/^(c)$"}} {
			file := map[string]string{"kernel": "/x/job.go", "adapters/proc": "/x/run.go"}[pkg]
			if pkg != "kernel" && line < 11 {
				want = all // in no function
			}
			var got []string
			for _, r := range j.rounds(mutant{pkg: goPackage{ImportPath: module + "/" + pkg}, file: file, src: strings.Repeat("\n", line), runs: line - 1}) {
				got = append(got, r.pattern)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, line %d: %q, want %q", pkg, line, got, want)
			}
		}
	}
	if got := pattern([]string{""}); got != "" {
		t.Errorf("all tests: %q", got)
	}
}

func TestTheOneThatFailed(t *testing.T) {
	for out, want := range map[string]string{"ok": "", "--- FAIL: TestA (0.1s)\n": "^TestA$", "--- FAIL: TestA (0s)\n    --- FAIL: TestA/b.c (0s)\n": `^TestA$/^b\.c$`,
		"--- FAIL: TestA (0s)\n    --- FAIL: TestA/b (0s)\n    --- FAIL: TestA/c (0s)\n": "", "panic: x": ""} {
		if got := failures([]byte(out)); got != want {
			t.Errorf("%q: %q", out, got)
		}
	}
}

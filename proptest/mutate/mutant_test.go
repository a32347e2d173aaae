package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/go/packages"
)

const program = `package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const most = 8

type kind bool

var wait = 2 * time.Second

func f(n int, err error) (ok bool, failed error) {
	defer os.Stdout.Sync()
	last := 1
	if n+last < most && err == nil {
		n++
		last = n
		fmt.Print(last, wait, " ")
		return true, strings.NewReader("").UnreadByte()
	}
	for range 2 {
		fmt.Print("once ")
		break
	}
	return false, errors.Join(err, errors.New("too many"))
}

func (k kind) not() kind { return k == false }

func g(s []string, x any) int {
	names := [...]string{1: "a", 0: "b"}
	switch _, known := x.(string); {
	case len(s) < 1, known || s[0] == names[0]+names[1]:
		return cap(make([]int, 1, 2)) + cap(make(chan int, 5))
	}
	for i := 0; i < 2; i++ {
		s = append(s, "x")
	}
	return len(s)
}

func main() {
	fmt.Print(f(3, nil))
	fmt.Print(f(9, os.ErrInvalid))
	fmt.Println(kind(true).not(), g([]string{"y"}, 1), g(nil, ""))
}
`

// mutants returns the mutants of program, numbered from 100, and its text with switches.
func mutants(t *testing.T) ([]mutant, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := packages.Load(&packages.Config{Mode: typed}, file)
	if err != nil || len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		t.Fatal(err, loaded[0].Errors)
	}
	p := loaded[0]
	return mutantsOf(source{dir: "p", path: file, text: program, fset: p.Fset, file: p.Syntax[0], pkg: p.Types, info: p.TypesInfo}, 100)
}

func TestEveryKindOfMutant(t *testing.T) {
	all, _ := mutants(t)
	var got []string
	for k, m := range all {
		if m.n != 100+k {
			t.Errorf("number %d: %d", k, m.n)
		}
		_, line, _ := strings.Cut(m.place(), ":")
		got = append(got, line+" "+m.kind+": "+m.by)
	}
	want := strings.Split(`15 off by one: 3
18 defer left out: 
19 off by one: 2
20 condition negated: !(n+last < most && err == nil)
20 operator changed: ||
20 operator changed: <=
20 operator changed: -
20 operator changed: !=
21 count left out: 
22 assignment left out: 
23 call left out: 
24 boolean swapped: false
24 error dropped: nil
26 off by one: 3
27 call left out: 
28 break left out: 
30 boolean swapped: true
30 error dropped: nil
30 error dropped: nil
30 error dropped: nil
38 operator changed: <=
38 off by one: 2
38 operator changed: &&
38 operator changed: !=
38 off by one: 1
38 off by one: 1
38 off by one: 2
39 operator changed: -
39 off by one: 2
39 off by one: 6
41 off by one: 1
41 operator changed: <=
41 off by one: 3
42 assignment left out: 
48 call left out: 
48 off by one: 4
49 call left out: 
49 off by one: 10
50 call left out: 
50 off by one: 2`, "\n")
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// The program with all switches does what it did, and with one on what its mutant does.
func TestSwitches(t *testing.T) {
	all, text := mutants(t)
	dir, err := os.MkdirTemp(".", "testdata-") // in the module, whose switches it imports
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, run := filepath.Join(dir, "p.go"), filepath.Join(dir, "p")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", run, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	seen := filepath.Join(dir, "seen")
	if err := os.WriteFile(seen, make([]byte, 100+len(all)), 0o600); err != nil {
		t.Fatal(err)
	}
	output := func(mutant string) string {
		cmd := exec.Command("./" + run)
		cmd.Env = append(os.Environ(), "MUTANT="+mutant)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	as := output(" " + seen)
	if want := "4 2s true strings.Reader.UnreadByte: at beginning of stringonce false invalid argument\ntoo manyfalse 3 7\n"; as != want {
		t.Errorf("without a mutant: %q, want %q", as, want)
	}
	b, err := os.ReadFile(seen)
	if err != nil || slices.Index(b, 1) < 100 {
		t.Errorf("executed: %v, %v", b, err)
	}
	var same []string
	for _, m := range all {
		if output(fmt.Sprint(m.n)) == as {
			same = append(same, m.diff())
		}
		if b[m.n] != 1 {
			t.Errorf("not executed: %s %s", m.place(), m.diff())
		}
	}
	// What main passes does not tell these from the program.
	if len(same) != 11 {
		t.Errorf("%d do the same:\n%s", len(same), strings.Join(same, "\n"))
	}
}

func TestADiffIsTheLinesThatDiffer(t *testing.T) {
	all, _ := mutants(t)
	for _, m := range all {
		if m.kind == "assignment left out" && m.place() == "p/p.go:21" && m.diff() != "-\t\tlast = n\n+\t\t\n" {
			t.Errorf("%q", m.diff())
		}
	}
}

func TestWhichTestsComeFirst(t *testing.T) {
	second := time.Second
	judges := []*judge{
		{Package: "cmd/vizier", Tests: []test{{"TestScripts/a", second, []int{1, 7}}, {"TestScripts/b", 3 * second, []int{7, 9}}}},
		{Package: "kernel", Tests: []test{{"TestA", 0, []int{7}}, {"TestB", second, []int{6, 8}}, {"TestC", second, []int{7}}, {"TestD", 2 * second, []int{7}}}},
		{Package: "app", Tests: []test{{"TestE", 2 * second, []int{7}}}},
	}
	for n, want := range map[int]string{7: "kernel ^(TestA|TestC)$, kernel ^TestD$, cmd/vizier ^TestScripts$/^a$, app ^TestE$, cmd/vizier ^TestScripts$/^b$", 8: "kernel ^TestB$", 5: ""} {
		var got []string
		for _, x := range rounds(judges, mutant{n: n, dir: "kernel"}) {
			got = append(got, x.judge.Package+" "+x.pattern)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestTheOneThatFailed(t *testing.T) {
	for out, want := range map[string]string{"ok": "", "--- FAIL: TestA (0.1s)\n": "TestA", "--- FAIL: TestA (0s)\n    --- FAIL: TestA/b.c (0s)\n": "TestA/b.c",
		"--- FAIL: TestA (0s)\n    --- FAIL: TestA/b (0s)\n    --- FAIL: TestA/c (0s)\n": "", "panic: x": ""} {
		if got := failures([]byte(out)); got != want {
			t.Errorf("%q: %q", out, got)
		}
	}
}

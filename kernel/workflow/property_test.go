package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// drawTemplate draws a few nodes with edges of all kinds between them, most of
// which make sense together.
func drawTemplate(r *rand.Rand) string {
	n := 2 + r.IntN(7)
	nodes := make([]string, n)
	pick := func() string { return fmt.Sprintf("n%d", r.IntN(n)) }
	for i := range nodes {
		var after, succ, fail, block, needs, prod []string
		for k := range i {
			if r.IntN(4) == 0 {
				after = append(after, fmt.Sprintf("n%d", k))
			}
		}
		if i+1 < n && r.IntN(2) == 0 {
			succ = append(succ, fmt.Sprintf("n%d", i+1+r.IntN(n-i-1)))
		}
		if r.IntN(8) == 0 {
			succ = append(succ, pick())
		}
		if r.IntN(4) == 0 {
			fail = append(fail, pick())
		}
		if r.IntN(6) == 0 {
			block = append(block, pick())
		}
		if r.IntN(4) == 0 {
			needs = append(needs, fmt.Sprintf(`{"custom": {"type_id": "stage_token", "key": "k%d"}}`, r.IntN(3)))
		}
		if r.IntN(4) == 0 {
			prod = append(prod, fmt.Sprintf(`{"custom": {"type_id": "stage_token", "key": "k%d"}}`, r.IntN(3)))
		}
		base := cmdNode(fmt.Sprintf("n%d", i), strings.Join(after, " "), "succeeded: "+strings.Join(succ, " "), "failed: "+strings.Join(fail, " "), "blocked: "+strings.Join(block, " "))
		base = strings.ReplaceAll(base, `[""]`, `[]`)
		nodes[i] = strings.TrimSuffix(base, "}") + fmt.Sprintf(`, "needs": [%s], "produces": {"succeeded": [%s]}}`, strings.Join(needs, ","), strings.Join(prod, ","))
	}
	r.Shuffle(n, func(i, k int) { nodes[i], nodes[k] = nodes[k], nodes[i] })
	return wrap(nodes...)
}

// Every template is refused with findings, or compiles to jobs that the kernel
// accepts, that wait for no sleeping job unless they sleep, and of which at
// least one starts. Compiling twice gives the same.
func TestCompiledTemplatesCanRun(t *testing.T) {
	r := drawtest.Of(t)
	good := 0
	for range 2000 {
		text := drawTemplate(r)
		tmpl, err := build(text, nil)
		if err != nil {
			if _, ok := errors.AsType[workflow.Diagnostics](err); !ok {
				t.Fatalf("%v is no Diagnostics\n%s", err, text)
			}
			continue
		}
		good++
		jobs, m := compileTemplate(t, tmpl)
		again, m2 := compileTemplate(t, tmpl)
		if asJSON(t, jobs, m) != asJSON(t, again, m2) {
			t.Fatalf("compiled twice, not the same\n%s", text)
		}
		starts := false
		for _, j := range jobs {
			starts = starts || len(j.Spec.After) == 0 && !j.Spec.Routed
			for _, p := range j.Spec.After {
				if jobs[strings.TrimPrefix(string(p), "id-")].Spec.Routed && !j.Spec.Routed {
					t.Fatalf("%s waits for the sleeping %s\n%s", j.ID, p, text)
				}
			}
		}
		if !starts {
			t.Fatalf("nothing starts\n%s", text)
		}
	}
	if good < 200 {
		t.Errorf("only %d templates of 2000 were accepted: the generator is too wild to mean anything", good)
	}
}

func asJSON(t *testing.T, v ...any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOrderOfNodesDoesNotMatter(t *testing.T) {
	nodes := slices.Clone(orderCases[10].nodes) // a repair in two steps
	first, _ := compile(t, wrap(nodes...), nil)
	r := rand.New(rand.NewPCG(1, 2))
	for range 24 {
		r.Shuffle(len(nodes), func(i, k int) { nodes[i], nodes[k] = nodes[k], nodes[i] })
		if got, _ := compile(t, wrap(nodes...), nil); asJSON(t, got) != asJSON(t, first) {
			t.Fatalf("order %v:\n%+v\nwas\n%+v", nodes, got, first)
		}
	}
}

func FuzzExpansion(f *testing.F) {
	for _, s := range []string{"", "${slug}", "$${slug}", "${", "${}", "$$${slug}", "${${slug}}", "a${n}b${slug}c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		quoted, _ := json.Marshal(s)
		tmpl, err := build(wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "true", "x": `+string(quoted)+`}}`), nil)
		if err != nil {
			return
		}
		_, m, err := workflow.Compile(tmpl, workflow.CompileOptions{IDs: func(n string) kernel.JobID { return kernel.JobID(n) }, Head: onMain})
		if err != nil {
			t.Fatal(err)
		}
		got := m.Nodes["x"].Args["x"]
		if !strings.Contains(s, "${") && got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func FuzzPaths(f *testing.F) {
	for _, s := range []string{`[]`, `["."]`, `["a\"b", "\u00e9\ud83d\ude00"]`, `[1]`, `["a",]`, `["a"] x`, `["\x"]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want []string
		std := json.Unmarshal([]byte(s), &want)
		got, err := workflow.Paths(s)
		if !utf8.ValidString(s) || strings.Contains(s, "null") {
			return
		}
		if (std == nil) != (err == nil) || std == nil && !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; encoding/json says %q, %v", s, got, err, want, std)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	nodes := make([]string, 1000)
	for i := range nodes {
		nodes[i] = fmt.Sprintf(`{"id": "n%d", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "echo ${slug} %d"},
			"needs": [{"plan_doc": {"slug": "${slug}"}}], "produces": {"succeeded": [{"custom": {"type_id": "stage_token", "key": "${slug}:%d"}}]},
			"after": [%s]}`, i, i, i, map[bool]string{true: fmt.Sprintf(`{"node_id": "n%d"}`, i/2)}[i > 0])
	}
	src := source(b, wrap(nodes...))
	b.ReportAllocs()
	for b.Loop() {
		tmpl, err := workflow.Expand(src, map[string]string{"slug": "foo", "n": "2"})
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := workflow.Compile(tmpl, workflow.CompileOptions{IDs: func(n string) kernel.JobID { return kernel.JobID(n) }, Head: onMain}); err != nil {
			b.Fatal(err)
		}
	}
}

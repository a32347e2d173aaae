package template_test

import (
	"errors"
	iofs "io/fs"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/fs/template"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// FuzzParse checks that any file yields a template or findings, each on a line
// of the file, and that any template can be composed, bound, expanded and
// compiled, or yields findings.
func FuzzParse(f *testing.F) {
	names, err := iofs.Glob(template.Shipped(), "*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := iofs.ReadFile(template.Shipped(), name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), false)
	}
	for _, text := range []string{"a.b.c = {d = [[1], {e = 2}]}\n[[a.x]]\n[a.x.y]\nz = 1", "k = '''\n''''\n", "\"a\\u0041\" = \"\"\"\\\n\"\"\"\"\"", "[a]\r\nb=1\r\n", "{}", "[]"} {
		f.Add(text, false)
	}
	f.Add(`{"id": "t", "version": "v1", "params": {"a": 1}, "nodes": [{"id": "x", "kind": "gate", "uses": "control.terminal", "on": {"failed": ["x"]}}]}`, true)
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		name := "t.toml"
		if isJSON {
			name = "t.json"
		}
		if _, err := compile(name, text); err != nil {
			lines := strings.Count(text, "\n") + 1
			var ds workflow.Diagnostics
			if !errors.As(err, &ds) {
				t.Fatalf("%v is no Diagnostics", err)
			}
			for _, d := range ds {
				if d.Msg == "" || d.Pos.Line < 0 || d.Pos.Line > lines {
					t.Errorf("finding %+v of a file with %d lines", d, lines)
				}
			}
		}
	})
}

func compile(name, text string) ([]kernel.NewJob, error) {
	src, err := template.Parse(name, []byte(text))
	if err != nil {
		return nil, err
	}
	src, err = workflow.Compose(src, func(*workflow.Source, workflow.Import) (*workflow.Source, error) {
		return template.Parse("leaf.toml", []byte(leaf))
	})
	if err != nil {
		return nil, err
	}
	params, err := workflow.Bind("t", src, nil, nil)
	if err != nil {
		return nil, err
	}
	tmpl, err := workflow.Expand(src, params)
	if err != nil {
		return nil, err
	}
	jobs, _, err := workflow.Compile(tmpl, workflow.CompileOptions{IDs: func(n string) kernel.JobID { return kernel.JobID(n) },
		Head: func() (string, error) { return "main", nil }})
	return jobs, err
}

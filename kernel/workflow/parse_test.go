package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// source reads a template written as JSON. Every key is on the line it is on
// in text.
func source(t testing.TB, text string) *workflow.Source {
	t.Helper()
	src, err := decode(text)
	if err != nil {
		t.Fatalf("decode: %v\n%s", err, text)
	}
	return src
}

func decode(text string) (*workflow.Source, error) { return decodeAs("t.json", text) }

func decodeAs(file, text string) (*workflow.Source, error) {
	p := parser{dec: json.NewDecoder(strings.NewReader(text)), text: text, file: file}
	p.dec.UseNumber()
	return workflow.Decode(file, p.value())
}

type parser struct {
	dec        *json.Decoder
	text, file string
}

func (p *parser) pos() workflow.Pos {
	return workflow.Pos{File: p.file, Line: 1 + strings.Count(p.text[:p.dec.InputOffset()], "\n")}
}

func (p *parser) value() workflow.Value {
	tok, err := p.dec.Token()
	if err != nil {
		panic(fmt.Sprintf("test template: %v\n%s", err, p.text))
	}
	v := workflow.Value{Pos: p.pos()}
	switch tok := tok.(type) {
	case string:
		v.Kind, v.Text = workflow.String, tok
	case bool:
		v.Kind, v.Text = workflow.Bool, fmt.Sprint(tok)
	case json.Number:
		v.Kind, v.Text = workflow.Int, tok.String()
		if strings.Contains(v.Text, ".") {
			v.Kind = workflow.Float
		}
	case json.Delim:
		v.Kind = workflow.List
		if tok == '{' {
			v.Kind = workflow.Table
		}
		for p.dec.More() {
			if tok == '[' {
				v.List = append(v.List, p.value())
				continue
			}
			key := p.value()
			val := p.value()
			v.Fields = append(v.Fields, workflow.Field{Key: key.Text, Pos: key.Pos, Value: val})
		}
		p.value1()
	}
	return v
}

func (p *parser) value1() { // the closing delimiter
	if _, err := p.dec.Token(); err != nil {
		panic(err)
	}
}

// wrap returns a whole template around nodes, each a JSON object, with the
// contracts that most of them need.
func wrap(nodes ...string) string {
	return `{"id": "t", "version": "v1", "params": {"slug": "foo", "n": 2}, "artifact_contracts": [
{"id": "prompt_text", "version": "v1"}, {"id": "stage_token", "version": "v1"}, {"id": "commit_message", "version": "v1"}],
"nodes": [
` + strings.Join(nodes, ",\n") + "\n]}"
}

// build returns the whole way from text to a template, or the first findings.
func build(text string, set map[string]string) (*workflow.Template, error) {
	src, err := decode(text)
	if err != nil {
		return nil, err
	}
	if src, err = workflow.Compose(src, noImports); err != nil {
		return nil, err
	}
	params, err := workflow.Bind("t", src, set, nil)
	if err != nil {
		return nil, err
	}
	tmpl, err := workflow.Expand(src, params)
	if err != nil {
		return nil, err
	}
	return tmpl, workflow.Validate(tmpl)
}

func noImports(*workflow.Source, workflow.Import) (*workflow.Source, error) {
	return nil, errors.New("no imports here")
}

var someTime = time.Date(2026, 2, 15, 14, 5, 0, 0, time.UTC)

// compile makes jobs whose ids are ID-NODE.
func compile(t testing.TB, text string, set map[string]string) (map[string]kernel.NewJob, workflow.Manifest) {
	t.Helper()
	tmpl, err := build(text, set)
	if err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	return compileTemplate(t, tmpl)
}

func compileTemplate(t testing.TB, tmpl *workflow.Template) (map[string]kernel.NewJob, workflow.Manifest) {
	t.Helper()
	jobs, m, err := workflow.Compile(tmpl, workflow.CompileOptions{Run: "run_1", Alias: "draft", Selector: "draft", At: someTime, By: "ann",
		IDs: func(node string) kernel.JobID { return kernel.JobID("id-" + node) }, Head: onMain})
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	accepted(t, jobs)
	byNode := map[string]kernel.NewJob{}
	for _, j := range jobs {
		byNode[j.Spec.Origin.Node] = j
	}
	return byNode, m
}

// accepted enqueues jobs in an empty store.
func accepted(t testing.TB, jobs []kernel.NewJob) {
	t.Helper()
	s := kernel.NewSnapshot(kernel.Observation{Now: someTime, Limits: kernel.Limits{Pools: map[string]int{"gpu": 4}}})
	if _, err := kernel.Enqueue(s, jobs); err != nil {
		t.Fatalf("the kernel refuses what was compiled: %v", err)
	}
}

// onMain returns a working tree that stands on main.
func onMain() (string, error) { return "main", nil }

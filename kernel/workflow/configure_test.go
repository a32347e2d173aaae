package workflow_test

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

var known = map[string]workflow.Setting{"gate.script": {Value: "make ci", Set: true}, "gate.retries": {}}

const gated = `{"id": "t", "version": "v1", "params": {"ci": "", "n": "1"}, "config": {"ci": "gate.script", "n": "gate.retries"},
"nodes": [{"id": "g", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "${ci}"}],
"retry": {"mode": "on_failure", "budget": "${n}"}}]}`

// TestConfigure sees the configuration come between a template's default and
// the command line, and all three in the node, the manifest and the hash.
func TestConfigure(t *testing.T) {
	hashes := map[string]string{}
	for _, c := range []struct {
		name     string
		settings map[string]workflow.Setting
		set      map[string]string
		script   string
		budget   int
	}{
		{"template", map[string]workflow.Setting{"gate.script": {}, "gate.retries": {}}, nil, "", 1},
		{"configuration", known, nil, "make ci", 1},
		{"all of it", map[string]workflow.Setting{"gate.script": {Value: "make ci", Set: true}, "gate.retries": {Value: "4", Set: true}}, nil, "make ci", 4},
		{"command line", known, map[string]string{"ci": "true", "n": "0"}, "true", 0},
		{"nothing, on the command line", known, map[string]string{"ci": ""}, "", 1},
	} {
		src := source(t, gated)
		configured, err := workflow.Configure(src, c.settings)
		if err != nil {
			t.Fatal(err)
		}
		params, err := workflow.Bind("t", configured, c.set, nil)
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := workflow.Expand(configured, params)
		if err != nil {
			t.Fatal(err)
		}
		jobs, m := compileTemplate(t, tmpl)
		g := m.Nodes["g"]
		if g.Gates[0].Script != c.script || g.Retry.Budget != c.budget || m.Params["ci"] != c.script || jobs["g"].Spec.Budget.Retries != c.budget {
			t.Errorf("%s: %+v, params %v, budget %+v", c.name, g, m.Params, jobs["g"].Spec.Budget)
		}
		if src.Params[0].Value != "" {
			t.Fatalf("%s: the source itself was changed", c.name)
		}
		hashes[m.PolicyHash] += c.name + " "
	}
	if len(hashes) != 4 { // "template" and an empty one on the command line are the same
		t.Errorf("hashes: %v", hashes)
	}
}

func TestConfigureFindings(t *testing.T) {
	src := source(t, `{"id": "t", "version": "v1", "nodes": [], "params": {"ci": ""}, "config": {"cj": "gate.script", "ci": "gate.scrpt"}}`)
	_, err := workflow.Configure(src, known)
	for _, want := range []string{"[config] names unknown parameter `cj`; did you mean `ci`?",
		"parameter `ci` cannot take its default from the configuration's `gate.scrpt`; did you mean `gate.script`?"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestComposedConfiguration keeps what stages take from the configuration, and
// refuses two that take one parameter from different keys.
func TestComposedConfiguration(t *testing.T) {
	stage := func(key string) string {
		return `{"id": "s", "version": "v1", "params": {"p": ""}, "config": {"p": "` + key + `"}, "nodes": [` + cmdNode("a", "") + `]}`
	}
	f := files{"root": `{"id": "r", "version": "v1", ` + imports + `}`, "one": stage("gate.script"), "two": stage("gate.script")}
	src, err := f.compose(t, "root")
	if err != nil {
		t.Fatal(err)
	}
	if src, err = workflow.Configure(src, known); err != nil || src.Params[0].Value != "make ci" {
		t.Errorf("%+v: %v", src.Params, err)
	}
	f["two"] = stage("gate.retries")
	if _, err = f.compose(t, "root"); err == nil || !strings.Contains(err.Error(), "conflicting configuration of parameter `p` while composing stage `two`") {
		t.Errorf("got %v", err)
	}
}

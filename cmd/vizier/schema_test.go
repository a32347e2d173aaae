package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vizier-scheduler/vizier/kernel"
)

// conforms fails unless text is a document of the schema of that name.
func conforms(t *testing.T, schema, text string) {
	t.Helper()
	compiled, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schemas", schema+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v in %s", schema, err, text)
	}
	if err := compiled.Validate(value); err != nil {
		t.Errorf("%s: %v\n%s", schema, err, text)
	}
}

// TestDocumentsConform checks what the commands print against the schemas that
// programs are promised, in an empty repository and in a busy one.
func TestDocumentsConform(t *testing.T) {
	for _, busy := range []bool{false, true} {
		w := newFake(t)
		a := w.submit("--approval", "--lock", "x", "--name", "a")
		if busy {
			b := w.submit("--after", string(a), "--need", "custom:x:y", "--missing-producer", "wait", "--pool", "p")
			w.ok("jobs", "approve", string(a))
			conforms(t, "why", w.ok("jobs", "why", string(b), "--format", "json"))
			conforms(t, "why", w.ok("jobs", "why", string(a), "--format", "json"))
			w.settle(a, kernel.OutcomeFailed)
			conforms(t, "why", w.ok("jobs", "why", string(b), "--format", "json"))
			_, out, _ := w.run("jobs", "wait", string(a), string(b), "--format", "json")
			conforms(t, "jobs_wait", out)
			w.unreadable["ff"] = "job.json: unexpected end"
		}
		for schema, args := range map[string]string{
			"effects":     "jobs effects --format json " + string(a),
			"why":         "jobs why --format json " + string(a),
			"jobs_list":   "jobs list --format json --all",
			"job_show":    "jobs show --format json " + string(a),
			"job_status":  "jobs status --format json " + string(a),
			"status":      "status --format json",
			"schedule":    "jobs schedule --format json --all",
			"config_show": "config show --format json",
		} {
			conforms(t, schema, w.ok(strings.Fields(args)...))
		}
		code, out, wrong := w.runIn(`{"ref": "x", "command": ["true"]}`+"\n"+`{"after": ["x"], "command": ["true"]}`+"\n", "jobs", "submit", "--batch")
		if code != 0 {
			t.Fatal(wrong)
		}
		first, _, _ := strings.Cut(out, "/")
		conforms(t, "run_show", w.ok("jobs", "status", "--format", "json", first))
		shown := w.ok("jobs", "show", "--format", "json", first)
		conforms(t, "run_show", shown)
		has(t, shown, `"jobs"`, `"why": "`)
		_, foreseen, _ := w.run("what-if", "--format", "json", "--cancel", string(w.submit("--approval")))
		conforms(t, "what_if", foreseen)
		_, foreseen, _ = w.run("what-if", "--format", "json", "--to-the-end")
		conforms(t, "what_if", foreseen)
		conforms(t, "simulate", w.ok("simulate", "--format", "json", "--draws", "2"))
		conforms(t, "jobs_submit", w.ok("jobs", "submit", "--format", "json", "--name", "n", "--idempotency-key", "k", "--", "true"))
		conforms(t, "jobs_submit", w.ok("jobs", "submit", "--format", "json", "--name", "n", "--idempotency-key", "k", "--", "true"))
		conforms(t, "jobs_approve", w.ok("jobs", "approve", "--format", "json", string(w.submit("--approval"))))
		no := w.submit("--approval")
		conforms(t, "jobs_reject", w.ok("jobs", "reject", "--format", "json", string(no)))
		conforms(t, "jobs_retry", w.ok("jobs", "retry", "--dry-run", "--format", "json", string(no)))
		conforms(t, "jobs_retry", w.ok("jobs", "retry", "--format", "json", string(no)))
		conforms(t, "jobs_cancel", w.ok("jobs", "cancel", "--format", "json", string(no)))
		conforms(t, "jobs_gc", w.ok("jobs", "gc", "--dry-run", "--format", "json"))
		_, out, _ = w.run("jobs", "wait", string(a), "--timeout", "1ms", "--format", "json")
		conforms(t, "jobs_wait", out)
		_, _, err := w.run("jobs", "show", "nope", "--format", "json")
		conforms(t, "error", err)
	}
}

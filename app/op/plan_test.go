package op

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

func TestPersistAPlan(t *testing.T) {
	w := newWorld(t)
	dir, prepared := w.prepared(map[string]string{"slug": "foo"})
	n := w.node("plan.persist", map[string]string{"name_override": "foo", "spec_text": "Build a thing.\n\nWith care.", "spec_source": "inline"}).in(dir)
	n.Job.State.Context = *prepared.Context
	n.Job.Spec.Origin.Target = "main"
	text := kernel.Artifact{Kind: kernel.Custom, Name: "plan_text", Ref: "draft_plan:foo"}
	n.Needs = []workflow.ArtifactRecord{workflow.RecordOf(text)}
	n.declares(kernel.Artifact{Kind: kernel.PlanBranch, Name: "foo"})
	w.produce(text, `{"text": "1. Do it.\n"}`)
	r := w.want(n, kernel.OutcomeSucceeded)
	if len(r.Produced) != 2 || !r.produced(kernel.Artifact{Kind: kernel.PlanBranch, Name: "foo"}) || !r.produced(kernel.Artifact{Kind: kernel.PlanDoc, Name: "foo"}) {
		t.Errorf("produced %v", r.Produced)
	}
	states, _ := filepath.Glob(filepath.Join(w.dir, planStates, "*"))
	if len(states) != 1 {
		t.Fatalf("plan states %v", states)
	}
	var s planState
	record := w.read("/", states[0])
	if err := json.Unmarshal([]byte(record), &s); err != nil {
		t.Fatal(err)
	}
	if s.PlanID+".json" != filepath.Base(states[0]) || !strings.HasPrefix(s.PlanID, "pln_") || len(s.PlanID) != 36 || s.Slug != "foo" ||
		s.Branch != "draft/foo" || s.Target != "main" || s.Summary != "Build a thing." || s.Status != "proposed" ||
		s.WorkRef != "workflow-job:"+string(n.Job.ID) || s.Jobs["persist"] != string(n.Job.ID) || s.Created.IsZero() || !s.Updated.Equal(s.Created) {
		t.Errorf("state %+v", s)
	}
	want := "---\nplan_id: " + s.PlanID + "\nplan: foo\nbranch: draft/foo\n---\n\n## Operator Spec\n\nBuild a thing.\n\nWith care.\n\n## Implementation Plan\n\n1. Do it.\n"
	doc := w.read(dir, planFile("foo"))
	if doc != want {
		t.Errorf("document %q, want %q", doc, want)
	}
	n.Job.State.Attempt++
	w.want(n, kernel.OutcomeSucceeded)
	if w.read(dir, planFile("foo")) != doc || w.read("/", states[0]) != record {
		t.Error("executing it again wrote something else")
	}
	w.want(w.node("git.stage_commit", nil).in(dir).declares(kernel.Artifact{Kind: kernel.PlanDoc, Name: "foo"}), kernel.OutcomeSucceeded)
	if got := w.git(dir, "show", "--format=", "--name-only"); got != planFile("foo") {
		t.Errorf("committed %q: the plan's state is no part of the plan", got)
	}
}

func TestPlanNamesAndSpecifications(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, "spec.md", "From a File, with Ünicode and more words than six\n")
	w.write(w.dir, "nul.md", "a\x00b\n")
	for _, c := range []struct {
		args  map[string]string
		slug  string
		fails string
	}{
		{map[string]string{"spec_file": "spec.md"}, "from-a-file-with-nicode-and", ""},
		{map[string]string{"spec_file": filepath.Join(w.dir, "spec.md"), "spec_source": "file", "slug": "A  b_C"}, "a-b-c", ""},
		{map[string]string{"spec_text": "x", "slug": strings.Repeat("ab ", 20)}, "ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab", ""},
		{map[string]string{"spec_text": "x", "slug": ".x"}, "", "cannot start with '.'"},
		{map[string]string{"spec_text": "x", "slug": "a/b"}, "", "cannot contain '/'"},
		{map[string]string{"spec_text": "x", "slug": "é!"}, "", "must include letters or numbers"},
		{map[string]string{"spec_text": "!!!"}, "", "set name_override"},
		{map[string]string{"spec_file": "none.md"}, "", "none.md is not there"},
		{map[string]string{"spec_file": "nul.md"}, "", "nul.md is not UTF-8 text"},
		{map[string]string{}, "", "set spec_text or spec_file"},
		{map[string]string{"spec_text": "x", "slug": "y", "plan_id": "../z"}, "", "plan_id"},
		{map[string]string{"spec_text": "x", "slug": "y", "plan_id": strings.Repeat("z", 61)}, "", "at most 60"},
		{map[string]string{"spec_text": "x", "slug": "at-most", "plan_id": strings.Repeat("z", 60)}, "at-most", ""},
	} {
		n := w.node("plan.persist", c.args)
		if c.fails != "" {
			w.want(n, kernel.OutcomeFailed, c.fails)
			continue
		}
		w.want(n, kernel.OutcomeSucceeded)
		if !w.there(w.dir, planFile(c.slug)) || !w.has("draft/"+c.slug) {
			t.Errorf("%v: no document or branch of %s", c.args, c.slug)
		}
	}
	for i, name := range []string{"plan_body", "plan_text", "content"} {
		slug := "body-" + string(rune('a'+i))
		w.want(w.node("plan.persist", map[string]string{"spec_text": "x", "slug": slug, name: "Do it."}), kernel.OutcomeSucceeded)
		if doc := w.read(w.dir, planFile(slug)); !strings.HasSuffix(doc, "## Implementation Plan\n\nDo it.\n") {
			t.Errorf("%s: %q", name, doc)
		}
	}
	n := w.node("plan.persist", map[string]string{"spec_text": "x", "slug": "As_Declared"})
	w.want(n.declares(kernel.Artifact{Kind: kernel.PlanDoc, Name: "As_Declared"}), kernel.OutcomeSucceeded)
	if !w.there(w.dir, planFile("As_Declared")) {
		t.Error("the document does not have the name that the run's other nodes know")
	}
}

func TestNothingIsWrittenThroughALinkOutOfTheTree(t *testing.T) {
	w := newWorld(t)
	out := t.TempDir()
	if err := os.MkdirAll(filepath.Join(w.dir, ".vizier"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(out, filepath.Join(w.dir, plansDir)); err != nil {
		t.Fatal(err)
	}
	w.want(w.node("plan.persist", map[string]string{"spec_text": "x", "slug": "foo"}), kernel.OutcomeFailed, planFile("foo"))
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("written outside: %v", left)
	}
}

func TestMaterializeAStep(t *testing.T) {
	w := newWorld(t)
	n := w.node("build.materialize_step", map[string]string{"build_id": "b1", "step_key": "s-1", "slug": "foo", "branch": "draft/foo", "target": "release"})
	r := w.want(n, kernel.OutcomeSucceeded)
	file := plansDir + "/builds/b1/steps/s-1/materialized.json"
	first := w.read(w.dir, file)
	if !strings.Contains(first, `"step_key": "s-1"`) || !w.has("draft/foo") || !w.has("release") || !w.there(w.dir, planFile("foo")) {
		t.Errorf("step %s", first)
	}
	for _, a := range []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "foo"}, {Kind: kernel.PlanDoc, Name: "foo"}, {Kind: kernel.TargetBranch, Name: "release"}} {
		if !r.produced(a) {
			t.Errorf("%s is not produced", a)
		}
	}
	w.write(w.dir, planFile("foo"), "a person's plan\n")
	w.want(n, kernel.OutcomeSucceeded)
	if w.read(w.dir, file) != first || w.read(w.dir, planFile("foo")) != "a person's plan\n" {
		t.Error("executing it again wrote something else")
	}
	w.want(w.node("build.materialize_step", nil), kernel.OutcomeSucceeded, "the_node")
	w.want(w.node("build.materialize_step", map[string]string{"build_id": "../x", "step_key": "y"}), kernel.OutcomeFailed, "../x")
	for arg, branch := range map[string]string{"branch": "draft/foo/below", "target": "release/below"} { // which a branch is in the way of
		args := map[string]string{"build_id": "b2", "step_key": "s-1", "slug": "bar", arg: branch}
		w.want(w.node("build.materialize_step", args), kernel.OutcomeFailed, branch)
	}
	if w.there(w.dir, plansDir+"/builds/b2") {
		t.Error("a step without its branches is there")
	}
}

func TestSentinelsByHand(t *testing.T) {
	w := newWorld(t)
	n := w.node("merge.sentinel.write", map[string]string{"slug": "foo", "target": "main"})
	r := w.want(n, kernel.OutcomeSucceeded)
	s, err := readSentinel(w.env, "foo")
	if err != nil || s == nil || s.Slug != "foo" || s.Source != "draft/foo" || s.Target != "main" || s.Job != string(n.Job.ID) ||
		!r.produced(kernel.Artifact{Kind: kernel.MergeSentinel, Name: "foo"}) {
		t.Errorf("%+v, %v", s, err)
	}
	for range 2 {
		w.want(w.node("merge.sentinel.clear", map[string]string{"branch": "draft/foo"}), kernel.OutcomeSucceeded)
		if s, err := readSentinel(w.env, "foo"); s != nil || err != nil {
			t.Errorf("%+v, %v", s, err)
		}
	}
	n = w.node("merge.sentinel.write", nil)
	w.want(n, kernel.OutcomeSucceeded)
	if s, err := readSentinel(w.env, string(n.Job.ID)); s == nil || err != nil {
		t.Errorf("without any name: %v", err)
	}
	w.want(w.node("merge.sentinel.write", map[string]string{"slug": "../x"}), kernel.OutcomeFailed, "one path element")
	w.write(w.dir, ".vizier/tmp/merge-conflicts/foo.json", "{")
	w.branch("draft/foo", map[string]string{"a.txt": ""})
	w.want(w.merge(nil), kernel.OutcomeFailed, "mark of the merge conflict of foo")
}

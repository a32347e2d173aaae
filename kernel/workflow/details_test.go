package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Jobs on record carry the hash of what they are subject to: of the same
// template it never changes, or every run would seem to be of another policy.
func TestPolicyHashesOnRecord(t *testing.T) {
	var keys []string
	for _, f := range everyField {
		if strings.HasPrefix(f.json, `"retry":`) || strings.HasPrefix(f.json, `"effect_in_doubt"`) || strings.HasPrefix(f.json, `"max_retries": %q`) {
			continue // which some of the others rule out
		}
		if k, _, _ := strings.Cut(f.json, ":"); !slices.ContainsFunc(keys, func(in string) bool { return strings.HasPrefix(in, k+":") }) {
			keys = append(keys, fmt.Sprintf(f.json, f.good))
		}
	}
	text := strings.Replace(wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "on": {"failed": ["y"]}, `+strings.Join(keys, ", ")+`}`,
		`{"id": "y", "kind": "agent", "uses": "cap.agent.invoke", "resume": true, "max_retries": 2, "needs": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}`),
		`"params": {"slug": "foo", "n": 2}`, fieldParams, 1)
	for name, c := range map[string]struct{ text, want string }{
		"one node":    {wrap(shell), "714eb179b732b21244e08750f3d8184a0e16923da0b6f76facfecd71e2ec8220"},
		"every field": {text, "8c84ac3f35cb42dddb3515ac9de3358de49ff7b6ad173e11236a9f17b5438b5f"},
		"contracts":   {`{"id": "t", "version": "v2", "artifact_contracts": [{"id": "k", "version": "v1", "schema": {"enum": ["a", 1, true], "type": "object"}}, {"id": "b", "version": "v1"}], "nodes": [` + shell + `]}`, "401a762bb3df723ed8875b72ff209a78cd822b6dd177d535f8c90a49dbbf05f9"},
	} {
		if got := hashOf(t, c.text); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Contracts of stages are the same whatever the order of their keys, and
// different by any value.
func TestContractsOfStagesAgree(t *testing.T) {
	contract := func(schema string) string {
		return stageText("", `{"id": "k", "version": "v1"`+schema+`}`, cmdNode("a", ""))
	}
	for _, c := range []struct {
		one, two string
		agree    bool
	}{
		{"", "", true},
		{`, "schema": {"type": "object", "required": ["key"]}`, `, "schema": {"required": ["key"], "type": "object"}`, true},
		{`, "schema": true`, "", false},
		{"", `, "schema": true`, false},
		{`, "schema": true`, `, "schema": false`, false},
		{`, "schema": {"required": ["key"]}`, `, "schema": {"required": ["kay"]}`, false},
		{`, "schema": {"required": ["key"]}`, `, "schema": {"required": ["key", "key"]}`, false},
		{`, "schema": {"type": "object"}`, `, "schema": {"const": "object"}`, false},
		{`, "schema": {"type": "object"}`, `, "schema": {}`, false},
		{`, "schema": {"type": "object"}`, `, "schema": {"type": "string"}`, false},
		{`, "schema": {"properties": {"key": {"const": "a"}}}`, `, "schema": {"properties": {"key": {"const": "b"}}}`, false},
		{`, "schema": {"properties": {"key": {"const": "a"}}}`, `, "schema": {"properties": {"key": {"const": "a"}}}`, true},
	} {
		f := files{"root": `{"id": "r", "version": "v1", ` + imports + `}`, "one": contract(c.one), "two": contract(c.two)}
		if _, err := f.compose(t, "root"); (err == nil) != c.agree || err != nil && !strings.Contains(err.Error(), "conflicting artifact contract `k`") {
			t.Errorf("%s and %s: %v", c.one, c.two, err)
		}
	}
}

func TestPrefixesOfStages(t *testing.T) {
	for name, want := range map[string]string{"a b!!!!c": "a_b_c__a", "0-9": "0-9__a", "_A__Z_": "A_Z__a", "{x}": "x__a", "a/z": "a_z__a", "[`@": ""} {
		f := files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "` + name + `", "path": "one"}]}`, "one": stageText("", "", cmdNode("a", ""))}
		src, err := f.compose(t, "root")
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		tmpl, err := workflow.Expand(src, nil)
		if err != nil {
			t.Fatal(err)
		}
		if jobs, _ := compileTemplate(t, tmpl); len(jobs) != 1 || jobs[want].ID == "" {
			t.Errorf("%s: %v", name, jobs)
		}
	}
}

func TestTimeoutsOfJobs(t *testing.T) {
	ask := `{"id": "x", "kind": "agent", "uses": "cap.agent.invoke", "needs": [{"custom": {"type_id": "prompt_text", "key": "k"}}]`
	for text, want := range map[string]time.Duration{ask + `}`: 12 * time.Hour, ask + `, "timeout": "90m"}`: 90 * time.Minute,
		strings.Replace(shell, `"sh"`, `"x"`, 1): 0} {
		jobs, _ := compile(t, wrap(text), nil)
		if got := jobs["x"].Spec.Task.Timeout; got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// How often a job runs again, by itself or by a route, and what its manifest says of it.
func TestBudgetsOfNodes(t *testing.T) {
	t.Parallel()
	sh := `{"id": "x", ` + run + `, "args": {"command": "a"}`
	builtin := func(rest string) string { return `{"id": "x", "uses": "cap.env.builtin.git.stage_commit"` + rest + `}` }
	merge := `{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"}, "on": {"blocked": ["x"]}}, `
	conflict := func(args string) string {
		return merge + `{"id": "x", "kind": "gate", "uses": "control.gate.conflict_resolution", "args": {` + args + `}, "on": {"succeeded": ["i"]}}`
	}
	for node, want := range map[string]string{
		sh + `}`:                    "0 0 0 never 0",
		sh + `, "resumable": true}`: "0 3 0 never 0",
		sh + `, "resumable": true, "max_resumes": 1}`:                            "0 1 0 never 0",
		sh + `, "idempotent": true}`:                                             "0 0 2 never 0",
		sh + `, "effect_in_doubt": "rerun"}`:                                     "0 0 2 never 0",
		sh + `, "max_retries": 2}`:                                               "2 0 0 never 0",
		sh + `, "max_retries": 2, "retry": {"mode": "on_failure"}}`:              "2 0 0 on_failure 2",
		sh + `, "retry": {"mode": "on_failure", "budget": 3}}`:                   "3 0 0 on_failure 3",
		sh + `, "max_retries": 3, "retry": {"mode": "on_failure", "budget": 3}}`: "3 0 0 on_failure 3",
		builtin(``): "0 0 2 never 0",
		builtin(`, "gates": [{"kind": "approval", "required": true}, {"kind": "script", "script": "x"}]`): "0 0 0 never 0",
		builtin(`, "gates": [{"kind": "approval", "required": true}]`):                                    "0 0 2 never 0",
		builtin(`, "args": {"auto_resolve_script": "x"}`):                                                 "0 0 0 never 0",
		builtin(`, "args": {"auto_resolve": "true"}`):                                                     "0 0 2 never 0",
		conflict(``):                            "0 0 2 never 0",
		conflict(`"auto_resolve": "true"`):      "0 0 0 never 0",
		conflict(`"auto_resolve_command": "x"`): "0 0 0 never 0",
	} {
		jobs, m := compile(t, wrap(node), nil)
		b, r := jobs["x"].Spec.Budget, m.Nodes["x"].Retry
		if got := fmt.Sprintf("%d %d %d %s %d", b.Retries, b.Resumes, b.Reclaims, r.Mode, r.Budget); got != want {
			t.Errorf("%s: %s, want %s", node, got, want)
		}
	}
}

// The routes of jobs: those of one outcome in the order of their targets' ids. A gate without a budget sends nothing back.
func TestRoutesOfJobs(t *testing.T) {
	t.Parallel()
	for budget, want := range map[string]string{
		"2": "map[c:[succeeded→s failed→a failed→b blocked→y blocked→z] s:[failed→c(2) blocked→y]]",
		"0": "map[c:[succeeded→s failed→a failed→b blocked→y blocked→z] s:[blocked→y]]",
	} {
		jobs, m := compile(t, wrap(cmdNode("z", ""), cmdNode("b", ""), cmdNode("a", ""), cmdNode("y", ""),
			`{"id": "c", "uses": "cap.env.builtin.git.commit", "on": {"succeeded": ["s"], "failed": ["b", "a"], "blocked": ["z", "y"]}}`,
			`{"id": "s", "kind": "gate", "uses": "control.gate.stop_condition", "gates": [{"kind": "script", "script": "x"}], "retry": {"mode": "until_gate", "budget": `+budget+`}, "on": {"failed": ["c"], "blocked": ["y"]}}`), nil)
		got, manifest := map[string][]string{}, map[string][]string{}
		for id, j := range jobs {
			for _, r := range j.Spec.Routes {
				text := r.On.String() + "→" + strings.TrimPrefix(string(r.To), "id-")
				manifest[id] = append(manifest[id], text)
				if r.Budget > 0 {
					text += fmt.Sprintf("(%d)", r.Budget)
				}
				got[id] = append(got[id], text)
			}
			var listed []string
			for _, o := range []string{"succeeded", "failed", "blocked", "cancelled"} {
				for _, r := range m.Nodes[id].Routes[o] {
					listed = append(listed, o+"→"+r.Node)
				}
			}
			if !slices.Equal(listed, manifest[id]) {
				t.Errorf("the job of %s leads to %v, its manifest says %v", id, manifest[id], listed)
			}
		}
		if s := fmt.Sprint(got); s != want {
			t.Errorf("budget %s: %s, want %s", budget, s, want)
		}
	}
}

// What a record says a job is about: the run's parameters or, of a merge that names its plan itself, that plan.
func TestWhatJobsAreAbout(t *testing.T) {
	t.Parallel()
	const merge = `"uses": "cap.env.builtin.git.integrate_plan_branch", "args": {`
	for _, c := range []struct{ params, node, want string }{
		{`"slug": "p"`, merge + `"slug": "own"}`, "p draft/p main false"},
		{`"slug": ""`, merge + `"slug": "own"}`, "own draft/own main false"},
		{`"slug": ""`, merge + `"plan_branch": "work", "slug": "own"}`, "own work main false"},
		{`"slug": "", "branch": "other"`, merge + `"slug": "own"}`, "own other main false"},
		{`"slug": "", "branch": "other"`, merge + `"source_branch": "work"}`, " work main false"},
		{`"plan": "p", "branch": "other", "target": "next"`, merge + `"slug": "own"}`, "p other next false"},
		{`"slug": ""`, run + `, "args": {"command": "x", "slug": "own", "branch": "work"}`, "   false"},
		{`"slug": "p"`, `"uses": "cap.env.builtin.worktree.prepare", "args": {"slug": "p"}`, "p draft/p  true"},
	} {
		jobs, _ := compile(t, `{"id": "t", "version": "v1", "params": {`+c.params+`}, "nodes": [{"id": "x", `+c.node+`}]}`, nil)
		o := jobs["x"].Spec.Origin
		if got := fmt.Sprint(o.Plan, " ", o.Branch, " ", o.Target, " ", jobs["x"].Spec.OwnsContext); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.params, c.node, got, c.want)
		}
	}
}

// A template can be compiled again, for another branch, and one that is wrong is not compiled.
func TestATemplateThatIsCompiledTwice(t *testing.T) {
	t.Parallel()
	tmpl, err := build(merging(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	was := workflow.PolicyHash(tmpl)
	for _, head := range []string{"main", "next"} {
		_, m, err := workflow.Compile(tmpl, workflow.CompileOptions{IDs: func(n string) kernel.JobID { return kernel.JobID(n) }, Head: func() (string, error) { return head, nil }})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Nodes["ci"].Args["target_branch"] + " " + m.Nodes["w"].Args["from"] + " " + m.Nodes["w"].Args["slug"]; got != head+" "+head+" bar" || m.PolicyHash != was || workflow.PolicyHash(tmpl) != was {
			t.Errorf("on %s: %s", head, got)
		}
	}
	tmpl, err = workflow.Expand(source(t, wrap(cmdNode("a", "a"))), map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	jobs, _, err := workflow.Compile(tmpl, workflow.CompileOptions{IDs: func(n string) kernel.JobID { return kernel.JobID(n) }, Head: onMain})
	told(t, each(err), "has a cycle: a -> a")
	if jobs != nil {
		t.Errorf("jobs: %v", jobs)
	}
}

// A precondition of one's own is about the branch among its arguments; secrets of other sources are another policy.
func TestPreconditionsAndSecretsOfJobs(t *testing.T) {
	t.Parallel()
	with := func(rest string) string {
		return wrap(`{"id": "x", ` + run + `, "args": {"command": "x"}, ` + rest + `}`)
	}
	jobs, _ := compile(t, with(`"preconditions": [{"kind": "custom", "id": "quiet", "args": {"branch": "b"}}, {"kind": "branch_exists", "branch": "c"}]`), nil)
	if want := []kernel.Precondition{{Kind: kernel.CustomPrecondition, ID: "quiet", Branch: "b"}, {Kind: kernel.BranchExists, Branch: "c"}}; !slices.Equal(jobs["x"].Spec.Preconditions, want) {
		t.Errorf("got %+v", jobs["x"].Spec.Preconditions)
	}
	if hashOf(t, with(`"secrets": ["A=@/x"]`)) == hashOf(t, with(`"secrets": ["A=@/y"]`)) {
		t.Error("a secret from elsewhere keeps the hash")
	}
}

func TestTemplatesThatAskAgents(t *testing.T) {
	t.Parallel()
	for node, want := range map[string]bool{shell: false, `{"id": "a", "kind": "agent", "uses": "cap.agent.invoke"}`: true,
		`{"id": "g", "kind": "gate", "uses": "control.gate.conflict_resolution", "args": {"auto_resolve": "true"}}`: false} {
		if got := source(t, wrap(node)).AsksAgent(); got != want {
			t.Errorf("%s: %v", node, got)
		}
	}
}

// Numbers are decimal, and a placeholder that opens a text or follows a dollar
// of it is told apart.
func TestTextsThatBeginWithAPlaceholder(t *testing.T) {
	for text, want := range map[string]string{"$${slug}": "${slug}", "${slug}": "foo", "a${slug}": "afoo", "$$${slug}": "$${slug}", "${ slug }": "foo", "${slug}${slug}": "foofoo", "$": "$", "${slug@Q}": "'foo'"} {
		_, m := compile(t, wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a", "note": "`+text+`"}}`), nil)
		if got := m.Nodes["x"].Args["note"]; got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{"${": "unclosed parameter placeholder in nodes[x].name; write $${ for a literal ${", "${ }": "empty parameter placeholder", "${slgu}": "did you mean `slug`?",
		"${zzzzzz}": "declare it in [params], or write $${zzzzzz}", "${gone@Q}": "unresolved parameter `gone`"} {
		_, err := build(wrap(`{"id": "x", "name": "`+text+`", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	jobs, _ := compile(t, wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "max_retries": 21}`), nil)
	if got := jobs["x"].Spec.Budget.Retries; got != 21 {
		t.Errorf("%d retries", got)
	}
}

// A text that cannot be read is found wherever it stands, also where the same
// text stood before.
func TestEveryBadTextIsFound(t *testing.T) {
	node := func(id string) string {
		return `{"id": "` + id + `", "name": "${gone}", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`
	}
	_, err := build(wrap(node("a"), node("b")), nil)
	for _, want := range []string{"nodes[a].name", "nodes[b].name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not found: %v", want, err)
		}
	}
}

// The name of a command patch is a node's only there.
func TestNamesOfNodesInOtherArtifacts(t *testing.T) {
	jobs, _ := compile(t, wrap(`{"id": "s", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "needs": [{"plan_doc": {"slug": "s"}}, {"command_patch": {"job_id": "none"}}]}`), nil)
	var got []string
	for _, a := range jobs["s"].Spec.Needs {
		got = append(got, a.String())
	}
	if s := strings.Join(got, " "); s != "command_patch:none plan_doc:s (draft/s)" {
		t.Error(s)
	}
}

func TestVariablesOfTheLongest(t *testing.T) {
	m := workflow.Manifest{Params: map[string]string{"a": strings.Repeat("x", 96<<10), "b": strings.Repeat("x", 96<<10+1)}}
	if env, left := m.Variables(); len(env) != 1 || !slices.Equal(left, []string{"b"}) {
		t.Errorf("%d, %q", len(env), left)
	}
}

// There are no warnings about unusual but harmless parts of a script, and these
// do not hide others after them.
func TestWarningsOfOddScripts(t *testing.T) {
	for text, want := range map[string]int{"a ${slug": 0, "a }${n} ${slug} b": 2, "a ${gone}": -1, "a $${n} ${slug}": 1, "": 0, "x ${slug": 0} {
		tmpl, err := build(wrap(`{"id": "x", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "`+text+`"}]}`), nil)
		switch {
		case err != nil && (want < 0 || strings.HasSuffix(text, "${slug")):
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case len(tmpl.Warnings()) != want:
			t.Errorf("%s: %v", text, tmpl.Warnings())
		}
	}
}

func TestBindPositional(t *testing.T) {
	src := source(t, `{"id": "t", "version": "v1", "nodes": [], "params": {"a": "1", "b": "2"}, "cli": {"positional": ["a", "b"], "named": {"n": "a"}}}`)
	for _, c := range []struct {
		set        map[string]string
		positional []string
		want       string
	}{
		{nil, nil, "map[a:1 b:2]"},
		{nil, []string{"x", "y"}, "map[a:x b:y]"},
		{map[string]string{"n": "x"}, nil, "map[a:x b:2]"},
		{map[string]string{"b": "x"}, []string{"y"}, "map[a:y b:x]"},
		{map[string]string{"b": "x"}, []string{"y", "z"}, "workflow parameter `b` was provided multiple ways (positional input 2 and named override)"},
		{map[string]string{"a": "x"}, []string{"y", "z"}, "workflow parameter `a` was provided multiple ways (positional input 1 and named override)"},
		{map[string]string{"a": "x", "n": "y"}, nil, "workflow parameter `a` was provided multiple ways (`--n` alias and explicit override)"},
		{nil, []string{"x", "y", "z"}, "workflow `f` accepts at most 2 positional input(s): a, b"},
		{map[string]string{"zzzzzz": "y"}, nil, "workflow `f` has no parameter `zzzzzz`; its parameters are a, b, n"},
	} {
		got, err := workflow.Bind("f", src, c.set, c.positional)
		if text := fmt.Sprint(got); err == nil && text != c.want || err != nil && err.Error() != c.want {
			t.Errorf("%v %v: %s, %v", c.set, c.positional, text, err)
		}
	}
	none := source(t, `{"id": "t", "version": "v1", "nodes": []}`)
	if _, err := workflow.Bind("f", none, map[string]string{"zzzzzz": "y"}, nil); err == nil || err.Error() != "workflow `f` has no parameter `zzzzzz`" {
		t.Errorf("%v", err)
	}
}

func TestHowFarNamesAreApart(t *testing.T) {
	for in, want := range map[string]string{"ab": "", "baranch": "branch", "brnach": "branch", "brnahc": "branch", "barnhc": "branch", "xxanch": "branch", "xxxnch": "", "branches": "branch", "ranch": "branch", "slugs": "slug", "lsug": "slug", "lsgu": "",
		"spec": "", "bcd": "bcde", "branchbranch": ""} {
		if got := workflow.Suggest(in, []string{"slug", "branch", "bcdf", "bcde"}); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestDecodeWantsListsAndTables(t *testing.T) {
	for text, want := range map[string]string{
		`{"id": "t", "version": "v1", "nodes": {}}`:                                                    "a list",
		`{"id": "t", "version": "v1", "nodes": [3]}`:                                                   "a table",
		`{"id": "t", "version": "v1", "nodes": [{"id": 3, "uses": "u", "options": "x"}]}`:              "expected a list, found a string",
		`{"id": "t", "version": "v1", "nodes": [{"id": "a", "uses": "u", "on": {"failed": "x"}}]}`:     "a list",
		`{"id": "t", "version": "v1", "nodes": [{"id": "a", "uses": "u", "needs": {"plan_doc": {}}}]}`: "a list",
		`[]`: "a table",
	} {
		if _, err := decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A job of a plan's locks what its artifacts name.
func TestLocksOfProducts(t *testing.T) {
	jobs, _ := compile(t, wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"}, "needs": [{"plan_doc": {"slug": "a"}}], "produces": {"failed": [{"target_branch": {"name": "b"}}], "succeeded": [{"plan_branch": {"slug": "c"}}]}}`), nil)
	if got := keys(jobs["x"].Spec.Locks); got != "branch:b branch:draft/a branch:draft/c" {
		t.Error(got)
	}
	if l := jobs["x"].Spec.Locks[0]; l != kernel.BranchLock("b") {
		t.Errorf("%+v", l)
	}
}

package template_test

import (
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs/template"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// installed returns a repository with the shipped templates in place.
func installed(t *testing.T) template.Loader {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, ".vizier", "workflows"), template.Shipped()); err != nil {
		t.Fatal(err)
	}
	return template.Loader{Root: root}
}

// run compiles a shipped template with parameters as typed.
func run(t *testing.T, l template.Loader, name string, set map[string]string) (map[string]kernel.Spec, []kernel.NewJob) {
	t.Helper()
	src, err := l.Load(".vizier/workflows/" + name + ".toml")
	if err != nil {
		t.Fatal(err)
	}
	params, err := workflow.Bind(name, src, set, nil)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := workflow.Expand(src, params)
	if err != nil {
		t.Fatal(err)
	}
	if err := workflow.Preflight(name, src, tmpl, nil); err != nil {
		t.Fatal(err)
	}
	jobs, _, err := workflow.Compile(tmpl, workflow.CompileOptions{Run: kernel.RunID("run_" + name), Alias: name,
		IDs:  func(node string) kernel.JobID { return kernel.JobID(name + "." + node) },
		Head: func() (string, error) { return "main", nil }})
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]kernel.Spec{}
	for _, j := range jobs {
		specs[j.Spec.Origin.Node] = j.Spec
	}
	return specs, jobs
}

var inputs = map[string]map[string]string{
	"draft": {"file": "SPEC.md", "name": "foo"}, "approve": {"name": "foo"}, "merge": {"name": "foo", "target": "main"},
	"develop": {"file": "SPEC.md", "name": "foo", "target": "main"}, "commit": nil,
}

// graph lists every node with what it waits for. A ~ marks sleeping nodes.
func graph(specs map[string]kernel.Spec, run string) string {
	var lines []string
	for id, s := range specs {
		line := id
		if s.Routed {
			line += "~"
		}
		for _, p := range s.After {
			line += " <" + strings.TrimPrefix(string(p), run+".")
		}
		for _, r := range s.Routes {
			if r.On != kernel.OutcomeSucceeded || s.Routed {
				line += fmt.Sprintf(" %s>%s", r.On, strings.TrimPrefix(string(r.To), run+"."))
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestShippedWiring(t *testing.T) {
	l := installed(t)
	for name, want := range map[string]string{
		"draft": `invoke_agent <resolve_prompt
persist_plan <invoke_agent
resolve_prompt <worktree_prepare
stage_commit <persist_plan
stop_gate <stage_commit
terminal <worktree_cleanup
worktree_cleanup <stop_gate
worktree_prepare`,
		"approve": `invoke_agent <resolve_prompt
resolve_prompt <worktree_prepare
stage_commit <invoke_agent
stop_gate <stage_commit failed>invoke_agent
terminal <worktree_cleanup
worktree_cleanup <stop_gate
worktree_prepare`,
		"merge": `merge_conflict_resolution~ succeeded>merge_integrate
merge_gate_cicd <merge_integrate
merge_integrate blocked>merge_conflict_resolution
terminal <merge_gate_cicd`,
		"commit": `collect_context
commit_tracked <stage_tracked
drop_notes <commit_tracked
invoke_agent <resolve_prompt
resolve_prompt <collect_context
stage_tracked <invoke_agent
terminal <commit_tracked`,
	} {
		specs, _ := run(t, l, name, inputs[name])
		if got := graph(specs, name); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	specs, _ := run(t, l, "develop", inputs["develop"])
	if len(specs) != 8+7+4 {
		t.Errorf("develop has %d nodes", len(specs))
	}
	for node, after := range map[string]kernel.JobID{"develop_approve__worktree_prepare": "develop.develop_draft__terminal", "develop_merge__merge_integrate": "develop.develop_approve__terminal"} {
		if got := specs[node].After; !slices.Equal(got, []kernel.JobID{after}) {
			t.Errorf("%s comes after %v, want %s", node, got, after)
		}
	}
	if !specs["develop_merge__merge_conflict_resolution"].Routed {
		t.Error("the conflict gate of develop does not sleep")
	}
}

// Seed 003: the needs and products that the stage templates declare, so that
// they chain without --after.
func TestShippedContracts(t *testing.T) {
	l := installed(t)
	plan := []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "foo", Ref: "draft/foo"}, {Kind: kernel.PlanDoc, Name: "foo", Ref: "draft/foo"}}
	token := []kernel.Artifact{{Kind: kernel.Custom, Name: "stage_token", Ref: "approve:foo"}}
	draft, _ := run(t, l, "draft", inputs["draft"])
	approve, _ := run(t, l, "approve", inputs["approve"])
	merge, _ := run(t, l, "merge", inputs["merge"])
	for what, c := range map[string]struct{ got, want []kernel.Artifact }{
		"draft persist_plan produces":    {draft["persist_plan"].Produces, plan},
		"approve worktree_prepare needs": {approve["worktree_prepare"].Needs, plan},
		"approve terminal produces":      {approve["terminal"].Produces, token},
		"merge merge_integrate needs":    {merge["merge_integrate"].Needs, token},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s %v, want %v", what, c.got, c.want)
		}
	}
	for name := range inputs {
		specs, _ := run(t, l, name, inputs[name])
		for node, s := range specs {
			if s.MissingProducer != kernel.Wait {
				t.Errorf("%s %s does not wait for a producer to appear", name, node)
			}
		}
	}
	if b := approve["stop_gate"].Routes; !slices.Contains(b, kernel.Route{On: kernel.OutcomeFailed, To: "approve.invoke_agent", Budget: 3}) {
		t.Errorf("the stop condition's routes: %+v", b)
	}
	if approve["invoke_agent"].Task.Timeout != workflow.DefaultAgentTimeout || approve["stage_commit"].Task.Timeout != 0 {
		t.Error("only the agent has a time limit of its own")
	}
	if approve["invoke_agent"].Budget.Reclaims != 0 || approve["stage_commit"].Budget.Reclaims != 2 {
		t.Error("reclaim budgets of approve are wrong")
	}
}

// Seed 003's first acceptance criterion, as far as one tick shows it: all five
// are accepted, and those that wait for a producer wait and are not blocked.
func TestShippedChainWithoutAfter(t *testing.T) {
	l := installed(t)
	now := time.Date(2026, 2, 15, 12, 0, 0, 0, time.UTC)
	for _, order := range [][]string{{"draft", "approve", "merge"}, {"merge", "approve", "draft"}} {
		s := kernel.NewSnapshot(kernel.Observation{Now: now, Facts: kernel.NewFacts()})
		for _, name := range order {
			_, jobs := run(t, l, name, inputs[name])
			plan, err := kernel.Enqueue(s, jobs)
			if err != nil {
				t.Fatal(err)
			}
			s = s.Apply(plan)
		}
		f := kernel.NewFacts()
		p := s.Probes()
		for _, a := range p.Artifacts {
			f.Present[a] = kernel.Seen(false)
		}
		for _, a := range p.Markers {
			f.Markers[a] = kernel.Seen([]kernel.JobID(nil))
		}
		s = s.WithFacts(f)
		s = s.Apply(kernel.Decide(s))
		for id, want := range map[kernel.JobID]string{
			"draft.worktree_prepare":          "running ",
			"approve.worktree_prepare":        "waiting_on_deps waiting on plan_branch:foo (draft/foo)",
			"merge.merge_integrate":           "waiting_on_deps waiting on custom:stage_token:approve:foo",
			"merge.merge_conflict_resolution": "unscheduled ",
		} {
			st := s.Job(id).State
			if got := st.Status.String() + " " + st.Wait.Detail; got != want {
				t.Errorf("%v: %s is %q, want %q", order, id, got, want)
			}
		}
		for _, j := range s.Jobs() {
			if j.State.Status.Terminal() {
				t.Errorf("%v: %s is %s: %s", order, j.ID, j.State.Status, j.State.Wait.Detail)
			}
		}
	}
}

func TestShippedFilesNeedWhatIsShipped(t *testing.T) {
	templates, err := iofs.Glob(template.Shipped(), "*.toml")
	if err != nil || len(templates) != len(inputs) {
		t.Fatalf("%v, %v", templates, err)
	}
	for _, name := range templates {
		text, err := iofs.ReadFile(template.Shipped(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return r == '"' || r == ' ' || r == '\n' }) {
			if prompt, ok := strings.CutPrefix(word, ".vizier/prompts/"); ok {
				if _, err := iofs.Stat(template.Shipped(), "prompts/"+prompt); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// Seed 003's criterion 1 needs no input that a person would not type: a run
// without input is refused, and the error says what to type.
func TestShippedPreflight(t *testing.T) {
	l := installed(t)
	for _, name := range []string{"draft", "approve", "merge", "develop"} {
		src, err := l.Load(".vizier/workflows/" + name + ".toml")
		if err != nil {
			t.Fatal(err)
		}
		params, err := workflow.Bind(name, src, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := workflow.Expand(src, params)
		if err != nil {
			t.Fatal(err)
		}
		if err := workflow.Preflight(name, src, tmpl, nil); err == nil || !strings.Contains(err.Error(), "`--name` (maps to `slug`)") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// V9: a job that merges into a branch, resolves a conflict with it or judges it
// holds the branch exclusively meanwhile, whether the branch is named or the
// default.
func TestMergesLockWhatTheyMove(t *testing.T) {
	l := installed(t)
	for _, c := range []struct {
		set                   map[string]string
		merge, conflict, cicd string
	}{
		{map[string]string{"name": "foo", "target": "next"}, "[branch:draft/foo branch:next]", "[branch:next]", "[branch:next]"},
		{map[string]string{"name": "foo", "branch": "mine", "target": "next"}, "[branch:mine branch:next]", "[branch:mine branch:next]", "[branch:next]"},
		{map[string]string{"name": "foo", "branch": "mine"}, "[branch:main branch:mine]", "[branch:main branch:mine]", "[branch:main]"},
		{map[string]string{"name": "foo"}, "[branch:draft/foo branch:main]", "[branch:main]", "[branch:main]"},
	} {
		specs, _ := run(t, l, "merge", c.set)
		for node, want := range map[string]string{"merge_integrate": c.merge, "merge_conflict_resolution": c.conflict, "merge_gate_cicd": c.cicd} {
			if got := fmt.Sprint(lockKeys(specs[node])); got != want {
				t.Errorf("%v: %s locks %s, want %s", c.set, node, got, want)
			}
		}
	}
}

// T3: a stage takes only its own locks, whatever the parameters of the stages
// beside it are: the agents of two plans for one target run at the same time.
func TestStagesLockByTheirOwnContext(t *testing.T) {
	l := installed(t)
	for _, branch := range []string{"", "mine"} {
		set := map[string]string{"file": "SPEC.md", "name": "foo", "target": "main", "branch": branch}
		whole, _ := run(t, l, "develop", set)
		for _, stage := range []string{"draft", "approve", "merge"} {
			own := map[string]string{"name": "foo", "branch": branch}
			for key, value := range inputs[stage] {
				own[key] = value
			}
			alone, _ := run(t, l, stage, own)
			for node, spec := range alone {
				if got, want := lockKeys(whole["develop_"+stage+"__"+node]), lockKeys(spec); !slices.Equal(got, want) {
					t.Errorf("branch %q, %s of %s locks %v, on its own %v", branch, node, stage, got, want)
				}
			}
		}
	}
}

func lockKeys(s kernel.Spec) []string {
	var keys []string
	for _, l := range s.Locks {
		keys = append(keys, l.Key)
	}
	return keys
}

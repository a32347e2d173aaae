package enqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// records is a store of these jobs.
type records struct {
	app.Store
	jobs []kernel.Job
}

func (r records) Read(context.Context, kernel.Scope) (kernel.Records, error) {
	return kernel.Records{Jobs: r.jobs}, nil
}

// heads are the branches that there are, and which is checked out.
type heads map[string]kernel.CommitID

func (h heads) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	for _, b := range p.Branches {
		f.Heads[b] = kernel.Seen(h[b])
	}
	if p.Head {
		f.Head = kernel.Seen("main")
	}
}

// builder mints ids n1, n2, … and knows the executor far.
func builder(t object, specs map[string]string, jobs ...kernel.Job) *Builder {
	b, n := requester(), 0
	b.Templates = templates{t: t, specs: specs}
	b.Scheduler = &app.Scheduler{Now: func() time.Time { return time.Unix(5, 0) }, Store: records{jobs: jobs}, Executors: map[string]app.Executor{"far": struct{ app.Executor }{}},
		NewID: func() kernel.JobID { n++; return kernel.JobID(fmt.Sprintf("n%d", n)) }}
	b.Scheduler.Observers = []app.Observer{heads{"main": commit}}
	return b
}

func template(nodes ...any) object { return object{"id": "t", "version": "v1", "nodes": nodes} }

func script(id string, more object) object {
	out := object{"id": id, "kind": "shell", "uses": "cap.env.shell.command.run", "args": object{"command": "x"}}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// A front end tells by the kind of an error what to type instead; a template's own
// fault is none of the input's.
func TestWhoseFaultAFlowIs(t *testing.T) {
	whole := planner(object{"spec_file": "", "slug": "", "branch": "", "intent": ""})
	faulty := planner(object{"spec_file": "x", "slug": "y", "intent": "${"})
	faulty["nodes"] = append(faulty["nodes"].([]any), script("a", object{"timeout": "soon"}))
	specs := map[string]string{"x": "A thing to do", "none": "!!!"}
	for _, c := range []struct {
		name  string
		t     object
		given map[string]string
		kind  InputKind
		want  string
	}{
		{"a parameter", whole, map[string]string{"sulg": "x"}, BadParameter, "has no parameter `sulg`"},
		{"a name", whole, map[string]string{"spec_file": "none"}, NoSlug, "plan name must include letters or numbers"},
		{"nothing", whole, nil, BadInput, "requires at least one non-empty input"},
		{"a file", whole, map[string]string{"spec_file": "gone"}, ofTemplate, "could not read spec file `gone`"},
		{"a file, of a plan with a name", whole, map[string]string{"spec_file": "gone", "slug": "y"}, ofTemplate, "could not read spec file `gone`"},
		{"the template", faulty, nil, ofTemplate, "invalid duration value `soon`"},
	} {
		f, err := builder(c.t, specs).Flow("t", nil, c.given)
		in, input := errors.AsType[*InputError](err)
		if f != nil || err == nil || input != (c.kind != ofTemplate) || input && (in.Kind != c.kind || in.Flow != "t" || in.Source == nil) {
			t.Errorf("%s: %v, %+v", c.name, err, in)
		}
		if !errors.Is(err, kernel.ErrInvalid) || strings.Count(fmt.Sprint(err), c.want) != 1 {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	f, err := builder(whole, specs).Flow("t", nil, map[string]string{"spec_file": "x"})
	if err != nil || f.Slug != "a-thing-to-do" || f.Parsed.Params["slug"] != f.Slug {
		t.Errorf("%+v, %v", f, err)
	}
	specs["long"] = "one two three four five six seven"
	if f, err := builder(whole, specs).Flow("t", nil, map[string]string{"spec_file": "long"}); err != nil || f.Slug != "one-two-three-four-five-six" {
		t.Errorf("%+v, %v", f, err)
	}
	specs["привет"] = "Привет мир"
	if f, err := builder(whole, specs).Flow("t", nil, map[string]string{"spec_file": "привет"}); err != nil || f.Slug != "spec-"+string(kernel.DigestOf("Привет мир"))[:8] {
		t.Errorf("%+v, %v", f, err)
	}
	// A branch gives the name only if it is the plan's own: what was done on another one must not count for it.
	stage := template(script("a", object{"needs": []any{object{"custom": object{"type_id": "stage_token", "key": "approve:${slug}"}}}}))
	stage["params"], stage["artifact_contracts"] = object{"slug": "", "branch": ""}, []any{object{"id": "stage_token", "version": "v1"}}
	for branch, want := range map[string]string{"draft/a": "a", "draft/a/b": "", "a": ""} {
		f, err := builder(stage, specs).Flow("t", nil, map[string]string{"branch": branch})
		in, _ := errors.AsType[*InputError](err)
		if want != "" && (err != nil || f.Parsed.Params["slug"] != want) || want == "" && (in == nil || in.Kind != BadInput) {
			t.Errorf("%s: %+v, %v", branch, f, err)
		}
	}
}

// Runs come one after the other, after what was asked for, and run where the
// configuration says if they run commands or agents.
func TestRunsOfFlows(t *testing.T) {
	b := builder(template(script("a", object{"on": object{"succeeded": []any{"b"}}}), script("b", object{"executor": "local"}),
		object{"id": "c", "kind": "gate", "uses": "control.terminal", "after": []any{object{"node_id": "b"}}}), nil, kernel.Job{ID: "0123456789abcdef0123456789abcdef"})
	b.Defaults.Executor, b.Defaults.Containers = "far", map[string]string{"far": "img"}
	b.Origin.Command = []string{"vizier", "run"}
	f, err := b.Flow("t", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := b.Runs(context.Background(), []*Flow{f, f}, RunOptions{After: []string{"0123456789abcdef0123456789abcdef:any"}, ApprovalTimeout: time.Hour, Ephemeral: true})
	if err != nil || len(runs) != 2 {
		t.Fatal(err)
	}
	first := []kernel.JobID{"0123456789abcdef0123456789abcdef"}
	if !slices.Equal(runs[0].After, first) || !slices.Equal(runs[0].AfterAny, first) || runs[0].ApprovalTimeout != time.Hour {
		t.Errorf("the first run starts after %v, of which any end will do of %v", runs[0].After, runs[0].AfterAny)
	}
	last := runs[0].Jobs
	if !slices.Equal(runs[1].After, []kernel.JobID{last[1].ID, last[2].ID}) || len(runs[1].AfterAny) != 0 {
		t.Errorf("the second starts after %v", runs[1].After)
	}
	for i, want := range []string{"far", "local", ""} {
		if got := last[i].Spec; got.Origin.Manifest != kernel.DigestOf(string(runs[0].Manifest)) || got.Task.Executor != want || (got.Task.Container == "img") != (want == "far") || !got.Origin.Ephemeral || got.Origin.Run != runs[0].Run || !slices.Equal(got.Origin.Command, b.Origin.Command) {
			t.Errorf("%s: on %q in %q, %+v", got.Origin.Node, got.Task.Executor, got.Task.Container, got.Origin)
		}
	}
	linked := *b
	linked.Tree = "/linked"
	g, err := linked.Flow("t", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	inTree, err := linked.Runs(t.Context(), []*Flow{g}, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"/linked", "/linked", ""} { // a gate that only ends the run is at home anywhere
		if from, main := inTree[0].Jobs[i].Spec.Task.Tree, last[i].Spec.Task.Tree; from != want || main != "" {
			t.Errorf("node %d from a linked worktree: in %q, from the main one in %q", i, from, main)
		}
	}
	if m := runs[0].Manifest; !json.Valid(m) || m[len(m)-1] != '\n' {
		t.Errorf("the manifest is no text of JSON:\n%s", m)
	}
	for _, c := range []struct{ after, want string }{{"zz", "unknown --after job id: zz"}, {"run_x", "use `run:run_x` for run dependencies"}} {
		if _, err := b.Runs(context.Background(), []*Flow{f}, RunOptions{After: []string{c.after}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("after %s: %v", c.after, err)
		}
	}
	b.Defaults.Containers["far"] = "-v"
	if _, err := b.Runs(t.Context(), []*Flow{f}, RunOptions{}); err == nil || !strings.HasPrefix(err.Error(), `node a: container "-v": expected the name of an image`) {
		t.Errorf("in no container: %v", err)
	}
	b.Defaults.Executor = "nowhere"
	if _, err := b.Runs(context.Background(), []*Flow{f}, RunOptions{}); err == nil || !strings.Contains(err.Error(), "node a: ") || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("on an executor that there is not: %v", err)
	}
	if _, err := b.Check(t.Context(), []*Flow{f}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("checked for an executor that there is not: %v", err)
	}
	b = builder(template(script("a", object{"after": []any{object{"node_id": "zz"}}})), nil)
	if f, err = b.Flow("t", nil, nil); err == nil {
		_, err = f.Compile(context.Background(), false)
	}
	if err == nil || !strings.Contains(err.Error(), "references unknown after node `zz`") {
		t.Errorf("with a fault: %v", err)
	}
}

// The least sandbox of the configuration is that of every node which runs what a template or an agent says: scripts,
// agents and gates. Vizier's own operations do without.
func TestTheLeastSandboxOfAFlow(t *testing.T) {
	merge := func(gates ...any) object {
		return object{"id": "a", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": object{"slug": "foo", "target_branch": "main"}, "gates": gates}
	}
	for name, c := range map[string]struct {
		node object
		want kernel.SandboxMode
	}{
		"a script":                {script("a", nil), kernel.BestEffortSandbox},
		"a stricter script":       {script("a", object{"sandbox": "required"}), kernel.RequiredSandbox},
		"a gate":                  {object{"id": "a", "kind": "gate", "uses": "control.terminal"}, kernel.BestEffortSandbox},
		"an operation":            {merge(), kernel.NoSandbox},
		"an operation with gates": {merge(object{"kind": "cicd", "script": "x"}), kernel.BestEffortSandbox},
	} {
		b := builder(template(c.node), nil)
		b.Defaults.Sandbox.Mode = kernel.BestEffortSandbox
		f, err := b.Flow("t", nil, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		runs, err := b.Runs(t.Context(), []*Flow{f}, RunOptions{})
		if err != nil {
			t.Fatal(name, err)
		}
		if got := runs[0].Jobs[0].Spec.Task.Sandbox.Mode; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Nothing is queued, nor said to be right, that would merge into a branch which is not there and which no job makes.
func TestAMergeIntoABranchThatIsNotThere(t *testing.T) {
	makes := kernel.Job{ID: "m", Spec: kernel.Spec{Produces: []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "x", Ref: "new"}}}}
	over := makes
	over.State.Status = kernel.Failed
	prepare := object{"id": "b", "uses": "cap.env.builtin.worktree.prepare", "args": object{"branch": "${branch}", "slug": "bar"}}
	for name, c := range map[string]struct {
		target string
		jobs   []kernel.Job
		more   []any // nodes
		want   bool
	}{"it is there": {"main", nil, nil, true}, "it is not": {"gone", nil, nil, false}, "a job makes it": {"new", []kernel.Job{makes}, nil, true}, "a job makes another": {"gone", []kernel.Job{makes}, nil, false}, "a job that is over would have made it": {"new", []kernel.Job{over}, nil, false},
		"a command may make it": {"gone", nil, []any{script("b", nil)}, true}, "its own run makes it": {"new", nil, []any{prepare}, true}, "its own run makes another": {"gone", nil, []any{prepare}, false}} {
		flow := template(append(c.more, object{"id": "a", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": object{"slug": "foo", "target_branch": c.target}})...)
		flow["params"] = object{"branch": "new"}
		b := builder(flow, nil, c.jobs...)
		f, err := b.Flow("t", nil, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		for how, refused := range map[string]func() error{
			"runs":  func() error { _, err := b.Runs(t.Context(), []*Flow{f}, RunOptions{}); return err },
			"check": func() error { _, err := b.Check(t.Context(), []*Flow{f}); return err },
			"prompt": func() error {
				_, err := f.standFor(t.Context(), app.Prompt{ID: "prompt", Record: kernel.Prompt{Rel: "x.prompt.md"}})
				return err
			},
		} {
			if err := refused(); (err == nil) != c.want || err != nil && !errors.Is(err, kernel.ErrInvalid) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
		}
	}
}

// The last of two ways to name one predecessor counts where it asks for more.
func TestAPredecessorNamedTwice(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	for _, refs := range [][]string{{id, id + ":any"}, {id + ":any", id}} {
		spec, _, err := builder(nil, nil, kernel.Job{ID: id}).afters(context.Background(), refs)
		if err != nil || !slices.Equal(spec.After, []kernel.JobID{id}) || len(spec.AfterAny) != 0 {
			t.Errorf("%v: %+v, %v", refs, spec, err)
		}
	}
	spec, _, err := builder(nil, nil, kernel.Job{ID: id}).afters(context.Background(), []string{id + ":any"})
	if err != nil || !slices.Equal(spec.AfterAny, []kernel.JobID{id}) {
		t.Errorf("%+v, %v", spec, err)
	}
}

// The job that stands for a prompt is the last of its run, or one after all that
// are last.
func TestTheJobOfAPrompt(t *testing.T) {
	for name, c := range map[string]struct {
		t     object
		names string
		after int
	}{
		"one that is last": {template(script("a", object{"on": object{"succeeded": []any{"b"}}}), script("b", nil)), "a b", 1},
		"two that are":     {template(script("a", nil), script("prompt-end", nil)), "a prompt-end prompt-end_", 2},
	} {
		b := builder(c.t, nil)
		f, err := b.Flow("t", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := app.Prompt{ID: "prompt", Record: kernel.Prompt{Rel: "x.prompt.md"}}
		run, err := f.standFor(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, j := range run.Jobs {
			names = append(names, j.Spec.Origin.Node)
			if stands := j.ID == "prompt"; stands != (j.Spec.Prompt != nil) || stands && (j.Spec.Prompt.Rel != p.Record.Rel || len(j.Spec.After) != c.after) {
				t.Errorf("%s: %s has prompt %+v, after %v", name, j.ID, j.Spec.Prompt, j.Spec.After)
			}
		}
		if got := strings.Join(names, " "); got != c.names || run.Jobs[len(run.Jobs)-1].ID != "prompt" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// unseen is a repository whose branches cannot be looked at.
type unseen struct{}

func (unseen) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	for _, b := range p.Branches {
		f.Heads[b] = kernel.Unseen[kernel.CommitID]("git is gone")
	}
	f.Head = kernel.Unseen[string]("git is gone")
}

func TestBranchesThatCannotBeLookedAt(t *testing.T) {
	b := builder(nil, nil)
	b.Scheduler.Observers = []app.Observer{unseen{}}
	if at, err := b.Head(t.Context(), "main"); err == nil || err.Error() != "git is gone" {
		t.Errorf("main is at %q, %v", at, err)
	}
	if at, err := b.CheckedOut(t.Context()); err == nil || err.Error() != "git is gone" {
		t.Errorf("on %q, %v", at, err)
	}
}

// A branch is pinned where it is.
func TestPinnedWithoutACommit(t *testing.T) {
	b := builder(nil, nil)
	n, err := b.One(context.Background(), Request{Command: []string{"true"}, Pinned: "main", Pool: []string{"p=1"}})
	if err != nil || n.Spec.Pinned != (kernel.PinnedHead{Branch: "main", Commit: commit}) || n.Spec.Locks[0].Units != 1 {
		t.Errorf("%+v, %v", n.Spec.Pinned, err)
	}
	if _, err = b.One(context.Background(), Request{Command: []string{"true"}, Pinned: "gone"}); err == nil || !strings.Contains(err.Error(), "--pinned gone: no such branch") {
		t.Errorf("%v", err)
	}
}

// A predecessor that may be one of several is an error.
func TestAPredecessorThatMayBeSeveral(t *testing.T) {
	b := builder(nil, nil, kernel.Job{ID: "0123456789abcdef0123456789abcdef"}, kernel.Job{ID: "0123456789abcdef0123456789abcde0"})
	n, err := b.One(t.Context(), Request{Command: []string{"true"}, After: []string{"01234567"}})
	if err == nil || !strings.Contains(err.Error(), `--after: "01234567" is ambiguous`) {
		t.Errorf("it runs after %q, %v", n.Spec.After, err)
	}
}

// Lines of a batch name each other and jobs that there are.
func TestReferencesOfABatch(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	b := builder(nil, nil, kernel.Job{ID: id})
	batch, err := b.Batch(context.Background(), strings.NewReader(`{"command":["true"],"after":["x","`+id+`:any"]}
{"ref":"x","command":["true"]}`))
	news := batch.Jobs
	if err != nil || !slices.Equal(news[0].Spec.After, []kernel.JobID{news[1].ID, id}) || !slices.Equal(news[0].Spec.AfterAny, []kernel.JobID{id}) || news[1].Part != "x" {
		t.Errorf("%+v, %v", news, err)
	}
	late := builder(nil, nil)
	late.Late = true
	if batch, err = late.Batch(context.Background(), strings.NewReader(`{"command":["true"],"after":["`+id+`"]}`)); err != nil || batch.Jobs[0].Spec.After[0] != id {
		t.Errorf("%+v, %v", batch.Jobs, err)
	}
	for text, want := range map[string]string{
		`{"command":["true"],"ref":"a:any"}`:  `line 1: ref "a:any" ends in :any`,
		`{"COMMAND":["true"]}`:                "line 1: unknown key COMMAND (did you mean command?)",
		`{"command":["true"],"Name":"x"}`:     "line 1: unknown key Name (did you mean name?)",
		`{"comand":["true"]}`:                 "line 1: unknown key comand (did you mean command?)",
		`{"command":"true"}`:                  "line 1: command: expected an array of strings, found string",
		`{"retries":"1"}`:                     "line 1: retries: expected int, found string",
		`[]`:                                  "line 1: expected a JSON object, found array",
		`["a"]`:                               "line 1: expected a JSON object, found array",
		`{"max-retries":1,"retries":2}`:       "line 1: unknown key max-retries",
		`{"retry-on":[],"retry_on":[]}`:       "line 1: the key retry_on stands twice: remove one of them",
		`{"zzzzzzzz":1}`:                      "line 1: unknown key zzzzzzzz (the keys are ref, name, ",
		`{"command":["true"]}{}`:              "line 1: expected one JSON object a line, found more after it",
		`{"command":["true"],"after":["gg"]}`: "line 1: unknown --after job id: gg",
	} {
		if _, err := b.Batch(context.Background(), strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// After a run comes what follows its last jobs, whether it is named by its id or
// its number; a job that only a route starts is none of them, and a number that is
// one job's or part of a run's means that job. It is the same for runs, for jobs and for lines of a batch.
func TestAfterARun(t *testing.T) {
	member := func(id kernel.JobID, part string, routed bool) kernel.Job {
		j := kernel.Job{ID: id, Number: 7, Part: part}
		j.Spec.Origin.Run, j.Spec.Routed = "run_x", routed
		return j
	}
	jobs := []kernel.Job{member("a1", "first", false), member("a2", "last", false), member("a3", "rescue", true), {ID: "b1", Number: 8},
		{ID: "c1", Number: 9, Spec: kernel.Spec{Name: "run_odd"}}, {ID: "d1", Number: 10, Part: "only", Spec: kernel.Spec{Origin: kernel.Origin{Run: "run_s"}}}}
	b := builder(nil, nil, jobs...)
	b.Templates = templates{manifests: map[kernel.RunID]string{
		"run_x": `{"nodes":{"first":{"job_id":"a1","routes":{"succeeded":[{"target_node":"last"}]}},"last":{"job_id":"a2"},"rescue":{"job_id":"a3"}}}`,
		"run_z": "{", "run_r": `{"nodes":{"rescue":{"job_id":"a3"}}}`}}
	for _, c := range []struct {
		ref  string
		want []kernel.JobID
		err  string
	}{
		{"run:run_x", []kernel.JobID{"a2"}, ""},
		{"run:7", []kernel.JobID{"a2"}, ""},
		{"7", []kernel.JobID{"a2"}, ""},
		{"7/first", []kernel.JobID{"a1"}, ""},
		{"8", []kernel.JobID{"b1"}, ""},
		{"10", []kernel.JobID{"d1"}, ""},
		{"", nil, "unknown --after job id: <empty>"},
		{"run_odd", []kernel.JobID{"c1"}, ""},
		{"run_s", nil, "invalid --after reference `run_s`; use `run:run_s` for run dependencies"},
		{"run_none", nil, "invalid --after reference `run_none`; use `run:run_none` for run dependencies"},
		{"run:8", nil, "8 is no run"},
		{"run:run_y", nil, "manifest not found"},
		{"run:run_z", nil, "invalid --after run reference `run:run_z`: unexpected end of JSON input"},
		{"run:run_r", nil, "invalid --after run reference `run:run_r`: manifest has no success-terminal sink nodes"},
	} {
		spec, wrong, err := b.afters(context.Background(), []string{c.ref})
		one, err1 := b.One(context.Background(), Request{Command: []string{"true"}, After: []string{c.ref}})
		batch, err2 := b.Batch(context.Background(), strings.NewReader(`{"command":["true"],"after":["`+c.ref+`"]}`))
		for what, got := range map[string]struct {
			after []kernel.JobID
			err   error
		}{"a run": {spec.After, errors.Join(append(wrong, err)...)}, "a job": {one.Spec.After, err1}, "a line": {batch.Jobs[0].Spec.After, err2}} {
			if c.err == "" && !slices.Equal(got.after, c.want) || (got.err == nil) != (c.err == "") || got.err != nil && !strings.Contains(got.err.Error(), c.err) {
				t.Errorf("%s after %s: after %v, %v", what, c.ref, got.after, got.err)
			}
		}
	}
}

// detached is a main working tree with no branch.
type detached struct{}

func (detached) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	if p.Head {
		f.Head.Err = "HEAD is detached"
	}
}

// A prompt's text and branch go where its template has a place for them.
func TestWhatAPromptGivesItsTemplate(t *testing.T) {
	with := func(params object) object {
		flow := template(script("a", nil))
		flow["params"] = params
		return flow
	}
	both := with(object{"spec_text": "", "target": ""})
	for name, c := range map[string]struct {
		t        object
		set      map[string]string
		body     string
		branch   string
		here     bool
		observer app.Observer
		text     string
		target   string
		err      string
	}{
		"text and branch":            {t: both, body: "do it", branch: "side", text: "do it", target: "side"},
		"its own branch":             {t: both, set: map[string]string{"target": "mine"}, body: "do it", branch: "side", text: "do it", target: "mine"},
		"here":                       {t: both, body: "do it", branch: "side", here: true, text: "do it"},
		"text said twice":            {t: both, set: map[string]string{"spec_text": "x"}, body: "do it", branch: "side", err: "keep one"},
		"no text":                    {t: both, branch: "side", err: "has no text"},
		"no place for text":          {t: with(object{"target": ""}), body: "do it", branch: "side", err: "no parameter for the text"},
		"no place for a branch":      {t: with(object{"prompt": ""}), body: "do it", branch: "side", err: "works on the branch that is checked out"},
		"the branch checked out":     {t: with(object{"prompt": ""}), body: "do it", branch: "main", text: "do it"},
		"none is checked out":        {t: with(object{"prompt": ""}), body: "do it", branch: "main", observer: detached{}, err: "HEAD is detached"},
		"an unknown parameter":       {t: both, set: map[string]string{"zz": "x"}, body: "do it", branch: "side", err: "has no parameter `zz`"},
		"none is needed, being here": {t: with(object{"prompt": ""}), body: "do it", branch: "main", here: true, observer: detached{}, text: "do it"},
	} {
		b := builder(c.t, nil)
		if c.observer != nil {
			b.Scheduler.Observers = []app.Observer{c.observer}
		}
		p := app.Prompt{ID: "prompt", Record: kernel.Prompt{Rel: "x.prompt.md", Branch: c.branch}, Body: c.body}
		p.Front.Set = c.set
		run, err := b.Prompt(context.Background(), "t", c.here, p)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var m struct{ Params map[string]string }
		if err == nil {
			err = json.Unmarshal(run.Manifest, &m)
		}
		if text := m.Params["spec_text"] + m.Params["prompt"]; err != nil || text != c.text || m.Params["target"] != c.target {
			t.Errorf("%s: %v, %v", name, m.Params, err)
		}
	}
	own := app.Prompt{ID: "prompt", Body: "do it"}
	if _, err := builder(both, nil).Prompt(t.Context(), "none", true, own); err == nil || !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("of a flow that there is not: %v", err)
	}
	own.Front.Flow = "t"
	if run, err := builder(both, nil).Prompt(t.Context(), "none", true, own); err != nil || len(run.Jobs) != 1 {
		t.Errorf("of its own flow: %+v, %v", run, err)
	}
	if _, err := builder(both, nil).Prompt(context.Background(), "", true, app.Prompt{Body: "do it"}); err == nil || !strings.Contains(err.Error(), "names no flow") {
		t.Errorf("without a flow: %v", err)
	}
}

// unread is a store that cannot be read.
type unread struct{ app.Store }

var errUnread = errors.New("no record can be read")

func (unread) Read(context.Context, kernel.Scope) (kernel.Records, error) {
	return kernel.Records{}, errUnread
}

// Without the records, nothing that is named can be found, and that is said.
func TestWhatIsAskedOfAStoreThatCannotBeRead(t *testing.T) {
	b := builder(template(script("a", nil)), nil)
	b.Scheduler.Store = unread{}
	b.Templates = templates{t: template(script("a", nil)), manifests: map[kernel.RunID]string{"run_x": `{"nodes":{"a":{"job_id":"a1"}}}`}}
	for what, ask := range map[string]func() error{
		"a job": func() error {
			_, err := b.One(t.Context(), Request{Command: []string{"true"}, After: []string{"last"}})
			return err
		},
		"a batch": func() error {
			_, err := b.Batch(t.Context(), strings.NewReader(`{"command":["true"],"after":["7"]}`))
			return err
		},
		"a run":     func() error { _, _, err := b.afters(t.Context(), []string{"7"}); return err },
		"its sinks": func() error { _, err := b.sinks(t.Context(), "run_x"); return err },
		"by number": func() error { _, err := b.sinks(t.Context(), "7"); return err },
		"a merge": func() error {
			merge := builder(template(object{"id": "a", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": object{"slug": "foo", "target_branch": "gone"}}), nil)
			merge.Scheduler.Store = unread{}
			f, err := merge.Flow("t", nil, nil)
			if err == nil {
				_, err = merge.Runs(t.Context(), []*Flow{f}, RunOptions{})
			}
			return err
		},
		"a check": func() error {
			f, err := b.Flow("t", nil, nil)
			if err == nil {
				_, err = b.Check(t.Context(), []*Flow{f})
			}
			return err
		},
	} {
		if err := ask(); !errors.Is(err, errUnread) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A line is told apart by its number also where the text that is wrong is too long, or cannot be read.
func TestALineThatIsTooLong(t *testing.T) {
	_, err := requester().Batch(t.Context(), strings.NewReader(`{"command":["true"]}`+"\n"+strings.Repeat("x", maxLine+1)))
	if want := fmt.Sprintf("line 2: longer than %d MiB, the most that a line may have: hand the job what is so long in a file", maxLine>>20); err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
	if _, err := requester().Batch(t.Context(), failing{}); err == nil || err.Error() != "line 1: no more input" {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no more input") }

// Keys are spelt as flags are, too.
func TestKeysWithDashes(t *testing.T) {
	b, err := builder(nil, nil).Batch(t.Context(), strings.NewReader(`{"command":["true"],"retries":2,"retry-on":["exit"]}`))
	if err != nil {
		t.Fatalf("%+v, %v", b.Jobs, err)
	}
	plain, err := builder(nil, nil).Batch(t.Context(), strings.NewReader(`{"command":["true"],"retries":2,"retry_on":["exit"]}`))
	if err != nil || fmt.Sprint(plain.Jobs[0].Spec) != fmt.Sprint(b.Jobs[0].Spec) {
		t.Errorf("%+v\n%+v, %v", plain.Jobs, b.Jobs, err)
	}
}

// What a chain of nodes takes grows with its length: four times as many allocate about four times as much.
func TestALongChainCompilesInItsLength(t *testing.T) {
	allocated := func(length int) uint64 {
		nodes := make([]any, length)
		for i := range nodes {
			more := object{}
			if i > 0 {
				more["after"] = []any{object{"node_id": fmt.Sprint("n", i-1)}}
			}
			nodes[i] = script(fmt.Sprint("n", i), more)
		}
		f, err := builder(template(nodes...), nil).Flow("t", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := f.Compile(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if short, long := allocated(250), allocated(1000); long > 6*short {
		t.Errorf("250 nodes allocate %d bytes, 1000 of them %d", short, long)
	}
}

// agents are programs of agents, of which those called lost cannot start.
type agents struct{ app.AgentPrograms }

func (agents) Known() []string { return nil }

func (agents) Find(c app.AgentChoice) app.AgentFinding {
	if c.Label == "lost" {
		return app.AgentFinding{Program: "x", Faults: []app.AgentFault{{Problem: "a warning"}, {Problem: "it is lost", Fatal: true}}}
	}
	return app.AgentFinding{Program: "x"}
}

// An agent that cannot start here is no agent of a run, unless another executor runs it. A check says so apart from what is wrong with the template.
func TestAgentsThatCannotStart(t *testing.T) {
	ask := func(executor string) *Flow {
		node := object{"id": "a", "kind": "agent", "uses": "cap.agent.invoke", "executor": executor, "needs": []any{object{"custom": object{"type_id": "prompt_text", "key": "k"}}}}
		flow := template(node, script("b", object{"produces": object{"succeeded": []any{object{"custom": object{"type_id": "prompt_text", "key": "k"}}}}}))
		flow["artifact_contracts"] = []any{object{"id": "prompt_text", "version": "v1"}}
		f, err := builder(flow, nil).Flow("t", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	run := func(id string) *Flow {
		f, err := builder(template(script(id, nil)), nil).Flow("t", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, c := range map[string]struct {
		flows []*Flow
		label string
		none  bool // it is not checked
		want  string
	}{
		"one that is lost":         {[]*Flow{ask("")}, "lost", false, "it is lost"},
		"the second run's":         {[]*Flow{run("a"), ask("")}, "lost", false, "it is lost"},
		"the first run's":          {[]*Flow{ask(""), run("a")}, "lost", false, "it is lost"},
		"one that is there":        {[]*Flow{ask("")}, "there", false, ""},
		"one of another executor":  {[]*Flow{ask("far")}, "lost", false, ""},
		"one that nobody looks at": {[]*Flow{ask("")}, "lost", true, ""},
		"none":                     {[]*Flow{run("a")}, "lost", false, ""},
	} {
		b := builder(nil, nil)
		var asked []string
		b.Defaults.Agent = func(alias string, selectors ...string) app.AgentChoice {
			asked = append(selectors, alias)
			return app.AgentChoice{Label: c.label}
		}
		if b.Agents = (agents{}); c.none {
			b.Agents = nil
		}
		runs, err := b.Runs(t.Context(), c.flows, RunOptions{})
		agent, wrong := b.Check(t.Context(), c.flows)
		if c.want == "" && (err != nil || agent != nil || len(runs) != len(c.flows)) || c.want != "" && (fmt.Sprint(err) != c.want || fmt.Sprint(agent) != c.want) || wrong != nil {
			t.Errorf("%s: %v; checked: %v, %v", name, err, agent, wrong)
		}
		if c.want != "" && !slices.Equal(asked, []string{"t@v1", "t", ""}) {
			t.Errorf("%s: the agent of %q", name, asked)
		}
	}
}

// A stand-in takes the place of input that a flow cannot do without, and of nothing else; a configured value that of a template's default.
func TestValuesThatNobodyTyped(t *testing.T) {
	b := builder(planner(object{"spec_file": "", "slug": "y", "branch": "", "intent": ""}), map[string]string{"any": "x", "f": "y"})
	b.StandIn = true
	f, err := b.Flow("t", nil, nil)
	if err != nil || len(f.StandIns) != 1 || f.StandIns["spec_file"] != "any" || f.Parsed == nil || f.Parsed.Params["spec_file"] != "any" || f.Parsed.Params["intent"] != "" {
		t.Errorf("without input: %+v, %v", f, err)
	}
	if f, err = b.Flow("t", nil, map[string]string{"spec_file": "f"}); err != nil || len(f.StandIns) != 0 || f.Parsed.Params["spec_file"] != "f" {
		t.Errorf("with input: %+v, %v", f, err)
	}
	b = builder(template(script("a", object{"timeout": "soon"})), nil)
	b.StandIn = true
	if f, err = b.Flow("t", nil, nil); f != nil || err == nil || strings.Count(err.Error(), "invalid duration value `soon`") != 1 {
		t.Errorf("of a template with a fault: %+v, %v", f, err)
	}
	flow := template(script("a", nil))
	flow["params"], flow["config"] = object{"ci": "own", "n": "1"}, object{"ci": "gate.script", "n": "gate.retries"}
	b = builder(flow, nil)
	b.Defaults.Settings = map[string]workflow.Setting{"gate.script": {Value: "make", Set: true}, "gate.retries": {}}
	if f, err = b.Flow("t", nil, nil); err != nil || f.Parsed.Params["ci"] != "make" || f.Parsed.Params["n"] != "1" {
		t.Errorf("of the configuration: %+v, %v", f, err)
	}
	if f, err = b.Flow("t", nil, map[string]string{"ci": "typed"}); err != nil || f.Parsed.Params["ci"] != "typed" {
		t.Errorf("typed: %+v, %v", f, err)
	}
}

// losing is a working tree whose branch can be looked at so many times.
type losing struct {
	Trees
	times *int
}

func (l losing) HeadBranch(context.Context, string) (string, error) {
	if *l.times--; *l.times < 0 {
		return "", errors.New("git is gone")
	}
	return "main", nil
}

// A prompt whose run cannot be made is no run, however late that is found out.
func TestAPromptWhoseRunCannotBeMade(t *testing.T) {
	for times, want := range []string{"git is gone", "git is gone", ""} {
		b := builder(template(script("a", object{"locks": []any{object{"key": "branch:HEAD", "mode": "exclusive"}}})), nil)
		b.Trees = losing{times: &times}
		run, err := b.Prompt(t.Context(), "t", true, app.Prompt{ID: "prompt"})
		if got := fmt.Sprint(err); want != "" && (got != want || len(run.Jobs) > 0) || want == "" && (err != nil || run.Jobs[0].Spec.Locks[0].Key != "branch:main") {
			t.Errorf("%+v, %v", run, err)
		}
	}
}

// The next run starts after the last jobs of the one before, without those that only a route starts; and what cannot be queued is not right.
func TestTheLastJobsOfARun(t *testing.T) {
	b := builder(template(script("a", object{"on": object{"succeeded": []any{"b"}, "failed": []any{"rescue"}}}), script("b", nil), script("rescue", nil)), nil)
	f, err := b.Flow("t", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := b.Runs(t.Context(), []*Flow{f, f}, RunOptions{})
	if err != nil || !slices.Equal(runs[1].After, []kernel.JobID{runs[0].Jobs[1].ID}) {
		t.Errorf("the second of %+v, %v", runs, err)
	}
	if _, err := b.Check(t.Context(), []*Flow{f, f}); err != nil {
		t.Error(err)
	}
	b.Scheduler.NewID = func() kernel.JobID { return "same" }
	if agent, err := b.Check(t.Context(), []*Flow{f}); err == nil || agent != nil {
		t.Errorf("of one id for all: %v, %v", agent, err)
	}
}

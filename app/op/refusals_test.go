package op

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// What a node lacks, or has wrong in its record, is its reason.
func TestWhatANodeLacksIsSaid(t *testing.T) {
	bad := []workflow.ArtifactRecord{{}}
	text := workflow.RecordOf(kernel.Artifact{Kind: kernel.Custom, Name: "commit_message", Ref: "k"})
	long := strings.Repeat("x", maxText+1)
	const damaged = "artifact record with 0 kinds"
	for name, c := range map[string]struct {
		operation string
		with      func(*desk, *Node)
		class     kernel.FailureClass
		says      string
	}{
		"unknown":          {"nothing.like_it", nil, kernel.DataError, "no operation for cap.it"},
		"no script":        {"command.run", nil, kernel.MissingInput, "command.run: no script: set command or script"},
		"no prompt":        {"agent.invoke", nil, kernel.LaunchFailure, "agent.invoke: expected one need custom:prompt_text:*, found 0"},
		"needs":            {"agent.invoke", func(_ *desk, n *Node) { n.Needs = bad }, kernel.DataError, damaged},
		"products":         {"prompt.resolve", func(_ *desk, n *Node) { n.Artifacts["succeeded"] = bad }, kernel.DataError, damaged},
		"two products":     {"prompt.resolve", func(_ *desk, n *Node) { n.Artifacts["succeeded"] = append(n.Artifacts["succeeded"], text) }, kernel.LaunchFailure, "expected one artifact prompt_text among what it produces, found 2"},
		"long prompt":      {"prompt.resolve", func(_ *desk, n *Node) { n.Args["prompt_text"] = long }, kernel.LaunchFailure, "the prompt is longer than 8388608 bytes"},
		"long output":      {"prompt.resolve", func(d *desk, n *Node) { n.Args["script"], d.answer = "x", long }, kernel.LaunchFailure, "the prompt's script printed more than 8388608 bytes"},
		"result":           {"patch.pipeline_prepare", func(_ *desk, n *Node) { n.Artifacts["succeeded"] = bad }, kernel.DataError, damaged},
		"no list":          {"patch.pipeline_prepare", func(_ *desk, n *Node) { n.Args["files_json"] = "{" }, kernel.LaunchFailure, "argument files_json: "},
		"needs of patches": {"patch.pipeline_prepare", func(_ *desk, n *Node) { n.Needs, n.Args["files_json"] = bad, `["a"]` }, kernel.LaunchFailure, damaged},
		"a file as root":   {"patch.pipeline_prepare", func(_ *desk, n *Node) { n.Root = filepath.Join(n.Root, "none") }, kernel.LaunchFailure, "write .vizier/jobs/me/patch-pipeline.json: "},
		"slug of a step": {"build.materialize_step", func(_ *desk, n *Node) {
			n.Args["step_key"], n.Args["build_id"], n.Args["slug"], n.Args["branch"] = "s", "b", "No Slug", "b"
		}, kernel.LaunchFailure, `slug "No Slug": expected lower-case letters, digits and hyphens, at most 32`},
		"a step without a place": {"build.materialize_step", func(_ *desk, n *Node) {
			n.Args["step_key"], n.Args["build_id"], n.Dir = "s", "b", filepath.Join(n.Dir, "none")
		},
			kernel.LaunchFailure, "write .vizier/implementation-plans/builds/b/steps/s/materialized.json: "},
	} {
		d, env, n := deskNode(t, c.operation, "")
		n.Uses = "cap.it"
		if c.with != nil {
			c.with(d, n)
		}
		d.payloads = map[string][]byte{}
		r := Run(t.Context(), env, n)
		if r.Outcome != kernel.OutcomeFailed || r.Exit != 1 || r.Class != c.class || !strings.Contains(r.Reason, c.says) || len(d.payloads) > 0 {
			t.Errorf("%s: %v, exit code %d, %v (%s); want %v (%s)", name, r.Outcome, r.Exit, r.Class, r.Reason, c.class, c.says)
		}
	}
}

func TestPatchesThatAJobPrepared(t *testing.T) {
	_, env, n := deskNode(t, "patch.execute_pipeline", "")
	n.Job.Spec.After = []kernel.JobID{"none", "one"}
	prepared := jobFile("one", pipelineName)
	put(t, n.Root, prepared, `{"files": ["a", "b"]}`)
	if files, err := n.prepared(); err != nil || strings.Join(files, " ") != "a b" {
		t.Errorf("prepared %v, %v", files, err)
	}
	put(t, n.Root, prepared, `{`)
	if _, err := n.prepared(); err == nil || !strings.HasPrefix(err.Error(), "patches that job one prepared: ") {
		t.Errorf("damaged: %v", err)
	}
	if r, err := patchExecute(t.Context(), env, n); err == nil {
		t.Errorf("damaged: %+v", r)
	}
	n.Job.Spec.After = nil
	if err := os.MkdirAll(filepath.Join(n.Root, jobFile(n.Job.ID, progressName)), 0o755); err != nil {
		t.Fatal(err)
	}
	if r, err := patchExecute(t.Context(), env, n); err == nil {
		t.Errorf("a directory in the place of its progress: %+v", r)
	}
}

// A step of no build is one of its run, or else of its job.
func TestAStepOfNoBuild(t *testing.T) {
	for run, want := range map[kernel.RunID]string{"run_1": "run_1", "": "me"} {
		_, env, n := deskNode(t, "build.materialize_step", "")
		n.Job.Spec.Origin.Run = run
		file := ".vizier/implementation-plans/builds/" + want + "/steps/a__b__me/materialized.json"
		if r, err := buildMaterializeStep(t.Context(), env, n); err != nil || r.Reason != "step in "+file || !present(n.Dir, file) {
			t.Errorf("run %q: %+v, %v; want %s", run, r, err, file)
		}
	}
}

// The output of a node is a payload of its own: how it ended, its logs, and what it produced.
func TestTheOutputOfANode(t *testing.T) {
	d, env, n := deskNode(t, "terminal", "")
	n.Operation, n.Control = "", "terminal"
	began := env.Now().Add(-1500e6)
	n.Job.State.Started = began
	out := kernel.Artifact{Kind: kernel.Custom, Name: workflow.OperationOutput, Ref: "me"}
	text := kernel.Artifact{Kind: kernel.Custom, Name: "prompt_text", Ref: "main"}
	lost := kernel.Artifact{Kind: kernel.Custom, Name: "prompt_text", Ref: "lost"}
	branch := kernel.Artifact{Kind: kernel.TargetBranch, Name: "main"}
	n.Artifacts["succeeded"] = nil
	for _, a := range []kernel.Artifact{text, out, lost, branch} {
		n.declares(a)
	}
	d.payloads["me "+text.String()] = []byte("{}")
	d.payloads["me "+out.String()] = []byte("of an earlier attempt")
	if err := writeOutput(env, n, out, Result{Outcome: kernel.OutcomeSucceeded, Reason: "done", Context: &kernel.Context{Root: "r", Worktree: "t", Name: "n", Branch: "b"}}); err != nil {
		t.Fatal(err)
	}
	var got operationOutput
	if err := json.Unmarshal(d.payloads["me "+out.String()], &got); err != nil {
		t.Fatal(err)
	}
	want := operationOutput{Schema: outputSchema, Job: "me", Node: "a__b__me", Control: "terminal", Outcome: "succeeded", Stdout: "of stdout\nand more", Stderr: []string{"of stderr", "and more"},
		StartedAt: began.UTC(), FinishedAt: env.Now().UTC(), DurationMS: 1500, Result: outputResult{Summary: "done",
			Written: []string{text.String(), out.String(), lost.String(), branch.String()}, Payloads: []string{text.String()},
			Metadata: map[string]string{"execution_root": "r", "worktree_path": "t", "worktree_name": "n", "worktree_branch": "b"}}}
	if a, b := must(json.Marshal(got)), must(json.Marshal(want)); string(a) != string(b) {
		t.Errorf("%s\nwant\n%s", a, b)
	}
	if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeSucceeded || len(r.Produced) != 4 {
		t.Errorf("it ends %v (%s) with %v", r.Outcome, r.Reason, r.Produced)
	}
	for _, stream := range []string{"stdout", "stderr"} {
		env.Files = noLog{d, stream}
		if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeFailed || r.Reason != "terminal: read the log: no "+stream {
			t.Errorf("without its %s: %v (%s)", stream, r.Outcome, r.Reason)
		}
	}
	env.Files, n.Artifacts["succeeded"] = d, []workflow.ArtifactRecord{workflow.RecordOf(out), {}}
	if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeFailed || !strings.Contains(r.Reason, "artifact record with 0 kinds") {
		t.Errorf("with a damaged record: %v (%s)", r.Outcome, r.Reason)
	}
	if err := writePayload(env, n, out, func() {}); err == nil || !strings.HasPrefix(err.Error(), "payload of "+out.String()+": ") {
		t.Errorf("of what is no document: %v", err)
	}
}

// noLog is a desk without one of the logs.
type noLog struct {
	*desk
	stream string
}

func (l noLog) LogTail(job kernel.JobID, stream string, most int64) ([]byte, error) {
	if stream == l.stream {
		return nil, errors.New("no " + stream)
	}
	return l.desk.LogTail(job, stream, most)
}

// A script that fails has said why in its last line, of the log that has grown.
func TestTheLastLineOfAScript(t *testing.T) {
	for name, c := range map[string]struct {
		exit    int
		printed []Printed
		secret  bool
		says    string
	}{
		"fails":       {3, []Printed{{"stdout", "first"}, {"stdout", "last"}, {"stderr", "not its own"}, {"stdout", ""}}, false, "the script failed (exit 3); the script's last line was: last"},
		"says little": {3, []Printed{{"stderr", "not its own"}}, false, "the script failed (exit 3)"},
		"has secrets": {3, []Printed{{"stdout", "last"}}, true, "the script failed (exit 3)"}, // what it printed may not be in the logs yet
		"ends well":   {0, []Printed{{"stdout", "last"}}, false, ""},
	} {
		d, env, n := deskNode(t, "command.run", "")
		n.Args["script"], n.Artifacts = "x", nil
		if c.secret {
			n.Job.Spec.Task.Secrets = []kernel.Secret{{}}
		}
		g := &growing{desk: d, exit: c.exit}
		env.Files, env.Shell = g, g
		env.Printed = func(context.Context, kernel.JobID) []Printed { return c.printed }
		if r := Run(t.Context(), env, n); !strings.HasSuffix(r.Reason, c.says) || (c.says == "") != (r.Reason == "") || strings.Contains(r.Reason, "not its own") {
			t.Errorf("%s: %s", name, r.Reason)
		}
	}
}

// growing is a desk whose scripts print to their standard output.
type growing struct {
	*desk
	exit, ran int
}

func (g *growing) Run(context.Context, string, string, []string) (int, error) {
	g.ran++
	return g.exit, nil
}

func (g *growing) LogTail(_ kernel.JobID, stream string, _ int64) ([]byte, error) {
	if stream == "stdout" {
		return []byte(strings.Repeat("line\n", g.ran)), nil
	}
	return nil, nil
}

func TestTheTextOfAPayload(t *testing.T) {
	for data, want := range map[string]string{
		`{"text": "a", "stdout_text": "b"}`:            "a",
		`{"assistant_text": "c"}`:                      "c",
		`{"payload": {"text": "d"}}`:                   "d",
		`{"payload": {"stdout_text": "not that one"}}`: "it holds no text",
		`{`: "unexpected end of JSON input",
	} {
		text, err := TextOf([]byte(data))
		if got := text; err != nil && err.Error() != want || err == nil && got != want {
			t.Errorf("%s: %q, %v; want %s", data, text, err, want)
		}
	}
	d, env, n := deskNode(t, "git.commit", "")
	a := kernel.Artifact{Kind: kernel.Custom, Name: "commit_message", Ref: "k"}
	n.Args["message"], d.producers = "read_payload(commit_message)", []kernel.JobID{"p"}
	d.payloads["p "+a.String()] = []byte(`{"text": " \n"}`)
	n.Needs = []workflow.ArtifactRecord{workflow.RecordOf(a)}
	if text, err := commitMessage(env, n); text != "" || err == nil || !strings.HasSuffix(err.Error(), ": the payload is empty") {
		t.Errorf("an empty message: %q, %v", text, err)
	}
	n.Needs = append(n.Needs, workflow.ArtifactRecord{})
	if text, err := commitMessage(env, n); err == nil || !strings.Contains(err.Error(), "artifact record with 0 kinds") {
		t.Errorf("a damaged need: %q, %v", text, err)
	}
}

func TestALongMessageIsShortened(t *testing.T) {
	if text := strings.Repeat("é", 300); shorten(text) != text {
		t.Error("600 bytes are cut")
	}
	if got := shorten(strings.Repeat("a", 300) + strings.Repeat("b", 301)); got != strings.Repeat("a", 200)+" … "+strings.Repeat("a", 99)+strings.Repeat("b", 301) {
		t.Error(got)
	}
}

// Where a worktree was moved, what a person is told is true there.
func TestConflictWhoseWorktreeWasMoved(t *testing.T) {
	for from, want := range map[string]string{
		"/a/b-c_d.e+1/é": "git worktree move /a/b-c_d.e+1/é place",
		"/my dir/it's":   `git worktree move '/my dir/it'\''s' place`,
	} {
		if got := kernel.MoveWorktree(from, "place"); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	is := "draft/foo is in conflict: " + toResolve(t.Context(), &Env{Git: plain{}}, ".vizier/tmp-worktrees/merge-foo", []string{"f"}, "gate")
	want := strings.Replace(is, "resolve f", "its worktree .vizier/tmp-worktrees/merge-foo was moved to /else where: `git worktree move '/else where' .vizier/tmp-worktrees/merge-foo`, then resolve f", 1)
	if got := Resolvable(is, func(string) string { return "/else where" }); got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if got := Resolvable("it is done", func(string) string { return "" }); got != "it is done" {
		t.Errorf("without a worktree: %s", got)
	}
	for mark, want := range map[string]string{
		`{"slug": "foo", "job_id": "j", "worktree": "w"}`: "merge-foo-j",
		`{"slug": "foo", "job_id": "j"}`:                  "",
		`{`:                                               "",
	} {
		if got := MarkedTree([]byte(mark)); got != want {
			t.Errorf("%s: %q, want %q", mark, got, want)
		}
	}
}

// plain is git of which nothing is asked but how a tree is checked out: plainly.
type plain struct{ Git }

func (plain) Sparse(context.Context, string) (bool, error) { return false, nil }

func TestFilesOfADirectoryThatIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := readIn(dir, "f"); err == nil || !strings.HasPrefix(err.Error(), "read f: ") {
		t.Errorf("read: %v", err)
	}
	if present(dir, "f") {
		t.Error("present")
	}
	if err := writeJSON(t.Context(), t.TempDir(), "f", func() {}, 0o600); err == nil || !strings.HasPrefix(err.Error(), "write f: ") {
		t.Errorf("what is no document: %v", err)
	}
	if err := writeIn(t.Context(), t.TempDir(), ".", nil, 0o600); err == nil {
		t.Error("a directory is written")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := UntilRoom(ctx, func() error { return syscall.ENOSPC }); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk, and it is told to end: %v", err)
	}
}

// unmoving is git that moves no branch, and with a worktree that can be removed but for a part.
type unmoving struct {
	Git
	gone kernel.Cleanup
}

func (unmoving) Advance(context.Context, string, kernel.CommitID, kernel.CommitID) (string, bool, error) {
	return "", false, nil
}

func (g unmoving) RemoveWorktree(context.Context, kernel.Context) kernel.Cleanup { return g.gone }

func TestABranchThatAlwaysMoves(t *testing.T) {
	w := planned(t)
	n := w.merge(nil)
	w.env.Git = unmoving{Git: w.env.Git}
	before := w.rev("main")
	w.want(n, kernel.OutcomeFailed, "branch main moved 8 times while it was being merged into: `vizier retry "+string(n.Job.ID)+"`")
	w.env.Shell = &checks{}
	gate := w.judge("grep right readme.txt", map[string]string{"auto_resolve": "true", "auto_resolve_script": "echo right >readme.txt"})
	w.want(gate, kernel.OutcomeFailed, "branch main moved while the CI gate repaired it: `vizier retry "+string(gate.Job.ID)+"`")
	if w.rev("main") != before {
		t.Error("main has moved")
	}
	clean := w.node("worktree.cleanup", nil)
	clean.Job.State.Context = kernel.Context{Worktree: "w"}
	w.env.Git = unmoving{plain{}, kernel.Cleanup{Status: kernel.CleanupDegraded, Error: "a file is busy"}}
	if r, err := worktreeCleanup(t.Context(), w.env, clean); err != nil || r.Outcome != kernel.OutcomeSucceeded || r.Reason != "degraded: a file is busy" || r.Context != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestWhatAMergeLacks(t *testing.T) {
	w := newWorld(t)
	w.want(w.node("git.integrate_plan_branch", map[string]string{"target": "main"}), kernel.OutcomeFailed, "no source branch: set branch or slug")
	w.want(w.node("git.integrate_plan_branch", map[string]string{"slug": "foo", "delete_branch": "perhaps"}), kernel.OutcomeFailed, `argument delete_branch = "perhaps": expected true or false`)
	n := w.node("worktree.prepare", map[string]string{"slug": "foo"})
	n.Job.Spec.Locks = []kernel.Lock{kernel.BranchLock("draft/foo")}
	w.want(n, kernel.OutcomeSucceeded) // it drops the stale locks of its branch first
	w.want(w.node("plan.persist", map[string]string{"name_override": "foo", "spec_file": ".gitignore/none"}), kernel.OutcomeFailed, "none: not a directory")
	w.write(w.dir, "empty.md", " \n")
	w.want(w.node("plan.persist", map[string]string{"name_override": "foo", "spec_file": "empty.md"}), kernel.OutcomeFailed, "empty.md is empty")
	plan := w.node("plan.persist", map[string]string{"name_override": "foo", "spec_text": "a", "plan_id": "p"})
	w.write(w.dir, planStates+"/p.json", "{")
	w.want(plan, kernel.OutcomeFailed, "plan state "+planStates+"/p.json: ", "move the file away")
	plan = w.node("plan.persist", map[string]string{"name_override": "foo", "spec_text": "a", "plan_id": "q"})
	w.write(w.dir, planStates+"/q.json/f", "")
	w.want(plan, kernel.OutcomeFailed, "q.json")
	plan.Needs = []workflow.ArtifactRecord{{}}
	w.want(plan, kernel.OutcomeFailed, "artifact record with 0 kinds")
}

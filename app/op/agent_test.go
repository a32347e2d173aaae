package op

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// chorus is agents that answer one after another, and what they were asked.
type chorus struct {
	answers []kernel.AgentAnswer
	asked   []kernel.AgentRequest
	then    func() // before an answer
}

func (c *chorus) Run(_ context.Context, q kernel.AgentRequest) (kernel.AgentAnswer, error) {
	c.asked = append(c.asked, q)
	if c.then != nil {
		c.then()
	}
	a := c.answers[0]
	q.Began(kernel.AgentRun{Agent: a.Run.Agent, Session: a.Run.Session})
	c.answers = c.answers[1:]
	return a, nil
}

// invoking returns a node that asks an agent, whose prompt is there.
func invoking(t *testing.T) (*desk, *Env, *Node, *chorus) {
	d, env, n := deskNode(t, "agent.invoke", "")
	n.Job.State.Status, n.Job.State.Attempt = kernel.Running, 1
	need := kernel.Artifact{Kind: kernel.Custom, Name: "prompt_text", Ref: "main"}
	n.Needs, n.Artifacts = []workflow.ArtifactRecord{workflow.RecordOf(need)}, nil
	d.producers = []kernel.JobID{"writer"}
	d.payloads["writer custom:prompt_text:main"] = []byte(`{"text": "do it"}`)
	c := &chorus{}
	env.Agents = c
	return d, env, n, c
}

func TestAnAttemptTellsWhatItsAgentToldHoweverItEnds(t *testing.T) {
	told := kernel.AgentRun{Agent: "claude", Session: "s", Turns: 3, Usage: kernel.Usage{Input: 7}}
	ctx, stop := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		answer kernel.AgentAnswer
		ctx    context.Context
		then   func()
		want   kernel.Outcome
		class  kernel.FailureClass
		says   string
	}{
		"it answered":       {kernel.AgentAnswer{Run: told}, t.Context(), nil, kernel.OutcomeSucceeded, kernel.NoFailure, ""},
		"its limit is over": {kernel.AgentAnswer{Run: told, Exit: 1, Class: kernel.RateLimited, Reason: "no more today"}, t.Context(), nil, kernel.OutcomeFailed, kernel.RateLimited, "no more today"},
		"it was cancelled":  {kernel.AgentAnswer{Run: told, Exit: 143, Class: kernel.ExitFailure}, ctx, stop, kernel.OutcomeFailed, kernel.Signal, ""},
	} {
		_, env, n, agents := invoking(t)
		agents.answers, agents.then = []kernel.AgentAnswer{c.answer}, c.then
		r := Run(c.ctx, env, n)
		if r.Outcome != c.want || r.Class != c.class || !strings.Contains(r.Reason, c.says) || r.Agent == nil || r.Agent.Session != "s" || r.Agent.Usage.Input != 7 {
			t.Errorf("%s: %+v, agent %+v", name, r, r.Agent)
		}
	}
}

// An agent that answers nothing has failed if somebody works with its answer.
func TestAnAgentThatAnswersNothing(t *testing.T) {
	product := kernel.Artifact{Kind: kernel.Custom, Name: "plan_text", Ref: "p"}
	for operation, want := range map[string]kernel.Outcome{"plan.persist": kernel.OutcomeFailed, "command.run": kernel.OutcomeSucceeded} {
		d, env, n, agents := invoking(t)
		n.Manifest.Nodes = map[string]workflow.ManifestNode{"later": {Operation: operation, Needs: []workflow.ArtifactRecord{workflow.RecordOf(product)}}}
		n.declares(product)
		agents.answers = []kernel.AgentAnswer{{Text: []byte(" \n"), Run: kernel.AgentRun{Agent: "claude", Denied: []string{"Bash"}}}}
		r := Run(t.Context(), env, n)
		_, written := d.payloads[string(n.Job.ID)+" "+product.String()]
		if r.Outcome != want || written != (want == kernel.OutcomeSucceeded) {
			t.Errorf("%s: %+v, written %v", operation, r, written)
		}
		says := "agent claude ended well and answered nothing, but its answer is to be custom:plan_text:p; agent claude was not allowed to use Bash; `vizier retry " + string(n.Job.ID) + "` asks again"
		if want == kernel.OutcomeFailed && (r.Class != kernel.MissingOutput || r.Reason != says) {
			t.Errorf("class %v, reason %q", r.Class, r.Reason)
		}
	}
}

// A session is told of when it begins, with what was used before in the same
// attempt; that it cannot be kept is no reason to end.
func TestASessionIsToldOfWhenItBegins(t *testing.T) {
	_, env, n, agents := invoking(t)
	first := kernel.AgentRun{Agent: "claude", Session: "one", Usage: kernel.Usage{Input: 7}}
	agents.answers = []kernel.AgentAnswer{{Run: first}, {Run: kernel.AgentRun{Agent: "claude", Session: "two"}}}
	var told []kernel.AgentRun
	env.Told = func(r kernel.AgentRun) error {
		told = append(told, r)
		return errors.New("full")
	}
	for range 2 {
		if _, _, err := askAgent(t.Context(), env, n, n.Dir, "do it"); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 2 || told[0].Session != "one" || told[0].Usage.Input != 0 || told[1].Session != "two" || told[1].Usage.Input != 7 {
		t.Errorf("told %+v", told)
	}
}

// A later attempt goes on with the conversation where its job asks for that.
func TestAnAgentGoesOnWithItsSession(t *testing.T) {
	for keep, want := range map[bool]string{true: "one", false: ""} {
		_, env, n, agents := invoking(t)
		n.Job.Spec.KeepSession = keep
		n.Job.State.Agent = &kernel.AgentState{Last: kernel.AgentRun{Agent: "claude", Session: "one"}}
		agents.answers = []kernel.AgentAnswer{{}}
		if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeSucceeded || agents.asked[0].Session != want {
			t.Errorf("keep %v: asked to go on with %q: %+v", keep, agents.asked[0].Session, r)
		}
	}
}

func TestWhatAnAgentWasDeniedIsTold(t *testing.T) {
	_, env, n, agents := invoking(t)
	agents.answers = []kernel.AgentAnswer{{Run: kernel.AgentRun{Agent: "claude", Denied: []string{"Bash", "Write"}}}}
	if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeSucceeded || !strings.Contains(r.Reason, "agent claude was not allowed to use Bash, Write") {
		t.Errorf("%+v", r)
	}
}

// What an attempt used that was lost after its agent had answered is told by
// the attempt that takes its answer over.
func TestAnAnswerTakenOverBringsItsUsageAlong(t *testing.T) {
	_, env, n, agents := invoking(t)
	agents.answers = []kernel.AgentAnswer{{Run: kernel.AgentRun{Agent: "claude", Usage: kernel.Usage{Output: 5}}}}
	if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeSucceeded {
		t.Fatalf("%+v", r)
	}
	n.Job.State.Attempt, n.Job.State.Lost = 2, 1
	r := Run(t.Context(), env, n)
	if r.Outcome != kernel.OutcomeSucceeded || len(agents.asked) != 1 || r.Agent == nil || r.Agent.Usage.Output != 5 {
		t.Errorf("asked %d times: %+v, agent %+v", len(agents.asked), r, r.Agent)
	}
}

// An operation's own branches are those that its job alone may change.
func TestOwnBranches(t *testing.T) {
	_, _, n, _ := invoking(t)
	n.Job.Spec.Locks = []kernel.Lock{{Key: "branch:draft/a"}, {Key: "branch:main", Mode: kernel.Shared}, {Key: "gpu", Mode: kernel.Shared, Units: 1}, {Key: "repo"}, {Key: "branch:b"}}
	if got := n.ownBranches(); !slices.Equal(got, []string{"draft/a", "b"}) {
		t.Errorf("%q", got)
	}
}

// past is the record of jobs that ended.
type past []kernel.Job

func (p past) Job(id kernel.JobID) (kernel.Job, error) {
	if i := slices.IndexFunc(p, func(j kernel.Job) bool { return j.ID == id }); i >= 0 {
		return p[i], nil
	}
	return kernel.Job{}, fmt.Errorf("job %s: %w", id, kernel.ErrNotFound)
}

// A commit that has to have something fails where the run changed nothing, and
// says what its agent was not allowed to do.
func TestACommitThatMayNotBeEmpty(t *testing.T) {
	w := newWorld(t)
	long := time.Now().Add(-time.Hour)
	strict := func(args ...string) *Node {
		n := w.node("git.stage_commit", map[string]string{"allow_empty": append(args, "false")[0]})
		n.Job.Created = time.Now().Add(2 * time.Second) // after whatever is there
		n.Job.Spec.After = []kernel.JobID{"between"}
		return n
	}
	between := kernel.Job{ID: "between", Spec: kernel.Spec{After: []kernel.JobID{"gone", "asker"}}}
	asker := kernel.Job{ID: "asker", State: kernel.State{Agent: &kernel.AgentState{Last: kernel.AgentRun{Agent: "claude", Denied: []string{"Bash"}}}}}

	r := w.want(strict(), kernel.OutcomeFailed, "nothing was changed", "allow_empty=true")
	if r.Class != kernel.MissingOutput {
		t.Errorf("class %v", r.Class)
	}
	w.env.Records = past{between, asker}
	w.want(strict(), kernel.OutcomeFailed, "agent claude ended well and changed nothing", "was not allowed to use Bash", "vizier retry asker")
	w.want(strict("true"), kernel.OutcomeSucceeded, "nothing to commit")
	w.want(strict("perhaps"), kernel.OutcomeFailed, "allow_empty")
	w.want(w.node("git.stage_commit", nil), kernel.OutcomeSucceeded, "nothing to commit")

	own := strict()
	own.Job.Created = long
	w.want(own, kernel.OutcomeSucceeded, "committed before")
	w.commit(w.dir, ".vizier/implementation-plans/x.md", "a plan, and no change") // which is Vizier's own
	own = strict()
	own.Job.Created = time.Now()
	for w.git(w.dir, "log", "-1", "--format=%ct", "--", "readme.txt") >= fmt.Sprint(own.Job.Created.Unix()) {
		own.Job.Created = own.Job.Created.Add(time.Second)
	}
	w.want(own, kernel.OutcomeFailed, "changed nothing")
	w.write(w.dir, "new.txt", "a change")
	w.want(strict(), kernel.OutcomeSucceeded, "commit ")
}

// What was committed before the run got its worktree is not the run's, such as the commit of
// the stage that it waited for. After a retry it may be.
func TestACommitOfTheStageBeforeDoesNotCount(t *testing.T) {
	w := newWorld(t)
	w.git(w.dir, "switch", "--quiet", "--create", "draft/foo")
	w.commit(w.dir, "draft.txt", "of the stage before")
	w.git(w.dir, "switch", "--quiet", "main")
	tree, err := w.env.Git.EnsureWorktree(t.Context(), "stage-x", "stage-x", "draft/foo", "")
	if err != nil {
		t.Fatal(err)
	}
	strict := func() *Node {
		n := w.node("git.stage_commit", map[string]string{"allow_empty": "false"}).in(filepath.Join(w.dir, tree.Worktree))
		n.Job.Created, n.Job.State.Context = time.Now().Add(-time.Hour), tree
		return n
	}
	w.want(strict(), kernel.OutcomeFailed, "nothing was changed")
	again := strict()
	again.Job.State.Generation++
	w.want(again, kernel.OutcomeSucceeded, "committed before")
	w.commit(filepath.Join(w.dir, tree.Worktree), "new.txt", "by the agent itself")
	w.want(strict(), kernel.OutcomeSucceeded, "committed before")

	w.git(w.dir, "update-ref", "refs/heads/main", "draft/foo") // by the agent as well
	w.env.Records = past{{ID: "asker", State: kernel.State{Agent: &kernel.AgentState{Last: kernel.AgentRun{Agent: "claude"}}}}}
	moved := strict()
	moved.Job.Spec.After = []kernel.JobID{"asker"}
	base, tip := w.git(w.dir, "rev-parse", "--short=12", "main~"), w.git(w.dir, "rev-parse", "--short=12", "main")
	w.want(moved, kernel.OutcomeFailed, "agent claude ended well and left nothing to commit: what was committed to draft/foo since the stage began is on main already (`git log "+base+".."+tip+"`)", "vizier retry asker")
}

func TestRunsOfAConflictGateAreOne(t *testing.T) {
	env := &Env{Agents: &chorus{answers: []kernel.AgentAnswer{{Run: kernel.AgentRun{Turns: 1}}, {Run: kernel.AgentRun{Turns: 2, Session: "b"}}}}}
	for range 2 {
		if _, _, err := askAgent(t.Context(), env, &Node{}, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	if env.told.Turns != 3 || env.told.Session != "b" {
		t.Errorf("%+v", env.told)
	}
	env.Agents = broken{}
	if _, _, err := askAgent(t.Context(), env, &Node{}, "", ""); err == nil || env.told.Turns != 3 {
		t.Errorf("an agent that cannot be started: %v, %+v", err, env.told)
	}
}

type broken struct{}

func (broken) Run(context.Context, kernel.AgentRequest) (kernel.AgentAnswer, error) {
	return kernel.AgentAnswer{}, errors.New("it is not there")
}

// An agent that fails at a conflict is no success whatever its exit code says; one that cannot be started
// ends the node.
func TestAnAgentAtAConflict(t *testing.T) {
	c := &conflict{mark: &sentinel{Source: "draft/foo", Target: "main"}, files: []string{"a.txt"}}
	for name, k := range map[string]struct {
		answer kernel.AgentAnswer
		want   int
	}{
		"it answered":               {kernel.AgentAnswer{}, 0},
		"it failed":                 {kernel.AgentAnswer{Exit: 7, Class: kernel.ExitFailure, Reason: "exit code 7"}, 7},
		"it failed without a code":  {kernel.AgentAnswer{Class: kernel.RateLimited, Reason: "no more today"}, 1},
		"it ended well with a code": {kernel.AgentAnswer{Exit: 3}, 0},
	} {
		_, env, n, agents := invoking(t)
		agents.answers = []kernel.AgentAnswer{k.answer}
		n.Args = map[string]string{"prompt_text": "resolve it"}
		if got, err := c.ask(t.Context(), env, n); got != k.want || err != nil {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
	_, env, n, _ := invoking(t)
	env.Agents = broken{}
	if got, err := c.ask(t.Context(), env, n); got != 0 || err == nil {
		t.Errorf("it cannot be started: %d, %v", got, err)
	}
}

// The end of a command is told by the signal, if one ended it.
func TestHowACommandEnded(t *testing.T) {
	for exit, want := range map[int]string{1: "failed (exit 1)", 127: "failed (exit 127)", 128: "failed (exit 128)", 129: "was ended by signal 1 (exit 129)",
		137: "was ended by signal 9 (exit 137)", 192: "was ended by signal 64 (exit 192)", 193: "failed (exit 193)"} {
		if got := ended(exit); got != want {
			t.Errorf("exit code %d: %s, want %s", exit, got, want)
		}
	}
}

// tails answers with as much of a log as is asked for.
type tails struct{ Files }

func (tails) LogTail(_ kernel.JobID, stream string, most int64) ([]byte, error) {
	if stream == "stdout" {
		return nil, errFaulty
	}
	return bytes.Repeat([]byte("0123456\r\n"), int(most)/9), nil
}

// A payload has the last 64 KiB of what went wrong, as lines.
func TestTheLastLinesOfWhatWentWrong(t *testing.T) {
	lines, err := errorLines(&Env{Files: tails{}}, &Node{})
	if want := 64 << 10 / 9; err != nil || len(lines) != want || lines[0] != "0123456" {
		t.Errorf("%d lines, want %d, %v", len(lines), want, err)
	}
}

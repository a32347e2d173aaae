package proptest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app/op"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
	"pgregory.net/rapid"
)

// errKilled is the death of a node's process.
var errKilled = errors.New("killed")

// effects is the life of one workflow node with a script and a gate, with the real
// kernel and the real operations: attempts die at any step, time out, fail and
// succeed; a person approves, rejects and rewinds.
type effects struct {
	history
	journal map[string]effect.Record
	left    int // steps until the process dies
	stop    context.CancelFunc
	cut     bool // the script is ended before it is done
	exit    int  // of the script

	begun    map[int]int // executions of the script by generation
	licences map[int]int // by generation: decisions to execute it again, by a policy or by a person
}

func (e *effects) step() {
	if e.left--; e.left < 0 {
		panic(errKilled)
	}
}

func (e *effects) Effect(_ kernel.JobID, key string) (*effect.Record, error) {
	if f, ok := e.journal[key]; ok {
		return &f, nil
	}
	return nil, nil
}

func (e *effects) RecordEffect(_ context.Context, f effect.Record) error {
	e.step()
	old, _ := e.Effect(f.Job, f.Key)
	if err := errors.Join(e.jobs[0].Fence(kernel.AttemptID{Job: f.Job, N: f.Attempt}), f.Follow(old)); err != nil {
		return err
	}
	e.journal[f.Key] = f
	e.step()
	return nil
}

func (e *effects) Run(_ context.Context, _, script string, _ []string) (int, error) {
	if script == "gate" {
		e.step()
		return 0, nil
	}
	e.begun[e.jobs[0].State.Generation]++
	e.step()
	if e.cut {
		e.stop()
		return 143, nil
	}
	return e.exit, nil
}

func (e *effects) Output(context.Context, string, string, []string, int) ([]byte, int, error) {
	return nil, 0, errors.New("not asked for")
}

// attempt runs the running attempt until it ends in one way or another.
func (e *effects) attempt(t *rapid.T, dir string) {
	j := e.jobs[0]
	n := &op.Node{Job: j, Root: dir, Dir: dir}
	n.ManifestNode = workflow.ManifestNode{Node: "n", Uses: "x", Operation: "command.run", Args: map[string]string{"command": "op"}}
	n.Gates = []workflow.ManifestGate{{Kind: "script", Script: "gate", Policy: workflow.PolicyBlock}}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	defer e.stop()
	e.left = rapid.IntRange(0, 18).Draw(t, "dies at")
	e.cut, e.exit = oneIn(t, 5, "times out"), oneOf(t, "exit", 0, 0, 3)
	r := op.Run(ctx, &op.Env{Effects: e, Shell: e, Stdout: io.Discard, Stderr: io.Discard, Now: func() time.Time { return e.now }}, n)
	result := kernel.Result{Attempt: j.Attempt(), Outcome: r.Outcome, Exit: r.Exit, Class: r.Class, Reason: r.Reason}
	switch {
	case e.left < 0 || oneIn(t, 6, "dies with its result"):
		result = kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost}
	case ctx.Err() != nil:
		result = kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 124, Class: kernel.Timeout}
	case r.Class == kernel.EffectInDoubt && j.Spec.InDoubtPolicy() == kernel.RerunInDoubt:
		t.Fatalf("in doubt, though twice does no harm: %+v", r)
	case r.Outcome == kernel.OutcomeSucceeded && e.begun[j.State.Generation] == 0:
		t.Fatalf("it says that it succeeded and executed nothing: %+v", r)
	}
	p, err := kernel.Finish(e.look(), result)
	if err != nil {
		t.Fatal(err)
	}
	e.commit(t, p)
	after := e.jobs[0].State
	if after.Status == kernel.FailedRetryable && result.Class != kernel.WorkerLost && after.Approval.State != kernel.Pending {
		e.licences[after.Generation]++
	}
}

// Whatever happens to its attempts, a script is begun at most once in a generation
// and once more for each decision of a policy or a person to run it again, unless
// running it twice does no harm (I15).
func TestAScriptIsBegunOnceUnlessSomebodyDecidesOtherwise(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		e := &effects{history: history{now: time.Unix(1e9, 0).UTC(), limits: kernel.Limits{MaxRunning: 1},
			markers: map[kernel.Artifact][]kernel.JobID{}, gone: map[kernel.AttemptID]*kernel.Result{}, launched: map[kernel.AttemptID]bool{},
			executions: map[generation]int{}, leaves: map[generation]int{}, seen: map[kernel.JobID]kernel.State{}},
			journal: map[string]effect.Record{}, begun: map[int]int{}, licences: map[int]int{}}
		spec := kernel.Spec{InDoubt: oneOf(t, "in doubt", kernel.FailInDoubt, kernel.AskInDoubt, kernel.RerunInDoubt),
			Budget:    kernel.Budget{Retries: rapid.IntRange(0, 2).Draw(t, "retries"), Resumes: rapid.IntRange(0, 1).Draw(t, "resumes"), Reclaims: rapid.IntRange(0, 3).Draw(t, "reclaims")},
			Resumable: rapid.Bool().Draw(t, "resumable"), Idempotent: oneIn(t, 6, "idempotent"),
			Task: kernel.Task{Args: []string{"__workflow-node"}, Builtin: true}}
		for _, c := range []kernel.FailureClass{kernel.ExitFailure, kernel.Timeout, kernel.EffectInDoubt} {
			if rapid.Bool().Draw(t, c.String()) {
				spec.Retry = spec.Retry.On(c)
			}
		}
		p, err := kernel.Enqueue(e.look(), []kernel.NewJob{{ID: "h001", Spec: spec}})
		if err != nil {
			t.Fatal(err)
		}
		e.commit(t, p)
		for range rapid.IntRange(1, 12).Draw(t, "turns") {
			e.now = e.now.Add(time.Hour)
			e.tick(t)
			st := e.jobs[0].State
			switch {
			case st.Status == kernel.Running:
				e.attempt(t, dir)
			case st.Status == kernel.WaitingOnApproval && oneIn(t, 5, "no"):
				p, _ := kernel.Reject(e.look(), "h001", kernel.Refusal{By: "ann"})
				e.commit(t, p)
			case st.Status == kernel.WaitingOnApproval:
				p, _ := kernel.Approve(e.look(), "h001", kernel.Consent{By: "ann"})
				e.commit(t, p)
				e.leaves[generation{"h001", st.Generation}]++
				e.licences[st.Generation]++
			case st.Status.Terminal() && rapid.Bool().Draw(t, "rewind"):
				p, err := kernel.Retry(e.look(), "h001", "ann")
				if err != nil {
					t.Fatal(err)
				}
				e.commit(t, p)
			}
			e.check(t)
			for g, n := range e.begun {
				if n > 1+e.licences[g] && spec.InDoubtPolicy() != kernel.RerunInDoubt {
					t.Fatalf("generation %d: begun %d times with %d licences", g, n, e.licences[g])
				}
			}
		}
	})
}

package kernel_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The gate holds back only jobs whose sandbox this host has to enforce and
// cannot.
func TestSandboxGate(t *testing.T) {
	required := kernel.Sandbox{Mode: kernel.RequiredSandbox}
	offline := kernel.Sandbox{Mode: kernel.RequiredSandbox, Network: kernel.NoNetwork}
	for _, c := range []struct {
		box      kernel.Sandbox
		executor string
		host     kernel.Fact[kernel.Enforcement]
		want     string
	}{
		{required, "", kernel.Seen(kernel.Enforcement{}), "running"},
		{required, "", kernel.Seen(kernel.Enforcement{Network: "no namespaces"}), "running"},
		{offline, "", kernel.Seen(kernel.Enforcement{Network: "no namespaces"}), "waiting_on_deps preconditions: the sandbox that it requires cannot be enforced: no namespaces"},
		{required, "", kernel.Seen(kernel.Enforcement{Files: "no Landlock"}), "waiting_on_deps preconditions: the sandbox that it requires cannot be enforced: no Landlock"},
		{required, "", kernel.Unseen[kernel.Enforcement]("no answer"), "waiting_on_deps preconditions: cannot tell what sandboxes this host enforces: no answer"},
		{required, "far", kernel.Seen(kernel.Enforcement{Files: "no Landlock"}), "running"},
		{kernel.Sandbox{Mode: kernel.BestEffortSandbox, Network: kernel.NoNetwork}, "", kernel.Seen(kernel.Enforcement{Files: "no Landlock"}), "running"},
	} {
		j := job("q")
		j.Spec.Task.Sandbox, j.Spec.Task.Executor = c.box, c.executor
		f := facts()
		f.Sandbox = c.host
		expect(t, snapshot(f, j), "q", c.want)
	}
	j := job("q")
	if kernel.NewSnapshot(kernel.Observation{Jobs: []kernel.Job{j}, Facts: facts()}).Probes().Sandbox {
		t.Error("nobody has to know what a host enforces")
	}
	j.Spec.Task.Sandbox = required
	if !kernel.NewSnapshot(kernel.Observation{Jobs: []kernel.Job{j}, Facts: facts()}).Probes().Sandbox {
		t.Error("nobody asks what the host enforces")
	}
}

// If two sources ask for a sandbox, neither weakens what the other asks for.
func TestTheLeastSandbox(t *testing.T) {
	best, offline := kernel.Sandbox{Mode: kernel.BestEffortSandbox, Write: []string{"a"}}, kernel.Sandbox{Mode: kernel.RequiredSandbox, Network: kernel.NoNetwork, Write: []string{"b", "a"}}
	for _, c := range []struct{ a, b, want kernel.Sandbox }{
		{kernel.Sandbox{}, kernel.Sandbox{Write: []string{"b"}, Network: kernel.NoNetwork}, kernel.Sandbox{}},
		{kernel.Sandbox{}, best, best},
		{best, kernel.Sandbox{}, best},
		{best, offline, kernel.Sandbox{Mode: kernel.RequiredSandbox, Network: kernel.NoNetwork, Write: []string{"a", "b"}}},
	} {
		if d := cmp.Diff(c.want, c.a.Least(c.b)); d != "" {
			t.Error(d)
		}
	}
}

// Jobs that a sandboxed job submits may not do more than it, nor write to
// another's working tree.
func TestWhatASandboxedJobSubmits(t *testing.T) {
	j := job("j", running(1))
	j.Spec.Task.Tree = "/tree"
	j.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox, Network: kernel.NoNetwork, Write: []string{"/out", "rel"}}
	news := []kernel.NewJob{
		{ID: "k1", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}},
		{ID: "k2", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}, Tree: "/tree",
			Sandbox: kernel.Sandbox{Mode: kernel.RequiredSandbox, Write: []string{"rel/x", "/out/x", "/out", "/other", "/out/../etc", "/outer"}}}}},
	}
	s := snapshot(facts(), j)
	p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Submitted: news})
	if err != nil {
		t.Fatal(err)
	}
	next := s.Apply(p)
	if d := cmp.Diff(kernel.Sandbox{Mode: kernel.BestEffortSandbox, Network: kernel.NoNetwork, Write: []string{"/out"}, ReadOnly: true}, next.Job("k1").Spec.Task.Sandbox); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(kernel.Sandbox{Mode: kernel.RequiredSandbox, Network: kernel.NoNetwork, Write: []string{"rel", "/out"}}, next.Job("k2").Spec.Task.Sandbox); d != "" {
		t.Error(d)
	}
	if news[0].Spec.Task.Sandbox.On() {
		t.Error("what was submitted was changed")
	}
}

// The sources of secrets are read and run outside sandboxes, and an executor's
// own options may make it load anything. So sandboxed jobs may ask for neither.
func TestASandboxedJobHasNothingRunOutside(t *testing.T) {
	for _, asks := range []kernel.Task{{Secrets: []kernel.Secret{{Name: "S", Source: "touch out"}}}, {Executor: "far", Options: []string{"--export=LD_PRELOAD=x.so"}}, {Executor: "far", Options: []string{"cpus=1", "--export=LD_PRELOAD=x.so"}}, {Container: "img"}} {
		for _, mode := range []kernel.SandboxMode{kernel.NoSandbox, kernel.BestEffortSandbox} {
			j := job("j", running(1))
			j.Spec.Task.Sandbox.Mode = mode
			s := snapshot(facts(), j)
			asks.Args = []string{"true"}
			p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Submitted: []kernel.NewJob{{ID: "k", Spec: kernel.Spec{Task: asks}}}})
			if err != nil {
				t.Fatal(err)
			}
			next := s.Apply(p)
			if enqueued := next.Job("k") != nil; enqueued == j.Spec.Task.Sandbox.On() {
				t.Errorf("sandbox %s: enqueued is %t: %s", mode, enqueued, next.Job("j").State.Reason)
			}
		}
	}
}

// Jobs outside a sandbox take artifacts on the word of the job that makes them.
// So a sandboxed job submits none that makes any: it could approve its own plan.
func TestASandboxedJobForgesNothing(t *testing.T) {
	for _, label := range append(oneOfEach, "custom:stage_token:approve:foo") {
		for _, mode := range []kernel.SandboxMode{kernel.NoSandbox, kernel.BestEffortSandbox, kernel.RequiredSandbox} {
			j := job("j", running(1))
			j.Spec.Task.Sandbox.Mode = mode
			s := snapshot(facts(), j, job("merge", needs(label), policy(kernel.Wait), is(kernel.WaitingOnDeps)))
			forged := kernel.NewJob{ID: "k", Spec: kernel.Spec{Produces: artifacts(label), Task: kernel.Task{Args: []string{"true"}}}}
			p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Submitted: []kernel.NewJob{{ID: "fine"}, forged}})
			if err != nil {
				t.Fatal(err)
			}
			next := s.Apply(p)
			said := next.Job("j").State
			if mode == kernel.NoSandbox {
				if next.Job("k") == nil {
					t.Errorf("%s: refused without a sandbox: %s", label, said.Reason)
				}
			} else if next.Job("k") != nil || next.Job("fine") != nil || said.Status != kernel.Failed || said.Failure != kernel.DataError || !strings.Contains(said.Reason, "produce "+artifact(label).String()) {
				t.Errorf("%s, %s: %s %s %q", label, mode, said.Status, said.Failure, said.Reason)
			}
		}
	}
}

// A sandboxed job that submits a job again gets that job, as it is; it does not
// retry what has failed, nor what depends on it.
func TestASandboxedJobRetriesNothing(t *testing.T) {
	for _, mode := range []kernel.SandboxMode{kernel.NoSandbox, kernel.BestEffortSandbox} {
		for retries, changes := range []bool{false, true} {
			j := job("j", running(1))
			j.Spec.Task.Sandbox.Mode = mode
			again := kernel.Spec{IdempotencyKey: "k", Task: kernel.Task{Args: []string{"true"}, Sandbox: kernel.Sandbox{Mode: kernel.BestEffortSandbox, ReadOnly: mode != kernel.NoSandbox}, Tree: "/other"}}
			old := job("old", is(kernel.Failed), func(k *kernel.Job) { k.Spec = again })
			again.Budget.Retries = retries
			s := snapshot(facts(), j, old, job("below", after("old"), is(kernel.BlockedByDependency)))
			p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Submitted: []kernel.NewJob{{ID: "n", Spec: again}}})
			if err != nil {
				t.Fatal(err)
			}
			next := s.Apply(p)
			retried, failed := next.Job("old").State.Status != kernel.Failed, next.Job("j").State.Status == kernel.Failed
			if changed := changes && mode == kernel.NoSandbox; retried != changed || failed != (changes && !changed) {
				t.Errorf("sandbox %s, %d retries: retried is %t: %s", mode, retries, retried, next.Job("j").State.Reason)
			}
		}
	}
}

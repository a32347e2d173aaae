package kernel_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A policy names classes and exit codes by the words that a person types, and tells the same words back.
func TestNamesOfARetryPolicy(t *testing.T) {
	t.Parallel()
	var p kernel.RetryPolicy
	for _, word := range []string{"timeout", "1", "exit", "255", "64"} {
		var err error
		if p, err = p.Named(word); err != nil {
			t.Fatal(err)
		}
	}
	classes, exits := p.Names()
	if !slices.Equal(classes, []string{"exit", "timeout"}) || !slices.Equal(exits, []int{1, 64, 255}) {
		t.Errorf("%v, %v", classes, exits)
	}
	for code := -1; code <= 256; code++ {
		if has := p.Exits.Has(code); has != slices.Contains(exits, code) {
			t.Errorf("%d: %t", code, has)
		}
		if with := (kernel.ExitSet{}).With(code); with.Has(code) != (code >= 0 && code < 256) {
			t.Errorf("with %d: %v", code, with)
		}
	}
	if classes, exits = (kernel.RetryPolicy{}).Names(); classes != nil || exits != nil {
		t.Errorf("none: %v, %v", classes, exits)
	}
	for word, want := range map[string]string{"0": "from 1 to 255", "256": "from 1 to 255", "-1": "from 1 to 255", "exits": "invalid failure class `exits`: it is an exit code or one of exit, timeout, "} {
		if _, err := p.Named(word); !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", word, err, want)
		}
	}
}

// A secret has the name of a variable and a source; a file of it does not depend on a directory.
func TestSecretsAsText(t *testing.T) {
	t.Parallel()
	const name, path = "expected NAME=@FILE or NAME=COMMAND", "give a path that begins with / or ~/"
	for text, want := range map[string]string{
		"A=x": "", "_=x": "", "a9=x": "", "Zz_0=a=b": "", "A=@/f": "", "A=@~/f": "", "azAZ09=x": "",
		"": name, "=x": name, "A": name, "A=": name, "A= ": name, "9=x": name, "9a=x": name, "a-b=x": name, "ä=x": name, "a\x00=x": name, "a=\x00": name,
		"@=x": name, "[=x": name, "`=x": name, "{=x": name, "/=x": name, "a:=x": name, "A=@f": path, "A=@": path, "A=@~f": path, "A=@./f": path,
	} {
		s, err := kernel.ParseSecret(text)
		if want == "" && (err != nil || s.String() != text) {
			t.Errorf("%q: %v, %q", text, err, s)
		}
		if want != "" && (!errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// An image is named so that no engine takes it for an option, and needs no sandbox that Vizier could not enforce in it.
func TestContainersOfTasks(t *testing.T) {
	t.Parallel()
	const name, sandbox = "expected the name of an image", "cannot be enforced in a container"
	for _, c := range []struct {
		image string
		mode  kernel.SandboxMode
		want  string
	}{
		{"", kernel.RequiredSandbox, ""}, {"a/b:c", kernel.NoSandbox, ""}, {"a-b", kernel.BestEffortSandbox, ""}, {"a", kernel.RequiredSandbox, sandbox},
		{"-a", kernel.NoSandbox, name}, {"a b", kernel.NoSandbox, name}, {"a\x1b", kernel.NoSandbox, name},
	} {
		task := kernel.Task{Container: c.image, Sandbox: kernel.Sandbox{Mode: c.mode}}
		if err := task.CheckContainer(); (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Each step of an option that grows is a quantity, and more than the one before.
func TestStepsThatGrow(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]string{
		"memory=1023K,1M": "", "memory=1023,1G": "", "memory=1023M,1G": "", "memory=1023g,1t": "", "memory=1,2": "", "time=59s,1": "", "time=1:59,2": "", "time=59:59,1:0:0": "", "time=23:59:59,1-0": "", "time=1-0:59,1-1": "", "time=1-1:1,1-1:1:1": "", "time=10m,1h": "",
		"memory=1024K,1M": "not more", "memory=1024,1G": "not more", "memory=1024M,1G": "not more", "memory=1024g,1t": "not more", "memory=2,1": "not more", "time=60s,1": "not more", "time=60:0,1:0:0": "not more", "time=24:0:0,1-0": "not more", "time=1h,60m": "not more",
		"memory=0,1": "cannot be read", "memory=-1,1": "cannot be read", "memory=K,1": "cannot be read", "memory=1X,2": "cannot be read", "memory=1KB,2": "cannot be read", "memory=,1": "cannot be read", "memory=1,": "cannot be read", "memory=99999999999,1": "cannot be read",
		"time=0,1": "cannot be read", "time=-1m,1": "cannot be read", "time=1:2:3:4,9-0": "cannot be read", "time=x,1": "cannot be read", "time=1-x,9-0": "cannot be read", "time=x-1,9-0": "cannot be read", "time=99999-0,1": "cannot be read",
		"memory=x": "", "cpus=2,1": "",
	} {
		if _, err := kernel.CheckGrowth([]string{option}); (err == nil) != (want == "") || err != nil && (!errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", option, err, want)
		}
	}
}

// Sums of what was used do not overflow.
func TestSumsOfWhatWasUsed(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt64
	for _, c := range []struct{ a, b, want int64 }{{1, 2, 3}, {0, most, most}, {1, most, most}, {1, most - 1, most}, {most, most, most}, {2, -1, 1}} {
		if got := (kernel.Usage{Input: c.a, Cached: c.b, Output: c.a}).Plus(kernel.Usage{Input: c.b, Cached: c.a, Output: c.b}); got.Input != c.want || got.Output != c.want {
			t.Errorf("%d and %d: %+v, want %d", c.a, c.b, got, c.want)
		}
	}
	if got, want := (kernel.Used{CPU: 5, Memory: 3}).Plus(kernel.Used{CPU: 2, Memory: 4}), (kernel.Used{CPU: 7, Memory: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What a job needs a person for, by its record; and who takes care of it instead.
func TestWhoIsNeeded(t *testing.T) {
	t.Parallel()
	blocked := func(reason string, more ...option) option {
		return func(j *kernel.Job) {
			j.State.Status, j.State.Outcome, j.State.Reason = kernel.BlockedByDependency, kernel.OutcomeBlocked, reason
			for _, o := range more {
				o(j)
			}
		}
	}
	failure := func(c kernel.FailureClass) option { return func(j *kernel.Job) { j.State.Failure = c } }
	inDoubt := func(j *kernel.Job) { j.State.Approval.InDoubt = true }
	cause := func(c kernel.WaitCause) option { return func(j *kernel.Job) { j.State.Wait.Cause = c } }
	retired := func(j *kernel.Job) { j.State.Retired = true }
	refused := func(n int, reason string) option {
		return func(j *kernel.Job) {
			j.Spec.Task.Secrets = []kernel.Secret{{Name: "KEY", Source: "x"}}
			j.State.Refused, j.State.Reason = n, reason
		}
	}
	for want, jobs := range map[kernel.Attention][]kernel.Job{
		kernel.NeedsDecision:   {job("a", is(kernel.WaitingOnApproval), inDoubt), job("a", is(kernel.Failed), failure(kernel.EffectInDoubt))},
		kernel.NeedsApproval:   {job("a", is(kernel.WaitingOnApproval)), job("a", is(kernel.WaitingOnApproval), failure(kernel.EffectInDoubt))},
		kernel.NeedsPool:       {job("a", is(kernel.WaitingOnLocks), cause(kernel.PoolTooSmall))},
		kernel.NeedsSecret:     {job("a", is(kernel.Queued), refused(1, "secret KEY: none"))},
		kernel.NeedsResolution: {job("a", blocked("it "+kernel.InConflict))},
		kernel.NeedsUnblocking: {job("a", blocked("the tree is gone")), job("a", blocked("the stop condition does not hold"+kernel.LastLine+"package-lock.json "+kernel.InConflict))},
		"": {job("a", is(kernel.Failed), inDoubt), job("a", is(kernel.Running), failure(kernel.EffectInDoubt)), job("a", is(kernel.WaitingOnLocks), cause(kernel.ExecutorFull)), job("a", is(kernel.WaitingOnDeps), cause(kernel.PoolTooSmall)),
			job("a", is(kernel.Queued), refused(0, "secret KEY: none")), job("a", is(kernel.WaitingOnDeps), refused(1, "secret KEY: none")), job("a", is(kernel.Queued), refused(1, "secret OTHER: none")),
			job("a", blocked("x"), retired), job("a", is(kernel.BlockedByDependency)), job("a", blocked("x"), is(kernel.BlockedByApproval))},
	} {
		for _, j := range jobs {
			if got := j.Needs(); got != want {
				t.Errorf("%s, %+v: %q, want %q", j.State.Status, j.State.Wait, got, want)
			}
		}
	}

	routes := func(on kernel.Outcome, to kernel.JobID) option {
		return func(j *kernel.Job) { j.Spec.Routes = append(j.Spec.Routes, kernel.Route{On: on, To: to}) }
	}
	idle := blocked(kernel.NoConflict + ": see to it")
	for _, c := range []struct {
		jobs           []kernel.Job
		handedOn, from kernel.JobID // of a and b
	}{
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeBlocked, "b")), job("b", blocked("y"))}, "b", ""},
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeBlocked, "b")), job("b", idle)}, "", "a"},
		{[]kernel.Job{job("a", blocked("x"), is(kernel.BlockedByApproval), routes(kernel.OutcomeBlocked, "b")), job("b", idle)}, "", "a"},
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeFailed, "b")), job("b", blocked("y"))}, "", ""},
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeFailed, "b")), job("b", idle)}, "", ""},
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeBlocked, "c")), job("b", idle), job("c", is(kernel.Failed))}, "", ""},
		{[]kernel.Job{job("a", is(kernel.Failed), routes(kernel.OutcomeBlocked, "b")), job("b", idle)}, "b", ""},
		{[]kernel.Job{job("a", is(kernel.BlockedByDependency), routes(kernel.OutcomeBlocked, "b")), job("b", idle)}, "b", ""},
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeBlocked, "b")), job("b", is(kernel.BlockedByDependency))}, "", ""},
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeBlocked, "b")), job("b", blocked("y"), is(kernel.Running))}, "", ""},
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeBlocked, "gone")), job("b", blocked("y"))}, "", ""},
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeBlocked, "b")), job("b", idle, is(kernel.Running))}, "", ""},
		{[]kernel.Job{job("a", blocked("x"), routes(kernel.OutcomeBlocked, "gone"), routes(kernel.OutcomeSucceeded, "b"), routes(kernel.OutcomeBlocked, "b")), job("b", blocked("y"))}, "b", ""},
	} {
		s := snapshot(facts(), c.jobs...)
		id := func(j *kernel.Job) kernel.JobID {
			if j == nil {
				return ""
			}
			return j.ID
		}
		if on, from := id(s.HandedOnTo(s.Job("a"))), id(s.BlockedBy(s.Job("b"))); on != c.handedOn || from != c.from || s.HandedOn(s.Job("a")) != (on != "") {
			t.Errorf("a %+v, b %q: handed on to %q, want %q; blocked by %q, want %q", c.jobs[0].Spec.Routes, c.jobs[1].State.Reason, on, c.handedOn, from, c.from)
		}
		if rejected := c.jobs[0].State.Status == kernel.BlockedByApproval; s.SeenTo(s.Job("b")) != rejected {
			t.Errorf("a is %s, and b is seen to: %v", c.jobs[0].State.Status, !rejected)
		}
	}
}

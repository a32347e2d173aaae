package kernel

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// SandboxMode says whether a job's processes are confined to where the job
// works.
type SandboxMode uint8

// NoSandbox is the default.
const (
	NoSandbox         SandboxMode = iota // not confined: it may do what the user may
	BestEffortSandbox                    // confined as far as the host can
	RequiredSandbox                      // fully confined, or it does not start
)

var sandboxNames = NewNames[SandboxMode]("sandbox", "none", "best-effort", "required")

// Network says which networks a job in a sandbox may reach.
type Network uint8

// AnyNetwork is the default.
const (
	AnyNetwork Network = iota
	NoNetwork
)

var networkNames = NewNames[Network]("network", "all", "none")

// Sandbox restricts what a job may do to the rest of the host. The zero value
// is no sandbox.
type Sandbox struct {
	Mode    SandboxMode
	Write   []string // further paths that it may write to, relative to where it runs
	Network Network

	// ReadOnly makes its working tree read-only. It is set if a sandboxed job
	// that works in another tree submitted the job.
	ReadOnly bool
}

// On reports whether s is a sandbox.
func (s Sandbox) On() bool { return s.Mode != NoSandbox }

// Least returns s made at least as strict as o in mode and network, with the
// writable paths of both.
func (s Sandbox) Least(o Sandbox) Sandbox {
	if s.Mode = max(s.Mode, o.Mode); s.On() {
		s.Network = max(s.Network, o.Network)
		s.Write = unique(slices.Concat(s.Write, o.Write))
	}
	return s
}

// Same reports whether s and o are equal.
func (s Sandbox) Same(o Sandbox) bool {
	return s.Mode == o.Mode && s.Network == o.Network && s.ReadOnly == o.ReadOnly && slices.Equal(s.Write, o.Write)
}

// Within returns s for a job that is submitted by a job in the sandbox outer:
// the new job may do no more than the submitter. A path below one of the
// submitter's opens that one: what is below it may be a link of the submitter's.
func (s Sandbox) Within(outer Sandbox) Sandbox {
	if !outer.On() {
		return s
	}
	in := Sandbox{Mode: max(s.Mode, outer.Mode), Network: max(s.Network, outer.Network), ReadOnly: s.ReadOnly || outer.ReadOnly}
	if !s.On() {
		in.Write = outer.Write
		return in
	}
	for _, p := range s.Write {
		if i := slices.IndexFunc(outer.Write, func(o string) bool { return beneath(p, o) }); i >= 0 {
			in.Write = append(in.Write, outer.Write[i])
		}
	}
	in.Write = unique(in.Write)
	return in
}

// submitted returns the jobs that an attempt of j asks to enqueue, restricted
// by j's sandbox. A sandboxed job may not ask for secrets, since those are
// read, or computed, outside every sandbox; nor for containers, which run
// outside too; nor for options in an executor's own syntax, such as
// --export=LD_PRELOAD=…, which affect what starts the sandbox. Nor may the new
// jobs make artifacts, such as the token of a plan's approval or an agent's
// prompt: jobs outside would take them on the sandboxed job's word.
func (j *Job) submitted(news []NewJob) ([]NewJob, error) {
	t := &j.Spec.Task
	if !t.Sandbox.On() {
		return news, nil
	}
	out := slices.Clone(news)
	for i := range out {
		k := &out[i].Spec.Task
		if made := out[i].Spec.Produces; len(made) > 0 {
			return nil, fmt.Errorf("produce %s: a job in a sandbox submits none that makes artifacts, since jobs outside would take those on its word: order its jobs with after: %w", made[0], ErrInvalid)
		}
		if len(k.Secrets) > 0 {
			return nil, fmt.Errorf("secret %s: a job in a sandbox hands out no secrets: submit the job from outside: %w", k.Secrets[0].Name, ErrInvalid)
		}
		if k.Container != "" {
			return nil, fmt.Errorf("container %s: a job in a sandbox starts no containers, since those run outside of it: submit the job from outside: %w", k.Container, ErrInvalid)
		}
		k.Sandbox = k.Sandbox.Within(t.Sandbox)
		if n := slices.IndexFunc(k.Options, func(o string) bool { return strings.HasPrefix(o, "-") }); n >= 0 {
			return nil, fmt.Errorf("option %s: a job in a sandbox asks for KEY=VALUE options alone: %w", k.Options[n], ErrInvalid)
		}
		elsewhere := k.Tree != t.Tree || out[i].Context.Root != j.State.Context.Root
		k.Sandbox.ReadOnly = k.Sandbox.ReadOnly || elsewhere
		if elsewhere || k.Dir != t.Dir { // relative paths mean other files there
			k.Sandbox.Write = slices.DeleteFunc(slices.Clone(k.Sandbox.Write), func(p string) bool { return !path.IsAbs(p) && !strings.HasPrefix(p, "~/") })
		}
	}
	return out, nil
}

// submit returns the plan that enqueues the jobs that a successful attempt of j
// asks for. If j is in a sandbox, it changes no job on record: by its idempotency
// key, a job could otherwise be retried, with all that depends on it.
func (j *Job) submit(s *Snapshot, news []NewJob) (Plan, error) {
	news, err := j.submitted(news)
	if err != nil {
		return Plan{}, err
	}
	m, p, err := Submit(s, news, "job "+string(j.ID))
	if err == nil && j.Spec.Task.Sandbox.On() && !m.Plan.Empty() {
		err = fmt.Errorf("idempotency key: a job in a sandbox changes no limits or transience of a job on record: submit the same, or use another key: %w", ErrConflict)
	}
	return p, err
}

// beneath reports whether path p is o or lies below it, lexically.
func beneath(p, o string) bool {
	p, o = path.Clean(p), path.Clean(o)
	return p == o || strings.HasPrefix(p, strings.TrimSuffix(o, "/")+"/")
}

// Enforcement says why a host cannot enforce each part of a sandbox; "" if it
// can.
type Enforcement struct{ Files, Network string }

// Lacks returns why the host cannot enforce all of s, or "" if it can.
func (e Enforcement) Lacks(s Sandbox) string {
	switch {
	case e.Files != "":
		return e.Files
	case s.Network == NoNetwork:
		return e.Network
	default:
		return ""
	}
}

// checkSandbox holds back jobs that require a sandbox which this host cannot
// enforce. For other executors, their hosts check this.
func (t *tick) checkSandbox(i int32) verdict {
	task := &t.s.jobs[i].Spec.Task
	if !task.sandboxed() {
		return verdict{}
	}
	f := t.s.facts.Sandbox
	t.s.ask(t.s.jobs[i], f.asked())
	if !f.Known {
		return waits("cannot tell what sandboxes this host enforces: " + unobserved(f.Err))
	}
	if why := f.Value.Lacks(task.Sandbox); why != "" {
		return waits("the sandbox that it requires cannot be enforced: " + why)
	}
	return verdict{}
}

// sandboxed reports whether this host must enforce a sandbox for t.
func (t *Task) sandboxed() bool { return t.Sandbox.Mode == RequiredSandbox && t.On() == LocalExecutor }

func (b *prober) sandbox(j *Job) {
	b.p.Sandbox = b.p.Sandbox || j.Spec.Task.sandboxed() && !b.s.facts.Sandbox.asked()
}

// wakesSandbox asks for nothing: what a host enforces changes only with a boot,
// which ends every scheduler.
func (t *tick) wakesSandbox(*prober, int32, verdict, int) (poll bool) { return false }

func (x *explainer) clearsSandbox(int32, verdict) string { return "a host that enforces it" }

func (x *explainer) remedySandbox(_ int32, v verdict) (does []Remedy, via JobID) {
	return []Remedy{{Kind: MeetCondition, Detail: v.detail}}, ""
}

package workflow

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

func (e *expander) node(src *nodeSource, n *node) {
	at := "nodes[" + src.id.Value + "]"
	n.wiring = src.wiring
	n.doubts = slices.Clone(n.doubts)
	e.id, e.doubts = src.id.Value, &n.doubts
	n.kind = orDefault(src.kind, kindBuiltin)
	n.use, n.known = lookup(src.uses.Value)
	name, sure := e.read(src.name, at, ".name")
	if err := kernel.CheckName(name); err != nil && sure {
		why := kernel.Said(err)
		e.wrong(src.name, "name "+why, "", ": "+why, []string{at, ".name"})
	}
	n.name = name
	n.args = e.arguments(n.use, src.args, at)
	n.needs = e.artifacts(src.needs, at+".needs")
	for _, o := range outcomes {
		n.produces[o] = e.artifacts(src.produces[o], at+".produces."+o.String())
	}
	for i, l := range src.locks {
		path := item(at+".locks", i)
		mode, _ := kernel.ParseLockMode(l.mode.Value)
		lock := kernel.Lock{Key: e.text(l.key, path, ".key"), Mode: mode, Units: e.count(l.units, 0, path, ".units")}
		if strings.TrimSpace(lock.Key) == "" && !n.doubts.about(item("locks", i)) {
			e.fail(l.pos, "empty lock key in "+path, "", []string{path, ".key"})
		}
		n.locks = append(n.locks, lock)
	}
	for i, p := range src.preconditions {
		e.precondition(n, p, item(at+".preconditions", i))
	}
	for i, g := range src.gates {
		n.gates = append(n.gates, e.gate(g, item(at+".gates", i)))
	}
	n.retryMode = e.word(src.retryMode, "retry mode", RetryNever, retryModes, at, ".retry.mode")
	n.retryBudget = e.count(src.retryBudget, 0, at, ".retry.budget")
	n.resumable = e.bool(src.resumable, at, ".resumable")
	n.resume = e.bool(src.resume, at, ".resume")
	if n.resume && n.known && !n.asksAgent() && !n.doubts.about("uses") {
		e.fail(src.resume.Pos, "resume has no effect: node `"+n.id.Value+"` asks no agent", "remove it, or write resumable for a node that goes on after a time-out",
			[]string{at, ".resume"})
	}
	n.idempotent = e.bool(src.idempotent, at, ".idempotent")
	n.inDoubt, _ = kernel.ParseInDoubt(e.word(src.inDoubt, "effect_in_doubt", inDoubts[0], inDoubts, at, ".effect_in_doubt"))
	n.executor = e.text(src.executor, at, ".executor")
	for i, o := range src.options {
		n.options = append(n.options, e.text(o, item(at+".options", i), ""))
	}
	n.timeout = e.duration(src.timeout, at, ".timeout")
	n.estimate = e.duration(src.estimate, at, ".estimate")
	n.approvalTimeout = e.duration(src.approvalTimeout, at, ".approval_timeout")
	if src.approvalTimeout.given() && !n.asks() && n.inDoubt != kernel.AskInDoubt && !n.doubts.about("gates", "effect_in_doubt", "args.required", "uses") {
		e.fail(src.approvalTimeout.Pos, "approval_timeout has no effect: node `"+n.id.Value+"` asks for no approval", "add an approval gate with required = true",
			[]string{at, ".approval_timeout"})
	}
	n.transient = e.transient(src.transient, at, ".transient")
	e.sandbox(src, n, at)
	e.secrets(src, n, at)
	e.container(src, n, at)
	e.budgets(src, n, at)
}

// sandbox reads the restrictions of the node's agent and scripts.
func (e *expander) sandbox(src *nodeSource, n *node, at string) {
	b := &n.sandbox
	b.Mode, _ = kernel.ParseSandboxMode(e.word(src.sandbox, "sandbox", sandboxModes[0], sandboxModes, at, ".sandbox"))
	b.Network, _ = kernel.ParseNetwork(e.word(src.network, "network", networks[0], networks, at, ".network"))
	for i, w := range src.write {
		b.Write = append(b.Write, e.text(w, item(at+".write", i), ""))
	}
	if (src.network.given() || len(src.write) > 0) && !b.On() && !n.doubts.about("sandbox") {
		e.fail(n.pos, "write and network have no effect: node `"+n.id.Value+"` has no sandbox", `add sandbox = "best-effort" or "required"`, []string{at, ".sandbox"})
	}
}

// secrets reads the secrets that the node's agent and scripts are given. A
// command among the sources runs outside of every sandbox, so a parameter may
// only be inserted in it as one quoted word.
func (e *expander) secrets(src *nodeSource, n *node, at string) {
	for i, t := range src.secrets {
		path := item(at+".secrets", i)
		text, sure := e.read(t, path)
		if !sure {
			continue
		}
		s, err := kernel.ParseSecret(text)
		_, isFile := s.File()
		for name := range e.spliced(t.Value) {
			if !isFile && err == nil {
				e.fail(t.Pos, "${"+name+"} in "+path+" becomes a part of a command", "write ${"+name+quotedForm+"}", []string{path})
			}
		}
		switch {
		case err != nil:
			e.fail(t.Pos, kernel.Said(err), `write NAME=@FILE or NAME=COMMAND, such as "TOKEN=@~/.token"`, []string{path})
		case slices.ContainsFunc(n.secrets, func(o kernel.Secret) bool { return o.Name == s.Name }):
			e.fail(t.Pos, "secret "+s.Name+" of node `"+n.id.Value+"` is given twice", "keep one of them", []string{path})
		}
		n.secrets = append(n.secrets, s)
	}
	if len(n.secrets) > 0 && n.executor != "" && n.executor != kernel.LocalExecutor && !n.doubts.about("executor") {
		e.fail(src.secrets[0].Pos, "secrets are handed to jobs of this host, and node `"+n.id.Value+"` is for executor "+n.executor, "have its script fetch them there", []string{at, ".secrets"})
	}
}

// container reads the image that the node's script runs in. What the
// configuration requires of sandboxes is checked where it is known.
func (e *expander) container(src *nodeSource, n *node, at string) {
	n.container = e.text(src.container, at, ".container")
	if src.container.given() && n.known && n.use.Class != EnvironmentShell && !n.doubts.about("uses", "container") {
		e.fail(src.container.Pos, "container has no effect: node `"+n.id.Value+"` runs no command of its own", "remove it: agents and Vizier's own operations run on the host",
			[]string{at, ".container"})
	}
	task := kernel.Task{Container: n.container, Sandbox: n.sandbox}
	if err := task.CheckContainer(); err != nil && !n.doubts.about("container", "sandbox") {
		e.fail(src.container.Pos, "node `"+n.id.Value+"`: "+kernel.Said(err), "", []string{at, ".container"})
	}
}

var (
	sandboxModes = []string{kernel.NoSandbox.String(), kernel.BestEffortSandbox.String(), kernel.RequiredSandbox.String()}
	networks     = []string{kernel.AnyNetwork.String(), kernel.NoNetwork.String()}
)

// budgets reads how often, and after what, a job runs again by itself. Values
// that would have no effect are findings.
func (e *expander) budgets(src *nodeSource, n *node, at string) {
	resumes := 0
	if n.resumable {
		resumes = defaultResumes
	}
	n.budget = kernel.Budget{
		Retries:  e.count(src.maxRetries, 0, at, ".max_retries"),
		Resumes:  e.count(src.maxResumes, resumes, at, ".max_resumes"),
		Reclaims: e.count(src.maxReclaims, n.reclaims(), at, ".max_reclaims"),
	}
	if src.maxResumes.given() && !n.resumable && !n.doubts.about("resumable") {
		e.fail(src.maxResumes.Pos, "max_resumes has no effect: node `"+n.id.Value+"` is not resumable", "add resumable = true", []string{at, ".max_resumes"})
	}
	if src.inDoubt.given() && n.known && !n.doubts.about("idempotent", "uses", "args", "gates", "max_reclaims") {
		why, hint := "", "remove it"
		switch {
		case n.idempotent:
			why = "is idempotent"
		case !n.mayBeInDoubt():
			why = "does nothing that cannot be looked up"
		case n.budget.Reclaims == 0:
			why, hint = "is not executed again when its runner is lost", "set max_reclaims = N"
		}
		if why != "" {
			e.fail(src.inDoubt.Pos, "effect_in_doubt has no effect: node `"+n.id.Value+"` "+why, hint, []string{at, ".effect_in_doubt"})
		}
	}
	e.retries(src, n, at)
	if len(src.retryOn) > 0 && n.budget.Retries == 0 && !n.doubts.about("retry", "max_retries") {
		e.fail(src.retryOn[0].Pos, "retry_on has no effect: node `"+n.id.Value+"` has no retries", "add max_retries = N", []string{at, ".retry_on"})
	}
	for i, t := range src.retryOn {
		e.retryOn(n, t, item(at+".retry_on", i))
	}
	if n.budget.Retries > 0 && len(src.retryOn) == 0 {
		for _, c := range defaultRetryOn {
			n.retry = n.retry.On(c)
		}
		if n.asksAgent() {
			n.retry = n.retry.On(kernel.RateLimited).On(kernel.Overloaded)
		}
	}
}

// retries checks that max_retries and the retry table agree.
func (e *expander) retries(src *nodeSource, n *node, at string) {
	if n.doubts.about("retry", "max_retries") {
		return
	}
	if n.retryMode == RetryOnFailure {
		switch {
		case !src.retryBudget.given() && !src.maxRetries.given():
			e.fail(src.retryMode.Pos, "retry mode on_failure of node `"+n.id.Value+"` has no budget", "add budget = N", []string{at, ".retry.budget"})
		case src.retryBudget.given() && src.maxRetries.given() && n.budget.Retries != n.retryBudget:
			e.fail(src.maxRetries.Pos, "max_retries and retry.budget of node `"+n.id.Value+"` disagree", "keep one of them", []string{at, ".max_retries"})
		case src.retryBudget.given():
			n.budget.Retries = n.retryBudget
		default:
			n.retryBudget = n.budget.Retries
		}
	}
	if n.retryMode == RetryNever && src.retryBudget.given() && n.retryBudget > 0 {
		e.fail(src.retryBudget.Pos, "retry.budget has no effect: the retry mode of node `"+n.id.Value+"` is never",
			"set mode = \"on_failure\" or \"until_gate\"", []string{at, ".retry.budget"})
	}
}

// retryOn parses a failure class or an exit code.
func (e *expander) retryOn(n *node, t Text, path string) {
	word, sure := e.read(t, path)
	var err error
	if n.retry, err = n.retry.Named(strings.TrimSpace(word)); err != nil && sure {
		e.fail(t.Pos, path+": "+kernel.Said(err), "", []string{path})
	}
	c, err := kernel.ParseFailureClass(strings.TrimSpace(word))
	why, hint := "", ""
	switch {
	case err != nil || !sure:
	case c.Resumes() && n.resumable && !n.doubts.about("resumable"):
		why, hint = "node `"+n.id.Value+"` is resumable", "remove one of them: such an attempt is resumed, up to max_resumes times"
	case c.Reclaims(n.budget.Reclaims) && n.budget.Reclaims > 0 && !n.doubts.about("idempotent", "max_reclaims"):
		why, hint = "such an attempt of node `"+n.id.Value+"` is reclaimed, up to max_reclaims times", "remove it"
	case c == kernel.WorkerLost:
		why, hint = "nobody knows whether such an attempt did its work", "if it may run again all the same, set idempotent = true instead"
	}
	if why != "" {
		e.fail(t.Pos, "retry_on "+c.String()+" has no effect: "+why, hint, []string{path})
	}
}

func (e *expander) artifacts(in []artifactSource, path string) []artifact {
	out := make([]artifact, 0, len(in))
	for _, src := range in {
		a := artifact{pos: src.pos}
		a.Kind = src.kind
		for _, f := range src.fields {
			v := e.text(f.Text, path, "[", strconv.Itoa(src.at), "].", src.kind.String(), ".", f.Key)
			if f.Key == artifactFields[src.kind][0] {
				a.Name = v
			} else {
				a.Ref = v
			}
		}
		if a.Kind == kernel.Custom {
			a.Name, a.version, _ = strings.Cut(a.Name, "@")
		}
		if a.Kind <= kernel.PlanCommits && a.Name == "" { // a plan named by its branch alone
			a.Name = strings.ReplaceAll(strings.TrimPrefix(a.Ref, "draft/"), "/", "-")
		}
		a.Artifact = a.Artifact.Canonical()
		a.path = path + "[" + strconv.Itoa(src.at) + "]." + src.kind.String()
		out = append(out, a)
	}
	return out
}

func (e *expander) precondition(n *node, src preconditionSource, path string) {
	branch := e.text(src.branch, path, ".branch")
	args := e.entries(src.args, path, ".args")
	if src.kind.Value == pinnedHead {
		pin := kernel.PinnedHead{Branch: branch, Commit: kernel.CommitID(strings.ToLower(strings.TrimSpace(e.text(src.oid, path, ".oid"))))}
		switch {
		case n.pinned != kernel.PinnedHead{}:
			e.fail(src.pos, "node `"+n.id.Value+"` pins more than one head", "", []string{path})
		case e.doubts.about(e.field([]string{path})):
		case pin.Branch == "" || !oid(string(pin.Commit)):
			e.fail(src.pos, "precondition `pinned_head` of node `"+n.id.Value+"` needs branch and oid, a full commit id", "", []string{path})
		}
		n.pinned = pin
		return
	}
	kind, _ := kernel.ParsePreconditionKind(src.kind.Value)
	p := kernel.Precondition{Kind: kind, ID: e.text(src.id, path, ".id"), Branch: branch}
	if kind == kernel.CustomPrecondition {
		p.Branch = args["branch"]
	}
	n.preconditions = append(n.preconditions, p)
}

func oid(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

func (e *expander) gate(src gateSource, path string) gate {
	return gate{
		pos: src.pos, kind: src.kind.Value,
		policy:      e.word(src.policy, "gate policy", PolicyBlock, gatePolicies, path, ".policy"),
		script:      e.script(src.script, path, ".script"),
		id:          e.text(src.id, path, ".id"),
		required:    e.bool(src.required, path, ".required"),
		autoResolve: e.bool(src.autoResolve, path, ".auto_resolve"),
		args:        e.entries(src.args, path, ".args"),
	}
}

// duration parses a Go duration, or a number of seconds.
func (e *expander) duration(t Text, path ...string) time.Duration {
	if !t.given() {
		return 0
	}
	s, sure := e.read(t, path...)
	s = strings.TrimSpace(s)
	d, err := time.ParseDuration(s)
	if secs, atoi := strconv.Atoi(s); atoi == nil && secs >= 0 && secs <= int(maxTimeout/time.Second) {
		d, err = time.Duration(secs)*time.Second, nil
	}
	if sure && (err != nil || d < time.Microsecond || d > maxTimeout) {
		e.invalid(t, "duration", s, "a duration such as 90s, 30m or 12h", path)
	}
	return d.Truncate(time.Microsecond)
}

// maxTimeout is longer than anything should run: a year.
const maxTimeout = 366 * 24 * time.Hour

func (e *expander) transient(t Text, path ...string) kernel.Transient {
	if !t.given() {
		return kernel.NotTransient
	}
	s, sure := e.read(t, path...)
	if on, ok := parseBool(s); ok {
		if on {
			return kernel.OnDemand
		}
		return kernel.NotTransient
	}
	m, err := kernel.ParseTransient(s)
	if err != nil && sure {
		e.invalid(t, "transient", s, "true, false or remove", path)
	}
	return m
}

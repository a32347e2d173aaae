package workflow

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// CompileOptions are the properties of a run that do not come from its
// template.
type CompileOptions struct {
	Run      kernel.RunID
	IDs      func(node string) kernel.JobID // mints ids, called in template order
	Selector string                         // how the template was chosen
	Alias    string                         // the [commands] alias, if any
	Command  []string                       // the command line, to be shown
	At       time.Time                      // when approvals were requested
	By       string                         // who requested them
	Head     func() (string, error)         // returns the branch that is checked out: merges that name no target go to it, and plans begin at it; nil or "": none is

	Ephemeral   bool   // everything made for the run is removed when it ends
	TraceParent string // the TraceParent of every job's kernel.Origin
}

// DefaultAgentTimeout is the timeout of an agent.invoke node that has none of
// its own.
const DefaultAgentTimeout = 12 * time.Hour

// Compile makes one job per node, in template order, and the run's manifest.
// It validates the template first and returns its findings.
func Compile(t *Template, o CompileOptions) ([]kernel.NewJob, Manifest, error) {
	g, err := validate(t)
	if err != nil {
		return nil, Manifest{}, err
	}
	c := &compiler{t: t, g: g, o: o, ids: make([]kernel.JobID, len(t.nodes)), hash: PolicyHash(t)}
	if c.targets, err = t.targets(g, o.Head); err != nil {
		return nil, Manifest{}, err
	}
	if c.origins, err = t.origins(o.Head); err != nil {
		return nil, Manifest{}, err
	}
	if c.head, err = t.headOf(o.Head); err != nil {
		return nil, Manifest{}, err
	}
	for i := range t.nodes {
		c.ids[i] = o.IDs(t.nodes[i].id.Value)
	}
	m := Manifest{Run: o.Run, Selector: o.Selector, TemplateID: t.ID, Version: t.Version, PolicyHash: c.hash,
		Policy: ManifestPolicy{t.policy.failureMode.String(), t.policy.missingProducer.String()},
		Params: t.Params, Nodes: make(map[string]ManifestNode, len(t.nodes))}
	jobs := make([]kernel.NewJob, len(t.nodes))
	for i := range t.nodes {
		jobs[i] = c.job(i)
		m.Nodes[t.nodes[i].id.Value] = c.node(i)
	}
	return jobs, m, nil
}

type compiler struct {
	t    *Template
	g    *graph
	o    CompileOptions
	ids  []kernel.JobID
	hash string

	targets []string // see Template.targets
	origins []string // see Template.origins
	head    string   // see Template.headOf
}

func (c *compiler) job(i int) kernel.NewJob {
	n := &c.t.nodes[i]
	spec := kernel.Spec{
		Name:            n.name,
		Origin:          c.origin(i),
		Needs:           sortedArtifacts(c.resolve(n.needs)),
		Produces:        sortedArtifacts(c.products(n)),
		ProducesOn:      c.productsOn(n),
		MissingProducer: c.t.policy.missingProducer,
		FailureMode:     c.t.policy.failureMode,
		Pinned:          n.pinned,
		Preconditions:   n.preconditions,
		Locks:           c.t.locksOf(i, c.g, c.targets[i], c.head),
		Routes:          c.routes(i),
		Routed:          c.g.routed[i],
		OwnsContext:     n.use.Operation == opPrepare,
		Transient:       n.transient,
		Budget:          n.budget,
		Retry:           n.retry,
		Resumable:       n.resumable,
		Idempotent:      n.idempotent,
		KeepSession:     n.resume,
		InDoubt:         n.inDoubt,
		ApprovalTimeout: n.approvalTimeout,
		Estimate:        n.estimate,
		Task: kernel.Task{Executor: n.executor, Options: n.options, Builtin: true, Timeout: n.timeout, Sandbox: n.sandbox, Secrets: n.secrets, Container: n.container,
			Args: []string{"__workflow-node", "--job-id", string(c.ids[i])}},
	}
	if spec.Task.Timeout == 0 && n.use.Operation == opAgent {
		spec.Task.Timeout = DefaultAgentTimeout
	}
	for _, p := range c.g.parents(i) {
		policy := kernel.AfterSuccess
		if c.g.soft(c.t, i, p) {
			policy = kernel.AfterAnyEnd
		}
		spec.RunsAfter(c.ids[p], policy)
	}
	job := kernel.NewJob{ID: c.ids[i], Spec: spec}
	if n.asks() {
		job.Approval = kernel.Require(c.o.At, c.o.By)
	}
	return job
}

func (c *compiler) origin(i int) kernel.Origin {
	n := &c.t.nodes[i]
	first := func(keys ...string) string {
		for _, k := range keys {
			if v := c.t.Params[k]; v != "" {
				return v
			}
		}
		return ""
	}
	o := kernel.Origin{Run: c.o.Run, Node: n.id.Value, Command: c.o.Command, Alias: c.o.Alias,
		Plan: first("slug", "plan"), Branch: first("branch"), Target: first("target_branch", "target"),
		Template:  kernel.Template{Selector: c.o.Selector, ID: c.t.ID, Version: c.t.Version, PolicyHash: c.hash},
		Ephemeral: c.o.Ephemeral, TraceParent: c.o.TraceParent,
		About: kernel.NodeInfo{Name: n.name, Class: string(n.use.Class), Operation: n.use.Operation, Control: n.use.Policy}}
	if o.Plan == "" && n.use.Operation == opIntegrate { // its arguments need not be parameters
		o.Plan = n.arg("slug", "plan")
		o.Branch = cmp.Or(n.arg(branches...), o.Branch)
	}
	if o.Branch == "" && o.Plan != "" {
		o.Branch = "draft/" + o.Plan
	}
	if o.Target == "" {
		o.Target = c.targets[i]
	}
	for _, g := range n.gates {
		o.About.Gates = append(o.About.Gates, g.String())
	}
	return o
}

// String returns the gate's summary in job records.
func (g gate) String() string {
	switch g.kind {
	case gateApproval:
		return "approval(required=" + strconv.FormatBool(g.required) + ")"
	case gateCICD:
		return "cicd(script=" + g.script + ", auto_resolve=" + strconv.FormatBool(g.autoResolve) + ")"
	case gateScript:
		return "script(" + g.script + ")"
	default:
		return "custom(" + g.id + ")"
	}
}

// resolve replaces the node ids in command patches by job ids.
func (c *compiler) resolve(in []artifact) []kernel.Artifact {
	out := make([]kernel.Artifact, len(in))
	for i, a := range in {
		out[i] = a.Artifact
		if a.node != "" {
			out[i].Name = string(c.ids[c.g.index[a.node]])
		}
	}
	return out
}

func (c *compiler) products(n *node) []kernel.Artifact {
	var all []artifact
	for _, o := range outcomes {
		all = append(all, n.produces[o]...)
	}
	return c.resolve(all)
}

// productsOn returns what n produces with each outcome; nil: all with success.
func (c *compiler) productsOn(n *node) (all []kernel.Products) {
	for _, o := range outcomes {
		if made := sortedArtifacts(c.resolve(n.produces[o])); len(made) > 0 {
			all = append(all, kernel.Products{On: o, Artifacts: made})
		}
	}
	if len(all) == 1 && all[0].On == kernel.OutcomeSucceeded {
		return nil
	}
	return all
}

// edges returns i's targets on an outcome and the mode of each edge, ordered by
// node id.
func (c *compiler) edges(i int, o kernel.Outcome) (to []int, mode []RouteMode) {
	n := &c.t.nodes[i]
	if o == kernel.OutcomeFailed && n.retryMode == RetryUntilGate && n.retryBudget == 0 {
		return nil, nil // the gate blocks at once
	}
	to = c.g.find(n.on[o])
	slices.SortFunc(to, func(a, b int) int { return strings.Compare(c.t.nodes[a].id.Value, c.t.nodes[b].id.Value) })
	for _, t := range to {
		m := RetryJob
		if o == kernel.OutcomeSucceeded && !c.g.back[[2]int{i, t}] {
			m = PropagateContext
		}
		mode = append(mode, m)
	}
	return to, mode
}

func (c *compiler) routes(i int) []kernel.Route {
	var out []kernel.Route
	for _, o := range outcomes {
		to, _ := c.edges(i, o)
		for _, t := range to {
			r := kernel.Route{On: o, To: c.ids[t]}
			if o == kernel.OutcomeFailed && c.t.nodes[i].retryMode == RetryUntilGate {
				r.Budget = c.t.nodes[i].retryBudget
			}
			out = append(out, r)
		}
	}
	return out
}

func (c *compiler) node(i int) ManifestNode {
	n := &c.t.nodes[i]
	m := ManifestNode{Node: n.id.Value, Name: n.name, Job: c.ids[i], Uses: n.uses.Value, Kind: n.kind, Args: n.args,
		Operation: n.use.Operation, Control: n.use.Policy, Gates: make([]ManifestGate, 0, len(n.gates)),
		Retry: ManifestRetry{n.retryMode, n.retryBudget}, Needs: records(sortedArtifacts(c.resolve(n.needs))),
		Routes: make(map[string][]ManifestRoute, len(outcomes)), Artifacts: make(map[string][]ArtifactRecord, len(outcomes))}
	if target := c.targets[i]; target != "" {
		m.Args = maps.Clone(n.args)
		m.Args[argTarget] = target
	}
	if from := c.origins[i]; from != "" {
		m.Args = maps.Clone(n.args)
		m.Args[argFrom] = from
	}
	for _, g := range n.gates {
		m.Gates = append(m.Gates, ManifestGate{g.kind, g.policy, g.script, g.autoResolve, g.required, g.id, g.args})
	}
	for _, o := range outcomes {
		to, mode := c.edges(i, o)
		routes := make([]ManifestRoute, len(to))
		for k, t := range to {
			routes[k] = ManifestRoute{c.t.nodes[t].id.Value, mode[k]}
		}
		m.Routes[o.String()] = routes
		m.Artifacts[o.String()] = records(sortedArtifacts(c.resolve(n.produces[o])))
	}
	return m
}

func records(as []kernel.Artifact) []ArtifactRecord {
	out := make([]ArtifactRecord, len(as))
	for i, a := range as {
		out[i] = RecordOf(a)
	}
	return out
}

// sortedArtifacts returns the artifacts without their positions, sorted by
// label and without duplicates.
func sortedArtifacts(in []kernel.Artifact) []kernel.Artifact {
	slices.SortFunc(in, func(a, b kernel.Artifact) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(in)
}

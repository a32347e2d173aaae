package workflow

import (
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Template is a composed template without placeholders, whose values are
// parsed. Compile and Findings check whether it makes sense.
type Template struct {
	ID, Version string
	Params      map[string]string // as bound

	pos       Pos
	policy    policy
	contracts []contract
	nodes     []node
	warnings  Diagnostics
	doubts    doubts // doubts about everything but its nodes
}

// Nodes returns the number of nodes of the template.
func (t *Template) Nodes() int { return len(t.nodes) }

// policy holds the rules of a template for all its nodes.
type policy struct {
	resumeKey, reuseMode Text
	failureMode          kernel.FailureMode
	missingProducer      kernel.MissingProducer
}

type contract struct {
	pos         Pos
	id, version string
	schema      *Value
	doubtful    bool
}

type node struct {
	wiring
	name            string
	kind            string
	use             Use  // zero if uses is unknown
	known           bool // uses is in the inventory
	args            map[string]string
	needs           []artifact
	produces        perOutcome[artifact]
	locks           []kernel.Lock
	preconditions   []kernel.Precondition
	pinned          kernel.PinnedHead
	gates           []gate
	retryMode       string
	retryBudget     int
	budget          kernel.Budget
	retry           kernel.RetryPolicy
	timeout         time.Duration
	approvalTimeout time.Duration
	estimate        time.Duration // how long an attempt is expected to take
	resumable       bool
	resume          bool // the agent continues its conversation
	idempotent      bool
	inDoubt         kernel.InDoubt
	transient       kernel.Transient
	executor        string
	options         []string // options for the executor
	sandbox         kernel.Sandbox
	secrets         []kernel.Secret
	container       string
}

// artifact is a need or a product, with the contract version that it names, if
// any.
type artifact struct {
	kernel.Artifact
	node    string // of a command_patch: the node of this template whose job makes it
	version string
	pos     Pos
	path    string

	implicit bool // it is not declared: see Template.outputs
}

type gate struct {
	pos                      Pos
	kind, policy, script, id string
	required, autoResolve    bool
	args                     map[string]string
}

// arg returns the first argument of keys that is not blank.
func (n *node) arg(keys ...string) string {
	for _, k := range keys {
		if v := strings.TrimSpace(n.args[k]); v != "" {
			return v
		}
	}
	return ""
}

// asks reports whether n waits for a person before it starts: an approval gate
// of its own requires it, or n is itself a gate for approvals, and neither its
// argument nor its own gate says otherwise.
func (n *node) asks() bool {
	own := n.gatesOf(gateApproval)
	if slices.ContainsFunc(own, func(g gate) bool { return g.required }) {
		return true
	}
	required, given := parseBool(n.arg("required"))
	return n.use.Policy == policyApproval && (required || !given && len(own) == 0)
}

func (n *node) gatesOf(kind string) []gate {
	var out []gate
	for _, g := range n.gates {
		if g.kind == kind {
			out = append(out, g)
		}
	}
	return out
}

// autoResolve reports whether a conflict or CI gate may repair a failure by
// itself, by the node's argument or else its gate's.
func (n *node) autoResolve() bool {
	if v := n.arg("auto_resolve"); v != "" {
		on, _ := parseBool(v)
		return on
	}
	for _, g := range n.gates {
		on, _ := parseBool(g.args["auto_resolve"])
		if g.autoResolve || g.kind == gateCustom && on {
			return true
		}
	}
	return false
}

// parseBool parses the words for booleans that original templates use.
func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "1", "yes", "on":
		return true, true
	case "false", "0", "no", "off":
		return false, true
	}
	return false, false
}

// Inline gives every node that persists a plan from a file the text of that
// file, which read returns, so that the run uses the text as it was when the
// run was enqueued. A node with spec_source = file reads the file at run time
// instead.
func (t *Template) Inline(read func(path string) (string, error)) error {
	var r report
	for i := range t.nodes {
		n := &t.nodes[i]
		if n.use.Operation != opPlan || n.arg("spec_text") != "" || n.arg("spec_file") == "" || n.arg("spec_source") == "file" || n.unsure([]string{"spec_file"}) {
			continue
		}
		path := n.arg("spec_file")
		text, err := read(path)
		if err != nil {
			r.add(Diagnostic{Pos: n.pos, Node: n.id.Value,
				Msg: "workflow node `" + n.id.Value + "` could not read spec file `" + path + "` during enqueue: " + err.Error()})
			continue
		}
		if strings.TrimSpace(text) == "" {
			r.add(Diagnostic{Pos: n.pos, Node: n.id.Value,
				Msg: "workflow node `" + n.id.Value + "` has no specification: spec file `" + path + "` is empty"})
			continue
		}
		n.args["spec_text"] = text
	}
	return r.err()
}

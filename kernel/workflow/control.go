package workflow

import (
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Seen is the execution of a control node so far.
type Seen struct {
	Exits    []int                // exit codes of what it ran, in order
	Sentinel bool                 // a merge conflict of its plan is open
	Unmerged bool                 // files are left to resolve
	Unstaged bool                 // they are not in conflict any more: somebody has resolved them, and changed something since
	Merged   bool                 // the merge whose conflicts it resolves has succeeded
	Approval kernel.ApprovalState // of its job
	Loops    int                  // how often its on.failed has sent the run back since the last rewind by a person
}

// Run is the kind of thing that a step runs.
type Run uint8

// Nothing is the zero value: the node has ended.
const (
	Nothing Run = iota
	RunScript
	RunAgent // with the merge-conflict prompt
)

// Step is what a control node does next: run something and call Control again
// with its exit code, or end.
type Step struct {
	Run    Run
	Script string // of RunScript

	Outcome       kernel.Outcome // of a node that has ended; its routes are taken
	Exit          int
	Reason        string
	ClearSentinel bool // the conflict is resolved
}

// exitBlocked is the exit code of a node that ends as blocked.
const exitBlocked = 10

func succeeded(reason string) Step { return Step{Outcome: kernel.OutcomeSucceeded, Reason: reason} }

func failed(exit int, reason string) Step {
	return Step{Outcome: kernel.OutcomeFailed, Exit: max(exit, 1), Reason: reason}
}

func blocked(reason string) Step {
	return Step{Outcome: kernel.OutcomeBlocked, Exit: exitBlocked, Reason: reason}
}

// Control decides what n does next, given what was seen so far. It decides for
// operations too: cicd.run consists of its script alone, and the gate of any
// other operation is checked after the operation has succeeded; an operation
// without a gate has simply succeeded. Control is total and ends after at most
// three runs.
func Control(n ManifestNode, s Seen) Step {
	switch n.Control {
	case policyStop:
		return stopCondition(n, s)
	case policyConflict:
		return conflict(n, s)
	case policyApproval:
		return approval(n, s)
	case policyTerminal:
		for _, o := range outcomes {
			if len(n.Routes[o.String()]) > 0 {
				return failed(1, "terminal policy node must not declare outgoing routes")
			}
		}
		return succeeded("")
	default:
		return cicd(n, s)
	}
}

// gate returns n's script or CI gate, if it has one that runs something. The
// arguments of cicd.run take precedence over its gate's script.
func (n ManifestNode) gate() (ManifestGate, bool) {
	own := ""
	if n.Operation == opCICD {
		own = n.arg(scripts...)
	}
	for _, g := range n.Gates {
		if g.Kind != gateScript && g.Kind != gateCICD {
			continue
		}
		if own != "" {
			g.Script = own
		}
		if strings.TrimSpace(g.Script) != "" {
			return g, true
		}
	}
	return ManifestGate{Kind: gateCICD, Policy: PolicyBlock, Script: own}, own != ""
}

func (n ManifestNode) arg(keys ...string) string {
	for _, k := range keys {
		if v := strings.TrimSpace(n.Args[k]); v != "" {
			return v
		}
	}
	return ""
}

func (n ManifestNode) autoResolve() bool {
	if v, ok := parseBool(n.arg("auto_resolve")); ok {
		return v
	}
	for _, g := range n.Gates {
		if v, _ := parseBool(g.Args["auto_resolve"]); v || g.AutoResolve {
			return true
		}
	}
	return false
}

// failing returns the step that a gate's policy prescribes for a failed check.
// more says how an attempt to repair it ended; "": there was none.
func failing(n ManifestNode, g ManifestGate, exit int, more string) Step {
	what := "the " + g.Kind + " gate of " + n.Node
	if n.Operation == opIntegrate {
		what = "the check before the merge of " + n.Node
	}
	reason := fmt.Sprintf("%s failed (exit %d)%s", what, exit, more)
	if g.Policy == PolicyWarn {
		return succeeded("warning: " + reason)
	}
	return failed(exit, reason)
}

func stopCondition(n ManifestNode, s Seen) Step {
	g, ok := n.gate()
	switch {
	case !ok:
		return succeeded("skipped: no stop condition script")
	case len(s.Exits) == 0:
		return Step{Run: RunScript, Script: g.Script}
	case s.Exits[0] == 0:
		return succeeded("the stop condition holds")
	case n.Retry.Mode == RetryUntilGate && g.Policy != PolicyWarn && s.Loops >= n.Retry.Budget:
		return blocked(fmt.Sprintf("the stop condition of %s does not hold (exit %d) and its retry budget is exhausted (%d)", n.Node, s.Exits[0], n.Retry.Budget))
	default:
		return failing(n, g, s.Exits[0], "")
	}
}

func cicd(n ManifestNode, s Seen) Step {
	g, ok := n.gate()
	fix := n.arg("auto_resolve_command", "auto_resolve_script")
	switch {
	case !ok && n.Control == "":
		return succeeded("")
	case !ok:
		return succeeded("skipped: no CI script")
	case len(s.Exits) == 0:
		return Step{Run: RunScript, Script: g.Script}
	case s.Exits[0] == 0:
		return succeeded("")
	case fix == "" || !n.autoResolve():
		return failing(n, g, s.Exits[0], "")
	case len(s.Exits) == 1:
		return Step{Run: RunScript, Script: fix}
	case s.Exits[1] != 0:
		return failing(n, g, s.Exits[0], fmt.Sprintf(" and its auto_resolve script as well (exit %d; its output is in the job's log)", s.Exits[1]))
	case len(s.Exits) == 2:
		return Step{Run: RunScript, Script: g.Script}
	case s.Exits[2] != 0:
		return failing(n, g, s.Exits[0], fmt.Sprintf(", and again (exit %d) after its auto_resolve script", s.Exits[2]))
	default:
		return succeeded("repaired by the auto_resolve script")
	}
}

// conflict decides for a node that is only woken by its merge's on.blocked. What is only not
// staged yet is a person's, who may be at work on it, and nobody else is asked about it. If
// there is no conflict, something else blocks the merge, such as uncommitted
// changes, and sending the run back would only block it again; or a person retried
// the node after the merge had succeeded.
func conflict(n ManifestNode, s Seen) Step {
	script := n.arg("auto_resolve_command", "auto_resolve_script")
	ran := len(s.Exits) > 0
	asks := s.Unmerged && !s.Unstaged && !ran && n.autoResolve()
	switch {
	case !s.Sentinel && s.Merged:
		return succeeded("nothing is left to resolve: the merge has succeeded")
	case !s.Sentinel:
		return blocked(kernel.NoConflict + ": see to what the merge says is in its way, and retry the merge")
	case asks && script != "":
		return Step{Run: RunScript, Script: script}
	case asks:
		return Step{Run: RunAgent}
	case ran && s.Exits[0] != 0 && script != "":
		return failed(s.Exits[0], fmt.Sprintf("the script that resolves conflicts failed (exit %d)", s.Exits[0]))
	case ran && s.Exits[0] != 0:
		return failed(s.Exits[0], fmt.Sprintf("the agent that resolves conflicts failed (exit %d)", s.Exits[0]))
	case s.Unmerged:
		return blocked("the merge conflict is not resolved")
	default:
		st := succeeded("the merge conflict is resolved")
		st.ClearSentinel = true
		return st
	}
}

func approval(n ManifestNode, s Seen) Step {
	if required, ok := parseBool(n.arg("required")); ok && !required {
		return succeeded("no approval required")
	}
	switch s.Approval {
	case kernel.Approved:
		return succeeded("approved")
	case kernel.Pending:
		return blocked("approval gate blocked: approval is pending")
	case kernel.Rejected:
		return failed(exitBlocked, "approval was rejected")
	default: // the template asks nobody, or a person has started the run without it
		return succeeded("no approval was asked for")
	}
}

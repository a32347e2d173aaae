package workflow

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Class says who executes an operation. The zero value is that of a control
// policy.
type Class string

// The classes of seed 000.
const (
	EnvironmentBuiltin Class = "environment_builtin"
	EnvironmentShell   Class = "environment_shell"
	Agent              Class = "agent"
)

// Use is one row of the inventory: an operation or control policy that a node
// may use.
type Use struct {
	Label     string // uses = "…"
	Class     Class  // of an operation; "" for a control policy
	Operation string // "" for a control policy
	Policy    string // control policy; "" for an operation

	// Reconcilable operations can be executed again after a lost runner without
	// a second effect, so their nodes may be reclaimed by default (semantics 2,
	// decision 5).
	Reconcilable bool

	// WritesTree operations change the files or the index of the directory
	// they run in.
	WritesTree bool

	// AnyOf, OneOf and AllOrNone are rules about arguments that are not
	// blank: at least one, exactly one, all or none of them.
	AnyOf, OneOf, AllOrNone []string

	// Args are the arguments that it reads. A node may have others, which
	// prompts can use.
	Args []string

	// PathList is an argument that must be a JSON list of strings.
	PathList string

	// NoScript refuses the arguments command and script.
	NoScript bool
}

// The operations and policies that rules and the runtime refer to.
const (
	opPrompt       = "prompt.resolve"
	opAgent        = "agent.invoke"
	opPrepare      = "worktree.prepare"
	opCleanup      = "worktree.cleanup"
	opPlan         = "plan.persist"
	opStageCommit  = "git.stage_commit"
	opCommit       = "git.commit"
	opIntegrate    = "git.integrate_plan_branch"
	opSavePatch    = "git.save_worktree_patch"
	opCommand      = "command.run"
	opCICD         = "cicd.run"
	policyStop     = "gate.stop_condition"
	policyConflict = "gate.conflict_resolution"
	policyCICD     = "gate.cicd"
	policyApproval = "gate.approval"
	policyTerminal = "terminal"
)

const (
	builtinPrefix = "cap.env.builtin."
	shellPrefix   = "cap.env.shell."
	controlPrefix = "control."
)

var (
	scripts  = []string{"command", "script"}
	branches = []string{"branch", "source_branch", "plan_branch"}
	messages = []string{"message", "commit_message"}
	repairs  = []string{"auto_resolve", "auto_resolve_script", "auto_resolve_command"}
)

// Inventory returns everything a node may use, in the order of seed 000: 18 operations, one
// of them with two labels, and 5 policies. Most commands need no template, and must not pay
// for it at their start.
func Inventory() []Use {
	return []Use{
		builtin(opPrompt, Use{NoScript: true, Args: []string{"prompt_text", "prompt_file"}}),
		shell(opPrompt, Use{OneOf: scripts}),
		{Label: "cap.agent.invoke", Class: Agent, Operation: opAgent, WritesTree: true, NoScript: true},
		builtin(opPrepare, Use{AnyOf: []string{"branch", "slug", "plan"}, Args: []string{"purpose", argFrom}}),
		builtin(opCleanup, Use{}),
		builtin(opPlan, Use{WritesTree: true, AnyOf: []string{"spec_text", "spec_file"}, Args: []string{"spec_source", "name_override", "slug", "branch",
			"plan_body", "plan_text", "content", "plan_id", "intent", "target_branch", "target"}}),
		builtin(opStageCommit, Use{WritesTree: true, Args: append(messages[:2:2], "allow_empty")}),
		builtin("git.stage", Use{WritesTree: true, PathList: "files_json"}),
		builtin(opCommit, Use{WritesTree: true, Args: messages}),
		builtin(opIntegrate, Use{AnyOf: slices.Concat(branches, []string{"slug", "plan"}), Args: slices.Concat(targetArgs, []string{"squash", "delete_branch", "message"})}),
		builtin(opSavePatch, Use{}),
		builtin("patch.pipeline_prepare", Use{PathList: "files_json"}),
		builtin("patch.execute_pipeline", Use{WritesTree: true, PathList: "files_json"}),
		builtin("patch.pipeline_finalize", Use{}),
		builtin("build.materialize_step", Use{AllOrNone: []string{"build_id", "step_key", "slug", "branch", "target"}, Args: []string{"pipeline"}}),
		builtin("merge.sentinel.write", Use{Args: slices.Concat(branches, targetArgs, []string{"slug", "plan"})}),
		builtin("merge.sentinel.clear", Use{Args: []string{"slug", "plan"}}),
		shell(opCommand, Use{AnyOf: scripts}),
		shell(opCICD, Use{Args: slices.Concat(scripts, targetArgs, repairs)}),
		control(policyStop),
		control(policyConflict, slices.Concat(targetArgs, repairs, []string{"slug", "plan", "prompt_file", "prompt_text"})...),
		control(policyCICD, slices.Concat(targetArgs, repairs)...),
		control(policyApproval, "required"),
		control(policyTerminal),
	}
}

func builtin(op string, u Use) Use {
	u.Label, u.Class, u.Operation, u.Reconcilable = builtinPrefix+op, EnvironmentBuiltin, op, true
	return u
}

func shell(op string, u Use) Use {
	u.Label, u.Class, u.Operation = shellPrefix+op, EnvironmentShell, op
	return u
}

func control(policy string, args ...string) Use {
	return Use{Label: controlPrefix + policy, Policy: policy, Reconcilable: true, NoScript: true, Args: args}
}

// Anywhere reports whether n is independent of the working tree that its run
// was enqueued from.
func (n *ManifestNode) Anywhere() bool {
	switch n.Operation {
	case opIntegrate, opCleanup, "merge.sentinel.write", "merge.sentinel.clear":
		return true
	}
	return slices.Contains([]string{policyConflict, policyApproval, policyTerminal}, n.Control) || n.JudgedBranch() != ""
}

// JudgedBranch returns the branch that n's CI script judges, in a worktree of
// its own, or "" if it judges what is in n's own execution root.
func (n *ManifestNode) JudgedBranch() string {
	if n.Control != policyCICD && n.Operation != opCICD {
		return ""
	}
	return cmp.Or(strings.TrimSpace(n.Args["target_branch"]), strings.TrimSpace(n.Args["target"]))
}

// arguments returns all arguments that it reads.
func (u Use) arguments() []string {
	out := slices.Concat(u.Args, u.AnyOf, u.OneOf, u.AllOrNone)
	if u.PathList != "" {
		out = append(out, u.PathList)
	}
	return out
}

func lookup(label string) (Use, bool) {
	for _, u := range Inventory() {
		if u.Label == label {
			return u, true
		}
	}
	return Use{}, false
}

// Kinds of node.
const (
	kindBuiltin = "builtin"
	kindAgent   = "agent"
	kindShell   = "shell"
	kindGate    = "gate"
	kindCustom  = "custom"
)

var kinds = []string{kindBuiltin, kindAgent, kindShell, kindGate, kindCustom}

// kindClass is the class of operations that a node of each kind may use.
var kindClass = map[string]Class{kindBuiltin: EnvironmentBuiltin, kindAgent: Agent, kindShell: EnvironmentShell, kindCustom: EnvironmentShell}

// The kinds of gates, and of a precondition that the kernel keeps in a field of
// its own.
const (
	gateApproval = "approval"
	gateScript   = "script"
	gateCICD     = "cicd"
	gateCustom   = "custom"
	pinnedHead   = "pinned_head"

	customConflict = "conflict_resolution" // the only custom gate with a meaning
)

// The policies for a failing gate (semantics 3.15).
const (
	PolicyBlock = "block" // the node ends as failed; the default
	PolicyWarn  = "warn"  // the node succeeds, and its reason says what failed
	PolicyRetry = "retry" // the node ends as failed and its retry rule applies
)

var gatePolicies = []string{PolicyBlock, PolicyWarn, PolicyRetry}

// Modes of [nodes.retry].
const (
	RetryNever     = "never"
	RetryOnFailure = "on_failure" // the node itself is executed again
	RetryUntilGate = "until_gate" // a stop condition sends the run back by its on.failed
)

var retryModes = []string{RetryNever, RetryOnFailure, RetryUntilGate}

// runsScript reports whether executing n runs a script of the user's, so that
// it must not be executed again without permission.
func (n *node) runsScript() bool {
	for _, g := range n.gates {
		if g.script != "" {
			return true
		}
	}
	for _, key := range []string{"auto_resolve_command", "auto_resolve_script"} {
		if n.args[key] != "" {
			return true
		}
	}
	return n.use.Policy == policyConflict && n.autoResolve()
}

// asksAgent reports whether executing n may run an agent.
func (n *node) asksAgent() bool { return n.use.Operation == opAgent || n.use.Policy == policyConflict }

// mayBeInDoubt reports whether an effect of n can be in doubt: nobody can tell
// afterwards whether it was made.
func (n *node) mayBeInDoubt() bool { return !n.use.Reconcilable || n.runsScript() }

// reclaims returns the default budget for reclaims of a node.
func (n *node) reclaims() int {
	if n.idempotent || n.inDoubt != kernel.FailInDoubt || !n.mayBeInDoubt() {
		return defaultReclaims
	}
	return 0
}

// inDoubts are the policies for effects in doubt; the first is the default.
var inDoubts = []string{kernel.FailInDoubt.String(), kernel.AskInDoubt.String(), kernel.RerunInDoubt.String()}

const (
	defaultReclaims = 2
	defaultResumes  = 3 // seed 002's default
)

// defaultRetryOn are the classes that max_retries covers if retry_on is not
// given. For nodes that run an agent, the failures of a provider that may
// answer later are added.
var defaultRetryOn = []kernel.FailureClass{kernel.ExitFailure, kernel.Timeout, kernel.Signal, kernel.OutOfMemory, kernel.Preflight}

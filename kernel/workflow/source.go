package workflow

import (
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Text is a value as it was written, with its position. Integers and booleans
// are text as well, since ${name} may stand for them.
type Text struct {
	Value string
	Pos   Pos
}

// given reports whether the key was present, whatever its value.
func (t Text) given() bool { return t.Pos != Pos{} }

// Entry is a key of a map from names to text.
type Entry struct {
	Key string
	Text
}

// Source is a template as it was written. It exports only what a front end
// needs; the rest is for Compose, Expand and validate.
type Source struct {
	File    string // "" for one that did not come from a file
	ID      Text
	Version Text
	CLI     CLI
	Params  []Entry // defaults
	Imports []Import

	config    []Entry // parameter → key of the repository's configuration
	policy    policySource
	contracts []contractSource
	nodes     []nodeSource
	links     []linkSource
	doubts    doubts // doubts about everything but the nodes that were read
}

// CLI maps the words of a command line to parameters.
type CLI struct {
	Positional []Text  // parameters, in order
	Named      []Entry // alias → parameter
}

// Import is a stage: another template, with the name that it has here.
type Import struct {
	Name Text
	Path Text // relative to the importing file's directory
}

type linkSource struct {
	pos      Pos
	from, to Text
}

type policySource struct {
	failureMode, missingProducer, resumeKey, reuseMode Text
}

type contractSource struct {
	pos         Pos
	id, version Text
	schema      *Value
	doubtful    bool // its value is in doubt
}

// perOutcome is indexed by kernel.Outcome.
type perOutcome[T any] [kernel.OutcomeCancelled + 1][]T

// outcomes is in the order in which everything is listed.
var outcomes = [...]kernel.Outcome{kernel.OutcomeSucceeded, kernel.OutcomeFailed, kernel.OutcomeBlocked, kernel.OutcomeCancelled}

// wiring is the position of a node in the graph. Nothing in it is expanded.
type wiring struct {
	pos      Pos
	id       Text
	uses     Text
	after    []Text
	afterAny []Text // the part of after for which any end will do
	on       perOutcome[Text]

	doubts doubts // fields of the node, such as args.script

	staged bool    // it came from an imported template,
	stage  []Entry // which declares these parameters
}

type nodeSource struct {
	wiring
	name            Text
	kind            Text
	args            []Entry
	needs           []artifactSource
	produces        perOutcome[artifactSource]
	locks           []lockSource
	preconditions   []preconditionSource
	gates           []gateSource
	retryMode       Text
	retryBudget     Text
	timeout         Text
	approvalTimeout Text
	estimate        Text
	maxRetries      Text
	maxResumes      Text
	maxReclaims     Text
	resumable       Text
	resume          Text
	idempotent      Text
	inDoubt         Text
	transient       Text
	executor        Text
	options         []Text
	retryOn         []Text
	sandbox         Text
	write           []Text
	network         Text
	secrets         []Text
	container       Text
}

type artifactSource struct {
	pos    Pos
	at     int // the index in its list
	kind   kernel.ArtifactKind
	fields []Entry
}

type lockSource struct {
	pos              Pos
	key, mode, units Text
}

type preconditionSource struct {
	pos                   Pos
	kind, id, branch, oid Text
	args                  []Entry
}

type gateSource struct {
	pos                                             Pos
	kind, policy, required, script, autoResolve, id Text
	args                                            []Entry
}

// AsksAgent reports whether a node of s runs an agent. A gate that may ask an
// agent for help does not count.
func (s *Source) AsksAgent() bool {
	return slices.ContainsFunc(s.nodes, func(n nodeSource) bool { u, _ := lookup(n.uses.Value); return u.Operation == opAgent })
}

// param returns the default of a parameter.
func (s *Source) param(name string) (Text, bool) {
	for _, p := range s.Params {
		if p.Key == name {
			return p.Text, true
		}
	}
	return Text{}, false
}

func (s *Source) paramNames() []string {
	names := make([]string, len(s.Params))
	for i, p := range s.Params {
		names[i] = p.Key
	}
	return names
}

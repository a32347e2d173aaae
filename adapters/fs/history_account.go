package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// accountRecord is an entry's account as the journal keeps it
// (docs/formats/history.md).
type (
	accountRecord struct {
		At         stamp                   `json:"at"`
		Written    stamp                   `json:"written"` // the time that the entry's records have
		Program    string                  `json:"program,omitempty"`
		Limits     *limitsRecord           `json:"limits,omitempty"`
		Unjudged   []kernel.JobID          `json:"unjudged,omitempty"`
		Unreadable map[kernel.JobID]string `json:"unreadable,omitempty"`
		ByFacts    bool                    `json:"by_facts,omitempty"`
		Carried    int                     `json:"carried,omitempty"`
		Steps      []stepRecord            `json:"steps,omitempty"`
		Found      map[kernel.JobID][]byte `json:"found,omitempty"` // records as others had left them, in base64: they may be anything; "": gone
	}
	limitsRecord struct {
		MaxRunning    int            `json:"max_running,omitempty"`
		Executors     map[string]int `json:"executors,omitempty"`
		Pools         map[string]int `json:"pools,omitempty"`
		Grace         string         `json:"grace,omitempty"`
		Remote        bool           `json:"remote,omitempty"`
		OthersApprove bool           `json:"others_approve,omitempty"`
	}
	stepRecord struct {
		Verb  string       `json:"verb"`
		Args  *verbArgs    `json:"args,omitempty"`
		Seen  string       `json:"seen,omitempty"` // "open" or "all" records; "": those that are near
		Facts *factsRecord `json:"facts,omitempty"`
	}
	factsRecord struct {
		Present []presentFact    `json:"present,omitempty"`
		Markers []markersFact    `json:"markers,omitempty"`
		Heads   []headFact       `json:"heads,omitempty"`
		Head    *textFact        `json:"head,omitempty"`
		Clean   *cleanFact       `json:"clean,omitempty"`
		Merging *textFact        `json:"merging,omitempty"`
		Runners []runnerFact     `json:"runners,omitempty"`
		Results []resultFact     `json:"results,omitempty"`
		Sandbox *enforcementFact `json:"sandbox,omitempty"`
	}
	presentFact struct {
		Artifact artifactRecord `json:"artifact"`
		Is       bool           `json:"is,omitempty"`
		Error    string         `json:"error,omitempty"`
	}
	markersFact struct {
		Artifact artifactRecord `json:"artifact"`
		Of       []kernel.JobID `json:"of,omitempty"`
		Error    string         `json:"error,omitempty"`
	}
	headFact struct {
		Branch string `json:"branch"`
		OID    string `json:"oid,omitempty"`
		Error  string `json:"error,omitempty"`
	}
	textFact struct {
		Is    string `json:"is,omitempty"`
		Error string `json:"error,omitempty"`
	}
	cleanFact struct {
		Is    bool   `json:"is,omitempty"`
		Error string `json:"error,omitempty"`
	}
	runnerFact struct { // without Began, which no decision reads
		Job     kernel.JobID `json:"job"`
		N       int          `json:"n"`
		Is      string       `json:"is"`
		Remark  string       `json:"remark,omitempty"`
		Heard   *stamp       `json:"heard,omitempty"`
		Late    bool         `json:"late,omitempty"`
		Pending bool         `json:"pending,omitempty"`
		Stuck   bool         `json:"stuck,omitempty"`
	}
	resultFact struct {
		Job    kernel.JobID    `json:"job"`
		N      int             `json:"n"`
		Result json.RawMessage `json:"result,omitempty"` // an outcome.json
		Error  string          `json:"error,omitempty"`
	}
	enforcementFact struct {
		Files   string `json:"files,omitempty"`
		Network string `json:"network,omitempty"`
		Error   string `json:"error,omitempty"`
	}
)

// seenNames are the words for history.Seen.
var seenNames = kernel.NewNames[history.Seen]("kind of view", "", "open", "all") //nolint:gochecknoglobals // constant

// livenessNames are the words for kernel.Liveness.
var livenessNames = kernel.NewNames[kernel.Liveness]("liveness", "unknown", "alive", "dead", "stalled", "never_started") //nolint:gochecknoglobals // constant

// limits returns the limits of r; none if r is nil.
func (r *limitsRecord) limits() (kernel.Limits, error) {
	if r == nil {
		return kernel.Limits{}, nil
	}
	var d decoder
	return kernel.Limits{MaxRunning: r.MaxRunning, Executors: r.Executors, Pools: r.Pools, Remote: r.Remote, OthersApprove: r.OthersApprove,
		Grace: parsed(&d, "limits.grace", r.Grace, time.ParseDuration)}, d.err
}

// newAccount returns a as a record.
func newAccount(a history.Account) (accountRecord, error) {
	r := accountRecord{At: stamp(a.At), Unjudged: a.Unjudged, Unreadable: a.Unreadable, ByFacts: a.ByFacts, Carried: a.Carried,
		Limits: &limitsRecord{a.Limits.MaxRunning, a.Limits.Executors, a.Limits.Pools, duration(a.Limits.Grace), a.Limits.Remote, a.Limits.OthersApprove}}
	for _, step := range a.Steps {
		s, err := newStep(step)
		if err != nil {
			return r, err
		}
		r.Steps = append(r.Steps, s)
	}
	return r, nil
}

func newStep(step history.Step) (stepRecord, error) {
	facts, err := newFactsRecord(step.Facts)
	if err != nil {
		return stepRecord{}, err
	}
	s := stepRecord{Seen: seenNames.Name(step.Seen), Facts: facts}
	name, args, err := encodeVerb(step.Verb)
	if err != nil {
		return s, fmt.Errorf("verb %s: %w", name, err)
	}
	s.Verb = name
	if args != nil {
		s.Args = &verbArgs{of: args}
	}
	return s, nil
}

// account returns the account that r was made from. The error says what this version cannot read.
func (r accountRecord) account() (history.Account, error) {
	var d decoder
	a := history.Account{At: time.Time(r.At), Unjudged: r.Unjudged, Unreadable: r.Unreadable, ByFacts: r.ByFacts, Carried: r.Carried}
	a.Limits, d.err = r.Limits.limits()
	for _, s := range r.Steps {
		seen := history.SeenNear
		if s.Seen != "" {
			seen = parsed(&d, "steps.seen", s.Seen, seenNames.Parse)
		}
		verb, err := decodeVerb(s.Verb, s.Args.read())
		d.fail("steps."+s.Verb, err)
		facts, err := s.Facts.facts()
		d.fail("steps.facts", err)
		a.Steps = append(a.Steps, history.Step{Verb: verb, Facts: facts, Seen: seen})
	}
	return a, d.err
}

func newFactsRecord(f kernel.Facts) (*factsRecord, error) {
	var r factsRecord
	some := false
	for _, a := range sortedKeys(f.Present, compareArtifacts) {
		v := f.Present[a]
		r.Present, some = append(r.Present, presentFact{artifactRecord(a), v.Value, v.Err}), true
	}
	for _, a := range sortedKeys(f.Markers, compareArtifacts) {
		v := f.Markers[a]
		r.Markers, some = append(r.Markers, markersFact{artifactRecord(a), v.Value, v.Err}), true
	}
	for _, name := range sortedKeys(f.Heads, compareText[string]) {
		v := f.Heads[name]
		r.Heads, some = append(r.Heads, headFact{name, string(v.Value), v.Err}), true
	}
	for _, one := range []struct {
		f  kernel.Fact[string]
		to **textFact
	}{{f.Head, &r.Head}, {f.Merging, &r.Merging}} {
		if one.f.Known || one.f.Err != "" {
			*one.to, some = &textFact{one.f.Value, one.f.Err}, true
		}
	}
	if f.Clean.Known || f.Clean.Err != "" {
		r.Clean, some = &cleanFact{f.Clean.Value, f.Clean.Err}, true
	}
	if f.Sandbox.Known || f.Sandbox.Err != "" {
		r.Sandbox, some = &enforcementFact{f.Sandbox.Value.Files, f.Sandbox.Value.Network, f.Sandbox.Err}, true
	}
	for _, a := range sortedKeys(f.Runners, compareAttempts) {
		v := f.Runners[a].Value
		r.Runners, some = append(r.Runners, runnerFact{a.Job, a.N, livenessNames.Name(v.Liveness), v.Remark, optionalStamp(v.Heard), v.Late, v.Pending, v.Stuck}), true
	}
	for _, a := range sortedKeys(f.Results, compareAttempts) {
		v := f.Results[a]
		fact := resultFact{Job: a.Job, N: a.N, Error: v.Err}
		if v.Value != nil {
			var err error
			if fact.Result, err = encodeOutcome(*v.Value, nil); err != nil {
				return nil, err
			}
		}
		r.Results, some = append(r.Results, fact), true
	}
	if !some {
		return nil, nil
	}
	return &r, nil
}

// facts returns the facts of r; none if r is nil.
func (r *factsRecord) facts() (kernel.Facts, error) {
	if r == nil {
		return kernel.Facts{}, nil
	}
	f := kernel.NewFacts()
	var d decoder
	for _, p := range r.Present {
		f.Present[kernel.Artifact(p.Artifact)] = fact(p.Is, p.Error)
	}
	for _, m := range r.Markers {
		f.Markers[kernel.Artifact(m.Artifact)] = fact(m.Of, m.Error)
	}
	for _, h := range r.Heads {
		f.Heads[h.Branch] = fact(kernel.CommitID(h.OID), h.Error)
	}
	if r.Head != nil {
		f.Head = fact(r.Head.Is, r.Head.Error)
	}
	if r.Merging != nil {
		f.Merging = fact(r.Merging.Is, r.Merging.Error)
	}
	if r.Clean != nil {
		f.Clean = fact(r.Clean.Is, r.Clean.Error)
	}
	if r.Sandbox != nil {
		f.Sandbox = fact(kernel.Enforcement{Files: r.Sandbox.Files, Network: r.Sandbox.Network}, r.Sandbox.Error)
	}
	for _, v := range r.Runners {
		f.Runners[kernel.AttemptID{Job: v.Job, N: v.N}] = kernel.Seen(kernel.Runner{Liveness: parsed(&d, "runners.is", v.Is, livenessNames.Parse),
			Remark: v.Remark, Heard: stampValue(v.Heard), Late: v.Late, Pending: v.Pending, Stuck: v.Stuck})
	}
	for _, v := range r.Results {
		var result *kernel.Result
		if v.Result != nil {
			var err error
			result, err = decodeOutcome(v.Job, v.Result)
			d.fail("results", err)
		}
		f.Results[kernel.AttemptID{Job: v.Job, N: v.N}] = fact(result, v.Error)
	}
	return f, d.err
}

// fact is what was observed, or why it could not be.
func fact[T any](v T, err string) kernel.Fact[T] {
	if err != "" {
		return kernel.Unseen[T](err)
	}
	return kernel.Seen(v)
}

var errVerb = errors.New("this version does not know it")

package fs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// The arguments of verbs in the journal. Their names, and those of the verbs, never
// change.
type (
	jobsArgs struct { // submit, enqueue
		Jobs jobRecords `json:"jobs"`
		By   string     `json:"by,omitempty"`
	}
	approveArgs struct {
		Job    kernel.JobID `json:"job"`
		By     string       `json:"by"`
		How    string       `json:"how,omitempty"`
		Digest string       `json:"digest,omitempty"`
		Head   string       `json:"head,omitempty"`
	}
	rejectArgs struct {
		Job    kernel.JobID `json:"job"`
		By     string       `json:"by"`
		How    string       `json:"how,omitempty"`
		Reason string       `json:"reason,omitempty"`
	}
	cancelArgs struct {
		Jobs    []kernel.JobID `json:"jobs"`
		By      string         `json:"by"`
		Cleanup bool           `json:"cleanup,omitempty"`
		Runs    []kernel.RunID `json:"runs,omitempty"`
	}
	retryArgs struct {
		Job  kernel.JobID   `json:"job,omitempty"`  // the one
		Jobs []kernel.JobID `json:"jobs,omitempty"` // or several
		By   string         `json:"by"`
		Gone []string       `json:"gone,omitempty"`
	}
	finishArgs struct {
		Job    kernel.JobID    `json:"job"`
		Result json.RawMessage `json:"result"`
	}
	refuseArgs struct {
		Job   kernel.JobID `json:"job"`
		N     int          `json:"n"`
		Why   string       `json:"why"`
		Final bool         `json:"final,omitempty"`
	}
	cleanedUpArgs struct {
		Job     kernel.JobID  `json:"job"`
		Context contextRecord `json:"context"`
		Cancel  bool          `json:"cancel,omitempty"`
		Status  string        `json:"status"`
		Error   string        `json:"error,omitempty"`
	}
	tendedArgs struct {
		Job      kernel.JobID `json:"job"`
		Name     string       `json:"name"`
		Found    bool         `json:"found,omitempty"`
		Archived bool         `json:"archived,omitempty"`
	}
	oldArgs struct {
		Than      int64 `json:"than_ns"`
		Worktrees bool  `json:"worktrees,omitempty"`
	}
	cleaningArgs struct {
		Job       kernel.JobID   `json:"job,omitempty"`  // the one
		Jobs      []kernel.JobID `json:"jobs,omitempty"` // or several
		Force     bool           `json:"force,omitempty"`
		Worktrees bool           `json:"worktrees,omitempty"`
	}
	keepingArgs struct {
		Age   int64                  `json:"age_ns,omitempty"`
		Count int                    `json:"count,omitempty"`
		Bytes int64                  `json:"bytes,omitempty"`
		Sizes map[kernel.JobID]int64 `json:"sizes,omitempty"`
		Most  int                    `json:"most,omitempty"`
	}
)

// jobRecords are new jobs, encoded as the records that they become, except for the times.
type jobRecords iter.Seq[kernel.NewJob]

// MarshalJSONTo encodes one after another.
func (r jobRecords) MarshalJSONTo(to *jsontext.Encoder) error {
	var e recordEncoder
	err := to.WriteToken(jsontext.BeginArray)
	if err != nil {
		return err
	}
	for n := range r {
		b, err := e.encodeNew(n, time.Unix(0, 0))
		if err == nil {
			err = to.WriteValue(b)
		}
		if err != nil {
			return err
		}
	}
	return to.WriteToken(jsontext.EndArray)
}

func (r *jobRecords) UnmarshalJSON(b []byte) error {
	var records []json.RawMessage
	if err := json.Unmarshal(b, &records); err != nil {
		return err
	}
	news, err := readJobs(records)
	*r = jobRecords(slices.Values(news))
	return err
}

// condensed is a history.Submit whose jobs are encoded as in the cache.
type condensed struct {
	jobs [][]byte
	by   string
}

// Condense returns v for Explain. A submission of many jobs takes less room then.
func (t *Tx) Condense(v history.Verb) history.Verb {
	s, is := v.(history.Submit)
	if !is || len(s.Jobs) < 100 {
		return v
	}
	c := condensed{make([][]byte, len(s.Jobs)), s.By}
	var j kernel.Job
	for i, n := range s.Jobs {
		j = asJob(n)
		c.jobs[i] = encodeCachedJob(cachedJob{job: &j})
	}
	return c
}

func (c condensed) news(yield func(kernel.NewJob) bool) {
	k := cachedJob{job: new(kernel.Job)}
	for _, b := range c.jobs {
		*k.job = kernel.Job{}
		if err := k.decode(b); err != nil {
			panic("what was encoded a moment ago cannot be decoded") // the codec is wrong
		}
		if !yield(asNew(k.job)) {
			return
		}
	}
}

func (c condensed) whole() history.Submit {
	return history.Submit{Jobs: slices.Collect(c.news), By: c.by}
}

// Decide decides as history.Submit does.
func (c condensed) Decide(s *kernel.Snapshot) (kernel.Plan, error) { return c.whole().Decide(s) }

// Scope is the scope of history.Submit.
func (c condensed) Scope() kernel.Scope { return c.whole().Scope() }

// asJob returns a new job as a record has it; asNew is its inverse.
func asJob(n kernel.NewJob) kernel.Job {
	return kernel.Job{ID: n.ID, Rev: 1, Part: n.Part, Spec: n.Spec, State: kernel.State{Approval: n.Approval, Context: n.Context}}
}

func asNew(j *kernel.Job) kernel.NewJob {
	return kernel.NewJob{ID: j.ID, Spec: j.Spec, Approval: j.State.Approval, Context: j.State.Context, Part: j.Part}
}

// verbArgs are the arguments of a verb: as they were read, or of to be written.
type verbArgs struct {
	json.RawMessage
	of any
}

// MarshalJSONTo writes of.
func (a *verbArgs) MarshalJSONTo(e *jsontext.Encoder) error { return jsonv2.MarshalEncode(e, a.of) }

// read returns the arguments as they were read; nil if there were none.
func (a *verbArgs) read() json.RawMessage {
	if a == nil {
		return nil
	}
	return a.RawMessage
}

// encodeVerb returns the name and the arguments of a verb; nil if it has none.
func encodeVerb(v history.Verb) (name string, args any, err error) {
	switch v := v.(type) {
	case history.Tick:
		return "tick", nil, nil
	case history.Settle:
		return "settle", nil, nil
	case history.Number:
		return "number", nil, nil
	case history.Submit:
		return "submit", jobsArgs{jobRecords(slices.Values(v.Jobs)), v.By}, nil
	case condensed:
		return "submit", jobsArgs{v.news, v.by}, nil
	case history.Enqueue:
		return "enqueue", jobsArgs{Jobs: jobRecords(slices.Values(v.Jobs))}, nil
	case history.Approve:
		return "approve", approveArgs{v.Job, v.Consent.By, v.Consent.How, string(v.Consent.Digest), string(v.Consent.Head)}, nil
	case history.Reject:
		return "reject", rejectArgs(v), nil
	case history.Cancel:
		return "cancel", cancelArgs(v), nil
	case history.Retry:
		job, jobs := oneOrMore(v.Jobs)
		return "retry", retryArgs{job, jobs, v.By, v.Gone}, nil
	case history.Finish:
		b, err := encodeOutcome(v.Result, nil)
		return "finish", finishArgs{v.Result.Attempt.Job, b}, err
	case history.Refuse:
		return "refuse", refuseArgs{v.Attempt.Job, v.Attempt.N, v.Why, v.Final}, nil
	case history.CleanedUp:
		return "cleaned_up", cleanedUpArgs{v.Job, contextRecord(v.Context), v.Cancel, v.Cleanup.Status.String(), v.Cleanup.Error}, nil
	case history.Tended:
		return "tended", tendedArgs{v.Job, v.Name.String(), v.Found, v.Archived}, nil
	case retention.Old:
		return "gc", oldArgs{int64(v.Than), v.Worktrees}, nil
	case retention.Cleaning:
		job, jobs := oneOrMore(v.Jobs)
		return "clean", cleaningArgs{job, jobs, v.Force, v.Worktrees}, nil
	case retention.Keeping:
		return "keep", keepingArgs{int64(v.Policy.Age), v.Policy.Count, v.Policy.Bytes, v.Sizes, v.Most}, nil
	default:
		return fmt.Sprintf("%T", v), nil, errVerb
	}
}

// decodeVerb returns the verb of a name with its arguments.
func decodeVerb(name string, args json.RawMessage) (history.Verb, error) {
	switch name {
	case "tick":
		return history.Tick{}, nil
	case "settle":
		return history.Settle{}, nil
	case "number":
		return history.Number{}, nil
	case "submit", "enqueue":
		a, err := argsOf[jobsArgs](args)
		if err != nil {
			return nil, err
		}
		news := slices.Collect(iter.Seq[kernel.NewJob](a.Jobs))
		if name == "enqueue" {
			return history.Enqueue{Jobs: news}, nil
		}
		return history.Submit{Jobs: news, By: a.By}, nil
	case "approve":
		a, err := argsOf[approveArgs](args)
		return history.Approve{Job: a.Job, Consent: kernel.Consent{By: a.By, How: a.How, Digest: kernel.Digest(a.Digest), Head: kernel.CommitID(a.Head)}}, err
	case "reject":
		a, err := argsOf[rejectArgs](args)
		return history.Reject(a), err
	case "cancel":
		a, err := argsOf[cancelArgs](args)
		return history.Cancel(a), err
	case "retry":
		a, err := argsOf[retryArgs](args)
		return history.Retry{Jobs: oneOf(a.Job, a.Jobs), By: a.By, Gone: a.Gone}, err
	case "finish":
		a, err := argsOf[finishArgs](args)
		if err != nil {
			return nil, err
		}
		r, err := decodeOutcome(a.Job, a.Result)
		if err != nil {
			return nil, err
		}
		return history.Finish{Result: *r}, nil
	case "refuse":
		a, err := argsOf[refuseArgs](args)
		return history.Refuse{Attempt: kernel.AttemptID{Job: a.Job, N: a.N}, Why: a.Why, Final: a.Final}, err
	case "cleaned_up":
		a, err := argsOf[cleanedUpArgs](args)
		if err != nil {
			return nil, err
		}
		var d decoder
		status := parsed(&d, "status", a.Status, kernel.ParseCleanupStatus)
		return history.CleanedUp{Job: a.Job, Context: kernel.Context(a.Context), Cancel: a.Cancel, Cleanup: kernel.Cleanup{Status: status, Error: a.Error}}, d.err
	case "tended":
		a, err := argsOf[tendedArgs](args)
		if err != nil {
			return nil, err
		}
		var d decoder
		return history.Tended{Job: a.Job, Name: parsed(&d, "name", a.Name, kernel.ParsePromptName), Found: a.Found, Archived: a.Archived}, d.err
	case "gc":
		a, err := argsOf[oldArgs](args)
		return retention.Old{Than: time.Duration(a.Than), Worktrees: a.Worktrees}, err
	case "clean":
		a, err := argsOf[cleaningArgs](args)
		return retention.Cleaning{Jobs: oneOf(a.Job, a.Jobs), Force: a.Force, Worktrees: a.Worktrees}, err
	case "keep":
		a, err := argsOf[keepingArgs](args)
		return retention.Keeping{Policy: retention.Policy{Age: time.Duration(a.Age), Count: a.Count, Bytes: a.Bytes}, Sizes: a.Sizes, Most: a.Most}, err
	default:
		return nil, errVerb
	}
}

// oneOrMore returns jobs as arguments have them: a single one is a field of its own, as in
// earlier versions.
func oneOrMore(jobs []kernel.JobID) (kernel.JobID, []kernel.JobID) {
	if len(jobs) == 1 {
		return jobs[0], nil
	}
	return "", jobs
}

func oneOf(job kernel.JobID, jobs []kernel.JobID) []kernel.JobID {
	if job != "" {
		return []kernel.JobID{job}
	}
	return jobs
}

func argsOf[T any](b json.RawMessage) (v T, err error) {
	if err := fromJSON(b, &v); err != nil {
		return v, jsonError(err)
	}
	return v, nil
}

// newJobs returns new jobs encoded as the records that they become, with at as their
// time.
func newJobs(news []kernel.NewJob, at time.Time) (out []json.RawMessage, err error) {
	for _, n := range news {
		var e recordEncoder
		b, err := e.encodeNew(n, at)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func (e *recordEncoder) encodeNew(n kernel.NewJob, at time.Time) ([]byte, error) {
	j := asJob(n)
	j.Created = at
	return e.encode(&j, nil, at)
}

func readJobs(records []json.RawMessage) (out []kernel.NewJob, err error) {
	for _, b := range records {
		r, err := parseRecord(b)
		if err != nil {
			return nil, err
		}
		j, err := r.V.job()
		if err != nil {
			return nil, err
		}
		out = append(out, asNew(&j))
	}
	return out, nil
}

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(m), compare)
}

func compareText[T ~string](a, b T) int { return strings.Compare(string(a), string(b)) }

func compareAttempts(a, b kernel.AttemptID) int {
	return cmp.Or(compareText(a.Job, b.Job), cmp.Compare(a.N, b.N))
}

func compareArtifacts(a, b kernel.Artifact) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Ref, b.Ref))
}

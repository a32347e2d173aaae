package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vizier-scheduler/vizier/kernel"
)

// recordVersion is the format of job.json this program writes. It reads this
// one and every earlier one, and refuses a later one.
const recordVersion = 1

// stamp is a time as records hold it: RFC 3339, UTC, microseconds.
type stamp time.Time

const stampLayout = "2006-01-02T15:04:05.000000Z"

func (t stamp) MarshalJSONTo(e *jsontext.Encoder) error {
	if time.Time(t).IsZero() {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteValue(time.Time(t).UTC().AppendFormat(e.AvailableBuffer(), `"`+stampLayout+`"`))
}

func (t *stamp) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	return t.UnmarshalJSON(v)
}

func (t *stamp) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = stamp{}
		return nil
	}
	s, err := jsontext.AppendUnquote(nil, b)
	if err != nil {
		return fmt.Errorf("expected a time, found %.40s", b)
	}
	at, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil {
		return fmt.Errorf("%q is not an RFC 3339 time", s)
	}
	*t = stamp(at.UTC().Truncate(time.Microsecond))
	return nil
}

// The shapes of job.json. Names are those of the seeds where they have one;
// docs/formats/job.md says what each means.
type (
	record struct {
		Version       int               `json:"version"`
		ID            string            `json:"id"`
		Revision      uint64            `json:"revision"`
		Status        string            `json:"status"`
		State         string            `json:"state"`
		Name          string            `json:"name,omitzero"`
		Command       []string          `json:"command"`
		ChildArgs     []string          `json:"child_args"`
		CreatedAt     stamp             `json:"created_at"`
		UpdatedAt     stamp             `json:"updated_at"`
		StartedAt     stamp             `json:"started_at"`
		FinishedAt    stamp             `json:"finished_at"`
		ExitCode      *int              `json:"exit_code"`
		Attempt       int               `json:"attempt"`
		Generation    int               `json:"generation"`
		Retries       int               `json:"retries"`
		Resumes       int               `json:"resumes"`
		Reclaims      int               `json:"reclaims"`
		Rerouted      int               `json:"rerouted,omitzero"`
		RetryAt       stamp             `json:"retry_at"`
		Outcome       string            `json:"outcome,omitzero"`
		FailureClass  string            `json:"failure_class,omitzero"`
		FailureReason *string           `json:"failure_reason"`
		StdoutPath    string            `json:"stdout_path"`
		StderrPath    string            `json:"stderr_path"`
		OutcomePath   *string           `json:"outcome_path"`
		Stop          *stopRecord       `json:"stop,omitzero"`
		RemovedAt     *stamp            `json:"removed_at,omitzero"`
		Awake         bool              `json:"awake,omitzero"`
		Task          open[taskRecord]  `json:"task"`
		Again         open[againRecord] `json:"again"`
		Schedule      open[schedule]    `json:"schedule"`
		Metadata      open[metadata]    `json:"metadata"`
	}
	stopRecord struct {
		RequestedAt stamp  `json:"requested_at"`
		RequestedBy string `json:"requested_by"`
		Cleanup     bool   `json:"cleanup_worktree,omitzero"`
	}
	taskRecord struct {
		Executor string   `json:"executor,omitzero"`
		Builtin  bool     `json:"builtin,omitzero"`
		Dir      string   `json:"dir,omitzero"`
		Env      []string `json:"env,omitempty"`
		PassEnv  []string `json:"pass_env,omitempty"`
		Timeout  string   `json:"timeout,omitzero"`
		Grace    string   `json:"grace,omitzero"`
	}
	againRecord struct {
		MaxRetries  int      `json:"max_retries,omitzero"`
		MaxResumes  int      `json:"max_resumes,omitzero"`
		MaxReclaims int      `json:"max_reclaims,omitzero"`
		RetryOn     []string `json:"retry_on,omitempty"`
		RetryExits  []int    `json:"retry_exits,omitempty"`
		BackoffBase string   `json:"backoff_base,omitzero"`
		BackoffCap  string   `json:"backoff_cap,omitzero"`
		Resumable   bool     `json:"resumable,omitzero"`
		Idempotent  bool     `json:"idempotent,omitzero"`
	}
	schedule struct {
		After            []afterRecord        `json:"after"`
		Dependencies     []dependency         `json:"dependencies"`
		DependencyPolicy *dependencyPolicy    `json:"dependency_policy,omitzero"`
		Locks            []lockRecord         `json:"locks"`
		Artifacts        []artifactRecord     `json:"artifacts"`
		PinnedHead       *pinnedHead          `json:"pinned_head"`
		Preconditions    []preconditionRecord `json:"preconditions,omitempty"`
		Approval         *approvalRecord      `json:"approval,omitzero"`
		Routes           []routeRecord        `json:"routes,omitempty"`
		Routed           bool                 `json:"routed,omitzero"`
		OwnsContext      bool                 `json:"owns_context,omitzero"`
		Transient        string               `json:"transient,omitzero"`
		IdempotencyKey   string               `json:"idempotency_key,omitzero"`
		WaitReason       *waitRecord          `json:"wait_reason"`
		WaitSince        *stamp               `json:"wait_since,omitzero"`
		WaitedOn         []string             `json:"waited_on"`
	}
	afterRecord struct {
		JobID  string `json:"job_id"`
		Policy string `json:"policy"`
	}
	dependency struct {
		Artifact artifactRecord `json:"artifact"`
	}
	dependencyPolicy struct {
		MissingProducer string `json:"missing_producer"`
	}
	lockRecord struct {
		Key   string `json:"key"`
		Mode  string `json:"mode"`
		Units int    `json:"units,omitzero"`
	}
	pinnedHead struct {
		Branch string `json:"branch"`
		OID    string `json:"oid"`
	}
	preconditionRecord struct {
		Kind   string            `json:"kind"`
		ID     string            `json:"id,omitzero"`
		Branch string            `json:"branch,omitzero"`
		Args   map[string]string `json:"args,omitempty"`
	}
	approvalRecord struct {
		Required    bool    `json:"required"`
		State       string  `json:"state"`
		RequestedAt stamp   `json:"requested_at"`
		RequestedBy string  `json:"requested_by,omitzero"`
		DecidedAt   *stamp  `json:"decided_at,omitzero"`
		DecidedBy   string  `json:"decided_by,omitzero"`
		Reason      *string `json:"reason,omitzero"`
	}
	routeRecord struct {
		On     string `json:"on"`
		JobID  string `json:"job_id"`
		Budget int    `json:"budget,omitzero"`
	}
	waitRecord struct {
		Kind   string `json:"kind"`
		Detail string `json:"detail"`
	}
	metadata struct {
		CommandAlias  string   `json:"command_alias,omitzero"`
		Plan          string   `json:"plan,omitzero"`
		Branch        string   `json:"branch,omitzero"`
		Target        string   `json:"target,omitzero"`
		RunID         string   `json:"workflow_run_id,omitzero"`
		NodeID        string   `json:"workflow_node_id,omitzero"`
		NodeName      string   `json:"workflow_node_name,omitzero"`
		NodeAttempt   int      `json:"workflow_node_attempt,omitzero"`
		NodeOutcome   string   `json:"workflow_node_outcome,omitzero"`
		Selector      string   `json:"workflow_template_selector,omitzero"`
		TemplateID    string   `json:"workflow_template_id,omitzero"`
		TemplateVer   string   `json:"workflow_template_version,omitzero"`
		PolicyHash    string   `json:"workflow_policy_snapshot_hash,omitzero"`
		Class         string   `json:"workflow_executor_class,omitzero"`
		Operation     string   `json:"workflow_executor_operation,omitzero"`
		Control       string   `json:"workflow_control_policy,omitzero"`
		Gates         []string `json:"workflow_gates,omitempty"`
		Ephemeral     bool     `json:"ephemeral,omitzero"`
		ExecutionRoot string   `json:"execution_root,omitzero"`
		WorktreePath  string   `json:"worktree_path,omitzero"`
		WorktreeName  string   `json:"worktree_name,omitzero"`
		WorktreeOwned bool     `json:"worktree_owned,omitzero"`
		ContextBranch string   `json:"worktree_branch,omitzero"`
		CancelStatus  string   `json:"cancel_cleanup_status,omitzero"`
		CancelError   string   `json:"cancel_cleanup_error,omitzero"`
		RetryStatus   string   `json:"retry_cleanup_status,omitzero"`
		RetryError    string   `json:"retry_cleanup_error,omitzero"`
	}
)

// foreign is what a record holds besides what the kernel knows: kept as read
// and written back.
type foreign struct{ top, task, again, schedule, metadata map[string]json.RawMessage }

func (f *foreign) empty() bool {
	return f == nil || len(f.top)+len(f.task)+len(f.again)+len(f.schedule)+len(f.metadata) == 0
}

// errNewer is a record that a later version wrote.
var errNewer = errors.New("written by a newer vizier")

// decodeRecord reads the record of job id. It never panics, and its error says
// what is wrong in words.
func decodeRecord(id kernel.JobID, b []byte) (kernel.Job, *foreign, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return kernel.Job{}, nil, errors.New("the file is empty")
	}
	var r open[record]
	err := fromJSON(b, &r)
	version := r.V.Version
	if err != nil { // of a later format perhaps
		var head struct {
			Version int `json:"version"`
		}
		_ = json.Unmarshal(b, &head)
		version = head.Version
	}
	if version > recordVersion {
		return kernel.Job{}, nil, fmt.Errorf("record format %d, this program reads up to %d: %w", version, recordVersion, errNewer)
	}
	if err != nil {
		return kernel.Job{}, nil, jsonError(err)
	}
	if r.V.ID != string(id) {
		return kernel.Job{}, nil, fmt.Errorf("it says id %q, its directory says %q", r.V.ID, id)
	}
	j, err := r.V.job()
	if err != nil {
		return kernel.Job{}, nil, err
	}
	f := &foreign{r.Extra, r.V.Task.Extra, r.V.Again.Extra, r.V.Schedule.Extra, r.V.Metadata.Extra}
	if f.empty() {
		f = nil
	}
	return j, f, nil
}

// encodeRecord is job.json for j with the foreign fields f.
func encodeRecord(j *kernel.Job, f *foreign, now time.Time) ([]byte, error) {
	if err := writable(&j.Spec); err != nil {
		return nil, fmt.Errorf("encode record %s: %w", j.ID, err)
	}
	r := open[record]{V: newRecord(j, now)}
	if f != nil {
		r.Extra, r.V.Task.Extra, r.V.Again.Extra = f.top, f.task, f.again
		r.V.Schedule.Extra, r.V.Metadata.Extra = f.schedule, f.metadata
	}
	b, err := toJSON(r)
	if err != nil {
		return nil, fmt.Errorf("encode record %s: %w", j.ID, err)
	}
	if len(b) > maxRecord {
		return nil, fmt.Errorf("encode record %s: it has %d bytes, more than the %d that a record may have: %w", j.ID, len(b), maxRecord, kernel.ErrInvalid)
	}
	return b, nil
}

package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
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
	*t = stamp(kernel.Timestamp(at))
	return nil
}

// The shapes of job.json. Names are those of the seeds where they have one;
// docs/formats/job.md says what each means.
type (
	record struct {
		Version       int               `json:"version"`
		ID            string            `json:"id"`
		Revision      uint64            `json:"revision"`
		Number        uint64            `json:"number,omitempty"`
		Part          string            `json:"part,omitempty"`
		Status        string            `json:"status"`
		State         string            `json:"state"`
		Name          string            `json:"name,omitempty"`
		Command       []string          `json:"command"`
		ChildArgs     []string          `json:"child_args"`
		CreatedAt     stamp             `json:"created_at"`
		UpdatedAt     stamp             `json:"updated_at"`
		StartedAt     stamp             `json:"started_at"`
		FinishedAt    stamp             `json:"finished_at"`
		PID           *int              `json:"pid"`
		Host          string            `json:"host,omitempty"`
		Enforced      string            `json:"sandbox_enforced,omitempty"`
		Used          *usedRecord       `json:"used,omitempty"`
		ExitCode      *int              `json:"exit_code"`
		Attempt       int               `json:"attempt"`
		Generation    int               `json:"generation"`
		Retries       int               `json:"retries"`
		Resumes       int               `json:"resumes"`
		Reclaims      int               `json:"reclaims"`
		Grown         *grownRecord      `json:"grown,omitempty"`
		Rerouted      int               `json:"rerouted,omitempty"`
		Deferred      bool              `json:"routes_deferred,omitempty"`
		LostAttempt   int               `json:"lost_attempt,omitempty"`
		Stalled       int               `json:"stalled_attempt,omitempty"`
		Refused       int               `json:"refused,omitempty"`
		RetryAt       stamp             `json:"retry_at"`
		Outcome       string            `json:"outcome,omitempty"`
		FailureClass  string            `json:"failure_class,omitempty"`
		FailureReason *string           `json:"failure_reason"`
		StdoutPath    string            `json:"stdout_path"`
		StderrPath    string            `json:"stderr_path"`
		OutcomePath   *string           `json:"outcome_path"`
		Agent         *agentRecord      `json:"agent,omitempty"`
		AgentTotal    *agentTotal       `json:"agent_total,omitempty"`
		Configuration *configRecord     `json:"config_snapshot"` // for readers: decisions use the configuration in force
		Stop          *stopRecord       `json:"stop,omitempty"`
		RemovedAt     *stamp            `json:"removed_at,omitempty"`
		Awake         bool              `json:"awake,omitempty"`
		JobID         string            `json:"job_id,omitempty"`
		GitOwner      string            `json:"git_owner,omitempty"`
		RepoName      string            `json:"repo_name,omitempty"`
		BranchName    string            `json:"branch_name,omitempty"`
		InboxFile     string            `json:"inbox_file,omitempty"`
		InboxRel      string            `json:"inbox_rel,omitempty"`
		ProcessedPath *string           `json:"processed_path,omitempty"`
		ArchivedPath  *string           `json:"archived_path,omitempty"`
		Amended       *amendedRecord    `json:"amended,omitempty"`
		Task          open[taskRecord]  `json:"task"`
		Again         open[againRecord] `json:"again"`
		Schedule      open[schedule]    `json:"schedule"`
		Metadata      open[metadata]    `json:"metadata"`
	}
	grownRecord struct {
		Memory int `json:"memory,omitempty"`
		Time   int `json:"time,omitempty"`
	}
	usedRecord struct {
		CPU    string `json:"cpu,omitempty"`
		Memory int64  `json:"memory,omitempty"`
	}
	configRecord struct {
		MaxRunning int          `json:"max_running"`
		Pools      []poolRecord `json:"pools,omitempty"`
		Grace      string       `json:"grace,omitempty"`
	}
	poolRecord struct {
		Pool  string `json:"pool"`
		Units int    `json:"units"`
	}
	stopRecord struct {
		RequestedAt stamp  `json:"requested_at"`
		RequestedBy string `json:"requested_by"`
		Cleanup     bool   `json:"cleanup_worktree,omitempty"`
	}
	amendedRecord struct {
		Transient   string   `json:"transient"`
		MaxRetries  int      `json:"max_retries"`
		MaxResumes  int      `json:"max_resumes"`
		MaxReclaims int      `json:"max_reclaims"`
		RetryOn     []string `json:"retry_on,omitempty"`
		RetryExits  []int    `json:"retry_exits,omitempty"`
		BackoffBase string   `json:"backoff_base,omitempty"`
		BackoffCap  string   `json:"backoff_cap,omitempty"`
	}
	taskRecord struct {
		Executor string   `json:"executor,omitempty"`
		Options  []string `json:"options,omitempty"`
		Builtin  bool     `json:"builtin,omitempty"`
		Tree     string   `json:"worktree,omitempty"`
		Dir      string   `json:"dir,omitempty"`
		Env      []string `json:"env,omitempty"`
		PassEnv  []string `json:"pass_env,omitempty"`
		Secrets  []string `json:"secrets,omitempty"` // NAME=SOURCE
		Timeout  string   `json:"timeout,omitempty"`
		Grace    string   `json:"grace,omitempty"`

		Sandbox *sandboxRecord `json:"sandbox,omitempty"`

		Container string `json:"container,omitempty"`
	}
	sandboxRecord struct {
		Mode     string   `json:"mode"`
		Write    []string `json:"write,omitempty"`
		Network  string   `json:"network,omitempty"`
		ReadOnly bool     `json:"read_only,omitempty"`
	}
	againRecord struct {
		MaxRetries  int      `json:"max_retries,omitempty"`
		MaxResumes  int      `json:"max_resumes,omitempty"`
		MaxReclaims int      `json:"max_reclaims,omitempty"`
		RetryOn     []string `json:"retry_on,omitempty"`
		RetryExits  []int    `json:"retry_exits,omitempty"`
		BackoffBase string   `json:"backoff_base,omitempty"`
		BackoffCap  string   `json:"backoff_cap,omitempty"`
		Resumable   bool     `json:"resumable,omitempty"`
		Idempotent  bool     `json:"idempotent,omitempty"`
		KeepSession bool     `json:"keep_session,omitempty"`
		InDoubt     string   `json:"effect_in_doubt,omitempty"`
	}
	schedule struct {
		After            []afterRecord        `json:"after"`
		Dependencies     []dependency         `json:"dependencies"`
		DependencyPolicy *dependencyPolicy    `json:"dependency_policy,omitempty"`
		FailureMode      string               `json:"failure_mode,omitempty"`
		Locks            []lockRecord         `json:"locks"`
		Artifacts        []artifactRecord     `json:"artifacts"`
		ArtifactsOn      []productsRecord     `json:"artifacts_on,omitempty"`
		PinnedHead       *pinnedHead          `json:"pinned_head"`
		Preconditions    []preconditionRecord `json:"preconditions,omitempty"`
		ApprovalTimeout  string               `json:"approval_timeout,omitempty"`
		Estimate         string               `json:"estimate,omitempty"`
		Approval         *approvalRecord      `json:"approval,omitempty"`
		Routes           []routeRecord        `json:"routes,omitempty"`
		Routed           bool                 `json:"routed,omitempty"`
		OwnsContext      bool                 `json:"owns_context,omitempty"`
		Transient        string               `json:"transient,omitempty"`
		IdempotencyKey   string               `json:"idempotency_key,omitempty"`
		WaitReason       *waitRecord          `json:"wait_reason"`
		WaitSince        *stamp               `json:"wait_since,omitempty"`
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
		Units int    `json:"units,omitempty"`
	}
	pinnedHead struct {
		Branch string `json:"branch"`
		OID    string `json:"oid"`
	}
	preconditionRecord struct {
		Kind   string            `json:"kind"`
		ID     string            `json:"id,omitempty"`
		Branch string            `json:"branch,omitempty"`
		Args   map[string]string `json:"args,omitempty"`
	}
	approvalRecord struct {
		Required    bool    `json:"required"`
		State       string  `json:"state"`
		RequestedAt stamp   `json:"requested_at"`
		RequestedBy string  `json:"requested_by,omitempty"`
		DecidedAt   *stamp  `json:"decided_at,omitempty"`
		DecidedBy   string  `json:"decided_by,omitempty"`
		ExpiresAt   *stamp  `json:"expires_at,omitempty"`
		Reason      *string `json:"reason,omitempty"`
		InDoubt     bool    `json:"in_doubt,omitempty"`
		Submitter   string  `json:"submitter,omitempty"`
		RejectedHow string  `json:"rejected_how,omitempty"`
		Head        string  `json:"head,omitempty"`

		Grant *grantRecord `json:"grant,omitempty"`
	}
	grantRecord struct {
		How       string `json:"how,omitempty"`
		SHA256    string `json:"sha256"`
		Statement string `json:"statement,omitempty"`
	}
	productsRecord struct {
		On        string           `json:"on"`
		Artifacts []artifactRecord `json:"artifacts"`
	}
	routeRecord struct {
		On     string `json:"on"`
		JobID  string `json:"job_id"`
		Budget int    `json:"budget,omitempty"`
	}
	waitRecord struct {
		Kind     string          `json:"kind"`
		Detail   string          `json:"detail"`
		Cause    string          `json:"cause,omitempty"` // "": the record is older than causes
		JobID    string          `json:"job_id,omitempty"`
		Artifact *artifactRecord `json:"artifact,omitempty"`
	}
	metadata struct {
		Tags          map[string]string `json:"tags,omitempty"`
		CommandAlias  string            `json:"command_alias,omitempty"`
		Plan          string            `json:"plan,omitempty"`
		Branch        string            `json:"branch,omitempty"`
		Target        string            `json:"target,omitempty"`
		RunID         string            `json:"workflow_run_id,omitempty"`
		NodeID        string            `json:"workflow_node_id,omitempty"`
		NodeName      string            `json:"workflow_node_name,omitempty"`
		NodeAttempt   int               `json:"workflow_node_attempt,omitempty"`
		NodeOutcome   string            `json:"workflow_node_outcome,omitempty"`
		Selector      string            `json:"workflow_template_selector,omitempty"`
		TemplateID    string            `json:"workflow_template_id,omitempty"`
		TemplateVer   string            `json:"workflow_template_version,omitempty"`
		PolicyHash    string            `json:"workflow_policy_snapshot_hash,omitempty"`
		ManifestSHA   string            `json:"workflow_manifest_sha256,omitempty"`
		TraceParent   string            `json:"traceparent,omitempty"`
		Class         string            `json:"workflow_executor_class,omitempty"`
		Operation     string            `json:"workflow_executor_operation,omitempty"`
		Control       string            `json:"workflow_control_policy,omitempty"`
		Gates         []string          `json:"workflow_gates,omitempty"`
		Ephemeral     bool              `json:"ephemeral,omitempty"`
		Parent        string            `json:"submitted_by,omitempty"`
		ExecutionRoot string            `json:"execution_root,omitempty"`
		WorktreePath  string            `json:"worktree_path,omitempty"`
		WorktreeName  string            `json:"worktree_name,omitempty"`
		WorktreeOwned bool              `json:"worktree_owned,omitempty"`
		ContextBranch string            `json:"worktree_branch,omitempty"`
		CancelStatus  string            `json:"cancel_cleanup_status,omitempty"`
		CancelError   string            `json:"cancel_cleanup_error,omitempty"`
		RetryStatus   string            `json:"retry_cleanup_status,omitempty"`
		RetryError    string            `json:"retry_cleanup_error,omitempty"`
		LastFailure   string            `json:"last_failure,omitempty"`
		LastRetry     *stamp            `json:"last_retry,omitempty"`
		Reason        string            `json:"reason,omitempty"`
		SuccessNote   string            `json:"success_note,omitempty"`
		PromptName    string            `json:"prompt_name,omitempty"`
		PromptSHA     string            `json:"prompt_sha256,omitempty"`
		PromptInode   uint64            `json:"prompt_inode,omitempty"`
		ClaimedAt     *stamp            `json:"claimed_at,omitempty"`
		Archive       bool              `json:"failure_archive,omitempty"`
		Archived      bool              `json:"prompt_archived,omitempty"`
		Retired       bool              `json:"retired,omitempty"`
		Closed        bool              `json:"closed_plan,omitempty"`
	}
)

// foreign has the fields of a record that the kernel does not know. They are
// kept as read and written back.
type foreign struct{ top, task, again, schedule, metadata map[string]json.RawMessage }

func (f *foreign) empty() bool {
	return f == nil || len(f.top)+len(f.task)+len(f.again)+len(f.schedule)+len(f.metadata) == 0
}

// ErrNewer says that a newer version wrote something that this one cannot read.
var ErrNewer = errors.New("written by a newer vizier")

// decodeRecord reads the record of job id. It never panics, and its error says
// what is wrong in words.
func decodeRecord(id kernel.JobID, b []byte) (kernel.Job, *foreign, error) {
	r, err := parseRecord(b)
	if err != nil {
		return kernel.Job{}, nil, err
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

// parseRecord reads the fields of a record of any job.
func parseRecord(b []byte) (r open[record], err error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return r, errors.New("the file is empty")
	}
	err = fromJSON(b, &r)
	version := r.V.Version
	if err != nil { // perhaps it is of a later format
		var head struct {
			Version int `json:"version"`
		}
		_ = json.Unmarshal(b, &head)
		version = head.Version
	}
	if version > recordVersion {
		return r, fmt.Errorf("record format %d, this program reads up to %d: %w", version, recordVersion, ErrNewer)
	}
	if err != nil {
		return r, jsonError(err)
	}
	return r, nil
}

// Record returns job.json for j, written at now, without the fields of later versions
// that a stored record may have.
func Record(j *kernel.Job, now time.Time) ([]byte, error) { return encodeRecord(j, nil, now) }

// encodeRecord returns job.json for j, written at now, with the foreign fields f.
func encodeRecord(j *kernel.Job, f *foreign, now time.Time) ([]byte, error) {
	var e recordEncoder
	return e.encode(j, f, now)
}

// recordEncoder encodes records one after another.
type recordEncoder struct {
	r open[record]
	b bytes.Buffer
}

// encode is encodeRecord. The result is valid until the next call.
func (e *recordEncoder) encode(j *kernel.Job, f *foreign, now time.Time) ([]byte, error) {
	if err := writable(&j.Spec); err != nil {
		return nil, fmt.Errorf("encode record %s: %w", j.ID, err)
	}
	e.r = open[record]{V: newRecord(j, now)}
	if f != nil {
		e.r.Extra, e.r.V.Task.Extra, e.r.V.Again.Extra = f.top, f.task, f.again
		e.r.V.Schedule.Extra, e.r.V.Metadata.Extra = f.schedule, f.metadata
	}
	e.b.Reset()
	e.b.Grow(2 << 10)
	if err := jsonv2.MarshalWrite(&e.b, &e.r, layout); err != nil {
		return nil, fmt.Errorf("encode record %s: %w", j.ID, err)
	}
	e.b.WriteByte('\n')
	if size := e.b.Len(); size > maxRecord {
		return nil, fmt.Errorf("encode record %s: it has %d bytes, more than the %d that a record may have: %w", j.ID, size, maxRecord, kernel.ErrInvalid)
	}
	return e.b.Bytes(), nil
}

package op

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// payload is the data of a custom artifact that holds text, in the format of
// the original's files.
type payload struct {
	Type      string    `json:"type_id"`
	Key       string    `json:"key"`
	Text      string    `json:"text"`
	WrittenAt time.Time `json:"written_at"`

	*answered // set if an agent wrote it
}

// answered describes how an agent came to its answer.
type answered struct {
	Stderr     []string `json:"stderr"` // the end of it
	ExitCode   int      `json:"exit_code"`
	DurationMS int64    `json:"duration_ms"`
}

// outputSchema names the format of operationOutput.
const outputSchema = "vizier.operation_output.v1"

// operationOutput is a node's output and how the node ended, in the format of
// the original's files.
type operationOutput struct {
	Schema     string       `json:"schema"`
	Run        kernel.RunID `json:"run_id"`
	Job        kernel.JobID `json:"job_id"`
	Node       string       `json:"node_id"`
	Uses       string       `json:"uses"`
	Operation  string       `json:"executor_operation,omitempty"`
	Control    string       `json:"control_policy,omitempty"`
	Outcome    string       `json:"outcome"`
	ExitCode   int          `json:"exit_code"`
	Stdout     string       `json:"stdout_text"`
	Stderr     []string     `json:"stderr_lines"`
	StartedAt  time.Time    `json:"started_at"`
	FinishedAt time.Time    `json:"finished_at"`
	DurationMS int64        `json:"duration_ms"`
	Result     outputResult `json:"result"`
}

type outputResult struct {
	Summary  string            `json:"summary"`
	Written  []string          `json:"artifacts_written"`
	Payloads []string          `json:"payload_refs"` // artifacts that have a payload
	Metadata map[string]string `json:"metadata"`
}

// Bounds of the parts of a job's logs in a payload, in bytes, counted from
// their ends.
const (
	maxOutput = 1 << 20
	maxErrors = 64 << 10
)

// writeText stores text as n's payload for a.
func writeText(env *Env, n *Node, a kernel.Artifact, text string, by *answered) error {
	return writePayload(env, n, a, payload{a.Name, a.Ref, text, env.Now().UTC(), by})
}

func writePayload(env *Env, n *Node, a kernel.Artifact, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("payload of %s: %w", a, err)
	}
	return env.Files.WritePayload(n.Job.ID, a, append(data, '\n'))
}

// errorLines returns the last lines that the attempt wrote to its standard
// error.
func errorLines(env *Env, n *Node) ([]string, error) {
	text, err := env.Files.LogTail(n.Job.ID, "stderr", maxErrors)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	lines := []string{}
	for line := range strings.Lines(strings.ToValidUTF8(string(text), "\ufffd")) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines, nil
}

// writeOutput stores the output of n, which ended as r, as the payload of a.
func writeOutput(env *Env, n *Node, a kernel.Artifact, r Result) error {
	stdout, err := env.Files.LogTail(n.Job.ID, "stdout", maxOutput)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	stderr, err := errorLines(env, n)
	if err != nil {
		return err
	}
	began, now := n.Job.State.Started.UTC(), env.Now().UTC()
	out := operationOutput{Schema: outputSchema, Run: n.Manifest.Run, Job: n.Job.ID, Node: n.ManifestNode.Node, Uses: n.Uses, Operation: n.Operation, Control: n.Control,
		Outcome: r.Outcome.String(), ExitCode: r.Exit, Stdout: strings.ToValidUTF8(string(stdout), "\ufffd"), Stderr: stderr,
		StartedAt: began, FinishedAt: now, DurationMS: max(0, now.Sub(began).Milliseconds()),
		Result: outputResult{Summary: r.Reason, Written: []string{}, Payloads: []string{}, Metadata: map[string]string{}}}
	if c := r.Context; c != nil {
		out.Result.Metadata = map[string]string{"execution_root": c.Root, "worktree_path": c.Worktree, "worktree_name": c.Name, "worktree_branch": c.Branch}
	}
	for _, rec := range n.Artifacts[r.Outcome.String()] {
		p, err := rec.Artifact()
		if err != nil {
			return err
		}
		out.Result.Written = append(out.Result.Written, p.String())
		if _, err := env.Files.Payload(n.Job.ID, p); p.Kind == kernel.Custom && err == nil && p != a {
			out.Result.Payloads = append(out.Result.Payloads, p.String())
		}
	}
	return writePayload(env, n, a, out)
}

// readText returns the text of the newest payload of a that n can use.
func readText(env *Env, n *Node, a kernel.Artifact) (string, error) {
	producers, err := env.Files.Producers(&n.Job, a)
	if err != nil {
		return "", fmt.Errorf("producers of %s: %w", a, err)
	}
	for _, id := range producers {
		data, err := env.Files.Payload(id, a)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("payload of %s by job %s: %w", a, id, err)
		}
		text, err := TextOf(data)
		if err != nil {
			return "", &classed{kernel.DataError, fmt.Errorf("payload of %s by job %s: %w", a, id, err)}
		}
		return text, nil
	}
	return "", missingInput("%s has no payload: run the node that produces it again", a)
}

// TextOf returns the text in a payload. Other programs may have written it
// under one of the other names that the original accepts.
func TextOf(data []byte) (string, error) {
	type named struct {
		Text      *string `json:"text"`
		Stdout    *string `json:"stdout_text"`
		Assistant *string `json:"assistant_text"`
	}
	var p struct {
		named
		Payload named `json:"payload"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return "", err
	}
	for _, text := range []*string{p.Text, p.Stdout, p.Assistant, p.Payload.Text, p.Payload.Assistant} {
		if text != nil {
			return *text, nil
		}
	}
	return "", errors.New("it holds no text")
}

// customNeeds returns n's needs that are custom artifacts of a type.
func (n *Node) customNeeds(typeID string) ([]kernel.Artifact, error) {
	return customs(n.Needs, func(a kernel.Artifact) bool { return a.Name == typeID })
}

// customProducts returns the custom artifacts that n produces on success,
// without its output.
func (n *Node) customProducts() ([]kernel.Artifact, error) {
	return customs(n.Artifacts[kernel.OutcomeSucceeded.String()], func(a kernel.Artifact) bool { return a.Name != workflow.OperationOutput })
}

func customs[R interface {
	Artifact() (kernel.Artifact, error)
}](records []R, keep func(kernel.Artifact) bool) ([]kernel.Artifact, error) {
	var out []kernel.Artifact
	for _, r := range records {
		a, err := r.Artifact()
		if err != nil {
			return nil, &classed{kernel.DataError, err}
		}
		if a.Kind == kernel.Custom && keep(a) {
			out = append(out, a)
		}
	}
	return out, nil
}

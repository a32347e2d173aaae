package proc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// EndedError is the cause with which an attempt is ended if that has a failure
// class of its own: Timeout, by a limit set outside of this package, or
// Preempted.
type EndedError struct {
	Class  kernel.FailureClass
	Reason string
}

func (e *EndedError) Error() string { return e.Reason }

// Exit returns the exit code of an attempt that was ended with e.
func (e *EndedError) Exit() int {
	if e.Class == kernel.Timeout {
		return 124
	}
	return 143
}

// result returns the result of an attempt that was ended with e.
func (e *EndedError) result() kernel.Result {
	return kernel.Result{Outcome: kernel.OutcomeFailed, Exit: e.Exit(), Class: e.Class, Reason: e.Reason}
}

func stopped(ctx context.Context) kernel.Result {
	if e, ok := errors.AsType[*EndedError](context.Cause(ctx)); ok {
		return e.result()
	}
	return kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Reason: context.Cause(ctx).Error()}
}

// classify returns the result of a command that ended by itself.
func classify(status syscall.WaitStatus, killsBefore uint64) kernel.Result {
	if !status.Signaled() {
		code := status.ExitStatus()
		if code == 0 {
			return kernel.Result{Outcome: kernel.OutcomeSucceeded}
		}
		return kernel.Result{Outcome: kernel.OutcomeFailed, Exit: code, Class: kernel.ExitFailure, Reason: "exit code " + strconv.Itoa(code)}
	}
	sig := status.Signal()
	name := unix.SignalName(sig)
	if name == "" {
		name = strconv.Itoa(int(sig))
	}
	r := kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 128 + int(sig), Class: kernel.Signal, Reason: "ended by signal " + name}
	if sig == syscall.SIGKILL && oomKills() > killsBefore {
		r.Class, r.Reason = kernel.OutOfMemory, r.Reason+": out of memory"
	}
	return r
}

func customOf(artifacts []kernel.Artifact) []kernel.Artifact {
	var custom []kernel.Artifact
	for _, a := range artifacts {
		if a.Kind == kernel.Custom {
			custom = append(custom, a)
		}
	}
	return custom
}

// resultLimit is the maximum size of a result file, in bytes.
const resultLimit = 1 << 20

// explicitResult is the content of a result file. Fields that are left out are
// taken from the command's exit.
type explicitResult struct {
	Attempt  string    `json:"attempt"` // JOB/N; a result of another attempt does not count
	Outcome  string    `json:"outcome"`
	Exit     *int      `json:"exit"`
	Class    string    `json:"class"`
	Reason   *string   `json:"reason"`
	Produced *[]string `json:"produced"` // labels of custom artifacts the job declares
	Context  *struct {
		Root     string `json:"execution_root"`
		Worktree string `json:"worktree_path"`
		Name     string `json:"worktree_name"`
		Branch   string `json:"worktree_branch"`
		Owned    bool   `json:"worktree_owned"`
	} `json:"context"` // only from a builtin command: where its run continues
	Agent   *kernel.AgentRun `json:"agent"`   // likewise: what its agent reported
	Sandbox *string          `json:"sandbox"` // likewise: what was enforced for what it started
}

// unreadable reports whether err says that the system did not give or take what a
// command says, because of permissions, the disk or a directory on the way. That may
// pass. What can be read and makes no sense stays so, and so does a link, a pipe or a
// directory in the place of the file: the command put it there.
func unreadable(err error) bool {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, sys.ErrNotRegular) {
		return false
	}
	no, system := errors.AsType[syscall.Errno](err)
	return system && no != syscall.EFBIG // the limit on the size of files is that of this process
}

// untilReadable calls f until it returns something else than an unreadable error, or
// ctx ends. The attempt of a command that did its work must not fail for a reason that
// may pass. Alive tells why it waits.
func untilReadable(ctx context.Context, f func() error) error { return repeat(ctx, unreadable, f) }

// noRoom reports whether err says that the disk is full.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// repeat calls f until passing does not hold for its error, or ctx ends.
func repeat(ctx context.Context, passing func(error) bool, f func() error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := f()
		if !passing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// explicit returns r with the corrections in the result file at path. It waits while
// the file is unreadable. A malformed file fails the attempt, because it is not known
// what the command wanted to say.
func explicit(ctx context.Context, path string, j *kernel.Job, r kernel.Result) kernel.Result {
	var b []byte
	err := untilReadable(ctx, func() (err error) {
		b, err = readResult(path)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	if err == nil && len(b) == 0 { // the file was created for a command that left no result
		return r
	}
	var e explicitResult
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err = d.Decode(&e); err == nil && d.Decode(&struct{}{}) != io.EOF {
			err = errors.New("more than one value")
		}
	}
	if err == nil {
		err = exactKeys(b)
	}
	if err == nil && e.Attempt != "" && e.Attempt != label(j.Attempt()) {
		return r
	}
	said := r
	if err == nil {
		said, err = e.override(r, j)
	}
	if err != nil {
		return badResult(r, err)
	}
	return said
}

// exactKeys fails for a key of a result in another case than its own, which encoding/json takes too.
func exactKeys(result []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(result, &keys); err != nil {
		return err
	}
	for key := range keys {
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return fmt.Errorf("json: unknown field %q", key)
		}
	}
	return nil
}

// badResult returns the result of a command whose result file is invalid.
func badResult(r kernel.Result, err error) kernel.Result {
	reason := "result file ($" + envResultFile + "): " + kernel.Said(err) + `; expected JSON such as {"outcome":"failed","class":"exit","reason":"no disk"}`
	return kernel.Result{Outcome: kernel.OutcomeFailed, Exit: max(r.Exit, 1), Class: kernel.DataError, Reason: reason}
}

func readResult(path string) ([]byte, error) {
	f, err := sys.OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, resultLimit+1))
	if err == nil && len(b) > resultLimit {
		err = fmt.Errorf("longer than %d bytes", resultLimit)
	}
	return b, err
}

func (e explicitResult) override(r kernel.Result, j *kernel.Job) (kernel.Result, error) {
	var err error
	switch {
	case e.Outcome != "":
		if r.Outcome, err = kernel.ParseOutcome(e.Outcome); err != nil {
			return r, err
		}
	case e.Class != "" || e.Exit != nil && *e.Exit != 0:
		r.Outcome = kernel.OutcomeFailed
	}
	if e.Class != "" {
		if r.Class, err = kernel.ParseFailureClass(e.Class); err != nil {
			return r, err
		}
	}
	if e.Exit != nil {
		if r.Exit = *e.Exit; r.Exit < 0 || r.Exit > 255 {
			return r, fmt.Errorf("exit %d: expected 0 to 255", r.Exit)
		}
	}
	if e.Reason != nil {
		r.Reason = *e.Reason
	}
	if e.Context != nil {
		if !j.Spec.Task.Builtin {
			return r, errors.New("context: only a workflow node has one")
		}
		r.Context = (*kernel.Context)(e.Context)
	}
	if e.Agent != nil {
		if !j.Spec.Task.Builtin {
			return r, errors.New("agent: only a workflow node asks one")
		}
		r.Agent = e.Agent
	}
	if e.Sandbox != nil {
		if !j.Spec.Task.Builtin {
			return r, errors.New("sandbox: only a workflow node puts what it starts into one")
		}
		r.Place.Sandbox = *e.Sandbox
	}
	switch r.Outcome {
	case kernel.OutcomeFailed:
		r.Exit = max(r.Exit, 1)
		if r.Class == kernel.NoFailure {
			r.Class = kernel.ExitFailure
		}
	case kernel.OutcomeBlocked:
		r.Exit = cmp.Or(r.Exit, 10)
	case kernel.OutcomeCancelled:
		r.Exit = cmp.Or(r.Exit, 143)
	case kernel.OutcomeSucceeded:
		if e.Class != "" {
			return r, fmt.Errorf("class %q of an attempt that succeeded", e.Class)
		}
		r.Produced = customOf(j.Spec.Produces)
		if e.Reason == nil {
			r.Reason = ""
		}
	case kernel.NoOutcome: // not returned by the parser
	}
	if r.Outcome != kernel.OutcomeSucceeded {
		r.Produced = nil
	}
	if r.Outcome != kernel.OutcomeFailed && e.Class == "" {
		r.Class = kernel.NoFailure
	}
	if e.Produced != nil {
		r.Produced, err = declared(*e.Produced, j.Spec.Produces)
	}
	return r, err
}

// declared returns the custom artifacts with these labels. It fails for one
// that the job does not declare.
func declared(labels []string, produces []kernel.Artifact) ([]kernel.Artifact, error) {
	var all []kernel.Artifact
	for _, s := range labels {
		a, err := kernel.ParseArtifact(s)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(produces, func(p kernel.Artifact) bool { return p.Canonical() == a }) {
			return nil, fmt.Errorf("produced %q: the job does not declare it", s)
		}
		all = append(all, a)
	}
	return customOf(all), nil
}

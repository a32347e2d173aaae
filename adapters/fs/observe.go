package fs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// Observe answers the probes of files: markers of custom artifacts, conflict
// sentinels, patches and the results of running attempts. Without a store,
// nothing exists.
func (s *Store) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	closed := s.open(false)
	for _, a := range p.Markers {
		f.Markers[a] = factOf(closed, func() kernel.Fact[[]kernel.JobID] { return s.markers(a) })
	}
	for _, a := range p.Artifacts {
		if a.Kind == kernel.MergeSentinel || a.Kind == kernel.CommandPatch {
			f.Present[a] = factOf(closed, func() kernel.Fact[bool] { return s.artifact(a) })
		}
	}
	for _, a := range p.Attempts {
		f.Results[a] = factOf(closed, func() kernel.Fact[*kernel.Result] { return s.result(a) })
	}
}

// factOf returns what look finds. closed is the error of opening the store: without a
// store nothing exists, and with any other error nothing is known.
func factOf[T any](closed error, look func() kernel.Fact[T]) kernel.Fact[T] {
	var none T
	switch {
	case closed == nil:
		return look()
	case errors.Is(closed, iofs.ErrNotExist):
		return kernel.Seen(none)
	default:
		return kernel.Unseen[T](closed.Error())
	}
}

// artifact reports whether a sentinel or a patch exists.
func (s *Store) artifact(a kernel.Artifact) kernel.Fact[bool] {
	if a.Kind == kernel.CommandPatch {
		if !kernel.ValidJobID(a.Name) {
			return kernel.Seen(false)
		}
		return s.present(jobPath(kernel.JobID(a.Name), patchName))
	}
	name, err := sentinelFile(a.Name)
	if err != nil {
		return kernel.Unseen[bool](err.Error())
	}
	return s.present(name)
}

func (s *Store) present(name string) kernel.Fact[bool] {
	found, err := s.base.exists(name)
	if err != nil {
		return kernel.Unseen[bool](err.Error())
	}
	return kernel.Seen(found)
}

func (s *Store) markers(a kernel.Artifact) kernel.Fact[[]kernel.JobID] {
	dir := artifactDir(markersDir, a)
	at, err := s.base.open(dir)
	switch {
	case errors.Is(err, iofs.ErrNotExist), // as most often, since many jobs may wait for artifacts: one call
		errors.Is(err, unix.ENOTDIR) && !s.base.behindLink(dir):
		return kernel.Seen[[]kernel.JobID](nil)
	case err != nil: // a link may lead to artifacts
		return kernel.Unseen[[]kernel.JobID](err.Error())
	}
	defer at.close()
	names, err := at.names(".")
	if err != nil {
		return kernel.Unseen[[]kernel.JobID](err.Error())
	}
	var ids []kernel.JobID
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, ".json"); ok && kernel.ValidJobID(id) {
			ids = append(ids, kernel.JobID(id))
		}
	}
	return kernel.Seen(ids)
}

// result returns a's outcome on record. A file that can be read and has no outcome
// counts as none: the runner was lost. A file that cannot be read, or that a newer
// program wrote, may have one.
func (s *Store) result(a kernel.AttemptID) kernel.Fact[*kernel.Result] {
	if !kernel.ValidJobID(string(a.Job)) {
		return kernel.Unseen[*kernel.Result](fmt.Sprintf("job id %q is none", a.Job))
	}
	var damage error
	for _, name := range []string{outcomeName, attemptOutcome(a.N)} {
		r, err := s.outcome(a.Job, name)
		switch {
		case errors.Is(err, errDamaged):
			damage = err
		case err != nil:
			return kernel.Unseen[*kernel.Result](err.Error())
		case r != nil && r.Attempt == a:
			return kernel.Seen(r)
		}
	}
	lost := kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost, Reason: "its runner ended without a result"}
	var err error
	if lost.Applied, err = s.applied(a); err == nil {
		lost.Agent, err = s.agentRunOf(a)
	}
	if err != nil {
		return kernel.Unseen[*kernel.Result](err.Error())
	}
	if damage != nil {
		lost.Reason = "its runner ended, and its result is damaged: " + damage.Error()
	}
	if damage == nil && !lost.Applied && lost.Agent == nil {
		return kernel.Seen[*kernel.Result](nil)
	}
	if lost.Applied {
		lost.Reason += "; what it did is on record"
	}
	return kernel.Seen(&lost)
}

// agentRunOf returns what the agent of an attempt of a workflow node reported before the
// attempt ended; nil: nothing.
func (s *Store) agentRunOf(a kernel.AttemptID) (*kernel.AgentRun, error) {
	b, err := s.readJobFile(a.Job, fmt.Sprintf("%s/%d.result.json", attemptsDir, a.N), maxRecord)
	if err != nil {
		return nil, ifUnread(err)
	}
	var left struct {
		Attempt string           `json:"attempt"`
		Agent   *kernel.AgentRun `json:"agent"`
	}
	if json.Unmarshal(b, &left) != nil || left.Agent == nil || left.Attempt != fmt.Sprintf("%s/%d", a.Job, a.N) {
		return nil, nil
	}
	if j, err := s.Job(a.Job); err != nil || !j.Spec.Task.Builtin { // its command may have written anything there
		return nil, ifUnread(err)
	}
	return left.Agent, nil
}

// Applied reports that the attempt's effect is on record as made, however the
// attempt ended.
func (s *Store) Applied(a kernel.AttemptID) bool {
	yes, _ := s.applied(a) // what cannot be read shows nothing
	return yes
}

// applied is Applied for those who must know whether nothing could be read. A damaged record shows nothing.
func (s *Store) applied(a kernel.AttemptID) (bool, error) {
	if !kernel.ValidJobID(string(a.Job)) {
		return false, nil
	}
	effects, err := s.Effects(a.Job)
	yes := slices.ContainsFunc(effects, func(e effect.Record) bool {
		return e.Attempt == a.N && e.Part == "" && e.State != effect.Intended
	})
	if yes {
		return true, nil
	}
	return false, ifUnread(err)
}

// errDamaged says that a file can be read and has invalid content.
var errDamaged = errors.New("damaged")

// outcome reads how an attempt ended from a file of the job; nil: there is no such
// file.
func (s *Store) outcome(id kernel.JobID, name string) (*kernel.Result, error) {
	b, err := s.readJobFile(id, name, maxRecord)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	r, err := decodeOutcome(id, b)
	if err == nil {
		return r, nil
	}
	path := filepath.Join(vizierDir, s.fileOf(id, name))
	if errors.Is(err, ErrNewer) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return nil, fmt.Errorf("%s: %w (%w)", path, err, errDamaged)
}

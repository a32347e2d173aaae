package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// maxPayload bounds the data of an artifact: an agent's whole answer fits.
const maxPayload = 64 << 20

// WritePayload stores the data of a custom artifact that job produces. It
// counts once the artifact's marker exists.
func (s *Store) WritePayload(job kernel.JobID, a kernel.Artifact, data []byte) error {
	if a.Kind != kernel.Custom || !kernel.ValidJobID(string(job)) {
		return fmt.Errorf("payload of %s for %s: %w", a, job, kernel.ErrInvalid)
	}
	return s.put(artifactFile(payloadsDir, a, job), data)
}

// put writes a file and the directories above it, durably if the store is durable.
func (s *Store) put(name string, data []byte) error {
	if err := s.open(true); err != nil {
		return err
	}
	parent, err := s.base.make(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.close()
	return parent.write(path.Base(name), data, s.opts.Durable)
}

// Payload returns the data that job stored for a; kernel.ErrNotFound if there is none.
func (s *Store) Payload(job kernel.JobID, a kernel.Artifact) ([]byte, error) {
	if err := s.open(false); err != nil {
		return nil, err
	}
	if !kernel.ValidJobID(string(job)) {
		return nil, fmt.Errorf("payload of %s by %s: %w", a, job, kernel.ErrInvalid)
	}
	b, err := s.base.read(artifactFile(payloadsDir, a, job), maxPayload)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, kernel.Missing{What: fmt.Sprintf("payload of %s by %s", a, job)}
	}
	return b, err
}

// Producers returns the jobs whose marker makes a exist for consumer, newest
// first. If any of them is of the consumer's run, only those of that run count
// (semantics 3.8).
func (s *Store) Producers(consumer *kernel.Job, a kernel.Artifact) ([]kernel.JobID, error) {
	if err := s.open(false); err != nil {
		return nil, err
	}
	f := s.markers(a)
	if f.Err != "" {
		return nil, errors.New(f.Err)
	}
	slices.SortFunc(f.Value, func(a, b kernel.JobID) int { return strings.Compare(string(b), string(a)) })
	run := consumer.Spec.Origin.Run
	if run == "" {
		return f.Value, nil
	}
	var own []kernel.JobID
	for _, id := range f.Value {
		if j, _, err := s.readRecord(id); err == nil && j.Spec.Origin.Run == run {
			own = append(own, id)
		}
	}
	if len(own) > 0 {
		return own, nil
	}
	return f.Value, nil
}

// WritePatch stores a job's patch.
func (s *Store) WritePatch(job kernel.JobID, data []byte) error {
	if !kernel.ValidJobID(string(job)) {
		return fmt.Errorf("patch of job %q: %w", job, kernel.ErrInvalid)
	}
	return s.put(jobPath(job, patchName), data)
}

// WriteNoInput leaves NO_INPUT.md in a job's directory.
func (s *Store) WriteNoInput(job kernel.JobID, reason string) error {
	if !kernel.ValidJobID(string(job)) {
		return fmt.Errorf("note for job %q: %w", job, kernel.ErrInvalid)
	}
	return s.put(jobPath(job, noInputName), []byte("# Nothing to work on\n\nJob "+string(job)+" ended without doing anything: "+reason+"\n"))
}

// WriteSentinel marks a merge conflict of a plan as open.
func (s *Store) WriteSentinel(slug string, data []byte) error {
	name, err := sentinelFile(slug)
	if err != nil {
		return err
	}
	return s.put(name, data)
}

// Sentinel returns the mark of a plan's open merge conflict; nil: there is none.
func (s *Store) Sentinel(slug string) ([]byte, error) {
	name, err := sentinelFile(slug)
	if err != nil {
		return nil, err
	}
	if err := s.open(false); err != nil {
		return nil, err
	}
	b, err := s.base.read(name, maxRecord)
	if ignoreMissing(err) == nil && err != nil {
		return nil, nil
	}
	return b, err
}

// ClearSentinel removes the mark of an open merge conflict.
func (s *Store) ClearSentinel(slug string) error {
	name, err := sentinelFile(slug)
	if err != nil {
		return err
	}
	if err := s.open(false); err != nil {
		return err
	}
	return s.base.remove(name)
}

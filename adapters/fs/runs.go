package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// FollowRun notes that somebody waits for a run's end. Until each follower has closed its result or its process
// has ended, nobody clears the run away.
func (s *Store) FollowRun(id kernel.RunID) (io.Closer, error) {
	name, err := runFile(id)
	if err != nil {
		return nil, err
	}
	name = followedFile(name)
	for {
		f, err := s.followed(name)
		if err != nil {
			return nil, fmt.Errorf("follow run %s: %w", id, err)
		}
		stays, err := s.isThere(f, name)
		if stays {
			return following{f, func() error { return s.base.remove(name) }}, nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("follow run %s: %w", id, err)
		}
	}
}

// isThere reports whether f is still the file of that name: the last follower removes it.
func (s *Store) isThere(f *os.File, name string) (bool, error) {
	now, err := s.base.file(name, os.O_RDONLY)
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer now.Close()
	here, err := f.Stat()
	there, err2 := now.Stat()
	return err == nil && err2 == nil && os.SameFile(here, there), errors.Join(err, err2)
}

// followed opens the file of a run that is followed, and takes a follower's lock.
func (s *Store) followed(name string) (*os.File, error) {
	if err := s.open(true); err != nil {
		return nil, err
	}
	parent, err := s.base.make(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer parent.close()
	f, err := parent.file(path.Base(name), os.O_RDWR|os.O_CREATE)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH)
	}
	if err != nil && f != nil {
		err = errors.Join(err, f.Close())
	}
	return f, err
}

type following struct {
	*os.File
	remove func() error
}

// Close ends the following of the run.
func (f following) Close() (err error) {
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil { // nobody else follows it
		err = f.remove()
	}
	return errors.Join(err, f.File.Close())
}

// Followed reports that somebody still follows the run.
func (s *Store) Followed(id kernel.RunID) bool {
	name, err := runFile(id)
	if err != nil || s.open(false) != nil {
		return false
	}
	f, err := s.base.file(followedFile(name), os.O_RDWR)
	if err != nil {
		return !errors.Is(err, iofs.ErrNotExist)
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

// PlanStates returns how many state records there are of the plans that these jobs
// made, and with drop removes them. It leaves files that it cannot read.
func (s *Store) PlanStates(jobs []kernel.JobID, drop bool) (int, error) {
	refs := map[string]bool{}
	for _, id := range jobs {
		refs["workflow-job:"+string(id)] = true
	}
	n, err := s.matching(planStatesDir, drop, func(data []byte) bool {
		var plan struct {
			WorkRef string `json:"work_ref"`
		}
		return json.Unmarshal(data, &plan) == nil && refs[plan.WorkRef]
	})
	if err != nil {
		err = fmt.Errorf("plan states: %w", err)
	}
	return n, err
}

// DropConflicts removes the marks of open merge conflicts of these jobs. It leaves
// files that it cannot read.
func (s *Store) DropConflicts(jobs []kernel.JobID) error {
	_, err := s.matching(sentinelsDir, true, func(data []byte) bool {
		var mark struct {
			Job kernel.JobID `json:"job_id"`
		}
		return json.Unmarshal(data, &mark) == nil && slices.Contains(jobs, mark.Job)
	})
	if err != nil {
		err = fmt.Errorf("drop the marks of merge conflicts: %w", err)
	}
	return err
}

// DropConflict removes the mark of a plan's open merge conflict, unless a job of another run than
// of's made it. It is no error if there is none.
func (s *Store) DropConflict(slug string, of *kernel.Job) error {
	data, err := s.Sentinel(slug)
	if err != nil || data == nil {
		return err
	}
	var mark struct {
		Job kernel.JobID `json:"job_id"`
		Run kernel.RunID `json:"run_id"`
	}
	if json.Unmarshal(data, &mark) == nil && mark.Job != of.ID && (mark.Run == "" || mark.Run != of.Spec.Origin.Run) {
		return nil
	}
	return s.ClearSentinel(slug)
}

// matching returns how many JSON files of a directory match, and with drop removes
// them.
func (s *Store) matching(dir string, drop bool, matches func(data []byte) bool) (int, error) {
	if err := s.open(false); err != nil {
		return 0, ignoreMissing(err)
	}
	d, err := s.base.open(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer d.close()
	names, err := d.names(".")
	if err != nil {
		return 0, err
	}
	found := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		if data, err := d.read(name, maxRecord); err != nil || !matches(data) {
			continue
		}
		if drop {
			if err := d.remove(name); err != nil {
				return found, err
			}
		}
		found++
	}
	return found, nil
}

// CountArtifacts returns how many markers and payloads of a job's artifacts exist.
func (s *Store) CountArtifacts(id kernel.JobID, produces []kernel.Artifact) (markers, payloads int) {
	if s.open(false) != nil {
		return 0, 0
	}
	for _, a := range produces {
		if a.Kind != kernel.Custom {
			continue
		}
		if ok, err := s.base.exists(artifactFile(markersDir, a, id)); ok && err == nil {
			markers++
		}
		if ok, err := s.base.exists(artifactFile(payloadsDir, a, id)); ok && err == nil {
			payloads++
		}
	}
	return markers, payloads
}

// Run reads a run's manifest.
func (s *Store) Run(id kernel.RunID) ([]byte, error) {
	name, err := runFile(id)
	if err != nil {
		return nil, err
	}
	if err := s.open(false); err != nil {
		return nil, err
	}
	b, err := s.base.read(name, maxPayload)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, kernel.Missing{What: "run " + string(id)}
	}
	return b, err
}

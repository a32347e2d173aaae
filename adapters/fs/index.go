package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/vizier-scheduler/vizier/kernel"
)

// index is what a process knows of the records it read or wrote.
type index struct {
	jobs map[kernel.JobID]known
}

type known struct {
	job     kernel.Job
	foreign *foreign
}

// load reads the records of scope.
func (s *Store) load(scope kernel.Scope) (kernel.Records, error) {
	ids, err := s.jobIDs()
	if err != nil {
		return kernel.Records{}, fmt.Errorf("list jobs: %w", err)
	}
	rec := kernel.Records{Jobs: make([]kernel.Job, 0, len(ids)), Unreadable: map[kernel.JobID]string{}}
	s.warm = index{jobs: make(map[kernel.JobID]known, len(ids))}
	for _, id := range ids {
		j, f, err := s.readRecord(id)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
		case err != nil:
			rec.Unreadable[id] = describeUnreadable(err)
		default:
			s.warm.jobs[id] = known{j, f}
			rec.Jobs = append(rec.Jobs, j)
		}
	}
	return rec, nil
}

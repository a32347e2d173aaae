package fs

import (
	"errors"
	iofs "io/fs"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// lastNumber is the last number that was given. It is a file of its own, written
// with the plan that gives it, so that the removal of a job frees none. Where the
// file is missing or makes no sense, the jobs may have none yet.
func (s *Store) lastNumber() (last kernel.Number, unnumbered bool, err error) {
	if s.base == nil { // it is a copy in memory
		return 0, false, nil
	}
	b, err := s.base.read(numberFile, 64)
	if errors.Is(err, iofs.ErrNotExist) {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return kernel.Number(n), err != nil, nil
}

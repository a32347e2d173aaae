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
type lastNumber struct {
	is         kernel.Number
	unnumbered bool
}

// lastNumber is read once in a transaction, and anew after what that commits.
func (s *Store) lastNumber() (lastNumber, error) {
	if s.tx == nil {
		return s.readLastNumber()
	}
	if s.tx.last == nil {
		n, err := s.readLastNumber()
		if err != nil {
			return n, err
		}
		s.tx.last = &n
	}
	return *s.tx.last, nil
}

func (s *Store) readLastNumber() (lastNumber, error) {
	if s.base == nil { // it is a copy in memory
		return lastNumber{}, nil
	}
	b, err := s.base.read(numberFile, 64)
	if errors.Is(err, iofs.ErrNotExist) {
		return lastNumber{unnumbered: true}, nil
	}
	if err != nil {
		return lastNumber{}, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return lastNumber{kernel.Number(n), err != nil}, nil
}

package fs

import (
	"errors"
	iofs "io/fs"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// lastNumber is the last number that a job got. It is in a file of its own, written
// with the plan that gives it, so that removing a job frees no number. If the file is
// missing or damaged, unnumbered is true: there may be jobs without a number.
type lastNumber struct {
	is         kernel.Number
	unnumbered bool
}

// lastNumber returns the last number. A transaction reads it once, and again after a commit.
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

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
// missing, damaged or behind the records, unnumbered is true: there may be jobs without a
// number, and the last one follows from the records.
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
	b, err := s.base.read(numberFile, maxRecord)
	if errors.Is(err, iofs.ErrNotExist) {
		return lastNumber{unnumbered: true}, nil
	}
	if err != nil {
		return lastNumber{}, s.obstruction(err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 63)
	if err != nil {
		return lastNumber{unnumbered: true}, nil
	}
	last := lastNumber{is: kernel.Number(n)}
	err = s.cache.kv.each(keyOf(keyNumber, (last.is+1).String()), func(string, []byte) bool { // the file was put back
		last.unnumbered = true
		return false
	})
	return last, err
}

//go:build !linux || portable

package joblog

import (
	"errors"
	"os"
)

// Reopen always fails: on this system nothing can be cut out of a file that
// another process appends to, so logs grow without bound.
func Reopen(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func firstData(source) (int64, error) { return 0, nil }

func blockSize(*os.File) (int64, error) { return 0, errors.ErrUnsupported }

func drop(*os.File, int64) error { return errors.ErrUnsupported }
